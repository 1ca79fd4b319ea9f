"""The figures on real data, and table 2: shapes on quick runs, and laws."""

from dataclasses import fields

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from sklearn.linear_model import Lasso
from support.seed import SEED

from degroot.paper import gains, heterogeneity, models, protocol
from degroot.paper.data.datasets import load
from degroot.paper.figures import figure3, figure9, figure10, figure11, table2
from degroot.paper.schemes import errors, gain

FIGURES = (figure3, figure9, figure10, figure11)
SMALL = {"fractions": (0.0, 0.5, 1.0), "exponents": (0.0, 4.0), "numbers": (2, 4)}


def computed(module, wanted=None, **settings):
    """The table and its settings, of the cases that have the values `wanted`."""
    settings = module.Settings(seed=SEED, **settings)
    tasks = [task for task in module.tasks(settings) if (wanted or {}).items() <= task.case.items()]
    data = {name: load(name) for name in {task.data_name for task in tasks}}
    return pd.DataFrame([row for task in tasks for row in task.rows(task.among(data))]), settings


def small(module, **settings):
    known = {field.name for field in fields(module.Settings)}
    wanted = {"data": "abalone"} if module is figure3 else {"data": "boston"} if module is not figure11 else None
    return computed(module, wanted, **{name: SMALL[name] for name in SMALL if name in known}, **settings)


def by_repetition(table, x="heterogeneity", column="gain"):
    return table.pivot(index="repetition", columns=x, values=column)


def text(figure):
    return " ".join(each.get_text() for axes in figure.axes for each in axes.texts)


# shapes


@pytest.mark.parametrize("sparsity", [0.8, 0.75])
@pytest.mark.parametrize("panel", ["labels", "feature", "penalties"])
def test_figure_3_the_gain_grows_with_heterogeneity(panel, sparsity):
    grids = {"fractions": (0.0, 0.3, 0.6), "exponents": (0.0, 4.0, 10.0)}
    table, _ = computed(figure3, {"panel": panel, "sparsity": sparsity}, reps=5, **grids)
    medians = by_repetition(table).median()
    assert medians.is_monotonic_increasing
    assert medians.iloc[-1] > medians.iloc[0] + 2


@pytest.mark.parametrize("module", [figure9, figure10])
@pytest.mark.parametrize("data", ["abalone", "cpusmall"])
def test_figures_9_and_10_the_gain_grows_with_heterogeneity(module, data):
    wanted = {"data": data} if module is figure9 else {"data": data, "scoring": "own rows"}
    table, _ = computed(module, wanted, reps=5, fractions=(0.0, 0.3, 0.6))
    medians = by_repetition(table).median()
    assert medians.is_monotonic_increasing
    assert medians.iloc[-1] > 2 * medians.iloc[0]


@pytest.mark.slow
@pytest.mark.parametrize(("module", "fraction"), [(figure9, 0.8), (figure10, 0.7)])
def test_figures_9_and_10_the_larger_gains_grow_on_boston(module, fraction):
    """The median grows too, but with agents of 71 rows that takes more repetitions to see."""
    wanted = {"data": "boston"} if module is figure9 else {"data": "boston", "scoring": "own rows"}
    table, _ = computed(module, wanted, reps=20, fractions=(0.0, fraction))
    quartiles = by_repetition(table).quantile(0.75)
    assert quartiles[fraction] > quartiles[0.0] + 2


@pytest.mark.parametrize("data", ["abalone", "cpusmall"])
def test_dealing_all_rows_by_label_makes_agents_sure_of_themselves_and_the_gain_a_loss(data):
    table, _ = computed(figure9, {"data": data}, reps=3, fractions=(0.5, 1.0))
    assert by_repetition(table)[1.0].median() < 0 < by_repetition(table)[0.5].median()
    trust = by_repetition(table, column="self_trust").median()
    assert trust[1.0] > 0.6 > 0.4 > trust[0.5]


def test_agents_that_are_sure_of_themselves_may_gain_all_the_same():
    table, _ = computed(figure9, {"data": "boston"}, reps=3, fractions=(1.0,))
    assert table["self_trust"].median() > 0.6
    assert table["gain"].median() > 0


def test_rows_held_back_for_scoring_save_boston_from_a_model_that_fits_its_own_rows():
    table, _ = computed(figure10, {"data": "boston"}, reps=16, fractions=(0.9,))
    found = by_repetition(table, x="scoring")
    assert found["own rows"].median() < 0 < found["rows held back"].median()


@pytest.mark.parametrize(
    ("data", "reading", "numbers"),
    [
        pytest.param("abalone", figure11.AS_PRINTED, (2, 8, 32, 128), marks=pytest.mark.slow),
        ("cpusmall", figure11.AS_PRINTED, (2, 4, 8, 16)),
        pytest.param("cpusmall", figure11.SCALED, (2, 8, 32, 128), marks=pytest.mark.slow),
    ],
)
def test_figure_11_degroot_is_ahead_of_the_average(data, reading, numbers):
    """On cpusmall as it comes, whose features are of many scales, it falls behind with many agents."""
    table, _ = computed(figure11, {"data": data, "reading": reading}, reps=9, numbers=numbers)
    assert (by_repetition(table, x="agents").median() > 0).all()


@pytest.mark.slow
def test_figure_11_degroot_is_ahead_from_2_to_128_agents_in_the_median_over_test_points():
    table, _ = computed(figure11, {"reading": figure11.AS_PRINTED}, reps=3, numbers=(2, 16, 128))
    assert (table["gain_in_median"] > 0).all()


# laws


@pytest.mark.parametrize("panel", ["feature", "penalties"])
def test_figure_3_without_heterogeneity_all_panels_are_the_same(panel):
    grids = {"fractions": (0.0,), "exponents": (0.0,)}
    one, other = (
        computed(figure3, {"panel": each, "sparsity": 0.8}, reps=2, **grids)[0].drop(columns="panel")
        for each in ("labels", panel)
    )
    pd.testing.assert_frame_equal(one, other)


def test_the_gain_is_that_of_the_schemes():
    data, settings = load("boston"), protocol.Protocol()
    rows = protocol.split(data, settings, np.random.default_rng(SEED))
    agents = protocol.train_agents(models.make("Ridge", 1e-5), data.X, data.y, rows.parts)
    test = data.X[rows.test], data.y[rows.test]
    expected = errors(("DeGroot", "M-avg"), agents, *test, settings.neighbours)
    for module in (heterogeneity, figure11):
        found = module.measured(agents, *test, settings.neighbours)
        assert found["mse"] == pytest.approx(expected["DeGroot"], rel=1e-12)
        assert found["m_avg"] == pytest.approx(expected["M-avg"], rel=1e-12)
        assert found["gain"] == pytest.approx(gain(*expected.values()), abs=1e-9)


@pytest.mark.parametrize("sparsity", [0.5, 0.65, 0.75])
def test_the_penalty_gives_the_sparsity_asked_for(sparsity):
    data, settings = load("abalone"), figure3.Settings(seed=SEED, fraction=0.0)
    penalty = figure3.penalty_for(sparsity, data, settings)
    random = np.random.default_rng(SEED + 1)
    parts = [part for _ in range(4) for part in protocol.split(data, settings, random).parts]
    share = np.mean([np.mean(Lasso(penalty).fit(data.X[part], data.y[part]).coef_ == 0) for part in parts])
    assert share == pytest.approx(sparsity, abs=0.08)


def test_a_penalty_that_is_given_is_taken():
    table, settings = computed(
        figure3, {"panel": "labels"}, reps=1, penalty=0.3, sparsity=0.7, fractions=(0.0,), second_sparsity=0.5
    )
    penalties = table.groupby("sparsity")["penalty"].first()
    assert penalties[0.7] == 0.3
    assert penalties[0.5] == figure3.penalty_for(0.5, load("abalone"), settings)


def test_penalties_are_those_of_the_formula():
    make = figure3.unlike(0.5, 2.0, 5)
    assert [make(k).alpha for k in range(5)] == pytest.approx([0.5 * (1 + (k - 3) / 5) ** 2 for k in range(1, 6)])


def test_agents_that_hold_rows_back_never_score_on_what_they_trained_on():
    data, seen = load("boston"), []

    class Model:
        def fit(self, X, y):
            self.rows = {tuple(row) for row in X}
            seen.append(self)
            return self

        def predict(self, X):
            return np.zeros(len(X))

    settings = heterogeneity.Settings(fractions=(0.5,))
    agents = heterogeneity.trained(
        lambda k: Model(), data.X, data.y,
        protocol.split(data, settings, np.random.default_rng(0)).parts, 1 / 3, np.random.default_rng(0),
    )  # fmt: skip
    for agent in agents:
        rows = {tuple(row) for row in agent.X}
        assert not rows & agent.model.rows
        assert len(agent.X) == pytest.approx((len(agent.X) + len(agent.model.rows)) / 3, abs=1)


@pytest.mark.parametrize("module", FIGURES)
def test_a_repetition_is_the_same_whatever_the_number_of_repetitions(module):
    one, _ = small(module, reps=1)
    two, _ = small(module, reps=2)
    same = two[two["repetition"] <= one["repetition"].max()]
    pd.testing.assert_frame_equal(one, same.reset_index(drop=True))
    assert not two[two["repetition"] == 1]["gain"].equals(two[two["repetition"] == 0]["gain"])


@pytest.mark.parametrize("module", FIGURES)
def test_figures_have_named_axes_and_findings_a_rule(module):
    table, settings = small(module, reps=1)
    figure = module.draw(table, settings)
    assert isinstance(figure, Figure)
    assert all(axes.get_xlabel() and axes.get_ylabel() == "gain over M-avg (%)" for axes in figure.axes)
    assert len(figure.legends) == 1
    assert all(finding.rule and finding.ours for finding in module.findings(table, settings))


@pytest.mark.parametrize("module", FIGURES)
def test_without_data_the_panels_say_so_and_nothing_is_judged(module):
    table, settings = pd.DataFrame(), module.Settings()
    assert "left out: no data" in text(module.draw(table, settings))
    assert all(finding.agrees is None for finding in module.findings(table, settings))


def grown(shape, repetitions=8, noise=0.0):
    """A table whose gain has this shape along p, plus noise."""
    random, levels = np.random.default_rng(SEED), np.arange(11) / 10
    rows = [
        {"heterogeneity": p, "gain": shape(p) + noise * random.normal(), "self_trust": p, "repetition": repetition}
        for repetition in range(repetitions)
        for p in levels
    ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("shape", "agrees"),
    [
        (lambda p: p, True),
        (lambda p: p if p < 0.9 else -p, True),  # that far the rule does not look
        (lambda p: -p, False),
        (lambda p: p if p == 0.5 else -p, False),
        (lambda p: 0.0, None),
    ],
)
def test_growth_can_fail_and_can_be_left_to_chance(shape, agrees):
    finding = heterogeneity.growth(grown(shape), "")
    assert finding.agrees is agrees
    assert ("Not settled" in finding.note) == (agrees is None)


def test_few_repetitions_settle_nothing():
    for repetitions in (1, 2, 3, 4):
        assert heterogeneity.growth(grown(lambda p: p, repetitions), "").agrees is None


@pytest.mark.parametrize("repetitions", [5, 8, 20, 200])
def test_what_chance_decides_is_seldom_settled(repetitions):
    random = np.random.default_rng(SEED)
    verdicts = [gains.judge_sign(pd.Series(random.normal(size=repetitions))) for _ in range(1000)]
    assert sum(verdict is not None for verdict in verdicts) < 110  # 2 / 2^5 = 6 % at most, and chance
    assert gains.judge_sign(pd.Series(random.normal(3, size=repetitions))) is True
    assert gains.judge_sign(pd.Series(random.normal(-3, size=repetitions))) is False


def test_a_rule_says_what_it_leaves_out():
    assert "0.8" in heterogeneity.Growth().rule
    assert "we do not know how far p goes" in heterogeneity.Growth().rule
    assert "Above" not in heterogeneity.Growth(at=10, most=None, letter="q").rule


def test_a_loss_at_the_end_is_told_only_where_there_is_one():
    falling, rising = grown(lambda p: p if p < 1 else -p), grown(lambda p: p)
    assert heterogeneity.at_the_end({"rising": rising}, "").note == ""
    note = heterogeneity.at_the_end({"falling": falling, "rising": rising}, "").note
    assert "than at p = 0.5: falling." in note
    assert "which alone does not make it less: falling, rising." in note
    assert "alone" not in heterogeneity.at_the_end({"falling": falling}, "").note


def test_other_readings_are_marked_as_such():
    expected = {figure3: {"", "sparsity 0.75"}, figure9: {""}, figure10: {"", figure10.APART}}
    expected[figure11] = {"", figure11.SCALED, figure11.AT_RANDOM}
    for module, readings in expected.items():
        assert {finding.reading for finding in module.findings(pd.DataFrame())} == readings


def test_being_ahead_with_all_numbers_of_agents_takes_all():
    table, settings = small(figure11, reps=5)
    table["gain"] = 1.0
    assert {finding.agrees for finding in figure11.findings(table, settings)} == {True}
    assert {finding.note for finding in figure11.findings(table, settings)} == {""}
    table.loc[(table["agents"] == 4) & (table["repetition"] < 2), "gain"] = -1.0
    assert {finding.agrees for finding in figure11.findings(table, settings)} == {None}
    assert all(
        "with 4 agents. Not settled by 5 repetitions." in each.note for each in figure11.findings(table, settings)
    )
    table.loc[table["agents"] == 2, "gain"] = -1.0
    assert {finding.agrees for finding in figure11.findings(table, settings)} == {False}
    assert all("Behind with 2 agents." in finding.note for finding in figure11.findings(table, settings))


def test_the_penalty_is_found_once_for_all_repetitions(monkeypatch):
    figure3._shares_of_zeros.cache_clear()
    small(figure3, reps=1)
    assert figure3._shares_of_zeros.cache_info().misses == 1


# table 2


def test_table_2_counts_what_is_there_and_names_the_slips():
    settings = table2.Settings(reps=2)
    tasks = [task for task in table2.tasks(settings) if task.data_name in ("boston", "abalone", "cpusmall")]
    table = pd.DataFrame([row for task in tasks for row in task.rows(load(task.data_name))])
    values = table.pivot_table(index="data", columns="quantity", values="value", aggfunc="median")
    assert values["rows"].to_dict() == {"boston": 506, "abalone": 4177, "cpusmall": 8192}
    assert values["columns"].to_dict() == {"boston": 13, "abalone": 8, "cpusmall": 12}
    assert values.loc["abalone", "test rows"] == 627
    assert values.loc["abalone", "leaves"] <= 2**4
    assert values.loc["cpusmall", "leaves"] <= 2**7
    assert 0.5 < values.loc["abalone", "zero coefficients"] < 1
    findings = {finding.what: finding for finding in table2.findings(table, settings)}
    assert all(finding.agrees is None for finding in findings.values())
    assert findings["Abalone: rows"].ours == "4,177"
    assert findings["Boston in all"].ours.startswith(
        "506 rows, 13 columns, 76 rows for testing, 71 rows of each agent, 2 "
    )
    assert findings["E2006-tfidf: columns"].agrees is None
    assert findings["E2006-tfidf: columns"].ours == "left out"
    cells = {cell.get_text().get_text() for cell in table2.draw(table, settings).axes[0].tables[0].get_celld().values()}
    assert {"4,177\nprinted 4,077", "E2006-tfidf\n(left out)", "8,192"} <= cells


def test_table_2_compares_no_subset_with_the_printed_numbers():
    settings = table2.Settings(reps=1)
    case = {"data": "e2006", "repetition": 0, "complete": False}
    table = pd.DataFrame([{**case, "quantity": "columns", "value": 100}])
    findings = {finding.what: finding for finding in table2.findings(table, settings)}
    assert "E2006-tfidf: columns" not in findings
    assert "subset" in findings["E2006-tfidf in all"].note
    cells = {cell.get_text().get_text() for cell in table2.draw(table, settings).axes[0].tables[0].get_celld().values()}
    assert {"100", "E2006-tfidf\n(subset)"} <= cells
