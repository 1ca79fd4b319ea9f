"""The fenced blocks of the documentation, and a terminal in which they are tried."""

import os
import random
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in PAGES if page.exists() and "examples" not in page.relative_to(ROOT).parts]
PORTS = re.compile(r"\b[789]44[1-9]\b")  # as the pages write them: of a node, its page 1000 above, its metrics 2000
PATIENCE = 300.0  # seconds for a command
FENCE = re.compile(r"^( *)(`{3,}|:{3,})(\S*)\s*(.*)$")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block of a page."""

    page: Path
    line: int
    kind: str
    text: str

    def __str__(self):
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def is_directive(self):
        return self.kind.startswith("{")

    @property
    def is_doctest(self):
        return self.kind == "python" and self.text.lstrip().startswith(">>>")

    @property
    def commands(self):
        """Each command with the output that is shown below it."""
        found = []
        for line in self.text.splitlines():
            if line.startswith("$ "):
                found.append([line[2:], []])
            elif found and _goes_on(found[-1][0]) and not found[-1][1]:
                found[-1][0] += f"\n{line}"
            else:
                assert found, f"{self}: a console block must begin with a command, `$ …`; got {line!r}."
                found[-1][1].append(line)
        return [(command, "\n".join(shown)) for command, shown in found]


def _goes_on(command):
    """Whether the next line still belongs to it: after a backslash, or inside <<'END'."""
    opened = re.search(r"<<'?(\w+)'?", command)
    return command.endswith("\\") or (opened is not None and command.splitlines()[-1] != opened[1])


def blocks(page):
    """All fenced blocks, in order."""
    found, opened = [], None
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = FENCE.match(line)
        if opened is None and fence:
            opened = (fence, number, [])
        elif opened is not None and fence and fence[2].startswith(opened[0][2]) and not fence[3]:
            margin = len(opened[0][1])
            found.append(Block(page, opened[1], opened[0][3], "\n".join(each[margin:] for each in opened[2])))
            opened = None
        elif opened is not None:
            opened[2].append(line)
    assert opened is None, f"{page}: the fence of line {opened[1]} is never closed."
    return found


def matches(shown, printed):
    """Whether what was printed is what the page shows, with … for anything; white space does not count."""
    pattern = ".*?".join(re.escape(" ".join(part.split())) for part in shown.split("…"))
    return re.fullmatch(rf"\s*{pattern}\s*", " ".join(printed.split()), re.DOTALL) is not None


def free_port(taken):
    """A port that is free, with those 1000 and 2000 above, below those that systems hand out.

    Pages are tried at the same time in several processes: each begins its search somewhere else.
    """
    for first in random.sample(range(21001, 30000), 8999):
        ports = {first + above for above in (0, 1000, 2000)}
        if not ports & taken and all(map(_is_free, ports)):
            taken |= ports
            return first
    raise AssertionError("There is no free port.")


def _is_free(port):
    with socket.socket() as trial:
        try:
            trial.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class Terminal:
    """One bash in a folder of its own, with the tested `degroot` and `python`, and free ports for those of the page."""

    def __init__(self, folder, text):
        self.folder, self.count = folder / "work", 0
        self.folder.mkdir()
        self.bin, self.log = folder / "bin", folder / "log"
        self.bin.mkdir()
        self._tool("degroot", f'{sys.executable} -c "from degroot.cli import main; main()"')
        self._tool("python", sys.executable)
        self._tool("make", f"/usr/bin/make -n -C {ROOT}")
        self._tool("pip", f"{sys.executable} {Path(__file__).with_name('requirements.py')}")
        taken = set()
        nodes = sorted({f"7{port[1:]}" for port in PORTS.findall(text)})
        free = {port: free_port(taken) for port in nodes}
        self.ports = {port: str(at) for port, at in free.items()}
        for first, above in (("8", 1000), ("9", 2000)):
            self.ports |= {f"{first}{port[1:]}": str(at + above) for port, at in free.items()}
        environment = {"PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(folder), "COLUMNS": "80", "NO_COLOR": "1"}
        environment |= {"LANG": "C.UTF-8"}
        with self.log.open("wb") as log:
            self.shell = subprocess.Popen(
                ["bash", "--noprofile", "--norc"], cwd=self.folder, env=environment, start_new_session=True,
                stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip
        self._write("set -m")

    def _tool(self, name, command):
        path = self.bin / name
        path.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        path.chmod(0o755)

    def _write(self, line):
        self.shell.stdin.write(f"{line}\n".encode())
        self.shell.stdin.flush()

    def here(self, text):
        """The text of the page, with the ports that are free here."""
        return PORTS.sub(lambda port: self.ports[port[0]], text)

    def there(self, text):
        """What was printed here, with the ports that the page has."""
        for written, port in self.ports.items():
            text = re.sub(rf"\b{port}\b", written, text)
        return text

    def run(self, command):
        """The exit code of a command, and what it printed."""
        self.count += 1
        file, mark = self.log.with_name(f"command{self.count}"), f"--- {self.count} ended with"
        file.write_text(self.here(command) + "\n")
        begun = self.log.stat().st_size
        self._write(f'. {shlex.quote(str(file))}; echo "{mark} $?"')
        until = time.monotonic() + PATIENCE
        while mark not in (printed := self.log.read_bytes()[begun:].decode(errors="replace")):
            assert self.shell.poll() is None, f"The shell has ended: {printed}"
            assert time.monotonic() < until, f"{command} does not end: {printed}"
            time.sleep(0.02)
        printed, _, code = printed.partition(mark)
        return int(code.split()[0]), self.there(printed)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in session(self.shell.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.shell.wait()
        self.shell.stdin.close()


def session(leader):
    """The processes that were started in a shell, the shell among them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(path.read_text().rpartition(")")[2].split()[3]) == leader:
                found.append(int(path.parent.name))
    return found
