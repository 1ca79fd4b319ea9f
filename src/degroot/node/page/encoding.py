"""Encoding: numbers and records as JSON. What is no finite number becomes null."""

import json
import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np
from fastapi import Response

from degroot.node.server.threads import run_in_thread

KIND = "application/json"


def encoded(content: Any) -> bytes:
    """The content as JSON, which every browser reads."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def reply(content: Any, status: int = 200) -> Response:
    """A response with the content as JSON."""
    return Response(encoded(content), status, media_type=KIND)


async def reply_of(work: Callable[..., Any], *arguments: Any) -> Response:
    """A response with what `work` gives as JSON; others need not wait for that."""
    content = await run_in_thread(lambda: encoded(work(*arguments)))
    return Response(content, media_type=KIND)


def refusal(status: int, told: str, **more: Any) -> Response:
    """A response that says in one line what is wrong, with more for those who read it."""
    return reply({"error": " ".join(told.split()), **more}, status)


def numbers(values: Any) -> Any:
    """Nested lists of the numbers of an array, or one number; None where it is not finite."""
    array = np.asarray(values, np.float64)
    finite = np.isfinite(array)
    if finite.all():
        return array.tolist()
    gaps = array.astype(object)
    gaps[~finite] = None
    return gaps.tolist()


def number(value: float | None) -> float | None:
    """The number, if it is finite."""
    return None if value is None or not math.isfinite(value) else float(value)


def moment(at: float | None) -> str | None:
    """A time, in seconds since 1970, as it is written."""
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
