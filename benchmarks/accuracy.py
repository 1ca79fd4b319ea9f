"""Accuracy of the rules against the paper's, over many splits; `make bench` prints and writes ACCURACY.md."""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
from bench import as_markdown
from joblib import Parallel, delayed, parallel_config
from sets import FRESH, LOOKED_AT, Pair, deal, missing, pairs, table
from sklearn.tree import DecisionTreeRegressor

from degroot import Collective, DeGrootRegressor
from degroot.consultation.rule_selection import OPTIONS
from degroot.estimators.self_scoring import SELF_SCORING
from degroot.paper.data import datasets

HEAD = """\
Written by `make bench`. The mean squared error on test rows against that of the paper's rule (1 % of the rows as
neighbours, models scored on their own training rows), in percent: the mean over splits and its standard error, and in
how many splits it is (lower:higher). All other rules have honest self-scores, by cross-fitting, and their defaults. The
protocol of table 1: 5 agents, half of the rows dealt in the order of the label; {splits} splits. The best is the best
of average, degroot and stacking on that pair, after the fact. Nothing is tuned to a data set."""
RESULTS = Path(__file__).with_name("ACCURACY.md")
RULES = sorted({option.rule for option in OPTIONS})  # that "auto" chooses among
SLOW = {Pair("e2006", "NN"): 5}  # splits, at most


@dataclass(frozen=True)
class Outcome:
    """A split of a pair: mean squared errors of the rules, and what "auto" chose."""

    errors: dict[str, float]
    chosen: str


@dataclass(frozen=True)
class Measured:
    """All splits of a pair."""

    pair: Pair
    splits: list[Outcome]

    def ratios(self, rule: str, to: str = "paper") -> np.ndarray:
        return np.array([each.errors[rule] / each.errors[to] for each in self.splits])

    def change(self, rule: str) -> float:
        """Mean change of the error against the paper's rule, in percent."""
        return percent(self.ratios(rule).mean())

    @property
    def best(self) -> str:
        return min(RULES, key=self.change)

    def auto_over(self, rule: str) -> float:
        """How much larger the error of "auto" is, in percent: by mean ratios to the paper's rule."""
        return percent(self.ratios("auto").mean() / self.ratios(rule).mean())


def percent(ratio: float) -> float:
    return float(100.0 * (ratio - 1.0))


def measure(pair: Pair, number: int, folder: Path | None) -> Outcome:
    dealt = deal(pair, number, folder)
    collectives = {"paper": Collective(dealt.as_in_the_paper, 0.01, n_jobs=1)}
    collectives |= {rule: Collective(dealt.agents, rule=rule, n_jobs=1) for rule in (*RULES, "auto")}
    errors = {name: float(np.mean((each.predict(dealt.X) - dealt.y) ** 2)) for name, each in collectives.items()}
    return Outcome(errors, str(collectives["auto"].choice.option))


def measured(which: list[Pair], splits: int, folder: Path | None, jobs: int) -> Iterator[Measured]:
    work = [(pair, number) for pair in which for number in range(min(splits, SLOW.get(pair, splits)))]
    with parallel_config("loky", n_jobs=jobs, inner_max_num_threads=1):
        outcomes = Parallel(return_as="generator")(delayed(measure)(pair, number, folder) for pair, number in work)
        for pair, found in groupby(zip(work, outcomes, strict=True), key=lambda each: each[0][0]):
            yield Measured(pair, [outcome for _, outcome in found])
            print(f"{time.strftime('%X')} {pair}", file=sys.stderr, flush=True)


def row(found: Measured) -> dict[str, str]:
    cells = {"data, model": str(found.pair), "splits": str(len(found.splits))}
    cells["MSE, paper's rule"] = f"{np.mean([each.errors['paper'] for each in found.splits]):.4g}"
    for rule in (*RULES, "auto"):
        ratios = found.ratios(rule)
        cells[rule] = with_count(ratios)
    cells["auto over the best"] = f"{found.auto_over(found.best):+.2f} ({found.best})"
    cells["auto over average"] = f"{found.auto_over('average'):+.2f}"
    return cells


def with_count(ratios: np.ndarray) -> str:
    """Mean change in percent with its standard error, wins and losses."""
    error = 100.0 * ratios.std(ddof=1) / np.sqrt(len(ratios)) if len(ratios) > 1 else np.nan
    return f"{percent(ratios.mean()):+.1f} ± {error:.1f} ({(ratios < 1).sum()}:{(ratios > 1).sum()})"


def summary(all_found: list[Measured]) -> str:
    """What the issue asks for, and whether it is so; then means, and what "auto" chose."""
    stacking = [found.change("stacking") for found in all_found]
    targets = [
        target("stacking, mean change", {"": float(np.mean(stacking))}, -10.0),
        target("stacking, worst pair", {str(found.pair): found.change("stacking") for found in all_found}, 0.5),
        target("auto over the best rule", {str(found.pair): found.auto_over(found.best) for found in all_found}, 1.0),
        target("auto over averaging", {str(found.pair): found.auto_over("average") for found in all_found}, 0.5),
    ]
    means = [f"{rule} {np.mean([found.change(rule) for found in all_found]):+.2f} %" for rule in (*RULES, "auto")]
    chosen = Counter(outcome.chosen for found in all_found for outcome in found.splits)
    often = [f"{option}: {count}" for option, count in chosen.most_common()]
    return f"{as_markdown(targets)}\n\nMean change: {', '.join(means)}.\n\nAuto chose {'; '.join(often)}."


def target(what: str, values: dict[str, float], most: float) -> dict[str, str]:
    """The largest of the values, and whether it is within the target."""
    where = max(values, key=values.get)
    met = "yes" if values[where] <= most else "NO"
    return {"target": what, "percent": f"{values[where]:+.2f}", "at most": f"{most:+g}", "met": met, "where": where}


def self_scoring(number: int) -> dict[str, float]:
    """Depth-4 trees on diabetes: the error of DeGroot over that of averaging, by dealing and self-scoring."""
    rows = table("diabetes", None)
    test, train = np.split(np.random.default_rng([4, number]).permutation(len(rows.y)), [len(rows.y) // 5])
    ratios = {}
    for dealing in ("random", "label"):
        for how in SELF_SCORING:
            model = DeGrootRegressor(
                DecisionTreeRegressor(max_depth=4), partition=dealing, fraction=0.5, self_scoring=how,
                random_state=number, n_jobs=1,
            ).fit(rows.X[train], rows.y[train])  # fmt: skip
            answer = model.collective_.consult(rows.X[test], fields=["value", "beliefs"])
            errors = [np.mean((guess - rows.y[test]) ** 2) for guess in (answer.value, answer.beliefs.mean(axis=1))]
            ratios[f"{dealing}, {how}"] = errors[0] / errors[1]
    return ratios


def self_scoring_rows(splits: int) -> list[dict[str, str]]:
    found = [self_scoring(number) for number in range(splits)]
    rows = []
    for case in found[0]:
        ratios = np.array([each[case] for each in found])
        rows.append({"dealing, self-scoring": case, "DeGroot over averaging, %": with_count(ratios)})
    return rows


def main(splits: int, folder: Path | None, jobs: int) -> None:
    report: list[str] = []
    begun = time.monotonic()

    def say(text: str) -> None:
        print(text + "\n", flush=True)
        report.append(text)

    def section(title: str, names: tuple[str, ...]) -> None:
        say(f"## {title}")
        reasons = {name: reason for name in names if (reason := missing(name, folder)) is not None}
        found = list(measured(pairs(tuple(name for name in names if name not in reasons)), splits, folder, jobs))
        if found:
            say(as_markdown([row(each) for each in found]))
            say(summary(found))
        for name, reason in reasons.items():
            say(f"Left out, {name}: {reason}")

    say("# Accuracy")
    say(HEAD.format(splits=splits))
    section("The paper's data, diabetes, and the Beijing stations as agents", (*datasets.NAMES, "diabetes", "beijing"))
    section("Further data that were looked at while defaults were chosen", LOOKED_AT)
    section("Data that nobody looked at while defaults were chosen", FRESH)
    say("## Depth-4 trees on diabetes, by self-scoring")
    say(as_markdown(self_scoring_rows(splits)))
    say(f"All of this took {(time.monotonic() - begun) / 60:.1f} minutes with {jobs} processes.")
    RESULTS.write_text("\n\n".join(report) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--data", type=Path, help="a folder with data sets that cannot be installed")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    main(options.splits, options.data, options.jobs)
