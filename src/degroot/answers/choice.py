"""Choice: which rule was selected, or which candidates were mixed for an asker, and the evidence for it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from degroot.compute.compiled import Array

if TYPE_CHECKING:
    from degroot.rules.rules import RuleSettings


@dataclass(frozen=True, slots=True)
class Choice:
    """Which option was chosen, and the evidence: the mean squared error of each on the agents' own rows.

    Examples
    --------
    >>> import numpy as np
    >>> from degroot import Agent, Collective
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

    option: "RuleSettings"
    options: tuple["RuleSettings", ...]
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


@dataclass(frozen=True, slots=True)
class Mixture:
    """What was mixed for an asker, and why: each candidate's error on the asker's own rows, whole units left out.

    Examples
    --------
    >>> import numpy as np
    >>> from degroot import Agent, Collective
    >>> rows = np.linspace(0.0, 1.0, 60)[:, None]
    >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.5 * rows[:, 0], f"times {k}") for k in (1, 2)]
    >>> choice = Collective(agents).consult([[0.5]], "value", asker="times 1").choice
    >>> choice.asker, choice.rows, choice.folds, choice.candidates[:3]
    ('times 1', 60, 10, ('own', 'local stacking', 'trust row'))
    >>> choice.errors[:2].round(2), float(choice.shares.sum().round(6))
    (array([0.08, 0.  ]), 1.0)
    """

    asker: str
    candidates: tuple[str, ...]
    shares: Array  # (C,) sum to 1
    errors: Array  # (C,) mean squared error, summed over outputs
    differences: Array  # (C,) to the best candidate, mean over rows
    standard_errors: Array  # (C,) of the differences, clustered by units
    rows: int  # scored
    folds: int

    def __str__(self) -> str:
        if self.rows == 0:
            return f"the own model of {self.asker}: there is nothing else to choose from"
        lines = [
            f"mixed for {self.asker} by mean squared error on {self.rows} of its own rows, left out in "
            f"{self.folds} folds:"
        ]
        for name, share, error in zip(self.candidates, self.shares, self.errors, strict=True):
            lines.append(f"{error:12.6g}  {share:5.0%}  {name}")
        return "\n".join(lines)
