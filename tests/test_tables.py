"""Tables: what is looked at number by number, for a few, is as numpy finds it."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.testing import assert_array_equal

from degroot.compute.compiled import as_kernel_array
from degroot.compute.tables import FEW_NUMBERS, find_largest_magnitude, is_finite, to_numbers

NUMBERS = st.floats() | st.sampled_from([1.7e308, -1.7e308, 0.0, -0.0])
TABLES = arrays(np.float64, array_shapes(max_dims=3, min_side=0, max_side=9), elements=NUMBERS)


@given(TABLES)
def test_few_numbers_are_finite_if_numpy_says_so(values):
    assert is_finite(values) == np.isfinite(values).all()


@given(TABLES)
def test_the_largest_of_few_numbers_is_numpys(values):
    assert_array_equal(find_largest_magnitude(values), np.abs(values).max(initial=0.0))


def test_both_are_tried_on_few_and_on_many():
    for size in (FEW_NUMBERS, FEW_NUMBERS + 1):
        values = np.arange(float(size))
        assert is_finite(values)
        assert find_largest_magnitude(values) == size - 1
        values[size // 2] = np.nan
        assert not is_finite(values)
        assert np.isnan(find_largest_magnitude(values))


def test_numbers_in_the_other_byte_order_are_turned():
    given = np.array([[1.0, 2.0]])
    turned = to_numbers(given.astype(">f8"))
    assert turned.dtype.isnative
    assert_array_equal(turned, given)
    assert to_numbers(given) is given


def test_kernels_get_arrays_as_they_are_or_copies_in_their_layout():
    plain = np.arange(6.0).reshape(2, 3)
    assert as_kernel_array(plain) is plain
    fixed = plain.copy()
    fixed.setflags(write=False)
    mapped = plain.view(np.memmap)
    for other in (plain.T, plain[:, ::2], plain.astype(">f8"), plain.astype(np.float32), fixed, mapped, plain.tolist()):
        turned = as_kernel_array(other)
        assert turned.flags.carray
        assert turned.dtype == np.float64
        assert turned.dtype.isnative
        assert_array_equal(turned, np.asarray(other))
