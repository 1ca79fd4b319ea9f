"""Runs: a plan carried out by an engine, from where an earlier run stopped."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from degroot.batch.local import ShardEngine
from degroot.batch.plan import Plan, unchanged
from degroot.batch.resume import Merging, unfinished
from degroot.compute.progress import progress
from degroot.exceptions import DeGrootError


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a run came to."""

    rows: int
    before: int  # those of them that an interrupted run had finished
    bad: int
    seconds: float
    output: Path


def run(plan: Plan, engine: ShardEngine, *, restart: bool = False) -> RunSummary:
    """Answer all shards that are not finished yet, and write the output when all are: whole or not at all."""
    begun = time.monotonic()
    with (
        _written(plan.output),
        unfinished(plan.output, plan.identity, restart) as kept,
        Merging(kept, plan.output, plan.task.schema) as merging,
    ):
        open_shards = [shard for shard in plan.shards if shard.number not in kept.bad]
        before = plan.rows - sum(shard.rows for shard in open_shards)
        with progress("Predicting", plan.rows, lines=True, unit="rows", done=before) as advance:
            for shard, answers in engine.answers(open_shards, plan.task):
                kept.save(shard, answers, _bad(plan, answers))
                merging.advance(2)  # after an interruption, those before are caught up with
                advance(shard.rows)
        unchanged(plan)
        merging.finish(len(plan.shards))
        bad = sum(kept.bad.values())
        kept.remove()
    return RunSummary(plan.rows, before, bad, time.monotonic() - begun, plan.output)


def _bad(plan: Plan, answers: pa.RecordBatch) -> int:
    """How many rows have no answers."""
    return int(answers.column(len(plan.task.keep)).null_count)


@contextmanager
def _written(output: Path) -> Iterator[None]:
    """Say in one line why the output cannot be written."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error
        raise DeGrootError(
            f"The output must go to where it can be written; {output}: {reason}. What is finished is kept: the same "
            "command goes on."
        ) from error
