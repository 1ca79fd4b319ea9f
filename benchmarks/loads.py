"""What an open page adds to a node that answers: questions with and without somebody who looks, in turns."""

import os
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from paged import DRAWN, Consortium, Pages

NONE, AGAIN, OFF, READ, OPEN = "no page", "no page, again", "page, nobody looks", "read, not drawn", "page open"


@dataclass
class Case:
    """One way of asking: who is asked, and what is done meanwhile."""

    consortium: Consortium
    meanwhile: Callable[[], Any]
    times: list[float] = field(default_factory=list)  # ms, medians of turns
    high: list[float] = field(default_factory=list)  # ms, 95 %, of turns
    rates: list[float] = field(default_factory=list)  # questions a second
    work: list[float] = field(default_factory=list)  # ms of the node's processor time, for a question

    def turn(self, X: np.ndarray, seconds: float) -> None:
        """Ask for so many seconds."""
        with self.consortium.connect() as node, self.meanwhile():
            node.consult(X)
            taken, before, begun = [], self._processor(), time.perf_counter()
            while (now := time.perf_counter()) - begun < seconds:
                node.consult(X)
                taken.append(1e3 * (time.perf_counter() - now))
            self.rates.append(len(taken) / (time.perf_counter() - begun))
            self.work.append(1e3 * (self._processor() - before) / len(taken))
        self.times.append(float(np.median(taken)))
        self.high.append(float(np.quantile(taken, 0.95)))

    def _processor(self) -> float:
        """Seconds of processor time of the asked node so far."""
        pid = self.consortium.processes[self.consortium.names[0]].pid
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def nothing() -> Iterator[None]:
    yield


@contextmanager
def read(pages: Pages) -> Iterator[None]:
    """Somebody who reads the states, and draws nothing."""
    headers = {"Authorization": f"Bearer {pages.token}"}
    stream = urllib.request.urlopen(urllib.request.Request(f"{pages.address}/events", headers=headers))
    thread = threading.Thread(target=_drained, args=(stream,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stream.fp.raw._sock.shutdown(2)  # which ends the reading
        thread.join()
        stream.close()


def _drained(stream: Any) -> None:
    while stream.readline():
        pass


@contextmanager
def opened(browser: Any, pages: Pages) -> Iterator[None]:
    """The overview, open in a browser."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    try:
        page.goto(f"{pages.address}/#token={pages.token}")
        page.wait_for_function(DRAWN)
        yield
    finally:
        page.close()


def cases(plain: Pages, pages: Pages, browser: Any) -> dict[str, Case]:
    return {
        NONE: Case(plain.consortium, nothing),
        AGAIN: Case(plain.consortium, nothing),
        OFF: Case(pages.consortium, nothing),
        READ: Case(pages.consortium, lambda: read(pages)),
        OPEN: Case(pages.consortium, lambda: opened(browser, pages)),
    }


def in_turns(made: dict[str, Case], X: np.ndarray, turns: int, seconds: float) -> None:
    order = np.random.default_rng(0)
    for _ in range(turns):
        for name in order.permutation(list(made)):
            made[str(name)].turn(X, seconds)


def loads(made: dict[str, Case], points: int) -> list[dict[str, str]]:
    usual = np.array(made[NONE].times)
    return [
        {
            "": name, "median, ms": f"{np.median(case.times):.2f}", "95 %, ms": f"{np.median(case.high):.2f}",
            "points a second" if points > 1 else "questions a second": f"{points * np.median(case.rates):,.0f}",
            "ratio of times": _ratio(np.array(case.times) / usual), "of the node, ms": f"{np.median(case.work):.2f}",
        }
        for name, case in made.items()
    ]  # fmt: skip


def _ratio(ratios: np.ndarray) -> str:
    spread = ratios.std(ddof=1) / np.sqrt(len(ratios)) if len(ratios) > 1 else np.nan
    return f"{ratios.mean():.3f} ± {spread:.3f}"
