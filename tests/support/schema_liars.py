"""Nodes that lie about schemas: run in a node's process, ``Consortium.fork(NAME, before=...)``."""

import numpy as np

from degroot import Agent
from degroot.node.peers.peers import Peers

HUGE = "x" * (1 << 20)


def describe_as(change):
    told = Peers.description

    def description(self, caller=None, **asked):
        found = told(self, caller, **asked)
        if caller is not None:
            change(found)
        return found

    Peers.description = description


def tell_bogus_schema(_folder):
    """A digest that is none, and a text that is none."""

    def change(description):
        description.schema_digest = "\x1b[31m\n\x07" * 100
        description.schema = "[[[[ \x1b[2J"

    describe_as(change)


def tell_huge_schema(_folder):
    def change(description):
        description.schema_digest = "0123456789abcdef"
        description.schema = HUGE

    describe_as(change)


def claim_to_take_gaps(_folder):
    """It says that it takes gaps, and predicts NaN where there are some."""

    def change(description):
        description.takes_gaps = True

    describe_as(change)
    predict = Agent.predict

    def predict_nan(self, X):
        said = predict(self, np.where(np.isnan(X), 0.0, X))
        said[np.isnan(X).any(axis=1)] = np.nan
        return said

    Agent.predict = predict_nan
