"""Intervals over real nodes: of a node's own view, calibrated on its own rows, as in one process; none else."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
import skops.io
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler
from support.consortium import Consortium
from support.drills import missing, until

from degroot import Agent, Collective, InvalidInput
from degroot.answers.answer import Consensus
from degroot.cli.output import columns
from degroot.consultation.leave_one_out import ROWS
from degroot.node.protocol.codec import PROTOCOL, tensor
from degroot.node.protocol.v3 import collective_pb2 as wire
from degroot.node.records import ledger

CLOSE = {"rtol": 1e-9, "atol": 1e-9}
OF_THE_CONSENSUS = (
    "Intervals between nodes must be asked for with a node's own view, on whose rows they are calibrated; got "
    "`coverage` with the consensus."
)


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


def close(found, expected):
    for field in ("value", "lower", "upper"):
        assert_allclose(getattr(found, field), getattr(expected, field), **CLOSE)


def points_of(agents):
    """Points among all rows, and some far outside of them, where intervals are wide."""
    rng, rows = np.random.default_rng(1), np.vstack([agent.X for agent in agents])
    return np.vstack([rows[rng.choice(len(rows), 40)] + 0.1, 20.0 * rng.normal(size=(3, 2))])


@dataclass(frozen=True)
class Scene:
    """A consortium, and what it is asked about."""

    nodes: Consortium
    X: np.ndarray


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """With evidence that is pooled, so that the consensus can be asked for too."""
    with Consortium(tmp_path_factory.mktemp("three"), 3, agents=list(unlike(0))) as made:
        yield Scene(made.fork().ready(), points_of(made.agents))


@pytest.fixture(scope="module")
def apart(tmp_path_factory):
    """With evidence at home; two may copy all models, and the third may query them."""
    may = {"node0": ["query", "copy"], "node1": ["query", "copy"], "node2": ["query"]}
    folder = tmp_path_factory.mktemp("apart")
    with Consortium(folder, 3, agents=list(unlike(0)), evidence="own", may=may) as made:
        yield Scene(made.fork().ready(), points_of(made.agents))


@pytest.mark.parametrize("mode", ["three", "apart"])
def test_nodes_give_the_intervals_of_one_process_for_an_asker(mode, request):
    scene = request.getfixturevalue(mode)
    whole = scene.nodes.collective()
    for asked in scene.nodes.names:
        with scene.nodes.connect(asked, caller=asked, view="own") as node:
            for coverage in (0.5, 0.9, 0.99):
                expected = whole.consult(scene.X, coverage=coverage, asker=asked)
                found = node.calibrate().consult(scene.X, coverage=coverage)
                close(found, expected)
                assert found.coverage == coverage
                assert (found.sets, found.asker) == (None, asked)
            assert node.consult(scene.X).lower is None
            only = node.consult(scene.X, "weights", coverage=0.99)
            assert only.value is None
            assert_allclose(only.upper, expected.upper, **CLOSE)
            one = node.consult(scene.X[:1], coverage=0.9)
            assert_allclose(one.lower, whole.consult(scene.X[:1], coverage=0.9, asker=asked).lower, **CLOSE)


def test_many_points_are_bounded_batch_by_batch(three):
    X = np.random.default_rng(2).normal(size=(2500, 2))
    with three.nodes.connect(view="own") as node:
        close(node.consult(X, coverage=0.8), three.nodes.collective().consult(X, coverage=0.8, asker="node0"))


def test_a_client_sees_intervals_by_default_and_nothing_that_they_come_from(apart):
    with apart.nodes.connect() as node:
        assert node.granted == {"value", "interval"}
        found = node.consult(apart.X, coverage=0.9)
        close(found, apart.nodes.collective().consult(apart.X, coverage=0.9, asker="node0"))
        assert (found.weights, found.beliefs, found.standard_error, found.choice) == (None, None, None, None)


def test_calibration_costs_no_message(apart):
    """What peers' models say of the own rows is known from scoring, and whoever has copies never sent a row."""

    def sent(name):
        lines = ledger.summary(apart.nodes.configuration(name).ledger)
        return {(line.peer, line.kind): line.rows for line in lines if line.direction == "out" and line.rows}

    with apart.nodes.connect("node2", caller="node2") as node:
        node.consult(apart.X, coverage=0.9)
        before = sent("node2")
        node.consult(apart.X, coverage=0.5)
        after = sent("node2")
    kinds = {(peer, kind) for peer in ("node0", "node1") for kind in ("model query", "prediction")}
    assert set(before) == set(after) == kinds
    for peer, kind in kinds:
        once = apart.nodes.agents[2].n_rows if kind == "model query" else before[peer, kind]
        assert (before[peer, kind], after[peer, kind] - once) == (once, len(apart.X) if kind == "prediction" else 0)
    with apart.nodes.connect("node0", caller="node0") as node:
        node.consult(apart.X, coverage=0.9)
    assert sent("node0") == {}


def test_what_cannot_be_asked_for_is_said(three):
    with three.nodes.connect(view="own") as node:
        for coverage in (0.0, 1.0, -1, True, "0.9", np.nan):
            with pytest.raises(InvalidInput, match="`coverage` must lie between 0 and 1"):
                node.consult(three.X, coverage=coverage)
        with pytest.raises(InvalidInput, match="at least 9999 rows; 'node0' has 150"):
            node.consult(three.X, coverage=0.9999)
    for settings in ({}, {"way": "rounds"}):
        with three.nodes.connect(**settings) as node, pytest.raises(InvalidInput) as refused:
            node.consult(three.X, coverage=0.9)
        assert str(refused.value) == OF_THE_CONSENSUS


def test_a_node_refuses_intervals_of_the_consensus_whoever_asks(three):
    request = wire.ConsultRequest(
        protocol=PROTOCOL, points=tensor(three.X), fields=["value"], view="consensus", coverage=0.9
    )
    with three.nodes.connect(caller="node0") as node, pytest.raises(Exception, match="INVALID_ARGUMENT") as caught:
        node._stub.Ask(request, timeout=60)
    assert caught.value.details() == OF_THE_CONSENSUS


def test_degroot_ask_writes_intervals_of_the_own_view_only(three, tmp_path, degroot):
    pd.DataFrame(three.X, columns=["x0", "x1"]).to_csv(tmp_path / "points.csv", index=False)
    config = three.nodes.folder / "node1" / "node.toml"
    command = ["ask", "--config", config, "--input", tmp_path / "points.csv", "--coverage"]
    assert degroot(*command, 0.9, "--output", tmp_path / "answers.csv")[0] == 0
    table = pd.read_csv(tmp_path / "answers.csv")
    assert list(table.columns)[:4] == ["value", "standard_error", "lower", "upper"]
    expected = three.nodes.collective().consult(three.X, coverage=0.9, asker="node1")
    assert_allclose(table[["lower", "upper"]].to_numpy(), np.c_[expected.lower, expected.upper], **CLOSE)
    assert degroot(*command, 0.9, "--consensus") == (2, "", f"degroot: {OF_THE_CONSENSUS}\n")
    assert degroot(*command, 2) == (2, "", "degroot: `coverage` must lie between 0 and 1; got 2.0.\n")


STANDARDISED = {"rule": "trust-average", "guard": False, "space": StandardScaler()}
SETTINGS = [
    ('rule = "stacking"', {"rule": "stacking"}, ""),
    ('rule = "average"', {"rule": "average"}, ""),
    ('rule = "trust-average"\nguard = false', STANDARDISED, 'space = "standardise"'),
    ("neighbours = 12", {"neighbours": 12}, ""),
]


@pytest.mark.slow
@pytest.mark.parametrize(("settings", "chosen", "data"), SETTINGS)
def test_other_settings(tmp_path, settings, chosen, data):
    agents = list(unlike(3, (2300, 90)))  # one of them is calibrated on a sample
    X = np.random.default_rng(4).normal(size=(30, 2))
    with Consortium(tmp_path, 2, agents=agents, settings=settings, data=data, evidence="own") as made:
        made.fork().ready()
        for name in made.names:
            with made.connect(name) as node:
                close(node.consult(X, coverage=0.9), made.collective(**chosen).consult(X, coverage=0.9, asker=name))
    assert max(agent.n_rows for agent in made.agents) > ROWS


@pytest.mark.slow
def test_several_outputs(tmp_path):
    rng = np.random.default_rng(5)
    agents = []
    for k in range(3):
        X = rng.normal(size=(80, 2))
        y = np.c_[X.sum(axis=1), X[:, 0] ** 2] + rng.normal(size=(80, 2))
        agents.append((Agent(Ridge().fit(X[:40], y[:40]), X, y, f"node{k}"), y))
    X = rng.normal(size=(20, 2))
    with Consortium(tmp_path, 3, agents=agents, data='target = ["y0", "y1"]', evidence="own") as made:
        made.fork().ready()
        with made.connect() as node:
            found = node.consult(X, coverage=0.9)
    assert found.lower.shape == (20, 2)
    close(found, made.collective().consult(X, coverage=0.9, asker="node0"))


@pytest.mark.slow
def test_sets_of_classes(tmp_path):
    rng, agents = np.random.default_rng(6), []
    kinds = np.array(["cat", "cow", "dog"])
    for k in range(3):
        X = rng.normal(size=(120, 2))
        y = kinds[np.clip(np.round(X[:, 0] + 1 + 0.5 * rng.normal(size=120)), 0, 2).astype(int)]
        agents.append((Agent(LogisticRegression().fit(X, y), X, y, f"node{k}", classes=kinds), y))
    X = rng.normal(size=(50, 2))
    with Consortium(tmp_path, 3, agents=agents, data='classes = ["cat", "cow", "dog"]', evidence="own") as made:
        made.fork().ready()
        with made.connect() as node:
            found = node.consult(X, coverage=0.9)
    expected = made.collective().consult(X, coverage=0.9, asker="node0")
    assert found.lower is None
    assert found.sets.dtype == bool
    assert_array_equal(found.sets, expected.sets)
    assert 1.0 < found.sets.sum(axis=1).mean() < 3.0


@pytest.mark.slow
def test_outcomes_of_the_asked_node_are_inside_as_often_as_asked_for(tmp_path):
    held, asked = [], 0.9
    for seed in range(3):
        folder = tmp_path / str(seed)
        folder.mkdir()
        made = list(unlike(10 + seed, (400, 400, 400)))
        agents = [(Agent(agent.model, agent.X[:250], y[:250], agent.name), y[:250]) for agent, y in made]
        with Consortium(folder, 3, agents=agents, evidence="own") as consortium:
            consortium.fork().ready()
            for agent, y in made:
                with consortium.connect(agent.name) as node:
                    answer = node.consult(agent.X[250:], coverage=asked)
                held.append(((answer.lower <= y[250:]) & (y[250:] <= answer.upper)).mean())
    sd = np.sqrt(asked * (1 - asked) * (1 / 150 + 1 / 250) / len(held))  # of held-out rows, and of those calibrated on
    assert abs(np.mean(held) - asked) < 4 * sd


@pytest.mark.slow
def test_who_is_missing_is_done_without_and_a_new_model_is_calibrated_anew(tmp_path):
    agents = list(unlike(7))
    with Consortium(tmp_path, 3, agents=agents, evidence="own") as made:
        made.fork().ready()
        X = np.random.default_rng(8).normal(size=(30, 2))
        with made.connect() as node:
            made.kill("node2")
            found = node.consult(X, coverage=0.9)  # at once
            assert set(missing(found)) == {"node2"}
            close(found, made.collective(without=["node2"]).consult(X, coverage=0.9, asker="node0"))
            made.write("node0", peers=["node1"])  # and for good
            until(lambda: "node2" not in node.members, "the roster is never taken in")
            assert node.consult(X).names == ("node0", "node1")
            close(node.consult(X, coverage=0.9), found)
            rng = np.random.default_rng(9)
            seen = rng.normal(size=(100, 2))
            other = Ridge(50.0).fit(seen, outcomes(seen, rng))
            _replace_model(made.folder / "node1" / "model.skops", other)
            changed = [made.agents[0], Agent(other, made.agents[1].X, made.agents[1].y, "node1")]
            expected = Collective(changed, guard=True).consult(X, coverage=0.9, asker="node0")
            until(lambda: np.allclose(node.consult(X, coverage=0.9).upper, expected.upper, **CLOSE), "never anew")
            close(node.consult(X, coverage=0.9), expected)


def _replace_model(path, model):
    skops.io.dump(model, path.with_suffix(".new"))
    path.with_suffix(".new").replace(path)


def test_sets_are_columns_of_their_own():
    answer = Consensus(
        ("north",), np.array([[0.7, 0.3]]), np.array([[0.1, 0.1]]), np.ones((1, 1)), sets=np.array([[True, False]])
    )
    table = columns(answer, ["'cat'", "'dog'"])
    assert (table["set_cat"], table["set_dog"]) == ([True], [False])
    assert "lower" not in table
