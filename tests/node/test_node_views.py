"""A node answers from its own view as a collective in process does for an asker; peers tell predictions only."""

import asyncio
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.tree import DecisionTreeRegressor
from support.consortium import Consortium, save_linear
from support.drills import missing, until

from degroot import Agent, Collective, InvalidInput, connect
from degroot.answers.answer import ASKER_FIELDS
from degroot.answers.flags import FAR_FROM_ALL
from degroot.consultation.asker import ViewQuestion
from degroot.exceptions import DeGrootError
from degroot.intervals import rows_needed
from degroot.node.protocol.codec import PROTOCOL, decode_prediction, tensor
from degroot.node.protocol.v3 import collective_pb2 as wire
from degroot.node.records.ledger import IN, OUT, summary
from degroot.node.scoring import views
from degroot.node.scoring.views import OwnViews
from degroot.rules.rules import RULES, RuleSettings

OF_CANDIDATES = ("shares", "errors", "differences", "standard_errors")
MODELS = (LinearRegression(), Ridge(30.0), DecisionTreeRegressor(max_depth=3, random_state=0))


def unlike_agents(seed, K=3, **settings):
    """Organisations with unlike rows, models and labels; some labels are off by a constant."""
    rng = np.random.default_rng(seed)
    for k in range(K):
        n = int(rng.integers(70, 130))
        X = rng.normal(rng.normal(0.0, 0.8, 3), rng.uniform(0.6, 1.5), (n, 3))
        y = np.sin(X).sum(axis=1) + 0.4 * k + 0.3 * rng.normal(size=n)
        half = n // 2
        fitted = MODELS[k % 3].__class__(**MODELS[k % 3].get_params()).fit(X[:half], y[:half])
        own = np.where(np.arange(n) < half, y + rng.normal(size=n), fitted.predict(X))  # as if left out
        yield Agent(fitted, X, y, f"node{k}", own_predictions=own, **settings), y


def points_near(agents, M=40, seed=0):
    """Points among all agents' rows, and some far from everybody's."""
    rng, rows = np.random.default_rng(seed), np.vstack([agent.X for agent in agents])
    near = rows[rng.choice(len(rows), M - 3)] + 0.1 * rng.normal(size=(M - 3, rows.shape[1]))
    return np.vstack([near, 30.0 * rng.normal(size=(3, rows.shape[1]))])


def assert_same(found, expected, fields):
    """Equal to 1e-9, also what was mixed; `expected` may lack agents that are missing in what was `found`."""
    present = [found.names.index(name) for name in expected.names]
    absent = [k for k in range(len(found.names)) if k not in present]
    for field in fields:
        one, other = getattr(found, field), getattr(expected, field)
        if field in ("weights", "beliefs", "influence"):
            assert (np.isnan(one[:, absent]) if field == "beliefs" else one[:, absent] == 0.0).all()
            one = one[:, present]
        assert one.shape == other.shape, field
        assert_allclose(one, other, rtol=1e-9, atol=1e-9, err_msg=field)
    assert found.asker == expected.asker
    if expected.asker is not None:
        assert found.choice.candidates == expected.choice.candidates
        assert (found.choice.asker, found.choice.rows, found.choice.folds) == (
            expected.asker, expected.choice.rows, expected.choice.folds,
        )  # fmt: skip
        for name in OF_CANDIDATES:
            assert_allclose(getattr(found.choice, name), getattr(expected.choice, name), rtol=1e-9, atol=1e-12)


def own_flags(answer):
    """Flags of the asker and of what its guard found, which do not take others' rows."""
    kinds = ("far", "alone", "inconsistent")
    return {(flag.agent, flag.reason): flag.points.tolist() for flag in answer.flags if flag.kind in kinds}


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    agents = list(unlike_agents(1))
    with Consortium(tmp_path_factory.mktemp("three"), agents=agents, data='own_predictions = "own"') as made:
        yield made.fork().ready()


# the same answer


def test_every_node_answers_as_the_collective_in_process_does_for_it(three):
    X, collective = points_near(three.agents), three.collective()
    for name in three.names:
        assert_view(three, name, X, collective)
    assert np.abs(collective.predict(X) - collective.predict(X, asker="node0")).max() > 0.01  # views differ


def assert_view(consortium, name, X, collective):
    """What a node answers its own people is what the collective in process does for it."""
    expected = collective.consult(X, coverage=0.9, asker=name)
    with consortium.connect(name, caller=name, view="own") as node:
        found = node.consult(X, coverage=0.9)
        assert_same(found, expected, ASKER_FIELDS)
        known = np.arange(len(X))  # by directions no point is far; in process it is, by everybody's ranges of features
        if collective.metric == "cosine":
            known = np.setdiff1d(known, [flag.points for flag in expected.flags if flag.kind == FAR_FROM_ALL])
        for field in ("lower", "upper"):
            assert_allclose(getattr(found, field)[known], getattr(expected, field)[known], rtol=1e-9, atol=1e-9)
        assert len(known) >= 37
        assert own_flags(found) == own_flags(expected)
        assert found.coverage == 0.9
        assert found.trust is None
        assert_array_equal(node.predict(X), found.value)
        assert_array_equal(node.predict(X, asker=name), found.value)


SETTINGS = {  # of each node, in its file and in process
    "node0": ("guard = false", {"guard": False}),
    "node1": ('rule = "stacking"\nneighbours = 0.3', {"rule": "stacking", "neighbours": 0.3}),
    "node2": ('metric = "cosine"\nkernel = "tricube"', {"metric": "cosine", "kernel": "tricube"}),
}


def test_with_evidence_at_home_every_node_has_settings_of_its_own(tmp_path):
    agents = list(unlike_agents(1))
    with Consortium(tmp_path, 3, agents=agents, data='own_predictions = "own"', evidence="own") as apart:
        for name, (settings, _) in SETTINGS.items():
            apart.write(name, settings=settings, data='own_predictions = "own"')
        apart.fork().ready()
        X = points_near(apart.agents)
        for name, (_, chosen) in SETTINGS.items():
            assert_view(apart, name, X, apart.collective(**chosen))
    values = [apart.collective(**chosen).predict(X, asker="node0") for _, chosen in SETTINGS.values()]
    assert all(np.abs(one - other).max() > 1e-3 for one, other in pairwise(values))  # the settings matter


def test_a_corrected_view_is_that_in_process(three):
    X = points_near(three.agents)
    with three.connect("node1", caller="node1", view="own") as node:
        found = node.consult(X, correct=True)
        assert_same(found, three.collective().consult(X, asker="node1", correct=True), ASKER_FIELDS)
        assert "mixture, corrected" in found.choice.candidates
    with three.connect("node1") as node, pytest.raises(InvalidInput, match="`correct` must come with a node's own"):
        node.predict(X, correct=True)


def test_many_points_are_streamed_and_none_are_answered_too(three):
    X, expected = points_near(three.agents, 2300), three.collective()
    with three.connect(view="own") as node:
        assert_allclose(node.predict(X), expected.predict(X, asker="node0"), rtol=1e-9, atol=1e-9)
        nothing = node.consult(X[:0], coverage=0.9)
    assert (nothing.value.shape, nothing.weights.shape, nothing.lower.shape) == ((0,), (0, 3), (0,))
    assert nothing.asker == "node0"


def test_classes_have_views_too(tmp_path):
    rng, classes, agents = np.random.default_rng(7), ["cat", "cow", "dog"], []
    for k in range(3):
        X = rng.normal(rng.normal(size=3), 1.5, (90, 3))
        y = np.array(classes)[np.argmax(X + rng.normal(size=X.shape), axis=1)]
        agents.append((Agent(LogisticRegression().fit(X[:50], y[:50]), X, y, f"node{k}", classes=classes), y))
    X = points_near([agent for agent, _ in agents])
    with Consortium(tmp_path, 3, agents=agents, data='classes = ["cat", "cow", "dog"]') as made:
        with made.fork().ready().connect(view="own") as node:
            found = node.consult(X, coverage=0.8)
        expected = made.collective().consult(X, asker="node0", coverage=0.8)
    assert_same(found, expected, ASKER_FIELDS)
    assert_array_equal(found.sets, expected.sets)
    assert_allclose(found.value.sum(axis=1), 1.0)


# whose view


def test_the_consensus_is_had_by_asking_for_it(three):
    X, expected = points_near(three.agents), three.collective().consult(points_near(three.agents))
    fields = ["value", "standard_error", "weights", "beliefs"]
    for settings in ({"view": "consensus"}, {"way": "rounds", "tolerance": 1e-12}):
        with three.connect(**settings) as node:
            assert node.view == "consensus"
            found = node.consult(X)
            assert (found.asker, found.choice) == (None, None)
            assert_allclose(found.value, expected.value, rtol=1e-6)
    with three.connect() as node:
        assert_same(node.consult(X), expected, [*fields, "trust"])
        assert node.consult(X, asker="node0").asker == "node0"  # whatever the connection is for


@pytest.mark.parametrize(
    ("settings", "asked", "said"),
    [
        ({}, {"asker": "node2"}, r"^`asker` must be the asked node, 'node0'; for the view of 'node2' ask its own"),
        ({}, {"asker": "nobody"}, r"^`asker` must be the name of the asked node, 'node0'; got 'nobody'\.$"),
        ({}, {"asker": ["node0"]}, r"^`asker` must be the name of the asked node, 'node0'; got a list\.$"),
        ({}, {"fields": ["value", "trust"]}, r"^`fields` must be among 'value', .*; got 'trust'\.$"),
        ({}, {"coverage": 0.9999}, r"^A coverage of 0\.9999 must be calibrated on at least \d+ rows; 'node0' has"),
        ({"way": "rounds"}, {"asker": "node0"}, r"^A node's own view must be asked for by solving.*got 'rounds'\.$"),
        ({"way": "rounds", "view": "own"}, {}, r"^A node's own view must be asked for by solving.*got 'rounds'\.$"),
        ({"view": "mine"}, {}, r"^`view` must be 'own' or 'consensus'; got 'mine'\.$"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(three, settings, asked, said):
    address, who = f"127.0.0.1:{three.ports['node0']}", three.credentials()
    with pytest.raises(InvalidInput, match=said), connect(address, node="node0", **who, **settings) as node:
        node.consult(np.zeros((2, 3)), **asked)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"view": "mine"}, "`view` must be 'own' or 'consensus'; got 'mine'."),
        ({"view": "own", "way": "rounds", "rounds": 5}, "must be asked for by solving"),
        ({"view": "own", "fields": ["trust"]}, "got 'trust'."),
        ({"view": "consensus", "correct": True}, "`correct` must be asked for with a node's own view; got the consen"),
        (
            {"asker": "node2"},
            "A node answers for itself only, and this is 'node0'; for 'node2' ask its own node, at 127.",
        ),
        ({"view": "consensus", "asker": "node2"}, "for 'node2' ask its own node, at 127.0.0.1:"),
        ({"asker": "nobody"}, "`asker` must be the asked node, 'node0'; got 'nobody'."),
    ],
)
def test_a_node_refuses_what_makes_no_sense(three, changes, said):
    request = {"protocol": PROTOCOL, "points": tensor(np.zeros((1, 3))), "fields": ["value"], **changes}
    with three.connect() as node, pytest.raises(Exception, match="INVALID_ARGUMENT") as caught:
        node._stub.Ask(wire.ConsultRequest(**request), timeout=60)
    assert said in caught.value.details()


@pytest.mark.parametrize("asker", ["", "node0"])
def test_whoever_names_no_view_gets_that_of_the_asked_node(three, asker):
    X = points_near(three.agents)
    request = wire.ConsultRequest(protocol=PROTOCOL, points=tensor(X), fields=["value"], asker=asker)
    with three.connect() as node:
        reply = node._stub.Ask(request, timeout=60)
        assert (reply.asker, reply.HasField("choice")) == ("node0", True)
        value = np.frombuffer(reply.fields["value"].data)
        assert_allclose(value, three.collective().predict(X, asker="node0"), rtol=1e-9)


# what peers say


def test_peers_tell_predictions_and_nothing_else_and_it_is_recorded_as_that(three):
    X = points_near(three.agents)

    def recorded(name, peer, direction):
        lines = summary(three.configuration(name).ledger)
        return sum(
            line.rows for line in lines if (line.peer, line.kind, line.direction) == (peer, "prediction", direction)
        )

    before = recorded("node0", "node1", OUT), recorded("node1", "node0", IN)
    with three.connect(view="own") as node:
        node.consult(X)
    assert recorded("node0", "node1", OUT) == before[0] + len(X)
    assert recorded("node1", "node0", IN) == before[1] + len(X)
    request = wire.PredictRequest(protocol=PROTOCOL, id=7, points=tensor(X))
    with three.connect("node1", caller="node0") as node:
        reply = next(iter(node._stub.Predict(iter([request]), timeout=60)))
    assert {field.name for field, _ in reply.ListFields()} == {"id", "model_version", "predictions"}
    assert reply.id == 7
    assert_allclose(decode_prediction(reply, len(X), 1).beliefs[:, 0], three.agents[1].predict(X), rtol=1e-12)


# who is missing


def test_without_some_peers_those_who_are_there_answer_and_alone_the_own_model(tmp_path):
    with Consortium(tmp_path, 3, agents=list(unlike_agents(2)), data='own_predictions = "own"') as dying:
        X = points_near(dying.agents)
        dying.fork().ready()
        _take_other_model(dying, "node1")
        with dying.connect(view="own") as node:
            expected = dying.collective().predict(X, asker="node0")
            until(lambda: np.allclose(node.predict(X), expected, rtol=1e-9), "node1's new model is never scored")
            assert not _flagged(node.consult(X), "stale")
            dying.kill("node2")
            for _ in range(2):  # made, and kept
                found = node.consult(X, coverage=0.9)
                assert set(missing(found)) == {"node2"}
                expected = dying.collective(without=["node2"]).consult(X, coverage=0.9, asker="node0")
                assert_same(found, expected, [*ASKER_FIELDS, "lower", "upper"])
            dying.kill("node1")
            found = node.consult(X, coverage=0.9)
            assert set(missing(found)) == {"node1", "node2"}
            alone = Collective(dying.agents[:1], guard=True).consult(X, coverage=0.9, asker="node0")
            assert_same(found, alone, ["value", "weights", "lower", "upper", "correction"])
            assert_array_equal(found.value, dying.agents[0].predict(X))
            assert np.isnan(found.standard_error).all()
        with dying.connect() as node, pytest.raises(DeGrootError, match="At least 2 agents must answer"):
            node.predict(X)


def test_a_new_model_that_cannot_be_scored_yet_answers_and_is_flagged_as_stale(tmp_path):
    """Its owner lets the asked node have enough rows a day for one version and some points, not for two versions."""
    agents = list(unlike_agents(2))
    with Consortium(tmp_path, agents=agents, data='own_predictions = "own"', evidence="own") as nodes:
        X, home = points_near(nodes.agents)[-8:], nodes.folder / "node1" / "node.toml"
        budget = f"rows_per_day = {nodes.agents[0].n_rows + 40}\n"  # rows go in chunks of 50
        home.write_text(home.read_text().replace('name = "node0"\n', f'name = "node0"\n{budget}'))
        nodes.fork().ready()
        with nodes.connect("node0", caller="node0") as node:
            assert_same(node.consult(X), nodes.collective().consult(X, asker="node0"), ASKER_FIELDS)
            view = nodes.collective().view_of("node0")
            _take_other_model(nodes, "node1")
            until(lambda: "(rows_per_day)" in node.members["node1"], lambda: node.members)  # why it is not scored
            for _ in range(2):
                found = node.consult(X)
                assert not missing(found)
                (flag,) = _flagged(found, "stale")
                assert (flag.agent, flag.reason) == (
                    "node1", "stale: an earlier version of its model was scored by node0",
                )  # fmt: skip
                assert_array_equal(flag.points, np.arange(len(X)))
                beliefs = np.stack([agent.predict(X) for agent in nodes.agents], axis=1)
                assert_allclose(found.beliefs, beliefs, rtol=1e-9)  # of the new model
                question = ViewQuestion(frozenset(["value", "weights"]), guard=True)
                expected = view.answer(X, beliefs[..., None], question)  # by the old one's errors
                for field in ("value", "weights"):
                    assert_allclose(getattr(found, field), np.squeeze(expected[field]), rtol=1e-9, atol=1e-9)
            many = points_near(nodes.agents)
            over = node.consult(many)
            assert "(rows_per_day)" in missing(over)["node1"]
            assert_same(over, nodes.collective(without=["node1"]).consult(many, asker="node0"), ASKER_FIELDS)
            assert not missing(node.consult(X))  # a few points are still let through


def _take_other_model(consortium, name):
    """Another model of one node, which it takes in while it runs."""
    agent = next(each for each in consortium.agents if each.name == name)
    agent.model = save_linear(consortium.folder / name / "model.skops", [0.5, -0.5, 0.25, 1.0])
    until(lambda: "model taken in" in consortium.log(name), "the model is never taken in")


def _flagged(answer, kind):
    return [flag for flag in answer.flags if flag.kind == kind]


def test_a_node_without_a_view_says_so_and_answers_with_the_consensus(tmp_path):
    agents = [(Agent(each.model, each.X, y, each.name, own_predictions="peers"), y) for each, y in unlike_agents(3)]
    X = points_near([agent for agent, _ in agents], 10)
    with Consortium(tmp_path, 3, agents=agents, data='own_predictions = "peers"') as nodes:
        nodes.fork().ready()
        with nodes.connect() as node:
            found = node.consult(X)
            assert_same(found, nodes.collective().consult(X), ["value", "weights"])
        with nodes.connect(view="own") as node, pytest.raises(InvalidInput) as caught:
            node.consult(X)
    assert str(caught.value) == (
        "A node must have scored all models on its own rows to answer from its own view; node0: its own model is "
        "scored by its peers, not on its own rows."
    )


# views are made once


def made_views(monkeypatch, made):
    """Views of an agent on three models; `made` is told of every one that is made."""
    rows = np.linspace(0.0, 1.0, 30)[:, None]
    agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.5 * rows[:, 0], name) for k, name in enumerate("abc")]
    collective = Collective(agents)
    kind = views.AskerView

    def make(scorer, names, place, settings):
        made.append(names)
        if len(made) == 1:
            raise DeGrootError("not the first time")
        return kind(scorer, names, place, settings)

    monkeypatch.setattr(views, "AskerView", make)
    return OwnViews(
        agents[1], collective.scorers[1], "abc", RuleSettings("degroot", RULES["degroot"].reach)
    ), collective


def test_a_view_is_made_once_for_all_who_wait_again_after_a_failure_and_few_are_kept(monkeypatch):
    made = []
    found, collective = made_views(monkeypatch, made)

    async def ask():
        with pytest.raises(DeGrootError, match="not the first time"):
            await found.among("abc")
        first, second = await asyncio.gather(found.among("abc"), found.among("abc"))
        assert first is second
        assert_array_equal(first.errors, collective.view_of("b").errors)
        part = await found.among("bc")
        assert (part.names, part.place) == (("b", "c"), 0)
        assert_array_equal(part.errors, collective.leave("a").view_of("b").errors)
        assert await found.among("abc") is first
        for members in ("ab", "b", "bc", "cb", "ba"):
            await found.among(members)
        assert await found.among("abc") is not first  # it had to make way

    asyncio.run(ask())
    assert len(made) == 2 + len({"bc", "ab", "b", "cb", "ba"}) + 1


def test_too_few_rows_for_a_coverage_say_how_many_are_needed():
    """What a node with few rows is told: the same line as in process."""
    rows = np.arange(8.0)[:, None]
    agents = [Agent(lambda X: X[:, 0], rows, rows[:, 0] + 1.0, name) for name in "ab"]
    view = Collective(agents).view_of("a")
    with pytest.raises(InvalidInput, match=f"at least {rows_needed(0.9)} rows; 'a' has 8"):
        view.answer(rows[:1], np.zeros((1, 2, 1)), ViewQuestion(frozenset(["value"]), coverage=0.9))
