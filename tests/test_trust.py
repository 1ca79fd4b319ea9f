import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from support import oracle

from degroot.exceptions import InvalidInput
from degroot.trust import EPS, from_errors

ordinary = st.floats(1e-6, 1e6)
any_error = st.one_of(st.just(0.0), st.floats(0, 1e300), st.floats(1e-200, 1e-100), st.floats(1e-3, 1e3))
shapes = hnp.array_shapes(min_dims=1, max_dims=3, max_side=6)


def errors_of(elements):
    return hnp.arrays(float, shapes, elements=elements)


@given(errors_of(any_error))
def test_trust_is_positive_and_rows_sum_to_one(errors):
    trust = from_errors(errors)
    assert trust.shape == errors.shape
    assert (trust > 0).all()
    np.testing.assert_allclose(trust.sum(axis=-1), 1.0, rtol=1e-14)


@given(errors_of(ordinary))
def test_trust_is_in_inverse_proportion_to_the_error(errors):
    inverse = 1 / errors
    np.testing.assert_allclose(from_errors(errors), inverse / inverse.sum(axis=-1, keepdims=True), rtol=1e-14)


@given(errors_of(any_error))
def test_trust_is_that_of_the_oracle(errors):
    expected = [oracle.trust_row(row) for row in errors.reshape(-1, errors.shape[-1])]
    np.testing.assert_allclose(from_errors(errors), np.reshape(expected, errors.shape), rtol=1e-13)


@given(errors_of(st.one_of(st.just(0.0), ordinary)), st.floats(1e-100, 1e100))
def test_trust_does_not_depend_on_the_unit_of_the_errors(errors, unit):
    np.testing.assert_allclose(from_errors(errors * unit), from_errors(errors), rtol=1e-13)


@given(errors_of(st.one_of(st.just(0.0), ordinary)), st.integers(-300, 300))
def test_trust_is_the_same_to_the_bit_in_units_that_are_powers_of_two(errors, power):
    np.testing.assert_array_equal(from_errors(np.ldexp(errors, power)), from_errors(errors))


@given(hnp.arrays(float, st.integers(2, 20), elements=ordinary), st.data())
def test_the_only_model_without_error_gets_nearly_all_trust(errors, data):
    place = data.draw(st.integers(0, len(errors) - 1))
    errors[place] = 0.0
    trust = from_errors(errors)
    others = np.delete(trust, place)
    least = errors[errors > 0].min()
    assert trust[place] >= 1 - 1e-15 - len(errors) * EPS * errors.max() / least
    assert (others > 0).all()


@given(hnp.arrays(float, st.integers(2, 20), elements=ordinary), st.integers(1, 5))
def test_models_without_error_share_trust_alike(errors, perfect):
    trust = from_errors(np.concatenate([np.zeros(perfect), errors]))
    assert (trust[:perfect] == trust[0]).all()
    assert (trust[perfect:] < trust[0]).all()


@given(shapes)
def test_when_no_model_errs_all_are_trusted_alike(shape):
    np.testing.assert_allclose(from_errors(np.zeros(shape)), 1 / shape[-1], rtol=1e-15)


@given(errors_of(any_error), st.data())
def test_less_error_never_means_less_trust(errors, data):
    trust = from_errors(errors)
    order = np.argsort(errors, axis=-1)
    sorted_trust = np.take_along_axis(trust, order, axis=-1)
    assert (np.diff(sorted_trust, axis=-1) <= 0).all()


def test_one_model_gets_all_trust():
    np.testing.assert_array_equal(from_errors([[0.0], [3.0]]), 1.0)


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4), (5, 2, 3, 4)])
def test_rows_are_independent_of_what_they_come_with(shape):
    errors = np.random.default_rng(0).exponential(size=shape)
    trust = from_errors(errors)
    for place in np.ndindex(shape[:-1]):
        np.testing.assert_array_equal(trust[place], from_errors(errors[place]))


@pytest.mark.parametrize("shape", [(0, 3), (0, 3, 3), (2, 0, 3)])
def test_no_points_give_no_trust(shape):
    assert from_errors(np.empty(shape)).shape == shape


def test_many_points_give_the_trust_of_each():
    errors = np.random.default_rng(0).exponential(size=(200_000, 7))
    np.testing.assert_array_equal(from_errors(errors)[::1999], from_errors(errors[::1999]))


def test_any_memory_layout_gives_the_same_and_is_left_alone():
    errors = np.random.default_rng(1).exponential(size=(6, 5, 5))
    expected, before = from_errors(errors), errors.copy()
    errors.flags.writeable = False
    np.testing.assert_array_equal(from_errors(errors), expected)
    np.testing.assert_array_equal(from_errors(np.asfortranarray(errors)), expected)
    np.testing.assert_array_equal(from_errors(np.repeat(errors, 2, axis=2)[..., ::2]), expected)
    np.testing.assert_array_equal(from_errors(errors[::-1])[::-1], expected)
    np.testing.assert_array_equal(from_errors(errors.tolist()), expected)
    np.testing.assert_array_equal(errors, before)


def test_single_precision_errors_are_taken():
    errors = np.random.default_rng(1).exponential(size=(6, 5)).astype(np.float32)
    trust = from_errors(errors)
    assert trust.dtype == np.float64
    np.testing.assert_array_equal(trust, from_errors(errors.astype(float)))


def test_whole_numbers_are_taken():
    np.testing.assert_allclose(from_errors([[1, 4], [2, 2]]), [[0.8, 0.2], [0.5, 0.5]])


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -1.0])
def test_errors_that_cannot_be_are_refused(wrong):
    with pytest.raises(InvalidInput, match="`errors` must be finite and not negative"):
        from_errors([wrong, 1.0])
