"""Choice: which rule was selected, and the evidence for it."""

from dataclasses import dataclass

from degroot.compute.compiled import Array
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

    option: RuleSettings
    options: tuple[RuleSettings, ...]
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
