"""What agents, collectives and answers look like: small, readable, and harmless whatever names they have."""

import io
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import polars as pl
import pytest
from rich.console import Console
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline

from degroot import Agent, Collective, Consensus, DeGrootClassifier, DeGrootRegressor, Flag, InvalidInput
from degroot.answers.display import aligned, one_line

HOSTILE = "<script>alert(1)</script> [red]$x$ \x1b[31m\n& co"


def some_agents(K=3, names=None, frame=False):
    rng = np.random.default_rng(K)
    agents = []
    for k in range(K):
        X = rng.normal(size=(30, 2))
        X = pd.DataFrame(X, columns=["age", "dose"]) if frame else X
        name = f"agent {k}" if names is None else names[k]
        agents.append(Agent(Ridge().fit(X, np.asarray(X)[:, 0]), X, np.asarray(X)[:, 0] + 0.1 * k, name))
    return agents


class Page(HTMLParser):
    """The tags and the text of markup; tags have to be closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.text = [], [], ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def shown(thing, width=100):
    """What rich writes."""
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=False).print(thing)
    return out.getvalue()


def things(names=None):
    collective = Collective(some_agents(3, names), 5, guard=True)
    answer = collective.consult([[0.1, 0.2], [9.0, 9.0]])
    return {"agent": collective.agents[0], "collective": collective, "answer": answer, "explained": answer.explain(1)}


# -- notebooks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["agent", "collective", "answer", "explained"])
def test_markup_is_whole_and_small(kind):
    page = Page(things()[kind]._repr_html_())
    assert set(page.tags) <= {"div", "style", "p", "strong", "table", "thead", "tbody", "tr", "th", "td"}
    assert "agent 0" in page.text
    assert len(things()[kind]._repr_html_()) < 6000


@pytest.mark.parametrize("kind", ["agent", "collective", "answer", "explained"])
def test_a_hostile_name_is_text(kind):
    names = [HOSTILE, "a", "b"]
    page = Page(things(names)[kind]._repr_html_())
    assert "script" not in page.tags
    assert "<script>alert(1)" in page.text
    assert "\x1b" not in page.text + repr(things(names)[kind]) + shown(things(names)[kind])


def test_colours_are_those_around_it():
    """Light or dark: only what is seen on both is set."""
    style = things()["answer"]._repr_html_().partition("<style>")[2].partition("</style>")[0]
    assert "color: inherit" in style
    assert all(word not in style for word in ("black", "white", "#"))


def test_tables_have_headings_for_their_rows_and_columns():
    markup = things()["answer"]._repr_html_()
    assert markup.count('scope="row"') == 2
    assert markup.count('scope="col"') == markup.count("<th") - 3  # thead is no heading


# -- terminals ---------------------------------------------------------------------------------------------------------


def test_an_answer_shows_its_first_points():
    answer = Collective(some_agents(), 5).consult(np.random.default_rng(0).normal(size=(1000, 2)))
    lines = repr(answer).split("\n")
    assert lines[0] == "Consensus of 3 agents on 1,000 points"
    assert lines[2].split() == ["point", "value", "standard", "error", "largest", "weight"]
    assert lines[-2:] == ["and 994 more", "fields: value, standard_error, weights, beliefs, trust, influence"]
    assert len(lines) == 11
    assert float(lines[3].split()[1]) == pytest.approx(answer.value[0], abs=0.006)


def test_an_answer_shows_its_points_by_their_names():
    X = pd.DataFrame({"age": [0.0, 1.0], "dose": [0.0, 1.0]}, index=["Ada", "Bo"])
    lines = repr(Collective(some_agents(frame=True), 5).consult(X)).split("\n")
    assert [line.split()[0] for line in lines[3:5]] == ["Ada", "Bo"]


def test_an_answer_shows_who_was_missing_or_flagged():
    flags = (Flag("a", "missing: it is down", np.array([0])), Flag("b", "unverified: too few", np.array([1])))
    text = repr(Consensus(("a", "b"), value=np.array([1.0, 2.0]), flags=flags))
    assert "a missing" in text.split("\n")[3]
    assert "b unverified" in text.split("\n")[4]
    assert "missing: a\nflagged: b\n" in text


def test_answers_about_nothing_or_without_values_are_shown():
    assert repr(Consensus(("a",))).endswith("fields: none")
    assert "on 0 points" in repr(Collective(some_agents(), 5).consult(np.empty((0, 2))))
    assert repr(Collective(some_agents(), 5).consult([[0.0, 0.0]], fields="trust")).endswith("fields: trust")


def test_classes_and_outputs_have_columns_of_their_own():
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = DeGrootClassifier(n_agents=2, random_state=0).fit(X, np.where(X[:, 0] > 0, "yes", "no"))
    assert "value no  value yes" in repr(model.collective_.consult(X[:3]))
    assert "value 0  value 1" in repr(DeGrootRegressor(n_agents=2).fit(X, X).collective_.consult(X[:3]))


def test_rich_writes_the_same():
    collective, answer = things()["collective"], things()["answer"]
    assert "Collective of 3 agents" in shown(collective)
    assert "Ridge" in shown(collective)
    assert "Consensus of 3 agents on 2 points" in shown(answer)
    assert "agent 0" in shown(answer.explain(0))


def test_many_agents_are_listed_briefly():
    collective = Collective(some_agents(40), 5)
    for text in (shown(collective), repr(collective), repr(collective.consult([[0.0, 0.0]]))):
        assert len(text) < 1500
        assert "more" in text


def test_agents_say_how_their_own_models_are_scored():
    X, y = np.eye(3), np.arange(3.0)
    for own, words in ((None, "these rows"), (y, "own predictions of these rows"), ("peers", "the peers' rows")):
        agent = Agent(lambda X: X[:, 0], X, y, "a", own_predictions=own)
        assert f"own model scored on {words}" in shown(agent)


def test_columns_are_aligned_and_names_are_one_line():
    assert aligned([["name", "size"], ["a", "1.50"], ["long name", "10.25"]]) == [
        "name        size",
        "a           1.50",
        "long name  10.25",
    ]
    assert one_line("a\nb\tc\x00") == "a b c?"


# -- frames ------------------------------------------------------------------------------------------------------------


def test_a_frame_holds_the_answer_and_its_index():
    X = pd.DataFrame({"age": [0.0, 1.0], "dose": [0.0, 1.0]}, index=["Ada", "Bo"])
    answer = Collective(some_agents(frame=True), 5).calibrate().consult(X, coverage=0.8)
    frame = answer.to_frame()
    assert frame.index.tolist() == ["Ada", "Bo"]
    expected = ["value", "standard_error", "lower", "upper"]
    expected += [f"{what}_{name}" for what in ("weight", "belief", "influence") for name in answer.names]
    assert frame.columns.tolist() == expected
    assert frame["value"].tolist() == answer.value.tolist()
    assert frame["weight_agent 1"].tolist() == answer.weights[:, 1].tolist()
    assert frame["belief_agent 2"].tolist() == answer.beliefs[:, 2].tolist()


def test_a_frame_of_polars_is_the_same():
    answer = Collective(some_agents(), 5, guard=True).consult([[0.0, 0.0], [50.0, 50.0]])
    pandas, polars = answer.to_frame(), answer.to_frame("polars")
    assert isinstance(polars, pl.DataFrame)
    assert polars.columns == pandas.columns.tolist()
    assert polars.to_dict(as_series=False) == pandas.to_dict(orient="list")
    assert "unverified" in pandas["flags"].iloc[1]


def test_the_fields_of_a_frame_can_be_chosen():
    answer = Collective(some_agents(), 5).consult([[0.0, 0.0]])
    assert answer.to_frame(fields="value").columns.tolist() == ["value"]
    trust = answer.to_frame(fields=["trust"])
    assert trust["trust_agent 0_agent 2"].tolist() == [answer.trust[0, 0, 2]]
    sampled = Collective(some_agents(6), 5, degree=3).consult([[0.0, 0.0]])
    assert sampled.to_frame(fields="trust").shape == (1, 18)
    with pytest.raises(InvalidInput, match=r"`fields` must be among what the answer holds, 'value', .*; got 'lower'"):
        answer.to_frame(fields="lower")
    with pytest.raises(InvalidInput, match="`library` must be one of 'pandas', 'polars'; got 'arrow'"):
        answer.to_frame("arrow")


def test_columns_that_would_be_called_alike_are_refused():
    beliefs = np.zeros((1, 2, 2))
    answer = Consensus(("a", "a_x"), beliefs=beliefs, value=np.zeros((1, 2)), classes=("'x_y'", "'y'"))
    with pytest.raises(InvalidInput, match="Columns must have distinct names; two are called 'belief_a_x_y'"):
        answer.to_frame()


def test_answers_to_an_asker_are_shown_with_its_own_model():
    collective = Collective(some_agents(), 5)
    answer = collective.consult([[0.1, 0.2], [0.3, 0.4]], asker="agent 1")
    lines = repr(answer).split("\n")
    assert lines[0] == "Answers of 3 agents to agent 1 on 2 points"
    assert lines[2].split()[:4] == ["point", "value", "own", "correction"]
    assert float(lines[3].split()[2]) == pytest.approx(answer.beliefs[0, 1], abs=0.006)
    assert lines[-1].endswith("influence, correction")
    assert answer.to_frame().columns.tolist()[:3] == ["value", "standard_error", "correction"]
    assert answer.to_frame()["correction"].tolist() == answer.correction.tolist()
    assert answer.to_frame(fields=["asker"])["asker"].tolist() == ["agent 1"] * 2
    with pytest.raises(InvalidInput, match="`fields` must be among what the answer holds"):
        collective.consult([[0.1, 0.2]]).to_frame(fields="asker")


def test_answers_to_several_askers_say_to_whom():
    names = ["agent 2", None, "agent 0"]
    answer = Collective(some_agents(), 5).consult([[0.1, 0.2], [0.3, 0.4], [900.0, 0.0]], asker=names)
    lines = repr(answer).split("\n")
    assert lines[0] == "Answers of 3 agents to agent 2 and agent 0 on 3 points"
    assert [line[7:14].strip() for line in lines[2:6]] == ["asker", "agent 2", "-", "agent 0"]
    for library in ("pandas", "polars"):
        frame = answer.to_frame(library)
        assert [None if pd.isna(each) else each for each in frame["asker"].to_list()] == names
        assert frame["correction"].to_list()[1] == 0.0
        assert frame["flags"].to_list()[2].endswith("all agents: far from all")
    assert Page(answer._repr_html_())
    assert "agent 2" in shown(answer)


@pytest.mark.parametrize("Q", [2, None])
def test_corrections_of_several_outputs_have_columns_of_their_own(Q):
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = X if Q else np.where(X[:, 0] > 0, "yes", "no")
    model = (DeGrootRegressor if Q else DeGrootClassifier)(n_agents=2, random_state=0).fit(X, y)
    frame = model.collective_.consult(X[:3], asker="agent 1").to_frame()
    assert {f"correction_{name}" for name in (("0", "1") if Q else ("no", "yes"))} <= set(frame.columns)


# -- estimators --------------------------------------------------------------------------------------------------------


def test_an_estimator_gives_what_every_agent_predicts():
    X = np.random.default_rng(0).normal(size=(60, 2))
    for y, Q in ((X[:, 0], 1), (X, 2)):
        model = DeGrootRegressor(n_agents=3, random_state=0).fit(X, y)
        expected = np.hstack([agent.predict(X).reshape(60, Q, 1)[:, :, 0] for agent in model.agents_])
        np.testing.assert_array_equal(model.transform(X), expected)
        assert len(model.get_feature_names_out()) == 3 * Q
    yes = DeGrootClassifier(n_agents=2, random_state=0).fit(X, np.where(X[:, 0] > 0, "yes", "no"))
    assert yes.get_feature_names_out().tolist()[:2] == ["degrootclassifier_agent 1_no", "degrootclassifier_agent 1_yes"]
    assert yes.transform(X).shape == (60, 4)


def test_a_pipeline_gives_frames_that_keep_the_index():
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), columns=["age", "dose"])
    X.index = [f"patient {k}" for k in range(60)]
    y = X["age"].to_numpy()
    stacked = make_pipeline(DeGrootRegressor(n_agents=2, random_state=0), LinearRegression())
    stacked.set_output(transform="pandas").fit(X, y)
    middle = stacked[0].transform(X)
    assert middle.index.equals(X.index)
    assert middle.columns.tolist() == ["degrootregressor_agent 1", "degrootregressor_agent 2"]
    assert stacked[-1].feature_names_in_.tolist() == middle.columns.tolist()
    assert isinstance(stacked[0].set_output(transform="polars").transform(X), pl.DataFrame)
    assert isinstance(stacked[0].predict(X), np.ndarray)


def test_predictions_of_frames_stay_arrays():
    X = pd.DataFrame({"age": [0.0, 1.0], "dose": [0.0, 1.0]})
    assert isinstance(Collective(some_agents(frame=True), 5).predict(X), np.ndarray)
