"""Run before the workers of the tests start: kernels that most tests need are compiled once, and kept on disk.

In a fresh checkout every worker would compile them at the same time. Each part is a process, for two cores.
"""

import sys

import numpy as np

from degroot import Agent, Collective, consensus, jackknife
from degroot.guard.bounds import clip_to_peer_bounds
from degroot.stacking import local
from degroot.trust import from_errors


def compile_neighbourhoods() -> None:
    """What agents compute from rows: means, and moments for stacking."""
    import warm  # noqa: F401 - answers on import, with the settings that most tests have

    random = np.random.default_rng(0)
    rows = random.normal(size=(3, 40, 3))
    agents = [Agent(lambda X: X[:, 0], each, random.normal(size=40), f"agent{k}") for k, each in enumerate(rows)]
    Collective(agents, 5, rule="stacking", n_jobs=1).consult(rows[0])


def compile_rules() -> None:
    """What is computed from errors and moments."""
    random = np.random.default_rng(0)
    errors, beliefs, spread = random.uniform(1.0, 2.0, size=(4, 3, 3)), random.normal(size=(4, 3)), np.ones((4, 3))
    clip_to_peer_bounds(errors, errors, spread)
    trust = from_errors(errors)
    consensus.stationary(trust)
    consensus.pool(trust, beliefs, rounds=3)
    jackknife.standard_error(jackknife.values_without(trust, beliefs))
    moments = np.tile([1.0, 0.0, 1.0, 0.0, 0.0, 1.0], (4, 3, 1))  # the lower halves of matrices
    local.weigh(moments, spread, 9.0 * spread)
    local.values_without(moments, spread, 9.0 * spread, beliefs)


if __name__ == "__main__":
    {"rows": compile_neighbourhoods, "rules": compile_rules}[sys.argv[1]]()
