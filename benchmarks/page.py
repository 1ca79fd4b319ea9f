"""What the node's page costs: bytes and seconds of a first view, and what an open page adds to a node that answers.

`make bench` prints and writes PAGE.md. It needs Chromium, and `pip install '.[browser]'`.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from bench import as_markdown

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from consortium import Consortium, free_ports, made_rows

HEAD = """\
Written by `make bench`. Node processes on loopback with mutual TLS, {K} together, {rows} rows of {features} features
each; headless Chromium {version} on the same machine, {cores} shared cores."""
VIEWS = """\
A first view: nothing in the cache, the browser already running, 1440 x 900. *Bytes*: all that came over the wire
until the view was drawn, headers and the first state included. *Drawn*: the node's state is shown, nothing is
loading any more and a frame has been painted; counted from the start of the navigation. {times} times each. Asked
for: under 300 kB and under 1 s."""
LOAD = """\
Questions about one point, one after the other, through `degroot.connect`; every case has its turn in each of {turns}
turns of {seconds:g} seconds, in changing order. *No page, again* is the same as *no page*: it shows what chance
does. *Page open*: the overview in Chromium, which gets a new state every second and draws it, on the same cores.
*Read, not drawn*: a program that reads the same stream of states. The ratio is that of the times in each turn over
*no page*, with its standard error over the turns. *Of the node*: processor time of the asked node for a question, as
the kernel counts it. Asked for: no measurable load."""
BATCHES = "The same with batches of 1000 points, points a second; {turns} turns of {seconds:g} seconds."
RESULTS = Path(__file__).with_name("PAGE.md")
K, ROWS, FEATURES = 3, 1000, 8
NONE, AGAIN, OFF, READ, OPEN = "no page", "no page, again", "page, nobody looks", "read, not drawn", "page open"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
DRAWN = (
    """() => document.querySelector("#pulse")?.dataset.status === "live" && !document.querySelector("main .loading")"""
)
PAINTED = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))))"


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser without a window."""
    from playwright.sync_api import sync_playwright

    path = next((found for name in CHROMIUM if (found := shutil.which(name))), None)
    if path is None:
        raise SystemExit("The benchmark of the page needs Chromium; there is none on the path.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Pages:
    """A consortium whose nodes all have pages."""

    consortium: Consortium
    ports: dict[str, int] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """Of the page of the node that is asked."""
        return f"http://127.0.0.1:{self.ports[self.consortium.names[0]]}"

    @property
    def token(self) -> str:
        return (self.consortium.folder / self.consortium.names[0] / "state" / "page.token").read_text().strip()

    def ask(self, rows: np.ndarray) -> str:
        """The address of an answer, once it is there."""
        told = self._call("/api/ask", json.dumps({"rows": rows.tolist(), "way": "solve", "guard": True}).encode())
        while self._call(f"/api/answers/{told['id']}")["status"] == "working":
            time.sleep(0.05)
        return str(told["url"])

    def _call(self, path: str, body: bytes | None = None) -> Any:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(self.address + path, body, headers)) as reply:
            return json.load(reply)


@contextmanager
def started(folder: Path, *, pages: bool) -> Iterator[Pages]:
    """A consortium that is ready for everything."""
    folder.mkdir()
    limits = "requests_per_second = 100000"
    with Consortium(folder, K, rows=list(made_rows(0, K, n=ROWS, d=FEATURES)), limits=limits) as consortium:
        made = Pages(consortium, dict(zip(consortium.names, free_ports(K), strict=True)) if pages else {})
        for name in consortium.names:
            path = folder / name / "node.toml"
            text = path.read_text().replace("probe_seconds = 0.2\n", "")
            path.write_text(text + (f"[page]\nport = {made.ports[name]}\n" if pages else ""))
        consortium.start(environment={"NUMBA_NUM_THREADS": "2"}).ready()
        _rehearsed(consortium)
        yield made


def _rehearsed(consortium: Consortium, patience: float = 60.0) -> None:
    """Wait for the last thing that nodes do by themselves."""
    until = time.monotonic() + patience
    while not all("intervals calibrated" in consortium.log(name) for name in consortium.names):
        if time.monotonic() > until:
            raise SystemExit("The nodes have not calibrated their intervals in time.")
        time.sleep(0.1)


# a first view


@dataclass
class View:
    """What one view took."""

    requests: int
    bytes: int
    seconds: float


def view(browser: Any, address: str, token: str) -> View:
    """Open an address in a fresh browser context, and wait until it is drawn."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    try:
        context.add_init_script(f"sessionStorage.setItem('degroot-token', {token!r})")
        page = context.new_page()
        wire, waiting = context.new_cdp_session(page), set()
        came: dict[str, int] = {}
        wire.on("Network.requestWillBeSent", lambda event: came.setdefault(event["requestId"], 0))
        wire.on("Network.dataReceived", lambda event: _add(came, event, event["encodedDataLength"]))
        wire.on("Network.responseReceived", lambda event: _add(came, event, event["response"]["encodedDataLength"]))
        wire.on("Network.loadingFinished", lambda event: came.update({event["requestId"]: event["encodedDataLength"]}))
        wire.send("Network.enable")
        page.on("request", lambda request: waiting.add(request) if "/events" not in request.url else None)
        for ending in ("requestfinished", "requestfailed"):
            page.on(ending, lambda request: waiting.discard(request))
        page.goto(address, wait_until="load")
        page.wait_for_function(DRAWN)
        while waiting:
            page.wait_for_timeout(5)
        milliseconds = page.evaluate(PAINTED)
        return View(len(came), sum(came.values()), milliseconds / 1e3)
    finally:
        context.close()


def _add(came: dict[str, int], event: Any, size: float) -> None:
    came[event["requestId"]] = came.get(event["requestId"], 0) + int(size)


def views(browser: Any, pages: Pages, times: int) -> list[dict[str, str]]:
    points = np.random.default_rng(1).normal(size=(20, FEATURES))
    answer = pages.ask(points)
    paths = {"overview": "/", "ask": "/ask", "an answer of 20 rows": answer, "trust": "/trust", "audit": "/audit"}
    found: dict[str, list[View]] = {name: [] for name in paths}
    for turn in range(times + 1):
        for name, path in paths.items():
            seen = view(browser, pages.address + path, pages.token)
            if turn:  # the first warms up
                found[name].append(seen)
    return [_row(name, seen) for name, seen in found.items()]


def _row(name: str, seen: list[View]) -> dict[str, str]:
    seconds = [each.seconds for each in seen]
    return {
        "view": name, "requests": f"{np.median([each.requests for each in seen]):.0f}",
        "kB": f"{max(each.bytes for each in seen) / 1e3:.1f}", "drawn, s (median)": f"{np.median(seconds):.2f}",
        "slowest, s": f"{max(seconds):.2f}",
    }  # fmt: skip


# what an open page adds


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
def read(address: str) -> Iterator[None]:
    """Somebody who reads the states, and draws nothing."""
    stream = urllib.request.urlopen(f"{address}/events")
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
def opened(browser: Any, address: str) -> Iterator[None]:
    """The overview, open in a browser."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    try:
        page.goto(address)
        page.wait_for_function(DRAWN)
        yield
    finally:
        page.close()


def cases(plain: Pages, pages: Pages, browser: Any) -> dict[str, Case]:
    return {
        NONE: Case(plain.consortium, nothing),
        AGAIN: Case(plain.consortium, nothing),
        OFF: Case(pages.consortium, nothing),
        READ: Case(pages.consortium, lambda: read(pages.address)),
        OPEN: Case(pages.consortium, lambda: opened(browser, pages.address)),
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


def main(times: int, turns: int, seconds: float) -> None:
    report: list[str] = []

    def say(text: str) -> None:
        print(text + "\n", flush=True)
        report.append(text)

    with tempfile.TemporaryDirectory() as made, chromium() as browser:
        folder = Path(made)
        with started(folder / "pages", pages=True) as pages, started(folder / "plain", pages=False) as plain:
            say("# The page")
            about = {"K": K, "rows": ROWS, "features": FEATURES, "version": browser.version, "cores": os.cpu_count()}
            say(HEAD.format(**about))
            say("## A first view")
            say(VIEWS.format(times=times))
            say(as_markdown(views(browser, pages, times)))
            say("## An open page")
            random = np.random.default_rng(2)
            for text, M, some in ((LOAD, 1, turns), (BATCHES, 1000, max(2, turns // 2))):
                say(text.format(turns=some, seconds=seconds))
                contest = cases(plain, pages, browser)
                in_turns(contest, random.normal(size=(M, FEATURES)), some, seconds)
                say(as_markdown(loads(contest, M)))
    RESULTS.write_text("\n\n".join(report) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=9, help="views of each kind")
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each turn")
    arguments = parser.parse_args()
    main(arguments.times, arguments.turns, arguments.seconds)
