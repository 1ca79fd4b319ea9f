"""Forecasts: what an agent expects every model to answer at a point, from the answers on its own rows."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array, as_kernel_array, in_blocks
from degroot.compute.kernel import compiled_for
from degroot.compute.tables import is_sparse
from degroot.guard.checks import relative_distance
from degroot.neighbourhoods import Neighbourhoods

BLOCK = 1024  # rows a thread takes at once
EPS = float(np.finfo(np.float64).eps)

DEVIATIONS = 5.0  # answers may be so many standard deviations from what is expected
ERRORS = 2.0  # and so many times as far as the model is from the labels: smaller lies do little harm
PRIOR = 5.0  # rows as which the mean over all rows counts, beside the neighbours
RIDGE = 1e-6  # of the trend, in units of the variance of the features
ROWS_PER_FEATURE = 2  # fewer rows have no trend
USUAL = 0.99  # share of the agent's own rows that are near

_NOTHING = np.empty((0, 0)), np.empty(0)  # no trend


@dataclass(frozen=True, slots=True)
class AnswerForecast:
    """What one agent expects of K models with Q outputs at M points, and what it found there."""

    answers: Array  # (M, K, Q)
    tolerance: Array  # (M, K) how far from that they may be
    errors: Array  # (M, K) mean squared error of every model near the point
    spread: Array  # (M,) mean squared distance to the neighbours

    def part(self, points: slice) -> "AnswerForecast":
        """The same for some of the points."""
        return AnswerForecast(self.answers[points], self.tolerance[points], self.errors[points], self.spread[points])

    def select_models(self, columns: NDArray[np.intp]) -> "AnswerForecast":
        """The same of some of the models, in another order."""
        return AnswerForecast(
            self.answers[:, columns], self.tolerance[:, columns], self.errors[:, columns], self.spread
        )


class GuardStandards(NamedTuple):
    """What is usual at one agent's own rows."""

    distance: float  # mean squared distance to the neighbours that 99 % of its rows do not exceed
    low: Array  # (Q,) where its labels begin, in round numbers, and
    high: Array  # (Q,) end


class AnswerForecaster:
    r"""What one agent expects every model to say near its rows.

    At calibration all models answered on all of its rows. It fits two forecasts of a model's answers: the weighted mean
    of those on the neighbours; and a *trend*, linear in the features, plus the weighted mean of what it leaves over on
    the neighbours. Each forecast is made for each row with the row itself left out, and errs by :math:`\epsilon`. Near
    a point the forecast's variance is the weighted mean of :math:`\epsilon^2` over the neighbours, a little of the mean
    over all rows, and for the trend :math:`1 + h` times that, with h the leverage of the point. With mean squared
    error e of the model near the point, the tolerance is

    .. math:: t = \sqrt{s} \left(5^2 \operatorname{mean} \epsilon^2 + 2^2 e\right)^{1/2},

    s the point's `relative_distance`: it grows with the distance beyond the usual. The forecast of smaller tolerance
    counts; the plain mean has to allow for what the trend says, by the square of their difference under the root.

    Linear models are forecast exactly. Of others, lies beyond a few of their own errors are seen.

    Parameters
    ----------
    rows : (n, d), dense or sparse
        Where distances are taken.
    answers : (n, Q, K)
        Of every model on these rows.
    errors : (n, K)
        Squared errors of every model on these rows, summed over outputs.
    near : Neighbourhoods
        Of these rows.

    Attributes
    ----------
    usual_distance : float
        The spread that 99 % of its own rows do not exceed, each left out. Of a single row, 0.

    Examples
    --------
    >>> rows = np.arange(30.0)[:, None]
    >>> answers = np.stack([2.0 * rows, rows > 14], axis=-1)
    >>> near = Neighbourhoods(rows, 10, kernel="tricube")
    >>> forecaster = AnswerForecaster(rows, answers, np.full((30, 2), 0.01), near)
    >>> expected = forecaster.forecast(np.array([[5.3], [14.5]]))
    >>> expected.answers[..., 0].round(2)
    array([[10.6,  0. ],
           [29. ,  0.5]])
    >>> expected.tolerance.round(1)
    array([[0.2, 0.5],
           [0.2, 1.5]])
    """

    def __init__(self, rows: Any, answers: Array, errors: Array, near: Neighbourhoods) -> None:
        n, Q, K = answers.shape
        self.near, self.shape, self.alone = near, (Q, K), n == 1
        flat = answers.reshape(n, Q * K)
        self.trend = _Trend.fitted(rows, flat)
        left, own = [flat], [flat]  # what neighbours tell of a row, and what they should have told
        if self.trend is not None:
            left.append(flat - self.trend.at(rows))
            own.append(left[1] / (1.0 - self.trend.leverage)[:, None])
        told, spread = self._left_out(rows, as_kernel_array(np.hstack(left)))
        misses = [self._summed(each - said) for each, said in zip(own, np.split(told, len(own), axis=1), strict=True)]
        rounding = EPS * self._summed(flat).mean(axis=0)
        self.overall = np.array([miss.mean(axis=0) + rounding for miss in misses])
        self.usual_distance = 0.0 if self.alone else float(np.quantile(spread, USUAL))
        parts = [errors, *(part for pair in zip(left, misses, strict=True) for part in pair)]
        self.columns = as_kernel_array(np.hstack(parts))

    def forecast(self, transformed: Any) -> AnswerForecast:
        """What to expect at points (M, d), on one thread."""
        (Q, K), M = self.shape, transformed.shape[0]
        means, spread = np.empty((M, 1, self.columns.shape[1])), np.empty((M, 1))
        self.near.means_into(means, 0, transformed, self.columns, None, spread)
        trend, leverage = _NOTHING if self.trend is None else self.trend.forecast(transformed)
        said = AnswerForecast(np.empty((M, K, Q)), np.empty((M, K)), means[:, 0, :K], spread[:, 0])
        _combine(means[:, 0], trend, leverage, self.overall, float(self.near.size), said.answers, said.tolerance)
        if self.alone:
            said.tolerance[:] = np.inf
        else:
            said.tolerance[:] = np.sqrt(relative_distance(said.spread, self.usual_distance)[:, None] * said.tolerance)
        return said

    def _left_out(self, rows: Any, values: Array) -> tuple[Array, Array]:
        """Means of `values` (n, columns) near every row, and the spread there, each row left out."""
        n = len(values)
        means, spread, places = np.empty((n, 1, values.shape[1])), np.empty((n, 1)), np.arange(n)

        def block(start: int, stop: int) -> None:
            here = slice(start, stop)
            self.near.means_into(means[here], 0, rows[here], values, places[here], spread[here])

        in_blocks(block, n, BLOCK)
        return means[:, 0], spread[:, 0]

    def _summed(self, table: Array) -> Array:
        """Squares of (n, Q K), summed over outputs: (n, K)."""
        total: Array = (table**2).reshape(len(table), *self.shape).sum(axis=1)
        return total


@compiled_for("f8[2] f8[2] f8[1] f8[2] f8 f8[3] f8[2]")
def _combine(
    means: Array, trend: Array, leverage: Array, overall: Array, size: float, answers: Array, squared: Array
) -> None:
    """The better of two forecasts at every point, and the square of its tolerance there, but for the distance.

    means : (M, columns) near the points: errors, answers and misses; with a trend, also what it leaves, and its misses.
    """
    M, K, Q = answers.shape
    shrink = 1.0 / (size + PRIOR)
    for m in range(M):
        for k in range(K):
            plain = DEVIATIONS**2 * (size * means[m, K + Q * K + k] + PRIOR * overall[0, k]) * shrink
            for q in range(Q):
                answers[m, k, q] = means[m, K + q * K + k]
            if len(trend):
                first = 2 * K + Q * K  # where what the trend leaves begins
                other = DEVIATIONS**2 * (size * means[m, first + Q * K + k] + PRIOR * overall[1, k]) * shrink
                other *= 1.0 + leverage[m]
                for q in range(Q):
                    plain += (trend[m, q * K + k] + means[m, first + q * K + k] - answers[m, k, q]) ** 2
                if other < plain:
                    plain = other
                    for q in range(Q):
                        answers[m, k, q] = trend[m, q * K + k] + means[m, first + q * K + k]
            squared[m, k] = plain + ERRORS**2 * means[m, k]


@dataclass(frozen=True, slots=True)
class _Trend:
    """Least squares with an intercept, and next to no ridge."""

    unit: Array  # (d,) the largest of each feature, so that squares stay in range
    centre: Array  # (d,) and
    scale: Array  # (d,) of the features, in these units
    inverse: Array  # (d, d) of the ridged second moments
    slopes: Array  # (d, columns)
    level: Array  # (columns,)
    leverage: Array  # (n,) of the rows

    @classmethod
    def fitted(cls, rows: Any, targets: Array) -> "_Trend | None":
        n, d = rows.shape
        if n < ROWS_PER_FEATURE * (d + 1):
            return None
        X = _dense(rows)
        unit = np.abs(X).max(axis=0)
        unit[unit == 0.0] = 1.0
        centre, scale = (X / unit).mean(axis=0), (X / unit).std(axis=0)
        scale[scale <= np.finfo(float).eps] = 1.0
        Z = (X / unit - centre) / scale
        inverse = np.linalg.inv(Z.T @ Z + n * RIDGE * np.eye(d))
        level = targets.mean(axis=0)
        leverage = np.minimum((Z @ inverse * Z).sum(axis=1) + 1.0 / n, 1.0 - RIDGE)
        return cls(unit, centre, scale, inverse, inverse @ (Z.T @ (targets - level)), level, leverage)

    def at(self, rows: Any) -> Array:
        """(m, columns)"""
        return self._standard(rows) @ self.slopes + self.level

    def forecast(self, rows: Any) -> tuple[Array, Array]:
        """(m, columns), and (m,) how far out rows are: the variance of the trend there, over that of what is left."""
        Z = self._standard(rows)
        return Z @ self.slopes + self.level, (Z @ self.inverse * Z).sum(axis=1)

    def _standard(self, rows: Any) -> Array:
        return (_dense(rows) / self.unit - self.centre) / self.scale


def _dense(rows: Any) -> NDArray[np.float64]:
    return np.asarray(rows.toarray() if is_sparse(rows) else rows, np.float64)
