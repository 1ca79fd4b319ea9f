"""Intervals over real nodes: those of one process on the same rows; outcomes inside as often as asked for."""

import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import skops.io
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler
from support.consortium import Consortium

from degroot import Agent, Collective, InvalidInput
from degroot.answers.answer import Consensus
from degroot.answers.flags import FAR_FROM_ALL
from degroot.cli.output import columns
from degroot.consultation.consult import Opinion
from degroot.consultation.leave_one_out import ROWS
from degroot.exceptions import DeGrootError
from degroot.intervals import Summary
from degroot.node.intervals.bounds import collect_calibration as all_calibrated
from degroot.node.intervals.schedule import serves
from degroot.node.protocol.codec import (
    CalibrationSummary,
    Malformed,
    Model,
    Near,
    PeerOpinion,
    decode_calibration,
    encode_calibration,
)
from degroot.node.protocol.v1 import collective_pb2 as v1
from degroot.node.records import ledger
from degroot.rules.evidence import Evidence

NOT_YET = ("Intervals must be calibrated at all nodes that answer; not yet at node", "At least 2 agents must answer")
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def outcomes(X, rng):
    """With more noise on one side."""
    return np.sin(X).sum(axis=1) + (0.1 + 0.4 * (X[:, 0] > 0)) * rng.normal(size=len(X))


def unlike(seed, sizes=(150, 200, 170), **settings):
    """Agents with unlike rows, which their models have not seen, and their labels."""
    rng = np.random.default_rng(seed)
    for k, n in enumerate(sizes):
        centre = rng.normal(0.0, 1.0, 2)
        seen, X = (rng.normal(centre, 1.0, (m, 2)) for m in (60, n))
        model = Ridge(0.1 + k).fit(seen, outcomes(seen, rng))
        y = outcomes(X, rng)
        yield Agent(model, X, y, f"node{k}", **settings), y


def calibrated(nodes, names, X, patience=60.0, **settings):
    """What nodes answer with intervals, once all of `names` have rehearsed; before that they say who has not."""
    until = time.monotonic() + patience
    while True:
        try:
            answer = nodes.consult(X, coverage=0.9, **settings)
            assert not {flag.agent for flag in answer.flags if flag.reason.startswith("missing")} & set(names)
            return answer
        except DeGrootError as error:  # a node says that it is ready a moment before it answers with all it has scored
            told = str(error)
        assert told.startswith(NOT_YET), told
        assert time.monotonic() < until
        time.sleep(0.05)


def near(answer):
    """The points that are not far outside all rows: there one process widens intervals, which nodes do not."""
    far = [flag.points for flag in answer.flags if flag.kind == FAR_FROM_ALL]
    return np.setdiff1d(np.arange(answer.points), far)


def close(found, expected):
    assert_allclose(found.value, expected.value, **CLOSE)
    for field in ("lower", "upper"):
        assert_allclose(getattr(found, field)[near(expected)], getattr(expected, field)[near(expected)], **CLOSE)


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    with Consortium(tmp_path_factory.mktemp("three"), 3, agents=list(unlike(0))) as made:
        made.fork().ready()
        with made.connect() as nodes:
            calibrated(nodes, made.names, made.agents[0].X[:1])
        yield made


@pytest.fixture
def points(three):
    rng = np.random.default_rng(1)
    rows = np.vstack([agent.X for agent in three.agents])
    return np.vstack([rows[rng.choice(len(rows), 40)] + 0.1, 20.0 * rng.normal(size=(3, 2))])


def test_nodes_give_the_intervals_of_one_process(three, points):
    for asked, guard in (("node0", True), ("node2", False)):
        whole = three.collective(guard=guard).calibrate()
        with three.connect(asked, guard=guard) as nodes:
            for coverage in (0.5, 0.9, 0.99):
                found = nodes.calibrate().consult(points, coverage=coverage)
                close(found, whole.consult(points, coverage=coverage))
            assert found.sets is None
            assert nodes.consult(points).lower is None
            only = nodes.consult(points, "weights", coverage=0.9)
            assert only.value is None
            expected = whole.consult(points, coverage=0.9)
            assert len(near(expected)) >= 40
            assert_allclose(only.upper[near(expected)], expected.upper[near(expected)], **CLOSE)
            one = nodes.consult(points[:1], coverage=0.9)
            assert_allclose(one.lower, whole.consult(points[:1], coverage=0.9).lower, **CLOSE)


def test_many_points_are_bounded_batch_by_batch(three):
    X = np.random.default_rng(2).normal(size=(2500, 2))
    with three.connect() as nodes:
        close(nodes.consult(X, coverage=0.8), three.collective().calibrate().consult(X, coverage=0.8))


def test_what_cannot_be_asked_for_is_said(three, points):
    with three.connect() as nodes:
        for coverage in (0.0, 1.0, -1, True, "0.9", np.nan):
            with pytest.raises(InvalidInput, match="`coverage` must lie between 0 and 1"):
                nodes.consult(points, coverage=coverage)
        with pytest.raises(InvalidInput, match="at least 9999 rows; there are 520"):
            nodes.consult(points, coverage=0.9999)
    with three.connect(way="rounds") as nodes, pytest.raises(InvalidInput, match="way='solve'; got 'rounds'"):
        nodes.consult(points, coverage=0.9)


def test_degroot_ask_writes_intervals(three, points, tmp_path, degroot):
    pd.DataFrame(points, columns=["x0", "x1"]).to_csv(tmp_path / "points.csv", index=False)
    config = three.folder / "node1" / "node.toml"
    command = ["ask", "--config", config, "--input", tmp_path / "points.csv", "--coverage"]
    for options, asker in ((["--consensus"], None), ([], "node1")):
        assert degroot(*command, 0.9, *options, "--output", tmp_path / "answers.csv")[0] == 0
        table = pd.read_csv(tmp_path / "answers.csv")
        assert list(table.columns)[:4] == ["value", "standard_error", "lower", "upper"]
        expected = three.collective().calibrate().consult(points, coverage=0.9, asker=asker)
        found = table[["lower", "upper"]].to_numpy()
        assert_allclose(found[near(expected)], np.c_[expected.lower, expected.upper][near(expected)], **CLOSE)
    assert degroot(*command, 2) == (2, "", "degroot: `coverage` must lie between 0 and 1; got 2.0.\n")


def test_rehearsed_rows_are_in_the_ledgers(three):
    for name, agent in zip(three.names, three.agents, strict=True):
        lines = [line for line in ledger.summary(three.configuration(name).ledger) if line.kind == "rehearsal"]
        sent = {line.peer: line for line in lines if line.direction == "out"}
        came = {line.peer: line for line in lines if line.direction == "in"}
        assert set(sent) == set(came) == set(three.names) - {name}
        for line in sent.values():  # all rows, which are fewer than a sample may have, twice each time it was begun
            assert line.rows >= 2 * agent.n_rows


STANDARDISED = {"rule": "trust-average", "guard": False, "space": StandardScaler()}
SETTINGS = [
    ('rule = "stacking"', {"rule": "stacking"}, "", {}),
    ('rule = "average"', {"rule": "average"}, "", {}),
    ('rule = "trust-average"\nguard = false', STANDARDISED, 'space = "standardise"', {}),
    ("neighbours = 12", {"neighbours": 12}, 'own_predictions = "peers"', {"own_predictions": "peers"}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("settings", "chosen", "data", "of_agents"), SETTINGS)
def test_other_settings(tmp_path, settings, chosen, data, of_agents):
    agents = list(unlike(3, (90, 2300), **of_agents))  # one of them rehearses with a sample
    X = np.random.default_rng(4).normal(size=(30, 2))
    with Consortium(tmp_path, 2, agents=agents, settings=settings, data=data) as made:
        made.fork().ready()
        with made.connect() as nodes:
            found = calibrated(nodes, made.names, X)
    assert max(agent.n_rows for agent in made.agents) > ROWS
    close(found, made.collective(**chosen).calibrate().consult(X, coverage=0.9))


@pytest.mark.slow
def test_several_outputs(tmp_path):
    rng = np.random.default_rng(5)
    agents = []
    for k in range(3):
        X = rng.normal(size=(80, 2))
        y = np.c_[X.sum(axis=1), X[:, 0] ** 2] + rng.normal(size=(80, 2))
        agents.append((Agent(Ridge().fit(X[:40], y[:40]), X, y, f"node{k}"), y))
    X = rng.normal(size=(20, 2))
    with Consortium(tmp_path, 3, agents=agents, data='target = ["y0", "y1"]') as made:
        made.fork().ready()
        with made.connect() as nodes:
            found = calibrated(nodes, made.names, X)
    assert found.lower.shape == (20, 2)
    close(found, made.collective().calibrate().consult(X, coverage=0.9))


@pytest.mark.slow
def test_sets_of_classes(tmp_path):
    rng, agents = np.random.default_rng(6), []
    kinds = np.array(["cat", "cow", "dog"])
    for k in range(3):
        X = rng.normal(size=(120, 2))
        y = kinds[np.clip(np.round(X[:, 0] + 1 + 0.5 * rng.normal(size=120)), 0, 2).astype(int)]
        agents.append((Agent(LogisticRegression().fit(X, y), X, y, f"node{k}", classes=kinds), y))
    X = rng.normal(size=(50, 2))
    with Consortium(tmp_path, 3, agents=agents, data='classes = ["cat", "cow", "dog"]') as made:
        made.fork().ready()
        with made.connect() as nodes:
            found = calibrated(nodes, made.names, X)
    expected = made.collective().calibrate().consult(X, coverage=0.9)
    assert found.lower is None
    assert found.sets.dtype == bool
    assert_array_equal(found.sets, expected.sets)
    assert 1.0 < found.sets.sum(axis=1).mean() < 3.0


@pytest.mark.slow
def test_outcomes_are_inside_as_often_as_asked_for(tmp_path):
    held, asked = [], 0.9
    for seed in range(3):
        folder = tmp_path / str(seed)
        folder.mkdir()
        made = list(unlike(10 + seed, (400, 400, 400)))
        agents = [(Agent(agent.model, agent.X[:250], y[:250], agent.name), y[:250]) for agent, y in made]
        X, y = np.vstack([agent.X[250:] for agent, _ in made]), np.concatenate([y[250:] for _, y in made])
        with Consortium(folder, 3, agents=agents) as consortium:
            consortium.fork().ready()
            with consortium.connect() as nodes:
                answer = calibrated(nodes, consortium.names, X)
        held.append(((answer.lower <= y) & (y <= answer.upper)).mean())
    sd = np.sqrt(asked * (1 - asked) * (1 / 450 + 1 / 750) / 3)  # of held-out and rehearsed rows, three times
    assert abs(np.mean(held) - asked) < 4 * sd


@pytest.mark.slow
def test_who_is_missing_is_done_without_and_changes_are_rehearsed_anew(tmp_path):
    agents = list(unlike(7))
    with Consortium(tmp_path, 3, agents=agents) as made:
        made.fork().ready()
        X = np.random.default_rng(8).normal(size=(30, 2))
        with made.connect() as nodes:
            calibrated(nodes, made.names, X)
            made.kill("node2")
            found = nodes.consult(X, coverage=0.9)  # at once: the others have rehearsed
            assert [flag.agent for flag in found.flags if flag.reason.startswith("missing")] == ["node2"]
            assert (found.lower < found.value).all()
            assert (found.value < found.upper).all()
            made.write("node0", peers=["node1"])  # and for good
            made.write("node1", peers=["node0"])
            expected = made.collective(without=["node2"]).calibrate().consult(X, coverage=0.9)
            _until_close(nodes, X, expected)
            other = Ridge(50.0).fit(*_seen())
            _replace_model(made.folder / "node1" / "model.skops", other)
            changed = [made.agents[0], Agent(other, made.agents[1].X, made.agents[1].y, "node1")]
            expected = Collective(changed, guard=True).calibrate().consult(X, coverage=0.9)
            _until_close(nodes, X, expected)


def _seen():
    rng = np.random.default_rng(9)
    X = rng.normal(size=(100, 2))
    return X, outcomes(X, rng)


def _replace_model(path, model):
    skops.io.dump(model, path.with_suffix(".new"))
    path.with_suffix(".new").replace(path)


def _until_close(nodes, X, expected, patience=60.0):
    """Until both nodes have rehearsed anew; before that there is an error, or intervals of the earlier models."""
    until = time.monotonic() + patience
    while True:
        try:
            found = nodes.consult(X, coverage=0.9)
            told = ""
        except DeGrootError as error:
            told = str(error)
        if not told and np.allclose(found.upper, expected.upper, **CLOSE):
            return close(found, expected)
        assert told.startswith(NOT_YET) or not told, told
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.slow
def test_a_peer_that_gives_no_opinions_is_done_without(tmp_path):
    with Consortium(tmp_path, 3, agents=list(unlike(13))) as made:
        made.write("node2", may=["query", "ask"])
        made.fork().ready()
        X = np.random.default_rng(14).normal(size=(30, 2))
        with made.connect() as nodes:
            found = calibrated(nodes, ["node0", "node1"], X)
    expected = made.collective(without=["node2"]).calibrate().consult(X, coverage=0.9)
    assert_allclose(found.upper, expected.upper, **CLOSE)


@pytest.mark.slow
def test_on_demand_nodes_say_that_they_do_not_rehearse(tmp_path):
    agents = list(unlike(12, (60, 70)))
    top, settings = 'queries = "on-demand"', "guard = false"
    with Consortium(tmp_path, 2, agents=agents, top=top, settings=settings) as made:
        made.fork().ready()
        with made.connect() as nodes, pytest.raises(InvalidInput, match=r'node0: with `queries = "on-demand"`'):
            nodes.consult(agents[0][0].X[:2], coverage=0.9)


# what a peer tells


def told(ranks=(2, 5), scores=(0.5, 2.0), rows=5, near=1.0, spread=1.0, squares=3.0):
    models = (Model("node0", "1"), Model("node1", "7"))
    place = Near(np.full((3, 1), near), np.full(3, spread), np.full(3, 4.0))
    summary = Summary(np.array(ranks, np.int64), np.array(scores, float).reshape(-1, 1)) if len(ranks) else None
    return CalibrationSummary("", models, rows, np.array([squares]), place, summary)


def heard(sent):
    return decode_calibration(encode_calibration(sent), 3, 1, classes=False)


def test_what_is_told_arrives():
    for sent in (told(), told(ranks=(), scores=()), told(spread=np.inf)):
        found = heard(sent)
        assert (found.models, found.rows) == (sent.models, sent.rows)
        assert_array_equal(found.near.errors, sent.near.errors)
        assert (found.summary is None) == (sent.summary is None)
    assert heard(CalibrationSummary("it waits")).lacking == "it waits"
    assert heard(CalibrationSummary()).lacking == "it has not rehearsed yet"


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"rows": 0, "ranks": (), "scores": ()}, "`rows`"),
        ({"squares": -1.0}, "`squares`"),
        ({"squares": np.nan}, "`squares`"),
        ({"near": -1.0}, "`near`"),
        ({"near": np.inf}, "`near`"),
        ({"spread": -1.0}, "`spread`"),
        ({"spread": np.nan}, "`spread`"),
        ({"ranks": (5, 2)}, "`ranks`"),
        ({"ranks": (0, 5)}, "`ranks`"),
        ({"ranks": (2, 4)}, "`ranks`"),
        ({"scores": (2.0, 0.5)}, "`scores`"),
        ({"scores": (-1.0, 0.5)}, "`scores`"),
        ({"scores": (1.0, np.inf)}, "`scores`"),
        ({"ranks": range(1, 600), "scores": range(1, 600), "rows": 599}, "`ranks`"),
    ],
)
def test_what_no_rows_could_give_is_refused(wrong, why):
    with pytest.raises(Malformed, match=why):
        heard(told(**wrong))


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_or_make_sense(noise):
    try:
        found = decode_calibration(v1.Calibrated.FromString(noise), 3, 1, classes=False)
    except (DecodeError, Malformed):
        return
    assert found.lacking or found.near is not None


def test_the_error_says_who_is_not_ready_and_why():
    models = told().models

    def opinion(name, calibrated):
        opinion = Opinion(np.zeros((3, 1)), Evidence(np.ones((3, 1, 2))))
        return PeerOpinion(dict(models)[name], models, opinion, calibrated)

    def ask(**calibrated):
        return all_calibrated(calibrated, {name: opinion(name, each) for name, each in calibrated.items()})

    assert [each.rows for each in ask(node0=told(), node1=told())] == [5, 5]
    assert len(ask(node1=told())) == 1  # the other is away
    older = replace(told(), models=(models[0], Model("node1", "6")))
    for first, second, why in (
        (told(), None, "node1: it tells nothing for intervals"),
        (told(), CalibrationSummary("it is rehearsing"), "node1: it is rehearsing"),
        (told(ranks=(), scores=()), told(), "node0: it waits for the others to rehearse"),
        (older, told(), "node0: it has not rehearsed yet with node1 as they are now"),
    ):
        with pytest.raises(InvalidInput) as refused:
            ask(node0=first, node1=second)
        assert str(refused.value) == f"Intervals must be calibrated at all nodes that answer; not yet at {why}."


def test_sets_are_columns_of_their_own():
    answer = Consensus(
        ("north",), np.array([[0.7, 0.3]]), np.array([[0.1, 0.1]]), np.ones((1, 1)), sets=np.array([[True, False]])
    )
    table = columns(answer, ["'cat'", "'dog'"])
    assert (table["set_cat"], table["set_dog"]) == ([True], [False])
    assert "lower" not in table


def test_when_it_is_rehearsed_anew():
    one, two, three = (Model(name, "1") for name in ("node0", "node1", "node2"))
    newer = Model("node1", "2")

    class Done:
        models, summary = (one, two, three), "one"

    class Half:
        models, summary = (one, two), None

    roster = ("node0", "node1", "node2")
    assert serves(Done, (one, two, three), roster)
    assert serves(Done, (one, three), roster)  # somebody is away
    assert not serves(Done, (one, newer, three), roster)  # a new model
    assert not serves(Done, (one, two), roster[:2])  # somebody has left for good
    assert serves(Half, (one, two), roster)
    assert not serves(Half, (one,), roster)  # it cannot be summed up without those who are away
    assert not serves(Half, (one, two, three), roster)
