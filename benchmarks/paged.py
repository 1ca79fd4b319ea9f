"""Nodes that have pages, and a browser to look at them, for the benchmark of the page."""

import json
import shutil
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from support.consortium import Consortium, free_ports, made_rows

from degroot.node.page.tokens import make_operator_token

K, ROWS, FEATURES = 3, 1000, 8
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
DRAWN = (
    """() => document.querySelector("#pulse")?.dataset.status === "live" && !document.querySelector("main .loading")"""
)


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
    _token: str = ""

    @property
    def address(self) -> str:
        """Of the page of the node that is asked."""
        return f"http://127.0.0.1:{self.ports[self.consortium.names[0]]}"

    @property
    def token(self) -> str:
        if not self._token:
            self._token = make_operator_token(self.consortium.folder / self.consortium.names[0] / "state")
        return self._token

    def ask(self, rows: np.ndarray) -> str:
        """The address of an answer, once it is there."""
        told = self._call("/api/ask", json.dumps({"rows": rows.tolist()}).encode())
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
            text = path.read_text().replace("probe_seconds = 0.2\nheartbeat_seconds = 0.2\n", "")
            path.write_text(text + (f"[page]\nport = {made.ports[name]}\n" if pages else ""))
        consortium.start(environment={"NUMBA_NUM_THREADS": "2"}).ready()
        yield made
