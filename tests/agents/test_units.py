"""Units of an agent: labels of any kind, coded in the order in which they appear, and never in two agents."""

import datetime
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from support.refusals import complaint

from degroot import Agent, Collective
from degroot.exceptions import AgentError


def agent(units, name="north"):
    X = np.arange(4.0)[:, None]
    return Agent(lambda X: X[:, 0], X, X[:, 0] + 1.0, name, units=units)


# -- coding ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "units",
    [
        [7, 3, 7, 5], [7.5, -3.0, 7.5, np.inf], ["bob", "ann", "bob", "cy"], [True, False, True, False],
        np.array(["bob", "ann", "bob", "cy"], dtype=object), pd.Series(["b", "a", "b", "c"], index=[9, 8, 7, 6]),
        pd.Series(["b", "a", "b", "c"], dtype="category"), pd.Series(["b", "a", "b", "c"], dtype="string"),
        pd.Series(pd.to_datetime(["2024-01-02", "2024-01-01", "2024-01-02", "2024-01-03"])),
        np.array([datetime.date(2024, 1, day) for day in (2, 1, 2, 3)]),
    ],
    ids=str.split("whole numbers texts flags objects series category string times dates"),
)  # fmt: skip
def test_labels_of_any_kind_are_kept_as_given_and_coded_in_order_of_appearance(units):
    made = agent(units)
    assert_array_equal(made.units, np.asarray(units))
    assert made.unit_codes.dtype == np.intp
    assert made.unit_codes.tolist() == ([0, 1, 0, 2] if len(set(units)) == 3 else [0, 1, 0, 1])
    assert made.unit_codes is made.unit_codes


def test_without_units_each_row_is_its_own():
    made = agent(None)
    assert made.units is None
    assert made.unit_codes.tolist() == [0, 1, 2, 3]
    assert made.n_units == 4
    assert "unit" not in repr(made) + str(made)


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=30))
def test_codes_say_which_rows_are_of_one_unit_and_count_from_0(labels):
    X = np.zeros((len(labels), 1))
    codes = Agent(lambda X: X[:, 0], X, X[:, 0], "north", units=labels).unit_codes
    assert codes.tolist() == [list(dict.fromkeys(labels)).index(label) for label in labels]


def test_an_agent_shows_how_many_units_it_has():
    made = agent(["a", "b", "a", "c"])
    assert repr(made).endswith("4 rows x 1 features, 3 units)")
    assert "units: 3" in made._repr_html_()


def test_units_survive_a_pickle():
    X = np.arange(4.0)[:, None]
    made = Agent(np.ravel, X, X[:, 0], "north", units=["b", "a", "b", "c"])
    assert made.unit_codes.tolist() == pickle.loads(pickle.dumps(made)).unit_codes.tolist() == [0, 1, 0, 2]


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("units", "told"),
    [
        ([1, 2, 3], "`units` must hold one label for each of 4 rows; its shape is (3,)."),
        ([[1], [2], [3], [4]], "`units` must hold one label for each of 4 rows; its shape is (4, 1)."),
        ("patient", "`units` must hold one label for each of 4 rows; its shape is ()."),
        ([[1], [2, 3], [4], [5]], "`units` must hold one label for each row; ValueError"),
        ([1.0, 2.0, np.nan, 2.0], "`units` must hold no missing labels; row 2 is nan."),
        (["a", "b", "", "b"], "`units` must hold no missing labels; row 2 is empty."),
        (["a", None, "b", "b"], "`units` must hold no missing labels; row 1 is None."),
        (np.array(["a", "", "b", "b"], dtype=object), "`units` must hold no missing labels; row 1 is empty."),
        (pd.Series([1, None, 2, 2], dtype="Int64"), "`units` must hold no missing labels; row 1 is "),
        (pd.to_datetime(["2024-01-01", None, "2024-01-01", "2024-01-01"]), "missing labels; row 1 is NaT."),
        (np.array([1, "a", 2, "b"], dtype=object), "`units` must hold labels that can be sorted; '<' not supported"),
        (np.ma.masked_equal([1, 2, 3, 3], 2), "`units` must hold one label for each row; some of it is masked."),
    ],
)
def test_what_is_no_label_for_each_row_is_refused(units, told):
    message = complaint(lambda: agent(units))
    assert message.startswith("Agent 'north': ")
    assert told in message
    with pytest.raises(AgentError):
        agent(units)


def test_units_must_not_span_agents():
    north, south = agent([15, 16, 17, 17]), agent([18, 17, 19, 20], "south")
    told = (
        "Units must not span agents; unit 17 is in 'north' and in 'south'. If these are different units, label them "
        "apart."
    )
    assert complaint(lambda: Collective([north, south], 2)) == told
    collective = Collective([north, agent([1, 2, 3, 4], "south")], 2)
    assert complaint(lambda: collective.replace(south)) == told
    assert complaint(lambda: Collective([north], 2).join(south)) == told
    assert "unit 'b'" in complaint(lambda: Collective([agent(list("abcd")), agent(list("xyzb"), "south")], 2))


def test_agents_with_and_without_units_go_together():
    collective = Collective([agent([1, 1, 2, 3]), agent(None, "south"), agent(list("abcd"), "west")], 2)
    plain = Collective([agent(None, name) for name in ("north", "south", "west")], 2)
    assert_array_equal(collective.predict([[1.5]]), plain.predict([[1.5]]))
