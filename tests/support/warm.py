"""Imported once by the process that nodes are forked from: they find their kernels loaded."""

import numpy as np

from degroot import Agent, Collective


def answer_once() -> None:
    """What a node does before it serves, with the settings that most tests have."""
    random = np.random.default_rng(0)
    rows = random.normal(size=(3, 40, 3))
    agents = [Agent(lambda X: X[:, 0], each, random.normal(size=40), f"agent{k}") for k, each in enumerate(rows)]
    collective = Collective(agents, 5, guard=True, n_jobs=1).calibrate()
    for asker in (None, "agent0"):
        collective.consult(rows[0], coverage=0.5, asker=asker)


answer_once()
