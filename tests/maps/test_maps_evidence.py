"""Evidence from tables: an oracle that goes down from the root in loops, laws, and the same answer by every route."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from degroot.consultation.consult import AnswerBuffer, Opinion, Panel, conclude_in_blocks
from degroot.exceptions import InvalidInput
from degroot.maps import CollectedMaps, EvidenceMap, MapSettings, evidence_at
from degroot.maps.evidence import LEAST_COUNT, SAMPLING, VARIATION, nearest_moments, positive, split_by_agent
from degroot.maps.table import UNIT, sum_rows
from degroot.rules.evidence import ERRORS, MOMENTS, NOTHING
from degroot.rules.rules import RULES, RuleSettings

NAMES = ("north", "south", "west", "east")
CHOSEN = MapSettings(((0.0, 1.0), (0.0, 1.0)), 1.0, 4000, 1.0, trees=2, depth=2)
POINTS = np.random.default_rng(9).uniform(size=(7, 2))

few = settings(max_examples=20, deadline=None)
seeds = st.integers(0, 2**32 - 1)


def draw_maps(seed=0, names=NAMES, noise=0.0, n=400, spread=0.4, chosen=CHOSEN):
    """Maps whose noise, for once, is numpy's: a seed decides it."""
    random, maps = np.random.default_rng(seed), []
    size = spread * (1.0 + np.arange(len(names)))
    for i, owner in enumerate(names):
        others = [j for j in range(len(names)) if j != i]
        X = random.uniform(size=(n, 2))
        residuals = size[others] * (random.normal(size=(n, len(others))) + random.normal(size=(n, 1)))
        table = sum_rows(X, residuals, chosen, len(others))
        table += np.rint(noise * UNIT * random.normal(size=table.shape)).astype(np.int64)
        models = tuple((names[j], "1") for j in others)
        maps.append(EvidenceMap(owner, models, "0" * 32, chosen, noise * UNIT, table))
    return maps


def root(estimate, variance):
    return 0.5 * (estimate + math.sqrt(estimate**2 + 4.0 * variance))


def estimate_in_loops(maps, names, point):
    """The second moment of every pair of models at one point, from the root to the cell."""
    trees, K = CollectedMaps.collect(maps, names).trees, len(names)
    cells, depth, found = trees.find_cells(point[None])[:, 0], CHOSEN.depth, {}
    for level in range(depth + 1):
        below, now = depth - level, {}
        for j in range(K):
            for k in range(j + 1):
                count = total = count_noise = sum_noise = 0.0
                for each in maps:
                    scored = [name for name, _ in each.models]
                    if names[j] not in scored or names[k] not in scored:
                        continue
                    a, b = sorted([scored.index(names[j]), scored.index(names[k])], reverse=True)
                    for tree, cell in enumerate(cells):
                        inside = [c for c in range(2**depth) if c >> below == cell >> below]
                        count += each.counts()[tree, inside].sum() / len(cells)
                        total += each.sums()[tree, inside, a * (a + 1) // 2 + b].sum() / len(cells)
                    count_noise += each.count_noise**2 * 2**below
                    sum_noise += each.sum_noise**2 * 2**below
                count = root(count, count_noise + LEAST_COUNT**2)
                now[j, k] = total / count, sum_noise / count**2, count
        for (j, k), (said, noise, count) in now.items():
            if level:
                before, noise_before = found[level - 1, j, k]
                product = found[level - 1, j, j][0] * found[level - 1, k, k][0]
                signal = VARIATION**2 * product
                share = signal / (signal + noise + SAMPLING * product / count)
                said = share * said + (1.0 - share) * before
                noise = share**2 * noise + (1.0 - share) ** 2 * noise_before
            found[level, j, k] = (root(said, noise) if j == k else said), noise
    return {(j, k): found[depth, j, k][0] for j in range(K) for k in range(j + 1)}


@few
@given(seeds, st.sampled_from([0.0, 5.0, 100.0]))
def test_moments_are_those_of_going_down_every_tree(seed, noise):
    maps, names = draw_maps(seed, NAMES[:3], noise), NAMES[:3]
    told = CollectedMaps.collect(maps, names)
    local = told._estimate(told.trees.find_cells(POINTS[:2]))
    for m, point in enumerate(POINTS[:2]):
        for (j, k), value in estimate_in_loops(maps, names, point).items():
            assert local.moments[m, j * (j + 1) // 2 + k] == pytest.approx(value, rel=1e-6, abs=1e-9)


def test_without_noise_and_with_many_rows_moments_are_those_of_the_rows():
    names = NAMES[:3]
    maps = draw_maps(3, names, n=20_000, spread=0.1)
    size = 0.1 * np.array([1.0, 2.0, 3.0])
    expected = np.outer(size, size) * (1.0 + np.eye(3))
    gram, _ = evidence_at(maps, POINTS, MOMENTS, names).pooled
    np.testing.assert_allclose(gram, np.broadcast_to(expected, gram.shape), rtol=0.15)
    errors = evidence_at(maps, POINTS, ERRORS, names).errors
    np.testing.assert_allclose(errors, np.broadcast_to(2.0 * size**2, errors.shape), rtol=0.15)


@few
@given(seeds, st.sampled_from([0.0, 1.0, 30.0, 1e4, 1e9]))
def test_evidence_is_what_rules_take_whatever_the_noise(seed, noise):
    told = CollectedMaps.collect(draw_maps(seed, noise=noise, n=50), NAMES)
    for name, rule in RULES.items():
        evidence = told.at(POINTS, rule.uses)
        assert (evidence.errors > 0.0).all(), name
        if evidence.pooled is not None:
            gram, rows = evidence.pooled
            assert (np.linalg.eigvalsh(gram) > 0.0).all()
            assert (rows > 0.0).all()
        weights = rule.weights(evidence)
        assert (weights >= 0.0).all()
        np.testing.assert_allclose(weights.sum(axis=1), 1.0)
        assert np.isfinite(rule.values_without(evidence, np.ones((len(POINTS), 4)))).all()


@few
@given(seeds, st.permutations(range(4)))
def test_the_order_of_members_changes_nothing(seed, order):
    maps = draw_maps(seed, noise=3.0)
    names = tuple(NAMES[i] for i in order)
    for rule in ("stacking", "degroot"):
        uses = RULES[rule].uses
        one, other = (RULES[rule].weights(evidence_at(maps, POINTS, uses, each)) for each in (NAMES, names))
        np.testing.assert_allclose(one[:, list(order)], other, rtol=1e-5, atol=1e-7)


def test_a_great_noise_leaves_equal_weights_and_none_tells_models_apart():
    for rule in ("stacking", "degroot"):
        clear = RULES[rule].weights(evidence_at(draw_maps(), POINTS, RULES[rule].uses, NAMES))
        assert (clear.argmax(axis=1) == 0).all()  # the first model has the least errors
        assert (clear[:, 0] > 0.4).all()
    noisy = evidence_at([replace(each, noise_scale=1e12 * UNIT) for each in draw_maps()], POINTS, ERRORS, NAMES)
    np.testing.assert_allclose(RULES["degroot"].weights(noisy), 0.25, rtol=1e-3)


def test_opinions_of_all_members_give_the_same_answer_as_the_rule():
    beliefs = np.random.default_rng(1).normal(size=(40, 4, 1))
    X = np.random.default_rng(2).uniform(size=(40, 2))
    told = CollectedMaps.collect(draw_maps(noise=2.0), NAMES)
    for rule in ("stacking", "degroot", "average"):
        panel = Panel(NAMES, None, RuleSettings(rule, RULES[rule].reach))
        evidence = told.at(X, RULES[rule].uses)
        opinions = [Opinion(beliefs[:, i], each) for i, each in enumerate(split_by_agent(evidence))]
        names = ["value", "weights", "standard_error"]
        buffer = AnswerBuffer.allocate(panel, names, 40)
        conclude_in_blocks(opinions, panel, panel.make_question(names), buffer)
        weights = RULES[rule].weights(evidence)
        np.testing.assert_allclose(buffer.fields["weights"], weights, atol=1e-9)
        np.testing.assert_allclose(buffer.fields["value"], (weights[..., None] * beliefs).sum(axis=1), atol=1e-9)
        assert (buffer.fields["standard_error"] >= 0.0).all()


def test_many_points_are_as_few():
    told = CollectedMaps.collect(draw_maps(noise=1.0), NAMES)
    X = np.random.default_rng(3).uniform(size=(5000, 2))
    for uses in (ERRORS, MOMENTS, NOTHING):
        whole, part = told.at(X, uses), told.at(X[4000:4010], uses)
        np.testing.assert_allclose(whole.errors[4000:4010], part.errors)
        assert len(told.at(X[:0], uses).errors) == 0


@pytest.mark.parametrize("uses", [ERRORS, MOMENTS])
def test_tables_are_read_once_however_many_questions_there_are(monkeypatch, uses):
    told, read = CollectedMaps.collect(draw_maps(noise=1.0), NAMES), []
    for name in ("counts", "sums"):
        method = getattr(EvidenceMap, name)
        monkeypatch.setattr(EvidenceMap, name, lambda each, method=method: read.append(each) or method(each))
    told.at(POINTS[:0], uses)
    after_none = len(read)
    first, again = told.at(POINTS, uses), told.at(POINTS, uses)
    assert len(read) == after_none > 0
    np.testing.assert_array_equal(first.errors, again.errors)


def test_whoever_published_nothing_is_judged_by_the_others():
    told = CollectedMaps.collect(draw_maps()[:3], NAMES)
    errors = told.at(POINTS, ERRORS).errors
    assert errors.shape == (7, 4, 4)
    silent, common = errors[:, 3], told._estimate(told.trees.find_cells(POINTS)).moments[:, [0, 2, 5, 9]]
    np.testing.assert_allclose(silent, common)
    np.testing.assert_allclose(errors[:, 0, 0], common[:, 0])  # nobody scores its own model


def test_two_members_are_refused():
    with pytest.raises(InvalidInput, match=r"at least 3 members, .*; there are 2"):
        CollectedMaps.collect(draw_maps(), NAMES[:2])


def test_pairs_without_a_third_party_are_refused():
    with pytest.raises(InvalidInput, match="A third member's map must score the models of 'south' and 'north'; none"):
        CollectedMaps.collect(draw_maps(names=NAMES[:3])[:2], NAMES[:3])


@pytest.mark.parametrize("changed", [{"seed": 1}, {"residual_bound": 2.0}, {"ranges": ((0.0, 2.0), (0.0, 1.0))}])
def test_maps_over_other_cells_are_refused(changed):
    maps = draw_maps()
    maps[1] = replace(maps[1], settings=replace(CHOSEN, **changed))
    with pytest.raises(InvalidInput, match="must have the same ranges"):
        CollectedMaps.collect(maps)


def test_maps_may_differ_in_epsilon_and_rows():
    maps = draw_maps()
    maps[1] = replace(maps[1], settings=replace(CHOSEN, epsilon=8.0, rows=9000, delta=1e-7))
    assert CollectedMaps.collect(maps).names == tuple(sorted(NAMES))


@given(st.floats(-1e6, 1e6), st.floats(0.0, 1e6))
def test_a_positive_estimate_is_the_root_and_at_least_what_came(estimate, variance):
    found = float(positive(np.array(estimate), variance))
    assert found > 0.0
    assert found >= estimate - 1e-12 * abs(estimate)
    if found > 1e-300 and variance > 1e-12:
        assert found - variance / found == pytest.approx(estimate, rel=1e-6, abs=1e-6 * max(1.0, found))


@few
@given(seeds)
def test_nearest_moments_keep_the_diagonal_and_what_is_positive_definite(seed):
    random = np.random.default_rng(seed)
    low = np.tril_indices(3)
    rough = random.normal(size=(3, 3)) + 2.0 * np.eye(3)
    good = rough @ rough.T + 0.1 * np.eye(3)
    found = nearest_moments(good[low][None], 3)[0]
    np.testing.assert_allclose(found, good, rtol=0.02, atol=0.02 * good.max())
    bad = np.array([[1.0, 5.0, 4.0, -9.0, 0.0, 9.0]])
    np.testing.assert_allclose(np.diagonal(nearest_moments(bad, 3)[0]), [1.0, 4.0, 9.0])
