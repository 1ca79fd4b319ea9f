"""Corrections learned on the asker's own rows: folds left out one by one, held to what was seen, with an asker only."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression, Ridge
from support import asker_oracle as oracle

from degroot import Agent, Collective
from degroot.asker import assign_folds, clustered_standard_error
from degroot.consultation import correction, kernel_ridge
from degroot.consultation.correction import LEAST_ROWS, learn_correction


def problem(seed=0, n=80, Q=1, noise=0.1):
    """Rows, predictions and residuals that follow the rows."""
    source = np.random.default_rng(seed)
    rows, said = source.normal(size=(n, 2)), source.normal(size=(n, Q))
    residuals = np.sin(2 * rows[:, :1]) * np.arange(1, Q + 1) + noise * source.normal(size=(n, Q))
    return rows, said, residuals


def learn(rows, said, residuals, units=None):
    units = np.arange(len(residuals)) if units is None else units
    return learn_correction(rows, said, residuals, units, assign_folds(units))


@pytest.fixture
def one_setting(monkeypatch):
    """One bandwidth and one penalty: nothing is chosen."""
    monkeypatch.setattr(correction, "BANDWIDTHS", (0.3,))
    monkeypatch.setattr(kernel_ridge, "PENALTIES", np.array([0.1]))


def features_of(regression, table):
    """Nyström features of points."""
    return regression.kernel.at(table) @ kernel_ridge.nystroem_basis(regression.kernel)


# -- learning ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("units", [None, np.arange(80) // 3])
@pytest.mark.parametrize("Q", [1, 3])
def test_left_out_rows_are_corrected_by_what_was_learned_without_their_units(one_setting, Q, units):
    rows, said, residuals = problem(Q=Q)
    folds = assign_folds(np.arange(80) if units is None else units)
    made = learn(rows, said, residuals, units)
    kernel = features_of(made.regression, made.inputs.scale(rows, said))
    expected = oracle.features_left_out(kernel, residuals, folds, 0.1)
    for fold in np.unique(folds):
        others = residuals[folds != fold]
        at = folds == fold
        assert_allclose(made.left_out[at], np.clip(expected[at], others.min(axis=0), others.max(axis=0)), atol=1e-8)
    everything = np.linalg.solve(kernel.T @ kernel + 0.1 * np.eye(kernel.shape[1]), kernel.T @ residuals)
    found = made.at(rows, said)
    assert_allclose(found, np.clip(kernel @ everything, residuals.min(axis=0), residuals.max(axis=0)), atol=1e-8)


def test_labels_of_a_fold_do_not_change_what_is_left_out_of_it(one_setting):
    rows, said, residuals = problem(1)
    folds = assign_folds(np.arange(80))
    before = learn(rows, said, residuals).left_out
    for fold in (0, 4):
        at = folds == fold
        changed = residuals.copy()
        changed[at] += 3.0 * np.random.default_rng(fold).normal(size=(at.sum(), 1))  # beyond the range of the others
        after = learn(rows, said, changed).left_out
        assert_allclose(after[at], before[at], atol=1e-8)
        assert np.abs(after[~at] - before[~at]).max() > 1e-3


def test_what_is_added_is_held_to_the_range_of_the_residuals():
    rows, said, residuals = problem(2, Q=2)
    made = learn(rows, said, residuals)
    source = np.random.default_rng(3)
    for scale in (1.0, 5.0, 1e6):
        added = made.at(scale * source.normal(size=(200, 2)), scale * source.normal(size=(200, 2)))
        assert (added >= residuals.min(axis=0)).all()
        assert (added <= residuals.max(axis=0)).all()
        assert np.isfinite(added).all()
    assert made.at(np.empty((0, 2)), np.empty((0, 2))).shape == (0, 2)
    assert (np.abs(made.left_out) <= np.abs(residuals).max(axis=0)).all()


def test_what_can_be_learned_is():
    rows, said, residuals = problem(4, n=200)
    made = learn(rows, said, residuals)
    assert ((residuals - made.left_out) ** 2).mean() < 0.2 * (residuals**2).mean()
    fresh, others, expected = problem(5, n=400, noise=0.0)
    assert ((made.at(fresh, others) - expected) ** 2).mean() < 0.2 * (expected**2).mean()


def test_predictions_tell_of_their_errors_too():
    source = np.random.default_rng(6)
    rows, said = source.normal(size=(120, 2)), source.normal(size=(120, 1))
    made = learn(rows, said, np.tanh(2 * said) + 0.1 * source.normal(size=(120, 1)))
    assert (made.at(rows[:1], np.array([[1.0]])) > 0.5).all()
    assert (made.at(rows[:1], np.array([[-1.0]])) < -0.5).all()


def test_chance_is_not_learned():
    """No correction unless it is better by more than a standard error: of noise, one in six at most by chance."""
    learned, worse = 0, []
    for seed in range(20):
        source = np.random.default_rng(seed)
        residuals = source.normal(size=(60, 1))
        made = learn(source.normal(size=(60, 2)), source.normal(size=(60, 1)), residuals)
        learned += made.regression is not None
        added = made.at(source.normal(size=(100, 2)), source.normal(size=(100, 1)))
        worse.append((added**2).mean())  # by so much the error on fresh rows grows
        if made.regression is None:
            assert_array_equal(made.left_out, 0)
            assert_array_equal(added, 0)
    assert learned <= 7
    assert np.mean(worse) < 0.05


def test_a_correction_is_better_by_more_than_a_standard_error():
    for seed in range(5):
        rows, said, residuals = problem(seed, noise=1.5)
        made = learn(rows, said, residuals)
        gained = (residuals**2 - (residuals - made.left_out) ** 2).sum(axis=1)
        if made.regression is not None:
            assert gained.mean() > clustered_standard_error(gained, np.arange(80))


def test_of_penalties_that_do_alike_the_largest_is_taken():
    source = np.random.default_rng(7)
    for _ in range(20):
        losses = source.exponential(size=(40, 6)) + source.uniform(0, 0.5, 6)
        units = np.unique(source.integers(0, 15, 40), return_inverse=True)[1]
        best = int(np.argmin(losses.mean(axis=0)))
        alike = [
            k
            for k in range(6)
            if losses[:, k].mean()
            <= losses[:, best].mean() + oracle.standard_error(losses[:, k] - losses[:, best], units)
        ]
        assert correction._choose_penalty(losses, units) == max(alike)


# -- rows of any kind --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["constant", "one constant feature", "mostly the same", "few", "constant residuals"])
def test_degenerate_rows_give_a_correction_without_nan(kind):
    rows, said, residuals = problem(8)
    if kind == "constant":
        rows, said = np.ones_like(rows), np.ones_like(said)
    if kind == "one constant feature":
        rows[:, 1] = 7.0
    if kind == "mostly the same":
        rows[:70], said[:70] = 1.0, 2.0
    if kind == "few":
        rows, said, residuals = rows[:3], said[:3], residuals[:3]
    if kind == "constant residuals":
        residuals = np.ones_like(residuals)
    made = learn(rows, said, residuals)
    added = made.at(rows + 0.1, said)
    assert np.isfinite(added).all()
    assert np.isfinite(made.left_out).all()
    assert ((residuals - made.left_out) ** 2).mean() <= (residuals**2).mean()
    if kind in ("constant", "mostly the same"):
        assert_array_equal(added, 0)


def test_one_fold_leaves_nothing_to_learn_from():
    rows, said, residuals = problem(9)
    made = learn(rows, said, residuals, np.zeros(80, int))
    assert_array_equal(made.at(rows, said), 0)


def test_sparse_rows_are_learned_from_as_they_are():
    source = np.random.default_rng(10)
    dense = source.normal(size=(90, 20)) * (source.random((90, 20)) < 0.2)
    residuals = dense[:, :1] + 0.05 * source.normal(size=(90, 1))
    made = learn(csr_array(dense), source.normal(size=(90, 1)), residuals)
    assert ((residuals - made.left_out) ** 2).mean() < (residuals**2).mean()
    added = made.at(csr_array(dense[:5]), np.zeros((5, 1)))
    assert np.isfinite(added).all()
    assert np.abs(added).max() > 0.0


# -- of whole collectives ----------------------------------------------------------------------------------------------


def members(seed=11, n=80, K=3, Q=None):
    """Agents with linear models of a curve."""
    source, made = np.random.default_rng(seed), []
    for k in range(K):
        X = source.uniform(-2, 2, size=(n, 2))
        waves = np.sin(2 * X[:, 0]) + (0.5 + 0.2 * k) * X[:, 1] + 0.1 * source.normal(size=n)
        y = waves if Q is None else np.stack([waves * (q + 1) for q in range(Q)], axis=1)
        half = n // 2
        left_out = np.concatenate([Ridge().fit(X[half:], y[half:]).predict(X[:half]),
                                   Ridge().fit(X[:half], y[:half]).predict(X[half:])])  # fmt: skip
        made.append(Agent(Ridge().fit(X, y), X, y, f"agent {k}", own_predictions=left_out))
    return made


def fresh(M=6, seed=50):
    return np.random.default_rng(seed).uniform(-2, 2, size=(M, 2))


def test_without_enough_rows_nothing_is_corrected():
    assert LEAST_ROWS == 50
    for n, same in ((LEAST_ROWS - 1, True), (LEAST_ROWS, False)):
        collective = Collective(members(n=n))
        plain, corrected = (
            collective.consult(fresh(), "value", asker="agent 0", correct=each) for each in (False, True)
        )
        assert (plain.choice.candidates == corrected.choice.candidates) == same
        assert np.array_equal(plain.value, corrected.value) == same


def test_the_correction_is_an_option_of_the_collective_and_of_each_question():
    agents, X = members(), fresh()
    on, off = Collective(agents, correct=True), Collective(agents)
    assert_array_equal(on.predict(X, "agent 0"), off.predict(X, "agent 0", correct=True))
    assert_array_equal(on.predict(X, "agent 0", correct=False), off.predict(X, "agent 0"))
    assert_array_equal(on.predict(X), off.predict(X))  # nobody asks: nothing is corrected
    assert (on.predict(X, "agent 0") != off.predict(X, "agent 0")).all()


@pytest.mark.parametrize("Q", [None, 2])
def test_a_corrected_answer_is_the_mixture_of_candidates_and_corrections(Q):
    agents, X = members(Q=Q), fresh()
    collective = Collective(agents)
    view, plain = collective.view_of("agent 1"), collective.consult(X, asker="agent 1")
    answer = collective.consult(X, ["value", "weights", "correction", "beliefs"], asker="agent 1", correct=True)
    shares = view.corrected_shares
    assert answer.choice.candidates == (*plain.choice.candidates, "own, corrected", "mixture, corrected")
    assert_allclose(answer.choice.shares.sum(), 1)
    assert_allclose(answer.choice.shares, [*shares.final, shares.own, shares.whole])
    beliefs = np.stack([each.predict(X).reshape(len(X), -1) for each in agents], axis=1)
    weights, shifts = view.own_rows.weigh(view.candidates, X)
    each = np.einsum("cmk,mkq->cmq", weights, beliefs) - shifts
    own, mixed = beliefs[:, 1], np.einsum("c,cmq->mq", shares.mixed, each)
    value = np.einsum("c,cmq->mq", shares.final, each)
    value += shares.own * (own + shares.own_correction.at(X, own))
    value += shares.whole * (mixed + shares.whole_correction.at(X, mixed))
    assert_allclose(answer.value.reshape(value.shape), value, rtol=1e-9)
    assert_allclose(answer.weights.sum(axis=1), 1)
    assert_allclose(np.einsum("mk,mk...->m...", answer.weights, answer.beliefs) + answer.correction, answer.value)
    assert_allclose(answer.choice.errors[:-2], plain.choice.errors)
    assert answer.choice.errors[-2] == pytest.approx((view.control_left_out**2).sum(axis=1).mean())


def test_corrections_help_where_own_models_miss_a_curve():
    agents = members(n=150)
    X = fresh(500)
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
    collective = Collective(agents)
    own, plain, corrected = (
        ((said - y) ** 2).mean()
        for said in (agents[0].predict(X), *(collective.predict(X, "agent 0", correct=each) for each in (False, True)))
    )
    assert corrected < 0.5 * min(own, plain)
    view = collective.view_of("agent 0")
    assert (view.corrected_left_out**2).mean() < 0.6 * (view.left_out**2).mean()


def test_the_control_needs_no_peer():
    agents = members()
    alone, together = (Collective(each).view_of("agent 0") for each in (agents[:1], agents))
    assert_allclose(together.control_left_out, alone.control_left_out, atol=1e-12)
    assert_array_equal(together.own_errors[:, 0], agents[0].own_predictions - agents[0].y)
    answer = Collective(agents[:1]).consult(fresh(), "value", asker="agent 0", correct=True)
    assert answer.choice.candidates == ("own", "own, corrected", "mixture, corrected")
    few = Collective(members(n=9)).view_of("agent 0")
    assert few.control is None
    assert_array_equal(few.control_left_out, few.own_errors)


def test_units_are_left_out_of_corrections_together():
    """Copies of rows in a unit of their own: what was learned by heart is of no use to them."""
    source = np.random.default_rng(12)
    X, y = source.normal(size=(40, 2)), source.normal(size=40)
    rows, labels = np.repeat(X, 3, axis=0), np.repeat(y, 3)
    errors = []
    for units in (np.repeat(np.arange(40), 3), None):
        agents = [Agent(lambda X, k=k: 0 * X[:, 0] + k, rows, labels, f"{k}", units=units if k == 0 else None)
                  for k in range(2)]  # fmt: skip
        errors.append((Collective(agents).view_of("0").control_left_out ** 2).mean())
    assert errors[0] > 0.95 * (y**2).mean()
    assert errors[1] < 0.7 * (y**2).mean()


def test_classes_are_corrected_to_probabilities():
    source = np.random.default_rng(13)
    X = source.uniform(-2, 2, size=(400, 2))
    y = np.where(np.sin(3 * X[:, 0]) + 0.3 * source.normal(size=400) > 0, "up", "down")
    agents = [
        Agent(LogisticRegression().fit(X[k::3], y[k::3]), X[(k + 1) % 3 :: 3], y[(k + 1) % 3 :: 3], f"{k}",
              classes=["down", "up"]) for k in range(3)
    ]  # fmt: skip
    collective, points = Collective(agents), fresh(200)
    plain, corrected = (collective.predict(points, "0", correct=each) for each in (False, True))
    up = np.sin(3 * points[:, 0]) > 0
    assert_allclose(corrected.sum(axis=1), 1)
    assert ((corrected >= 0) & (corrected <= 1)).all()
    assert ((corrected[:, 1] - up) ** 2).mean() < 0.8 * ((plain[:, 1] - up) ** 2).mean()


def test_sparse_agents_can_be_corrected():
    source = np.random.default_rng(14)
    dense = source.normal(size=(120, 15)) * (source.random((120, 15)) < 0.06)
    X, y = csr_array(dense), dense[:, 0] ** 2 + dense[:, 1] + 0.1 * source.normal(size=120)
    agents = [Agent(Ridge(alpha).fit(X[:60], y[:60]), X[60:], y[60:], f"{alpha}") for alpha in (1.0, 10.0)]
    answer = Collective(agents, guard=True).consult(X[:9], asker="1.0", coverage=0.9, correct=True)
    for name in ("value", "standard_error", "influence", "weights", "lower", "upper"):
        assert np.isfinite(getattr(answer, name)).all(), name


@pytest.mark.parametrize("kind", [np.asarray, csr_array])
def test_kernel_features_have_the_products_of_scikit_learns(kind):
    """Features are the same up to a rotation, which a ridge penalty does not see."""
    source = np.random.default_rng(0)
    table, points = (kind(source.normal(size=(n, 4)) * (source.random((n, 4)) < 0.7)) for n in (90, 7))
    theirs = Nystroem(gamma=0.2, n_components=30, random_state=0).fit(table)
    kernel = kernel_ridge.RBFKernel.choose(table, 0.2, 30)
    ours = [kernel.at(each) @ kernel_ridge.nystroem_basis(kernel) for each in (table, points)]
    expected = [theirs.transform(each) for each in (table, points)]
    assert_allclose(ours[1] @ ours[0].T, expected[1] @ expected[0].T, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("n", [60, 400])
def test_a_regression_is_scikit_learns_ridge_on_nystroem_features_whatever_the_batch(n):
    source = np.random.default_rng(n)
    rows, predictions = source.normal(size=(n, 2)), source.normal(size=(n, 1))
    targets, points = np.column_stack([np.sin(rows[:, 0]), rows[:, 1]]), source.normal(size=(40, 3))
    inputs = kernel_ridge.Inputs(rows, predictions)
    (trial,) = kernel_ridge.try_bandwidths(inputs, targets, np.arange(n) % 5, (0.3,))
    for k, penalty in enumerate(kernel_ridge.PENALTIES):
        fitted = trial.fit(k)
        kernel = fitted.kernel
        features = Nystroem(gamma=kernel.gamma, n_components=len(kernel.landmarks), random_state=0).fit(inputs.table)
        ridge = Ridge(penalty, fit_intercept=False, solver="svd").fit(features.transform(inputs.table), targets)
        assert_allclose(fitted.predict(points), ridge.predict(features.transform(points)), rtol=1e-6, atol=1e-6)
        alone = np.concatenate([fitted.predict(points[[m]]) for m in range(len(points))])
        assert_allclose(alone, fitted.predict(points), rtol=1e-9, atol=1e-9)
