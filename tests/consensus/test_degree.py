"""Agents that score only some of the models: a collective with a degree."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from degroot import Agent, Collective, InvalidInput

FIELDS = ("value", "standard_error", "weights", "beliefs", "influence")


def made(K: int, seed: int = 0, rows: int = 30, **settings: object) -> tuple[list[Agent], np.ndarray]:
    random = np.random.default_rng(seed)
    agents = []
    for k in range(K):
        X = random.normal(k / K, 1.0, size=(rows, 2))
        y = np.sin(X[:, 0]) + X[:, 1] + 0.1 * random.normal(size=rows)
        agents.append(Agent(Ridge().fit(X, y), X, y, f"a{k}", **settings))
    return agents, random.normal(size=(7, 2))


def whole(answer: object, K: int) -> np.ndarray:
    """The trust matrix with zeros where nobody looked, (M, K, K)."""
    matrix = np.zeros((len(answer.trust), K, K))
    np.put_along_axis(matrix, np.broadcast_to(answer.peers, answer.trust.shape), answer.trust, axis=2)
    return matrix


@given(K=st.integers(3, 12), seed=st.integers(0, 1000))
def test_a_degree_of_all_agents_is_the_dense_answer(K, seed):
    agents, X = made(K, seed)
    dense, sparse = Collective(agents).consult(X), Collective(agents, degree=K).consult(X)
    for field in (*FIELDS, "trust"):
        np.testing.assert_allclose(getattr(sparse, field), getattr(dense, field), rtol=1e-9, atol=1e-9)
    assert (sparse.peers == np.arange(K)).all()
    assert dense.peers is None


@given(K=st.integers(5, 20), degree=st.integers(3, 5), seed=st.integers(0, 1000))
def test_what_is_not_scored_counts_as_no_trust(K, degree, seed):
    agents, X = made(K, seed)
    collective = Collective(agents, degree=degree, neighbours=6)
    answer = collective.consult(X)
    trust = whole(answer, K)
    np.testing.assert_allclose(np.einsum("mk,mkl->ml", answer.weights, trust), answer.weights, atol=1e-12)
    np.testing.assert_allclose(answer.weights.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose((answer.weights * answer.beliefs).sum(axis=1), answer.value, atol=1e-12)
    for i in range(K):
        keep = np.delete(np.arange(K), i)
        others = trust[:, keep[:, None], keep]
        others /= others.sum(axis=2, keepdims=True)
        without = np.array(
            [_stationary(each) @ belief[keep] for each, belief in zip(others, answer.beliefs, strict=True)]
        )
        np.testing.assert_allclose(answer.influence[:, i], answer.value - without, atol=1e-8)


def _stationary(matrix: np.ndarray) -> np.ndarray:
    """By least squares: w (T - I) = 0 and the weights sum to 1."""
    K = len(matrix)
    system = np.vstack([matrix.T - np.eye(K), np.ones(K)])
    return np.linalg.lstsq(system, np.append(np.zeros(K), 1.0), rcond=None)[0]


def test_every_row_of_trust_is_that_of_the_dense_matrix_among_the_scored():
    agents, X = made(9)
    sparse, dense = Collective(agents, degree=4, neighbours=6).consult(X), Collective(agents, neighbours=6).consult(X)
    for i, scored in enumerate(sparse.peers):
        part = dense.trust[:, i, scored]
        np.testing.assert_allclose(sparse.trust[:, i], part / part.sum(axis=1, keepdims=True), rtol=1e-12)


def test_models_are_only_asked_about_the_rows_of_those_who_score_them():
    asked = dict.fromkeys(range(8), 0)

    def model(k):
        def predict(X):
            asked[k] += len(X)
            return X[:, 0] + k

        return predict

    random = np.random.default_rng(0)
    agents = [Agent(model(k), random.normal(size=(10, 1)), random.normal(size=10), f"a{k}") for k in range(8)]
    collective = Collective(agents, degree=3)
    assert set(asked.values()) == {30}
    assert (np.bincount(collective.peers.ravel()) == 3).all()


def test_peers_who_score_a_model_stand_in_for_its_owner():
    agents, X = made(7, own_predictions="peers")
    sparse = Collective(agents, degree=7).consult(X)
    dense = Collective(agents).consult(X)
    np.testing.assert_allclose(sparse.value, dense.value, rtol=1e-9)
    few = Collective(agents, degree=4).consult(X)
    scored = Collective(made(7)[0], degree=4).consult(X)  # the same agents, which score their own models
    for i, peers in enumerate(few.peers):
        others = peers != i
        ratio = few.trust[:, i, others] / scored.trust[:, i, others]
        np.testing.assert_allclose(ratio, ratio[:, :1].repeat(3, axis=1))  # only the own model's share is another


def test_a_replaced_agent_is_scored_by_those_who_scored_it_before():
    agents, X = made(8)
    other = made(8, seed=1)[0][3]
    replaced = Collective(agents, degree=4).replace(other)
    anew = Collective([*agents[:3], other, *agents[4:]], degree=4)
    np.testing.assert_array_equal(replaced.consult(X).value, anew.consult(X).value)
    np.testing.assert_array_equal(replaced.leave("a5").predict(X), Collective(replaced.agents, degree=4).predict(X))
    joined = replaced.join(agents[5])
    np.testing.assert_array_equal(joined.predict(X), Collective(joined.agents, degree=4).predict(X))


def test_an_average_needs_no_scores_at_any_degree():
    agents, X = made(6)
    few, all_ = Collective(agents, rule="average", degree=3), Collective(agents, rule="average")
    np.testing.assert_array_equal(few.predict(X), all_.predict(X))
    for field in FIELDS:
        np.testing.assert_array_equal(getattr(few.consult(X), field), getattr(all_.consult(X), field))


def test_many_agents_at_a_small_degree():
    agents, X = made(300, rows=12)
    collective = Collective(agents, degree=8)
    answer = collective.consult(X, ("value", "weights", "trust"))
    assert answer.trust.shape == (7, 300, 8)
    trust = whole(answer, 300)
    np.testing.assert_allclose(np.einsum("mk,mkl->ml", answer.weights, trust), answer.weights, atol=1e-12)
    np.testing.assert_allclose(answer.weights[0], _stationary(trust[0]), atol=1e-9)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"degree": 2}, ["degree", "2"]),
        ({"degree": 6}, ["degree", "6"]),
        ({"degree": 2.5}, ["`degree` must be a whole number", "2.5"]),
        ({"degree": True}, ["`degree` must be a whole number", "True"]),
        ({"degree": 3, "rule": "stacking"}, ["`degree`", "degroot, average", "'stacking'"]),
        ({"degree": 3, "rule": "auto"}, ["`degree`", "'auto'"]),
        ({"degree": 3, "guard": True}, ["`guard`", "`degree`"]),
        ({"engine": "spark"}, ["`engine` must be one of 'local', 'ray'", "'spark'"]),
        ({"engine": 3}, ["`engine`", "3"]),
    ],
)
def test_what_does_not_go_with_a_degree_is_refused(settings, words):
    with pytest.raises(InvalidInput) as raised:
        Collective(made(5)[0], **settings)
    for word in words:
        assert word in str(raised.value)


@pytest.mark.parametrize("what", ["calibrate", "audit"])
def test_what_needs_all_scores_says_so(what):
    agents, X = made(5)
    collective = Collective(agents, degree=3)
    with pytest.raises(InvalidInput, match=rf"{what}\(\) must know every agent's score"):
        getattr(collective, what)(*([] if what == "calibrate" else [X]))


def test_when_fewer_agents_are_left_than_the_degree_everybody_scores_everybody():
    agents, X = made(5)
    few = Collective(agents, degree=4).leave("a0").leave("a1")
    np.testing.assert_allclose(few.predict(X), Collective(agents[2:]).predict(X), rtol=1e-9)
    assert "degree=4" in repr(few)
    assert "and 292 more" in repr(Collective(made(300, rows=3)[0], rule="average"))
