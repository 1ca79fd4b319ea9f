"""Data sets of the paper. (placeholder until the loaders land)"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Data:
    name: str
    X: Any
    y: Any
    complete: bool
    source: str
    fingerprint: str
