"""What the node's page costs: bytes and seconds of a first view, and what an open page adds to a node that answers.

`make bench` prints and writes PAGE.md. It needs Chromium, and `pip install '.[browser]'`.
"""

import argparse
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from bench import as_markdown
from loads import cases, in_turns, loads
from paged import DRAWN, FEATURES, ROWS, K, Pages, chromium, started

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
PAINTED = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))))"


@dataclass
class View:
    """What one view took."""

    requests: int
    bytes: int
    seconds: float


def view(browser: Any, origin: str, path: str, token: str) -> View:
    """Open an address in a fresh browser context, and wait until it is drawn."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    try:
        context.request.post(f"{origin}/api/session", headers={"Authorization": f"Bearer {token}"})
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
        page.goto(origin + path, wait_until="load")
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
            seen = view(browser, pages.address, path, pages.token)
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
