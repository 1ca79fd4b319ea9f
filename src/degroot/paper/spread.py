"""Mean and spread over repetitions, as a text."""

import math
from collections.abc import Iterable

import numpy as np


def plus_minus(values: Iterable[float]) -> str:
    """Mean and standard deviation over repetitions, with as many digits as the latter deserves.

    Examples
    --------
    >>> plus_minus([3.0, 3.1, 3.3])
    '3.13 ± 0.15'
    """
    sample = np.asarray(list(values), dtype=float)
    if not len(sample):
        return "left out"
    mean, spread = float(sample.mean()), float(sample.std(ddof=1)) if len(sample) > 1 else math.nan
    if not spread > 0:
        return f"{mean:.4g}"
    if max(abs(mean), spread) < 0.01:
        return f"{mean:.2e} ± {spread:.1e}"
    digits = max(0, 1 - math.floor(math.log10(spread)))
    return f"{round(mean, digits) + 0.0:.{digits}f} ± {spread:.{digits}f}"  # no "-0"
