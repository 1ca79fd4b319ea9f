"""Gains: what is told of every organisation is what brute force computes, and contributions are Shapley values."""

import csv
from itertools import permutations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import ttest_1samp
from sklearn.linear_model import LogisticRegression, Ridge
from support.refusals import complaint

from degroot import Agent, Collective, Gains
from degroot.asker.candidates import OwnRows, places_among
from degroot.consultation import shapley
from degroot.consultation.asker import AskerView
from degroot.consultation.gains import RowLosses, compare_losses, correct_by_holm, measure_difference
from degroot.rules.rules import STACKING_NEIGHBOURHOOD

PLACES = ("north", "east", "south", "west")


def make_rows(k, n=60, seed=0):
    random = np.random.default_rng([seed, k])
    X = random.normal(0.5 * k, 1.0, size=(n, 2))
    return X, np.sin(X[:, 0]) + X[:, 1] * (1 + 0.2 * k) + 0.1 * random.normal(size=n)


def make_agents(names=PLACES, n=60, **settings):
    """Models that have been trained on other rows than those they are scored on."""
    agents = []
    for k, name in enumerate(names):
        model = Ridge().fit(*make_rows(k, n, seed=1))
        agents.append(Agent(model, *make_rows(k, n), name, **settings))
    return agents


@pytest.fixture(scope="module")
def collective():
    return Collective(make_agents(), rule="stacking")


@pytest.fixture(scope="module")
def gains(collective):
    return collective.gains(shapley=True)


# -- tests and corrections ---------------------------------------------------------------------------------------------


def test_a_difference_is_tested_as_student_would():
    values = np.random.default_rng(0).normal(0.3, 1.0, size=40)
    mean, error, p = measure_difference(values, np.arange(40))
    expected = ttest_1samp(values, 0.0)
    assert_allclose([mean, error, p], [values.mean(), values.std(ddof=1) / 40**0.5, expected.pvalue])


def test_rows_of_one_unit_are_no_independent_evidence():
    values = np.random.default_rng(0).normal(0.3, 1.0, size=40)
    repeated = measure_difference(np.repeat(values, 7), np.repeat(np.arange(40), 7))
    assert_allclose(repeated, measure_difference(values, np.arange(40)))
    units = np.random.default_rng(1).integers(0, 9, size=40)
    sums = [
        sum(value - values.mean() for value, u in zip(values, units, strict=True) if u == unit) for unit in range(9)
    ]
    assert_allclose(measure_difference(values, units)[1], (9 / 8 * np.sum(np.square(sums))) ** 0.5 / 40)


def test_differences_that_leave_nothing_to_test():
    assert measure_difference(np.zeros(5), np.arange(5)) == (0.0, 0.0, 1.0)
    assert measure_difference(np.ones(5), np.arange(5)) == (1.0, 0.0, 0.0)
    mean, error, p = measure_difference(np.arange(5.0), np.zeros(5, int))
    assert (mean, error, np.isnan(p)) == (2.0, np.inf, True)


@pytest.mark.parametrize("seed", range(5))
def test_corrected_p_values_are_those_of_the_stepwise_test(seed):
    p = np.random.default_rng(seed).uniform(size=7) ** 3
    corrected = correct_by_holm(p)
    for level in np.linspace(0.001, 0.999, 200):
        rejected = np.zeros(7, bool)
        for step, k in enumerate(np.argsort(p)):  # Holm's procedure, as he wrote it
            if p[k] > level / (7 - step):
                break
            rejected[k] = True
        assert_array_equal(corrected <= level, rejected)


# -- the counts --------------------------------------------------------------------------------------------------------


def make_losses(change, control=0.0, n=30, **others):
    """An organisation whose losses change by so much, with little noise."""
    own = 1.0 + np.random.default_rng(0).uniform(size=n)
    noise = 0.01 * np.random.default_rng(1).normal(size=n)
    told = own + change + (noise if change else 0.0)
    return RowLosses(np.arange(n), own, told + control if control else own, told, own, **others)


@pytest.fixture
def told():
    measured = [make_losses(-0.5), make_losses(0.4), make_losses(0.0), "it has no rows", make_losses(-0.1, -0.2)]
    return compare_losses(["a", "b", "c", "d", "e"], ["Ridge"] * 5, measured)


def test_who_gains_and_who_loses_is_counted_and_named(told):
    assert (told.gains, told.lose, told.gain_beyond_chance, told.lose_beyond_chance) == (2, 1, 2, 1)
    assert told.sentence == (
        "2 of 4 organisations gain, 1 lose beyond chance (Holm-corrected); 2 gain beyond chance; "
        "1 could not be measured"
    )
    assert (told.without_gain, told.losing) == (("b", "c"), ("b",))
    assert told.held_back == ("e",)  # the control is the own model for b, which the collective makes worse
    assert told.to_frame()["outcome"].tolist() == [
        "gains beyond chance", "loses beyond chance", "unchanged", "not measured", "gains beyond chance",
    ]  # fmt: skip
    text = str(told)
    assert text.startswith(told.sentence)
    for line in ("Without a gain: b (+2", "Lose beyond chance: b (+2", "Not measured: d: it has no rows."):
        assert f"\n{line}" in text
    assert "<td" in told._repr_html_()


def test_chance_is_not_taken_for_a_gain():
    random = np.random.default_rng(3)
    measured = []
    for _ in range(12):
        own = random.uniform(size=20)
        measured.append(RowLosses(np.arange(20), own, own, own + 0.3 * random.normal(size=20), own))
    told = compare_losses([f"a{k}" for k in range(12)], [""] * 12, measured)
    assert told.gains + told.lose == 12
    assert (told.gain_beyond_chance, told.lose_beyond_chance) == (0, 0)


def test_a_table_has_twenty_organisations_and_the_file_all(tmp_path):
    names = [f"a, {k}" for k in range(30)]
    told = compare_losses(names, ["Ridge"] * 30, [make_losses(-0.01 * (k + 1)) for k in range(29)] + ["no rows"])
    assert "\nand 10 more\n" in str(told)
    assert "a, 19 " in str(told)
    assert "\na, 20 " not in str(told)
    told.to_csv(tmp_path / "gains.csv")
    with (tmp_path / "gains.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["organisation"] for row in rows] == names
    assert_array_equal([float(row["difference"]) for row in rows[:29]], told.difference[:29])
    assert (rows[29]["own_mse"], rows[29]["outcome"], rows[29]["reason"]) == ("", "not measured", "no rows")
    assert_allclose(told.to_frame("polars")["change_percent"].to_numpy(), told.change)


def test_of_nobody_measured_all_is_told_too():
    told = compare_losses(["a"], ["Ridge"], ["no rows"])
    assert told.sentence == (
        "0 of 0 organisations gain, 0 lose beyond chance (Holm-corrected); 0 gain beyond chance; "
        "1 could not be measured"
    )
    assert str(told).endswith("\nNot measured: a: no rows.")
    assert np.isnan([told.total("own"), told.total_error("standard_error")]).all()


def test_totals_count_organisations_by_their_rows():
    one, two = make_losses(-0.5, n=10), make_losses(0.4, n=50)
    told = compare_losses(["a", "b", "c"], [""] * 3, [one, "no rows", two])
    assert_allclose(told.total("own"), np.concatenate([one.own, two.own]).mean())
    both = np.concatenate([one.collective - one.own, two.collective - two.own])
    assert_allclose(told.total("difference"), both.mean())
    spreads = [10 * told.standard_error[0], 50 * told.standard_error[2]]
    assert_allclose(told.total_error("standard_error"), np.hypot(*spreads) / 60)


# -- from the views ----------------------------------------------------------------------------------------------------


def test_errors_are_those_of_the_own_rows(collective, gains):
    for k, agent in enumerate(collective.agents):
        said = np.array([each.predict(agent.X) for each in collective.agents])
        assert_allclose(gains.own[k], np.mean((said[k] - agent.y) ** 2))
        assert_allclose(gains.average[k], np.mean((said.mean(axis=0) - agent.y) ** 2))
        view = collective.view_of(agent.name)
        assert_allclose(gains.collective[k], np.mean(view.left_out**2))
        assert_allclose(gains.control[k], np.mean(view.control_left_out**2))
        differences = (view.left_out**2 - view.own_errors**2)[:, 0]
        assert_allclose(gains.standard_error[k], differences.std(ddof=1) / 60**0.5)
    assert_allclose(gains.difference, gains.collective - gains.own)
    assert_allclose(gains.against_control, gains.collective - gains.control)
    assert (gains.rows.tolist(), gains.units.tolist()) == ([60] * 4, [60] * 4)
    assert gains.models == ("Ridge",) * 4


def test_the_correction_is_a_part_of_the_answer_when_it_is_asked_for(collective):
    told = collective.gains(correct=True)
    assert told.correct
    assert_allclose(told.collective, [np.mean(collective.view_of(name).corrected_left_out ** 2) for name in PLACES])
    assert_array_equal(told.collective, Collective(make_agents(), rule="stacking", correct=True).gains().collective)


def test_who_cannot_ask_is_listed_with_a_reason():
    agents = make_agents()
    X, y = make_rows(7)
    agents.append(Agent(agents[0].model, X, y, "unscored", own_predictions="peers"))
    agents.append(Agent(agents[1].model, X, y, "one farm", units=["farm"] * len(y)))
    told = Collective(agents, rule="stacking").gains(shapley=True)
    assert_array_equal(told.measured, [True] * 4 + [False] * 2)
    for name in ("own", "control", "collective", "difference", "standard_error", "p_value"):
        assert np.isnan(getattr(told, name)[4:]).all()
    assert np.isnan(told.contributions[4:]).all()
    assert np.isfinite(told.contributions[:4]).all()
    assert "peers score its model" in told.reasons[4]
    assert "all its rows are of one unit" in told.reasons[5]
    assert "2 could not be measured" in told.sentence
    assert "\nNot measured: unscored: its peers" in str(told)


def test_one_agent_alone_neither_gains_nor_loses():
    told = Collective(make_agents(["north"])).gains(shapley=True)
    assert (told.gains, told.lose, told.difference.tolist(), told.contributions.tolist()) == (0, 0, [0.0], [[0.0]])


def make_classifiers(K=3, n=80):
    agents = []
    for k in range(K):
        X, y = make_rows(k, n)
        labels = np.digitize(y, [0.0, 1.0]).astype(str)
        model = LogisticRegression().fit(X[: n // 2], labels[: n // 2])
        agents.append(Agent(model, X[n // 2 :], labels[n // 2 :], f"a{k}", classes=["0", "1", "2"]))
    return agents


def test_of_classes_errors_are_brier_scores():
    agents = make_classifiers()
    told = Collective(agents, rule="stacking").gains(shapley=True)
    for k, agent in enumerate(agents):
        assert_allclose(told.own[k], np.mean(((agent.predict(agent.X) - agent.y) ** 2).sum(axis=1)))
    assert told.measure == "Brier score"
    assert "own_brier" in told.to_frame()
    assert str(told).count("Brier score") == 2
    assert_allclose(told.contributions.sum(axis=1), told.own - told.collective, atol=1e-12)


def test_units_are_counted_and_left_out_together():
    agents = make_agents(units=None)
    X, y = make_rows(0)
    agents[0] = Agent(agents[0].model, X, y, "north", units=np.arange(60) // 4)
    told = Collective(agents, rule="stacking").gains()
    assert told.units.tolist() == [15, 60, 60, 60]


# -- who contributes to whom -------------------------------------------------------------------------------------------


def value_of(agents, members, asker):
    """By how much a collective of these members lowers the asker's loss on its left-out rows; made from nothing.

    With nobody else the asker is beside a copy of itself, which says the same and so adds nothing.
    """
    taking_part = [agents[k] for k in sorted({*members, asker})]
    if not members:
        taking_part.append(Agent(agents[asker].model, agents[asker].X, agents[asker].y, "copy"))
    with pytest.MonkeyPatch.context() as patch:
        if not members:  # the copy takes part as any other model
            patch.setattr("degroot.consultation.asker.find_copies", lambda scorer, place: np.empty(0, np.intp))
        view = Collective(taking_part, rule="stacking").view_of(agents[asker].name)
    return np.mean(view.own_errors**2) - np.mean(view.left_out**2)


def test_contributions_are_means_over_all_orderings(collective, gains):
    agents = collective.agents
    for asker in range(4):
        others, values = [k for k in range(4) if k != asker], {}
        for order in permutations(others):
            for step in range(4):
                values.setdefault(frozenset(order[:step]), value_of(agents, order[:step], asker))
        expected = np.zeros(4)
        expected[asker] = values[frozenset()]
        for order in permutations(others):
            for step, member in enumerate(order):
                joined = values[frozenset(order[: step + 1])] - values[frozenset(order[:step])]
                expected[member] += joined / 6
        assert_allclose(gains.contributions[asker], expected, rtol=1e-9, atol=1e-12)


def test_contributions_sum_to_the_gain(gains):
    assert_allclose(gains.contributions.sum(axis=1), gains.own - gains.collective, atol=1e-12)
    pairs = gains.to_frame(table="contributions")
    assert len(pairs) == 16
    assert_allclose(pairs.groupby("asker")["contribution"].sum()[list(PLACES)], gains.own - gains.collective)
    assert "most from" in str(gains)


def test_members_with_the_same_model_contribute_the_same_and_useless_ones_nothing():
    agents = make_agents()
    novice = Agent(lambda X: 0.0 * X[:, 0], agents[0].X, agents[0].y, "novice")
    twin = Agent(agents[1].model, agents[3].X, agents[3].y, "twin")
    useless = Agent(lambda X: 30.0 * np.cos(1e6 * X[:, 0]), agents[2].X, agents[2].y, "useless")
    told = Collective([novice, agents[1], twin, useless], rule="stacking").gains(shapley=True)
    assert_allclose(told.contributions[0, 1], told.contributions[0, 2], rtol=1e-9)
    assert told.contributions[0, 1] > 0.2 * told.own[0]
    assert abs(told.contributions[0, 3]) < 0.01 * told.own[0]


def test_relabelling_changes_nothing(collective, gains):
    order = [2, 0, 3, 1]
    told = Collective([collective.agents[k] for k in order], rule="stacking", n_jobs=1).gains(shapley=True)
    for name in ("own", "collective", "difference", "standard_error", "p_value"):
        assert_allclose(getattr(told, name), getattr(gains, name)[order], rtol=1e-7)
    assert_allclose(told.contributions, gains.contributions[np.ix_(order, order)], atol=1e-9)


@pytest.mark.parametrize("P", [1, 2, 5, 12, 20])
def test_of_games_whose_values_are_known_the_shapley_values_are_found(P):
    worth = np.random.default_rng(P).normal(size=P)
    made = shapley.list_coalitions(P)
    assert (made.orders is None) == (P <= shapley.EXACT)
    for value, expected in (
        (lambda S: S @ worth, worth),  # members that add what they are worth
        (lambda S: (S @ worth) ** 2, worth * worth.sum()),  # pairs of members: an ordering and its reverse settle them
    ):
        losses = 3.0 - value(made.sets.astype(float))
        assert_allclose(losses @ made.coefficients, expected, atol=1e-10)
        assert_allclose(made.sampling_error(losses), 0.0, atol=1e-10)


def test_sampled_orderings_come_near_all_sets_within_their_error():
    worth = np.random.default_rng(0).uniform(0.1, 1.0, size=11)
    exact, sampled = shapley._all_sets(11), shapley._sampled_sets(11)

    def losses(made):
        return np.exp(-(made.sets @ worth))

    off = losses(sampled) @ sampled.coefficients - losses(exact) @ exact.coefficients
    error = sampled.sampling_error(losses(sampled))
    assert (np.abs(off) < 4 * error).all()
    assert (np.abs(off) < 0.2 * np.abs(losses(exact) @ exact.coefficients)).all()
    assert len(sampled.orders) >= 100


def test_many_members_contribute_what_is_gained(monkeypatch):
    monkeypatch.setattr(shapley, "PAIRS", 4)
    agents = make_agents([f"a{k}" for k in range(13)], n=20)
    view = Collective(agents, rule="stacking").view_of("a3")
    values, errors = shapley.measure_contributions(view, lambda _steps=1: None)
    assert_allclose(values.sum(), np.mean(view.own_errors**2) - np.mean(view.left_out**2), rtol=1e-9)
    assert (errors > 0.0).all()


def test_evidence_of_some_models_is_a_part_of_that_of_all(collective):
    view = collective.view_of("south")
    assert isinstance(view, AskerView)
    members, points = np.array([0, 2, 3]), view.scorer.rows[:5]
    whole, part = (
        OwnRows(view.scorer.rows, view.residuals[:, :, some], own, view.scorer.metric)
        for some, own in ((np.arange(4), 2), (members, 1))
    )
    among = whole.among(members)
    for name in ("K", "Q", "n", "own", "bias", "gram", "centred_gram"):
        assert_allclose(getattr(among, name), getattr(part, name), rtol=1e-12)
    expected = part.measure(STACKING_NEIGHBOURHOOD, points)
    assert_allclose(among.measure(STACKING_NEIGHBOURHOOD, points).packed, expected.packed, rtol=1e-9)
    taken = whole.measure(STACKING_NEIGHBOURHOOD, points).take(places_among(members, 4, 1))
    assert_allclose(taken.packed, expected.packed, rtol=1e-9)


# -- mistakes ----------------------------------------------------------------------------------------------------------


def test_mistakes_are_one_line(collective, gains, tmp_path):
    assert complaint(lambda: collective.gains(shapley="yes")) == "`shapley` must be True or False; got 'yes'."
    assert complaint(lambda: collective.gains(correct=2)) == "`correct` must be True or False; got 2."
    few = Collective(make_agents(), degree=3)
    assert "An asker must have scored every model on its own rows; with degree=3" in complaint(few.gains)
    assert complaint(lambda: gains.to_frame(table="trust")) == (
        "`table` must be one of 'gains', 'contributions'; got 'trust'."
    )
    assert "`library` must be one of 'pandas', 'polars'" in complaint(lambda: gains.to_frame("excel"))
    assert "can be written" in complaint(lambda: gains.to_csv(tmp_path / "none" / "gains.csv"))
    plain = collective.gains()
    assert isinstance(plain, Gains)
    assert "shapley=True" in complaint(lambda: plain.to_csv(tmp_path / "c.csv", "contributions"))
