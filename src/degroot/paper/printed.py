"""The printed gains of table 1, and how ours compare with them."""

import numpy as np
import pandas as pd

from degroot.paper.schemes import OF_TABLE_1

COMPARED = OF_TABLE_1[1:]

TABLE_1: dict[tuple[str, str], tuple[float, tuple[float, float], tuple[float, float], tuple[float, float]]] = {
    ("boston", "Ridge"): (25.23, (-12.45, 2.29), (-10.24, 1.90), (-2.80, 1.72)),
    ("boston", "Lasso"): (24.17, (-13.70, 1.72), (-10.35, 1.16), (-3.46, 1.44)),
    ("boston", "NN"): (14.18, (-15.18, 3.43), (-11.01, 3.08), (-5.81, 3.20)),
    ("e2006", "Ridge"): (0.15, (-0.12, 0.06), (-0.21, 0.06), (0.13, 0.11)),
    ("e2006", "Lasso"): (0.097, (-0.92, 0.15), (-0.90, 0.13), (-0.08, 0.07)),
    ("e2006", "NN"): (0.11, (-14.58, 3.48), (-5.69, 0.97), (-0.16, 0.53)),
    ("abalone", "Ridge"): (3.18, (-3.67, 0.55), (-3.52, 0.47), (-0.49, 0.46)),
    ("abalone", "Lasso"): (4.93, (-10.09, 0.83), (-10.05, 0.80), (-0.39, 0.75)),
    ("abalone", "DTR"): (4.85, (-2.53, 0.69), (-2.55, 0.70), (-0.79, 0.88)),
    ("cpusmall", "Ridge"): (59.00, (-96.23, 23.46), (-89.81, 15.58), (-0.78, 0.63)),
    ("cpusmall", "Lasso"): (53.82, (-76.08, 14.45), (-73.81, 10.51), (-2.04, 1.82)),
    ("cpusmall", "DTR"): (11.16, (-4.05, 1.88), (-3.90, 1.81), (1.65, 2.20)),
    ("yearprediction", "Ridge"): (95.02, (-0.63, 0.24), (-0.94, 0.11), (0.21, 0.12)),
    ("yearprediction", "Lasso"): (91.21, (-1.73, 0.47), (-1.98, 0.35), (-0.22, 0.29)),
    ("yearprediction", "DTR"): (62.11, (-3.13, 1.83), (-2.26, 1.02), (-0.54, 0.53)),
}
"""DeGroot's error, then the gains of M-avg, CV-static and CV-adaptive, mean and standard deviation, in percent."""


def error(data: str, model: str) -> float:
    """The printed error of DeGroot."""
    return TABLE_1[data, model][0]


def gain(data: str, model: str, scheme: str) -> tuple[float, float]:
    """The printed gain of a scheme over DeGroot, in percent, and its standard deviation."""
    return TABLE_1[data, model][1:][COMPARED.index(scheme)]


def same_sign(ours: pd.Series, mean: float, spread: float) -> bool:
    """Whether our mean has the printed sign, where that is more than one standard deviation from 0."""
    return abs(mean) <= spread or bool(np.sign(ours.mean()) == np.sign(mean))


def near(ours: pd.Series, mean: float, spread: float, share: float = 1.0) -> bool:
    """Within two combined standard deviations of the printed mean, of which ours count by their `share`."""
    return bool(abs(ours.mean() - mean) <= 2 * np.hypot(share * deviation(ours), spread))


def agrees(ours: pd.Series, mean: float, spread: float) -> bool | None:
    """Whether both hold; None with one repetition, or where our sign is another but not settled."""
    if len(ours) < 2:
        return None
    if near(ours, mean, spread) and not same_sign(ours, mean, spread):
        return False if is_settled(ours) else None
    return near(ours, mean, spread)


def is_settled(sample: pd.Series) -> bool:
    """Whether the mean is more than two of its standard errors from 0."""
    return bool(abs(sample.mean()) > 2 * standard_error(sample))


def standard_error(sample: pd.Series) -> float:
    """Of the mean over repetitions."""
    return float(sample.std() / np.sqrt(len(sample)))


def deviation(sample: pd.Series) -> float:
    """The standard deviation over repetitions; 0 with one."""
    return float(np.nan_to_num(sample.std()))
