"""Whose numbers are likely in another unit than those of the others."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from degroot.schema import Column
from degroot.schema.matching import UNIT_FACTORS
from degroot.schema.sites import Site, SiteColumn
from degroot.training.unit_checks import MIN_FACTOR, WIDE_FACTORS, find_other_units


def test_degrees_are_told_apart():
    random = np.random.default_rng(0)
    celsius = [random.normal(15, 6, 80) for _ in range(4)]
    assert find_other_units(celsius, Column("temp")) == []
    (found,) = find_other_units([*celsius[:3], celsius[3] * 1.8 + 32], Column("temp"))
    assert (found.place, found.factor, found.offset) == (3, pytest.approx(1 / 1.8), pytest.approx(-32 / 1.8))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("spread", [0.1, 0.5, 1.0])
def test_organisations_that_differ_by_themselves_are_not_suspected(seed, spread):
    random = np.random.default_rng(seed)
    levels = np.exp(random.normal(5.0, spread, 12))
    assert find_other_units([level * np.exp(random.normal(0, 0.5, 50)) for level in levels], Column("y")) == []


@pytest.mark.parametrize("factor", [0.001, 0.01, 100.0, 1000.0])
def test_each_organisation_with_another_unit_is_found(factor):
    random = np.random.default_rng(1)
    columns = [level * np.exp(random.normal(0, 0.5, 50)) for level in (90.0, 100.0, 110.0, 120.0, 100.0)]
    columns[1], columns[4] = columns[1] * factor, columns[4] * factor
    found = find_other_units(columns, Column("y"))
    assert [(each.place, each.factor) for each in found] == [(1, 1.0 / factor), (4, 1.0 / factor)]


@pytest.mark.parametrize("level", [40.0, 300.0])
def test_an_organisation_beyond_the_range_of_the_others_is_found_by_its_unit(level):
    random = np.random.default_rng(2)
    columns = [each * np.exp(random.normal(0, 0.2, 50)) for each in (80.0, 100.0, 120.0, 150.0)]
    columns.append(level * np.exp(random.normal(0, 0.2, 50)))
    assert find_other_units(columns, Column("y")) == []
    columns[4] = columns[4] / 1000.0
    (found,) = find_other_units(columns, Column("y"))
    assert (found.place, found.factor) == (4, 1000.0)


@given(
    factor=st.sampled_from([each for each in UNIT_FACTORS if each >= MIN_FACTOR]), divides=st.booleans(),
    level=st.floats(-8.0, 8.0), spread=st.floats(0.05, 1.5), n_agents=st.integers(3, 6),
)  # fmt: skip
def test_parts_of_one_population_differ_by_the_factor_alone(factor, divides, level, spread, n_agents):
    shares = np.linspace(0.0, 1.0, 200 * n_agents + 2)[1:-1]
    columns = [np.exp(level + spread * norm.ppf(shares[k::n_agents])) for k in range(n_agents)]
    assert find_other_units(columns, Column("y")) == []
    columns[1] = columns[1] / factor if divides else columns[1] * factor
    (found,) = find_other_units(columns, Column("y"))
    assert found.place == 1
    assert found.is_certain
    assert any(np.isclose(each, factor if divides else 1.0 / factor) for each in found.factors)


def test_factors_that_are_near_each_other_are_all_named():
    random = np.random.default_rng(3)
    columns = [np.exp(random.normal(3.0, 0.4, 400)) for _ in range(4)]
    columns[2] = columns[2] / 11.0
    (found,) = find_other_units(columns, Column("y"))
    assert {10.0, 12.0} <= set(np.round(found.factors, 6))
    assert " or " in found.describe()
    line = found.write_line("y", Site({"y": SiteColumn(name="Y")}))
    assert line.startswith('columns.y = { name = "Y", factor = ')
    assert "(or " in line


def test_two_organisations_that_differ_by_a_common_ratio_are_not_certain():
    random = np.random.default_rng(4)
    one = np.exp(random.normal(3.0, 0.1, 200))
    (found,) = find_other_units([one, 2.2 * np.exp(random.normal(3.0, 0.1, 200))], Column("y"))
    assert not found.is_certain
    (found,) = find_other_units([one, one * 1000.0], Column("y"))
    assert found.is_certain
    assert found.factor in WIDE_FACTORS


def test_what_is_said_of_numbers_around_zero_is_their_spread():
    random = np.random.default_rng(5)
    columns = [random.normal(0.0, 10.0, 300) for _ in range(3)]
    columns[0] = columns[0] / 1000.0
    (found,) = find_other_units(columns, Column("y"))
    assert found.factor == 1000.0
    assert found.reference / found.scale == pytest.approx(1000.0, rel=0.3)
    assert "between the 10 % and 90 % quantiles" in found.describe()
