"""Heterogeneity: what DeGroot gains over M-avg as the agents become more unlike each other."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from degroot import Agent, Collective
from degroot.paper import experiment, gains, protocol
from degroot.paper.data.datasets import Data
from degroot.paper.experiment import Finding, Row, judge_finding
from degroot.paper.protocol import Array, MakeModel
from degroot.paper.statistics import unsettled

TABLE_1 = 0.5  # the fraction of table 1
RANK = 0.5  # the least rank correlation that counts as growth
PAPER = "shape: the gain grows with heterogeneity"


@dataclass(frozen=True, kw_only=True)
class Settings(experiment.Settings, protocol.Protocol):
    """The paper's protocol, with many fractions p of rows dealt in order in place of one."""

    fractions: tuple[float, ...] = tuple(k / 10 for k in range(11))


@dataclass(frozen=True)
class Growth:
    """How growth is judged: by the step from none to `at`, and by all levels, or those up to `most`."""

    at: float = TABLE_1
    most: float | None = 0.8
    letter: str = "p"

    @property
    def rule(self) -> str:
        """The rule in words."""
        p, up_to, above = self.letter, "", ""
        if self.most is not None:
            up_to = f" over 0 ≤ {p} ≤ {self.most:g}"
            above = (
                f" Above {p} = {self.most:g} growth is not judged: the agents hardly have labels, or values of the "
                f"feature, in common there, and we do not know how far {p} goes in the paper's figure."
            )
        return (
            f"The gain is larger at {p} = {self.at:g} than at {p} = 0 {gains.MOSTLY}, and the rank correlation of the "
            f"median gain with {p}{up_to} is above {RANK:g}.{above}"
        )


def along(
    data: Data, make: MakeModel, settings: Settings, random: np.random.Generator, order: Array | None = None,
    held_back: float = 0.0,
) -> Iterator[Row]:  # fmt: skip
    """Errors and gain for each fraction of the rows dealt in order, on the same test rows and from the same shuffle.

    Agents score models on all of their rows, or on a share of them that is held back from training.
    """
    seed = int(random.integers(2**63))
    X = protocol.table(data, settings)
    for fraction in settings.fractions:
        reading = replace(settings, fraction=fraction)
        rows = protocol.split(data, reading, np.random.default_rng(seed), order=order)
        agents = trained(make, X, data.y, rows.parts, held_back, np.random.default_rng([seed, 1]))
        yield {"heterogeneity": fraction, **measured(agents, X[rows.test], data.y[rows.test], settings.neighbours)}


def trained(
    make: MakeModel, X: Any, y: Array, parts: Sequence[protocol.Rows], held_back: float, random: np.random.Generator
) -> list[Agent]:
    """As the protocol trains agents, but that they score models on a share of their rows that theirs has not seen."""
    if held_back == 0:
        return protocol.train_agents(make, X, y, parts)
    cut = [np.split(random.permutation(part), [round(held_back * len(part))]) for part in parts]
    models = protocol.train_agents(make, X, y, [training for _, training in cut])
    return [Agent(agent.model, X[apart], y[apart], agent.name) for agent, (apart, _) in zip(models, cut, strict=True)]


def measured(agents: Sequence[Agent], X: Any, y: Array, neighbours: float) -> Row:
    """The errors of DeGroot and M-avg, the gain, and an agent's mean trust in its own model."""
    answer = Collective(agents, neighbours, n_jobs=1).consult(X, fields=["value", "beliefs", "trust"])
    return {
        **gains.measure_gain(answer, y),
        "self_trust": np.diagonal(np.asarray(answer.trust), axis1=1, axis2=2).mean(),
    }


def growth(table: pd.DataFrame, what: str, by: Growth = Growth(), note: str = "", reading: str = "") -> Finding:
    """Whether the gain grows."""
    if not len(table):
        return judge_finding(Finding(what, PAPER, "", by.rule, None, reading=reading), table)
    found = table.pivot(index="repetition", columns="heterogeneity", values="gain")
    medians, p = found.median(), by.letter
    first, there = medians.index[0], min(medians.index, key=lambda level: abs(level - by.at))
    steps, most = found[there] - found[first], medians.index[-1] if by.most is None else by.most
    rank, overall = _rank_correlation(medians[medians.index <= most]), _rank_correlation(medians)
    ours = (
        f"median gain {medians[first]:.1f} % at {p} = {first:g}, {medians[there]:.1f} % at {p} = {there:g}; median "
        f"difference {steps.median():+.1f}, above 0 in {(steps > 0).sum()} of {len(steps)} repetitions; rank "
        f"correlation {rank:.2f}"
        + (f" up to {p} = {most:g}, {overall:.2f} over all {p}" if by.most is not None else "")
        + (f"; least at {p} = {medians.idxmin():g}: {medians.min():.1f} %" if medians.idxmin() != first else "")
    )
    step = gains.judge_sign(steps)
    open_still = unsettled(len(steps)) if step is None else ""
    agrees = None if step is None else step and rank > RANK
    return judge_finding(Finding(what, PAPER, ours, by.rule, agrees, f"{open_still} {note}".strip(), reading), table)


def at_the_end(tables: Mapping[str, pd.DataFrame], what: str, reading: str = "") -> Finding:
    """What becomes of the gain where all rows are dealt in order: a finding beside the paper's."""
    medians = {name: _medians(table) for name, table in tables.items()}
    ends = {
        name: (found.loc[TABLE_1], found.loc[1.0])
        for name, found in medians.items()
        if {TABLE_1, 1.0} <= {*found.index}
    }
    ours = [
        f"{name}: median gain {half['gain']:.1f} % at p = {TABLE_1:g} and {end['gain']:.1f} % at p = 1, trust in one's "
        f"own model {half['self_trust']:.2f} and {end['self_trust']:.2f}"
        for name, (half, end) in ends.items()
    ]
    rule = "Not judged: we do not have the range of p in the paper's figure."
    finding = Finding(what, "not mentioned", "; ".join(ours) or "left out", rule, None, _loss(ends), reading)
    return judge_finding(finding, pd.concat(tables.values()))


def _medians(table: pd.DataFrame) -> pd.DataFrame:
    return table.groupby("heterogeneity")[["gain", "self_trust"]].median() if len(table) else table


def _loss(ends: Mapping[str, tuple[pd.Series, pd.Series]]) -> str:
    """Where less is gained with all rows dealt in order than with half, and whether trust in oneself goes with it."""
    less = [name for name, (half, end) in ends.items() if end["gain"] < half["gain"]]
    sure = [name for name, (_, end) in ends.items() if end["self_trust"] > 0.5]
    if not less or not sure:
        return f"Less is gained at p = 1 than at p = {TABLE_1:g}: {', '.join(less)}." if less else ""
    alone = "" if set(sure) <= set(less) else ", which alone does not make it less"
    return (
        f"Less is gained at p = 1 than at p = {TABLE_1:g}: {', '.join(less)}. At p = 1 an agent trusts itself more "
        f"than all others together{alone}: {', '.join(sure)}."
    )


def _rank_correlation(values: pd.Series) -> float:
    """Spearman's, of values with their place in the sequence."""
    return float(values.rank().corr(pd.Series(np.arange(len(values)), values.index)))
