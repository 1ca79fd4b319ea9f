"""Statistics: whether repetitions settle that a mean is above or below 0, or chance could have decided."""

import math
from collections.abc import Iterable

import numpy as np
import pandas as pd


def standard_error(values: pd.Series) -> float:
    """The standard error of the mean over repetitions; NaN with one."""
    return float(values.std(ddof=1)) / math.sqrt(len(values))


def above_zero(*samples: pd.Series) -> bool | None:
    """Whether the means are above 0: True or False by more than two standard errors, None where that is not settled.

    Of several samples all have to be above, and one that is below decides.
    """
    if any(values.mean() < -2 * standard_error(values) for values in samples):
        return False
    above = [values.mean() > 2 * standard_error(values) for values in samples]
    return True if above and all(above) else None


def unsettled(repetitions: int) -> str:
    """What a finding says that is not settled."""
    return f"Not settled by {_number(repetitions)}."


def with_error(values: pd.Series) -> str:
    """The mean over repetitions and its standard error, which it does without if there is one repetition."""
    mean, error = float(values.mean()), standard_error(values)
    if not error > 0:
        return f"{mean:.3g}"
    digits = max(0, 1 - math.floor(math.log10(error)))
    return f"{mean:.{digits}f} ± {error:.{digits}f}"


def told(values: pd.Series) -> str:
    """The same, with the words for it."""
    return f"{with_error(values)} ({'mean and standard error over ' if len(values) > 1 else ''}{_number(len(values))})"


def _number(repetitions: int) -> str:
    return "a single repetition" if repetitions == 1 else f"{repetitions} repetitions"


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
