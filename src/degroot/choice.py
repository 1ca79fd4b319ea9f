"""Choosing a rule: each agent tries the options on its own rows, and only sums of squared errors are pooled."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from degroot.agents import Agent
from degroot.evidence import Evidence, Reach
from degroot.judges import Judge
from degroot.parts import chance, sums_over_parts
from degroot.points import Array
from degroot.progress import progress
from degroot.rehearsal import rehearse, sampled
from degroot.rules import FEW, LOCAL, MOMENTS, Option
from degroot.stacking import RIDGE

WIDE = Reach(0.2, "tricube", least=40, most=2000)
MANY = Reach(0.1, "uniform", least=30)
CLEARLY = 1.5  # standard errors by which an option has to be better than the first


OPTIONS = (
    *(Option("stacking", reach, ridge) for reach in (LOCAL, WIDE) for ridge in (RIDGE, 2.0, 10.0, 50.0)),
    Option("degroot", FEW),
    Option("degroot", MANY),
    Option("average", FEW),
)


@dataclass(frozen=True, slots=True)
class Choice:
    """Which option was chosen, and the evidence: the mean squared error of each on the agents' own rows.

    Examples
    --------
    >>> from degroot import Collective
    >>> rows = np.arange(30.0)[:, None]
    >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.4 * rows[:, 0], f"times {k}") for k in (1, 2)]
    >>> choice = Collective(agents, neighbours=10, ridge=1.0, rule="auto").choice
    >>> print(choice)
    mean squared error on 60 of the agents' own rows, each left out of its neighbourhood:
      0.00593691  stacking, neighbours 10, ridge 1  <- chosen
         2.42982  degroot, neighbours 10
         2.85167  average
    >>> Collective(agents, rule=choice).option == choice.option  # chosen before: nothing is tried again
    True
    """

    option: Option
    options: tuple[Option, ...]
    errors: Array  # (options,)
    rows: int

    @property
    def rule(self) -> str:
        """The name of the rule that was chosen."""
        return self.option.rule

    def __str__(self) -> str:
        lines = [f"mean squared error on {self.rows} of the agents' own rows, each left out of its neighbourhood:"]
        for option, error in zip(self.options, self.errors, strict=True):
            lines.append(f"{error:12.6g}  {option}{'  <- chosen' if option == self.option else ''}")
        return "\n".join(lines)


def choose(agents: Sequence[Agent], judges: Sequence[Judge], options: Sequence[Option], n_jobs: int | None) -> Choice:
    r"""The option with the least mean squared error on the agents' own rows; the first, unless that is clearly better.

    Each agent tells, for every option, the sums of squared errors over ten parts of its rows. The best option is taken
    when its mean squared error is below that of the first by more than 1.5 standard errors of the difference, which
    the sums over parts give: sampling noise alone should not overturn a good default.
    """
    told = []
    with progress("Choosing a rule", len(agents)) as advance:
        for place in range(len(agents)):
            told.append(sums_over_parts(_squared_errors(agents, judges, place, options, n_jobs).T))
            advance()
    sums, rows = np.concatenate([each[0] for each in told]), int(sum(each[1].sum() for each in told))
    errors = sums.sum(axis=0) / rows
    best = int(np.argmin(errors))
    gains = sums[:, 0] - sums[:, best]
    return Choice(options[best if gains.sum() > CLEARLY * chance(gains) else 0], tuple(options), errors, rows)


def _squared_errors(
    agents: Sequence[Agent], judges: Sequence[Judge], place: int, options: Sequence[Option], n_jobs: int | None
) -> Array:
    """The squared error of every option on the rehearsed rows of one agent, (options, m)."""
    squares = np.empty((len(options), len(sampled(agents[place]))))
    for reach in dict.fromkeys(option.reach for option in options):
        tried = [k for k, option in enumerate(options) if option.reach == reach]

        def heard(points: slice, evidence: Evidence, residuals: Array, tried: list[int] = tried) -> None:
            for k in tried:
                weights = options[k].made.weights(evidence)
                squares[k, points] = (np.einsum("mk,mkq->mq", weights, residuals) ** 2).sum(axis=1)

        moments = any(options[k].made.uses == MOMENTS for k in tried)
        rehearse(agents, judges, place, reach, heard, moments=moments, n_jobs=n_jobs)
    return squares
