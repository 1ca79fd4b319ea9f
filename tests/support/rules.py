"""Rules that tests go through, derived from the package's tables: a new rule is tested like the others."""

from degroot.consultation.rule_selection import OPTIONS
from degroot.rules.evidence import MOMENTS, NOTHING
from degroot.rules.rules import RULES

SCORING = [name for name, rule in RULES.items() if rule.uses != NOTHING]  # rules that need the agents' scores
CANDIDATES = sorted({option.rule for option in OPTIONS})  # rules that "auto" chooses among
# Relative difference between answers to questions for few and for many fields. Where values or weights are all that is
# asked for, second moments are summed over the agents before they are used, which rounds differently.
ROUNDING = {name: 1e-10 if rule.uses == MOMENTS else 0.0 for name, rule in RULES.items()}
