"""The names of the rules."""

RULE_NAMES = ("degroot", "average", "trust-average", "error-average", "stacking")
FOR_SAMPLES = ("degroot", "average")  # rules for agents that have scored some of the models only
