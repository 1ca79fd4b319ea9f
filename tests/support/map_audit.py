"""An audit of evidence maps: attacks on neighbouring data sets, and lower confidence bounds of epsilon."""

import math
from dataclasses import dataclass

import numpy as np
import opendp.prelude as dp
from scipy.stats import beta, norm

from degroot.maps import MapSettings
from degroot.maps.noise import add_noise, find_noise_scale
from degroot.maps.table import UNIT, find_sensitivity, sum_rows

Array = np.ndarray
DELTA = 1e-6


def find_epsilon(sensitivity: float, scale: float, delta: float) -> float:
    """The epsilon at which noise of this standard deviation is private, as OpenDP finds it."""
    dp.enable_features("contrib")
    noise = dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64"), scale)
    return float(dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(noise), delta).map(sensitivity)[0])


@dataclass(frozen=True)
class Audit:
    """A small problem: three members, so that a table scores two models; 4 trees of 2 cells; 40 rows, known but one."""

    epsilon: float
    kind: str  # "membership": a row is there or not; "label": it has one label or another
    broken: float = 1.0  # what the noise scale is divided by

    @property
    def settings(self) -> MapSettings:
        return MapSettings(((0.0, 1.0), (0.0, 1.0)), 1.0, 40, self.epsilon, DELTA, trees=4, depth=1)

    def find_scale(self) -> float:
        return find_noise_scale(find_sensitivity(self.settings), self.epsilon, DELTA)

    def find_allowed(self) -> float:
        """The epsilon that the right scale stands for. Two rows that are exchanged are farther apart by a root of 2."""
        far = 1.0 if self.kind == "membership" else math.sqrt(2.0) * (1.0 + 1e-7)
        return find_epsilon(far * find_sensitivity(self.settings), self.find_scale(), DELTA)

    def attack(self, trials: int, seed: object) -> tuple[Array, Array, float]:
        """Scores of so many pairs of data sets, with the row and without it, and the middle of their means."""
        random, score = np.random.default_rng(seed), getattr(self, f"score_{self.kind}")
        inside, outside, middle = np.array([score(random) for _ in range(trials)]).T
        return inside, outside, float(middle.mean())

    def score_membership(self, random: np.random.Generator) -> tuple[float, float, float]:
        """Scores of one pair of neighbouring data sets, the row in it and not: the likelihood ratio of the table."""
        X, residuals = _draw_rows(random)
        return self._score((X, residuals), (X[1:], residuals[1:]))

    def score_label(self, random: np.random.Generator) -> tuple[float, float, float]:
        """The same for a row with one label or another: one model is right and the other far off, or the reverse."""
        X, residuals = _draw_rows(random)
        other = residuals.copy()
        residuals[0], other[0] = (0.0, 100.0), (-100.0, 0.0)
        return self._score((X, residuals), (X, other))

    def _score(self, one: tuple[Array, Array], two: tuple[Array, Array]) -> tuple[float, float, float]:
        inside, outside = (sum_rows(*each, self.settings, 2) for each in (one, two))
        direction = (inside - outside).astype(float)
        distance, scale = float(np.linalg.norm(direction)), self.find_scale() / self.broken
        told = [((add_noise(each, scale) - outside) * direction).sum() / distance for each in (inside, outside)]
        return told[0] / UNIT, told[1] / UNIT, 0.5 * distance / UNIT


def _draw_rows(random: np.random.Generator) -> tuple[Array, Array]:
    """Rows of which the first is as telling as a row can be: at the largest residuals, of one sign or of two."""
    X, residuals = random.uniform(size=(40, 2)), random.normal(size=(40, 2))
    residuals[0] = 100.0 * random.choice([-1.0, 1.0], size=2)
    return X, residuals


def bound_epsilons(
    inside: Array, outside: Array, middle: float, error: float, delta: float = DELTA
) -> tuple[float, float]:
    """Lower confidence bounds of epsilon at delta: by counts alone, and from the normal trade-off of the two errors.

    By counts: epsilon >= log((TPR - delta) / FPR), and the same of the complements; the threshold is chosen on the
    first half of the scores, Clopper and Pearson's bounds are of the second. With Gaussian noise, the two errors bound
    the distance of means mu = z(1 - FPR) + z(TPR), and mu gives epsilon by the privacy profile of the normal
    distribution (Balle and Wang 2018; Nasr et al. 2023 audit in this way). Its threshold is the middle of the two
    means, which the attacker knows.
    """
    half = len(inside) // 2
    cuts = np.quantile(np.concatenate([inside[:half], outside[:half]]), np.linspace(0.02, 0.98, 49))
    cut = max(cuts, key=lambda cut: _estimate(inside[:half], outside[:half], cut))
    hit, alarm, quiet, miss = _bound_rates(inside[half:], outside[half:], cut, error)
    counted = max(0.0, *(math.log(max(a - delta, 1e-12) / b) for a, b in ((hit, alarm), (quiet, miss))))
    hit, alarm, _, _ = _bound_rates(inside, outside, middle, error)
    return counted, epsilon_of_distance(float(norm.isf(alarm) - norm.isf(hit)), delta)


def _bound_rates(inside: Array, outside: Array, cut: float, error: float) -> tuple[float, float, float, float]:
    """Least hit rate, largest rate of false alarms; least rate of rightly no alarm, largest rate of misses."""
    hits, alarms, n = int((inside > cut).sum()), int((outside > cut).sum()), len(inside)
    (hit, _), (_, alarm) = _interval(hits, n, error), _interval(alarms, n, error)
    return hit, alarm, 1.0 - alarm, 1.0 - hit


def _estimate(inside: Array, outside: Array, cut: float) -> float:
    hit, alarm = ((each > cut).mean() + 0.5 / len(each) for each in (inside, outside))
    return abs(math.log(hit / alarm)) if 0.0 < alarm < 1.0 else 0.0


def _interval(count: int, n: int, error: float) -> tuple[float, float]:
    """Clopper and Pearson's bounds of a probability, each with this error."""
    low = 0.0 if count == 0 else float(beta.ppf(error, count, n - count + 1))
    return low, 1.0 if count == n else float(beta.isf(error, count + 1, n - count))


def epsilon_of_distance(mu: float, delta: float) -> float:
    """The epsilon at which two normal distributions, mu standard deviations apart, are (epsilon, delta) close."""
    if mu <= 0.0:
        return 0.0
    low, high = 0.0, 500.0
    for _ in range(100):
        middle = 0.5 * (low + high)
        told = norm.cdf(mu / 2 - middle / mu) - math.exp(middle + norm.logcdf(-mu / 2 - middle / mu))
        low, high = (middle, high) if told > delta else (low, middle)
    return low
