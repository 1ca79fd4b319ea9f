"""Noise by OpenDP: its discrete Gaussian mechanism and its accounting. No other module imports OpenDP."""

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.exceptions import InvalidInput

NEEDED = "Evidence maps need extra packages: pip install 'degroot[maps]'"
SCALES = (0.02, 1e5)  # least and largest standard deviation that is looked for, over the sensitivity


@lru_cache(maxsize=64)
def find_noise_scale(sensitivity: float, epsilon: float, delta: float) -> float:
    """The least standard deviation with which whole numbers are (epsilon, delta)-private, as OpenDP finds it.

    Parameters
    ----------
    sensitivity : largest Euclidean distance between the tables of neighbouring data sets
    """
    dp = _import_opendp()

    def make_private(scale: float) -> Any:
        return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(_make_gaussian(dp, scale)), delta)

    bounds = (SCALES[0] * sensitivity, SCALES[1] * sensitivity)
    try:
        found = dp.binary_search_param(make_private, d_in=sensitivity, d_out=(epsilon, delta), bounds=bounds)
    except (dp.OpenDPException, ValueError) as error:
        raise InvalidInput(
            f"OpenDP must find noise for epsilon {epsilon:g} and delta {delta:g}; it did not."
        ) from error
    return float(found)


def add_noise(table: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
    """The table with independent discrete Gaussian noise of this standard deviation, from the system's random bits."""
    return np.array(_make_gaussian(_import_opendp(), scale)(table.ravel().tolist()), np.int64).reshape(table.shape)


def bound_root(squared: int) -> float:
    """A float that is not below the square root of a whole number."""
    return math.nextafter(math.sqrt(squared), math.inf)


def _make_gaussian(dp: Any, scale: float) -> Any:
    return dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64"), scale)


def _import_opendp() -> Any:
    try:
        import opendp.prelude as dp
    except ImportError as error:
        raise InvalidInput(f"{NEEDED}.") from error
    dp.enable_features("contrib")
    return dp
