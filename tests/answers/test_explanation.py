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
from degroot.answers.display import Digits

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
            model = lambda X, k=k: np.array(classes)[(X[:, 0] > 0.3 * k).astype(int)]  # noqa: E731
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


# -- whatever an answer holds ------------------------------------------------------------------------------------------

NUMBERS = st.floats(-1e140, 1e140) | st.sampled_from([0.0, 1e-300, -1e-300, 1.0, 1e6, 123456.789])
REASONS = [MISSING, UNVERIFIED, INCONSISTENT, SUSPECT, "strange", "not agreed: the rounds were used up"]
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
    found += [Flag(str(rng.choice(names)), reason, np.array([0])) for reason in rng.choice(REASONS, 2).tolist()]
    kept = {name: fields[name] for name in draw(st.sets(st.sampled_from(FIELDS)))}
    bounds = {"lower": value - 1.0, "upper": value + 1.0, "coverage": 0.9} if draw(st.booleans()) else {}
    classes = tuple(f"'class {q}'" for q in range(Q)) if Q and draw(st.booleans()) else ()
    return Consensus(names, **kept, **bounds, flags=tuple(found), classes=classes)


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
