"""Predictions for files of any size: a plan of shards, engines that answer them, output that is written whole.
Imports the layers below only."""

from degroot.answers.columns import Columns
from degroot.answers.display.words import output_names
from degroot.batch.local import Local, Reader, ShardEngine
from degroot.batch.plan import Plan, check, make_plan
from degroot.batch.run import RunSummary, predict_files, run
from degroot.batch.shards import Shard
from degroot.batch.task import NULL, REFUSE, Consult, Task

__all__ = [
    "NULL",
    "REFUSE",
    "Columns",
    "Consult",
    "Local",
    "Plan",
    "Reader",
    "RunSummary",
    "Shard",
    "ShardEngine",
    "Task",
    "check",
    "make_plan",
    "output_names",
    "predict_files",
    "run",
]
