"""Attacks on what nodes keep at home: labels, rows and models. Arrays in, arrays out; who is asked is a function.

The attacker knows the software, and what is said of it below. n rows of d features, K models, M points.
"""

from contextlib import contextmanager

import grpc
import numpy as np
from tritonclient.grpc import service_pb2_grpc

from degroot.node.config import IdentityFiles
from degroot.node.protocol.v3 import collective_pb2_grpc
from degroot.node.tls.contents import channel_credentials
from degroot.rules.rules import STACKING_NEIGHBOURHOOD

PULL = 20.0  # rows' worth of the overall error in a local one, as in degroot.consultation.own_calibration
FIVE = (-2, -1, 0, 1, 2)  # places on a line
FOURTH = np.array([1.0, -4.0, 6.0, -4.0, 1.0])  # a fourth difference: 8 h^3 of |t|^3, and little of the rest


@contextmanager
def call_as(consortium, caller, node):
    """The calls of a node's two services, with somebody's certificate."""
    options = [("grpc.ssl_target_name_override", node)]
    options += [(f"grpc.max_{way}_message_length", -1) for way in ("send", "receive")]
    credentials = channel_credentials(IdentityFiles(**consortium.credentials(caller)))
    address = f"{consortium.hosts[node]}:{consortium.ports[node]}"
    with grpc.secure_channel(address, credentials, options) as channel:
        yield collective_pb2_grpc.CollectiveStub(channel), service_pb2_grpc.GRPCInferenceServiceStub(channel)


# ---- labels from averages over neighbourhoods -----------------------------------------------------------------------


def average_neighbours(points, rows, N):
    """The matrix (M, n) that averages over the N rows nearest to each point."""
    nearest = np.argsort(_distances(points, rows), axis=1, kind="stable")[:, :N]
    means = np.zeros((len(points), len(rows)))
    np.put_along_axis(means, nearest, 1.0 / N, axis=1)
    return means


def write_equations(means, said, errors):
    """Equations A y = b for the labels, from mean squared `errors` (M, J) of models that say `said` (n, J) of the rows.

    The difference of two models' errors is linear in the labels: mean of f_j^2 - f_k^2 - 2 y (f_j - f_k).
    """
    parts = [(-2.0 * means * (said[:, j] - said[:, 0]), _gap(means, said, errors, j)) for j in range(1, said.shape[1])]
    return np.concatenate([A for A, _ in parts]), np.concatenate([b for _, b in parts])


def recover_labels(means, said, errors):
    """The labels (n,), by least squares."""
    A, b = write_equations(means, said, errors)
    return np.linalg.lstsq(A, b, rcond=1e-12)[0]


def count_points_needed(points, rows, N, said, starts=10):
    """How many points, the rows nearest to one of them, give the first label. `said`: (n, J)."""
    means, least = average_neighbours(points, rows, N), len(points) + 1
    for start in range(min(starts, len(points))):
        order = np.argsort(_distances(points[[start]], points)[0])
        for count in range(1, least):
            A, _ = write_equations(means[order[:count]], said, np.zeros((count, said.shape[1])))
            _, sizes, basis = np.linalg.svd(A, full_matrices=False)
            known = (basis[sizes > 1e-9 * sizes[0]] ** 2).sum(axis=0)
            if (known > 1.0 - 1e-9).any():
                least = count
                break
    return least


def recover_labels_from_trust(means, said, trust):
    """The labels (n,) from trust (M, J), in inverse proportion to errors; their squares are unknowns of their own.

    A guard may have changed some: the equations that fit worst are left out, again and again.
    """
    squares = means @ said**2
    rows, right = [], []
    for j in range(1, said.shape[1]):
        one, other = trust[:, [j]], trust[:, [0]]
        A = np.hstack([-2.0 * means * (one * said[:, j] - other * said[:, 0]), means * (one - other)])
        b = (other * squares[:, [0]] - one * squares[:, [j]])[:, 0]
        unit = np.linalg.norm(A, axis=1)
        unit[unit == 0.0] = 1.0
        rows.append(A / unit[:, None])
        right.append(b / unit)
    scale = np.r_[np.ones(means.shape[1]), np.full(means.shape[1], 200.0)]  # squares are larger
    found, _ = solve_trimmed(np.concatenate(rows) * scale, np.concatenate(right))
    return (found * scale)[: means.shape[1]]


def solve_trimmed(A, b, most=30):
    """Least squares without the equations that do not hold, and which do."""
    kept = np.ones(len(b), bool)
    for _ in range(most):
        found = np.linalg.lstsq(A[kept], b[kept], rcond=1e-13)[0]
        off = np.abs(b - A @ found)
        fits = off <= max(3.0 * float(np.median(off)), 1e-9)
        if (fits == kept).all() or fits.sum() <= A.shape[1]:
            break
        kept = fits
    return found, kept


# ---- labels from values and intervals -------------------------------------------------------------------------------


def average_tricube(points, rows, N):
    """Tricube means over the N nearest rows as a matrix (M, n), and how many rows they amount to, (M,)."""
    distances = _distances(points, rows)
    farthest = np.sort(distances, axis=1)[:, [N - 1]]
    kernel = (1.0 - np.minimum(distances / farthest, 1.0) ** 3) ** 3
    effective = kernel.sum(axis=1) ** 2 / (kernel**2).sum(axis=1)
    return kernel / kernel.sum(axis=1, keepdims=True), effective


def recover_absolute_errors(ask, rows, points, coverages=(0.5, 0.9)):
    """What the node's answers are off by on its own rows when these are left out, without the sign, (n,).

    The square of an interval's half-width is linear in the squares of these errors, by tricube means over the rows near
    the point; two coverages tell the scale. `ask(points, coverage)` gives values and upper bounds.
    """
    means, effective = average_tricube(points, rows, STACKING_NEIGHBOURHOOD.size(len(rows)))
    shrunk = (effective[:, None] * means + PULL / len(rows)) / (effective[:, None] + PULL)
    found = []
    for coverage in coverages:
        value, upper = ask(points, coverage)
        found.append(solve_trimmed(shrunk, (upper - value) ** 2)[0])
    low, high = found
    slope, ratio = np.cov(low, high)[0, 1] / low.var(ddof=1), high.mean() / low.mean()
    t2 = (ratio**2 - slope) / (ratio * (slope - ratio))  # of the lower coverage: the square of its threshold
    squares = (low - low.mean()) * (1.0 + t2) / t2**2 + low.mean() / t2
    return np.sqrt(np.maximum(squares, 0.0))


def measure_kinks(ask, rows, directions, step, random):
    """How sharply value and squared half-width bend at rows, (n,) each.

    A row's weight in a tricube mean falls with the cube of the distance: the third derivative jumps at the row itself
    and nowhere near it. The jump of the value has the sign of the row's residual.
    """
    value, width = [], []
    for _ in range(directions):
        along = random.normal(size=rows.shape)
        along /= np.linalg.norm(along, axis=1, keepdims=True)
        said, upper = ask(np.concatenate([rows + k * step * along for k in FIVE]), 0.9)
        for told, into in ((said, value), ((upper - said) ** 2, width)):
            into.append(FOURTH @ told.reshape(5, -1) / (8.0 * step**3))
    return np.median(value, axis=0), np.median(width, axis=0)


def _distances(points, rows):
    return np.sqrt(((points[:, None] - rows[None]) ** 2).sum(axis=-1))


def _gap(means, said, errors, j):
    return errors[:, j] - errors[:, 0] - means @ (said[:, j] ** 2 - said[:, 0] ** 2)


# ---- how well an attack does ----------------------------------------------------------------------------------------


def measure_advantage(estimate, baseline, labels):
    """How much nearer an estimate is than the baseline: the mean paired gain of squared errors in its standard errors.

    Above 2 it is better than chance level; 0 where both are the same.
    """
    gain = (baseline - labels) ** 2 - (estimate - labels) ** 2
    error = gain.std(ddof=1) / np.sqrt(len(gain))
    return float(gain.mean() / error) if error > 0.0 else 0.0


def area_under_curve(inside, outside):
    """The chance that a row inside scores higher than one outside."""
    return float((inside[:, None] > outside).mean() + 0.5 * (inside[:, None] == outside).mean())


def bootstrap_area(inside, outside, random, times=500):
    """The area under the curve and its standard error."""
    draws = [
        area_under_curve(random.choice(inside, len(inside)), random.choice(outside, len(outside))) for _ in range(times)
    ]
    return area_under_curve(inside, outside), float(np.std(draws))
