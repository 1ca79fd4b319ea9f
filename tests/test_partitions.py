import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from degroot import partitions
from degroot.exceptions import InvalidInput

seeds = st.integers(0, 2**32 - 1)
fractions = st.floats(0, 1)
columns = st.one_of(
    st.lists(st.integers(0, 3), min_size=1, max_size=60),
    st.lists(st.floats(allow_nan=False), min_size=1, max_size=60),
    st.lists(st.text(st.characters(exclude_characters="\0"), max_size=2), min_size=1, max_size=60),
)


@st.composite
def tables(draw):
    """A column of values, and a number of agents that it can be dealt to."""
    values = np.array(draw(columns))
    return values, draw(st.integers(1, len(values)))


def assert_each_row_once(parts, n_rows):
    assert all(np.issubdtype(rows.dtype, np.integer) and np.all(np.diff(rows) > 0) for rows in parts)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(n_rows))


def assert_same(parts, others):
    assert [rows.tolist() for rows in parts] == [rows.tolist() for rows in others]


def spread(sizes):
    return max(sizes) - min(sizes)


@given(tables(), fractions, seeds)
def test_every_row_goes_to_one_agent_and_sizes_are_even(table, fraction, seed):
    values, n_agents = table
    parts = partitions.by_order(values, n_agents, fraction, seed)
    assert len(parts) == n_agents
    assert_each_row_once(parts, len(values))
    assert spread([len(rows) for rows in parts]) <= 1


@given(tables(), seeds)
def test_nothing_in_order_is_the_random_deal(table, seed):
    values, n_agents = table
    assert_same(partitions.by_order(values, n_agents, 0, seed), partitions.random(len(values), n_agents, seed))


@given(tables())
def test_all_in_order_gives_runs_of_the_sorted_rows_whatever_the_seed(table):
    values, n_agents = table
    parts = partitions.by_order(values, n_agents)
    in_order = np.argsort(values, kind="stable")
    assert_same(parts, [np.sort(run) for run in np.array_split(in_order, n_agents)])


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n))), fractions, seeds)
def test_both_portions_are_even(numbers, fraction, seed):
    n_rows, n_agents = numbers
    # The rows dealt in order are the first of the shuffle, so a larger fraction sorts the same rows and more.
    n_sorted = round(fraction * n_rows)
    in_order = np.random.default_rng(seed).permutation(n_rows)[:n_sorted]
    parts = partitions.by_order(np.arange(n_rows), n_agents, fraction, seed)
    runs = [np.intersect1d(rows, in_order) for rows in parts]
    np.testing.assert_array_equal(np.concatenate(runs), np.sort(in_order))
    assert spread([len(run) for run in runs]) <= 1
    assert spread([len(rows) - len(run) for rows, run in zip(parts, runs, strict=True)]) <= 1


def test_more_in_order_makes_the_agents_more_different():
    values = np.random.default_rng(0).normal(size=5000)

    def difference(fraction):
        return np.ptp([values[rows].mean() for rows in partitions.by_order(values, 5, fraction, 1)])

    steps = [difference(fraction) for fraction in (0, 0.25, 0.5, 0.75, 1)]
    assert steps == sorted(steps)
    assert steps[0] < 0.3  # about 1/sqrt(1000) for each mean
    assert steps[-1] > 2


def test_at_random_every_row_is_as_likely_to_go_anywhere():
    source = np.random.default_rng(0)
    deals, n_rows, n_agents = 2000, 7, 3
    counts = np.zeros((n_agents, n_rows))
    for _ in range(deals):
        for agent, rows in enumerate(partitions.random(n_rows, n_agents, source)):
            counts[agent, rows] += 1
    chance = np.array([3, 2, 2])[:, None] / n_rows
    assert np.all(np.abs(counts - deals * chance) < 5 * np.sqrt(deals * chance * (1 - chance)))


@pytest.mark.parametrize("source", [int, np.random.default_rng, np.random.RandomState])
def test_the_same_seed_gives_the_same_deal(source):
    values = np.arange(50) % 7
    first = partitions.by_order(values, 4, 0.5, source(3))
    assert_same(first, partitions.by_order(values, 4, 0.5, source(3)))
    assert [r.tolist() for r in first] != [r.tolist() for r in partitions.by_order(values, 4, 0.5, source(4))]


def test_without_a_seed_deals_differ():
    first, second = (partitions.random(100, 2) for _ in range(2))
    assert first[0].tolist() != second[0].tolist()


@given(columns)
def test_a_group_is_an_agent(groups):
    groups = np.array(groups)
    labels, parts = partitions.by_group(groups)
    assert_each_row_once(parts, len(groups))
    assert len(labels) == len(parts)
    for label, rows in zip(labels, parts, strict=True):
        np.testing.assert_array_equal(rows, np.flatnonzero(groups == label))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.permutations("abcdef"))
def test_other_names_for_the_groups_give_the_same_parts(groups, names):
    labels, parts = partitions.by_group(groups)
    renamed, same = partitions.by_group([names[group] for group in groups])
    by_name = dict(zip(renamed.tolist(), same, strict=True))
    assert_same(parts, [by_name[names[label]] for label in labels])


@pytest.mark.parametrize("frame", [pd.Series, pl.Series, pd.Categorical, list])
def test_columns_of_data_frames_are_groups(frame):
    labels, parts = partitions.by_group(frame(["west", "east", "west"]))
    assert labels.tolist() == ["east", "west"]
    assert_same(parts, [np.array([1]), np.array([0, 2])])


@pytest.mark.parametrize("n_agents", [0, -1, 2.0, "2"])
def test_the_number_of_agents_is_positive(n_agents):
    with pytest.raises(InvalidInput, match="`n_agents` must be a whole number, at least 1; got "):
        partitions.random(10, n_agents)


@pytest.mark.parametrize("n_rows", [0, -1, 10.0])
def test_the_number_of_rows_is_positive(n_rows):
    with pytest.raises(InvalidInput, match="`n_rows` must be a whole number, at least 1; got "):
        partitions.random(n_rows, 1)


def test_every_agent_gets_a_row():
    with pytest.raises(InvalidInput, match="Every agent must get a row; got n_samples=3 for 4 agents"):
        partitions.random(3, 4)
    with pytest.raises(InvalidInput, match="Every agent must get a row; got n_samples=3 for 4 agents"):
        partitions.by_order([1, 2, 3], 4)


@pytest.mark.parametrize("fraction", [-0.1, 1.1, np.nan])
def test_a_fraction_lies_between_0_and_1(fraction):
    with pytest.raises(InvalidInput, match=f"`fraction` must lie between 0 and 1; got {fraction}"):
        partitions.by_order([1, 2, 3], 2, fraction)


@pytest.mark.parametrize(
    "values",
    [
        [1.0, np.nan],
        np.array(["2020-01-01", "NaT"], dtype="M8[D]"),
        np.array(["a", None], dtype=object),
        np.array([1, np.nan], dtype=object),
        pd.Series([1, None], dtype="Int64"),
        pd.Series(["a", None]),
        pl.Series(["a", None]),
    ],
)
def test_missing_values_are_refused(values):
    with pytest.raises(InvalidInput, match="`values` must not hold missing values; row 1 is "):
        partitions.by_order(values, 2)
    with pytest.raises(InvalidInput, match="`groups` must not hold missing values; row 1 is "):
        partitions.by_group(values)


@pytest.mark.parametrize("values", [[], [[1, 2], [3, 4]], 3])
def test_there_is_one_value_for_each_row(values):
    with pytest.raises(InvalidInput, match="must hold one value for each row; its shape is "):
        partitions.by_order(values, 1)
    with pytest.raises(InvalidInput, match="must hold one value for each row; its shape is "):
        partitions.by_group(values)


def test_values_can_be_sorted():
    with pytest.raises(InvalidInput, match="`groups` must hold values that can be sorted; '<' not supported"):
        partitions.by_group(np.array(["a", 1], dtype=object))
