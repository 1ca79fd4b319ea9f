"""Which agents the labels of rows stand for."""

import numpy as np
import pandas as pd
import pytest

from degroot.consultation.groups import SHOWN, Unmatched, match_groups


@pytest.mark.parametrize(
    ("labels", "names", "expected"),
    [
        (np.array(["b", "a", "c"]), ["a", "b"], ["b", "a", None]),
        (np.array([" a", "b ", "a b"]), ["a", "b"], ["a", "b", None]),
        (np.array([" a", "a"]), ["a", " a"], [" a", "a"]),  # as it is written goes first
        (np.array([1, 2, 3]), ["1", "2.0"], ["1", "2.0", None]),
        (np.array([1.0, np.nan, 1.5]), ["1", "1.5", "nan"], ["1", None, "1.5"]),
        (np.array(["1.0", "007", "-2.0"]), ["1", "7", "-2"], ["1", None, "-2"]),
        (np.array([True, False]), ["True", "0"], ["True", None]),
        (np.array([None, pd.NA, "", np.nan, pd.NaT, "a"], dtype=object), ["a", "None", "nan"], [None] * 5 + ["a"]),
        (np.array(["2024-01-05", "2024-01-06"], "datetime64[D]"), ["2024-01-05"], ["2024-01-05", None]),
        (np.array([], dtype=object), ["a"], []),
    ],
)
def test_a_label_stands_for_the_agent_of_that_name(labels, names, expected):
    found, unmatched = match_groups(labels, names)
    assert found.tolist() == expected
    assert unmatched.rows == expected.count(None)


def test_only_a_few_strange_labels_are_kept():
    _, unmatched = match_groups(np.array([str(k) for k in range(100)] * 2), ["0"])
    assert unmatched == Unmatched(198, tuple(repr(str(k)) for k in range(1, SHOWN + 2)))
    assert "('1', '2', '3', '4', '5' ...)" in unmatched.describe(200, "a group")


def test_runs_of_rows_are_counted_together():
    runs = [Unmatched(2, ("'x'", "missing")), Unmatched(), Unmatched(1, ("'y'",)), Unmatched(3, ("'x'",))]
    assert Unmatched.joined(runs) == Unmatched(6, ("'x'", "missing", "'y'"))
    assert Unmatched.joined([]) == Unmatched()


@pytest.mark.parametrize(
    ("rows", "of", "told"),
    [(3, 10, "3 of 10 rows have"), (1, 10, "1 of 10 rows has"), (1, 1, "1 of 1 row has"), (2000, 3000, "2,000 of")],
)
def test_it_is_told_in_a_sentence(rows, of, told):
    text = Unmatched(rows, ("'x'",)).describe(of, "a 'who'")
    assert text.startswith(told)
    assert text.endswith(f": {'it gets' if rows == 1 else 'they get'} the neutral consensus")
