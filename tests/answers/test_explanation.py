"""Explanations: what they say is what the answer holds, whatever it holds; and they can be read."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.rules import CANDIDATES

from degroot import Agent, Collective, Consensus, Explanation, Flag, InvalidInput
from degroot.answers.answer import FIELDS
from degroot.answers.choice import Mixture
from degroot.answers.display import Digits
from degroot.answers.explanation.mixture import WORDS
from degroot.asker import list_candidates
from degroot.consultation.asker import ALONE, FAR_FROM_OWN, FEW_SCORES, REPLACED
from degroot.consultation.extent import ALL_AGENTS, REASON
from degroot.rules.rules import RULES, RuleSettings

MISSING = "missing: it did not answer within 2 s"
UNVERIFIED = "unverified: too few others have rows nearby to check it"
INCONSISTENT = "inconsistent: its answer is far from what the others expect of its model, and was left out"
SUSPECT = "suspect: it failed the checks, as everybody did, and was kept since the fewest object to it"


def solved(beliefs, weights=None, **fields):
    """An answer for one point, from beliefs and weights; influence by renormalising the others' weights."""
    beliefs = np.asarray(beliefs, float)
    K = len(beliefs)
    weights = np.full(K, 1 / K) if weights is None else np.asarray(weights, float)
    value = weights @ beliefs
    without = [np.delete(weights, k) @ np.delete(beliefs, k) / (1 - weights[k]) if K > 1 else np.nan for k in range(K)]
    names = fields.pop("names", tuple("abcdefghijkl"[:K]))
    return Consensus(
        names, value=np.array([value]), weights=weights[None], beliefs=beliefs[None],
        influence=(value - np.array(without))[None], standard_error=np.array([np.std(without)]), **fields,
    )  # fmt: skip


def flags(**reasons):
    return tuple(Flag(name, reason, np.array([0])) for name, reason in reasons.items())


def some_agents(K, Q=None, classes=None):
    rng = np.random.default_rng(K)
    agents = []
    for k in range(K):
        X = rng.normal(size=(30, 2)) + rng.normal(size=2)
        if classes is not None:
            y = np.array(classes)[(X[:, 0] > 0).astype(int)]
            model = lambda X, k=k: np.eye(len(classes))[(X[:, 0] > 0.3 * k).astype(int)]  # noqa: E731
        else:
            slope = rng.normal(size=2 if Q is None else (2, Q))
            y, model = X @ slope, lambda X, slope=slope, k=k: X @ slope + 0.1 * k
        agents.append(Agent(model, X, y, f"agent {k}", classes=classes))
    return agents


# -- facts -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("K", [1, 2, 5])
@pytest.mark.parametrize("rule", CANDIDATES)
def test_facts_are_those_of_the_answer(K, rule):
    answer = Collective(some_agents(K), 5, rule).consult(np.array([[0.1, 0.2], [1.0, -1.0]]))
    told = answer.explain(1).facts
    assert told["point"] == 1
    assert told["value"] == answer.value[1]
    assert [agent["name"] for agent in told["agents"]] == list(answer.names)
    for k, agent in enumerate(told["agents"]):
        assert (agent["belief"], agent["weight"]) == (answer.beliefs[1, k], answer.weights[1, k])
        assert list(agent["trusted_by"].values()) == answer.trust[1, :, k].tolist()
        if K == 1:
            assert agent["influence"] is agent["without"] is None  # NaN: there is nobody to leave out
        else:
            assert agent["without"] == answer.value[1] - answer.influence[1, k]
    assert answer.explain(-1).facts == told


def test_facts_can_be_written_as_json_and_read_again():
    for agents in (some_agents(3), some_agents(3, Q=2), some_agents(3, classes=["cat", "dog"]), some_agents(1)):
        told = Collective(agents, 5, guard=len(agents) > 1).consult([[0.1, 0.2]]).explain(0).facts
        assert json.loads(json.dumps(told, allow_nan=False)) == told


def test_one_of_several_outputs_is_told_of():
    answer = Collective(some_agents(3, Q=2), 5).consult([[0.1, 0.2]])
    for q in (0, 1):
        told = answer.explain(0, q).facts
        assert (told["output"], told["value"]) == (str(q), answer.value[0, q])
        assert [agent["belief"] for agent in told["agents"]] == answer.beliefs[0, :, q].tolist()
        assert [each["value"] for each in told["outputs"]] == answer.value[0].tolist()
        assert f"for output {q} of 2" in answer.explain(0, q).text
    assert answer.explain(0).facts == answer.explain(0, 0).facts


def test_of_classes_the_likeliest_is_told_of_unless_another_is_asked_for():
    answer = Collective(some_agents(3, classes=["cat", "dog"]), 5).consult([[-2.0, 0.0], [0.2, 0.0]])
    assert answer.explain(0).facts["output"] == "cat"
    assert answer.explain(0, "dog").facts["value"] == answer.value[0, 1]
    assert "most likely class at point 0 is 'cat'" in answer.explain(0).text
    assert "the class 'dog' a probability of" in answer.explain(0, "dog").text
    likely = [agent["likely"] for agent in answer.explain(1).facts["agents"]]
    assert likely == ["dog", "cat", "cat"]  # thresholds 0, 0.3 and 0.6
    assert re.search(r"agent .* would choose '(cat|dog)'", answer.explain(1).text)


def test_a_sample_of_the_models_says_who_has_scored_whom():
    answer = Collective(some_agents(12), 5, degree=4).consult([[0.1, 0.2]])
    for k, agent in enumerate(answer.explain(0).facts["agents"]):
        by = {answer.names[j]: answer.trust[0, j, answer.peers[j].tolist().index(k)] for j in scorers(answer.peers, k)}
        assert agent["trusted_by"] == by


def scorers(peers, k):
    return [j for j, row in enumerate(peers.tolist()) if k in row]


@pytest.mark.parametrize(("point", "output"), [(2, None), (-3, None), (True, None), ("0", None), (0.0, None), (0, 1)])
def test_points_and_outputs_that_are_not_there_are_refused(point, output):
    answer = Collective(some_agents(2), 5).consult([[0.1, 0.2], [0.0, 0.0]])
    with pytest.raises(InvalidInput, match=r"`(point|output)` must be .*; got "):
        answer.explain(point, output)


@pytest.mark.parametrize("output", [2, -3, "2", "bird", 1.0])
def test_outputs_that_are_not_there_are_refused(output):
    answer = Collective(some_agents(2, Q=2), 5).consult([[0.1, 0.2]])
    with pytest.raises(InvalidInput, match=r"`output` must be .*; got "):
        answer.explain(0, output)


# -- sentences ---------------------------------------------------------------------------------------------------------


def test_who_carries_it():
    assert "a carries it nearly alone, with a weight of 0.950" in solved([1, 2, 3], [0.95, 0.03, 0.02]).explain(0).text
    assert "b carries it, with a weight of 0.600; next is a" in solved([1, 2], [0.4, 0.6]).explain(0).text
    assert "a (0.400) and b (0.350) carry it together" in solved([1, 2, 3], [0.4, 0.35, 0.25]).explain(0).text
    assert "All 3 agents have the same weight, 0.333" in solved([1, 2, 3]).explain(0).text
    long = solved([1, 2, 3], [0.4, 0.35, 0.25], names=("Universitätsklinikum Bonn am Rhein", "Köln " * 9, "c"))
    assert "Universitätsklinikum Bonn am Rh… (0.400) and Köln " in long.explain(0).text
    assert "… (0.350) carry it together" in long.explain(0).text
    spread = np.linspace(1, 1.1, 12)
    assert "it takes 6 of 12 agents to have half" in solved(range(12), spread / spread.sum()).explain(0).text


def test_who_disagrees_and_by_how_much():
    text = solved([1.0, 2.0, 9.0], [0.5, 0.45, 0.05]).explain(0).text
    assert "from 1.00 (a) to 9.00 (c)" in text
    assert "c is the farthest from the answer, 7.15 above it, and has little say" in text
    assert "All agents say the same, 4.00" in solved([4.0, 4.0]).explain(0).text


def test_what_would_change_without_whom():
    text = solved([1.0, 1.1, 9.0], [0.1, 0.1, 0.8]).explain(0).text
    assert re.search(r"It hangs on c: without it the answer would be 1\.05 \(6\.36 lower\)", text)
    two = solved([0.02, 0.08], [0.9, 0.1]).explain(0).text
    assert "It depends most on a: without it the answer would be 0.080" in two
    assert "leaving out any one agent changes nothing" in solved([4.0, 4.0]).explain(0).text
    stable = solved(np.r_[0.0, np.full(10, 1.0), 2.0]).explain(0).text
    assert "It is stable: leaving out any one agent moves it by" in stable
    assert "nobody can tell how stable this is" in solved([4.0]).explain(0).text


def test_changes_are_held_against_the_interval_if_there_is_one():
    wide = {"lower": np.array([-50.0]), "upper": np.array([60.0]), "coverage": 0.9}
    text = solved([1.0, 1.1, 9.0], [0.1, 0.1, 0.8], **wide).explain(0).text
    assert "It depends somewhat on c" in text
    assert "between -50.00 and 60.00, 90 times in 100" in text
    assert "no interval" not in text


def test_sets_of_classes_are_told():
    agents = some_agents(4, classes=["cat", "dog"])
    answer = Collective(agents, 5).calibrate().consult([[-2.0, 0.0]], coverage=0.8)
    told = "The 80 % set is {'cat'}: over all points like the agents' rows such sets hold the outcome 80 times in 100."
    for held in ([True, False], [True, True]):
        text = replace(answer, sets=np.array([held])).explain(0).text
        assert (told if not held[1] else told.replace("'cat'", "'cat', 'dog'")) in text.split("\n")


def test_who_was_missing_and_who_was_left_out():
    answer = solved([1.0, 2.0, 30.0, 40.0], [0.5, 0.5, 0, 0], flags=flags(c=INCONSISTENT, d=MISSING))
    text = answer.explain(0).text
    assert "d was missing (it did not answer within 2 s): the others answered without it" in text
    assert "c was left out: its answer, 30.00, is far from what the others expect of its model." in text
    assert "from 1.00 (a) to 2.00 (b)" in text  # those who took part
    told = answer.explain(0).facts["agents"]
    assert [agent["missing"] for agent in told] == [None, None, None, "it did not answer within 2 s"]
    assert [agent["left_out"] for agent in told] == [False, False, True, False]


def test_who_could_not_be_checked():
    assert "b could not be checked here" in solved([1, 2, 3], flags=flags(b=UNVERIFIED)).explain(0).text
    everybody = solved([1, 2], flags=flags(a=UNVERIFIED, b=UNVERIFIED)).explain(0).text
    assert "None of those who answered could be checked here" in everybody
    assert "do not rely on this answer" in solved([1, 2], flags=flags(a=SUSPECT, b=SUSPECT)).explain(0).text


def test_flags_of_other_kinds_are_told_in_their_own_words():
    text = solved([1, 2], flags=flags(b="stale: an earlier version of its model was scored by a")).explain(0).text
    assert "b is flagged as stale: an earlier version of its model was scored by a." in text


def test_flags_at_other_points_are_not_told():
    answer = solved([1.0, 2.0], flags=(Flag("a", MISSING, np.array([1])),))
    assert "missing" not in answer.explain(0).text


def test_who_trusts_whom():
    trust = np.array([[[0.8, 0.1, 0.1], [0.1, 0.6, 0.3], [0.2, 0.6, 0.2]]])
    text = solved([1, 2, 3], trust=trust).explain(0).text
    assert "trust the model of b the most (0.350 of their trust on average) and that of a the least (0.150)" in text
    assert "a trusts its own model far more than the others do (0.800 against 0.150)" in text


def test_rounds_and_the_rule_that_was_chosen_are_told():
    assert "The nodes pooled among themselves, in 7 rounds at most." in solved([1, 2], rounds=7).explain(0).text
    answer = Collective(some_agents(3), rule="auto").consult([[0.0, 0.0]])
    assert f"The rule was chosen on the agents' own rows: {answer.choice.option}." in answer.explain(0).text


def test_the_text_is_what_is_printed():
    explained = solved([1, 2]).explain(0)
    assert isinstance(explained, Explanation)
    assert str(explained) == repr(explained) == explained.text
    with pytest.raises(AttributeError):
        explained.text = ""


# -- of an asker's answer ----------------------------------------------------------------------------------------------


def mixed(name, *shares):
    """A mixture of some candidates, by their shares."""
    candidates = ("own", "local stacking", "trust row", "centred", "own, corrected", "mixture, corrected")[
        : len(shares)
    ]
    errors = np.arange(len(shares), 0.0, -1.0)
    return Mixture(name, candidates, np.array(shares), errors, errors - 1.0, np.ones(len(shares)), 60, 10)


def asked(beliefs, weights, value, asker="a", **fields):
    """An answer to one asker for one point."""
    beliefs, weights = np.asarray(beliefs, float), np.asarray(weights, float)
    settings = {"choice": mixed("a", 0.2, 0.8), "asker": asker} | fields
    return Consensus(
        tuple("abcdef"[: len(beliefs)]), value=np.array([value]), weights=weights[None], beliefs=beliefs[None],
        correction=np.array([value - weights @ beliefs]), standard_error=np.array([0.1]), **settings,
    )  # fmt: skip


@pytest.mark.parametrize("form", ["one output", "several outputs", "classes"])
@pytest.mark.parametrize("guard", [False, True])
def test_facts_are_those_of_the_askers_answer(form, guard):
    kinds = {"several outputs": {"Q": 2}, "classes": {"classes": ["cat", "dog"]}}.get(form, {})
    collective, X = Collective(some_agents(3, **kinds), 5, guard=guard), np.array([[0.1, 0.2], [50.0, 50.0]])
    answer = collective.consult(X, asker="agent 1", coverage=0.8)
    for i in range(2):
        told = answer.explain(i, {"classes": "dog", "several outputs": 1}.get(form)).facts
        q = () if form == "one output" else (1,)
        assert (told["asker"], told["own"]) == ("agent 1", answer.beliefs[(i, 1, *q)])
        assert told["correction"] == answer.correction[(i, *q)]
        mean = sum(agent["weight"] * agent["belief"] for agent in told["agents"])
        np.testing.assert_allclose(told["value"] - told["correction"], mean, rtol=1e-9)
        assert [each["share"] for each in told["mixture"]["candidates"]] == answer.choice.shares.tolist()
        assert [each["name"] for each in told["mixture"]["candidates"]] == list(answer.choice.candidates)
        assert told["mixture"]["rows"] == answer.choice.rows
        assert all(agent["trusted_by"] is None and not agent["left_out"] for agent in told["agents"])
        assert json.loads(json.dumps(told, allow_nan=False)) == told
        text = answer.explain(i).text
        assert "asked by agent 1" in text.split("\n")[0]
        assert "The own model of agent 1" in text.split("\n")[1]
        assert "trust in" not in text
        assert "trusted" not in text
    assert any(reason.startswith("far from all") for reason in told["flags"])


def test_the_consensus_has_no_asker():
    answer = Collective(some_agents(3), 5).consult([[0.1, 0.2]])
    told = answer.explain(0).facts
    assert [told[key] for key in ("asker", "own", "correction", "mixture", "flags")] == [None, None, None, None, []]
    assert "asked by" not in answer.explain(0).text


def test_each_row_is_explained_for_its_own_asker():
    collective, X = Collective(some_agents(3), 5), np.full((4, 2), 0.1)
    names = ["agent 1", None, "agent 0", "agent 1"]
    whole = collective.consult(X, asker=names)
    for i, name in enumerate(names):
        alone = collective.consult(X, asker=name) if name else collective.consult(X)
        told, expected = whole.explain(i).facts, alone.explain(i).facts
        assert (told["asker"], told["mixture"]) == (name, expected["mixture"])
        numbers = ("value", "standard_error", "own")
        assert [told[key] for key in numbers] == pytest.approx([expected[key] for key in numbers])
        asked_by = f", asked by {name}." if name else " for point 1."
        assert asked_by in whole.explain(i).text
    assert set(whole.choice) == {"agent 0", "agent 1"}


def test_what_the_own_model_says_and_how_far_it_is_moved():
    text = asked([2.0, 4.0], [0.5, 0.5], 3.0).explain(0).text
    assert text.startswith("The collective says 3.00 for point 0, asked by a.\nThe own model of a says 2.00; ")
    assert "the collective moves it by 1.00 up." in text
    assert "moves it by 1.00 down" in asked([4.0, 2.0], [0.5, 0.5], 3.0).explain(0).text
    assert "and the collective leaves it there" in asked([3.0, 2.0], [1.0, 0.0], 3.0).explain(0).text


def test_what_was_mixed_is_told_with_its_shares_and_why():
    text = asked([2.0, 4.0], [0.5, 0.5], 3.0, choice=mixed("a", 0.251, 0.748, 0.001)).explain(0).text
    lines = text.split("\n\n")[1].split("\n")
    told = "on 60 rows of a, left out in 10 folds (mean squared error of the best of them 1, of its own model 3)"
    assert lines[0] == f"It mixes what does best {told}:"
    assert lines[1:] == ["  75 % local stacking: weights of least error near the point", "  25 % own: its own model"]
    alone = asked([2.0, 4.0], [1.0, 0.0], 2.0, choice=mixed("a", 1.0)).explain(0).text
    assert "There is nothing to choose from but the own model of a." in alone
    one_unit = replace(mixed("a", 1.0), rows=0, folds=1)
    assert "All rows of a are of one unit" in asked([2.0, 4.0], [1.0, 0.0], 2.0, choice=one_unit).explain(0).text


@pytest.mark.parametrize(
    ("shares", "found", "words"),
    [
        ((0.5, 0.0, 0.0, 0.5), (), ["mean errors are taken off (centring)"]),
        ((0.5, 0.5, 0.0, 0.0, 0.0, 0.0), (), ["the guard holds"]),
        ((0.0, 0.2, 0.0, 0.0, 0.0, 0.8), (), ["a correction learned on its own rows is added"]),
        ((0.0, 0.2, 0.0, 0.2, 0.1, 0.5), (), ["(centring)", "a correction learned"]),
        ((0.5, 0.0, 0.0, 0.5), (REPLACED,), ["(centring)", "the guard holds"]),
    ],
)
def test_where_the_correction_comes_from(shares, found, words):
    told = tuple(Flag("b", reason, np.array([0])) for reason in found)
    text = asked([2.0, 4.0], [0.5, 0.5], 3.5, choice=mixed("a", *shares), flags=told).explain(0).text
    line = next(line for line in text.split("\n") if "weighted mean" in line)
    assert line.startswith("It is 0.50 above the weighted mean of the predictions, 3.00: ")
    everything = ["(centring)", "the guard holds", "a correction learned"]
    for word in everything:
        assert (word in line) == any(word in each for each in words)
    assert "weighted mean" not in asked([2.0, 4.0], [0.5, 0.5], 3.0).explain(0).text


def test_flags_of_an_asker_are_told_in_words():
    def told(*pairs, **fields):
        found = tuple(Flag(name, reason, np.array([0])) for name, reason in pairs)
        return asked([2.0, 9.0, 3.0], [0.5, 0.2, 0.3], 3.0, flags=found, **fields).explain(0).text

    bounds = {"lower": np.array([1.0]), "upper": np.array([5.0]), "coverage": 0.9}
    assert "For points like the rows of a the outcome is between 1.00 and 5.00, 90 times in 100." in told(**bounds)
    far = told(("a", FAR_FROM_OWN), **bounds)
    assert "far outside the rows of a, which say little of it, and the interval is widened to hold its labels." in far
    assert "The interval is from 1.00 to 5.00, and promises nothing here" in far
    assert "interval" not in told(("a", FAR_FROM_OWN)).replace("no interval for the outcome", "")
    replaced = told(("b", REPLACED))
    assert "What b says, 9.00, is far from what the rows of a lead to expect of its model, and was replaced" in replaced
    assert "left out:" not in replaced
    assert re.search(r"^b +9\.00 +0\.200 +inconsistent$", replaced, re.MULTILINE)
    alone = told(("a", ALONE), ("b", REPLACED), ("c", REPLACED))
    assert "the own model of a answers" in alone
    assert "It mixes" not in alone
    pooled = told(("a", FEW_SCORES), **bounds)
    assert "a has too few rows of its own for this coverage" in pooled
    assert "For points like the agents' rows" in pooled
    everybody = told((ALL_AGENTS, REASON), **bounds)
    assert "far outside the rows of all agents: nobody has seen anything like it, and the interval is" in everybody
    assert "b is flagged as stale: an old one." in told(("b", "stale: an old one"))
    assert "The answer is flagged as odd: why." in told(("nobody", "odd: why"))


def test_every_candidate_has_words():
    found = {"own, corrected", "mixture, corrected"}
    for rule in RULES:
        for rows in (20, 1000):
            settings_ = RuleSettings(rule, RULES[rule].reach)
            found |= {each.name for each in list_candidates(settings_, rows, 3)}
    assert found == set(WORDS)


# -- whatever an answer holds ------------------------------------------------------------------------------------------

NUMBERS = st.floats(-1e140, 1e140) | st.sampled_from([0.0, 1e-300, -1e-300, 1.0, 1e6, 123456.789])
REASONS = [MISSING, UNVERIFIED, INCONSISTENT, SUSPECT, "strange", "not agreed: the rounds were used up"]
REASONS += [FAR_FROM_OWN, REPLACED, ALONE, FEW_SCORES, REASON]
NAMES = ["north", "<b>&", "\x1b[31m", "two\nlines", "long " * 30, "$x_1$", "Ω", "_"]


@st.composite
def answers(draw):
    """Answers of any agents, with any of their fields."""
    K, Q, rng = (
        draw(st.integers(1, 15)),
        draw(st.sampled_from([None, 1, 3])),
        np.random.default_rng(draw(st.integers(0))),
    )
    names = tuple(f"{rng.choice(NAMES)} {k}" for k in range(K))
    outputs, level, scale = () if Q is None else (Q,), draw(NUMBERS), draw(NUMBERS)
    weights = rng.dirichlet(np.full(K, draw(st.sampled_from([0.01, 1.0, 1e9]))))
    beliefs = level + scale * rng.normal(size=(1, K, *outputs))
    value = np.einsum("k,k...->...", weights, beliefs[0])[None]
    alone = np.nan if K == 1 else 1.0
    fields = {
        "value": value, "standard_error": alone * np.abs(scale * rng.normal(size=(1, *outputs))),
        "weights": weights[None], "beliefs": beliefs, "influence": alone * scale * rng.normal(size=(1, K, *outputs)),
        "trust": rng.dirichlet(np.ones(K), size=(1, K)),
    }  # fmt: skip
    gone = rng.permutation(K)[: draw(st.integers(0, K - 1))]
    beliefs[0, gone] = np.nan
    found = [Flag(names[k], MISSING, np.array([0])) for k in gone]
    found += [
        Flag(str(rng.choice([*names, ALL_AGENTS])), reason, np.array([0])) for reason in rng.choice(REASONS, 2).tolist()
    ]
    asker = draw(st.sampled_from([None, names[0], np.array([names[-1]], object), np.array([None], object)]))
    made = mixed(names[0], *rng.dirichlet(np.ones(draw(st.integers(1, 6)))))
    choice = draw(st.sampled_from([None, made, {names[-1]: made}]))
    kept = {name: fields[name] for name in draw(st.sets(st.sampled_from(FIELDS)))}
    bounds = {"lower": value - 1.0, "upper": value + 1.0, "coverage": 0.9} if draw(st.booleans()) else {}
    classes = tuple(f"'class {q}'" for q in range(Q)) if Q and draw(st.booleans()) else ()
    if asker is not None and draw(st.booleans()):
        kept["correction"] = scale * rng.normal(size=(1, *outputs))
    return Consensus(names, **kept, **bounds, flags=tuple(found), classes=classes, asker=asker, choice=choice)


@settings(max_examples=100, deadline=None)
@given(answers())
def test_any_answer_is_explained(answer):
    if answer.points == 0:
        with pytest.raises(InvalidInput):
            answer.explain(0)
        return
    explained = answer.explain(0)
    json.dumps(explained.facts, allow_nan=False)
    assert re.search(r"\bnan\b|\binf\b|\bNone\b(?! of those)", explained.text) is None
    assert all(line == line.rstrip() for line in explained.text.split("\n"))
    assert all(sign.isprintable() or sign == "\n" for sign in explained.text)
    assert len(explained.text.split("\n")) < 60
    assert explained._repr_html_()
    assert repr(answer)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=6), st.integers(-6, 6))
def test_what_is_said_of_higher_and_lower_is_so(beliefs, power):
    """The one whose leaving changes the answer the most is named, with a change in the right direction."""
    answer = solved(np.array(beliefs) * 10.0**power)
    found = re.search(r"on (\w)( and \w)?: without \w+[a-z ]* \S+ \(\S+ (lower|higher)\)", answer.explain(0).text)
    if found is not None:
        k = answer.names.index(found[1])
        assert abs(answer.influence[0, k]) == np.abs(answer.influence).max()
        assert (answer.influence[0, k] > 0) == (found[3] == "lower")
    else:
        assert re.search("It is stable|depends", answer.explain(0).text)


@pytest.mark.parametrize("names", [FIELDS[:1], FIELDS[2:3], FIELDS[4:5], ("beliefs", "influence")])
def test_only_what_was_asked_for_is_told(names):
    answer = Collective(some_agents(3), 5).consult([[0.1, 0.2]], fields=names)
    told = answer.explain(0).facts
    known = {"value": told["value"]} | {key: told["agents"][0][key] for key in ("weight", "belief", "influence")}
    for key, field in zip(known, ("value", "weights", "beliefs", "influence"), strict=True):
        assert (known[key] is not None) == (field in names)


@pytest.mark.parametrize("K", [3, 14])
def test_there_is_no_table_of_names_alone(K):
    explained = Collective(some_agents(K), 5).consult([[0.1, 0.2]], fields=["value"]).explain(0)
    assert re.fullmatch(r"The collective says \S+ for point 0\.", explained.text)
    assert "<table" not in explained._repr_html_()
    assert "more" not in explained._repr_html_()


# -- numbers -----------------------------------------------------------------------------------------------------------


@given(st.lists(NUMBERS, min_size=1, max_size=5), st.lists(NUMBERS, max_size=2))
def test_numbers_keep_the_digits_that_matter(values, differences):
    digits = Digits.of(values, differences)
    for value in values:
        written = digits.write(value)
        assert abs(float(written) - value) <= 0.500001 * max(digits.unit, abs(value) * 1e-2 if digits.powers else 0)
        assert len(written) <= 20
