"""Several outputs, and classes."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from support import oracle
from support.checks import parametrize_with_applicable_checks

from degroot import Agent, AgentError, Collective, DeGrootClassifier, DeGrootRegressor, InvalidInput
from degroot.baselines import average, best_single, cv_adaptive, cv_static
from degroot.exceptions import HardLabelsWarning
from degroot.rules.rules import RULES

CLASSES = np.array(["cat", "cow", "dog"])


def problem(seed=0, K=3, n=50, Q=3):
    source = np.random.default_rng(seed)
    agents = []
    for k in range(K):
        X = source.normal(size=(n, 2)) + k
        Y = np.column_stack([np.sin(X[:, 0] + q) + 0.2 * source.normal(size=n) for q in range(Q)])
        agents.append(Agent(Ridge().fit(X, Y), X, Y, f"agent {k}"))
    return agents, source.normal(size=(7, 2)) + 1


def classified(seed=0, K=3, n=60):
    source = np.random.default_rng(seed)
    agents = []
    for k in range(K):
        X = source.normal(size=(n, 2)) + k / 2
        y = CLASSES[np.clip((X[:, 0] + 0.5 * source.normal(size=n)).astype(int) + 1, 0, 2)]
        agents.append(Agent(LogisticRegression().fit(X, y), X, y, f"agent {k}", classes=CLASSES))
    return agents, source.normal(size=(9, 2)) + 1


# -- several outputs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [*RULES, "auto"])
def test_outputs_are_pooled_with_shared_weights(rule):
    agents, X = problem()
    answer = Collective(agents, rule=rule).consult(X)
    M, K, Q = len(X), 3, 3
    assert answer.value.shape == answer.standard_error.shape == (M, Q)
    assert answer.beliefs.shape == answer.influence.shape == (M, K, Q)
    assert answer.weights.shape == (M, K)
    for q in range(Q):
        alone = [
            Agent(lambda rows, a=agent, q=q: a.predict(rows)[:, q], agent.X, agent.y[:, q], agent.name)
            for agent in agents
        ]
        beliefs = Collective(alone).consult(X, fields="beliefs").beliefs
        assert_array_equal(answer.beliefs[..., q], beliefs)
        assert_allclose(answer.value[:, q], (answer.weights * beliefs).sum(axis=1), rtol=1e-12)


def test_trust_comes_from_errors_summed_over_outputs():
    agents, X = problem(1)
    trust = np.empty((len(X), 3, 3))
    for m, x in enumerate(X):
        for i, agent in enumerate(agents):
            near = np.argsort(((agent.X - x) ** 2).sum(axis=1), kind="stable")[:5]
            errors = [((other.predict(agent.X[near]) - agent.y[near]) ** 2).sum(axis=1).mean() for other in agents]
            trust[m, i] = oracle.trust_row(errors)
    answer = Collective(agents, 5).consult(X)
    assert_allclose(answer.trust, trust, rtol=1e-9)
    for m in range(len(X)):
        assert_allclose(answer.weights[m], oracle.stationary(trust[m]), rtol=1e-9)
        for q in range(3):
            without = oracle.values_without(trust[m], answer.beliefs[m, :, q])
            assert_allclose(answer.influence[m, :, q], answer.value[m, q] - without, atol=1e-9)


@pytest.mark.parametrize("rule", [*RULES, "auto"])
def test_the_same_output_twice_is_that_output(rule):
    agents, X = problem(2, Q=1)
    twice = [
        Agent(
            lambda rows, a=agent: np.column_stack([a.predict(rows)] * 2),
            agent.X,
            np.column_stack([agent.y] * 2),
            agent.name,
        )
        for agent in agents
    ]
    once, both = (Collective(each, rule=rule).consult(X) for each in (agents, twice))
    assert once.value.shape == (len(X),)
    for q in range(2):
        assert_allclose(both.value[:, q], once.value, rtol=1e-9)
        assert_allclose(both.standard_error[:, q], once.standard_error, rtol=1e-6, atol=1e-12)


def test_baselines_take_several_outputs():
    agents, X = problem(3)
    held = agents[0].X, agents[0].y
    for whole in (average(agents), cv_static(agents, *held), cv_adaptive(agents, *held, 5), best_single(agents, *held)):
        answer = whole.consult(X)
        assert_allclose(answer.value, (answer.weights[..., None] * answer.beliefs).sum(axis=1))
        assert whole.predict(X).shape == (len(X), 3)


@pytest.mark.parametrize("self_scoring", ["cross", "train", "peers"])
def test_the_regressor_takes_several_outputs(self_scoring):
    agents, X = problem(4)
    rows, labels = np.vstack([agent.X for agent in agents]), np.vstack([agent.y for agent in agents])
    model = DeGrootRegressor(Ridge(), n_agents=3, random_state=0, self_scoring=self_scoring, partition="label")
    value, error = model.fit(rows, labels).predict(X, return_std=True)
    assert value.shape == error.shape == (len(X), 3)
    frame = pd.DataFrame(rows, columns=["a", "b"])
    assert_allclose(model.fit(frame, pd.DataFrame(labels)).predict(frame), model.fit(rows, labels).predict(rows))
    assert model.fit(rows, labels[:, :1]).predict(X).shape == (len(X),)
    assert model.score(rows, labels[:, 0]) > 0


def test_agents_predict_the_same_thing():
    agents, _ = problem(5)
    one = problem(5, Q=1)[0][0]
    with pytest.raises(AgentError, match="Agent 'one': its outputs must be 3 as those of 'agent 0' are; got 1"):
        Collective([*agents, Agent(one.model, one.X, one.y, "one")])
    wrong = Agent(lambda X: X[:, 0], agents[0].X, agents[0].y, "wrong")
    with pytest.raises(
        AgentError, match=r"Agent 'wrong': `predict\(X\)` must hold 3 numbers for each of 50 rows; its shape is \(50,\)"
    ):
        Collective([*agents, wrong])
    vets, _ = classified()
    with pytest.raises(
        AgentError, match="it must have the classes of 'agent 0', in the same order, none; it has 'cat', 'cow', 'dog'"
    ):
        Collective([agents[0], vets[1]])


# -- classes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [*RULES, "auto"])
def test_classes_are_one_hot_outputs(rule):
    agents, X = classified()
    as_outputs = [Agent(agent.model.predict_proba, agent.X, agent.y, agent.name) for agent in agents]
    answer, expected = (Collective(each, rule=rule).consult(X) for each in (agents, as_outputs))
    assert_allclose(answer.value, expected.value, rtol=1e-12)
    assert_allclose(answer.weights, expected.weights, rtol=1e-12)
    assert_allclose(answer.value.sum(axis=1), 1, rtol=1e-12)
    assert (answer.value >= 0).all()


def test_trust_comes_from_the_brier_score():
    agents, _ = classified(1)
    scorer = Collective(agents).scorers[1]
    expected = [((other.model.predict_proba(agents[1].X) - (agents[1].y == 1)) ** 2).sum(axis=1) for other in agents]
    assert_allclose(scorer.errors, np.column_stack(expected), rtol=1e-9)


def test_agents_need_not_have_seen_every_class():
    source = np.random.default_rng(0)
    X = source.normal(size=(90, 2))
    y = CLASSES[np.digitize(X[:, 0], [-0.5, 0.5])]
    seen = [y != "cat", y != "dog", y == "cow"]
    agents = [
        Agent(DecisionTreeClassifier(max_depth=3).fit(X[rows], y[rows]), X[rows], y[rows], f"{k}", classes=CLASSES)
        for k, rows in enumerate(seen)
    ]
    assert_array_equal(agents[0].predict(X)[:, 0], 0)
    assert_array_equal(agents[2].predict(X), np.tile([0.0, 1.0, 0.0], (90, 1)))
    answer = Collective(agents, rule="stacking").consult(X)
    assert_allclose(answer.value.sum(axis=1), 1)
    assert (CLASSES[answer.value.argmax(axis=1)] == y).mean() > 0.8


def test_models_may_give_labels_only():
    X, y = load_iris(return_X_y=True)
    names = CLASSES[y]
    svm = LinearSVC(random_state=0, max_iter=10_000)
    with pytest.warns(HardLabelsWarning) as warned:
        model = DeGrootClassifier(svm, n_agents=3, random_state=0).fit(X, names)
    told = "its model, a LinearSVC, gives labels without probabilities, which are averaged as 1 and 0; give it"
    assert {str(each.message).partition(" predict_proba")[0] for each in warned} == {
        f"Agent 'agent {k}': {told}" for k in (1, 2, 3)
    }
    assert len(warned) == 3  # and not again below
    assert set(np.unique(model.agents_[0].predict(X))) <= {0.0, 1.0}
    assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    assert (model.predict(X) == names).mean() > 0.9
    assert_array_equal(model.classes_, np.unique(names))


def test_an_agent_warns_once_of_labels_that_are_averaged_and_not_of_probabilities():
    X, y = np.zeros((3, 1)), ["cat", "dog", "dog"]
    about = {"X": X, "y": y, "classes": ["cat", "dog"]}
    certain = Agent(lambda X: np.tile([1.0, 0.0], (len(X), 1)), name="certain", **about)
    hard = Agent(lambda X: ["cat"] * len(X), name="hard", **about)
    expected = certain.predict(X)
    with pytest.warns(HardLabelsWarning, match="^Agent 'hard': its model, a function, gives labels") as warned:
        found = [hard.predict(X) for _ in range(2)]
    assert_array_equal(found, [expected] * 2)
    assert len(warned) == 1
    assert warned[0].filename == __file__
    copied = pickle.loads(pickle.dumps(warned[0].message))
    assert (str(copied), copied.agent) == (str(warned[0].message), "hard")


@pytest.mark.parametrize("rule", ["degroot", "stacking", "auto"])
@pytest.mark.parametrize("self_scoring", ["cross", "train", "peers"])
def test_the_classifier_learns(rule, self_scoring):
    X, y = load_iris(return_X_y=True)
    model = DeGrootClassifier(n_agents=3, random_state=0, rule=rule, self_scoring=self_scoring).fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.9
    again = DeGrootClassifier.from_agents(model.agents_, rule=rule)
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert_array_equal(again.classes_, model.classes_)


def test_agents_by_label_see_one_class_each():
    X, y = load_iris(return_X_y=True)
    model = DeGrootClassifier(n_agents=3, partition="label", rule="stacking").fit(X, y)
    assert model.score(X, y) > 0.9


@parametrize_with_applicable_checks([DeGrootClassifier()])
def test_it_is_a_classifier_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_applicable_checks(
    [DeGrootClassifier(DecisionTreeClassifier(random_state=0), rule="stacking", n_agents=2)]
)
def test_it_is_one_with_other_settings_too(estimator, check):
    check(estimator)


@parametrize_with_applicable_checks([DeGrootRegressor(rule="stacking")])
def test_the_regressor_is_one_with_stacking(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_applicable_checks([DeGrootRegressor(rule="auto", n_agents=2, self_scoring="peers")])
def test_the_regressor_is_one_with_every_rule(estimator, check):
    check(estimator)


def test_bad_classes_are_refused():
    X = np.zeros((2, 1))
    with pytest.raises(AgentError, match="'vet': `y` must hold labels among 'cat', 'dog'; got 'cow'"):
        Agent(lambda X: X, X, ["cat", "cow"], "vet", classes=["cat", "dog"])
    with pytest.raises(AgentError, match="`classes` must be distinct labels"):
        Agent(lambda X: X, X, ["cat", "cat"], "vet", classes=["cat", "cat"])
    with pytest.raises(AgentError, match=r"`y` must hold one label for each of 2 rows; its shape is \(3,\)"):
        Agent(lambda X: X, X, ["cat"] * 3, "vet", classes=["cat", "dog"])
    for answer, message in [
        (np.full((2, 2), 0.7), r"`predict\(X\)` must hold probabilities that are not negative and sum to 1; row 0 is"),
        (
            np.array([[1.0, 0.0], [np.nan, 1.0]]),
            r"`predict\(X\)` must hold probabilities that are not negative and sum to 1; row 1 is",
        ),
        (
            np.array([[2.0, -1.0], [0.0, 1.0]]),
            r"`predict\(X\)` must hold probabilities that are not negative and sum to 1; row 0 is",
        ),
        (["cat", "cow"], r"`predict\(X\)` must hold labels among 'cat', 'dog'; got 'cow'"),
        (["cat"], r"`predict\(X\)` must hold one label for each of 2 rows"),
    ]:
        vet = Agent(lambda X, answer=answer: answer, X, ["cat", "dog"], "vet", classes=["cat", "dog"])
        with pytest.raises(AgentError, match=f"Agent 'vet': {message}"):
            vet.predict(X)
    with pytest.raises(AgentError, match="it must have `classes` to be part of a classifier; it has none"):
        DeGrootClassifier.from_agents([Agent(lambda X: X[:, 0], X, [0, 1], "plain")])
    with pytest.raises(InvalidInput):
        DeGrootClassifier(self_scoring="none").fit(np.arange(20.0).reshape(10, 2), [0, 1] * 5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"classes": ["a", None]}, "`classes` must hold labels that can be put in order"),
        ({"classes": [["a"], ["b", "c"]]}, "`classes` must be distinct labels"),
        ({"y": ["a", None]}, "`y` must hold labels that can be put in order"),
        ({"y": [["a"], ["a", "b"]]}, "`y` must hold labels"),
        ({"own_predictions": ["a", "b"]}, "`own_predictions` must hold 2 probabilities for each of 2 rows"),
        ({"own_predictions": [["a", "b"], ["a", "b"]]}, "`own_predictions` must hold numbers"),
        ({"own_predictions": [[1.0], [0.5, 0.5]]}, "`own_predictions` must hold probabilities"),
        ({"own_predictions": [[1.0, 0.0], [np.nan, 0.5]]}, "`own_predictions` must hold probabilities that"),
    ],
)
def test_labels_that_are_none_are_refused(settings, message):
    y = settings.pop("y", ["a", "b"])
    with pytest.raises(AgentError, match=f"Agent 'vet': {message}"):
        Agent(lambda X: X, np.zeros((2, 1)), y, "vet", **{"classes": ["a", "b"], **settings})


@pytest.mark.parametrize("answer", [[["a"], ["a", "b"]], [["x", "y"], ["x", "y"]], [[1.0, 0.0, 0.0]] * 2, "a"])
def test_answers_that_are_no_probabilities_are_refused(answer):
    class Model:
        classes_ = np.array(["a", "b"])

        def predict(self, X):
            return answer

        def predict_proba(self, X):
            return answer

    vet = Agent(Model(), np.zeros((2, 1)), ["a", "b"], "vet", classes=["a", "b"])
    with pytest.raises(AgentError, match="Agent 'vet': "):
        vet.predict(np.zeros((2, 1)))
