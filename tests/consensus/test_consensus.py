from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from support import oracle

from degroot.consensus.dense import pool, stationary, trace_pooling, weights_from_errors
from degroot.exceptions import InvalidInput
from degroot.trust import from_errors

seeds = st.integers(0, 2**32 - 1)
spreads = st.sampled_from([0.0, 0.3, 1.0, 3.0, 7.0])


def random_trust(seed, shape, K, spread=1.0):
    """Positive trust whose entries differ by about ``10**spread``."""
    return from_errors(10.0 ** (spread * np.random.default_rng(seed).uniform(-1, 1, (*shape, K, K))))


@st.composite
def trusts(draw, max_agents=12):
    return random_trust(draw(seeds), (), draw(st.integers(1, max_agents)), draw(spreads))


def exact_weights(trust):
    """The stationary weights in rational numbers, of the chain with these very off-diagonal entries."""
    K = len(trust)
    flow = [[Fraction(float(entry)) for entry in row] for row in trust]
    for k in range(K - 1, 0, -1):
        leaving = sum(flow[k][:k])
        for i in range(k):
            flow[i][k] /= leaving
            for j in range(k):
                flow[i][j] += flow[i][k] * flow[k][j]
    weights = [Fraction(1)]
    for k in range(1, K):
        weights.append(sum(weights[i] * flow[i][k] for i in range(k)))
    total = sum(weights)
    return np.array([float(weight / total) for weight in weights])


def small_eps_chain(seed, K, least):
    """Rows that sum to 1 with off-diagonal entries as small as `least`: nearly K chains instead of one."""
    rng = np.random.default_rng(seed)
    T = least * rng.uniform(1, 9, (K, K)) * 10.0 ** rng.uniform(0, 3, (K, K))
    np.fill_diagonal(T, 0.0)
    np.fill_diagonal(T, 1.0 - T.sum(axis=1))
    return T


# ---------------------------------------------------------------------------------------------------- stationary


@given(trusts())
def test_weights_are_kept_by_trust_and_sum_to_one(trust):
    weights = stationary(trust)
    np.testing.assert_allclose(weights @ trust, weights, rtol=1e-12)
    assert weights.sum() == pytest.approx(1.0, rel=1e-14)
    assert (weights > 0).all()


@pytest.mark.parametrize("K", [*range(1, 65), 128])
def test_weights_solve_for_any_number_of_agents(K):
    trust = random_trust(K, (2,), K, spread=3.0)
    weights = stationary(trust)
    np.testing.assert_allclose(np.einsum("mi,mij->mj", weights, trust), weights, rtol=1e-12)
    np.testing.assert_allclose(weights, [oracle.stationary(one) for one in trust], rtol=1e-13)


@given(trusts(max_agents=7))
def test_every_weight_is_exact_to_rounding(trust):
    np.testing.assert_allclose(stationary(trust), exact_weights(trust), rtol=1e-14)


@given(seeds, st.integers(2, 6), st.sampled_from([1e-6, 1e-16, 1e-40]))
def test_every_weight_is_exact_where_agents_hardly_listen_to_each_other(seed, K, least):
    trust = small_eps_chain(seed, K, least)
    np.testing.assert_allclose(stationary(trust), exact_weights(trust), rtol=1e-14)


@given(seeds, st.integers(2, 6))
def test_weights_that_differ_by_many_orders_are_exact_each(seed, K):
    """From agent to agent trust falls by 1e-16: so do the weights, and none of them is lost."""
    rng = np.random.default_rng(seed)
    size = rng.permutation(K)
    T = np.where(size[None, :] > size[:, None], 1e-16, 0.3) * rng.uniform(0.5, 1, (K, K))
    T /= T.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(stationary(T), exact_weights(T), rtol=1e-13)


def hard_trust(K, seed):
    """Trust of many agents for which an iteration would take long, or err."""
    rng = np.random.default_rng(seed)
    halves, errors = np.arange(K) % 2, rng.exponential(size=(K, K))
    yield "heavy tails", from_errors(rng.standard_cauchy((K, K)) ** 4)
    yield "errors of 0", from_errors(np.where(rng.random((K, K)) < 0.1, 0.0, errors))
    yield "one without errors in each row", from_errors(np.where(np.roll(np.eye(K), 1, 1) > 0, 0.0, errors))
    yield "ratios of 1e12", from_errors(10.0 ** rng.uniform(-12, 0, (K, K)))
    for loose in (1e-6, 1e-14):
        yield f"two parties, else {loose}", from_errors(errors / np.where(halves[:, None] == halves, 1, loose))
    yield "ranks far apart", from_errors(10.0 ** np.linspace(0, 14, K) * (1 + rng.random((K, K))))
    yield "hardly listening", small_eps_chain(seed, K, 1e-13)
    yield "everyone alike", np.full((K, K), 1 / K)


@pytest.mark.parametrize("K", [15, 16, 17, 23, 24, 25, 40, 64, 101, 128])
def test_every_weight_of_many_agents_is_exact_in_the_hard_cases(K):
    """The oracle eliminates one agent after the other, without a subtraction."""
    for name, trust in hard_trust(K, seed=K):
        weights = stationary(trust)
        np.testing.assert_allclose(weights, oracle.stationary(trust), rtol=1e-12, err_msg=name)
        order = np.random.default_rng(1).permutation(K)
        np.testing.assert_allclose(stationary(trust[np.ix_(order, order)]), weights[order], rtol=1e-12, err_msg=name)


@given(seeds, st.integers(2, 150), st.integers(1, 12), spreads)
def test_weights_are_the_same_whether_trust_is_kept_or_not(seed, K, M, spread):
    errors = 10.0 ** (spread * np.random.default_rng(seed).uniform(-1, 1, (M, K, K)))
    weights = np.empty((M, K))
    weights_from_errors(errors, weights)
    np.testing.assert_array_equal(weights, stationary(from_errors(errors)))


@given(seeds, st.integers(16, 60), st.integers(1, 15))
def test_who_is_not_listened_to_has_no_weight_among_many(seed, K, heard):
    """Some listen to each other only, all others to them too: wherever the others stand, they carry nothing."""
    rng = np.random.default_rng(seed)
    trust = rng.exponential(size=(K, K))
    few = rng.permutation(K)[:heard]
    trust[np.ix_(few, np.setdiff1d(np.arange(K), few))] = 0.0
    trust /= trust.sum(axis=1, keepdims=True)
    weights = stationary(trust)
    np.testing.assert_allclose(weights[few], stationary(trust[np.ix_(few, few)]), rtol=1e-12)
    assert weights[np.setdiff1d(np.arange(K), few)].max(initial=0.0) == 0.0


def test_the_order_of_agents_does_not_matter_for_weights_beyond_the_range_of_numbers():
    """Each agent hands all but 1e-150 to the previous one: weights 1, 1e-150, 1e-300 and 0, in any order."""
    trust = np.zeros((4, 4))
    for k in range(4):
        trust[k, max(k - 1, 0)] += 1.0
        if k < 3:
            trust[k, k + 1] = 1e-150
    weights = [1.0, 1e-150, 1e-300, 0.0]
    np.testing.assert_allclose(stationary(trust), weights, rtol=1e-12)
    np.testing.assert_allclose(stationary(trust[::-1, ::-1]), weights[::-1], rtol=1e-12)


@given(trusts(), seeds)
def test_relabelling_agents_relabels_weights(trust, seed):
    order = np.random.default_rng(seed).permutation(len(trust))
    np.testing.assert_allclose(stationary(trust[np.ix_(order, order)]), stationary(trust)[order], rtol=1e-12)


@pytest.mark.parametrize("shape", [(), (1,), (7,), (2, 3), (0,), (3, 0)])
def test_weights_broadcast_over_leading_axes(shape):
    trust = random_trust(3, shape, 4)
    weights = stationary(trust)
    assert weights.shape == (*shape, 4)
    for place in np.ndindex(shape):
        np.testing.assert_array_equal(weights[place], stationary(trust[place]))


def test_weights_of_many_points_are_those_of_each():
    trust = random_trust(5, (20_000,), 5, spread=2.0)
    weights = stationary(trust)
    for m in range(0, 20_000, 997):
        np.testing.assert_array_equal(weights[m], stationary(trust[m]))


@pytest.mark.parametrize("K", [2, 3, 4, 5, 8, 17, 40])
def test_weights_are_the_same_to_the_bit_wherever_the_memory_lies(K):
    """Sums taken in another order when arrays happen to lie close together would differ in the last bit."""
    trust, rng = random_trust(6, (600_000 // K**2,), K, spread=2.0), np.random.default_rng(K)
    expected, kept = stationary(trust), []
    for _ in range(40):
        kept.append(np.empty(rng.integers(1, 2000)))  # so that scratch memory is somewhere else each time
        np.testing.assert_array_equal(stationary(trust), expected)
        m = rng.integers(len(trust))
        np.testing.assert_array_equal(stationary(trust[m]), expected[m])


def test_weights_are_the_same_for_any_memory_layout():
    trust = random_trust(8, (6,), 5)
    expected = stationary(trust)
    frozen = trust.copy()
    frozen.flags.writeable = False
    np.testing.assert_array_equal(stationary(frozen), expected)
    np.testing.assert_array_equal(stationary(np.asfortranarray(trust)), expected)
    np.testing.assert_array_equal(stationary(np.repeat(trust, 2, axis=0)[::2]), expected)
    np.testing.assert_array_equal(stationary(trust.tolist()), expected)
    np.testing.assert_array_equal(trust, frozen)  # the input is left alone


def test_single_precision_trust_is_taken():
    trust = random_trust(8, (6,), 5).astype(np.float32)
    np.testing.assert_allclose(stationary(trust), stationary(trust.astype(float)), rtol=0)


@pytest.mark.parametrize(
    ("trust", "message"),
    [
        ([[0.5, 0.4], [0.5, 0.5]], r"Every row of `trust` must sum to 1; row .*0.* sums to 0\.9"),
        ([[[0.5, 0.5], [0.5, 0.5]], [[0.5, 0.5], [0.7, 0.5]]], r"must sum to 1; row \(1, 1\) sums to 1\.2"),
        ([[np.nan, 0.5], [0.5, 0.5]], "must sum to 1; row .* sums to nan"),
        ([[np.inf, 0.5], [0.5, 0.5]], "must sum to 1; row .* sums to inf"),
        ([[1.5, -0.5], [0.5, 0.5]], r"must not be negative; its least entry is -0\.5"),
        ([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]], r"must be square.*its shape is \(2, 3\)"),
        ([0.5, 0.5], r"must be square.*its shape is \(2,\)"),
        (1.0, r"must be square.*its shape is \(\)"),
        (np.empty((0, 0)), r"must be square.*its shape is \(0, 0\)"),
        (np.eye(2), "must lead to one consensus"),
        (np.eye(5), "must lead to one consensus"),
        (np.kron(np.eye(2), np.full((2, 2), 0.5)), "must lead to one consensus"),
    ],
)
def test_bad_trust_is_refused_in_one_line(trust, message):
    with pytest.raises(InvalidInput, match=message) as caught:
        stationary(trust)
    assert "\n" not in str(caught.value)


def test_whether_trust_is_refused_does_not_depend_on_the_order_of_agents():
    """Nobody listens to one of the agents, so the other one decides: a consensus, whatever their order."""
    trust = np.array([[1.0, 0.0], [0.5, 0.5]])

    def outcome(T):
        try:
            return stationary(T)
        except InvalidInput:
            return None

    one, other = outcome(trust), outcome(trust[::-1, ::-1])
    assert (one is None) == (other is None)
    if one is not None:
        np.testing.assert_array_equal(one, other[::-1])


# ------------------------------------------------------------------------------------- the paper's propositions


@given(trusts(), st.floats(-1e6, 1e6))
def test_unanimity(trust, belief):
    """When all agents believe the same, that is the consensus."""
    assert stationary(trust) @ np.full(len(trust), belief) == pytest.approx(belief, rel=1e-13, abs=1e-300)


@given(seeds, st.integers(2, 10))
def test_ranking_is_preserved_when_all_agents_rank_alike(seed, K):
    rng = np.random.default_rng(seed)
    ranked = np.sort(10.0 ** rng.uniform(-4, 0, (K, K)), axis=1)
    trust = ranked / ranked.sum(axis=1, keepdims=True)
    order = rng.permutation(K)
    weights = stationary(trust[np.ix_(order, order)])
    sorted_weights = np.empty(K)
    sorted_weights[order] = weights
    assert (np.diff(sorted_weights) >= -1e-15).all()


@given(trusts())
def test_weights_lie_between_the_least_and_the_greatest_trust_received(trust):
    weights = stationary(trust)
    assert (weights >= trust.min(axis=0) * (1 - 1e-13)).all()
    assert (weights <= trust.max(axis=0) * (1 + 1e-13)).all()


@given(seeds, st.integers(1, 12))
def test_trust_whose_columns_sum_to_one_gives_equal_weights(seed, K):
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(2 * K))  # a mixture of permutations is doubly stochastic, and every such is one
    trust = sum(share * np.eye(K)[rng.permutation(K)] for share in shares)
    trust = 0.9 * trust + 0.1 / K
    np.testing.assert_allclose(stationary(trust), np.full(K, 1 / K), rtol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_weights_approach_inverse_errors_as_rows_grow(seed):
    """Rows from one distribution, models of known error: every agent comes to the same, right, opinion."""
    rng = np.random.default_rng(seed)
    mse = np.array([0.25, 0.5, 1.0, 2.0, 4.0])
    limit = (1 / mse) / (1 / mse).sum()

    def deviation(n_rows):
        residuals = np.sqrt(mse) * rng.standard_normal((40, len(mse), n_rows, len(mse)))  # 40 draws of 5 agents' rows
        weights = stationary(from_errors((residuals**2).mean(axis=2)))
        return np.abs(weights - limit).max(axis=1).mean()

    few, more, many = deviation(50), deviation(500), deviation(5000)
    assert few > more > many
    assert many < 0.02
    assert many < few / 5  # a hundred times the rows: a tenth of the deviation


# ---------------------------------------------------------------------------------------------------------- pool


@given(trusts(max_agents=8), seeds, st.integers(0, 40))
def test_rounds_are_powers_of_trust(trust, seed, rounds):
    beliefs = np.random.default_rng(seed).normal(size=len(trust))
    pooled = pool(trust, beliefs, rounds=rounds)
    expected = np.linalg.matrix_power(trust, rounds) @ beliefs
    np.testing.assert_allclose(pooled.beliefs, expected, rtol=1e-12, atol=1e-13)
    assert pooled.value == pytest.approx(expected.mean(), rel=1e-12, abs=1e-13)
    assert pooled.rounds == rounds


@given(trusts(max_agents=8), seeds, st.sampled_from([1e-1, 1e-3, 1e-6, 1e-10]))
def test_where_pooling_converged_everybody_is_within_the_tolerance_of_the_consensus(trust, seed, tolerance):
    beliefs = np.random.default_rng(seed).normal(size=len(trust))
    pooled = pool(trust, beliefs, rounds=5000, tolerance=tolerance)
    consensus = stationary(trust) @ beliefs
    apart = np.ptp(pooled.beliefs)
    assert bool(pooled.converged) == bool(apart <= tolerance)
    assert pooled.converged or pooled.rounds == 5000
    if pooled.converged:
        rounding = 1e-15 * (20 + pooled.rounds) * np.abs(beliefs).max()
        assert abs(pooled.value - consensus) <= tolerance + rounding
        assert (np.abs(pooled.beliefs - consensus) <= tolerance + rounding).all()


@given(trusts(max_agents=8), seeds, st.sampled_from([1e-1, 1e-3, 1e-6, 1e-10]))
def test_pooling_takes_no_more_rounds_than_needed(trust, seed, tolerance):
    beliefs = np.random.default_rng(seed).normal(size=len(trust))
    used = int(pool(trust, beliefs, rounds=300, tolerance=tolerance).rounds)
    if used > 0:
        earlier = pool(trust, beliefs, rounds=used - 1)
        assert np.ptp(earlier.beliefs) > tolerance
    if used < 300:
        assert np.ptp(pool(trust, beliefs, rounds=used).beliefs) <= tolerance


@pytest.mark.parametrize("least", [1e-3, 1e-9, 1e-16])
def test_agents_who_hardly_listen_are_not_said_to_agree(least):
    """One round moves nobody by more than the tolerance; still they are far apart."""
    trust, beliefs = small_eps_chain(1, 5, least / 1e6), np.arange(5.0)
    once = pool(trust, beliefs, rounds=1).beliefs
    assert np.abs(once - beliefs).max() < least
    pooled = pool(trust, beliefs, rounds=100, tolerance=least)
    assert not pooled.converged
    assert pooled.rounds == 100


def test_without_a_tolerance_convergence_means_agreement_to_rounding():
    trust = random_trust(0, (), 4)
    assert not pool(trust, np.arange(4.0), rounds=1).converged
    assert pool(trust, np.arange(4.0), rounds=1000).converged
    assert pool(trust, np.full(4, 2.0), rounds=0).converged


def test_one_agent_agrees_with_itself():
    pooled = pool([[1.0]], [3.0], tolerance=1e-9)
    assert (pooled.value, pooled.rounds, bool(pooled.converged)) == (3.0, 0, True)


@pytest.mark.parametrize(
    ("trust_shape", "belief_shape"),
    [((), ()), ((5,), ()), ((), (5,)), ((5,), (5,)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((0,), (0,)), ((), (0,))],
)
def test_pooling_broadcasts(trust_shape, belief_shape):
    trust = random_trust(1, trust_shape, 3)
    beliefs = np.random.default_rng(2).normal(size=(*belief_shape, 3))
    shape = np.broadcast_shapes(trust_shape, belief_shape)
    pooled = pool(trust, beliefs, rounds=30, tolerance=1e-3)
    assert pooled.beliefs.shape == (*shape, 3)
    assert pooled.value.shape == pooled.rounds.shape == pooled.converged.shape == shape
    all_trust, all_beliefs = np.broadcast_to(trust, (*shape, 3, 3)), np.broadcast_to(beliefs, (*shape, 3))
    for place in np.ndindex(shape):
        one = pool(all_trust[place], all_beliefs[place], rounds=30, tolerance=1e-3)
        np.testing.assert_array_equal(pooled.beliefs[place], one.beliefs)
        assert pooled.rounds[place] == one.rounds


@given(hnp.arrays(float, (4, 3), elements=st.floats(-100, 100)))
def test_pooling_leaves_its_input_alone(beliefs):
    before = beliefs.copy()
    beliefs.flags.writeable = False
    pool(random_trust(1, (4,), 3), beliefs, rounds=3)
    np.testing.assert_array_equal(beliefs, before)


@pytest.mark.parametrize(
    ("beliefs", "options", "message"),
    [
        ([1.0, 2.0, 3.0], {}, r"`beliefs` must have one belief for each of 2 agents; its shape is \(3,\)"),
        (1.0, {}, r"`beliefs` must have one belief for each of 2 agents; its shape is \(\)"),
        ([1.0, 2.0], {"rounds": -1}, "`rounds` must be 0 or more; got -1"),
        ([1.0, 2.0], {"tolerance": -0.5}, r"`tolerance` must be 0 or more; got -0\.5"),
        ([1.0, 2.0], {"tolerance": np.nan}, "`tolerance` must be 0 or more; got nan"),
    ],
)
def test_bad_pooling_is_refused_in_one_line(beliefs, options, message):
    with pytest.raises(InvalidInput, match=message) as caught:
        pool([[0.5, 0.5], [0.5, 0.5]], beliefs, **options)
    assert "\n" not in str(caught.value)


def test_beliefs_about_another_number_of_points_are_refused():
    with pytest.raises(InvalidInput, match="beliefs"):
        pool(random_trust(0, (2,), 3), np.zeros((5, 3)))


def test_thirty_rounds_are_not_enough_where_inverse_errors_are_heavy_tailed_but_the_solution_is_exact():
    """Why weights are solved for: one squared residual is often so small that hardly anybody else is listened to."""
    errors = np.random.default_rng(0).chisquare(1, (20_000, 5, 5))
    trust = from_errors(errors)
    weights = stationary(trust)
    rounds = np.full((len(trust), 1, 5), 0.2)
    for _ in range(30):
        rounds = rounds @ trust
    off = np.abs(rounds[:, 0] - weights).max(axis=1)
    assert off.max() > 0.2
    for m in np.argsort(off)[-20:]:
        np.testing.assert_allclose(weights[m], exact_weights(trust[m]), rtol=1e-13)


@given(trusts(max_agents=6), seeds, st.sampled_from([0.0, 1e-3, 0.5]), st.integers(0, 20))
def test_a_trace_of_pooling_has_every_round_until_all_outputs_agree(trust, seed, agreement, rounds):
    beliefs = np.random.default_rng(seed).normal(size=(2, len(trust)))
    path = trace_pooling(trust, beliefs, agreement, rounds=rounds)
    for used, each in enumerate(path):
        np.testing.assert_array_equal(each, pool(trust, beliefs, rounds=used).beliefs)
    apart = (np.ptp(path, axis=2) > agreement * np.ptp(beliefs, axis=1)).any(axis=1)
    assert apart[:-1].all()
    assert len(path) == rounds + 1 or not apart[-1]


@settings(max_examples=20)
@given(seeds)
def test_pooling_for_long_tends_to_the_solution(seed):
    trust = random_trust(seed, (50,), 5, spread=0.5)
    beliefs = np.random.default_rng(seed).normal(size=(50, 5))
    pooled = pool(trust, beliefs, rounds=2000)
    consensus = (stationary(trust) * beliefs).sum(axis=-1)
    np.testing.assert_allclose(pooled.value, consensus, rtol=1e-10, atol=1e-12)
