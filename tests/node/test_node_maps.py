"""Evidence maps between real nodes: the neutral consensus from published tables, and a budget for life."""

import asyncio
import errno
import signal
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from support.consortium import Consortium, made_rows, save_linear
from support.drills import until

from degroot.exceptions import InvalidInput
from degroot.files.checksums import read_sealed
from degroot.maps import CollectedMaps, EvidenceMap, LifetimeBudget
from degroot.node.config import read
from degroot.node.config.entries import MapTerms
from degroot.node.copies.exchange import RETRY_SECONDS, FailedAttempts
from degroot.node.errors import BadReply
from degroot.node.maps.exchange import MapExchange, make_settings
from degroot.node.protocol.codec import PROTOCOL, Model, decode_origin
from degroot.node.protocol.v3 import collective_pb2 as wire
from degroot.node.records.chain import Origin
from degroot.node.records.ledger import summary
from degroot.node.server.service import CollectiveService
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
    return [EvidenceMap.from_bytes(read_sealed(path)) for path in paths if path.is_file()]


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
        ("depth = 3", "delta = 1e-4", "`maps.delta` must be at most `lifetime_delta`, 1e-05; got 0.0001"),
        ("depth = 3", "depht = 3", "depht"),
    ],
)
def test_mistakes_in_the_terms_are_one_line(tmp_path, old, new, told):
    make(tmp_path)
    path = tmp_path / "node0" / "node.toml"
    text = path.read_text()
    start = text.index("[maps]")
    changed = change(text[start:], old, new) if old in text[start:] else None
    path.write_text(text[:start] + changed if changed is not None else change(text, old, new))
    with pytest.raises(InvalidInput) as caught:
        read(path)
    assert told in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(("names", "told"), [(("x0", "x1", "x9"), "a range for 'x9'"), (("x0", "x1"), "'x2' is none")])
def test_ranges_are_of_the_features(tmp_path, names, told):
    make(tmp_path)
    with pytest.raises(InvalidInput, match=told):
        make_settings(read(tmp_path / "node0" / "node.toml"), names, len(names))


@pytest.mark.parametrize(("K", "told"), [(2, "this node has 1 peer."), (1, "this node has 0 peers.")])
def test_fewer_than_three_members_are_refused_by_the_file(tmp_path, K, told):
    with pytest.raises(InvalidInput) as caught:
        make(tmp_path, K).configuration("node0")
    assert str(caught.value).endswith(
        f"Evidence maps need at least 3 members, since nobody's map has its own model; {told}"
    )


# -- one node without others -------------------------------------------------------------------------------------------

OTHERS = ("south", "west")
DECLARED = MapTerms(tuple((str(j), (-6.0, 6.0)) for j in range(2)), 1.5, 1200, 8.0, 8.0, trees=2, depth=2)


class Log:
    """What was logged, as event and reason."""

    def __init__(self):
        self.lines = []

    def info(self, event, **told):
        self.lines.append((event, told.get("reason")))

    warning = info


def seat_of(n=1200):
    """As much of a scored agent as the exchange looks at."""
    random = np.random.default_rng(0)
    agent = SimpleNamespace(X=random.normal(size=(n, 2)), y=random.normal(size=n), units=None, n_features=2)
    scored = tuple(Model(name, "1") for name in OTHERS)
    scorer = SimpleNamespace(residuals=random.normal(size=(n, 1, 2)))
    return SimpleNamespace(agent=agent, feature_names=(), scored=scored, scorer=scorer)


@pytest.fixture
def exchange(tmp_path):
    """The exchange of the node north, with a clock that stands still: `exchange.now[0]` sets it."""
    peers = tuple(SimpleNamespace(name=name) for name in OTHERS)
    configuration = SimpleNamespace(
        name="north", path=tmp_path / "node.toml", peers=peers, evidence="maps", maps=DECLARED,
        maps_folder=tmp_path / "maps",
    )  # fmt: skip
    made = MapExchange(configuration, Log())
    made.now = [0.0]
    made._failed = FailedAttempts(lambda: made.now[0])
    made.prepare(seat_of())
    return made


def publish(exchange, seat=None):
    asyncio.run(exchange.publish(seat_of() if seat is None else seat))


def test_a_map_is_published_once_and_its_bytes_are_at_hand(exchange):
    for _ in range(3):
        publish(exchange)
    assert exchange.published.to_bytes() == exchange.published_bytes
    assert (exchange.lacking, exchange.epsilon_spent) == ("", 8.0)
    assert [event for event, _ in exchange._log.lines] == ["evidence map published"]


def test_a_full_disk_is_one_line_and_is_tried_again_later(exchange, monkeypatch):
    tried = []

    def fail(*_):
        tried.append(1)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(LifetimeBudget, "_reserve", fail)
    publish(exchange)
    publish(exchange)
    assert len(tried) == 1
    exchange.now[0] += RETRY_SECONDS
    publish(exchange)
    assert len(tried) == 2
    assert len(exchange._log.lines) == 1
    assert "No space left on device" in exchange.lacking
    assert exchange.epsilon_spent == 0.0
    monkeypatch.undo()
    exchange.now[0] += RETRY_SECONDS
    publish(exchange)
    assert (exchange.lacking, exchange.epsilon_spent) == ("", 8.0)


def test_too_few_rows_are_refused_for_good_and_cost_once(exchange):
    """A hundred rows are counted as a thousand with probability below 1e-30."""
    few = seat_of(100)
    for _ in range(3):
        publish(exchange, few)
        exchange.now[0] += RETRY_SECONDS
    assert len(exchange._log.lines) == 1
    again = MapExchange(exchange.configuration, Log())  # after a restart
    again.prepare(few)
    assert again.epsilon_spent == 8.0
    publish(again, few)
    assert again.epsilon_spent == 8.0
    assert again.published is None


def test_a_changed_map_is_noticed_and_taken_from_the_tables_that_were_paid_for(exchange):
    publish(exchange)
    path = exchange.configuration.maps_folder / "published.map"
    content = path.read_bytes()
    path.write_bytes(content[:-40] + bytes([content[-40] ^ 1]) + content[-39:])
    again = MapExchange(exchange.configuration, Log())
    again.prepare(seat_of())
    assert again.published is None
    assert again._log.lines == [(
        "an evidence map that is kept cannot be used", f"{path} must be as it was written; its checksum does not match."
    )]  # fmt: skip
    publish(again)
    assert (again.published_bytes, again.epsilon_spent) == (exchange.published_bytes, 8.0)
    assert path.read_bytes() == content


def test_a_damaged_record_of_spending_is_said_when_a_node_starts(exchange):
    publish(exchange)
    (exchange.configuration.maps_folder / "spent.jsonl").write_text("{}\n")
    again = MapExchange(exchange.configuration, Log())
    again.prepare(seat_of())
    assert again.epsilon_spent is None
    assert "line 1 of spent.jsonl is damaged" in again.lacking


def link_to(content, serial):
    """A peer that tells of a map with this serial, and gives these bytes; `fetched` counts how often."""

    async def fetch_map(_most):
        link.fetched += 1
        return content

    link = SimpleNamespace(name="south", description=SimpleNamespace(map=serial), fetch_map=fetch_map, fetched=0)
    return link


def map_of(exchange, owner="south", **changed):
    """A map of a peer, all zeros."""
    models = tuple((name, "1") for name in ("north", "west"))
    settings = replace(exchange._settings, **changed)
    return EvidenceMap(owner, models, "ab" * 16, settings, 1.0, np.zeros((2, 4, 4), np.int64))


def test_a_peers_map_is_fetched_once_and_kept(exchange):
    link = link_to(map_of(exchange).to_bytes(), "ab" * 16)
    for _ in range(3):
        asyncio.run(exchange.fetch(link))
    assert link.fetched == 1
    again = MapExchange(exchange.configuration, Log())
    again.prepare(seat_of())
    assert again.held["south"].serial == exchange.held["south"].serial == "ab" * 16


@pytest.mark.parametrize(
    ("bad", "serial", "why"),
    [
        (lambda exchange: b"junk", "ab" * 16, "must begin with its format"),
        (map_of, "cd" * 16, "It must have the serial that its owner tells"),
        (lambda exchange: map_of(exchange, "east"), "ab" * 16, "It must be of 'south'"),
        (lambda exchange: map_of(exchange, seed=9), "ab" * 16, "that are declared here"),
    ],
)
def test_a_bad_map_is_refused_and_not_fetched_again_for_a_while(exchange, bad, serial, why):
    found = bad(exchange)
    link = link_to(found if isinstance(found, bytes) else found.to_bytes(), serial)
    for told in (serial, serial, "ef" * 16):  # whatever the peer tells next
        link.description.map = told
        with pytest.raises(BadReply, match=why):
            asyncio.run(exchange.fetch(link))
    assert link.fetched == 1
    exchange.now[0] += RETRY_SECONDS
    link.description.map = serial
    with pytest.raises(BadReply, match=why):
        asyncio.run(exchange.fetch(link))
    assert link.fetched == 2
    assert not exchange.held


def test_a_map_that_cannot_be_kept_is_used_all_the_same(exchange, monkeypatch):
    def fail(*_):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(MapExchange, "_keep", fail)
    asyncio.run(exchange.fetch(link_to(map_of(exchange).to_bytes(), "ab" * 16)))
    assert exchange.held["south"].owner == "south"
    assert "Read-only file system" in exchange._log.lines[-1][1]


class Refused(Exception):
    """What a peer was told."""


class Visit:
    """A peer that fetches a map."""

    name = "south"

    async def next_message(self):
        return wire.FetchCopyRequest(protocol=PROTOCOL)

    def refusing(self, check, *given):
        return Origin("", "south") if check is decode_origin else check(*given)

    def message(self, *_):
        """It is within its limits."""

    def refuse(self, _kind, _code, told):
        raise Refused(told)


def test_peers_are_not_told_why_there_is_no_map():
    @asynccontextmanager
    async def admitted(*_):
        yield Visit()

    maps = SimpleNamespace(published_bytes=b"", lacking="secret", published=None)
    service = SimpleNamespace(_access=SimpleNamespace(admitted=admitted), _circle=SimpleNamespace(maps=maps))
    with pytest.raises(Refused, match="this node has published none") as refusal:
        asyncio.run(CollectiveService.FetchMap(service, None, None))
    assert "secret" not in str(refusal.value)


# -- drills that change a consortium: the first is of the one above, and comes last ------------------------------------


def test_a_new_version_over_the_budget_is_refused_and_the_earlier_map_serves(consortium):
    made, folder = consortium, consortium.configuration("node0").maps_folder
    published, budget = (folder / "published.map").read_bytes(), LifetimeBudget(folder, 8.0, 1e-5)
    assert budget.spent()[0] == 8.0
    save_linear(made.folder / "node1" / "model.skops", [1.0, 2.0, 3.0, 0.5])  # a new version of a peer's model
    until(lambda: "no evidence map of this version is published" in made.log("node0"), "that the budget is spent")
    assert "spent are 8 and 1e-06, left are 0 and" in made.log("node0")
    with made.connect("node0", caller="node0", view="consensus") as node:
        answer = node.consult(X, ["value"])
    assert any(flag.reason.startswith("stale") for flag in answer.flags)
    made.kill("node0", signal.SIGTERM)
    made.fork("node0").ready("node0")  # the maps are in the state folder
    with made.connect("node0", caller="node0", view="consensus") as node:
        assert np.isfinite(node.predict(X)).all()
    assert (folder / "published.map").read_bytes() == published
    assert budget.spent()[0] == 8.0


@pytest.mark.slow
def test_with_maps_and_copies_the_consensus_needs_nobody(tmp_path):
    with make(tmp_path, may=["query", "copy", "opinion"]) as made:
        made.fork().ready()
        until(lambda: len(held(made, "node0")) == 3, "everybody's maps")
        with made.connect("node0", caller="node0", view="consensus") as node:
            whole = node.predict(X)
            for name in ("node1", "node2"):
                made.kill(name)
            until(lambda: all(node.members[name] != "" for name in ("node1", "node2")), "that it is noticed")
            np.testing.assert_allclose(node.predict(X), whole, rtol=1e-12)
