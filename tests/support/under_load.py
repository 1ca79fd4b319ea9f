"""Questions that are asked all the time, in threads of their own, while something is done to the nodes."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

from support.drills import missing, points

from degroot.exceptions import DeGrootError


class UnderLoad:
    """Asks nodes, again and again, until the block ends; no question may fail, whoever is missing from the answer."""

    def __init__(self, consortium, *asked, rows=3):
        self.answers, self.failures = [], []  # who was missing and why, of each answer; what failed
        self._consortium, self._asked, self._X = consortium, asked or consortium.names[:1], points(rows)
        self._stopping, self._pool = threading.Event(), ThreadPoolExecutor(len(self._asked))

    def _ask(self, name):
        with self._consortium.connect(name) as node:
            while not self._stopping.is_set():
                try:
                    self.answers.append(missing(node.consult(self._X)))
                except DeGrootError as error:
                    self.failures.append(f"{name}: {error}")
                self._stopping.wait(0.02)  # the nodes have other things to do, too

    def __enter__(self):
        self._asking = [self._pool.submit(self._ask, name) for name in self._asked]
        return self

    def __exit__(self, kind, *_):
        self._stopping.set()
        self._pool.shutdown()
        for each in self._asking:
            each.result()
        if kind is None:
            assert self.answers
            assert self.failures == []

    @property
    def reasons(self):
        """Why anybody was missing from any answer, by name."""
        found = {}
        for each in list(self.answers):
            for name, reason in each.items():
                found.setdefault(name, set()).add(reason)
        return found


def read_log(consortium, name, event=None, after=0):
    """The lines of a node's log, all of them JSON: those of an event, after the first so many lines."""
    text = consortium.log(name)
    whole = text[: text.rfind("\n") + 1].splitlines()
    lines = [json.loads(line) for line in whole[after:]]
    return [line for line in lines if event is None or line["event"] == event]


def count_lines(consortium):
    """How many lines the log of each node has."""
    return {name: consortium.log(name).count("\n") for name in consortium.names}
