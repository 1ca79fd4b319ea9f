"""What liars can do to the answers, without the guard and with it; `make bench` prints and writes ATTACKS.md."""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from bench import as_markdown
from intervals import honest
from joblib import Parallel, delayed, parallel_config
from liars import Attack, Liar, Remembered, corrupted
from sets import Pair, missing, table

from degroot import Agent, Collective
from degroot.answers.answer import Consensus
from degroot.asker.guard import CLIP
from degroot.paper import models
from degroot.paper.data import datasets
from degroot.paper.problems import logistic
from degroot.paper.protocol import Protocol, split

HEAD = """\
Written by `make bench`. Mean squared errors over that of the paper's rule (1 % of the rows as neighbours) run on the
honest agents alone: without the guard, with it, and with it on the worst data set. The protocol of table 1: half of the
rows dealt in the order of the label, models scored honestly by cross-fitting; and the paper's synthetic problem. Mean
over data sets of the mean over splits; the liars are drawn anew in each. *degroot* is the paper's rule, *stacking* has
its defaults. *asker*: an honest member asks for its own view, under the guard from its own rows; its error is over that
of its own model. Liars that know that guard go as far as it lets pass. Left out: of the liars' answers, in percent.
Unverified: of the liars' answers, how many carry that flag. Amounts are in standard deviations of the label, sd."""
WITHOUT_LIARS = "The guard on, over the guard off. Asked for: at most {most:.2f}."
STILL = """\
Everything above that is more than {most:g} times the paper's error, at points where more than f others have rows nearby
to check the liars, and at points where not; there answers carry the flag *unverified*."""
ALONE = """\
An agent that is alone: its rows, and the points, are {distance:g} standard deviations of every feature away from all
other rows. There it lies by 2 sd, trusts itself alone and claims infinite coverage. Nobody can tell: the attack
succeeds, and the flag says that it may. Errors are over those of its honest answers."""
RESULTS = Path(__file__).with_name("ATTACKS.md")
RULES = ("degroot", "stacking")
MOST, MOST_WITHOUT_LIARS = 3.0, 1.10

NOBODY = Attack("no liars")
ATTACKS = (
    Attack("stubborn self-trust", praises=True),
    Attack("stubborn self-trust, model off by 3 sd", praises=True, offset=3.0),
    Attack("model off by 0.5 sd everywhere", offset=0.5),
    Attack("model off by 10 sd everywhere", offset=10.0),
    Attack("honest, then off by 10 sd at the point", lie=10.0),
    Attack("honest, then off by 0.5 sd at the point", lie=0.5),
    Attack("random predictions", random=True),
    Attack("copies the best peer, then off by 10 sd", copies=True, lie=10.0),
    Attack("copies the best peer, then off by 0.5 sd", copies=True, lie=0.5),
    Attack("infinite coverage and no error of its own, model off by 3 sd", praises=True, covers=True, offset=3.0),
    Attack("collusion, honest answers", colludes=True),
    Attack("collusion, models off by 3 sd", colludes=True, offset=3.0),
    Attack("collusion, infinite coverage, models off by 3 sd", colludes=True, covers=True, offset=3.0),
    Attack("collusion, infinite coverage, off by 0.5 sd at the point", colludes=True, covers=True, lie=0.5),
    Attack("collusion, infinite coverage, off by 10 sd at the point", colludes=True, covers=True, lie=10.0),
    Attack("as far as the asker's guard lets pass", knows=True),
)
ALL_OF_IT = Attack("stubborn self-trust, infinite coverage, off by 2 sd", praises=True, covers=True, lie=2.0)
DISTANCE = 30.0  # standard deviations of every feature


@dataclass(frozen=True)
class Size:
    agents: int
    liars: int
    splits: int
    points: int

    def __str__(self) -> str:
        return f"{self.liars} of {self.agents}"


SIZES = (Size(5, 1, 5, 300), Size(9, 2, 5, 300), Size(128, 40, 1, 40))
SYNTHETIC = "synthetic"
PAIRS = (Pair("boston", "Ridge"), *(Pair(name, kind) for name in ("abalone", "cpusmall") for kind in ("Ridge", "DTR")))


@dataclass(frozen=True)
class Dealt:
    agents: list[Agent]
    X: Any
    y: np.ndarray
    neighbours: float = 0.01


@dataclass(frozen=True)
class Case:
    where: Pair | str
    size: Size

    def __str__(self) -> str:
        return f"{self.where}, {self.size}"

    @property
    def possible(self) -> bool:
        """The synthetic problem has five agents, and Boston three rows for each of 128."""
        return (
            self.size.agents == 5 if self.where == SYNTHETIC else (self.size.agents, self.where.data) != (128, "boston")
        )


@dataclass(frozen=True)
class Outcome:
    """What one rule answered in one split, under one attack."""

    plain: float  # mean squared errors
    guarded: float
    paper: float  # of the paper's rule, on the honest agents alone
    checked: float  # guarded over the paper's, where all liars' answers were verified
    unchecked: float  # and elsewhere
    left_out: float  # share of the liars' answers
    unverified: float
    honest_left_out: float  # share of the others' answers, and
    honest_points: float  # of the points at which there were any
    asker: float  # mean squared errors of an honest asker's guarded view, and
    own: float  # of its own model


def deal(case: Case, number: int) -> Dealt:
    random, size = np.random.default_rng([7, number]), case.size
    if case.where == SYNTHETIC:
        problem = logistic.Problem(points=size.points)
        return Dealt(*logistic.pose(problem, random), problem.neighbours)
    rows = table(case.where.data, None)
    made = split(datasets.Data("", "", rows.X, rows.y, True, "", ""), Protocol(agents=size.agents), random)
    make = models.make(case.where.kind, case.where.setting, random)
    agents = [honest(make(k), rows.X[part], rows.y[part], f"agent {k}", number) for k, part in enumerate(made.parts)]
    test = made.test[: size.points]
    return Dealt(agents, rows.X[test], rows.y[test])


def remembering(agents: Sequence[Agent]) -> list[Agent]:
    """The same agents, with models that need not be run again for each attack."""
    return [
        Agent(Remembered(each.model), each.X, each.y, each.name, own_predictions=each.own_predictions)
        for each in agents
    ]


def measure(case: Case, number: int) -> dict[tuple[Attack, str], Outcome]:
    dealt, random = deal(case, number), np.random.default_rng([8, number])
    agents = remembering(dealt.agents)
    places = random.choice(case.size.agents, case.size.liars, replace=False)
    others = [agent for k, agent in enumerate(agents) if k not in places]
    paper = Collective(others, dealt.neighbours, n_jobs=1).predict(dealt.X)
    found = {}
    for attack in (NOBODY, *ATTACKS):
        for rule in RULES:
            liars = corrupted(agents, places, attack, random) if attack is not NOBODY else agents
            found[attack, rule] = attacked(Dealt(liars, dealt.X, dealt.y, dealt.neighbours), places, rule, paper)
    return found


def attacked(dealt: Dealt, places: np.ndarray, rule: str, paper: np.ndarray) -> Outcome:
    """What comes of it, beside what the paper's rule answers, (M,)."""
    collective = Collective(dealt.agents, dealt.neighbours if rule == "degroot" else None, rule, guard=False, n_jobs=1)
    for agent in dealt.agents:
        if isinstance(agent, Liar):
            agent.scored = True
    asker = next(agent.name for k, agent in enumerate(dealt.agents) if k not in places)
    inform(collective, asker, dealt)
    plain = collective.predict(dealt.X)
    collective.guard = True
    viewed = collective.consult(dealt.X, ["value", "beliefs"], asker=asker)
    own = viewed.beliefs[:, collective.names.index(asker)]
    answer = collective.consult(dealt.X, fields="value")
    out, unverified = flagged(answer, len(dealt.y))
    others, unchecked = np.delete(out, places, axis=1), unverified[:, places].any(axis=1)
    squares = {
        name: (each - dealt.y) ** 2
        for name, each in (
            ("plain", plain), ("guarded", answer.value), ("paper", paper), ("asker", viewed.value), ("own", own),
        )
    }  # fmt: skip
    shares = out[:, places].mean(), unverified[:, places].mean(), others.mean(), others.any(axis=1).mean()
    return Outcome(
        **{name: float(each.mean()) for name, each in squares.items()},
        **{
            name: float(squares["guarded"][where].mean() / squares["paper"][where].mean()) if where.any() else np.nan
            for name, where in (("checked", ~unchecked), ("unchecked", unchecked))
        },
        **dict(zip(("left_out", "unverified", "honest_left_out", "honest_points"), map(float, shares), strict=True)),
    )


def inform(collective: Collective, asker: str, dealt: Dealt) -> None:
    """Tell liars that know the asker's guard what it lets pass at the points."""
    liars = [agent for agent in dealt.agents if isinstance(agent, Liar) and agent.attack.knows]
    if not liars:
        return
    view = collective.view_of(asker)
    own = view.agent.predict(dealt.X)[:, None]
    most = own[:, None] + view.peers.at(view.scorer.transform(dealt.X), own) + CLIP * view.peers.spread
    for agent in liars:
        agent.told = dealt.X, most[:, collective.names.index(agent.name), 0]


def flagged(answer: Consensus, M: int) -> tuple[np.ndarray, np.ndarray]:
    """At which points who was left out, and who could not be checked, both (M, K)."""
    out, unverified = np.zeros((2, M, len(answer.names)), bool)
    for flag in answer.flags:
        if flag.agent not in answer.names:
            continue
        where = unverified if flag.reason.startswith("unverified") else out
        where[flag.points, answer.names.index(flag.agent)] = True
    return out, unverified


def far_away(pair: Pair, number: int) -> dict[tuple[Attack, str], Outcome]:
    """One agent's rows, and the points, are far from all others' rows."""
    size = SIZES[0]
    rows, random = table(pair.data, None), np.random.default_rng([9, number])
    made = split(datasets.Data("", "", rows.X, rows.y, True, "", ""), Protocol(agents=size.agents), random)
    make = models.make(pair.kind, pair.setting, random)
    place, away = int(random.integers(size.agents)), DISTANCE * rows.X.std(axis=0)
    agents = [
        honest(make(k), rows.X[part] + (away if k == place else 0.0), rows.y[part], f"agent {k}", number)
        for k, part in enumerate(made.parts)
    ]
    X, y = rows.X[made.test[: size.points]] + away, rows.y[made.test[: size.points]]
    truth, found = agents[place].predict(X), {}
    for rule in RULES:
        liars = corrupted(agents, [place], ALL_OF_IT, random)
        found[ALL_OF_IT, rule] = attacked(Dealt(liars, X, y), np.array([place]), rule, truth)
    return found


def mean_ratio(outcomes: Sequence[Outcome], which: str, to: str = "paper") -> float:
    return float(np.mean([getattr(each, which) / getattr(each, to) for each in outcomes]))


def worst(ratios: dict[str, float]) -> str:
    where = max(ratios, key=ratios.get)
    return f"{ratios[where]:.2f} ({where})"


def verdict(value: float, most: float) -> str:
    return "yes" if value <= most else "NO"


Found = dict[Case, list[dict[tuple[Attack, str], Outcome]]]


def of(found: Found, size: Size, attack: Attack, rule: str) -> dict[str, list[Outcome]]:
    """The splits of each data set."""
    return {
        str(case.where): [each[attack, rule] for each in outcomes]
        for case, outcomes in found.items()
        if case.size == size
    }


def share(outcomes: dict[str, list[Outcome]], which: str) -> str:
    return f"{100.0 * np.mean([getattr(each, which) for splits in outcomes.values() for each in splits]):.1f}"


def attack_row(found: Found, size: Size, attack: Attack) -> dict[str, str]:
    cells = {"attack": str(attack)}
    largest = 0.0
    for rule in RULES:
        outcomes = of(found, size, attack, rule)
        plain, guarded = (
            {where: mean_ratio(splits, which) for where, splits in outcomes.items()} for which in ("plain", "guarded")
        )
        cells[f"{rule}, no guard"] = f"{np.mean(list(plain.values())):.2f}"
        cells["guarded" if rule == RULES[0] else "guarded "] = f"{np.mean(list(guarded.values())):.2f}"
        cells["worst" if rule == RULES[0] else "worst "] = worst(guarded)
        largest = max(largest, *guarded.values())
    asked = {where: mean_ratio(splits, "asker", "own") for where, splits in of(found, size, attack, RULES[0]).items()}
    cells["asker"], cells["worst  "] = f"{np.mean(list(asked.values())):.2f}", worst(asked)
    cells["left out"], cells["unverified"] = share(outcomes, "left_out"), share(outcomes, "unverified")
    return cells | {f"all at most {MOST:g}": verdict(largest, MOST)}


def nobody_rows(found: Found) -> list[dict[str, str]]:
    rows = []
    for size in SIZES:
        for rule in RULES:
            outcomes = of(found, size, NOBODY, rule)
            ratios = {where: mean_ratio(splits, "guarded", "plain") for where, splits in outcomes.items()}
            cells = {"agents": str(size.agents), "rule": rule, "mean": f"{np.mean(list(ratios.values())):.3f}"}
            cells["worst"] = worst(ratios)
            cells["answers left out, %"] = share(outcomes, "honest_left_out")
            cells["points with any, %"] = share(outcomes, "honest_points")
            cells["unverified, %"] = share(outcomes, "unverified")
            cells[f"all at most {MOST_WITHOUT_LIARS:.2f}"] = verdict(max(ratios.values()), MOST_WITHOUT_LIARS)
            rows.append(cells)
    return rows


def far_rows(found: dict[Pair, list[dict[tuple[Attack, str], Outcome]]]) -> list[dict[str, str]]:
    rows = []
    for pair, outcomes in found.items():
        for rule in RULES:
            splits = [each[ALL_OF_IT, rule] for each in outcomes]
            cells = {"data, model": str(pair), "rule": rule}
            cells["no guard"], cells["guarded"] = (f"{mean_ratio(splits, each):.2f}" for each in ("plain", "guarded"))
            cells["left out, %"] = share({"": splits}, "left_out")
            rows.append(cells | {"flagged unverified, %": share({"": splits}, "unverified")})
    return rows


def mean_of_some(values: list[float]) -> str:
    """The mean of those that are numbers, if any are."""
    known = [value for value in values if not np.isnan(value)]
    return f"{np.mean(known):.2f}" if known else "none"


def still_rows(found: Found) -> list[dict[str, str]]:
    """Where the guarded error is beyond the target."""
    rows = []
    for case, outcomes in found.items():
        for attack, rule in outcomes[0]:
            splits = [each[attack, rule] for each in outcomes]
            if attack is not NOBODY and mean_ratio(splits, "guarded") > MOST:
                checked, unchecked = (
                    mean_of_some([getattr(each, name) for each in splits]) for name in ("checked", "unchecked")
                )
                rows.append(
                    {
                        "data, model": str(case.where), "liars": str(case.size), "attack": str(attack), "rule": rule,
                        "all points": f"{mean_ratio(splits, 'guarded'):.2f}", "verified": checked,
                        "unverified": unchecked, "points unverified, %": share({"": splits}, "unverified"),
                    }
                )  # fmt: skip
    return rows


def run(jobs: int, pairs: Sequence[Pair]) -> tuple[Found, dict[Pair, list[Any]]]:
    cases = [Case(where, size) for size in reversed(SIZES) for where in (*pairs, SYNTHETIC)]  # the slow ones first
    cases = [case for case in cases if case.possible]
    work = [(measure, case, number) for case in cases for number in range(case.size.splits)]
    work += [(far_away, pair, number) for pair in pairs for number in range(SIZES[0].splits)]
    found: dict[Any, list[Any]] = {}
    with parallel_config("loky", n_jobs=jobs, inner_max_num_threads=1):
        outcomes = Parallel(return_as="generator")(delayed(what)(which, number) for what, which, number in work)
        for (_, which, number), outcome in zip(work, outcomes, strict=True):
            found.setdefault(which, []).append(outcome)
            print(f"{time.strftime('%X')} {which}, split {number}", file=sys.stderr, flush=True)
    return {case: found[case] for case in cases}, {pair: found[pair] for pair in pairs}


def main(jobs: int) -> None:
    begun, reasons = time.monotonic(), {name: missing(name, None) for name in {pair.data for pair in PAIRS}}
    found, far = run(jobs, [pair for pair in PAIRS if reasons[pair.data] is None])
    report = [
        "# Attacks",
        HEAD,
        "## Without liars",
        WITHOUT_LIARS.format(most=MOST_WITHOUT_LIARS),
        as_markdown(nobody_rows(found)),
    ]
    for size in SIZES:
        splits = f"{size.splits} splits" if size.splits > 1 else "one split"
        report += [f"## {size} lie", f"{size.points} points at most in each of {splits}."]
        report.append(as_markdown([attack_row(found, size, attack) for attack in ATTACKS]))
    still = still_rows(found)
    report += ["## Where attacks still succeed", STILL.format(most=MOST), as_markdown(still) if still else "Nothing."]
    report += [ALONE.format(distance=DISTANCE), as_markdown(far_rows(far))]
    report += [f"Left out, {name}: {reason}" for name, reason in sorted(reasons.items()) if reason is not None]
    report.append(f"All of this took {(time.monotonic() - begun) / 60:.1f} minutes with {jobs} processes.")
    text = "\n\n".join(report) + "\n"
    print(text)
    RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2)
    main(parser.parse_args().jobs)
