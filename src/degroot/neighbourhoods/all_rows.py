"""Neighbourhoods that hold every row."""

from functools import cached_property
from typing import Any

from degroot.compute.tables import is_sparse
from degroot.neighbourhoods.codes import UNIFORM
from degroot.neighbourhoods.dense import DenseIndex
from degroot.neighbourhoods.large.rows import LargeSet
from degroot.neighbourhoods.sparse import SparseIndex
from degroot.neighbourhoods.summaries import Index, Summaries, moments_of_all


class Everything:
    """All rows are everybody's neighbours, with equal weights: one summary serves every query.

    Where it does not, because distances are asked for or a row is left out, each query looks at every row.
    """

    path = "everything"

    def __init__(self, rows: Any, metric: int, large: LargeSet | None = None) -> None:
        self.rows, self.metric, self.large = rows, metric, large

    @cached_property
    def _searched(self) -> Index:
        if self.large is not None:
            return self.large.in_sequence(self.rows.shape[0], UNIFORM)
        kind = SparseIndex if is_sparse(self.rows) else DenseIndex
        return kind(self.rows, self.rows.shape[0], self.metric, UNIFORM)

    def summarise(self, queries: Any, asked: Summaries) -> None:
        """What is `asked` about all rows, for each query (m, d)."""
        if asked.spread.size or asked.exclude_row.size:
            self._searched.summarise(queries, asked)
            return
        asked.out[:, asked.place] = moments_of_all(asked) if asked.outputs else asked.values.mean(axis=0)
        if asked.effective.size:
            asked.effective[:, asked.place] = len(asked.values)
