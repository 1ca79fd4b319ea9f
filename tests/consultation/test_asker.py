"""The asker's view of whole collectives: against the same by plain loops, and the laws that it promises."""

import itertools
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor
from support import asker_oracle as oracle
from support.refusals import complaint

from degroot import Agent, Collective, InvalidInput
from degroot.agents.agent import Scorer
from degroot.answers.choice import Mixture
from degroot.consultation.asker import AskerView, ViewQuestion
from degroot.exceptions import AgentError
from degroot.intervals import half_width, rows_needed, score
from degroot.neighbourhoods import METRICS
from degroot.rules.rules import RULES, RuleSettings

STACKING = RuleSettings("stacking", RULES["stacking"].reach)
RULE_NAMES = [*RULES, "auto"]
FIELDS = ("value", "standard_error", "weights", "beliefs", "influence", "correction")


class Linear:
    """A linear model, of one output or several."""

    def __init__(self, coefficients, constant):
        self.coefficients, self.constant = coefficients, constant

    def predict(self, X):
        return np.asarray(X, float) @ self.coefficients + self.constant


def truth(X, Q):
    waves = np.stack([np.sin((q + 1) * X[:, 0]) + X[:, 1] for q in range(Q or 1)], axis=1)
    return waves if Q else waves[:, 0]


def members(seed=0, K=3, n=60, Q=None, own=True, units=None, names=None):
    """Agents with linear models and rows around different centres."""
    source, made = np.random.default_rng(seed), []
    shape = (2,) if Q is None else (2, Q)
    for k in range(K):
        X = source.normal(size=(n, 2)) + 0.3 * k
        y = truth(X, Q) + 0.2 * source.normal(size=(n, Q) if Q else n)
        model = Linear(np.ones(shape) + 0.3 * source.normal(size=shape), 0.3 * source.normal())
        given = model.predict(X) + 0.1 * source.normal(size=y.shape) if own else None
        mine = None if units is None else [f"{k}-{each}" for each in units]
        made.append(Agent(model, X, y, names[k] if names else f"agent {k}", own_predictions=given, units=mine))
    return made


def points(M=5, seed=100):
    return np.random.default_rng(seed).normal(size=(M, 2))


def told(agents, place):
    """An asker's labels (n, Q) and everybody's predictions of its rows (n, Q, K), its own by its honest ones."""
    agent = agents[place]
    n = agent.n_rows
    said = [each.predict(agent.X).reshape(n, -1) for each in agents]
    if agent.own_predictions is not None:
        said[place] = agent.own_predictions.reshape(n, -1)
    return agent.y.reshape(n, -1), np.stack(said, axis=-1)


def literal(agents, place, **settings):
    agent = agents[place]
    labels, said = told(agents, place)
    return oracle.View(agent.X, labels, said, place, agent.unit_codes, agent.classes is not None, **settings)


def said_at(agents, X):
    return np.stack([each.predict(X).reshape(len(X), -1) for each in agents], axis=1)


# -- against plain loops -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", list(RULES))
@pytest.mark.parametrize(("Q", "n", "units"), [(None, 60, None), (2, 34, None), (None, 30, np.arange(30) // 4)])
def test_the_answer_is_the_mixture_of_the_formulas(rule, Q, n, units):
    agents = members(n=n, Q=Q, units=units)
    X, view = points(), literal(agents, 1, rule=rule)
    answer, mixed = Collective(agents, rule=rule).consult(X, asker="agent 1"), Collective(agents, rule=rule)
    choice = answer.choice
    assert isinstance(choice, Mixture)
    assert choice.asker == "agent 1"
    assert choice.rows == n
    assert choice.folds == len(np.unique(view.folds))
    assert set(choice.candidates) == set(view.shares)
    assert_allclose(choice.shares, [view.shares[name] for name in choice.candidates], atol=1e-7)
    assert_allclose(choice.errors, [view.losses[name].mean() for name in choice.candidates])
    mine = mixed.view_of("agent 1")
    for c, name in enumerate(choice.candidates):
        assert_allclose(mine.errors[:, c], view.errors[name], atol=1e-9, err_msg=name)
    assert_allclose(mine.left_out, view.left_out(), atol=1e-7)
    for m, said in enumerate(said_at(agents, X)):
        value, weights = view.answer(X[m], said)
        assert_allclose(answer.value[m], value if Q else value[0], atol=1e-8)
        assert_allclose(answer.weights[m], weights, atol=1e-7)


@pytest.mark.parametrize(("rule", "Q", "asker"), [("degroot", None, 0), ("stacking", 2, 2), ("average", None, 1)])
def test_influence_and_standard_error_are_those_of_a_refit_without_each_model(rule, Q, asker):
    agents, X = members(3, n=24, Q=Q), points(3)
    answer = Collective(agents, rule=rule).consult(X, asker=f"agent {asker}")
    view, said = literal(agents, asker, rule=rule), said_at(agents, X)
    fewer = [view.without(j) for j in range(3)]
    for m in range(len(X)):
        value = view.answer(X[m], said[m])[0]
        without = np.array([fewer[j].answer(X[m], np.delete(said[m], j, axis=0))[0] for j in range(3)])
        error = np.sqrt(2 / 3 * ((without - without.mean(axis=0)) ** 2).sum(axis=0))
        assert_allclose(answer.influence[m].reshape(3, -1), value - without, atol=1e-7)
        assert_allclose(np.atleast_1d(answer.standard_error[m]), error, atol=1e-7)


@pytest.mark.parametrize(("rule", "correct"), [*((rule, False) for rule in RULE_NAMES), ("degroot", True)])
def test_influence_is_that_of_a_collective_without_the_agent(rule, correct):
    agents, X = members(4), points()
    answer = Collective(agents, rule=rule, correct=correct).consult(X, asker="agent 1")
    for j in (0, 2):
        fewer = Collective([each for k, each in enumerate(agents) if k != j], rule=rule)
        assert_allclose(answer.value - answer.influence[:, j], fewer.predict(X, "agent 1", correct=correct), rtol=1e-7)


def classifiers(K=3, n=45, Q=3, seed=5):
    source, made = np.random.default_rng(seed), []
    names = ["a", "b", "c", "d"][:Q]
    for k in range(K):
        X = source.normal(size=(2 * n, 2))
        y = np.array(names)[
            np.digitize(X[:, 0] + 0.5 * X[:, 1] * (k - 1) + source.normal(size=2 * n), np.arange(Q - 1))
        ]
        made.append(Agent(LogisticRegression().fit(X[n:], y[n:]), X[:n], y[:n], f"agent {k}", classes=names))
    return made


@pytest.mark.parametrize(("rule", "n"), [("degroot", 60), ("stacking", 26)])
def test_classes_are_mixed_by_their_brier_score(rule, n):
    agents, X = classifiers(n=n), points(8)
    answer, view = Collective(agents, rule=rule).consult(X, asker="agent 2"), literal(agents, 2, rule=rule)
    assert_allclose(answer.choice.shares, [view.shares[name] for name in answer.choice.candidates], atol=1e-7)
    assert_allclose(answer.choice.errors[0], ((agents[2].predict(agents[2].X) - agents[2].y) ** 2).sum(axis=1).mean())
    for m, said in enumerate(said_at(agents, X)):
        assert_allclose(answer.value[m], view.answer(X[m], said)[0], atol=1e-8)
    assert_allclose(answer.value.sum(axis=1), 1)
    assert ((answer.value >= 0) & (answer.value <= 1)).all()


@pytest.mark.parametrize("settings", [{}, {"guard": True}, {"guard": True, "correct": True}])
@pytest.mark.parametrize("Q", [2, 4])
def test_probabilities_stay_probabilities(settings, Q):
    agents, X = classifiers(n=60, Q=Q), 3 * points(30)
    answer = Collective(agents, **settings).consult(X, asker="agent 0")
    assert_allclose(answer.value.sum(axis=1), 1)
    assert ((answer.value >= 0) & (answer.value <= 1 + 1e-12)).all()
    assert_allclose(answer.weights.sum(axis=1), 1)
    without = answer.value[:, None] - answer.influence
    assert_allclose(without.sum(axis=2), 1)


# -- laws --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULE_NAMES)
@pytest.mark.parametrize("settings", [{}, {"guard": True}])
def test_one_agent_answers_by_its_own_model(rule, settings):
    (agent,) = members(K=1)
    answer = Collective([agent], rule=rule, **settings).consult(points(), asker="agent 0")
    assert answer.choice.candidates == ("own",)
    assert_array_equal(answer.choice.shares, [1.0])
    assert_array_equal(answer.value, agent.predict(points()))
    assert_array_equal(answer.weights, 1)
    assert_array_equal(answer.correction, 0)
    assert np.isnan(answer.influence).all()
    assert np.isnan(answer.standard_error).all()


@pytest.mark.parametrize(
    ("rule", "settings"),
    [*((rule, {}) for rule in RULE_NAMES), ("degroot", {"guard": True}), ("stacking", {"correct": True})],
)
@pytest.mark.parametrize("Q", [None, 2])
def test_the_value_is_the_weighted_mean_and_the_correction(rule, settings, Q):
    agents, X = members(6, K=4, Q=Q), 2 * points(12)
    fields = ["value", "weights", "beliefs", "correction"]
    answer = Collective(agents, rule=rule, **settings).consult(X, fields, asker="agent 3")
    assert answer.asker == "agent 3"
    assert answer.trust is None
    assert_allclose(answer.weights.sum(axis=1), 1)
    assert (answer.weights >= 0).all()
    assert_array_equal(answer.beliefs.reshape(12, 4, -1), said_at(agents, X))
    mean = np.einsum("mk,mk...->m...", answer.weights, answer.beliefs)
    assert_allclose(mean + answer.correction, answer.value, rtol=1e-12)
    assert_allclose(answer.choice.shares.sum(), 1)


RULES_AND_SETTINGS = [*((rule, {}) for rule in RULE_NAMES), ("degroot", {"guard": True, "correct": True})]


@pytest.mark.parametrize(("rule", "settings"), RULES_AND_SETTINGS)
def test_relabelling_changes_nothing(rule, settings):
    agents, X = members(7, K=4, n=55), points(8)
    expected = Collective(agents, rule=rule, **settings).consult(X, asker="agent 2", coverage=0.9)
    for seed in range(2):
        order = np.random.default_rng(seed).permutation(4)
        renamed = [
            Agent(agents[k].model, agents[k].X, agents[k].y, f"{seed}{k}", own_predictions=agents[k].own_predictions)
            for k in order
        ]
        found = Collective(renamed, rule=rule, **settings).consult(X, asker=f"{seed}2", coverage=0.9)
        for name in ("value", "standard_error", "correction", "lower", "upper"):
            assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-9, err_msg=name)
        for name in ("weights", "beliefs", "influence"):
            assert_allclose(getattr(found, name), getattr(expected, name)[:, order], atol=1e-9, err_msg=name)
        assert_allclose(found.choice.shares, expected.choice.shares, atol=1e-9)


def said_otherwise(agent, seed):
    """The same model, of an agent with other rows, labels, units and another space."""
    source = np.random.default_rng(seed)
    n = int(source.integers(9, 90))
    X = 10.0 ** source.uniform(-3, 3) * source.normal(size=(n, 2))
    y = source.normal(size=n) if seed % 2 else agent.model.predict(X)  # all wrong, or all right
    units = [f"{agent.name} {each}" for each in source.integers(0, 5, n)]
    return Agent(agent.model, X, y, agent.name, space=StandardScaler(), units=units)


@pytest.mark.parametrize(("rule", "settings"), RULES_AND_SETTINGS)
def test_nothing_that_others_say_of_errors_or_distances_changes_the_answer(rule, settings):
    agents, X = members(8), points(8)
    expected = Collective(agents, rule=rule, **settings).consult(X, asker="agent 1", coverage=0.9)
    for seed in range(2):
        others = [each if k == 1 else said_otherwise(each, seed + 10 * k) for k, each in enumerate(agents)]
        found = Collective(others, rule=rule, **settings).consult(X, asker="agent 1", coverage=0.9)
        for name in (*FIELDS, "lower", "upper"):
            assert_array_equal(getattr(found, name), getattr(expected, name), name)
        assert_array_equal(found.choice.shares, expected.choice.shares)
        assert found.flags == expected.flags == ()


def wavy(X, k):
    """Right but for waves: no other model is of use to it that does not know the truth."""
    return truth(X, None) + 0.4 * np.sin(3 * X[:, 1] + k)


def noise(X, k):
    return np.sqrt(2) * np.sin(1e5 * (X[:, 0] + (k + 2) * X[:, 1]))  # of variance 1, row by row


def loss_by_noise(seed, K):
    """How much larger the error on fresh rows becomes by K agents whose models are noise."""
    source, agents = np.random.default_rng(seed), []
    for k in range(2 + K):
        X = source.normal(size=(80, 2))
        model = partial(wavy, k=k) if k < 2 else partial(noise, k=k)
        agents.append(Agent(model, X, truth(X, None) + 0.2 * source.normal(size=80), f"agent {k}"))
    X = source.normal(size=(2000, 2))
    before, after = (Collective(each).predict(X, "agent 1") - truth(X, None) for each in (agents[:2], agents))
    return (after**2).mean() / (before**2).mean() - 1


def test_useless_agents_change_nothing_beyond_noise():
    found = np.array([loss_by_noise(seed, K) for seed in range(12) for K in (1, 3)])
    assert found.mean() < 0.03
    assert found.max() < 0.15
    assert found.min() > -0.3  # it is no help either, but by the larger ridge of more models


@pytest.mark.parametrize("rule", RULE_NAMES)
def test_a_copy_of_the_own_model_is_scored_as_the_own_model(rule):
    """As if the copy, too, had not seen the rows; what it says of them is no evidence."""
    source = np.random.default_rng(9)
    X = source.uniform(-2, 2, size=(60, 2))
    y = truth(X, None) + 0.3 * source.normal(size=60)
    tree = DecisionTreeRegressor(random_state=0).fit(X, y)  # knows its rows by heart
    left_out = cross_val_predict(DecisionTreeRegressor(random_state=0), X, y, cv=10)
    asker = Agent(tree, X, y, "asker", own_predictions=left_out)
    other = Agent(Linear(np.array([0.5, 1.0]), 0.0), X + 0.1, y, "other")
    twin, fresh = Agent(tree, X + 0.2, y, "twin"), points(20)
    found = Collective([asker, other, twin], rule=rule).consult(fresh, asker="asker")
    own = ((left_out - y) ** 2).mean()
    assert found.choice.errors.min() > 0.3 * own  # and not 0, as the copy's error on the rows it was trained on
    alone = Collective([asker, other], rule=rule).consult(fresh, asker="asker")
    assert_allclose(found.value, alone.value, rtol=1e-12)  # it is the own model by another name
    assert_array_equal(found.weights[:, 2], 0.0)


def test_two_copies_without_left_out_predictions_are_one_model():
    """Nothing is known of their errors but what they make on the rows, and they make the same."""
    agents = members(10, own=False)
    twin = Agent(agents[0].model, agents[1].X, agents[1].y, "twin")
    answer = Collective([*agents, twin]).consult(points(), asker="agent 0")
    assert_allclose(answer.value, Collective(agents).predict(points(), asker="agent 0"), rtol=1e-12)
    assert_array_equal(answer.weights[:, 3], 0.0)


def test_equal_models_are_as_good_as_each_other():
    """Their losses differ by rounding alone: it must not decide between candidates."""
    X, y = members(11)[0].X, members(11)[0].y
    answers = []
    for K in (2, 3, 7):
        agents = [Agent(Linear(np.ones(2), 0.2), X, y, f"{k}") for k in range(K)]
        answers.append(Collective(agents).consult(points(), asker="0"))
        assert answers[-1].choice.candidates == ("own",)
        assert_array_equal(answers[-1].value, agents[0].predict(points()))


@pytest.mark.parametrize(("factor", "constant"), [(1000.0, 0.0), (0.001, 0.0), (-1.0, 0.0), (10.0, 300.0)])
@pytest.mark.parametrize(("rule", "settings"), [("degroot", {}), ("stacking", {"guard": True, "correct": True})])
def test_answers_follow_the_units_of_the_labels(rule, factor, constant, settings):
    agents, X = members(11), points(10)
    others = [
        Agent(
            lambda X, each=each: factor * each.predict(X) + constant, each.X, factor * each.y + constant, each.name,
            own_predictions=factor * each.own_predictions + constant,
        )
        for each in agents
    ]  # fmt: skip
    collectives = [Collective(each, rule=rule, **settings) for each in (agents, others)]
    expected, found = (each.consult(X, ["value", "weights"], asker="agent 2", coverage=0.9) for each in collectives)
    assert_allclose(found.value, factor * expected.value + constant, rtol=1e-6)
    ends = (expected.lower, expected.upper) if factor > 0 else (expected.upper, expected.lower)
    assert_allclose(found.lower, factor * ends[0] + constant, rtol=1e-6)
    assert_allclose(found.upper, factor * ends[1] + constant, rtol=1e-6)
    assert_allclose(found.weights, expected.weights, atol=1e-6)


def test_labels_of_a_unit_do_not_change_what_is_predicted_for_its_rows():
    agents = members(12, n=60, units=np.arange(60) // 5)
    unit = agents[0].unit_codes == 7
    labels = agents[0].y + np.where(unit, 50.0, 0.0)
    other = Agent(agents[0].model, agents[0].X, labels, "agent 0", own_predictions=agents[0].own_predictions,
                  units=agents[0].units)  # fmt: skip
    before, after = (Collective([each, *agents[1:]]).view_of("agent 0") for each in (agents[0], other))
    predicted = [view.errors[..., 0] + view.agent.y[:, None] for view in (before, after)]
    assert_allclose(predicted[1][unit], predicted[0][unit], atol=1e-8)
    assert np.abs(predicted[1][~unit] - predicted[0][~unit]).max() > 0.1  # others' do change
    assert len(set(before.folds[unit].tolist())) == 1


def test_rows_of_a_unit_are_left_out_together():
    """Copies of rows in a unit of their own do not tell of themselves."""
    source = np.random.default_rng(13)
    X = source.normal(size=(60, 2))
    y = source.normal(size=60)  # nothing to learn but by heart
    models = [Linear(np.zeros(2), c) for c in (0.0, 1.0, -1.0)]
    rows, labels, units = np.repeat(X, 4, axis=0), np.repeat(y, 4), np.repeat(np.arange(60), 4)
    views = []
    for given in (units, None):
        agents = [Agent(model, rows, labels, f"{k}", units=given if k == 0 else None) for k, model in enumerate(models)]
        views.append(Collective(agents).view_of("0"))
    together, apart = ((view.left_out**2).mean() for view in views)
    assert together > 0.95 * (y**2).mean()
    assert apart < 0.8 * (y**2).mean()


# -- several askers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rule", "Q", "settings"), [("degroot", None, {}), ("stacking", 2, {}), ("average", None, {}),
                                                     ("degroot", 2, {"guard": True, "correct": True})])  # fmt: skip
def test_a_sequence_of_askers_is_asked_row_by_row(rule, Q, settings):
    agents, X = members(14, Q=Q), points(7)
    askers = ["agent 1", None, "agent 0", "agent 1", None, "agent 2", "agent 1"]
    collective = Collective(agents, rule=rule, **settings).calibrate()
    answer = collective.consult(X, asker=askers, coverage=0.9)
    assert answer.asker.tolist() == askers
    assert set(answer.choice) == {"agent 0", "agent 1", "agent 2"}
    for m, asker in enumerate(askers):
        one = collective.consult(X[[m]], asker=asker, coverage=0.9)
        for name in ("value", "standard_error", "weights", "beliefs", "influence", "lower", "upper"):
            assert_allclose(getattr(answer, name)[m], getattr(one, name)[0], rtol=1e-7, atol=1e-8, err_msg=name)
        assert_allclose(answer.correction[m], 0 if asker is None else one.correction[0], rtol=1e-7, atol=1e-8)
        if asker is not None:
            assert_allclose(answer.choice[asker].shares, one.choice.shares)
    assert_allclose(collective.predict(X, askers), answer.value)


def test_nobody_is_the_neutral_consensus():
    collective, X = Collective(members(15)), points()
    neutral = collective.consult(X)
    answer = collective.consult(X, asker=[None] * 5)
    assert_array_equal(answer.value, neutral.value)
    assert_array_equal(answer.weights, neutral.weights)
    assert_array_equal(collective.predict(X, None), neutral.value)
    assert answer.choice == {}
    assert neutral.asker is None


def test_names_may_come_as_an_array_or_a_series():
    pandas = pytest.importorskip("pandas")
    collective, X = Collective(members(16)), points(2)
    expected = collective.predict(X, ["agent 0", "agent 1"])
    for asker in (np.array(["agent 0", "agent 1"]), pandas.Series(["agent 0", "agent 1"]), ("agent 0", "agent 1")):
        assert_array_equal(collective.predict(X, asker), expected)


@pytest.mark.parametrize("fields", [[], ["value"], ["weights"], ["correction"], ["influence", "beliefs"]])
def test_only_what_is_asked_for_is_there_and_it_is_the_same(fields):
    collective, X = Collective(members(17)), points()
    full, some = (collective.consult(X, names, asker="agent 0") for names in (FIELDS, fields))
    for name in FIELDS:
        if name in fields:
            assert_array_equal(getattr(some, name), getattr(full, name))
        else:
            assert getattr(some, name) is None


def test_no_points_are_no_answers():
    answer = Collective(members(18)).consult(np.empty((0, 2)), asker="agent 0", coverage=0.9)
    assert answer.value.shape == answer.lower.shape == (0,)
    assert answer.weights.shape == (0, 3)
    assert answer.choice.asker == "agent 0"
    assert Collective(members(18)).consult(np.empty((0, 2)), asker=[]).choice == {}


def test_views_are_kept_until_something_changes():
    agents = members(19)
    collective = Collective(agents)
    view = collective.view_of("agent 0")
    assert collective.view_of("agent 0") is view
    collective.rule = "average"
    assert collective.view_of("agent 0") is not view
    collective.rule = "degroot"
    collective.leave("agent 2")
    assert_allclose(collective.predict(points(), "agent 0"), Collective(agents[:2]).predict(points(), "agent 0"))


def test_threads_make_no_difference():
    agents, X = members(20, K=4, n=120), points(300)
    one, four = (Collective(agents, n_jobs=n_jobs).consult(X, asker="agent 1") for n_jobs in (1, 4))
    for name in FIELDS:
        assert_allclose(getattr(four, name), getattr(one, name), rtol=1e-9, atol=1e-12, err_msg=name)


def test_two_thousand_rows_are_scored_at_most():
    source = np.random.default_rng(21)
    X = source.normal(size=(2600, 2))
    y = truth(X, None)
    agents = [Agent(Linear(np.ones(2), c), X if c == 0 else X[:9], y if c == 0 else y[:9], f"{c}") for c in (0, 1)]
    view = Collective(agents).view_of("0")
    assert view.errors.shape[0] == view.choice().rows == 2000
    assert len(view.residuals) == 2600


# -- intervals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("Q", [None, 2])
def test_intervals_are_what_their_definition_says(Q):
    agents = members(22, n=40, Q=Q)
    collective = Collective(agents)
    view, X = literal(agents, 0, rule="degroot"), points(4)
    left, rows, folds = view.left_out(), agents[0].X, view.folds
    overall = (left**2).mean(axis=0)

    def local(x, kept):
        near = oracle.look(rows[kept], (left[kept] ** 2)[..., None], x, 20)
        return (near.effective * near.means[0] + 20 * overall) / (near.effective + 20)

    scores = np.array([score(left[i], local(rows[i], folds != folds[i]), overall) for i in range(40)])
    for coverage in (0.5, 0.8, 0.9):
        limit = np.sort(scores, axis=0)[int(np.ceil(41 * coverage - 1e-9)) - 1]
        answer = collective.consult(X, asker="agent 0", coverage=coverage)
        for m, x in enumerate(X):
            half = half_width(limit, local(x, np.ones(40, bool)), overall)
            assert_allclose(np.atleast_1d(answer.upper[m] - answer.lower[m]) / 2, half, rtol=1e-6)
            assert_allclose((answer.upper[m] + answer.lower[m]) / 2, answer.value[m])
        assert answer.coverage == coverage
        assert answer.flags == ()


@pytest.mark.parametrize("settings", [{}, pytest.param({"correct": True, "guard": True}, marks=pytest.mark.slow)])
def test_outcomes_are_inside_as_often_as_asked_for(settings):
    inside = {0.9: [], 0.5: []}
    for seed in range(8):
        agents = members(seed + 30, n=100)
        source = np.random.default_rng(seed + 900)
        X = source.normal(size=(300, 2))
        y = truth(X, None) + 0.2 * source.normal(size=300)
        honest = Agent(agents[0].model, agents[0].X, agents[0].y, "agent 0")
        collective = Collective([honest, *agents[1:]], **settings)
        for coverage, found in inside.items():
            answer = collective.consult(X, "value", asker="agent 0", coverage=coverage)
            found.append(((answer.lower <= y) & (y <= answer.upper)).mean())
    for coverage, found in inside.items():
        sd = np.sqrt(coverage * (1 - coverage) * (1 / 300 + 1 / 100) / 8)  # of test and own rows, eight times
        assert abs(np.mean(found) - coverage) < 4 * sd


def test_intervals_are_nested():
    collective, X = Collective(members(23)), points(10)
    answers = [collective.consult(X, "value", asker="agent 0", coverage=each) for each in (0.3, 0.6, 0.9)]
    for inner, outer in itertools.pairwise(answers):
        assert ((outer.lower <= inner.lower) & (inner.upper <= outer.upper)).all()


def test_sets_of_classes_hold_the_outcome_as_often_as_asked_for():
    inside, sizes = [], []
    for seed in range(6):
        agents = classifiers(n=100, Q=3, seed=seed)
        source = np.random.default_rng(seed + 700)
        X = source.normal(size=(300, 2))
        y = np.digitize(X[:, 0] + source.normal(size=300), np.arange(2))  # of agent 1
        answer = Collective(agents).consult(X, "value", asker="agent 1", coverage=0.8)
        inside.append(answer.sets[np.arange(300), y].mean())
        sizes.append(answer.sets.sum(axis=1).mean())
        assert answer.lower is None
        assert answer.sets.any(axis=1).all()
    assert np.mean(inside) > 0.8 - 4 * np.sqrt(0.16 * (1 / 300 + 1 / 100) / 6)
    assert np.mean(sizes) < 2.6


def test_with_too_few_rows_of_its_own_others_scores_are_pooled_and_that_is_said():
    agents = members(24, n=12)
    collective, X = Collective(agents), points(3)
    assert rows_needed(0.95) == 19
    enough = collective.consult(X, "value", asker="agent 0", coverage=0.9)
    assert enough.flags == ()
    pooled = collective.consult(X, "value", asker="agent 0", coverage=0.95)
    (flag,) = pooled.flags
    assert (flag.agent, flag.kind, flag.points.tolist()) == ("agent 0", "pooled", [0, 1, 2])
    scores = np.sort(np.concatenate([collective.view_of(each.name).calibration.scores[:, 0] for each in agents]))
    limit = scores[int(np.ceil(37 * 0.95)) - 1]
    view = collective.view_of("agent 0")
    overall = (view.left_out**2).mean(axis=0)
    near = [oracle.look(agents[0].X, (view.left_out**2)[..., None], x, 20) for x in X]
    local = [(each.effective * each.means[0] + 20 * overall) / (each.effective + 20) for each in near]
    assert_allclose((pooled.upper - pooled.lower) / 2, half_width(limit, np.array(local), overall)[:, 0], rtol=1e-9)
    told = complaint(lambda: collective.consult(X, "value", asker="agent 0", coverage=0.99))
    assert told == "A coverage of 0.99 must be calibrated on at least 99 rows; there are 36."


def test_pooled_scores_are_of_those_who_have_any():
    agents = members(25, K=2, n=12)
    by_peers = Agent(agents[1].model, agents[1].X, agents[1].y, "by peers", own_predictions="peers")
    answer = Collective([*agents, by_peers]).consult(points(), "value", asker="agent 0", coverage=0.95)
    assert [flag.kind for flag in answer.flags] == ["pooled"]
    told = complaint(lambda: Collective([agents[0], by_peers]).consult(points(), asker="agent 0", coverage=0.95))
    assert told == "A coverage of 0.95 must be calibrated on at least 19 rows; 'agent 0' has 12."


@pytest.mark.parametrize("factor", [20.0, 1000.0, 1e9])
def test_far_points_are_flagged_and_their_intervals_hold_all_labels(factor):
    agents = members(26)
    X = np.concatenate([points(3), factor * np.array([[1.0, 1.0], [-1.0, 2.0]])])
    for rule in RULE_NAMES:
        answer = Collective(agents, rule=rule).consult(X, "value", asker="agent 0", coverage=0.9)
        far = [flag for flag in answer.flags if flag.agent == "agent 0" and flag.kind == "far"]
        assert [flag.points.tolist() for flag in far] == [[3, 4]]
        assert (answer.lower[3:] <= agents[0].y.min()).all()
        assert (answer.upper[3:] >= agents[0].y.max()).all()
        assert (answer.lower[:3] > agents[0].y.min()).any()
        assert ((answer.lower <= answer.value) & (answer.value <= answer.upper)).all()


@pytest.mark.parametrize("metric", sorted(METRICS))
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_far_points_are_far_in_any_metric_and_unit(metric, scale):
    source = np.random.default_rng(36)
    X = scale * (np.array([3.0, 3.0]) + 0.3 * source.normal(size=(60, 2)))
    agents = [Agent(Linear(np.ones(2), c), X, X[:, 0], f"{c}") for c in (0.0, 1.0)]
    asked = np.concatenate([X[:5], scale * np.array([[-30.0, -30.0], [3.0, -30.0]])])
    flags = Collective(agents, metric=metric).consult(asked, "value", asker="0.0").flags
    assert [flag.points.tolist() for flag in flags if flag.agent == "0.0"] == [[5, 6]]


def test_the_own_rows_are_not_far():
    agents = members(27, n=200)
    fresh = np.random.default_rng(28).normal(size=(500, 2))
    answer = Collective(agents).consult(np.concatenate([agents[0].X, fresh]), "value", asker="agent 0")
    assert not [flag for flag in answer.flags if flag.kind == "far"]


def test_sets_at_points_that_are_far_for_the_asker_hold_all_classes():
    agents = classifiers()
    near = Agent(agents[1].model, agents[1].X + 1e6, ["a"] * 45, "agent 1", classes=["a", "b", "c"])
    collective = Collective([agents[0], near, agents[2]])
    answer = collective.consult([[0.0, 0.0], [1e6, 1e6]], "value", asker="agent 0", coverage=0.5)
    assert {flag.agent for flag in answer.flags} == {"agent 0"}
    assert [flag.points.tolist() for flag in answer.flags if flag.kind == "far"] == [[1]]
    assert answer.sets[1].all()
    assert not answer.sets[0].all()


# -- little to go by ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"guard": True}])
@pytest.mark.parametrize(("n", "K"), [*itertools.product([1, 2, 3, 5], [1, 2, 4]), (1, 60), (5, 60)])
def test_few_rows_are_enough_for_an_answer(n, K, settings):
    agents, X = members(29, K=K, n=n), points()
    answer = Collective(agents, rule="stacking", **settings).consult(X, asker="agent 0")
    assert np.isfinite(answer.value).all()
    assert_allclose(answer.weights.sum(axis=1), 1)
    assert np.isfinite(answer.influence).all() == (K > 1)
    if n == 1:
        assert_array_equal(answer.value, agents[0].predict(X))
        assert str(answer.choice) == "the own model of agent 0: there is nothing else to choose from"


def test_a_single_unit_leaves_nothing_to_compare():
    agents = members(30, n=40, units=np.zeros(40, int))
    answer = Collective(agents).consult(points(), asker="agent 0", coverage=0.9)
    assert answer.choice.candidates == ("own",)
    assert_array_equal(answer.value, agents[0].predict(points()))
    assert np.isfinite([answer.lower, answer.upper]).all()


@pytest.mark.parametrize("settings", [{}, {"guard": True}, {"correct": True}])
@pytest.mark.parametrize("case", ["constant labels", "one model", "same rows", "same rows and labels", "perfect"])
def test_degenerate_evidence_gives_an_answer(case, settings):
    source = np.random.default_rng(31)
    X = np.ones((60, 2)) if case.startswith("same rows") else source.normal(size=(60, 2))
    y = np.ones(60) if case in ("constant labels", "same rows and labels") else truth(X, None) + source.normal(size=60)
    models = [Linear(np.ones(2), 0.0 if case in ("one model", "perfect") else 0.2 * k) for k in range(3)]
    if case == "perfect":
        y = models[0].predict(X)
    agents = [Agent(model, X, y, f"{k}") for k, model in enumerate(models)]
    answer = Collective(agents, **settings).consult(points(), asker="0", coverage=0.9)
    for name in ("value", "standard_error", "influence", "weights", "correction", "lower", "upper"):
        assert np.isfinite(getattr(answer, name)).all(), name
    if case in ("one model", "perfect") and not settings.get("correct"):
        off = answer.value - models[0].predict(points())
        assert np.abs(off).max() < (1e-12 if case == "perfect" else 1.0)


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_who_asks_must_be_a_member():
    collective, X = Collective(members(32)), points(4)
    known = "'agent 0', 'agent 1', 'agent 2'"
    for asker in ("north", ""):
        assert (
            complaint(lambda asker=asker: collective.predict(X, asker))
            == f"`asker` must be one of {known}; got {asker!r}."
        )
    assert complaint(lambda: collective.consult(X, asker="x")) == f"`asker` must be one of {known}; got 'x'."
    assert (
        complaint(lambda: collective.predict(X, ["agent 0", "x", None, 3]))
        == f"`asker` must be one of {known}; got 'x'."
    )
    assert complaint(lambda: collective.predict(X, [["agent 0"]] * 4)).startswith(
        f"`asker` must be one of {known}; got "
    )
    assert_array_equal(collective.predict(X, [np.nan] * 4), collective.predict(X))  # as tables write None
    assert complaint(lambda: collective.view_of("x")) == f"`asker` must be one of {known}; got 'x'."


@pytest.mark.parametrize(
    ("asker", "got"),
    [(5, "5"), (True, "True"), (2.5, "2.5"), (["agent 0"] * 3, "3 names"), ([], "0 names"),
     (np.array("agent 0"), "array('agent 0', dtype='<U7')")],
)  # fmt: skip
def test_askers_are_one_name_or_one_for_each_row(asker, got):
    told = complaint(lambda: Collective(members(32)).predict(points(4), asker))
    assert told == f"`asker` must be one of the agents' names, or one for each of 4 rows; got {got}."


def test_a_degree_leaves_scores_missing():
    collective = Collective(members(33, K=9), degree=4)
    told = complaint(lambda: collective.predict(points(), "agent 0"))
    assert told == (
        "An asker must have scored every model on its own rows; with degree=4 the scores of 5 of 9 models are missing."
    )
    assert_array_equal(collective.predict(points(), [None] * 5), collective.predict(points()))


def test_an_asker_must_know_the_errors_of_its_own_model():
    agents = members(34)
    by_peers = Agent(agents[0].model, agents[0].X, agents[0].y, "by peers", own_predictions="peers")
    collective = Collective([by_peers, *agents[1:]])
    with pytest.raises(AgentError, match=r"'by peers': .*must know its model's errors on its own rows"):
        collective.predict(points(), "by peers")
    assert np.isfinite(collective.predict(points(), "agent 1")).all()


def test_settings_that_do_not_go_with_an_asker():
    collective, X = Collective(members(35)), points()
    told = complaint(lambda: collective.consult(X, ["trust"], asker="agent 0"))
    assert told.startswith("`fields` must be among ")
    assert told.endswith("; got 'trust'.")
    assert "'trust'," not in told
    for wrong in ("yes", 1, 0.0):
        told = complaint(lambda wrong=wrong: collective.predict(X, "agent 0", correct=wrong))
        assert told == f"`correct` must be True or False; got {wrong!r}."
        assert complaint(lambda wrong=wrong: Collective(members(35), correct=wrong)) == told
    told = complaint(lambda: collective.predict(X, correct=True))
    assert told == "`correct` must come with an `asker`, whose rows tell of errors; got none."
    assert (
        complaint(lambda: Collective(members(35), evidence="pooled"))
        == "`evidence` must be one of 'own'; got 'pooled'."
    )
    for coverage in (0, 1, "0.9", True, np.nan):
        with pytest.raises(InvalidInput, match="`coverage` must lie between 0 and 1; got "):
            collective.consult(X, asker="agent 0", coverage=coverage)
    with pytest.raises(InvalidInput, match="must have 2 features"):
        collective.predict(np.zeros((3, 5)), "agent 0")


def with_a_copy_of_the_own_model():
    agents = members(K=3)
    return [*agents, Agent(agents[0].model, agents[2].X, agents[2].y, "copy")]


def with_sparse_rows():
    return [
        Agent(lambda X, k=k: np.asarray(X.sum(axis=1)).ravel() + k, csr_array(each.X), each.y, each.name)
        for k, each in enumerate(members(K=3, own=False))
    ]


SCENES = {
    "numbers": members,
    "two outputs": partial(members, Q=2),
    "alone": partial(members, K=1),
    "a copy of the own model": with_a_copy_of_the_own_model,
    "classes": classifiers,
    "sparse rows": with_sparse_rows,
}


@pytest.mark.parametrize("lie", [0.0, 1e6])
@pytest.mark.parametrize("correct", [False, True])
@pytest.mark.parametrize("scene", SCENES)
def test_what_is_prepared_before_others_have_answered_changes_nothing(scene, correct, lie):
    agents = SCENES[scene]()
    X = csr_array(points(4)) if scene == "sparse rows" else agents[0].X[:4] + 0.1
    view = AskerView(Scorer.build(agents[0], agents, "euclidean"), [each.name for each in agents], 0, STACKING)
    beliefs = np.stack([each.predict(X).reshape(4, -1) for each in agents], axis=1)
    beliefs[:2, 1:] += lie
    question = ViewQuestion(frozenset(FIELDS), guard=True, correct=correct, coverage=0.8)
    assert not view.is_prepared_for(question)
    whole = view.answer(X, beliefs, question)
    assert view.is_prepared_for(question)
    ahead = view.answer(X, beliefs, question, prepared=view.prepare(X, beliefs[:, 0], question))
    assert set(ahead) == set(whole) >= set(FIELDS)
    assert own_flags(ahead["flags"]) == own_flags(whole["flags"])
    for name in set(whole) - {"flags"}:
        assert_allclose(ahead[name], whole[name], rtol=1e-9, atol=1e-9)  # blocks are rounded by themselves
    if lie and len(agents) > 2:
        assert any(flag.kind == "alone" for flag in whole["flags"])


@pytest.mark.parametrize("scene", ["numbers", "two outputs", "alone", "classes"])
def test_no_points_have_an_empty_answer(scene):
    agents = SCENES[scene]()
    view = AskerView(Scorer.build(agents[0], agents, "euclidean"), [each.name for each in agents], 0, STACKING)
    some = view.answer(
        agents[0].X[:2], np.stack([each.predict(agents[0].X[:2]).reshape(2, -1) for each in agents], 1), ALL
    )
    none = view.answer(agents[0].X[:0], np.empty((0, len(agents), view.Q)), ALL)
    assert none.pop("flags") == ()
    assert {name: values.shape for name, values in none.items()} == {
        name: (0, *values.shape[1:]) for name, values in some.items() if name != "flags"
    }


ALL = ViewQuestion(frozenset(FIELDS), guard=True, coverage=0.8)


def own_flags(flags):
    return [(flag.agent, flag.reason, flag.points.tolist()) for flag in flags]
