"""Errors of Ray and of the agents' processes, as this package's errors."""

from collections.abc import Sequence
from typing import Any

from degroot.exceptions import AgentError, DeGrootError, describe_error

UNBORN = "creation task"  # how Ray says that a process could not begin


def fetch_answers(references: Sequence[Any], names: Sequence[str]) -> list[Any]:
    """What the agents' processes answer, or the error of the first that fails."""
    import ray
    from ray.exceptions import RayError

    answers = []
    for reference, name in zip(references, names, strict=True):
        try:
            answers.append(ray.get(reference))
        except RayError as error:
            raise convert_error(error, name) from error
    return answers


def convert_error(error: Exception, name: str) -> DeGrootError:
    """The error of an agent's process: its own if it raised one, or that it fell silent."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, DeGrootError):
        return cause
    lines = [line.strip().rstrip(".") for line in describe_error(cause or error).splitlines() if line.strip()]
    if UNBORN in lines[0]:
        return AgentError(name, f"its process must start, with this package and what its model needs; {lines[-1]}.")
    return AgentError(name, f"its process must answer; {lines[0]}.")
