"""The same answer everywhere: in process, solved at the asked node, and pooled in rounds over real processes."""

import re
import time
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler
from support.consortium import PATIENCE, Consortium

from degroot import Agent, InvalidInput, consensus, jackknife
from degroot.answers.flags import FAR_FROM_ALL
from degroot.exceptions import DeGrootError
from degroot.node.peers.membership import TooFew, settle
from degroot.node.pooling.rounds import PoolingTerms
from degroot.node.pooling.state import PoolingState
from degroot.rules.rules import RULES
from degroot.trust import from_errors

FIELDS = ("value", "standard_error", "weights", "influence", "beliefs")
ROUNDS = {"way": "rounds", "tolerance": 1e-12, "rounds": 100_000}
SOLVE = {"way": "solve"}


def random_agents(seed, K, *, d=3, tails="normal", outputs=None):
    """K organisations with unlike rows and unlike models, and their labels."""
    rng = np.random.default_rng(seed)
    for k in range(K):
        n = int(rng.integers(60, 160))
        X = rng.normal(rng.normal(0.0, 1.0, d), rng.uniform(0.5, 2.0), (n, d))
        truth = np.sin(X).sum(axis=1) if outputs is None else np.sin(X @ rng.normal(size=(d, outputs)))
        noise = rng.normal(size=truth.shape) if tails == "normal" else rng.standard_t(1.2, truth.shape)
        y = truth + 0.3 * noise
        model = [LinearRegression(), Ridge(10.0), KernelRidge(kernel="rbf", alpha=0.5)][k % 3]
        half = n // 2
        yield X, y, model.fit(X[:half], y[:half])


def as_agents(made, **settings):
    return [(Agent(model, X, y, f"node{k}", **settings), y) for k, (X, y, model) in enumerate(made)]


def points_near(agents, seed, M=40):
    """Points among all agents' rows, and a few far from everybody's."""
    rng, rows = np.random.default_rng(seed), np.vstack([agent.X for agent in agents])
    near = rows[rng.choice(len(rows), M - 3)] + 0.1 * rng.normal(size=(M - 3, rows.shape[1]))
    return np.vstack([near, 30.0 * rng.normal(size=(3, rows.shape[1]))])


def assert_same(found, expected, fields=FIELDS):
    """Equal to 1e-6 relative; what comes from differences, to that of the beliefs' range."""
    assert found.names == expected.names
    scale = np.ptp(expected.beliefs)
    for field in fields:
        one, other = getattr(found, field), getattr(expected, field)
        assert one.shape == other.shape, field
        assert_allclose(one, other, rtol=1e-6, atol=1e-10 * (1.0 if field == "weights" else scale), err_msg=field)


def flags_of(answer):
    """What is said of agents. That a point is far outside the rows of all of them, nodes do not tell each other."""
    return {(flag.agent, flag.reason): flag.points.tolist() for flag in answer.flags if flag.kind != FAR_FROM_ALL}


def together(consortium, patience=PATIENCE):
    """Wait until rounds miss nobody: what peers have scored is known from when they last described themselves."""
    until = time.monotonic() + patience
    for name in consortium.names:
        with consortium.connect(name, way="rounds") as nodes, suppress(InvalidInput):  # other rules know no rounds
            while not _complete(nodes, consortium.agents[0].X[:1]):
                assert time.monotonic() < until
                time.sleep(0.05)
    return consortium


def _complete(nodes, X):
    try:
        return not any(flag.reason.startswith("missing") for flag in nodes.consult(X, "value").flags)
    except InvalidInput:
        raise
    except DeGrootError:
        return False


@pytest.fixture
def consortium(tmp_path):
    """Starts consortia, and ends them."""
    begun = []

    def begin(K, **settings):
        folder = tmp_path / str(len(begun))
        folder.mkdir()
        begun.append(Consortium(folder, K, **settings))
        return together(begun[-1].fork().ready())

    yield begin
    for each in begun:
        each.__exit__()


# five processes


@pytest.mark.parametrize(
    ("seed", "tails"),
    [(1, "heavy"), *(pytest.param(*case, marks=pytest.mark.slow) for case in [(0, "normal"), (2, "heavy")])],
)
def test_five_processes_answer_as_one_does(consortium, seed, tails):
    agents = as_agents(random_agents(seed, 5, tails=tails))
    five = consortium(5, agents=agents, settings="neighbours = 0.05")
    X = points_near(five.agents, seed)
    expected = five.collective(neighbours=0.05).consult(X)
    assert flags_of(expected)
    for asked, way in (("node0", SOLVE), ("node3", ROUNDS), ("node4", SOLVE)):
        with five.connect(asked, **way) as nodes:
            found = nodes.consult(X)
            assert_same(found, expected)
            assert flags_of(found) == flags_of(expected)
            assert_array_equal(nodes.predict(X), found.value)
    with five.connect() as nodes:
        assert_same(nodes.consult(X, ["trust", "beliefs"]), expected, ["trust"])


def test_nodes_without_a_guard(consortium):
    made = as_agents(random_agents(1, 5, tails="heavy"))[:3]
    three = consortium(3, agents=made, settings="guard = false\nneighbours = 0.05")
    X = points_near(three.agents, 4)
    expected = three.collective(guard=False, neighbours=0.05).consult(X)
    assert np.abs(expected.value - three.collective(guard=True, neighbours=0.05).predict(X)).max() > 1e-3  # it matters
    for asked, way in (("node0", SOLVE), ("node2", ROUNDS), ("node1", SOLVE)):
        with three.connect(asked, **way) as nodes:  # who asks need not know, and cannot choose
            found = nodes.consult(X)
            assert_same(found, expected)
            assert found.flags == ()
            assert_array_equal(nodes.predict(X), found.value)
    with three.connect() as nodes:
        assert_same(nodes.consult(X, ["trust", "beliefs"]), expected, ["trust"])


# three processes, other settings


@pytest.mark.parametrize(
    "rule",
    [
        rule if rule in ("stacking", "error-average") else pytest.param(rule, marks=pytest.mark.slow)
        for rule in RULES
        if rule != "degroot"
    ],
)
def test_other_rules_by_solving(consortium, rule):
    three = consortium(3, agents=as_agents(random_agents(5, 3)), settings=f'rule = "{rule}"')
    X = points_near(three.agents, 5)
    expected = three.collective(rule=rule).consult(X)
    with three.connect() as nodes:
        found = nodes.consult(X)
        assert_same(found, expected)
        assert flags_of(found) == flags_of(expected)
    with three.connect(**ROUNDS) as nodes, pytest.raises(InvalidInput, match=f"the rule must be 'degroot'.*{rule}"):
        nodes.consult(X)
    with three.connect("node1", caller="node0") as nodes:  # nor does a node take part in rounds that a peer begins
        begin = PoolingTerms("s", ("node0", "node1"), False, 1e-6, 9).begin(X[:2])
        reply = next(iter(nodes._stub.Pool(iter([begin]), timeout=PATIENCE)))
    assert "the rule must be 'degroot'" in reply.ready.fault


def test_several_outputs(consortium):
    agents = as_agents(random_agents(6, 3, outputs=2))
    three = consortium(3, agents=agents, data='target = ["y0", "y1"]')
    X = points_near(three.agents, 6)
    expected = three.collective().consult(X)
    assert expected.value.shape == (len(X), 2)
    for way in (SOLVE, ROUNDS):
        with three.connect(**way) as nodes:
            assert_same(nodes.consult(X), expected)


def test_classes(consortium):
    rng, classes = np.random.default_rng(7), ["cat", "cow", "dog"]
    agents = []
    for k in range(3):
        X = rng.normal(rng.normal(size=3), 1.5, (90, 3))
        y = np.array(classes)[np.argmax(X + rng.normal(size=X.shape), axis=1)]
        model = LogisticRegression().fit(X[:50], y[:50])
        agents.append((Agent(model, X, y, f"node{k}", classes=classes), y))
    three = consortium(3, agents=agents, data='classes = ["cat", "cow", "dog"]')
    X = points_near(three.agents, 7)
    expected = three.collective().consult(X)
    for way in (SOLVE, ROUNDS):
        with three.connect(**way) as nodes:
            found = nodes.consult(X)
            assert_same(found, expected)
            assert_allclose(found.value.sum(axis=1), 1.0)


def test_own_predictions_of_a_column(consortium):
    made = list(random_agents(8, 3))
    rng = np.random.default_rng(8)
    agents = [
        (Agent(model, X, y, f"node{k}", own_predictions=model.predict(X) + rng.normal(size=len(X))), y)
        for k, (X, y, model) in enumerate(made)
    ]
    three = consortium(3, agents=agents, data='own_predictions = "own"')
    X = points_near(three.agents, 8)
    expected = three.collective().consult(X)
    plain = as_agents(made)
    without = type(three.collective())([agent for agent, _ in plain], guard=True).consult(X)
    assert np.abs(expected.value - without.value).max() > 1e-3  # the column matters
    for way in (SOLVE, ROUNDS):
        with three.connect(**way) as nodes:
            assert_same(nodes.consult(X), expected)


def test_models_that_are_scored_by_peers(consortium):
    agents = as_agents(random_agents(9, 3), own_predictions="peers")
    three = consortium(3, agents=agents, data='own_predictions = "peers"')
    X = points_near(three.agents, 9)
    with three.connect() as nodes:
        assert_same(nodes.consult(X), three.collective().consult(X))
    with three.connect(**ROUNDS) as nodes, pytest.raises(InvalidInput, match=r"score their own models; .*node0"):
        nodes.predict(X)


def test_a_standardised_space(consortium):
    made = [(X * [1.0, 1.0, 1000.0], y, model) for X, y, model in random_agents(10, 3)]
    made = [(X, y, LinearRegression().fit(X[:40], y[:40])) for X, y, _ in made]
    three = consortium(3, agents=as_agents(made, space=StandardScaler()), data='space = "standardise"')
    X = points_near(three.agents, 10)
    expected = three.collective().consult(X)
    plain = type(three.collective())([agent for agent, _ in as_agents(made)], guard=True).consult(X)
    assert np.abs(expected.value - plain.value).max() > 1e-3  # the space matters
    for way in (SOLVE, ROUNDS):
        with three.connect(**way) as nodes:
            assert_same(nodes.consult(X), expected)


def _head(answer, M):
    return type(answer)(answer.names, **{field: getattr(answer, field)[:M] for field in FIELDS})


# one consortium for what does not disturb it


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    with Consortium(tmp_path_factory.mktemp("three"), agents=as_agents(random_agents(12, 3))) as three:
        yield together(three.fork().ready())


@pytest.mark.parametrize("way", [SOLVE, {**ROUNDS, "tolerance": 1e-9}])
def test_more_than_a_thousand_points_are_streamed(three, way):
    X = points_near(three.agents, 12, M=2345)
    expected = three.collective().consult(X)
    with three.connect(**way) as nodes:
        batches = _recorded(nodes)
        found = nodes.consult(X)
        assert batches == [1000, 1000, 345]
        assert_same(found, expected)
        assert flags_of(found) == flags_of(expected)


def _recorded(nodes):
    """How many points go out in each message of a stream."""
    batches, consult = [], nodes._stub.Consult

    def recording(requests, **settings):
        def each():
            for request in requests:
                batches.append(request.points.shape[0])
                yield request

        return consult(each(), **settings)

    nodes._stub.Consult = recording
    return batches


@pytest.mark.parametrize("way", [SOLVE, ROUNDS])
def test_no_points_and_one_point(three, way):
    X = points_near(three.agents, 13)
    with three.connect(**way) as nodes:
        assert nodes.predict(X[:0]).shape == (0,)
        assert_same(nodes.consult(X[:1]), _head(three.collective().consult(X), 1))


def test_rounds_refuse_to_show_trust(three):
    X = points_near(three.agents, 14)
    with three.connect(**ROUNDS) as nodes:
        assert nodes.consult(X).trust is None
        with pytest.raises(InvalidInput, match=r"^Rounds show nobody's trust.*must not include 'trust'; it does\.$"):
            nodes.consult(X, ["value", "trust"])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"way": "guess"}, r"`way` must be 'solve' or 'rounds'; got 'guess'\."),
        ({**ROUNDS, "tolerance": 1.0}, "tolerance from 0 to 1"),
        ({**ROUNDS, "tolerance": np.nan}, "tolerance from 0 to 1"),
        ({**ROUNDS, "rounds": 0}, "a number from 1 to"),
    ],
)
def test_what_cannot_be_asked_is_told_in_one_line(three, settings, said):
    with pytest.raises(InvalidInput, match=said) as caught, three.connect(**settings) as nodes:
        nodes.predict(three.agents[0].X[:2])
    assert "\n" not in str(caught.value)


def test_too_few_rounds_are_told_and_where(three):
    X = points_near(three.agents, 15)
    with three.connect(way="rounds", tolerance=1e-12, rounds=2) as nodes:
        found = nodes.consult(X)
    told = [flag for flag in found.flags if flag.reason.startswith("not agreed")]
    assert len(told) == 1
    expected = three.collective().consult(X)
    apart = np.abs(found.value - expected.value)
    assert set(np.flatnonzero(apart > 1e-9 * np.ptp(expected.beliefs))) <= set(told[0].points)
    assert len(told[0].points) > 0


def test_features_are_checked_by_name_and_number(three):
    import pandas as pd

    X = pd.DataFrame(three.agents[0].X[:2], columns=["x0", "x1", "x2"])
    with three.connect() as nodes:
        assert_allclose(nodes.predict(X), three.collective().predict(X.to_numpy()))
        with pytest.raises(InvalidInput, match="x2"):
            nodes.predict(X[["x2", "x1", "x0"]])
        with pytest.raises(InvalidInput, match=r"3 features.*got 2"):
            nodes.predict(three.agents[0].X[:2, :2])


def test_a_missing_peer_is_as_if_it_had_never_been(consortium):
    four = consortium(4, agents=as_agents(random_agents(16, 4)))
    X = points_near(four.agents, 16)
    four.kill("node2")
    expected = four.collective(without=["node2"]).consult(X)
    for way in (SOLVE, ROUNDS):
        with four.connect(**way) as nodes:
            found = nodes.consult(X)
        left = [0, 1, 3]
        assert found.names == ("node0", "node1", "node2", "node3")
        assert_array_equal(found.weights[:, 2], 0.0)
        assert np.isnan(found.beliefs[:, 2]).all()
        some = {"weights": found.weights[:, left], "influence": found.influence[:, left]}
        some |= {"value": found.value, "standard_error": found.standard_error, "beliefs": found.beliefs[:, left]}
        assert_same(type(found)(expected.names, **some), expected)
        missing = [flag for flag in found.flags if flag.reason.startswith("missing")]
        assert [flag.agent for flag in missing] == ["node2"]
        assert_array_equal(missing[0].points, np.arange(len(X)))
    four.kill("node1")
    for way in (SOLVE, ROUNDS):
        with four.connect(**way) as nodes, pytest.raises(DeGrootError, match=r"At least 3 agents.*node1.*node2"):
            nodes.predict(X)


# one agent's part in pooling, without a network


def pooled(errors, beliefs, kept=None, tolerance=1e-12, rounds=2000):
    """All parts after pooling, and how many rounds that took. errors: (M, K, K), beliefs: (M, K, Q)."""
    M, K, _ = errors.shape
    kept = np.ones((M, K), bool) if kept is None else kept
    parts = [PoolingState(k, errors[:, k], beliefs[:, k], kept, tolerance) for k in range(K)]
    for number in range(rounds + 1):  # noqa: B007
        told, settled = [part.beliefs for part in parts], np.all([part.settled for part in parts], axis=0)
        handed = [[part.share(k) for part in parts] for k in range(K)]
        for k, part in enumerate(parts):
            part.listen(told, handed[k])
        if settled.all():
            break
    return parts, number


def drawn(seed, M=4, K=4, Q=1, decades=2.0):
    rng = np.random.default_rng(seed)
    return 10.0 ** rng.uniform(-decades, decades, (M, K, K)), rng.normal(size=(M, K, Q)) * 10.0 ** rng.uniform(-3, 3)


seeds = st.integers(0, 2**32 - 1)


@settings(deadline=None, max_examples=30)
@given(seed=seeds, K=st.integers(1, 6), Q=st.integers(1, 3), rounds=st.integers(0, 7))
def test_after_t_rounds_beliefs_are_trust_to_the_t_times_beliefs(seed, K, Q, rounds):
    errors, beliefs = drawn(seed, K=K, Q=Q)
    parts, _ = pooled(errors, beliefs, tolerance=0.0, rounds=rounds)
    trust = from_errors(errors)
    power = np.linalg.matrix_power(trust, rounds)
    mean, _ = parts[0].agreed()
    assert_allclose(mean + parts[0].base, (power @ beliefs).mean(axis=1), rtol=1e-9, atol=1e-9 * np.abs(beliefs).max())
    weights = np.stack([part.weight for part in parts], axis=1)
    expected = np.full((1, K), 1.0 / K) @ np.linalg.matrix_power(trust, rounds + 1)
    assert_allclose(weights, expected[:, 0], rtol=1e-9)
    assert_allclose(weights.sum(axis=1), 1.0)


@settings(deadline=None, max_examples=30)
@given(seed=seeds, K=st.integers(2, 6), Q=st.integers(1, 2), decades=st.floats(0.0, 1.5))
def test_settled_parts_have_the_consensus_and_its_jackknife(seed, K, Q, decades):
    errors, beliefs = drawn(seed, K=K, Q=Q, decades=decades)
    parts, rounds = pooled(errors, beliefs, rounds=100_000)
    assert rounds < 100_000
    trust, scale = from_errors(errors), np.abs(beliefs).max()
    weights = consensus.solve(trust)
    assert_allclose(np.stack([part.weight for part in parts], axis=1), weights, rtol=1e-6)
    for part in parts:
        value, without = part.agreed()
        assert_allclose(value + part.base, np.einsum("mk,mkq->mq", weights, beliefs), atol=1e-9 * scale)
        expected = np.stack([jackknife.values_without(trust, beliefs[..., q]) for q in range(Q)], axis=-1)
        assert_allclose(without + part.base[:, None], expected, atol=1e-9 * scale)


@settings(deadline=None, max_examples=30)
@given(seed=seeds, K=st.integers(1, 6), belief=st.floats(-1e6, 1e6))
def test_unanimity(seed, K, belief):
    errors, beliefs = drawn(seed, K=K, decades=1.0)
    parts, _ = pooled(errors, np.full_like(beliefs, belief), rounds=100_000)
    for part in parts:
        value, without = part.agreed()
        assert_array_equal(value + part.base, belief)
        if K > 1:
            assert_array_equal(without, 0.0)


@settings(deadline=None, max_examples=30)
@given(seed=seeds, K=st.integers(2, 6))
def test_who_is_not_kept_is_as_if_it_had_never_been(seed, K):
    errors, beliefs = drawn(seed, K=K, decades=1.0)
    kept = np.random.default_rng(seed).random((len(errors), K)) < 0.6
    kept[np.arange(len(kept)), np.random.default_rng(seed).integers(K, size=len(kept))] = True
    parts, rounds = pooled(errors, beliefs, kept, rounds=100_000)
    assert rounds < 100_000
    weights, scale = np.stack([part.weight for part in parts], axis=1), np.abs(beliefs).max()
    assert_array_equal(weights[~kept], 0.0)
    for m, some in enumerate(kept):
        alone = consensus.solve(from_errors(errors[m][np.ix_(some, some)])[None])[0]
        assert_allclose(weights[m, some], alone, rtol=1e-6)
        for part in parts:
            value, _ = part.agreed()
            assert_allclose(value[m] + part.base[m], alone @ beliefs[m, some], atol=1e-9 * scale)


def test_weights_are_right_where_beliefs_tell_nothing_of_them():
    """Two pairs that hardly trust each other: equal beliefs are settled at once, weights are not."""
    errors = np.array(
        [[[1.0, 1.0, 300.0, 300.0], [1.0, 2.0, 300.0, 300.0], [900.0, 900.0, 1.0, 1.0], [900.0, 900.0, 1.0, 1.0]]]
    )
    parts, rounds = pooled(errors, np.zeros((1, 4, 1)), tolerance=1e-9, rounds=100_000)
    assert 1000 < rounds < 100_000
    weights = np.stack([part.weight for part in parts], axis=1)
    assert_allclose(weights, consensus.solve(from_errors(errors)), rtol=1e-6)


@settings(deadline=None, max_examples=30)
@given(seed=seeds, K=st.integers(2, 5), liar=st.integers(0, 4))
def test_strays_are_those_whose_beliefs_are_no_averages(seed, K, liar):
    errors, beliefs = drawn(seed, K=K, decades=1.0)
    parts, _ = pooled(errors, beliefs, rounds=0)
    following = [part.beliefs for part in parts]
    assert not parts[0].stray(following).any()
    liar %= K
    following[liar] = following[liar].copy()
    following[liar][0, 0, 0] = np.abs(beliefs).max() * 3.0
    assert_array_equal(parts[0].stray(following), np.arange(K) == liar)


# who answers together


@st.composite
def circles(draw):
    roster = [f"n{k}" for k in range(draw(st.integers(1, 6)))]
    some = st.sets(st.sampled_from(roster))
    missing = draw(some) - {roster[0]}
    scored = {name: draw(some) | {name} for name in roster if name not in missing}
    pairs = st.tuples(st.sampled_from(roster), st.sampled_from(roster)).filter(lambda pair: pair[0] != pair[1])
    return roster, scored, dict.fromkeys(missing, "gone"), draw(st.sets(pairs, max_size=4))


@given(circles())
def test_members_have_scored_and_heard_each_other_and_all_others_have_a_reason(circle):
    roster, scored, missing, apart = circle
    who = settle(roster, scored, missing, roster[0], apart)
    assert set(who.members) | set(who.missing) == set(roster)
    assert not set(who.members) & set(who.missing)
    assert list(who.members) == [name for name in roster if name in who.members]
    assert roster[0] in who.members
    for scorer in who.members:
        assert set(who.members) <= scored[scorer]
        assert not any((scorer, other) in apart for other in who.members)
    assert missing.items() <= who.missing.items()
    assert all(who.missing.values())


@given(circles())
def test_members_have_each_other_in_their_rosters(circle):
    roster, scored, missing, unlisted = circle
    who = settle(roster, scored, missing | {"stranger": "has left the roster"}, roster[0], unlisted=unlisted)
    assert set(who.members) | set(who.missing) == set(roster)
    assert not any((one, other) in unlisted for one in who.members for other in who.members)
    for name, reason in who.missing.items():
        told = re.match("(not in the roster of|its roster lacks): ", reason)
        others = reason[told.end() :].split(", ") if told else []
        assert set(others) <= {one for one, other in unlisted if other == name} | {
            other for one, other in unlisted if one == name
        }


@given(circles())
def test_nobody_is_left_out_without_need(circle):
    roster, _, missing, _ = circle
    here = [name for name in roster if name not in missing]
    who = settle(roster, dict.fromkeys(here, roster), missing, roster[0])
    assert list(who.members) == here


@given(circles(), st.integers(1, 7))
def test_the_quorum(circle, quorum):
    who = settle(circle[0], circle[1], circle[2], circle[0][0], circle[3])
    if len(who.members) >= quorum:
        who.check(quorum)
    else:
        with pytest.raises(TooFew, match=f"At least {quorum} agents must answer") as caught:
            who.check(quorum)
        assert all(f"{name}: {reason}" in str(caught.value) for name, reason in who.missing.items())


def test_one_that_hears_nobody_does_not_take_others_with_it():
    everybody = dict.fromkeys("abcde", "abcde")
    cut = [("c", other) for other in "abde"]
    who = settle("abcde", everybody, {}, "a", cut)
    assert who.members == ("a", "b", "d", "e")
    assert who.missing == {"c": "cannot be heard by: a, b, d, e"}
