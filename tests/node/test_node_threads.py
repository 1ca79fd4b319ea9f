"""Batches beside the event loop: on one thread where they are short, and the same on several."""

import asyncio
import threading

import numpy as np
import pytest

from degroot import Agent, Collective
from degroot.compute.compiled import in_blocks
from degroot.node.server.threads import SPLIT_SECONDS, BatchWork

BLOCKS = 8


def compute(batch, rows):
    """Work in blocks; the threads that took them. No block ends before another thread has one, where there are more."""
    names, others = set(), threading.Event()

    def block(*_):
        names.add(threading.get_ident())
        if len(names) > 1:
            others.set()

    def work():
        begun = threading.get_ident()
        in_blocks(lambda *_: (block(), threading.get_ident() == begun or others.wait(60)), BLOCKS, 1, 2)
        return begun

    return asyncio.run(batch.compute(rows, work)), names


def test_a_batch_is_computed_on_one_thread_until_such_batches_take_long():
    batch = BatchWork()
    begun, names = compute(batch, 100)
    assert names == {begun}
    batch.seconds_per_row = SPLIT_SECONDS / 99
    _, names = compute(batch, 100)
    assert begun not in names
    _, names = compute(batch, 98)
    assert len(names) == 1


def test_what_fails_fails_as_it_would_elsewhere():
    def fail():
        raise ValueError("lost")

    for seconds in (0.0, 1.0):
        batch = BatchWork()
        batch.seconds_per_row = seconds
        with pytest.raises(ValueError, match="lost"):
            asyncio.run(batch.compute(100, fail))


def test_answers_are_the_same_on_one_thread_and_on_several():
    random = np.random.default_rng(0)
    agents = [Agent(lambda X: X[:, 0], random.normal(size=(60, 3)), random.normal(size=60), f"a{k}") for k in range(4)]
    collective, points = Collective(agents, guard=True), random.normal(size=(500, 3))
    for asker in (None, "a0"):
        alone, shared = BatchWork(), BatchWork()
        shared.seconds_per_row = 1.0
        first, second = (
            asyncio.run(each.compute(len(points), lambda asker=asker: collective.consult(points, asker=asker)))
            for each in (alone, shared)
        )
        for name in ("value", "weights", "standard_error"):
            np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
