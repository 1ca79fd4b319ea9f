"""Errors of Ray and of its processes, as this package's errors."""

from collections.abc import Sequence
from typing import Any

from degroot.exceptions import AgentError, DeGrootError, describe_error

UNBORN = "creation task"  # how Ray says that a process could not begin


def fetch_answers(references: Sequence[Any], names: Sequence[str | None]) -> list[Any]:
    """What processes answer, or the error of the first that fails; `names`: of the agents in them, None for workers."""
    import ray
    from ray.exceptions import RayError

    answers = []
    for reference, name in zip(references, names, strict=True):
        try:
            answers.append(ray.get(reference))
        except RayError as error:
            raise convert_error(error, name) from error
    return answers


def convert_error(error: Exception, name: str | None = None) -> DeGrootError:
    """The error of a process: its own if it raised one, or that it fell silent.

    `name`: of the agent whose process it is; None: it is a worker.
    """
    cause = getattr(error, "cause", None)
    if isinstance(cause, DeGrootError):
        return cause
    lines = [line.strip().rstrip(".") for line in describe_error(cause or error).splitlines() if line.strip()]
    if UNBORN in lines[0]:
        needed, came = "must start, with this package and what {} needs", lines[-1]
    else:
        needed, came = "must answer", lines[0]
    if name is None:
        return DeGrootError(f"A worker's process {needed.format('the collective')}; {came}.")
    return AgentError(name, f"its process {needed.format('its model')}; {came}.")
