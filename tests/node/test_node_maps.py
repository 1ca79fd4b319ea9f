"""Evidence maps between real nodes: the neutral consensus from published tables, and a budget for life."""

import signal
import time

import numpy as np
import pytest
from support.consortium import Consortium, made_rows, save_linear
from support.drills import until

from degroot.exceptions import InvalidInput
from degroot.maps import CollectedMaps, EvidenceMap, LifetimeBudget
from degroot.node.config import read
from degroot.node.maps.exchange import make_settings
from degroot.node.records.ledger import summary
from degroot.rules.rules import RULES

RANGES = "ranges = { x0 = [-6.0, 6.0], x1 = [-6.0, 6.0], x2 = [-6.0, 6.0] }"
TERMS = f"{RANGES}\nresidual_bound = 1.5\nrows = 1200\nepsilon = 8.0\nlifetime_epsilon = 8.0\ndepth = 3\ntrees = 4"
X = np.random.default_rng(2).normal(size=(30, 3))


def make(folder, K=3, **settings):
    rows = list(made_rows(0, K, n=1200))
    return Consortium(folder, K, rows=rows, **{"evidence": "maps", "maps": TERMS, **settings})


def held(consortium, name):
    """The maps that a node has: its own and those of its peers."""
    folder = consortium.configuration(name).maps_folder
    paths = [folder / "published.map", *(folder / "peers").glob("*.map")]
    return [EvidenceMap.from_bytes(path.read_bytes()) for path in paths if path.is_file()]


@pytest.fixture(scope="module")
def consortium(tmp_path_factory):
    with make(tmp_path_factory.mktemp("maps")) as made:
        made.fork().ready()
        until(lambda: all(len(held(made, name)) == 3 for name in made.names), "everybody's maps")
        yield made


def test_every_node_gives_the_consensus_of_the_published_maps(consortium):
    maps = CollectedMaps.collect(held(consortium, "node0"), consortium.names)
    beliefs = np.stack([agent.predict(X) for agent in consortium.agents], axis=1)
    weights = RULES["degroot"].weights(maps.at(X, "errors"))
    answers = []
    for name in consortium.names:
        with consortium.connect(name, caller=name, view="consensus") as node:
            answers.append(node.consult(X, ["value", "weights", "trust", "standard_error"]))
    for answer in answers:
        np.testing.assert_allclose(answer.weights, weights, rtol=1e-9)
        np.testing.assert_allclose(answer.value, (weights * beliefs).sum(axis=1), rtol=1e-9)
        assert not answer.flags


def test_no_evidence_leaves_but_the_map_once(consortium):
    before = sum(line.exchanges for line in summary(consortium.configuration("node1").ledger) if "map" in line.kind)
    with consortium.connect(view="consensus") as node:
        for _ in range(3):
            node.predict(X)
    lines = summary(consortium.configuration("node1").ledger)
    assert sum(line.exchanges for line in lines if "map" in line.kind) == before == 4  # two given, two got
    assert not [line for line in lines if line.kind in ("opinion", "pool")]


def test_the_own_view_is_there_too_and_rounds_are_refused(consortium):
    with consortium.connect(caller="node0", view="own") as node:
        assert node.consult(X).asker == "node0"
    with (
        consortium.connect(view="consensus", way="rounds") as node,
        pytest.raises(InvalidInput, match="Rounds exchange exact evidence, and here it is maps"),
    ):
        node.predict(X)


def test_a_new_version_over_the_budget_is_refused_and_the_earlier_map_serves(tmp_path):
    with make(tmp_path) as made:
        made.fork().ready()
        until(lambda: len(held(made, "node0")) == 3, "everybody's maps")
        before = made.configuration("node0").maps_folder / "published.map"
        published = before.read_bytes()
        budget = LifetimeBudget(made.configuration("node0").maps_folder, 8.0, 1e-5)
        assert budget.spent()[0] == 8.0
        save_linear(tmp_path / "node1" / "model.skops", [1.0, 2.0, 3.0, 0.5])  # a new version of a peer's model
        told = "no evidence map of this version is published"
        until(lambda: told in made.log("node0"), "that the budget is spent")
        assert "spent are 8 and 1e-06, left are 0 and" in made.log("node0")
        assert before.read_bytes() == published
        assert budget.spent()[0] == 8.0
        with made.connect("node0", caller="node0", view="consensus") as node:
            answer = node.consult(X, ["value"])
        assert any(flag.reason.startswith("stale") for flag in answer.flags)
        made.kill("node0", signal.SIGTERM)
        made.fork("node0").ready("node0")  # the maps are in the state folder
        with made.connect("node0", caller="node0", view="consensus") as node:
            assert np.isfinite(node.predict(X)).all()
        assert budget.spent()[0] == 8.0


def test_with_maps_and_copies_the_consensus_needs_nobody(tmp_path):
    with make(tmp_path, may=["query", "copy", "opinion"]) as made:
        made.fork().ready()
        until(lambda: len(held(made, "node0")) == 3, "everybody's maps")
        with made.connect("node0", caller="node0", view="consensus") as node:
            whole = node.predict(X)
            for name in ("node1", "node2"):
                made.kill(name)
            until(lambda: node.members["node1"] != "", "that it is noticed", 60.0)
            time.sleep(0.5)
            np.testing.assert_allclose(node.predict(X), whole, rtol=1e-12)


def test_two_members_are_too_few_and_are_told_so(tmp_path):
    with make(tmp_path, 2) as made:
        made.fork().ready()
        with made.connect(view="consensus") as node, pytest.raises(Exception, match="At least 3 agents must answer"):
            node.predict(X)


def change(text, old, new):
    assert old in text
    return text.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('evidence = "maps"', 'evidence = "own"', "`maps` must come with evidence = 'maps'"),
        ("residual_bound = 1.5", "", "maps.residual_bound"),
        ("rows = 1200", "rows = 900", "must be of at least 1,000 rows or units; 900 are declared"),
        ("x0 = [-6.0, 6.0]", "x0 = [6.0, -6.0]", "`ranges` must hold the least and the largest value"),
        ("x0 = [-6.0, 6.0]", "x0 = 6", "`maps.ranges` must have the least and the largest value"),
        ("epsilon = 8.0", "epsilon = 0.0", "maps.epsilon"),
        ("lifetime_epsilon = 8.0", "lifetime_epsilon = 1.0", "`maps.lifetime_epsilon` must be at least `epsilon`, 8"),
        ("depth = 3", "depht = 3", "depht"),
    ],
)
def test_mistakes_in_the_terms_are_one_line(tmp_path, old, new, told):
    made = make(tmp_path)
    path = tmp_path / "node0" / "node.toml"
    text = path.read_text()
    start = text.index("[maps]")
    changed = change(text[start:], old, new) if old in text[start:] else None
    path.write_text(text[:start] + changed if changed is not None else change(text, old, new))
    with pytest.raises(InvalidInput) as caught:
        read(path)
    assert told in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert made


@pytest.mark.parametrize(("names", "told"), [(("x0", "x1", "x9"), "a range for 'x9'"), (("x0", "x1"), "'x2' is none")])
def test_ranges_are_of_the_features(tmp_path, names, told):
    make(tmp_path)
    with pytest.raises(InvalidInput, match=told):
        make_settings(read(tmp_path / "node0" / "node.toml"), names, len(names))
