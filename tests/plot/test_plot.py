"""Plots: what is drawn is what the answer holds, on the axes that were given, and no setting of matplotlib changes."""

import sys

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure
from numpy.testing import assert_allclose

from degroot import Agent, Collective, Consensus, Flag, InvalidInput, plot
from degroot.consultation.gains import RowLosses, compare_losses

COVERAGES = (0.5, 0.8, 0.95)


def some_agents(K, n=40):
    rng = np.random.default_rng(K)
    agents = []
    for k in range(K):
        X = rng.normal(np.linspace(-3, 3, K)[k], 1.0, size=(n, 2))
        agents.append(Agent(lambda X, k=k: np.asarray(X)[:, 0] * (1 + 0.3 * k), X, np.abs(X[:, 0]), f"region_{k}"))
    return agents


X = np.random.default_rng(1).normal(size=(90, 2))


@pytest.fixture(scope="module")
def collective():
    return Collective(some_agents(4), 5).calibrate()


@pytest.fixture(scope="module")
def answer(collective):
    return collective.consult(X)


@pytest.fixture(scope="module")
def crowd():
    return Collective(some_agents(128, 8), 3).consult(X[:12])


def fan(collective):
    return [collective.consult(X, coverage=coverage) for coverage in COVERAGES]


def drawn(collective, answer):
    """Every kind of plot, to be drawn on given axes."""
    return [
        lambda ax: plot.weights(answer, X, 0, ax=ax),
        lambda ax: plot.weights(collective, pd.DataFrame(X, columns=["$a_1$", "b"]).iloc[:9], "b", ax=ax),
        lambda ax: plot.trust(answer, ax=ax),
        lambda ax: plot.trust(answer, 3, ax=ax),
        lambda ax: plot.rounds(answer, 3, ax=ax),
        lambda ax: plot.intervals(fan(collective), X[:, 0], np.abs(X[:, 0]), ax=ax),
        lambda ax: plot.influence(answer, ax=ax),
        lambda ax: plot.influence(answer, 3, ax=ax),
        lambda ax: plot.gains(collective.gains(), ax=ax),
    ]


@pytest.mark.parametrize("kind", range(9))
def test_axes_are_taken_and_given(kind, collective, answer):
    draw = drawn(collective, answer)[kind]
    given = Figure().subplots()
    assert draw(given) is given
    made = draw(None)
    assert isinstance(made, Axes)
    assert made.figure is not given.figure
    made.figure.draw_without_rendering()  # what cannot be drawn is found out only now


def test_no_setting_changes_and_pyplot_is_left_alone(collective, answer):
    before, had = dict(matplotlib.rcParams), "matplotlib.pyplot" in sys.modules
    for draw in drawn(collective, answer):
        draw(None)
    assert dict(matplotlib.rcParams) == before
    assert ("matplotlib.pyplot" in sys.modules) == had


def test_what_is_no_axes_is_refused(answer):
    with pytest.raises(InvalidInput, match="`ax` must be axes of matplotlib; got Figure"):
        plot.trust(answer, ax=Figure())


def test_matplotlib_is_asked_for_where_it_is_missing(answer, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(InvalidInput, match=r"The picture needs matplotlib: pip install 'degroot\[plot\]'"):
        plot.trust(answer)


# -- weights -----------------------------------------------------------------------------------------------------------


def test_weights_are_stacked_to_one():
    line = np.c_[np.linspace(-3, 3, 20), np.zeros(20)]
    answer = Collective(some_agents(3), 5).consult(line)
    ax = plot.weights(answer, line, 0)
    for k, collection in enumerate(ax.collections):
        vertices = collection.get_paths()[0].vertices
        for i in (0, 7, 19):
            there = vertices[np.isclose(vertices[:, 0], line[i, 0]), 1]
            assert_allclose(np.ptp(there), answer.weights[i, k], atol=1e-12)
    assert ax.get_ylim() == (0.0, 1.0)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["region_2", "region_1", "region_0"]


def test_of_many_points_neighbours_are_averaged(answer):
    ax = plot.weights(answer, X, 0)
    places = np.unique(ax.collections[0].get_paths()[0].vertices[:, 0])
    groups = np.array_split(np.sort(X[:, 0]), 40)
    assert_allclose(places, [group.mean() for group in groups])


def test_of_many_agents_each_has_a_line(crowd):
    ax = plot.weights(crowd, X[:12], 0)
    mesh = ax.collections[0].get_array()
    assert mesh.shape == (128, 12)
    order = np.argsort(X[:12, 0])
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert len(names) <= 40
    first = crowd.names.index(names[0])
    assert_allclose(mesh[0], crowd.weights[order, first])
    assert_allclose(np.asarray(mesh).sum(axis=0), 1.0)


def test_one_point_and_one_agent_can_be_drawn():
    alone = Collective(some_agents(1), 5)
    for draw in (
        lambda: plot.weights(alone, X[:1], 0),
        lambda: plot.trust(alone.consult(X[:1])),
        lambda: plot.rounds(alone.consult(X[:1]), 0),
        lambda: plot.influence(alone.consult(X[:1]), 0),
        lambda: plot.influence(alone.consult(X[:1])),
    ):
        draw().figure.draw_without_rendering()


@pytest.mark.parametrize("feature", [2, -3, "c", True, 0.5, None])
def test_features_that_are_not_there_are_refused(answer, feature):
    with pytest.raises(InvalidInput, match=r"`feature` must be .*; got "):
        plot.weights(answer, pd.DataFrame(X, columns=["a", "b"]), feature)


def test_features_that_are_no_numbers_are_refused(answer):
    frame = pd.DataFrame({"a": ["x"] * 90, "b": np.r_[np.nan, X[1:, 0]]})
    with pytest.raises(InvalidInput, match="`feature` must be a column of numbers; 'a' is not"):
        plot.weights(answer, frame, "a")
    with pytest.raises(InvalidInput, match="'b' has gaps"):
        plot.weights(answer, frame, "b")
    with pytest.raises(InvalidInput, match="`answer` must have weights for each of 3 points"):
        plot.weights(answer, X[:3], 0)


# -- trust -------------------------------------------------------------------------------------------------------------


def test_the_heat_map_is_the_trust(answer):
    assert_allclose(plot.trust(answer, 3).images[0].get_array(), answer.trust[3])
    assert_allclose(plot.trust(answer).images[0].get_array(), answer.trust.mean(axis=0))
    assert "0." in plot.trust(answer).texts[0].get_text()


def test_what_nobody_has_scored_stays_grey():
    answer = Collective(some_agents(9), 5, degree=3).consult(X[:2])
    cells = plot.trust(answer, 1).images[0].get_array()
    assert (~cells.mask).sum(axis=1).tolist() == [3] * 9
    for row, models in enumerate(answer.peers):
        assert_allclose(cells[row, models], answer.trust[1, row])


def test_agents_that_were_missing_stay_grey():
    trust = np.full((2, 3, 3), 0.5)
    trust[:, 2], trust[:, :, 2] = np.nan, np.nan
    cells = plot.trust(Consensus(("a", "b", "c"), trust=trust)).images[0].get_array()
    assert cells.mask.tolist() == [[False, False, True], [False, False, True], [True, True, True]]


def test_many_agents_have_names_that_can_be_read(crowd):
    ax = plot.trust(crowd)
    assert 20 <= len(ax.get_xticklabels()) <= 32
    assert 20 <= len(ax.get_yticklabels()) <= 40
    assert not ax.texts  # no numbers in 16,384 cells


# -- rounds ------------------------------------------------------------------------------------------------------------


def test_rounds_are_powers_of_trust_and_end_at_the_answer(answer):
    ax = plot.rounds(answer, 3)
    lines = [line for line in ax.lines if len(line.get_xdata()) > 2]
    beliefs = answer.beliefs[3]
    for t in range(len(lines[0].get_xdata())):
        assert_allclose([line.get_ydata()[t] for line in lines], beliefs, rtol=1e-12)
        beliefs = answer.trust[3] @ beliefs
    assert_allclose(lines[0].get_ydata()[-1], answer.value[3], rtol=1e-2, atol=1e-2 * np.ptp(answer.beliefs[3]))
    assert [text.get_text() for text in ax.texts] == ["the answer"]


def test_the_picture_says_where_pooling_does_not_lead_to_the_answer():
    answer = Collective(some_agents(4), 5, "average").consult(X)
    words = {plot.rounds(answer, i).texts[0].get_text() for i in range(20)}
    assert "the answer, by another rule" in words


def test_who_was_missing_or_left_out_does_not_pool():
    trust = np.array([[[0.5, 0.2, 0.3], [0.2, 0.5, 0.3], [np.nan] * 3]])
    flags = (Flag("c", "missing: it did not answer", np.array([0])),)
    answer = Consensus(
        ("a", "b", "c"), value=np.array([1.5]), beliefs=np.array([[1.0, 2.0, np.nan]]), trust=trust, flags=flags
    )
    lines = [line for line in plot.rounds(answer, 0).lines if len(line.get_xdata()) > 2]
    assert len(lines) == 2
    assert_allclose(lines[0].get_ydata()[1], (0.5 * 1 + 0.2 * 2) / 0.7)


def test_agents_that_do_not_listen_pool_a_hundred_rounds():
    trust = np.array([[[1.0 - 1e-9, 1e-9], [1e-9, 1.0 - 1e-9]]])
    answer = Consensus(("a", "b"), value=np.array([1.5]), beliefs=np.array([[1.0, 2.0]]), trust=trust)
    assert len(plot.rounds(answer, 0).lines[0].get_xdata()) == 101


def test_of_many_agents_a_few_have_names(crowd):
    names = [text.get_text() for text in plot.rounds(crowd, 0).get_legend().get_texts()]
    assert names[-1] == "121 others"
    heaviest = [crowd.names[k] for k in np.argsort(-crowd.weights[0], kind="stable")[:7]]
    assert sorted(names[:-1]) == sorted(heaviest)


def test_long_names_can_be_told_apart_and_do_not_overlap():
    names = tuple(f"Universitätsklinikum {place}" for place in ("Bonn", "Ulm", "Jena", "Köln"))
    ax = plot.trust(Consensus(names, value=np.zeros(1), trust=np.full((1, 4, 4), 0.25)))
    ax.figure.draw_without_rendering()
    for axis in (ax.xaxis, ax.yaxis):
        labels = axis.get_ticklabels()
        assert len({label.get_text() for label in labels}) == 4
        boxes = [label.get_window_extent() for label in labels]
        assert not any(one.overlaps(other) for k, one in enumerate(boxes) for other in boxes[:k])


# -- intervals and influence -------------------------------------------------------------------------------------------


def test_each_coverage_has_a_band(collective):
    answers = fan(collective)
    ax = plot.intervals(answers[::-1], pd.Series(X[:, 0], name="$dose_1$"))
    assert ax.get_xlabel() == "$dose_1$"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "value", "50 % interval", "80 % interval", "95 % interval",
    ]  # fmt: skip
    for band, answer in zip(ax.collections, answers, strict=True):
        heights = band.get_paths()[0].vertices[:, 1]
        assert_allclose([heights.min(), heights.max()], [answer.lower.min(), answer.upper.max()])


def test_intervals_need_a_coverage_and_a_place_for_each_point(collective, answer):
    with pytest.raises(InvalidInput, match=r"`answers` must have value, lower and upper, as consult\(X, coverage"):
        plot.intervals(answer, X[:, 0])
    with pytest.raises(InvalidInput, match="`x` must hold a number for each of 90 points"):
        plot.intervals(fan(collective), X)
    with pytest.raises(InvalidInput, match="`answers` must be about the same points"):
        plot.intervals([fan(collective)[0], collective.consult(X[:3], coverage=0.9)], X[:, 0])
    with pytest.raises(InvalidInput, match="at least one answer"):
        plot.intervals([], X[:, 0])
    for x, y in ((np.full(len(X), np.nan), None), (X[:, 0], np.full(len(X), np.nan))):
        with pytest.raises(InvalidInput, match=f"must hold numbers, .*; all {len(X)} are gaps"):
            plot.intervals(fan(collective), x, y)


def test_bars_are_influence(answer):
    bars = plot.influence(answer, 3).patches
    order = np.argsort(-np.abs(answer.influence[3]))
    assert_allclose([bar.get_width() for bar in bars], answer.influence[3][order])
    mean = np.abs(answer.influence).mean(axis=0)
    assert_allclose([bar.get_width() for bar in plot.influence(answer).patches], np.sort(mean)[::-1])


def test_of_many_agents_the_most_influential_have_bars(crowd):
    ax = plot.influence(crowd, 0)
    assert len(ax.patches) == 20
    least = np.sort(np.abs(crowd.influence[0]))[::-1][20]
    assert f"(and 108 more agents, of {least:.2g} at most)" in ax.get_xlabel()


# -- gains -------------------------------------------------------------------------------------------------------------


def some_gains(changes, clear=(), n=20):
    """Organisations whose losses change by so many percent, some of them beyond chance."""
    own, noise = np.ones(n), np.resize([-1.0, 1.0], n)
    measured = [
        RowLosses(np.arange(n), own, own - 0.05, own + change / 100 + noise * (0.01 if k in clear else 3.0), own)
        for k, change in enumerate(changes)
    ]
    return compare_losses([f"region_{k}" for k in range(len(changes))], [""] * len(changes), [*measured])


def test_the_greatest_gain_is_on_top_and_what_is_beyond_chance_is_filled():
    found = some_gains([30.0, -20.0, 1.0, -5.0], clear=(0, 1))
    ax = found.plot()
    assert [text.get_text() for text in ax.get_yticklabels()] == ["region_1", "region_3", "region_2", "region_0"]
    assert ax.get_title() == "2 of 4 organisations gain, 1 lose beyond chance"
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["gain, beyond chance", "gain", "loss", "loss, beyond chance", "control"]
    dots = [each for each in ax.collections if isinstance(each, PathCollection)]
    drawn = [each.get_offsets() for each in dots]
    assert_allclose([each[0] for each in drawn[:4]], [[-20, 0], [-5, 1], [1, 2], [30, 3]])
    assert_allclose(drawn[4][:, 0], -5.0)
    white = [bool((each.get_facecolor()[0, :3] == 1.0).all()) for each in dots[:4]]
    assert white == [False, True, True, False]
    ends = [each.get_segments()[0][:, 0] for each in ax.collections if isinstance(each, LineCollection)]
    assert_allclose(ends[0], [-20 - found.change_error[1], -20 + found.change_error[1]])


def test_a_loss_beyond_the_edge_is_written_there():
    ax = some_gains([400.0, -20.0], clear=(0, 1)).plot()
    assert [text.get_text() for text in ax.texts] == ["+400 %"]
    assert ax.get_xlim()[1] < 120.0


def test_of_nobody_measured_a_picture_says_so_and_what_is_no_gains_is_refused(answer):
    ax = compare_losses(["a"], [""], ["no rows"]).plot()
    assert [text.get_text() for text in ax.texts] == ["nobody was measured"]
    assert "(1 could not be measured)" in compare_losses(["a", "b"], [""] * 2, [
        RowLosses(np.arange(2), *np.ones((4, 2))), "no rows",
    ]).plot().get_xlabel()  # fmt: skip
    with pytest.raises(InvalidInput, match=r"`gains` must be what Collective.gains\(\) gives; got Consensus"):
        plot.gains(answer)


@pytest.mark.parametrize("draw", [plot.trust, plot.influence, lambda answer: plot.rounds(answer, 0)])
def test_a_field_that_was_not_asked_for_is_asked_for(collective, draw):
    with pytest.raises(InvalidInput, match=r"`answer` must have the fields? (trust|influence)"):
        draw(collective.consult(X, fields="value"))


@pytest.mark.parametrize("draw", [plot.trust, plot.influence, plot.rounds])
@pytest.mark.parametrize("i", [90, -91, 0.5, "1", True])
def test_points_that_are_not_there_are_refused(answer, draw, i):
    with pytest.raises(InvalidInput, match="must be the number of one of 90 points"):
        draw(answer, i)


def test_names_are_no_formulas_and_none_is_hidden():
    names = ("$x^2", "_hidden", "<b>", "two\nlines")
    agents = [Agent(lambda X: X[:, 0], np.eye(3), np.arange(3.0), name) for name in names]
    answer = Collective(agents).consult(np.eye(3))
    pictures = plot.weights(answer, np.eye(3), 0), plot.trust(answer), plot.rounds(answer, 0), plot.influence(answer)
    for ax in pictures:
        ax.figure.draw_without_rendering()  # a formula that is none would be an error
    legend = [text.get_text().strip() for text in plot.rounds(answer, 0).get_legend().get_texts()]
    assert legend == ["$x^2", "_hidden", "<b>", "two lines"]
