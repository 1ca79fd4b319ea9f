"""Rosters that differ for a while: a question that meets a change is answered by those who have each other."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest
from numpy.testing import assert_allclose
from support.consortium import Consortium
from support.drills import MISSING, points

from degroot.answers.answer import FIELDS
from degroot.node.answering.answer import NodeQuestion
from degroot.node.answering.answering import Answering
from degroot.node.answering.terms import CONSENSUS
from degroot.node.config.check import secured
from degroot.node.peers.link import Link, LinkContext
from degroot.node.peers.membership import TooFew
from degroot.node.peers.peers import Peers
from degroot.node.pooling.coordinator import ATTEMPTS, Until, _find_cause
from degroot.node.pooling.member import PoolingMember
from degroot.node.pooling.rounds import PoolingTerms
from degroot.node.pooling.session import HUNG_UP, MembersLost
from degroot.node.protocol.codec import UnknownMembers
from degroot.node.records.ledger import Ledger
from degroot.node.records.log import logger
from degroot.node.records.metrics import Metrics
from degroot.node.records.own_rows import OwnRowsWatch
from degroot.node.scoring.load import load_scored_agent
from degroot.node.scoring.residual_store import StorageError
from degroot.node.server import run
from degroot.node.server.access import Access, Allowances, DailyBudgets
from degroot.node.server.health import Health
from degroot.node.server.service_manager import ServiceManager

X = points(6)
SOLVE, ROUNDS = None, Until(1e-12, 10_000)
GENEROUS, NEVER = 120.0, 3600.0  # seconds: for what comes at once, and what would be waited for in vain


class Node:
    """A node in this process, whose roster changes when it is told to."""

    def __init__(self, configuration):
        self.configuration, self.name = configuration, configuration.name
        configuration.state.mkdir()
        self._ledger, metrics, log = Ledger(configuration.ledger), Metrics(), logger(self.name)
        limits, timing = configuration.limits, configuration.timing
        wiring = LinkContext(self.name, None, limits, timing.deadline_seconds, self._ledger, metrics)
        scores = run._scores(configuration, load_scored_agent(configuration), metrics, log)
        self.circle = Peers(configuration, wiring, scores, log)
        self.answering = Answering(self.circle, metrics, None)
        budgets = DailyBudgets(lambda: configuration.budgets, self._ledger)
        watch = OwnRowsWatch(scores.seat.agent.X, metrics, log)
        access = Access(
            self.name, self.circle.rights, Allowances(limits), budgets, watch, self._ledger, metrics, insecure=True
        )
        health = Health(configuration, ServiceManager({}))
        self._server = run._server(configuration, self.answering, access, health, log)

    async def start(self):
        await self._server.start()
        await self.circle.change(self.configuration)

    async def stop(self):
        await self._server.stop(None)
        await self.circle.close()
        self._ledger.close()

    async def take_roster(self, *names):
        """Go on with these nodes only."""
        peers = tuple(peer for peer in self.configuration.peers if peer.name in names)
        await self.circle.change(replace(self.configuration, peers=peers))

    def is_ready(self):
        """Whether it has scored all models, and has heard that all peers have."""
        told = [link.description for link in self.circle.links.values()]
        count = len(self.circle.names)
        return len(self.circle.scores.seat.scored) == count and all(each and len(each.scored) == count for each in told)

    async def ask(self, until=ROUNDS, guard=True):
        fields = [name for name in FIELDS if name != "trust"]
        return await self.answering.answer("analyst", NodeQuestion(X, fields, guard, view=CONSENSUS), until)


def play(scene):
    """Run a scene, in which nothing is waited for in vain."""

    async def limited():
        async with asyncio.timeout(GENEROUS):
            await scene()

    asyncio.run(limited())


@asynccontextmanager
async def running(folder, K=4):
    """Nodes in this process that know all of each other, and look for no news any more: what follows is no race."""
    made = Consortium(folder, K)
    nodes = {}
    for name in made.names:
        configuration = secured(made.configuration(name), insecure_loopback=True)
        timing = replace(configuration.timing, probe_seconds=0.02, heartbeat_seconds=0.02, deadline_seconds=NEVER)
        nodes[name] = Node(replace(configuration, timing=timing))
    try:
        for node in nodes.values():
            await node.start()
        while not all(node.is_ready() for node in nodes.values()):
            await asyncio.sleep(0.01)
        for node in nodes.values():
            for following in node.circle._following.values():
                following.cancel()
            await asyncio.gather(*node.circle._following.values(), return_exceptions=True)
        yield made, nodes
    finally:
        for node in nodes.values():
            await node.stop()


def check(answered, made, members, missing, guard=True):
    """The answer is that of these members in one process, and it says why the others are missing."""
    told = {flag.agent: flag.reason.removeprefix(MISSING) for flag in answered.flags if flag.reason.startswith(MISSING)}
    assert told == missing
    assert sorted([*members, *missing]) == sorted(answered.names)
    without = [name for name in made.names if name not in members]
    expected = made.collective(without=without, guard=guard).consult(X)
    assert expected.names == tuple(members)
    places = [answered.names.index(name) for name in members]
    assert_allclose(answered.fields["value"][:, 0], expected.value, rtol=1e-9, atol=1e-9)
    assert_allclose(answered.fields["weights"][:, places], expected.weights, rtol=1e-6, atol=1e-9)
    assert_allclose(answered.fields["weights"].sum(axis=1), 1.0)


def before(owner, method, act, times=1):
    """Do something before a method of an object is called, the first so many times."""
    called, original, left = [], getattr(owner, method), iter(range(times))

    async def wrapped(*arguments, **settings):
        called.append(arguments)
        if next(left, None) is not None:
            await act()
        return await original(*arguments, **settings)

    setattr(owner, method, wrapped)
    return called


def after(owner, method, act):
    """Do something after a method of an object was called."""
    original = getattr(owner, method)

    async def wrapped(*arguments, **settings):
        result = await original(*arguments, **settings)
        await act()
        return result

    setattr(owner, method, wrapped)


LATER = ["node0", "node2", "node3"]  # the roster without node1
EARLIER = ["node0", "node1", "node2"]  # without node3


@pytest.mark.parametrize(
    ("roster", "where", "members", "missing"),
    [  # the asked node has the older roster, or the newer
        (LATER, ["node2", "node3"], LATER, {"node1": "not in the roster of: node2, node3"}),
        (LATER, ["node2"], LATER, {"node1": "not in the roster of: node2"}),
        (EARLIER, ["node1", "node2"], EARLIER, {"node3": "not in the roster of: node1, node2"}),
        (EARLIER, ["node1"], EARLIER, {"node3": "not in the roster of: node1"}),
    ],
)
def test_those_pool_who_have_each_other_in_their_rosters(tmp_path, roster, where, members, missing):
    async def scene():
        async with running(tmp_path) as (made, nodes):
            for name in where:  # of which the asked node has not heard
                await nodes[name].take_roster(*roster)
            check(await nodes["node0"].ask(), made, members, missing)

    play(scene)


def test_a_roster_changes_between_the_choice_of_members_and_the_session(tmp_path, monkeypatch):
    async def scene():
        async with running(tmp_path) as (made, nodes):
            take_part, waiting = PoolingMember.take_part, {"node2", "node3"}

            async def take_part_after_a_change(member, message, visit):
                name = member._circle.configuration.name
                if name in waiting:
                    waiting.remove(name)
                    await nodes[name].take_roster(*LATER)
                return await take_part(member, message, visit)

            monkeypatch.setattr(PoolingMember, "take_part", take_part_after_a_change)
            check(await nodes["node0"].ask(), made, LATER, {"node1": "not in the roster of: node2, node3"})

    play(scene)


@pytest.mark.parametrize("guard", [True, False])
def test_a_roster_changes_before_a_member_has_its_opinion(tmp_path, guard):
    async def scene():
        async with running(tmp_path) as (made, nodes):
            for name in ("node2", "node3"):
                before(nodes[name].circle, "opinion", lambda name=name: nodes[name].take_roster(*LATER))
            answered = await nodes["node0"].ask(guard=guard)
            check(answered, made, LATER, {"node1": "not scored yet by: node2, node3"}, guard)

    play(scene)


@pytest.mark.parametrize("guard", [True, False])
def test_a_roster_changes_before_the_first_round(tmp_path, guard):
    async def scene():
        async with running(tmp_path) as (made, nodes):
            after(nodes["node2"].circle, "opinion", lambda: nodes["node2"].take_roster(*LATER))
            answered = await nodes["node0"].ask(guard=guard)
            check(answered, made, ["node0", "node1", "node3"], {"node2": "cannot be heard by: node1"}, guard)

    play(scene)


@pytest.mark.parametrize("until", [SOLVE, ROUNDS])
def test_the_roster_of_the_asked_node_changes_on_the_way(tmp_path, until):
    async def scene():
        async with running(tmp_path) as (made, nodes):
            before(nodes["node0"].circle, "opinion", lambda: nodes["node0"].take_roster(*LATER))
            answered = await nodes["node0"].ask(until)
            check(answered, made, LATER, {})  # who has left the roster is not missing

    play(scene)


def test_who_refuses_again_and_again_though_rosters_are_alike_is_missing(tmp_path, monkeypatch):
    async def scene():
        async with running(tmp_path) as (made, nodes):
            told, refused = PoolingTerms.told, []

            def refuse(begin, me, roster, caller):
                if me != "node2":
                    return told(begin, me, roster, caller)
                refused.append(begin.session)
                raise UnknownMembers("not today")

            monkeypatch.setattr(PoolingTerms, "told", refuse)
            check(await nodes["node0"].ask(), made, ["node0", "node1", "node3"], {"node2": "refused: not today"})
            assert len(refused) == ATTEMPTS

    play(scene)


# below the quorum: most of the older roster are gone


@asynccontextmanager
async def most_have_gone(folder):
    """Of four nodes two have stopped, and node1 has taken them out of its roster; node0 has not yet."""
    async with running(folder) as (made, nodes):
        for name in ("node2", "node3"):
            await nodes.pop(name).stop()
        await nodes["node1"].take_roster("node0", "node1")
        yield made, nodes


@pytest.mark.parametrize("until", [SOLVE, ROUNDS])
def test_below_the_quorum_a_newer_roster_is_waited_for(tmp_path, until):
    async def scene():
        async with most_have_gone(tmp_path) as (made, nodes):
            waits = before(nodes["node0"].circle, "wait_for_rosters", None, times=0)
            answering = asyncio.create_task(nodes["node0"].ask(until))
            while len(waits) < 2:  # in the first it heard of node1's new roster
                await asyncio.sleep(0.01)
            await nodes["node0"].take_roster("node0", "node1")
            check(await answering, made, ["node0", "node1"], {})

    play(scene)


@pytest.mark.parametrize("until", [SOLVE, ROUNDS])
def test_below_the_quorum_rosters_that_go_on_to_differ_are_waited_for_no_longer(tmp_path, until):
    async def scene():
        async with most_have_gone(tmp_path) as (_, nodes):
            circle = nodes["node0"].circle
            wait, waited = circle.wait_for_rosters, []

            async def wait_a_moment(known, deadline):
                waited.append(known)
                return await wait(known, deadline if len(waited) == 1 else asyncio.get_running_loop().time())

            circle.wait_for_rosters = wait_a_moment
            with pytest.raises(
                TooFew, match=r"^At least 3 agents must answer, the quorum; 2 can\. Missing: node2: .*node3: "
            ):
                await nodes["node0"].ask(until)
            assert len(waited) == 2

    play(scene)


@pytest.mark.parametrize("until", [SOLVE, ROUNDS])
def test_below_the_quorum_nothing_is_waited_for_where_rosters_are_alike(tmp_path, until):
    async def scene():
        async with running(tmp_path) as (_, nodes):
            for name in ("node2", "node3"):
                await nodes.pop(name).stop()
            waits = before(nodes["node0"].circle, "wait_for_rosters", None, times=0)
            with pytest.raises(TooFew):
                await nodes["node0"].ask(until)
            assert len(waits) == 1

    play(scene)


# parts


def test_nobody_sees_half_of_a_roster(tmp_path, monkeypatch):
    async def scene():
        async with running(tmp_path) as (_, nodes):
            circle, close, seen = nodes["node0"].circle, Link.close, []

            async def look(link):
                await close(link)
                seen.append(
                    (circle.names, tuple(sorted(["node0", *(peer.name for peer in circle.configuration.peers)])))
                )

            monkeypatch.setattr(Link, "close", look)
            await nodes["node0"].take_roster("node0", "node3")
            monkeypatch.undo()
            assert seen == [(("node0", "node3"), ("node0", "node3"))] * 2

    play(scene)


def test_a_roster_that_storage_keeps_from_being_taken_in_is_tried_again(tmp_path, monkeypatch):
    async def scene():
        async with running(tmp_path) as (_, nodes):
            circle, told = nodes["node0"].circle, []
            keep, failing = circle.scores.keep, iter(["/a", "/a", "/b"])

            async def fail(links):
                for path in failing:
                    raise StorageError(f"{path}: no space")
                await keep(links)

            monkeypatch.setattr(circle.scores, "keep", fail)
            monkeypatch.setattr(circle, "_log", SimpleNamespace(error=lambda *_, reason, **about: told.append(reason)))
            circle.file = replace(circle.file, peers=circle.file.peers[:1])
            await circle._apply_roster()
            assert circle.names == ("node0", "node1")
            assert [model.name for model in circle.scores.seat.scored] == ["node0", "node1"]
            assert told == ["/a: no space", "/b: no space"]

    play(scene)


def test_the_cause_of_a_loss_is_with_who_hung_up():
    async def scene():
        async def fail(error):
            raise error

        cause = MembersLost({"node2": "refused"}, "node1")
        errors = {
            "node1": cause,
            "node3": MembersLost({"node1": HUNG_UP}, "node3"),
            "node4": MembersLost({"node3": HUNG_UP}, "node4"),
        }
        outcomes = {name: asyncio.create_task(fail(error)) for name, error in errors.items()}
        outcomes["node5"] = asyncio.create_task(asyncio.sleep(NEVER))  # which is not waited for
        for gone in (["node1"], ["node3"], ["node4"], ["node1", "node3"], ["node3", "node4"]):
            assert await _find_cause(MembersLost(dict.fromkeys(gone, HUNG_UP)), outcomes, NEVER) is cause
        outcomes["node1"] = asyncio.create_task(fail(MembersLost({"node1": HUNG_UP})))  # it says nothing more
        found = await _find_cause(MembersLost({"node4": HUNG_UP}), outcomes, NEVER)
        assert (found.losses, found.witness) == ({"node1": HUNG_UP}, None)
        plain = ValueError()
        assert await _find_cause(plain, outcomes, NEVER) is plain
        outcomes["node5"].cancel()

    play(scene)
