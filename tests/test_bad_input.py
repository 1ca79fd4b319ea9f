"""What is wrong is refused in one line that says what was required and what came, and nothing is lost."""

import contextlib
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import coo_array, coo_matrix, csr_array, csr_matrix
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler
from support.rules import SCORING

from degroot import Agent, AgentError, Collective, DeGrootRegressor, InvalidInput
from degroot.agents.agent import neighbourhood_size
from degroot.baselines import best_single, cv_adaptive, cv_static
from degroot.rules.evidence import NeighbourhoodSpec
from degroot.rules.rules import RULES

WRONG_NUMBERS = [np.nan, np.inf, -np.inf]
TABLES = {
    "numpy": np.asarray,
    "list": lambda X: np.asarray(X).tolist(),
    "pandas": lambda X: pd.DataFrame(X, columns=list("abcdefgh")[: np.shape(X)[1]]),
    "polars": lambda X: pl.DataFrame(X, schema=list("abcdefgh")[: np.shape(X)[1]], orient="row"),
    "csr_matrix": csr_matrix,
    "csr_array": csr_array,
}


@contextlib.contextmanager
def expect_refused(*parts, agent=None):
    """The block must raise one line that holds all `parts`, and names the agent if one is at fault."""
    with pytest.raises(InvalidInput) as caught:
        yield
    message = str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert "\n" not in message
    for part in parts:
        assert part in message
    if agent is not None:
        assert type(caught.value) is AgentError
        assert caught.value.agent == agent
        assert message.startswith(f"Agent {agent!r}: ")


def first(X):
    """A model that any table can be given to."""
    return dense(X)[:, 0]


def dense(X):
    return X.toarray() if hasattr(X, "toarray") else np.asarray(X)


def rows(n=10, d=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def agent(name="north", model=first, X=None, y=None, **settings):
    X = rows() if X is None else X
    return Agent(model, X, np.zeros(X.shape[0]) if y is None else y, name, **settings)


def collective(rule="degroot", **settings):
    return Collective([agent("north"), agent("south", X=rows(12, seed=1))], 3, rule, **settings)


@contextlib.contextmanager
def nothing_lost(whole, X=None):
    """The collective is after the block what it was before."""
    X = rows(7, seed=9) if X is None else X
    names, before, trust = whole.names, whole.predict(X), whole.consult(X).trust
    yield
    assert whole.names == names
    assert_array_equal(whole.predict(X), before)
    assert_array_equal(whole.consult(X).trust, trust)


# -- agents ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("agents", [[], (), iter([])])
def test_a_collective_has_agents(rule, agents):
    with expect_refused("at least one agent", "it has none"):
        Collective(agents, rule=rule)


@pytest.mark.parametrize("wrong", [Ridge(), None, "north", 3])
def test_a_collective_is_made_of_agents(wrong):
    with expect_refused("made of agents", type(wrong).__name__):
        Collective([agent(), wrong])
    whole = collective()
    for change in (whole.join, whole.replace):
        with nothing_lost(whole), expect_refused("agent", type(wrong).__name__):
            change(wrong)


@pytest.mark.parametrize("wrong", [None, 3, Ridge()])
def test_agents_come_in_a_list(wrong):
    with expect_refused("agents", type(wrong).__name__):
        Collective(wrong)


def test_a_single_agent_comes_in_a_list_too():
    with expect_refused("agents", "Agent"):
        Collective(agent())


@pytest.mark.parametrize("table", TABLES)
def test_an_agent_has_rows(table):
    make = TABLES[table] if table != "list" else np.asarray  # an empty list has no features either
    with expect_refused("must hold at least one row", "none", agent="north"):
        Agent(first, make(np.zeros((0, 2))), [], "north")


@pytest.mark.parametrize("make", [np.asarray, pd.DataFrame, csr_array, np.ndarray.tolist])
def test_an_agent_has_features(make):
    with expect_refused("must have at least one feature", "none", agent="north"):
        Agent(first, make(np.zeros((3, 0))), np.zeros(3), "north")


@pytest.mark.parametrize(
    "X", [[], np.zeros(3), np.zeros((2, 2, 2)), 3.0, None, "rows", {"a": [1]}, pd.Series([1.0, 2.0])]
)
def test_rows_are_a_table(X):
    with expect_refused("`X` must be 2-dimensional, (rows, features); its shape is (", agent="north"):
        Agent(first, X, [0.0, 0.0], "north")
    for rule in RULES:
        whole = collective(rule)
        with nothing_lost(whole), expect_refused("`X` must be 2-dimensional, (rows, features); its shape is ("):
            whole.predict(X)


def test_sparse_rows_are_a_table_too():
    X = coo_array(np.array([1.0, 0.0]))
    with expect_refused("`X` must be 2-dimensional", "(2,)", agent="north"):
        Agent(first, X, [0.0, 0.0], "north")
    with expect_refused("`X` must be 2-dimensional", "(2,)"):
        collective().predict(X)


def test_rows_are_equally_long():
    with expect_refused("`X` must be a table of numbers", agent="north"):
        Agent(first, [[1.0, 2.0], [3.0]], [0.0, 0.0], "north")
    with expect_refused("`X` must be a table of numbers"):
        collective().predict([[1.0, 2.0], [3.0]])


@pytest.mark.parametrize(
    "X",
    [
        [["a", "b"], ["c", "d"]],
        [["1", "2"], ["3", "4"]],
        np.array([["a", 1.0], ["c", 2.0]], dtype=object),
        np.array([["1", 1.0], ["2", 2.0]], dtype=object),
        pd.DataFrame({"a": ["x", "y"], "b": [1.0, 2.0]}),
        pd.DataFrame({"a": ["1", "2"], "b": [1.0, 2.0]}),
        pl.DataFrame({"a": ["x", "y"], "b": [1.0, 2.0]}),
        pl.DataFrame({"a": ["1", "2"], "b": [1.0, 2.0]}),
        np.array([[1j, 2.0], [3.0, 4.0]]),
        np.array([["2020-01-01", "2021-01-01"]] * 2, dtype="M8[D]"),
        [[None, 1.0], [2.0, 3.0]],
    ],
)
@pytest.mark.parametrize("rule", RULES)
def test_rows_hold_numbers(X, rule):
    if isinstance(X, pd.DataFrame | pl.DataFrame):
        assert Agent(first, X, [0.0, 0.0], "north").schema.columns[0].kind == "category"
    else:
        with expect_refused("`X` must ", agent="north"):
            Collective([Agent(first, X, [0.0, 0.0], "north")], 2, rule)
    whole = collective(rule)
    with nothing_lost(whole), expect_refused("`X` must "):
        whole.predict(X)


@pytest.mark.parametrize("value", WRONG_NUMBERS)
@pytest.mark.parametrize("table", TABLES)
def test_rows_are_finite(table, value):
    X = rows()
    X[3, 1] = value
    what = "it holds NaN or infinity" if "csr" in table else f"row 3, column 1 is {value}"
    if np.isnan(value) and table in ("pandas", "polars"):
        assert Agent(first, TABLES[table](X), np.zeros(10), "north").schema is not None
    else:
        with expect_refused("`X` must be finite", what, agent="north"):
            Collective([Agent(first, TABLES[table](X), np.zeros(10), "north")], 2)
    for rule in RULES:
        whole = Collective(
            [agent(name, X=TABLES[table](rows()) if table != "list" else None) for name in "ab"], 3, rule
        )
        for ask in (whole.predict, whole.consult):
            with nothing_lost(whole, TABLES[table](rows(4))), expect_refused("`X` must be finite", what):
                ask(TABLES[table](X))


@pytest.mark.parametrize(
    "X",
    [
        pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": [1.0, 2.0]}),
        pl.DataFrame({"a": [1, None], "b": [1.0, 2.0]}),
    ],
    ids=["pandas", "polars"],
)
def test_a_missing_value_is_a_gap_to_agents_with_frames_alone(X):
    assert_array_equal(np.isnan(Agent(first, X, [0.0, 0.0], "north").X), [[False, False], [True, False]])
    with expect_refused("`X` must "):
        collective().predict(X)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("table", TABLES)
def test_agents_have_as_many_features_as_each_other(table, rule):
    wide = TABLES[table](rows(d=3)) if table != "list" else rows(d=3)
    with expect_refused("must have 2 features", "'north'", "got 3", agent="south"):
        Collective([agent(), agent("south", X=wide)], 3, rule)
    whole = collective(rule)
    with nothing_lost(whole), expect_refused("must have 2 features", "got 3", agent="west"):
        whole.join(agent("west", X=wide))
    with nothing_lost(whole), expect_refused("must have ", "features", "got "):
        whole.replace(agent("north", X=wide))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("d", [1, 3])
def test_points_have_as_many_features_as_the_rows(table, rule, d):
    whole = collective(rule)
    with nothing_lost(whole), expect_refused("`X` must have 2 features", f"got {d}"):
        whole.predict(TABLES[table](rows(d=d)))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
@pytest.mark.parametrize("names", [["a", "c"], ["b", "a"]])
def test_features_have_the_same_names_in_the_same_order(rule, kind, names):
    def table(columns, n=10):
        return kind({name: rows(n)[:, k] for k, name in enumerate(columns)})

    south = agent("south", X=table(names))
    with expect_refused("'south'", "same features in the same order", repr(names[0 if names[0] == "b" else 1])):
        Collective([agent(X=table("ab")), south], 3, rule)
    whole = Collective([agent(X=table("ab")), agent("south", X=table("ab"))], 3, rule)
    X = table("ab", 5)
    with nothing_lost(whole, X), expect_refused("'west'", "same features in the same order"):
        whole.join(agent("west", X=table(names)))
    with nothing_lost(whole, X), expect_refused("'south'", "same features in the same order"):
        whole.replace(south)
    with nothing_lost(whole, X), expect_refused("`X`", "same features in the same order"):
        whole.predict(table(names))


def test_names_are_compared_though_some_agents_have_none():
    ab, ba = (pd.DataFrame(rows(), columns=list(names)) for names in ("ab", "ba"))
    with expect_refused("same features in the same order"):
        Collective([agent("array"), agent("north", X=ab), agent("south", X=ba)], 3)
    whole = Collective([agent("array"), agent("north", X=ab)], 3)
    with nothing_lost(whole), expect_refused("same features in the same order"):
        whole.predict(ba)


@pytest.mark.parametrize("name", ["", None, 3, b"north", ["north"], np.nan])
def test_a_name_is_a_string(name):
    with expect_refused("`name` must be a string that is not empty", repr(name)):
        Agent(first, rows(), np.zeros(10), name)


@pytest.mark.parametrize("rule", RULES)
def test_names_are_distinct(rule):
    with expect_refused("distinct names", "'north'"):
        Collective([agent("north"), agent("south"), agent("north")], 3, rule)
    whole = collective(rule)
    with nothing_lost(whole), expect_refused("distinct names", "'south'"):
        whole.join(agent("south"))


@pytest.mark.parametrize("rule", RULES)
def test_who_leaves_or_is_replaced_is_there(rule):
    whole = collective(rule)
    for change in (lambda: whole.leave("west"), lambda: whole.replace(agent("west"))):
        with nothing_lost(whole), expect_refused("'north', 'south'", "'west'"):
            change()
    with nothing_lost(whole), expect_refused("'north', 'south'", "None"):
        whole.leave(None)


@pytest.mark.parametrize("rule", RULES)
def test_the_last_agent_stays(rule):
    whole = collective(rule).leave("south")
    with nothing_lost(whole), expect_refused("at least one agent", "it has none"):
        whole.leave("north")


def test_a_name_may_be_anything_and_an_error_is_still_one_line():
    with expect_refused("`y` must be finite", agent="two\nlines"):
        Agent(first, rows(), np.full(10, np.nan), "two\nlines")


# -- labels ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "y", [np.zeros(9), np.zeros(11), [], 3.0, None, np.zeros((10, 0)), np.zeros((1, 10)), np.zeros((10, 1, 1))]
)
def test_there_is_one_label_for_each_row(y):
    with expect_refused(
        "`y` must hold numbers for each of 10 rows, (n,) or (n, Q); its shape is ", str(np.shape(y)), agent="north"
    ):
        Agent(first, rows(), y, "north")


@pytest.mark.parametrize(
    "y",
    [
        ["a", "b"],
        ["1", "2"],
        np.array(["1", "2"], dtype=object),
        [1j, 2.0],
        [[1.0], [2.0, 3.0]],
        [{}, {}],
        pd.Series(["a", "b"]),
        pl.Series(["1", "2"]),
        np.array(["2020-01-01", "2020-01-02"], dtype="M8[D]"),
        pd.Series(pd.array([1, None], dtype="Int64")),
        [None, 1.0],
    ],
)
def test_labels_are_numbers(y):
    with expect_refused("`y` must ", agent="north"):
        Agent(first, rows(2), y, "north")


@pytest.mark.parametrize("value", WRONG_NUMBERS)
@pytest.mark.parametrize("kind", [np.asarray, list, pd.Series, pl.Series])
def test_labels_are_finite(value, kind):
    y = np.zeros(10)
    y[4] = value
    with expect_refused("`y` must be finite", f"row 4 is {value}", agent="north"):
        Agent(first, rows(), kind(y), "north")


# -- settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("neighbours", [0, -1, np.int64(0), np.int8(-5)])
def test_a_number_of_neighbours_is_positive(neighbours, rule):
    with expect_refused("`neighbours` must be at least 1 when it is a whole number", f"got {neighbours}"):
        Collective([agent()], neighbours, rule)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("neighbours", [0.0, -0.1, 1.5, np.nan, np.inf, np.float32(2), 10.0])
def test_a_fraction_of_the_rows_is_above_0_and_at_most_1(neighbours, rule):
    with expect_refused("`neighbours` must lie in (0, 1] when it is a fraction", f"got {neighbours}"):
        Collective([agent()], neighbours, rule)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("neighbours", [True, False, np.True_, "5", "all", [5], 1j, np.array([[1, 2], [3, 4]]), {}])
def test_neighbours_are_a_number(neighbours, rule):
    with expect_refused("`neighbours` must be a whole number or a fraction of the rows", "got "):
        Collective([agent()], neighbours, rule)


@pytest.mark.parametrize("rule", SCORING)
def test_neighbours_are_among_the_rows(rule):
    with expect_refused("`neighbours` must be at most the number of rows, 10", "got 11", agent="north"):
        Collective([agent("south", X=rows(12)), agent("north")], 11, rule)
    whole = collective(rule)
    for change in (lambda: whole.join(agent("west", X=rows(2))), lambda: whole.replace(agent("south", X=rows(2)))):
        with nothing_lost(whole), expect_refused("`neighbours` must be at most the number of rows, 2", "got 3"):
            change()


def test_neighbours_are_among_the_rows_when_an_average_is_asked_for_trust():
    whole = Collective([agent()], 11, "average")
    with expect_refused("`neighbours` must be at most the number of rows, 10", "got 11", agent="north"):
        whole.consult(rows(), fields=["trust"])
    assert_array_equal(whole.predict(rows()), first(rows()))


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.int64, np.uint8, np.uint64])
def test_whole_numbers_of_numpy_are_whole_numbers(kind):
    X = rows(5, seed=3)
    assert_array_equal(
        Collective([agent("a"), agent("b", lambda X: X[:, 1])], kind(5)).predict(X),
        Collective([agent("a"), agent("b", lambda X: X[:, 1])], 5).predict(X),
    )


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.longdouble, Fraction])
def test_fractions_of_numpy_are_fractions(kind):
    X = rows(5, seed=3)
    many = [agent("a", X=rows(40)), agent("b", lambda X: X[:, 1], X=rows(40))]
    assert_array_equal(Collective(many, kind(0.25)).predict(X), Collective(many, 10).predict(X))


@pytest.mark.parametrize("percent", [1, 5, 7, 10, 20, 29, 30, 57, 58, 70, 90, 100])
@pytest.mark.parametrize("n", [100, 700, 1000, 30000])
def test_a_fraction_is_what_it_is_written_as(percent, n):
    expected = max(2, percent * n // 100)
    for kind in (float, np.float64, np.float32):
        assert neighbourhood_size(NeighbourhoodSpec(kind(percent / 100), "uniform"), n, InvalidInput) == expected


@pytest.mark.parametrize(
    ("setting", "wrong"),
    [
        (setting, wrong)
        for setting in ("rule", "metric", "kernel")
        for wrong in ("Euclid", "", None, 3, ["euclidean"], {"a": 1})
        if (setting, wrong) != ("kernel", None)  # the rule's own
    ],
)
def test_rule_metric_and_kernel_are_known(setting, wrong):
    known = {
        "rule": RULES,
        "metric": ["euclidean", "cosine", "manhattan"],
        "kernel": ["uniform", "tricube", "gaussian"],
    }
    with expect_refused(f"`{setting}` must be one of ", *map(repr, known[setting]), f"got {wrong!r}"):
        Collective([agent()], 3, **{setting: wrong})


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("fields", ["opinion", ["value", "opinion"], ["names"], [None], [3], [["value"]]])
def test_fields_are_known(rule, fields):
    whole = collective(rule)
    wrong = fields if isinstance(fields, str) else fields[-1]
    with nothing_lost(whole), expect_refused("`fields` must be among 'value', ", f"got {wrong!r}"):
        whole.consult(rows(), fields=fields)


# -- models ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [None, 3, "model", object()])
def test_a_model_predicts(model):
    with expect_refused("its model must have predict(X) or be callable", type(model).__name__, agent="north"):
        Agent(model, rows(), np.zeros(10), "north")


def broken(X):
    raise RuntimeError("the server\n  is out of order\n\n(try again)")


def silent(X):
    raise KeyError


class Shy:
    """It has something called predict."""

    predict = 3


SHAPE = "`predict(X)` must hold one number for each of 10 rows; its shape is "
BROKEN = {
    "raises": (broken, "its model must predict; it raised RuntimeError: the server is out of order (try again)"),
    "raises nothing much": (silent, "its model must predict; it raised KeyError"),
    "is not fitted": (Ridge(), "its model must predict; it raised NotFittedError: "),
    "is not trained": (Ridge, "its model must predict; it raised TypeError: "),
    "has no method": (Shy(), "its model must predict; it raised TypeError: 'int' object is not callable"),
    "too short": (lambda X: first(X)[1:], SHAPE + "(9,)."),
    "too long": (lambda X: [0.0] * (len(X) + 1), SHAPE + "(11,)."),
    "a scalar": (lambda X: 0.0, SHAPE + "()."),
    "2-D": (lambda X: X, SHAPE + "(10, 2)."),
    "a row": (lambda X: first(X)[None], SHAPE + "(1, 10)."),
    "None": (lambda X: None, SHAPE + "()."),
    "empty": (lambda X: [], SHAPE + "(0,)."),
    "NaN": (lambda X: np.where(np.arange(len(X)) == 5, np.nan, 0), "`predict(X)` must be finite; row 5 is nan."),
    "inf": (lambda X: np.where(np.arange(len(X)) == 5, np.inf, 0), "`predict(X)` must be finite; row 5 is inf."),
    "-inf": (lambda X: np.where(np.arange(len(X)) == 5, -np.inf, 0), "`predict(X)` must be finite; row 5 is -inf."),
    "strings": (lambda X: ["high"] * len(X), "`predict(X)` must hold numbers; "),
    "digits": (lambda X: ["1"] * len(X), "`predict(X)` must hold numbers; "),
    "complex": (lambda X: first(X) + 1j, "`predict(X)` must hold numbers; "),
    "Nones": (lambda X: [None] * len(X), "`predict(X)` must "),
    "ragged": (lambda X: [[1.0], [1.0, 2.0]] * 5, "`predict(X)` must hold numbers; "),
    "a dictionary": (lambda X: {"a": 1.0}, "`predict(X)` must hold one number for each of 10 rows; its shape is ()"),
}  # fmt: skip


@pytest.mark.parametrize("model", BROKEN)
@pytest.mark.parametrize("rule", RULES)
def test_a_broken_model_is_its_agents_fault(model, rule):
    model, complaint = BROKEN[model]
    bad = agent("west", model)
    with expect_refused(complaint, agent="west"):
        bad.predict(rows())
    with expect_refused(complaint, agent="west"):
        Collective([agent(), bad], 3, rule).predict(rows())
    whole = collective(rule)
    joined = collective("average").join(bad)
    with expect_refused("`predict(X)`" if "`predict(X)`" in complaint else "its model must predict", agent="west"):
        joined.consult(rows(), fields=["beliefs"])
    if rule in SCORING:
        with nothing_lost(whole), expect_refused("must", agent="west"):
            whole.join(bad)
        with nothing_lost(whole), expect_refused("must", agent="south"):
            whole.replace(agent("south", model))


@pytest.mark.parametrize("rule", SCORING)
def test_a_model_that_fails_on_anothers_rows_is_named_not_the_other(rule):
    def picky(X):
        if len(X) == 12:
            raise RuntimeError("unknown patient")
        return first(X)

    west = agent("west", picky)
    assert Collective([agent(), west], 3, rule).predict(rows()).shape == (10,)
    with expect_refused("its model must predict; it raised RuntimeError: unknown patient", agent="west"):
        Collective([agent("south", X=rows(12)), west], 3, rule)
    whole = collective(rule)
    with nothing_lost(whole), expect_refused("RuntimeError: unknown patient", agent="west"):
        whole.join(west)
    with nothing_lost(whole), expect_refused("RuntimeError: unknown patient", agent="north"):
        whole.replace(agent("north", picky))
    peers = Collective([agent(), west], 3, rule)
    with nothing_lost(peers), expect_refused("RuntimeError: unknown patient", agent="west"):
        peers.join(agent("south", X=rows(12)))


@pytest.mark.parametrize("rule", RULES)
def test_a_model_that_fails_on_some_points_fails_those_only(rule):
    def picky(X):
        if (first(X) > 100).any():
            raise RuntimeError("out of range")
        return first(X)

    whole = Collective([agent(), agent("west", picky)], 3, rule)
    far = rows()
    far[0] = 1000
    with nothing_lost(whole), expect_refused("RuntimeError: out of range", agent="west"):
        whole.predict(far)


def test_what_the_model_said_is_kept():
    with pytest.raises(AgentError) as caught:
        agent(model=broken).predict(rows())
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_stopping_a_model_stops_everything():
    def interrupted(X):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Collective([agent(model=interrupted)], 3)


# -- spaces ------------------------------------------------------------------------------------------------------------


def in_space(where, space, rule="degroot", **settings):
    """A collective whose `space` is given to it, or to its second agent."""
    if where == "collective":
        return Collective([agent("north"), agent("south")], 3, rule, space=space, **settings)
    return Collective([agent("north"), agent("south", space=space)], 3, rule, **settings)


WHERE = pytest.mark.parametrize("where", ["agent", "collective"])


def culprit(where):
    return "south" if where == "agent" else "north"


@WHERE
@pytest.mark.parametrize("rule", SCORING)
@pytest.mark.parametrize("space", [3, "scaled", [StandardScaler()]])
def test_a_space_transforms(where, rule, space):
    with expect_refused("`space` must have transform(X) or be callable", type(space).__name__, agent=culprit(where)):
        in_space(where, space, rule)


SPACES = {
    "raises": (broken, "`space` must transform rows; it raised RuntimeError: the server is out of order (try again)"),
    "NaN": (lambda X: X * np.nan, "must be finite; row 0, column 0 is nan"),
    "inf": (lambda X: X + np.inf, "must be finite; row 0, column 0 is inf"),
    "strings": (lambda X: X.astype(str), "must hold numbers"),
    "1-D": (first, "must be 2-dimensional, (rows, features); its shape is (10,)"),
    "None": (lambda X: None, "must be 2-dimensional, (rows, features); its shape is ()"),
    "fewer rows": (lambda X: X[1:], "9"),
    "more rows": (lambda X: np.vstack([X, X]), "20"),
    "one row": (lambda X: X[:1], "1"),
    "no rows": (lambda X: X[:0], "0"),
}


@WHERE
@pytest.mark.parametrize("rule", SCORING)
@pytest.mark.parametrize("space", SPACES)
def test_a_space_gives_a_table_of_as_many_rows(where, rule, space):
    space, complaint = SPACES[space]
    with expect_refused("must", complaint, agent=culprit(where)):
        in_space(where, space, rule)
    whole = collective(rule)
    if where == "agent":
        with nothing_lost(whole), expect_refused("must", complaint, agent="west"):
            whole.join(agent("west", space=space))
        with nothing_lost(whole), expect_refused("must", complaint, agent="south"):
            whole.replace(agent("south", space=space))


@WHERE
@pytest.mark.parametrize("rule", SCORING)
@pytest.mark.parametrize("space", SPACES)
def test_a_space_that_fails_on_points_fails_those_only(where, rule, space):
    wrong, _ = SPACES[space]
    whole = in_space(where, lambda X: wrong(X) if len(X) == 9 else X, rule)  # the agents have ten rows
    with nothing_lost(whole), expect_refused("must"):
        whole.predict(rows(9))


@WHERE
def test_a_space_gives_points_as_many_features_as_rows(where):
    whole = in_space(where, lambda X: X if len(X) != 9 else X[:, :1])
    with nothing_lost(whole), expect_refused("must", "2", "1"):
        whole.predict(rows(9))


@WHERE
@pytest.mark.parametrize("kind", [csr_matrix, csr_array, coo_matrix, coo_array, pd.DataFrame, np.ndarray.tolist])
def test_a_space_may_give_any_table(where, kind):
    X = rows(9)
    assert_array_equal(in_space(where, lambda X: kind(X)).predict(X), in_space(where, lambda X: X).predict(X))


def test_a_space_that_is_not_fitted_is_fitted_on_each_agents_rows():
    stretch = {"a": np.array([1.0, 100.0]), "b": np.array([100.0, 1.0])}
    own = {name: rows(20, seed=k) * stretch[name] for k, name in enumerate("ab")}
    X, y = rows(15, seed=5) * 10, np.arange(20.0)

    def agents(space):
        return [Agent(lambda X, k=k: X[:, k], own[name], y, name, space=space(name)) for k, name in enumerate("ab")]

    given = StandardScaler()
    expected = Collective(agents(lambda name: StandardScaler().fit(own[name])), 3).predict(X)
    assert_array_equal(Collective(agents(lambda name: given), 3).predict(X), expected)
    assert_array_equal(Collective(agents(lambda name: None), 3, space=given).predict(X), expected)
    assert not hasattr(given, "mean_")
    fitted = StandardScaler().fit(own["a"])  # a space that is fitted stays as it is, for everybody
    same = Collective(agents(lambda name: fitted), 3).predict(X)
    assert_array_equal(Collective(agents(lambda name: None), 3, space=fitted).predict(X), same)
    assert (same != expected).any()


def test_a_space_that_cannot_be_fitted_is_refused():
    class Unfit(StandardScaler):
        def fit(self, X, y=None):
            raise RuntimeError("no\nfit")

    with expect_refused("`space` must fit its rows; it raised RuntimeError: no fit", agent="north"):
        in_space("collective", Unfit())


def test_a_space_that_does_not_fit_a_mixed_table_is_refused_with_what_does():
    table = pd.DataFrame({"town": ["Bree", "Archet"] * 10, "size": np.arange(20.0)})
    given = [Agent(lambda rows: np.zeros(len(rows)), table, np.arange(20.0), name) for name in ("north", "south")]
    with expect_refused("Without `space`, distances are taken by the schema.", agent="north"):
        Collective(given, space=StandardScaler())
    assert np.isfinite(Collective(given).predict(table)).all()


def test_an_agents_own_space_goes_before_the_collectives():
    whole = Collective([agent("north", space=lambda X: X), agent("south", space=lambda X: X)], 3, space=broken)
    assert_array_equal(whole.predict(rows()), Collective([agent("north"), agent("south")], 3).predict(rows()))


# -- held-out rows -----------------------------------------------------------------------------------------------------

SCHEMES = pytest.mark.parametrize("make", [cv_static, cv_adaptive, best_single])


def models(table=np.asarray):
    return [agent("north", X=table(rows())), agent("south", lambda X: first(X) + 1, X=table(rows(12)))]


@SCHEMES
def test_held_out_rows_are_rows(make):
    with expect_refused("must hold at least one row", agent="hold-out"):
        make(models(), np.zeros((0, 2)), [])
    with expect_refused("`X` must be 2-dimensional", agent="hold-out"):
        make(models(), np.zeros(3), np.zeros(3))
    with expect_refused("must have 2 features", "got 3", agent="hold-out"):
        make(models(), rows(d=3), np.zeros(10))
    with expect_refused("`y` must hold numbers for each of 10 rows", "(9,)", agent="hold-out"):
        make(models(), rows(), np.zeros(9))
    with expect_refused("at least one agent"):
        make([], rows(), np.zeros(10))


@SCHEMES
@pytest.mark.parametrize("value", WRONG_NUMBERS)
def test_held_out_rows_are_finite(make, value):
    X, y = rows(), np.zeros(10)
    X[3, 1] = y[4] = value
    with expect_refused("`X` must be finite", f"row 3, column 1 is {value}", agent="hold-out"):
        make(models(), X, np.zeros(10))
    with expect_refused("`y` must be finite", f"row 4 is {value}", agent="hold-out"):
        make(models(), rows(), y)
    whole = make(models(), rows(), np.zeros(10))
    before = whole.predict(rows(4))
    for ask in (whole.predict, whole.consult):
        with expect_refused("`X` must be finite", f"row 3, column 1 is {value}"):
            ask(X)
    assert_array_equal(whole.predict(rows(4)), before)


@SCHEMES
@pytest.mark.parametrize("names", ["ac", "ba"])
def test_held_out_rows_have_the_agents_features(make, names):
    def table(X, names="ab"):
        return pd.DataFrame(X, columns=list(names))

    with expect_refused("same features in the same order"):
        make(models(table), table(rows(), names), np.zeros(10))
    whole = make(models(table), table(rows()), np.zeros(10))
    with expect_refused("`X`", "same features in the same order"):
        whole.predict(table(rows(), names))


@SCHEMES
def test_points_have_the_features_of_held_out_rows(make):
    whole = make(models(), rows(), np.zeros(10))
    for ask in (whole.predict, whole.consult):
        with expect_refused("`X` must have 2 features", "got 3"):
            ask(rows(d=3))
        with expect_refused("`X` must be 2-dimensional"):
            ask(rows()[0])


@SCHEMES
@pytest.mark.parametrize("model", BROKEN)
def test_a_model_that_breaks_on_held_out_rows_is_its_agents_fault(make, model):
    model, complaint = BROKEN[model]
    with expect_refused(complaint, agent="west"):
        make([*models(), agent("west", model)], rows(), np.zeros(10)).predict(rows())


def test_the_settings_of_held_out_rows_are_checked():
    for settings, part in (
        ({"neighbours": 11}, "at most the number of rows, 10"),
        ({"neighbours": 0}, "at least 1"),
        ({"neighbours": True}, "whole number or a fraction"),
        ({"metric": "Euclid"}, "`metric` must be one of"),
        ({"kernel": "box"}, "`kernel` must be one of"),
        ({"space": 3}, "`space` must have transform(X)"),
    ):
        with expect_refused(part):
            cv_adaptive(models(), rows(), np.zeros(10), **settings)


# -- the estimator -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [
    {"neighbours": 0}, {"neighbours": "5"}, {"neighbours": 1.5}, {"neighbours": 9}, {"rule": "vote"},
    {"metric": "Euclid"}, {"kernel": "box"}, {"space": 3},
])  # fmt: skip
def test_the_estimator_refuses_what_the_collective_refuses(settings):
    with expect_refused("must"):
        DeGrootRegressor(n_agents=2, **settings).fit(rows(), np.zeros(10))


@pytest.mark.parametrize("value", WRONG_NUMBERS)
@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_the_estimator_refuses_frames_with_gaps_in_one_line(kind, value):
    X, y = rows(), np.zeros(10)
    X[3, 1] = y[4] = value

    def table(X):
        return kind({"a": X[:, 0], "b": X[:, 1]})

    said = ["column 'b' is NaN in 1 of"] if np.isnan(value) else [f"column 1 is {value}"]
    with expect_refused("Agent 'agent ", "must train on" if np.isnan(value) else "must be finite", *said):
        DeGrootRegressor(n_agents=2).fit(table(X), np.zeros(10))
    with expect_refused("`y` must be finite", str(value)):
        DeGrootRegressor(n_agents=2).fit(table(rows()), y)
    model = DeGrootRegressor(n_agents=2).fit(table(rows()), np.zeros(10))
    with expect_refused("`X` must be finite", *said):
        model.predict(table(X))


def test_the_estimator_refuses_frames_without_rows():
    with expect_refused("`X` must have at least one row", "none"):
        DeGrootRegressor().fit(pd.DataFrame({"a": []}), [])


@pytest.mark.parametrize(
    ("parts", "what"),
    [
        ([], "at least one agent"),
        ([[0, 1, 2], []], "row"),
        ([[0, 1], [2, 99]], "99"),
        ([0, 1, 2], "row"),
        (None, "partition"),
    ],
)
def test_ones_own_deal_gives_every_agent_rows(parts, what):
    with expect_refused(what):
        DeGrootRegressor(partition=lambda X, y: parts).fit(rows(), np.zeros(10))


def test_numbers_whose_squares_are_beyond_all_numbers_are_refused():
    with expect_refused("`y` must not exceed 1e+140", "1e+150", agent="north"):
        Agent(first, rows(), np.full(10, 1e150), "north")
    with expect_refused("`predict(X)` must not exceed 1e+140", agent="south"):
        Collective([agent(), agent("south", model=lambda X: np.full(len(X), 1e200))], 3)


@pytest.mark.parametrize("fields", [None, 3])
def test_fields_are_names(fields):
    with expect_refused("`fields` must be names of fields", repr(fields)):
        collective().consult(rows(), fields=fields)


@pytest.mark.parametrize("estimator", ["ridge", Ridge, [Ridge(), None]])
def test_an_estimator_is_one(estimator):
    with expect_refused("`estimator` must be an estimator"):
        DeGrootRegressor(estimator, n_agents=2).fit(rows(), np.zeros(10))


@pytest.mark.parametrize("n_jobs", ["a", 0, 1.5])
def test_jobs_are_a_number(n_jobs):
    with expect_refused("`n_jobs` must be a whole number other than 0", repr(n_jobs)):
        Collective([agent()], 3, n_jobs=n_jobs)
