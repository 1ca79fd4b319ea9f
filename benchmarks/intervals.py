"""How often intervals and sets hold the outcome, and how wide they are; `make bench` prints and writes INTERVALS.md."""

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from bench import as_markdown
from joblib import Parallel, delayed, parallel_config
from sets import STATION_ROWS, STATION_TEST, Pair, missing, pairs, table
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from degroot import Agent, Collective, DeGrootClassifier
from degroot.estimators.self_scoring import CROSS, train_with_own_predictions
from degroot.intervals import summary, threshold
from degroot.paper import models
from degroot.paper.data import datasets
from degroot.paper.problems import logistic
from degroot.paper.protocol import Protocol, split

HEAD = """\
Written by `make bench`. How often intervals hold the outcome of test rows, in percent: the mean of {splits} splits and
its standard error. Width: the mean width over that of split conformal intervals around the plain average of the models,
from a hold-out the size of one agent's part that nobody else has seen; of the means over splits, with its standard
error. p: the part of the rows that was dealt in the order of the label. Agents score their models honestly, by
cross-fitting; rules and intervals have their defaults."""
RESULTS = Path(__file__).with_name("INTERVALS.md")
RULES = ("degroot", "stacking")
COVERAGES = (0.9, 0.5)
BOUNDS = {0.9: (88.0, 92.0), 0.5: (47.0, 53.0)}
SLOW = {Pair("e2006", "NN"): 5}  # splits, at most
CLASSES: dict[str, Callable[..., Any]] = {
    "iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer, "digits": load_digits
}  # fmt: skip
SET_COVERAGES = (0.99, 0.95)  # lower ones than the models' accuracy ask for nothing
POINTS = 2000  # of the synthetic problem, in each repetition


@dataclass(frozen=True)
class Case:
    """A data set, a kind of model, and how rows are dealt; None: they have owners."""

    pair: Pair
    fraction: float | None

    def __str__(self) -> str:
        return f"{self.pair}, {'stations' if self.fraction is None else f'p = {self.fraction:g}'}"


@dataclass(frozen=True)
class Dealt:
    agents: list[Agent]
    test: tuple[Any, np.ndarray]
    held_out: tuple[Any, np.ndarray]


def cases(names: tuple[str, ...]) -> list[Case]:
    return [Case(pair, p) for pair in pairs(names) for p in ((None,) if pair.data == "beijing" else (0.5, 0.0))]


def deal(case: Case, number: int, folder: Path | None) -> Dealt:
    random, rows = np.random.default_rng([5, number]), table(case.pair.data, folder)
    if case.fraction is None:
        test, held_out, parts = stations(rows.stations, random)
    else:
        made = split(datasets.Data("", "", rows.X, rows.y, True, "", ""), Protocol(fraction=case.fraction), random)
        test, held_out, parts = made.test, made.held_out, made.parts
    X, y = rows.X, rows.y
    if not hasattr(X, "tocsr"):
        X = np.where(np.isnan(X), np.nanmedian(X[np.concatenate(parts)], axis=0), X)
    make = models.make(case.pair.kind, case.pair.setting, random)
    with warnings.catch_warnings():  # models get as many iterations as the paper gave them, converged or not
        warnings.simplefilter("ignore", ConvergenceWarning)
        agents = [honest(make(k), X[part], y[part], f"agent {k}", number) for k, part in enumerate(parts)]
    return Dealt(agents, (X[test], y[test]), (X[held_out], y[held_out]))


def honest(model: Any, X: Any, y: np.ndarray, name: str, seed: int) -> Agent:
    done = train_with_own_predictions(model, X, y, name, None, CROSS, seed)
    return Agent(done.model, X, y, name, own_predictions=done.own)


def stations(owners: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Test rows and a hold-out from all stations, and the rows of each."""
    apart = [np.split(random.permutation(np.flatnonzero(owners == k)), [STATION_ROWS]) for k in np.unique(owners)]
    others = random.permutation(np.concatenate([rest for _, rest in apart]))
    test, held_out, _ = np.split(others, [STATION_TEST, STATION_TEST + STATION_ROWS])
    return test, held_out, [mine for mine, _ in apart]


def measure(case: Case, number: int, folder: Path | None) -> np.ndarray:
    """For each rule and coverage: the part of outcomes inside, the mean width, and that of split conformal."""
    dealt = deal(case, number, folder)
    X, y = dealt.test
    averages = np.mean([agent.predict(dealt.held_out[0]) for agent in dealt.agents], axis=0)
    off = summary(np.abs(averages - dealt.held_out[1]), points=len(averages))
    found = np.empty((len(RULES), len(COVERAGES), 3))
    for i, rule in enumerate(RULES):
        collective = Collective(dealt.agents, rule=rule, n_jobs=1).calibrate()
        for j, coverage in enumerate(COVERAGES):
            answer = collective.consult(X, fields=["value"], coverage=coverage)
            inside = (answer.lower <= y) & (y <= answer.upper)
            width = answer.upper - answer.lower
            found[i, j] = inside.mean(), width.mean(), 2.0 * float(threshold([off], coverage))
    return found


def measured(which: list[Case], splits: int, folder: Path | None, jobs: int) -> Iterator[tuple[Case, np.ndarray]]:
    """For each case (splits, rules, coverages, 3)."""
    work = [(case, number) for case in which for number in range(min(splits, SLOW.get(case.pair, splits)))]
    gathered: list[np.ndarray] = []
    with parallel_config("loky", n_jobs=jobs, inner_max_num_threads=1):
        outcomes = Parallel(return_as="generator")(delayed(measure)(case, number, folder) for case, number in work)
        for place, ((case, _), outcome) in enumerate(zip(work, outcomes, strict=True)):
            gathered.append(outcome)
            if place + 1 == len(work) or work[place + 1][0] != case:
                yield case, np.array(gathered)
                gathered = []
                print(f"{time.strftime('%X')} {case}", file=sys.stderr, flush=True)


def percent(parts: np.ndarray) -> tuple[float, float]:
    """The mean over splits and its standard error."""
    error = parts.std(ddof=1) / np.sqrt(len(parts)) if len(parts) > 1 else np.nan
    return float(100.0 * parts.mean()), float(100.0 * error)


def ratio(widths: np.ndarray, others: np.ndarray) -> tuple[float, float]:
    """Of the means over splits, and its standard error."""
    value = widths.mean() / others.mean()
    apart = (widths - value * others) / others.mean()
    return float(value), float(apart.std(ddof=1) / np.sqrt(len(apart)) if len(apart) > 1 else np.nan)


def rows_of(case: Case, found: np.ndarray) -> list[dict[str, str]]:
    rows = []
    for i, rule in enumerate(RULES):
        cells = {"data, model, dealing": str(case), "splits": str(len(found)), "rule": rule}
        for j, coverage in enumerate(COVERAGES):
            inside, width, other = found[:, i, j].T
            cells[f"{coverage:.0%} hold"] = "{:.1f} ± {:.1f}".format(*percent(inside))
            cells[f"width, {coverage:.0%}"] = "{:.3f} ± {:.3f}".format(*ratio(width, other))
        rows.append(cells)
    return rows


def verdicts(found: dict[Case, np.ndarray]) -> str:
    """What the issue asks for, and where it is not so."""
    rows = []
    for i, rule in enumerate(RULES):
        for j, coverage in enumerate(COVERAGES):
            low, high = BOUNDS[coverage]
            holds = {case: percent(each[:, i, j, 0]) for case, each in found.items()}
            widths = {case: ratio(each[:, i, j, 1], each[:, i, j, 2]) for case, each in found.items()}
            outside = [f"{case} {m:.1f} ± {e:.1f}" for case, (m, e) in holds.items() if not low <= m <= high]
            wider = [f"{case} {m:.3f} ± {e:.3f}" for case, (m, e) in widths.items() if m > 1.0]
            mean = np.exp(np.mean([np.log(m) for m, _ in widths.values()]))
            rows.append(
                {
                    "rule": rule, "coverage": f"{coverage:.0%}", "outside of the bounds": "; ".join(outside) or "none",
                    "mean width (geometric)": f"{mean:.3f}", "wider than split conformal": "; ".join(wider) or "none",
                }
            )  # fmt: skip
    return as_markdown(rows)


def fifths(reading: str, rule: str, number: int) -> np.ndarray:
    """How often 90 % intervals hold labels with noise and without, in each fifth of the curve, (2, 5)."""
    random = np.random.default_rng([6, number])
    problem = logistic.Problem(**logistic.READINGS[reading], points=POINTS)
    agents, X, y = logistic.pose(problem, random)
    collective = Collective(agents, problem.neighbours if rule == "degroot" else None, rule, n_jobs=1).calibrate()
    answer = collective.consult(X, fields=["value"], coverage=0.9)
    xi = X @ logistic.DIRECTION
    fifth = np.digitize(xi, np.quantile(xi, [0.2, 0.4, 0.6, 0.8]))
    outcomes = [y + problem.noise * random.normal(size=len(y)), y]
    inside = [(answer.lower <= each) & (each <= answer.upper) for each in outcomes]
    return np.array([[held[fifth == k].mean() for k in range(5)] for held in inside])


def synthetic_rows(splits: int) -> list[dict[str, str]]:
    rows = []
    for reading in ("noise 0.1", "noise 0.01"):
        for rule in RULES:
            found = 100.0 * np.array([fifths(reading, rule, number) for number in range(splits)])
            for labels, parts in zip(("noisy", "noiseless"), found.transpose(1, 0, 2), strict=True):
                cells = {"problem": reading, "rule": rule, "outcomes": labels}
                cells |= {f"fifth {k + 1}": f"{mean:.1f}" for k, mean in enumerate(parts.mean(axis=0))}
                rows.append(cells | {"least, of all repetitions": f"{parts.min():.1f}"})
    return rows


def sets(name: str, number: int, fraction: float) -> np.ndarray:
    """For each coverage: the part of outcomes in the set, and the mean size of the set."""
    X, y = CLASSES[name](return_X_y=True)
    test, train = np.split(np.random.default_rng([7, number]).permutation(len(y)), [len(y) // 4])
    model = DeGrootClassifier(
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)), partition="label", fraction=fraction,
        random_state=number, n_jobs=1,
    ).fit(X[train], y[train])  # fmt: skip
    collective, place = model.collective_.calibrate(), np.searchsorted(model.classes_, y[test])
    answers = [collective.consult(X[test], fields=["value"], coverage=coverage).sets for coverage in SET_COVERAGES]
    return np.array([[held[np.arange(len(test)), place].mean(), held.sum(axis=1).mean()] for held in answers])


def sets_rows(splits: int) -> list[dict[str, str]]:
    rows = []
    for name in CLASSES:
        for fraction in (0.5, 0.0):
            found = np.array([sets(name, number, fraction) for number in range(splits)])
            cells = {"data": f"{name}, p = {fraction:g}"}
            for j, coverage in enumerate(SET_COVERAGES):
                cells[f"{coverage:.0%} hold"] = "{:.1f} ± {:.1f}".format(*percent(found[:, j, 0]))
                cells[f"classes in the set, {coverage:.0%}"] = f"{found[:, j, 1].mean():.2f}"
            rows.append(cells)
    return rows


def main(splits: int, folder: Path | None, jobs: int, names: tuple[str, ...]) -> None:
    report: list[str] = []
    begun = time.monotonic()

    def say(text: str) -> None:
        print(text + "\n", flush=True)
        report.append(text)

    say("# Intervals")
    say(HEAD.format(splits=splits))
    reasons = {name: reason for name in names if (reason := missing(name, folder)) is not None}
    found = dict(measured(cases(tuple(name for name in names if name not in reasons)), splits, folder, jobs))
    if found:
        say(as_markdown([row for case, each in found.items() for row in rows_of(case, each)]))
        say("Asked for: 90 % intervals hold 88 to 92 %, 50 % ones 47 to 53 %; no wider than split conformal.")
        say(verdicts(found))
    for name, reason in reasons.items():
        say(f"Left out, {name}: {reason}")
    say("## The paper's synthetic problem, by fifths of the curve")
    say(
        f"90 % intervals; mean over {splits} repetitions of {POINTS} points each. Asked for: at least 80 in each fifth."
    )
    say(as_markdown(synthetic_rows(splits)))
    say("## Sets of classes")
    say("Logistic regression. The most probable class is always in the set: where that is enough, sets hold more.")
    say(as_markdown(sets_rows(splits)))
    say(f"All of this took {(time.monotonic() - begun) / 60:.1f} minutes with {jobs} processes.")
    RESULTS.write_text("\n\n".join(report) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--data", type=Path, help="a folder with data sets that cannot be installed")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--names", nargs="+", default=[*datasets.NAMES, "diabetes", "beijing"], help="of data sets")
    options = parser.parse_args()
    main(options.splits, options.data, options.jobs, tuple(options.names))
