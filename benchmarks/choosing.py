"""What the settings do on data with natural agents; prints, and puts the tables into docs/choosing.md.

`--splits` for more or fewer splits; `--quick`: two splits, only printed.
"""

import argparse
import sys
import time
import warnings
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from bench import as_markdown
from joblib import Parallel, delayed, parallel_config
from natural import ALL, MODELS, Natural, named
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

from degroot import Agent, Collective, DeGrootRegressor

DOCUMENT = Path(__file__).parents[1] / "docs" / "choosing.md"
BEGIN, END = "<!-- written by benchmarks/choosing.py -->", "<!-- until here -->"
RULES = ("degroot", "stacking")
NEIGHBOURS = {"degroot": (0.01, 0.03, 0.1, 0.3, 1.0), "stacking": (0.02, 0.05, 0.2, 0.5, 1.0)}
ROWS = (20, 50, 100, 200)
METRICS = ("manhattan", "cosine")
KERNELS = {"degroot": ("tricube", "gaussian"), "stacking": ("uniform", "gaussian")}  # apart from the default

HEAD = """\
{splits} splits of each. A quarter of the rows is for testing: whole countries, farms and months, where rows come in
such units. Two kinds of models, ridge regression and trees of depth 5, make {pairs} pairs. Figures are changes of the
mean squared error in percent, of means over splits; the last line is the geometric mean over pairs."""

Errors = dict[str, float]


def fitted(model: object, X: np.ndarray, y: np.ndarray, owners: np.ndarray, seed: int) -> list[Agent]:
    """Agents with models of their own rows, scored honestly, distances on their own scale."""
    made = DeGrootRegressor(model, space=StandardScaler(), random_state=seed, n_jobs=1).fit(X, y, groups=owners)
    return list(made.agents_)


def variants(agents: list[Agent], X: np.ndarray) -> dict[str, tuple[list[Agent], dict[str, object]]]:
    """Agents and settings of a collective, by what is varied. All are compared with the first two, the defaults."""

    def again(space: object, **own: object) -> list[Agent]:
        return [
            Agent(a.model, a.X, a.y, a.name, space=space, **({"own_predictions": a.own_predictions} | own))
            for a in agents
        ]

    common = StandardScaler().fit(X)
    found: dict[str, tuple[list[Agent], dict[str, object]]] = {}
    for rule in RULES:
        found[rule] = agents, {"rule": rule}
        found[f"{rule}, raw"] = again(None), {"rule": rule}
        found[f"{rule}, common"] = again(common), {"rule": rule}
        found[f"{rule}, train"] = again(StandardScaler(), own_predictions=None), {"rule": rule}
        found[f"{rule}, peers"] = again(StandardScaler(), own_predictions="peers"), {"rule": rule}
        found[f"{rule}, guard"] = agents, {"rule": rule, "guard": True}
        for number in NEIGHBOURS[rule]:
            found[f"{rule}, {number:g}"] = agents, {"rule": rule, "neighbours": number}
        for metric in METRICS:
            found[f"{rule}, {metric}"] = agents, {"rule": rule, "metric": metric}
        for kernel in KERNELS[rule]:
            found[f"{rule}, {kernel}"] = agents, {"rule": rule, "kernel": kernel}
    found["auto"] = agents, {"rule": "auto"}
    return found


def measure(name: str, kind: str, number: int) -> Errors:
    """Mean squared errors on the test rows of one split, by setting."""
    data, model = named(name), MODELS[kind]()
    train, test = data.split(np.random.default_rng([7, number]))
    X, y, owners = data.X.to_numpy(), data.y, data.owners
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # models of scikit-learn on few rows
        agents = fitted(model, X[train], y[train], owners[train], number)
        errors = alone(agents, X[test], y[test], owners[test])
        errors["all rows"] = squared(clone(model).fit(X[train], y[train]).predict(X[test]), y[test])
        for label, (members, settings) in variants(agents, X[train]).items():
            errors[label] = squared(Collective(members, n_jobs=1, **settings).predict(X[test]), y[test])
        return errors | few(data, model, train, test, number)


def alone(agents: list[Agent], X: np.ndarray, y: np.ndarray, owners: np.ndarray) -> Errors:
    """The plain average, the best single model after the fact, and each point's own model."""
    beliefs = np.column_stack([agent.predict(X) for agent in agents])
    names = [agent.name for agent in agents]
    own = beliefs[np.arange(len(y)), [names.index(owner) for owner in owners]]
    singles = ((beliefs - y[:, None]) ** 2).mean(axis=0)
    return {
        "average": squared(beliefs.mean(axis=1), y),
        "best alone": float(singles.min()),
        "typical alone": float(np.median(singles)),
        "own": squared(own, y),
    }


def few(data: Natural, model: object, train: np.ndarray, test: np.ndarray, number: int) -> Errors:
    """Errors where each agent has at most so many rows, and the average of the same models."""
    X, y, owners = data.X.to_numpy(), data.y, data.owners
    random, errors = np.random.default_rng([8, number]), {}
    order = random.permutation(train)
    for most in ROWS:
        kept = np.concatenate([order[owners[order] == owner][:most] for owner in np.unique(owners[train])])
        agents = fitted(clone(model), X[kept], y[kept], owners[kept], number)
        for rule in ("average", *RULES):
            guess = Collective(agents, rule=rule, n_jobs=1).predict(X[test])
            errors[f"{rule}, {most} rows"] = squared(guess, y[test])
    return errors


def squared(guess: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean((guess - y) ** 2))


class Study:
    """Errors of all splits, by data set and kind of model."""

    def __init__(self, found: dict[tuple[str, str], list[Errors]]) -> None:
        self.found = found

    def ratio(self, pair: tuple[str, str], label: str, to: str) -> float:
        """Of mean errors: what a user of many questions pays."""
        means = [np.mean([errors[each] for errors in self.found[pair]]) for each in (label, to)]
        return float(means[0] / means[1])

    def table(self, columns: dict[str, tuple[str, str]]) -> str:
        """Changes in percent, a row for each pair, and their geometric mean."""
        rows = []
        for pair in self.found:
            cells = {head: percent(self.ratio(pair, label, to)) for head, (label, to) in columns.items()}
            rows.append({"agents, model": f"{pair[0]}, {pair[1]}"} | cells)
        logs = {
            head: np.mean([np.log(self.ratio(pair, label, to)) for pair in self.found])
            for head, (label, to) in columns.items()
        }
        last = {"agents, model": "**all**"} | {head: f"**{percent(np.exp(log))}**" for head, log in logs.items()}
        return as_markdown([*rows, last])


def percent(ratio: float) -> str:
    change = 100 * (ratio - 1)
    if abs(change) < 0.05:
        return "0.0"
    return f"{change:+.0f}" if abs(change) >= 9.95 else f"{change:+.1f}"


def against(labels: Iterable[str], to: str) -> dict[str, tuple[str, str]]:
    return {label: (label, to) for label in labels}


def report(study: Study, splits: int) -> str:
    sets = []
    for make in ALL:
        data = named(make.__name__)
        counts = np.unique(data.owners, return_counts=True)[1]
        sets.append({
            "agents": data.name, "what": str(make.__doc__), "how many": str(len(counts)),
            "rows of each": f"{counts.min():,} to {counts.max():,}", "features": str(data.X.shape[1]),
        })  # fmt: skip
    each = {f"{rule}, {n} rows": (f"{rule}, {n} rows", f"average, {n} rows") for rule in RULES for n in ROWS}
    parts = [
        HEAD.format(splits=splits, pairs=len(study.found)),
        "### The data\n\n" + as_markdown(sets),
        "### The rule, against the plain average\n\n"
        + study.table(against([*RULES, "auto", "best alone", "typical alone", "own", "all rows"], "average")),
        "### The space, against each agent's own scale\n\n"
        + study.table({f"{r}, {s}": (f"{r}, {s}", r) for r in RULES for s in ("raw", "common")}),
        "### The neighbours, against the default\n\n"
        + study.table({f"{r}, {n:g}": (f"{r}, {n:g}", r) for r in RULES for n in NEIGHBOURS[r]}),
        "### Self-scoring, against cross-fitting\n\n"
        + study.table({f"{r}, {s}": (f"{r}, {s}", r) for r in RULES for s in ("train", "peers")}),
        "### The metric and the kernel, against the defaults\n\n"
        + study.table({f"{r}, {s}": (f"{r}, {s}", r) for r in RULES for s in (*METRICS, *KERNELS[r])}),
        "### The guard where nobody lies, against none\n\n"
        + study.table({f"{r}, guard": (f"{r}, guard", r) for r in RULES}),
        "### Few rows: against the average of the same models\n\n" + study.table(each),
    ]
    return "\n\n".join(parts)


def written(text: str) -> None:
    page = DOCUMENT.read_text(encoding="utf-8")
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    DOCUMENT.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


def main(splits: int, jobs: int, quick: bool) -> None:
    begun, splits = time.monotonic(), 2 if quick else splits
    pairs = [(make.__name__, kind) for make in ALL for kind in MODELS]
    work = [(name, kind, number) for name, kind in pairs for number in range(splits)]
    found: dict[tuple[str, str], list[Errors]] = {pair: [] for pair in pairs}
    with parallel_config("loky", n_jobs=jobs, inner_max_num_threads=1):
        outcomes = Parallel(return_as="generator")(delayed(measure)(*each) for each in work)
        for (name, kind, number), errors in zip(work, outcomes, strict=True):
            found[name, kind].append(errors)
            if number == splits - 1:
                print(f"{time.strftime('%X')} {name} {kind}", file=sys.stderr, flush=True)
    text = report(Study(found), splits)
    print(text + f"\n\nTook {(time.monotonic() - begun) / 60:.1f} minutes with {jobs} processes.")
    if not quick:
        written(text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="two splits, only printed")
    options = parser.parse_args()
    main(options.splits, options.jobs, options.quick)
