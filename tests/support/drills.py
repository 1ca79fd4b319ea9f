"""Failure drills: what consortia are asked, and what their answers have to be while some of the nodes are missing."""

import re
import time

import numpy as np

from degroot.node.answering.answer import STALE
from degroot.node.records.ledger import IN, summary

WAYS = ("solve", "rounds")
EXACT = {"tolerance": 1e-12}
MISSING = "missing: "


def points(number=40, seed=3):
    return np.random.default_rng(seed).normal(0.0, 1.5, (number, 3))


def until(condition, what, seconds=60.0):
    """What `condition` gives, once that is something."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, what() if callable(what) else what
        time.sleep(0.01)
    return found


def missing(answer):
    """Who was missing, and why."""
    return {flag.agent: flag.reason.removeprefix(MISSING) for flag in answer.flags if flag.reason.startswith(MISSING)}


def check(answer, consortium, X, without=(), rows=slice(None)):
    """The answer, at some rows, is that of the collective in this process without those who are missing.

    It is the consensus, or that for an asker, as the answer is.
    """
    expected = consortium.collective(without=without).consult(X[rows], asker=answer.asker)
    present = [answer.names.index(name) for name in expected.names]
    absent = [answer.names.index(name) for name in without if name in answer.names]
    assert len(present) + len(absent) == len(answer.names)
    for field in ("value", "standard_error"):
        np.testing.assert_allclose(getattr(answer, field)[rows], getattr(expected, field), rtol=1e-9, atol=1e-9)
    for field in ("weights", "beliefs"):
        here = getattr(answer, field)[rows]
        np.testing.assert_allclose(here[:, present], getattr(expected, field), rtol=1e-9, atol=1e-9)
    assert (answer.weights[rows][:, absent] == 0.0).all()
    assert np.isnan(answer.beliefs[rows][:, absent]).all()


def right(answer, consortium, X, without=()):
    """Like `check`, and the missing are named, for all points."""
    assert set(missing(answer)) == set(without), answer.flags
    assert all(len(flag.points) == len(X) for flag in answer.flags if flag.reason.startswith(MISSING))
    check(answer, consortium, X, without)


def queried(consortium, name):
    """How many rows each peer has put to a node's model, as the node's ledger has it."""
    lines = summary(consortium.configuration(name).ledger)
    return {line.peer: line.rows for line in lines if (line.kind, line.direction) == ("model query", IN)}


def whole(consortium, asked="node0", way=None):
    """Wait until everybody answers with everybody's model of now; rounds go by what peers last told of themselves."""
    consortium.ready()
    way = way or ("rounds" if consortium.evidence == "pooled" else "solve")
    with consortium.connect(asked, caller=asked, way=way) as node:
        until(
            lambda: not any(re.match(f"{MISSING}|{STALE}", each.reason) for each in node.consult(points(1)).flags), ""
        )
    return consortium
