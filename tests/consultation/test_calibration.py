"""Calibrated intervals and sets of whole collectives."""

import itertools
import pickle
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression, Ridge
from support.rules import CANDIDATES

from degroot import Agent, Collective, DeGrootRegressor, InvalidInput
from degroot.intervals import half_width, local_error, score, summary, threshold


def dealt(seed, rule="stacking", n=600, fraction=0.5, **settings):
    source = np.random.default_rng(seed)
    X = source.uniform(-2, 2, size=(n + 400, 2))
    y = np.sin(2 * X[:, 0]) + (0.1 + 0.3 * (X[:, 1] > 0)) * source.normal(size=len(X))
    model = DeGrootRegressor(
        Ridge(), n_agents=4, partition="label", fraction=fraction, rule=rule, random_state=seed, **settings
    )
    return model.fit(X[:n], y[:n]).collective_.calibrate(), X[n:], y[n:]


@pytest.mark.parametrize("rule", [*CANDIDATES, "auto"])
@pytest.mark.parametrize("fraction", [0.5, 0.0])
def test_outcomes_are_inside_as_often_as_asked_for(rule, fraction):
    inside = {0.9: [], 0.5: []}
    for seed in range(5):
        whole, X, y = dealt(seed, rule, fraction=fraction)
        for coverage, found in inside.items():
            answer = whole.consult(X, coverage=coverage)
            found.append(((answer.lower <= y) & (y <= answer.upper)).mean())
    for coverage, found in inside.items():
        sd = np.sqrt(coverage * (1 - coverage) * (1 / 400 + 1 / 600) / 5)  # of test and calibration rows, five times
        assert abs(np.mean(found) - coverage) < 4 * sd


def test_intervals_widen_where_the_collective_is_worse():
    whole, X, _ = dealt(0)
    answer = whole.consult(X, coverage=0.9)
    width = answer.upper - answer.lower
    assert width[X[:, 1] > 0.5].mean() > 1.3 * width[X[:, 1] < -0.5].mean()


def test_intervals_are_nested_and_hold_the_value():
    whole, X, _ = dealt(1)
    answers = [whole.consult(X, coverage=coverage) for coverage in (0.3, 0.5, 0.9, 0.99)]
    for inner, outer in itertools.pairwise(answers):
        assert (outer.lower <= inner.lower).all()
        assert (inner.upper <= outer.upper).all()
        assert_array_equal(inner.value, outer.value)
    assert_allclose((answers[0].lower + answers[0].upper) / 2, answers[0].value)
    only = whole.consult(X, fields="weights", coverage=0.9)
    assert only.value is None
    assert_allclose(only.lower, answers[2].lower)


def test_an_interval_is_what_its_definition_says():
    source = np.random.default_rng(2)
    agents = []
    for k in range(3):
        X = source.normal(size=(15 + k, 1)) + k / 2
        y = np.sin(X[:, 0]) + 0.1 * source.normal(size=len(X))
        model = Ridge().fit(X, y)
        agents.append(Agent(model, X, y, f"{k}", own_predictions=model.predict(X) + 0.1))
    errors = [[], [], []]
    for i, agent in enumerate(agents):
        for r in range(agent.n_rows):
            rest = np.delete(np.arange(agent.n_rows), r)
            smaller = Agent(
                agent.model, agent.X[rest], agent.y[rest], agent.name, own_predictions=agent.own_predictions[rest]
            )
            answer = Collective([*agents[:i], smaller, *agents[i + 1 :]], 4).consult(agent.X[[r]])
            beliefs = answer.beliefs[0].copy()
            beliefs[i] = agent.own_predictions[r]
            errors[i].append(answer.weights[0] @ beliefs - agent.y[r])
    overall = np.mean(np.concatenate(errors) ** 2)

    def local(x, exclude_row=None):
        found = []
        for i, agent in enumerate(agents):
            rows = np.array([r for r in range(agent.n_rows) if (i, r) != exclude_row])
            gaps = np.abs(agent.X[rows, 0] - x)
            k = (1 - (gaps / gaps.max()) ** 3) ** 3  # fewer than 20 rows: all of them are near
            found.append(
                [
                    (k * np.array(errors[i])[rows] ** 2).sum() / k.sum(),
                    (k * gaps**2).sum() / k.sum(),
                    k.sum() ** 2 / (k**2).sum(),
                ]
            )
        near, spread, effective = np.array(found).T[:, None]
        return local_error(near, spread, effective, overall)[0]

    scores = [
        [score(errors[i][r], local(agent.X[r, 0], (i, r)), overall) for r in range(agent.n_rows)]
        for i, agent in enumerate(agents)
    ]
    expected = half_width(threshold([summary(each) for each in scores], 0.8), local(0.3), overall)
    whole = Collective(agents, 4).calibrate()
    answer = whole.consult([[0.3]], coverage=0.8)
    assert_allclose((answer.upper - answer.lower) / 2, expected, rtol=1e-8)
    report, limit = whole.calibration.at(0.8), threshold([summary(each) for each in scores], 0.8)
    for i, agent in enumerate(agents):
        assert_allclose(report.consensus[i], np.mean(np.array(scores[i]) <= limit * (1 + 1e-12)))
        widths = [half_width(limit, local(agent.X[r, 0], (i, r)), overall) for r in range(agent.n_rows)]
        assert_allclose(report.consensus_size[i], np.mean(widths), rtol=1e-8)


def test_units_of_the_labels_are_units_of_the_intervals():
    whole, X, _ = dealt(3)
    larger = Collective(
        [
            Agent(
                lambda rows, a=a: 7 * a.predict(rows) + 3,
                a.X,
                7 * a.y + 3,
                a.name,
                own_predictions=7 * a.own_predictions + 3,
            )
            for a in whole.agents
        ],
        rule="stacking",
    ).calibrate()
    one, seven = (each.consult(X, coverage=0.9) for each in (whole, larger))
    assert_allclose(seven.lower, 7 * one.lower + 3, rtol=1e-6)
    assert_allclose(seven.upper, 7 * one.upper + 3, rtol=1e-6)


def test_outputs_are_calibrated_each_alone():
    source = np.random.default_rng(4)
    X = source.normal(size=(700, 2))
    Y = np.column_stack([X[:, 0] + 0.1 * source.normal(size=700), X[:, 1] + source.normal(size=700)])
    model = DeGrootRegressor(Ridge(), n_agents=3, random_state=0).fit(X[:400], Y[:400])
    answer = model.collective_.calibrate().consult(X[400:], coverage=0.9)
    assert answer.lower.shape == answer.upper.shape == (300, 2)
    inside = ((answer.lower <= Y[400:]) & (Y[400:] <= answer.upper)).mean(axis=0)
    assert (np.abs(inside - 0.9) < 4 * np.sqrt(0.09 * (1 / 300 + 1 / 400))).all()
    width = (answer.upper - answer.lower).mean(axis=0)
    assert 5 < width[1] / width[0] < 20


def test_sets_of_classes_hold_the_outcome_as_often_as_asked_for():
    source = np.random.default_rng(5)
    X = source.normal(size=(900, 2))
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0] + 0.7 * source.normal(size=900), [-0.7, 0.7])]
    agents = [
        Agent(
            LogisticRegression().fit(X[k:600:6], y[k:600:6]),
            X[k + 3 : 600 : 6],
            y[k + 3 : 600 : 6],
            f"{k}",
            classes=["a", "b", "c"],
        )
        for k in range(3)
    ]
    whole = Collective(agents).calibrate()
    answer = whole.consult(X[600:], coverage=0.8)
    assert answer.lower is None
    assert answer.sets.any(axis=1).all()
    held = answer.sets[np.arange(300), np.searchsorted(["a", "b", "c"], y[600:])].mean()
    assert held > 0.8 - 4 * np.sqrt(0.16 * (1 / 300 + 1 / 300))
    assert whole.consult(X[600:], coverage=0.99).sets.sum() > answer.sets.sum()
    assert answer.sets.sum(axis=1).mean() < 2.5


# -- by organisation ---------------------------------------------------------------------------------------------------


def unlike(noises, n=120, **settings):
    """Agents with the same model, whose outcomes are more or less noisy."""
    source, agents = np.random.default_rng(9), []
    for k, noise in enumerate(noises):
        X = source.uniform(size=(n, 1))
        agents.append(Agent(lambda X: X[:, 0], X, X[:, 0] + noise * source.normal(size=n), f"agent {k}", **settings))
    return agents


@pytest.mark.parametrize("coverage", [0.9, 0.5])
def test_the_report_says_how_often_intervals_hold_by_organisation(coverage):
    whole = Collective(unlike([0.1, 0.1, 0.5])).calibrate()
    report = whole.calibration.at(coverage)
    n = report.rows.sum()
    inside = np.rint(report.consensus * report.rows).sum()
    assert inside >= np.ceil((n + 1) * coverage)  # all rows together, with all scores told
    assert inside <= np.ceil((n + 1) * coverage) + 1
    assert report.consensus[2] < report.consensus[:2].min() - 0.1
    assert_allclose(report.own, [whole.view_of(name).calibration.coverage_left_out(coverage) for name in whole.names])
    assert (np.abs(report.own - coverage) < 4 * np.sqrt(coverage * (1 - coverage) / 120)).all()
    assert report.own_size[2] > 3 * report.own_size[:2].max()
    assert_allclose(report.overall, inside / n)


def test_intervals_of_own_views_are_as_wide_as_the_report_says():
    whole = Collective(unlike([0.1, 0.4])).calibrate()
    for agent, size in zip(whole.agents, whole.calibration.own_size, strict=True):
        answer = whole.consult(agent.X, coverage=0.9, asker=agent.name)
        assert_allclose(np.mean(answer.upper - answer.lower) / 2, size, rtol=0.02)  # with the rows in, not left out


def test_the_report_can_be_read():
    whole = Collective(unlike([0.1, 0.5])).calibrate()
    text = str(whole.calibration)
    assert text.startswith("90 % intervals on left-out rows of 2 organisations\nconsensus: 0.9")
    heads = re.split(" {2,}", text.split("\n")[3])
    assert heads == ["organisation", "rows", "consensus", "half-width", "own view", "half-width"]
    assert str(whole.calibration.at(0.5)).startswith("50 %")
    assert "agent 1" in whole.calibration._repr_html_()
    assert whole.calibration.to_frame()["organisation"].tolist() == ["agent 0", "agent 1"]
    assert whole.calibration is whole.calibration
    with pytest.raises(AttributeError):
        whole.calibration.rows = None
    with pytest.raises(InvalidInput, match="`coverage` must lie between 0 and 1"):
        whole.calibration.at(90)


def test_organisations_whose_view_cannot_be_tried_have_none():
    few = Collective([*unlike([0.1], n=5), *unlike([0.1, 0.1])[1:]]).calibrate().calibration
    assert np.isnan(few.own).tolist() == [True, False]
    assert "-: too few rows" in str(few)
    peers = Collective(unlike([0.1, 0.1], own_predictions="peers")).calibrate().calibration
    assert np.isnan(peers.own).all()
    assert not np.isnan(peers.consensus).any()


def test_the_report_takes_classes_and_several_outputs():
    source = np.random.default_rng(4)
    X = source.normal(size=(120, 2))
    model = DeGrootRegressor(Ridge(), n_agents=2, random_state=0).fit(X, X + source.normal(size=(120, 2)))
    report = model.collective_.calibrate().calibration
    assert abs(report.overall - 0.9) < 0.03
    y = np.where(X[:, 0] + source.normal(size=120) > 0, "a", "b")
    agents = [
        Agent(LogisticRegression().fit(X[k::2], y[k::2]), X[1 - k :: 2], y[1 - k :: 2], f"{k}", classes=["a", "b"])
        for k in range(2)
    ]
    whole = Collective(agents).calibrate()
    report = whole.calibration
    assert np.ceil(121 * 0.9) <= np.rint(report.consensus * report.rows).sum() <= 120
    assert ((report.consensus_size >= 1) & (report.consensus_size <= 2)).all()
    assert "90 % sets" in str(report)
    tried = [whole.consult(agent.X, coverage=0.9, asker=agent.name).sets.sum(axis=1).mean() for agent in agents]
    assert_allclose(report.own_size, tried, rtol=0.1)


def test_before_it_is_calibrated_there_is_no_report():
    whole = Collective(unlike([0.1, 0.1]))
    with pytest.raises(InvalidInput, match=r"Intervals must be calibrated: call calibrate\(\)"):
        _ = whole.calibration
    assert whole.calibrate() is whole
    assert whole.calibration.names == whole.names
    whole.leave("agent 1")
    with pytest.raises(InvalidInput, match=r"call calibrate\(\)"):
        _ = whole.calibration
    with pytest.raises(InvalidInput, match="got degree=3"):
        Collective(unlike([0.1] * 4), degree=3).calibrate()


def test_a_collective_with_a_report_can_be_sent_elsewhere():
    X = np.random.default_rng(3).normal(size=(60, 2))
    whole = DeGrootRegressor(Ridge(), n_agents=2, random_state=0).fit(X, X[:, 0]).collective_.calibrate()
    expected = whole.calibration
    again = pickle.loads(pickle.dumps(whole)).calibration
    for name in ("consensus", "consensus_size", "own", "own_size"):
        assert_allclose(getattr(again, name), getattr(expected, name), rtol=1e-12)


@pytest.mark.parametrize("change", ["join", "leave", "replace"])
def test_other_agents_need_another_calibration(change):
    whole, X, _ = dealt(6)
    other = Agent(
        lambda rows: rows[:, 0], whole.agents[0].X, whole.agents[0].y, "new" if change == "join" else "agent 1"
    )
    whole.leave("agent 1") if change == "leave" else getattr(whole, change)(other)
    with pytest.raises(InvalidInput, match=r"Intervals must be calibrated: call calibrate\(\)"):
        whole.consult(X, coverage=0.9)
    whole.calibrate().consult(X, coverage=0.9)


@pytest.mark.parametrize("coverage", [0, 1, -0.1, 1.5, np.nan, "0.9", True, 90])
def test_a_coverage_lies_between_0_and_1(coverage):
    whole, X, _ = dealt(7)
    with pytest.raises(InvalidInput, match="`coverage` must lie between 0 and 1; got "):
        whole.consult(X, coverage=coverage)


def test_too_few_rows_say_how_many_are_needed():
    X = np.arange(10.0)[:, None]
    agents = [Agent(lambda rows: rows[:, 0], X + k, X[:, 0] + 0.1 * k, f"{k}") for k in range(2)]
    whole = Collective(agents).calibrate()
    whole.consult(X, coverage=0.9)
    with pytest.raises(InvalidInput, match=r"A coverage of 0\.99 must be calibrated on at least 99 rows; there are 20"):
        whole.consult(X, coverage=0.99)


def test_agents_that_peers_score_calibrate_without_their_own_model():
    whole, X, y = dealt(8, self_scoring="peers")
    answer = whole.consult(X, coverage=0.9)
    assert ((answer.lower <= y) & (y <= answer.upper)).mean() > 0.85


@pytest.mark.parametrize("fields", [[], ["beliefs"], ["weights"]])
def test_intervals_are_the_same_whatever_else_is_asked_for(fields):
    whole, X, _ = dealt(0, "degroot")
    expected, found = whole.consult(X[:20], coverage=0.9), whole.consult(X[:20], fields, coverage=0.9)
    assert_array_equal(found.lower, expected.lower)
    assert_array_equal(found.upper, expected.upper)
