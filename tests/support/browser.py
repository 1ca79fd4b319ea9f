"""A browser for tests: Debian's chromium without a window, pages that are watched, and nodes that have a page."""

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from functools import cache
from urllib.parse import urlsplit

import pytest
from support.consortium import CLIENT, PATIENCE, Consortium, free_ports

from degroot.node.page.tokens import make_operator_token

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WIDE, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
CLI = "from degroot.cli import main; main()"
REFUSED = "Failed to load resource"  # the browser's own line for every reply of 400 and more
SIGNED_OUT = f"{REFUSED}: the server responded with a status of 401"


@contextmanager
def chromium():
    """A browser, or a test that says why there is none."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make test-all brings it")
    if CHROMIUM is None:
        pytest.skip("there is no chromium: make test-all installs Debian's")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


class Watched:
    """A tab. Whatever the page complains of, asks of other hosts or runs that it should not, is kept."""

    def __init__(self, browser, size=WIDE, scheme="light", **settings):
        self.context = browser.new_context(viewport=size, color_scheme=scheme, accept_downloads=True, **settings)
        self.context.set_default_timeout(60_000)
        self.page = self.context.new_page()
        self.complaints, self.hosts, self.dialogs = [], set(), []
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))
        self.page.on("dialog", lambda dialog: (self.dialogs.append(dialog.message), dialog.dismiss()))

    def _said(self, message):
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def check(self, host, *, refusals=False):
        """Nothing was complained of, executed, or asked of another host. `refusals`: the node said no to something."""
        allowed = REFUSED if refusals else SIGNED_OUT  # as the first reply to a browser that has no cookie yet
        self.complaints = [each for each in self.complaints if not each.startswith(allowed)]
        assert (self.complaints, self.dialogs) == ([], [])
        assert {each for each in self.hosts if each} == {host}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()


token_of = cache(make_operator_token)  # by the state folder: an open page keeps its own


class Paged(Consortium):
    """Nodes with pages."""

    def __init__(self, folder, K=3, seed=0, **settings):
        self.page_ports = dict(zip([f"node{k}" for k in range(K)], free_ports(K), strict=True))
        super().__init__(folder, K, seed, **settings)

    def write(self, name, *arguments, limits="", **settings):
        page = f"\n[page]\nport = {self.page_ports[name]}\n"
        super().write(name, *arguments, limits=limits + page, **settings)

    def call_features(self, *features):
        """Other names for the features, in everybody's file."""
        for name in self.names:
            path = self.folder / name / "rows.csv"
            _, rows = path.read_text().split("\n", 1)
            path.write_text(
                ",".join(f'"{each.replace(chr(34), 2 * chr(34))}"' for each in (*features, "y")) + "\n" + rows
            )
        return self

    def host(self, name="node0"):
        return f"127.0.0.1:{self.page_ports[name]}"

    def token(self, name="node0"):
        """One that may ask at this node."""
        return token_of(self.folder / name / "state")

    def address(self, path="/", name="node0", token=True):
        return f"http://{self.host(name)}{path}" + (f"#token={self.token(name)}" if token else "")

    def state(self, name="node0"):
        """What the page is told; None: the node is not there."""
        headers = {"Authorization": f"Bearer {self.token(name)}"}
        request = urllib.request.Request(f"http://{self.host(name)}/api/state", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=5) as reply:
                return json.load(reply)
        except OSError:
            return None

    def whole(self, name="node0", patience=PATIENCE):
        """Wait until this node sees all the others as up."""
        end = time.monotonic() + patience
        while not ((state := self.state(name)) and all(peer["state"] == "up" for peer in state["peers"])):
            assert time.monotonic() < end, f"{state}\n{self.log(name)}"
            time.sleep(0.1)
        return self

    def ask(self, points, output, *options, name="node0", patience=PATIENCE):
        """What `degroot ask` writes, as the analyst; once the nodes can give what is asked for."""
        keys = [f"--{kind}={path}" for kind, path in self.credentials(CLIENT).items()]
        command = [sys.executable, "-c", CLI, "ask", f"--node={name}@127.0.0.1:{self.ports[name]}", *keys]
        command += [f"--input={points}", f"--output={output}", *options]
        end = time.monotonic() + patience
        while (run := subprocess.run(command, capture_output=True, text=True, env=os.environ)).returncode:
            assert time.monotonic() < end, run.stderr
            time.sleep(0.5)
        return output
