"""A consortium of four nodes that runs for a while, is asked with purposes, and is then reported to an officer.

Checks that what `degroot node report` and `degroot node audit` say equals the sums of the ledgers, that every ledger is
whole, and that all agree with each other; prints one node's report and writes HOUR.md. Not a part of `make bench`:
`python benchmarks/hour.py` takes an hour, `--seconds` is for less.
"""

import argparse
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from support.consortium import Consortium, made_rows

from degroot.node.records.ledger import opened, summary

K, FEATURES = 4, 3
PURPOSES = ("triage, ward 7", "planning of beds", "")
MAY = {"node0": ["query"], "node1": ["query", "copy"], "node2": ["query"], "node3": ["query"]}
PAUSE = 2.0  # seconds between questions
RESULTS = Path(__file__).with_name("HOUR.md")
HEAD = """\
# A consortium that ran for a while, reported

Written by `python benchmarks/hour.py --seconds {seconds:g}`: {questions:,} questions in {seconds:,.0f} seconds to four
nodes. Every report equals its ledger's sums; every ledger is whole, and all agree with each other."""
DEGROOT = [sys.executable, "-c", "from degroot.cli import main; main()"]


def run(*arguments: object) -> str:
    done = subprocess.run([*DEGROOT, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"degroot {' '.join(map(str, arguments))}: {done.stdout}{done.stderr}")
    return done.stdout


def ask(consortium: Consortium, seconds: float) -> int:
    """Ask nodes in turn, each question with one of the purposes, until the time is over; how many were asked."""
    random, until, count = np.random.default_rng(0), time.monotonic() + seconds, 0
    nodes = [consortium.connect(name) for name in consortium.names]
    while time.monotonic() < until:
        node = nodes[count % K]
        node.predict(random.normal(size=(1 + count % 5, FEATURES)), purpose=PURPOSES[count % len(PURPOSES)])
        count += 1
        if count % 100 == 0:
            print(f"{count} questions, {until - time.monotonic():.0f} seconds left", file=sys.stderr, flush=True)
        time.sleep(min(PAUSE, max(0.0, until - time.monotonic())))
    for node in nodes:
        node.close()
    return count


def check_report(consortium: Consortium, name: str) -> str:
    """A node's report, if its totals are those of its ledger."""
    path = consortium.folder / name / "node.toml"
    told, entries = run("node", "report", path), summary(consortium.configuration(name).ledger)
    lines = [line for line in told.splitlines() if line.startswith("| **all**")]  # of what left, and of what came
    found = [int(each.replace(",", "")) for line in lines for each in re.findall(r"\*\*([\d,]+)\*\*", line)]
    sums = [sum(getattr(entry, field) for entry in entries) for field in ("rows", "exchanges", "sent", "received")]
    if found != sums:
        raise SystemExit(f"The report of {name} must equal its ledger; it says {found}, the ledger {sums}.")
    return told


def count_records(consortium: Consortium, name: str) -> tuple[int, int, int]:
    """Records, those of heartbeats among them, and heartbeats."""
    with opened(consortium.configuration(name).ledger) as connection:
        total = connection.execute("SELECT count(*) FROM records").fetchone()[0]
        beats = connection.execute(
            "SELECT count(*), coalesce(sum(exchanges), 0) FROM records WHERE kind IN ('describe', 'receipt') "
            "AND exchanges > 0"
        ).fetchone()
    return total, *beats


def main(seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        rows = list(made_rows(0, K, n=400, d=FEATURES))
        with Consortium(folder, K, rows=rows, evidence="own", may=MAY) as consortium:
            consortium.start().ready()
            questions = ask(consortium, seconds)
            for name in consortium.names:
                consortium.kill(name, signal.SIGTERM)
        exports = {name: Path(folder) / f"{name}.jsonl" for name in consortium.names}
        for name, path in exports.items():
            run("node", "audit", Path(folder) / name / "node.toml", "--json", "--out", path)
        for name in consortium.names:
            others = [f"--against={path}" for other, path in exports.items() if other != name]
            print(run("node", "audit", Path(folder) / name / "node.toml", "--verify", *others), flush=True)
        reports = {name: check_report(consortium, name) for name in consortium.names}
        counted = {name: count_records(consortium, name) for name in consortium.names}
        run("node", "report", Path(folder) / "node0" / "node.toml", "--out", RESULTS.with_suffix(".html"))
    lines = [
        f"- {name}: {total:,} records, {few:,} of them counts of {beats:,} heartbeats and receipts"
        for name, (total, few, beats) in counted.items()
    ]
    quoted = [f"> {line}".rstrip() for line in reports["node0"].splitlines()]
    told = HEAD.format(seconds=seconds, questions=questions)
    text = "\n\n".join([told, "\n".join(lines), "The report of node0:", "\n".join(quoted)]) + "\n"
    print(text)
    RESULTS.write_text(text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0)
    main(parser.parse_args().seconds)
