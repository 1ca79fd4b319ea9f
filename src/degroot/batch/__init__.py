"""Files of any size: a plan of their shards, engines that answer them, and output that is whole or not there."""

from degroot.batch.columns import Columns
from degroot.batch.engine import Engine
from degroot.batch.local import Local
from degroot.batch.plan import Plan, check, make_plan
from degroot.batch.reader import Reader
from degroot.batch.run import Summary, run
from degroot.batch.shards import Shard
from degroot.batch.task import NULL, REFUSE, Consult, Task
from degroot.explanations.outputs import output_names

__all__ = [
    "NULL",
    "REFUSE",
    "Columns",
    "Consult",
    "Engine",
    "Local",
    "Plan",
    "Reader",
    "Shard",
    "Summary",
    "Task",
    "check",
    "make_plan",
    "output_names",
    "run",
]
