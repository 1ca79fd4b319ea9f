"""Candidates on the asker's own rows: against plain loops over rows; without a model, against its never having been."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from support import asker_oracle as oracle

from degroot.asker import FEW_ROWS, OwnRows, list_candidates
from degroot.asker.candidates import without_model
from degroot.neighbourhoods import KERNELS, METRICS
from degroot.rules.evidence import NeighbourhoodSpec
from degroot.rules.rules import RULES, RuleSettings

KINDS = ("independent", "together", "biased", "one constant", "constant", "one perfect", "perfect", "copies", "numbers")


def residuals_of(kind, n, Q, K, source):
    """Residuals (n, Q, K) of a kind."""
    own = source.normal(size=(n, Q, K))
    if kind == "together":
        own += 2 * source.normal(size=(n, Q, 1))
    if kind == "biased":
        own += 3 * source.normal(size=(1, Q, K))
    if kind == "one constant":
        own[..., 0] = source.normal()
    if kind == "constant":
        own[:] = source.normal(size=(1, Q, K))
    if kind == "one perfect":
        own[..., -1] = 0.0
    if kind == "perfect":
        own[:] = 0.0
    if kind == "copies":
        own[..., -1] = own[..., 0]
    return source.integers(-1, 2, size=own.shape).astype(float) if kind == "numbers" else own


def settings_of(rule, neighbours=None, kernel=None, ridge=None):
    return RuleSettings(rule, RULES[rule].reach).as_set(neighbours, kernel, ridge)


@st.composite
def cases(draw, least_models=1):
    """Rows on a grid, so that many are equally far and some are the same, residuals, and points among them."""
    source = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, Q = draw(st.sampled_from([1, 2, 3, 5, 12, 19, 23, 49, 50, 70, 110])), draw(st.sampled_from([1, 3]))
    K = draw(st.integers(least_models, 4))
    rows = source.integers(-4, 5, size=(n, 2)).astype(float)
    points = source.integers(-9, 10, size=(2, 2)) / 2.0
    residuals = residuals_of(draw(st.sampled_from(KINDS)), n, Q, K, source)
    return rows, residuals, points, int(source.integers(K)), draw(st.sampled_from(sorted(RULES)))


def form_of(w, matrix):
    return w @ matrix @ w


def rounding_chooses(gram, shrinkage, noise):
    """Whether the best weights of a singular form are others once its entries move as far as rounding moves them.

    noise : (K, K), by how much each entry may be off.
    """
    values = np.linalg.eigvalsh(oracle.penalised(gram, shrinkage))
    if values[0] >= 1e-9 * values[-1] or (np.diag(gram) == 0.0).any():
        return False
    moves = np.random.default_rng(0).uniform(-1.0, 1.0, size=(8, *gram.shape))
    best = oracle.least_form(gram, shrinkage)
    others = [oracle.least_form(gram + noise * (each + each.T) / 2, shrinkage) for each in moves]
    return np.abs(np.array(others) - best).max() > 1e-9


def assert_least(w, matrix, bound, name):
    """No weights on the simplex have a lesser form: neither those of the oracle nor those that SciPy gets to."""
    K = len(w)
    sum_to_1 = {"type": "eq", "fun": lambda w: w.sum() - 1}
    for start in (w, np.full(K, 1 / K)):
        solved = minimize(
            lambda w: form_of(w, matrix), start, jac=lambda w: 2 * matrix @ w, method="SLSQP", bounds=[(0, 1)] * K,
            constraints=[sum_to_1], options={"ftol": 1e-30, "maxiter": 200},
        ).x.clip(0.0)  # fmt: skip
        assert form_of(w, matrix) <= form_of(solved / solved.sum(), matrix) + bound, name


def assert_as_the_oracle(found, expected, names, problems, residuals):
    """Weights and shifts of all candidates at one point are those of the oracle.

    Where rounding chooses among weights, what is law: they are on the simplex, their form is the least, and the shift
    is that of these weights. A sum of n products is off by at most about n times the machine's precision, of entries
    as large as the largest residuals allow.
    """
    weights, shifts = found
    assert set(expected) == set(names)
    n, Q, _ = residuals.shape
    roots = np.sqrt(Q) * np.abs(residuals).max(axis=(0, 1))
    precision = (n + 10) * np.finfo(float).eps
    for c, name in enumerate(names):
        right, shift = expected[name]
        if name in problems:
            gram, shrinkage, biases = problems[name]
            matrix = oracle.penalised(gram, shrinkage)
            bound = 2 * precision * ((weights[c] @ roots) ** 2 + (right @ roots) ** 2)
            assert abs(form_of(weights[c], matrix) - form_of(right, matrix)) <= bound, name
            assert_allclose(shifts[c], biases.T @ weights[c], atol=1e-12 * max(1.0, roots.max()), err_msg=name)
            if rounding_chooses(gram, shrinkage, precision * np.outer(roots, roots)):
                assert_least(weights[c], matrix, bound, name)
                continue
        assert_allclose(weights[c], right, atol=1e-8, err_msg=name)
        assert_allclose(shifts[c], shift, atol=1e-8, err_msg=name)


OPPOSITE = (  # the first and the third model err alike with opposite signs, the second by a constant: rounding chooses
    np.array([[-4.0, 4.0], [1.0, -4.0]]),
    np.array([[[-1.0, -1.0, 1.0, 1.0]], [[1.0, -1.0, -1.0, 0.0]]]),
    np.array([[2.0, -3.0], [-0.5, -1.5]]),
    0,
    "trust-average",
)


@settings(max_examples=80)
@given(cases(least_models=2))
@example(OPPOSITE)
def test_weights_and_shifts_are_those_of_the_formulas(case):
    rows, residuals, points, own, rule = case
    candidates = list_candidates(settings_of(rule), len(rows), residuals.shape[2])
    weights, shifts = OwnRows(rows, residuals, own, "euclidean").weigh(candidates, points)
    assert (weights >= 0).all()
    assert_allclose(weights.sum(axis=-1), 1, atol=1e-12)
    for m, point in enumerate(points):
        expected = oracle.candidates_at(rows, residuals, own, point, rule=rule)
        problems = oracle.problems_at(rows, residuals, point, rule=rule)
        names = [each.name for each in candidates]
        assert_as_the_oracle((weights[:, m], shifts[:, m]), expected, names, problems, residuals)


@settings(max_examples=40)
@given(cases(least_models=2), st.data())
def test_without_a_model_is_as_if_it_had_never_been(case, data):
    rows, residuals, points, own, rule = case
    K = residuals.shape[2]
    j = data.draw(st.integers(0, K - 1))
    keep = [k for k in range(K) if k != j]
    candidates = without_model(list_candidates(settings_of(rule), len(rows), K), j, own)
    weights, shifts = OwnRows(rows, residuals, own, "euclidean").weigh(candidates, points, without=j)
    assert (weights >= 0).all()
    assert_allclose(weights.sum(axis=-1), 1, atol=1e-12)
    assert (weights[..., j] == 0).all()
    place = None if j == own else keep.index(own)
    for m, point in enumerate(points):
        expected = oracle.candidates_at(rows, residuals[..., keep], place, point, rule=rule)
        problems = oracle.problems_at(rows, residuals[..., keep], point, rule=rule)
        names = [each.name for each in candidates]
        assert_as_the_oracle((weights[:, m][:, keep], shifts[:, m]), expected, names, problems, residuals[..., keep])


@pytest.mark.parametrize("rule", sorted(RULES))
@pytest.mark.parametrize("own", [0, 2])
def test_relabelling_models_relabels_their_weights(rule, own):
    source = np.random.default_rng(own)
    rows, residuals, points = source.normal(size=(60, 3)), source.normal(size=(60, 2, 5)), source.normal(size=(4, 3))
    order = source.permutation(5)
    candidates = list_candidates(settings_of(rule), 60, 5)
    weights, shifts = OwnRows(rows, residuals, own, "euclidean").weigh(candidates, points)
    place = int(np.flatnonzero(order == own)[0])
    other_weights, other_shifts = OwnRows(rows, residuals[..., order], place, "euclidean").weigh(candidates, points)
    assert_allclose(other_weights, weights[..., order], atol=1e-10)
    assert_allclose(other_shifts, shifts, atol=1e-10)


@pytest.mark.parametrize("rule", ["stacking", "degroot"])
@pytest.mark.parametrize("metric", sorted(METRICS))
@pytest.mark.parametrize("kernel", sorted(KERNELS))
@pytest.mark.parametrize(("neighbours", "ridge"), [(7, 0.3), (0.4, 5.0)])
def test_settings_of_the_rule_are_those_of_its_local_candidate(rule, metric, kernel, neighbours, ridge):
    source = np.random.default_rng(5)
    rows, residuals, points = source.normal(size=(60, 2)), source.normal(size=(60, 1, 3)), source.normal(size=(3, 2))
    candidates = list_candidates(settings_of(rule, neighbours, kernel, ridge), 60, 3)
    weights, shifts = OwnRows(rows, residuals, 1, metric).weigh(candidates, points)
    for m, point in enumerate(points):
        expected = oracle.candidates_at(
            rows, residuals, 1, point, rule=rule, neighbours=neighbours, kernel=kernel, ridge=ridge, metric=metric
        )
        problems = oracle.problems_at(
            rows, residuals, point, rule=rule, neighbours=neighbours, kernel=kernel, ridge=ridge, metric=metric
        )
        names = [each.name for each in candidates]
        assert_as_the_oracle((weights[:, m], shifts[:, m]), expected, names, problems, residuals)


def test_there_are_problems_whose_weights_rounding_chooses():
    rows, residuals, points, _, rule = OPPOSITE
    roots = np.abs(residuals).max(axis=(0, 1))
    noise = 12 * np.finfo(float).eps * np.outer(roots, roots)
    problems = oracle.problems_at(rows, residuals, points[0], rule=rule)
    chosen = {name for name, (gram, shrinkage, _) in problems.items() if rounding_chooses(gram, shrinkage, noise)}
    assert {"locally centred, 15 %", "locally centred, 40 %"} <= chosen
    assert not {"local stacking", "global stacking"} & chosen


def test_every_stacked_weight_is_the_least_that_a_general_solver_finds():
    source = np.random.default_rng(6)
    rows, residuals = source.normal(size=(45, 2)), source.normal(size=(45, 1, 4)) + source.normal(size=(45, 1, 1))
    point = np.zeros(2)
    candidates = list_candidates(settings_of("stacking"), 45, 4)
    weights, _ = OwnRows(rows, residuals, 0, "euclidean").weigh(candidates, point[None])
    problems = oracle.problems_at(rows, residuals, point)
    for c, each in enumerate(candidates):
        if each.name in problems:
            gram, shrinkage, _ = problems[each.name]
            form = oracle.penalised(gram, shrinkage)
            sum_to_1 = {"type": "eq", "fun": lambda w: w.sum() - 1}
            solved = minimize(
                lambda w, form=form: w @ form @ w, np.full(4, 0.25), jac=lambda w, form=form: 2 * form @ w,
                method="SLSQP", bounds=[(0, 1)] * 4, constraints=[sum_to_1], options={"ftol": 1e-14, "maxiter": 500},
            )  # fmt: skip
            assert solved.success
            assert_allclose(weights[c, 0], solved.x, atol=1e-5, err_msg=each.name)


# -- which there are ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", sorted(RULES))
def test_one_model_alone_is_the_only_candidate(rule):
    assert [each.name for each in list_candidates(settings_of(rule), 100, 1)] == ["own"]


@pytest.mark.parametrize(
    ("rule", "row"),
    [("degroot", "trust row"), ("trust-average", "trust row"), ("error-average", "trust row"),
     ("average", "equal weights"), ("stacking", None)],
)  # fmt: skip
def test_the_rule_selects_its_local_candidate(rule, row):
    always = {"own", "local stacking", "centred", "locally centred, 15 %", "locally centred, 40 %"}
    names = {each.name for each in list_candidates(settings_of(rule), FEW_ROWS, 3)}
    assert names == always | ({row} if row else set())
    few = {each.name for each in list_candidates(settings_of(rule), FEW_ROWS - 1, 3)}
    assert few - names == {"global stacking", "inverse error"} | (set() if rule == "average" else {"average"})
    assert {each.name for each in list_candidates(settings_of(rule), FEW_ROWS, 3, classes=True)} == few


def test_without_the_own_model_it_is_no_candidate():
    candidates = list_candidates(settings_of("stacking"), 100, 3)
    assert [each.name for each in without_model(candidates, 1, own=1)] == [each.name for each in candidates[1:]]
    assert without_model(candidates, 0, own=1) == list(candidates)
    alone = list_candidates(settings_of("stacking"), 1, 1)  # of an asker with a single row: nothing can be compared
    assert [each.name for each in without_model(alone, 1, own=1)] == ["average"]


# -- laws --------------------------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(cases(least_models=2), st.sampled_from([2.0**-20, 4.0, -1.0, 2.0**20]))
def test_units_of_the_labels_do_not_matter(case, factor):
    """Factors are powers of 2, which round nothing: where a model errs by a constant its variance is rounding alone."""
    rows, residuals, points, own, rule = case
    candidates = list_candidates(settings_of(rule), len(rows), residuals.shape[2])
    weights, shifts = OwnRows(rows, residuals, own, "euclidean").weigh(candidates, points)
    scaled, scaled_shifts = OwnRows(rows, factor * residuals, own, "euclidean").weigh(candidates, points)
    assert_allclose(scaled, weights, atol=1e-8)
    assert_allclose(scaled_shifts / factor, shifts, atol=1e-8)


def test_what_was_found_before_is_used_again():
    source = np.random.default_rng(7)
    rows, residuals, points = source.normal(size=(60, 2)), source.normal(size=(60, 1, 3)), source.normal(size=(3, 2))
    own, candidates, found = (
        OwnRows(rows, residuals, 0, "euclidean"),
        list_candidates(settings_of("degroot"), 60, 3),
        {},
    )
    first = own.weigh(candidates, points, found)
    specs = {each.spec for each in candidates} - {None}
    assert set(found) == specs
    assert all(isinstance(spec, NeighbourhoodSpec) for spec in specs)
    own._near.clear()
    again = OwnRows(rows[:1], residuals[:1], 0, "euclidean").weigh(candidates[1:2], points, found)
    assert_array_equal(first[0][1], again[0][0])


@pytest.mark.parametrize("far", [1e20, 1e60, 1e139])
@pytest.mark.parametrize("n", [30, 80])
def test_a_model_that_is_far_off_everywhere_is_not_right_but_for_a_constant(far, n):
    """What is left of such residuals about their mean is rounding: it must not pass for a model without error."""
    source = np.random.default_rng(8)
    rows, residuals, points = source.normal(size=(n, 2)), source.normal(size=(n, 1, 3)), source.normal(size=(3, 2))
    residuals[..., 1] = far
    candidates = list_candidates(settings_of("stacking"), n, 3)[1:5]
    weights, shifts = OwnRows(rows, residuals, 0, "euclidean").weigh(candidates, points)
    assert (weights[..., 1] < 1e-12).all()
    off = shifts[..., 0] - far * weights[..., 1]  # what remains once its own bias is taken from what it says
    assert np.abs(off).max() < 5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("K", [2, 7, 60])
@pytest.mark.parametrize("n", [1, 2, 5, 64])
def test_weights_are_on_the_simplex_whatever_the_residuals(kind, K, n):
    for seed in range(5):
        source = np.random.default_rng(seed)
        residuals = residuals_of(kind, n, 1 + seed % 2, K, source) * 10.0 ** source.uniform(-5, 5)
        rows, points = source.integers(-1, 2, size=(n, 2)) * 1.0, source.normal(size=(3, 2))
        candidates = list_candidates(settings_of("degroot"), n, K)
        own = OwnRows(rows, residuals, seed % K, "euclidean")
        for without in (-1, 0, K - 1):
            weights, shifts = own.weigh(candidates[1:], points, without=without)
            assert (weights >= 0).all(), seed
            assert np.abs(weights.sum(axis=-1) - 1).max() < 1e-12 * K, seed
            assert np.isfinite(shifts).all(), seed


def test_many_rows_are_sampled_for_wide_neighbourhoods_only():
    source = np.random.default_rng(9)
    rows = source.normal(size=(5000, 2))
    own = OwnRows(rows, source.normal(size=(5000, 1, 2)), 0, "euclidean")
    candidates = {each.name: each.spec for each in list_candidates(settings_of("stacking"), 5000, 2)}
    sizes = {name: own.look(spec)[0] for name, spec in candidates.items() if spec is not None}
    assert {name: (near.size, near.n_rows) for name, near in sizes.items()} == {
        "local stacking": (250, 5000), "locally centred, 15 %": (600, 4000), "locally centred, 40 %": (1600, 4000)
    }  # fmt: skip
