"""One question by every route: in process, as actors answer it, and over the wire. All give the same answer."""

import pickle
from dataclasses import dataclass, fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from degroot import Agent, AgentError, Collective, DeGrootError
from degroot.agents.agent import Scorer
from degroot.answers.answer import FIELDS
from degroot.consultation.consult import MalformedOpinions, Opinion, Panel, consult, give_whole_opinion
from degroot.node.answering.answer import solve
from degroot.node.peers.membership import Membership
from degroot.node.protocol.codec import Model
from degroot.node.protocol.opinions import decode_opinion, encode_opinion
from degroot.node.protocol.v3 import collective_pb2 as wire
from degroot.node.scoring.scored_agent import ScoredAgent
from degroot.rules.rules import RULES

BAD = (np.nan, -1.0, np.inf)
M = 9


@dataclass(frozen=True)
class Bent(Scorer):
    """A scorer whose opinion of some points is malformed. Points are known by their first feature."""

    bad: float = np.nan
    beyond: float = np.inf

    def measure(self, into, place, transformed, reach, exclude_row=None):
        super().measure(into, place, transformed, reach, exclude_row)
        wrong = np.flatnonzero(transformed[:, 0] > self.beyond)
        (into.errors if into.moments is None else into.moments)[wrong, place, 0] = self.bad


class Liar(Agent):
    """An agent that scores as `Bent` does."""

    def __init__(self, *given, bad, beyond, **settings):
        super().__init__(*given, **settings)
        self.bad, self.beyond = bad, beyond

    def score_models(self, predictors, metric, space):
        honest = super().score_models(predictors, metric, space)
        known = {field.name: getattr(honest, field.name) for field in fields(Scorer)}
        return Bent(**known, bad=self.bad, beyond=self.beyond)


def linear(slopes):
    return lambda X: X @ slopes


def build_agents(seed, K, by_peers, liar, bad, share):
    """K agents with linear models; some are scored by their peers only, and one may send malformed opinions."""
    random, agents = np.random.default_rng(seed), []
    for k in range(K):
        X = random.normal(0.5 * k, 1.0, size=(30, 2))
        y = np.sin(X[:, 0]) + X[:, 1] + 0.1 * random.normal(size=30)
        own = "peers" if k in by_peers else None
        given = (linear(random.normal(1.0, 0.5, size=2)), X, y, f"agent {k}")
        beyond = np.quantile(X[:, 0], share)
        lies = k == liar
        agents.append(
            Liar(*given, own_predictions=own, bad=bad, beyond=beyond) if lies else Agent(*given, own_predictions=own)
        )
    points = random.normal(0.25 * K, 1.5, size=(M, 2))
    return agents, points


class Sent:
    """An engine whose agents answer as actors do, through a pickle."""

    def __init__(self, collective):
        self.pairs = list(zip(collective.agents, collective.scorers, strict=True))

    def collect(self, X, question, conclude):
        opinions = [give_whole_opinion(agent, scorer, X, question) for agent, scorer in self.pairs]
        conclude(slice(0, len(X)), [pickle.loads(pickle.dumps(opinion)) for opinion in opinions])


def ask_nodes(collective, X, *, guard):
    """The answer of nodes with these agents: every opinion goes through the wire's messages."""
    names = collective.names
    scored = tuple(Model(name, "1") for name in names)
    opinions = {}
    for agent, scorer in zip(collective.agents, collective.scorers, strict=True):
        node = ScoredAgent(agent, "1", collective.option, collective.option, scored, scorer, guard)
        told = encode_opinion(node.give_opinion(X, distances=True, guard=guard), 1).SerializeToString()
        opinions[agent.name] = decode_opinion(wire.OpinionReply.FromString(told), len(X), 1)
    aside = [agent.name for agent in collective.agents if agent.scored_by_peers]
    return solve(names, Membership(names, {}), opinions, collective.option, FIELDS, guard=guard, aside=aside, points=X)


def flags_of(flags):
    return [(flag.agent, flag.reason, flag.points.tolist()) for flag in flags]


cases = st.integers(3, 6).flatmap(
    lambda K: st.fixed_dictionaries(
        {
            "seed": st.integers(0, 1000), "K": st.just(K), "by_peers": st.sets(st.integers(0, K - 1), max_size=K),
            "liar": st.integers(0, K - 1), "bad": st.sampled_from(BAD), "share": st.sampled_from([0.0, 0.5, 0.9]),
        }
    )
)  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=15)
@given(case=cases)
def test_every_route_gives_the_same_flags_weights_and_values(rule, case):
    agents, X = build_agents(**case)
    collective = Collective(agents, rule=rule, guard=True)
    answer = collective.consult(X)
    sent = consult(Sent(collective), collective.panel, X, FIELDS)
    over_nodes = ask_nodes(collective, X, guard=True)
    assert flags_of(sent.pop("flags")) == flags_of(answer.flags) == flags_of(over_nodes.flags)
    for name in FIELDS:
        here, there = getattr(answer, name), over_nodes.fields[name]
        there = there if name in ("weights", "trust") else there[..., 0]
        np.testing.assert_allclose(sent[name], here, rtol=1e-12, atol=1e-13, err_msg=name)
        np.testing.assert_allclose(there, here, rtol=1e-12, atol=1e-13, err_msg=name)


@given(case=cases)
@settings(max_examples=10)
def test_a_malformed_opinion_leaves_out_nobody_else(case):
    """What a liar's peers measured of each other counts, also for those who do not score themselves."""
    agents, X = build_agents(**case | {"share": 0.0, "bad": np.nan})
    answer = Collective(agents, guard=True).consult(X)
    malformed = {flag.agent for flag in answer.flags if flag.reason.startswith("malformed")}
    assert malformed <= {f"agent {case['liar']}"}


@pytest.mark.parametrize("rule", ["degroot", "stacking"])
def test_without_a_guard_every_route_refuses_a_malformed_opinion(rule):
    agents, X = build_agents(0, 4, {1}, 2, np.nan, 0.0)
    collective = Collective(agents, rule=rule)
    with pytest.raises(AgentError, match="Agent 'agent 2': its reported errors must be finite") as here:
        collective.consult(X)
    with pytest.raises(AgentError) as sent:
        consult(Sent(collective), collective.panel, X, FIELDS)
    assert str(sent.value) == str(here.value)
    with pytest.raises(MalformedOpinions) as nodes:
        ask_nodes(collective, X, guard=False)
    assert list(nodes.value.agents) == [2]


def test_the_seam_can_be_faked_in_five_lines():
    class Fake:
        def collect(self, X, question, conclude):
            conclude(slice(0, len(X)), [Opinion(np.full((len(X), 1), value)) for value in (1.0, 3.0)])

    panel = Panel(("north", "south"), None, Collective(build_agents(0, 3, (), 9, 0.0, 1.0)[0], rule="average").option)
    assert consult(Fake(), panel, np.zeros((2, 1)), ["value"])["value"].tolist() == [2.0, 2.0]


@pytest.mark.parametrize("rule", ["average", "degroot", "stacking"])
def test_an_engine_that_leaves_out_points_or_agents_gives_no_answer(rule):
    agents, X = build_agents(0, 4, (), 9, 0.0, 1.0)
    collective = Collective(agents, rule=rule)
    whole = Sent(collective)

    class Partial:
        def __init__(self, bend):
            self.bend = bend

        def collect(self, X, question, conclude):
            whole.collect(X, question, lambda part, opinions: self.bend(conclude, part, list(opinions)))

    bends = {
        "must conclude all points; point 0 of 9 is not": lambda conclude, part, opinions: None,
        "must conclude all points; point 1 of 9 is not": lambda conclude, part, opinions: conclude(
            slice(0, 1), [opinion.part(slice(0, 1)) for opinion in opinions]
        ),
        "an opinion of each of 4 agents; there are 3": lambda conclude, part, opinions: conclude(part, opinions[1:]),
    }
    if rule != "average":
        bends["must say what they measured; 0 did"] = lambda conclude, part, opinions: conclude(
            part, [Opinion(opinion.beliefs) for opinion in opinions]
        )
    for message, bend in bends.items():
        with pytest.raises(DeGrootError, match=message):
            consult(Partial(bend), collective.panel, X, ["value"])
