"""What the ledger's chain, signatures and receipts cost: latency of a question, bytes of an exchange, verification.

Two consortia of five nodes on loopback with mutual TLS take turns: one with the ledger as it is, one whose ledger
appends records without hashes, digests of messages, records of replies, flushes to the disk and receipts. `make bench`
prints and writes LEDGER.md.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from bench import as_markdown

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from support.consortium import Consortium, made_rows

from degroot.node.records import ledger
from degroot.node.records.chain import IN, Origin
from degroot.node.records.export import read_ledger
from degroot.node.records.verification import verify_together

K, ROWS, FEATURES = 5, 1000, 8
EACH = 20  # questions of a turn
MOST = 1.2  # times the latency without the chain
RECORDS = 100_000  # that are verified
RESULTS = Path(__file__).with_name("LEDGER.md")
HEAD = """\
Written by `make bench`. One point from the own view of a node, asked through `degroot.connect`, with queries of four
peers; all nodes of both consortia on one machine of 2 shared cores, taking turns. *Without the chain*: the ledger
appends records without hashes, digests of messages, records of replies, flushes to the disk and receipts. Asked for: at
most {most} times the latency without the chain."""
SIZE = """\
Bytes on the disk after those questions, in the database and its log, over the number of exchanges with peers; the one
who asks keeps two records of an exchange, of the request and of the reply, and both sides keep receipts."""
VERIFYING = """\
A ledger with {records:,} records, verified as `degroot node audit --verify` does, with a receipt for none."""


def keep_plain_ledger(_folder: Path) -> None:
    """Let a node's ledger have no chain: called in its process before it starts."""
    from degroot.node.peers import link
    from degroot.node.records import journal
    from degroot.node.records import ledger as module
    from degroot.node.server import access, run

    module.link = lambda before, _line: before
    link.digest_exchange = access.digest_exchange = lambda *_: ""
    link.LinkContext.record_replies = lambda *_: None
    journal.Journal.flush = lambda _: None
    run.make_receipts = lambda *_: None


def start(folder: Path, *, plain: bool) -> Consortium:
    folder.mkdir()
    rows = list(made_rows(0, K, n=ROWS, d=FEATURES))
    consortium = Consortium(
        folder, K, rows=rows, evidence="own", limits="requests_per_second = 100000", timing="receipt_seconds = 1.0"
    )
    for name in consortium.names:  # or a client's questions of one day would be over its budget
        path = folder / name / "node.toml"
        budget = '[[clients]]\nname = "analyst"\nrows_per_day = 100_000_000'
        path.write_text(path.read_text().replace('[[clients]]\nname = "analyst"', budget))
    return consortium.fork(before=keep_plain_ledger if plain else None).ready()


def measure(turns: int) -> tuple[list[dict[str, str]], list[dict[str, str]], float]:
    """Latency, size, and the ratio of medians."""
    point = np.random.default_rng(1).normal(size=(1, FEATURES))
    times: dict[str, list[float]] = {"without the chain": [], "with it": []}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        consortia = {
            name: stack.enter_context(start(Path(folder) / str(k), plain=k == 0)) for k, name in enumerate(times)
        }
        nodes = {name: stack.enter_context(each.connect()) for name, each in consortia.items()}
        for turn in range(turns + 1):
            for name, node in nodes.items():
                for _ in range(EACH):
                    begun = time.perf_counter()
                    node.predict(point)
                    if turn:
                        times[name].append(1e3 * (time.perf_counter() - begun))
            if turn % 20 == 0:
                print(f"{turn} of {turns} turns", file=sys.stderr, flush=True)
        sizes = []
        for name, each in consortia.items():
            for node in each.names:
                each.kill(node, signal.SIGTERM)
            questions = (turns + 1) * EACH
            asked, peer = (measure_size(each, node) for node in each.names[:2])
            sizes.append(
                {
                    "": name, "questions": f"{questions:,}",
                    "who asks, bytes per exchange with a peer": f"{asked / questions / (K - 1):,.0f}",
                    "who answers, bytes per exchange": f"{peer / questions:,.0f}",
                }
            )  # fmt: skip
    medians = {name: float(np.median(taken)) for name, taken in times.items()}
    unit = medians["without the chain"]
    latency = [
        {
            "": name, "median, ms": f"{medians[name]:.2f}", "90 %, ms": f"{np.quantile(taken, 0.9):.2f}",
            "ratio of medians": f"{medians[name] / unit:.3f}",
        }
        for name, taken in times.items()
    ]  # fmt: skip
    return latency, sizes, medians["with it"] / unit


def measure_size(consortium: Consortium, name: str) -> int:
    """Bytes that a node's ledger takes on the disk."""
    path = consortium.configuration(name).ledger
    return sum(os.path.getsize(each) for each in path.parent.glob(f"{path.stem}.*"))


def verify() -> list[dict[str, str]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.sqlite"
        record = ledger.Ledger(path, "north")
        begun = time.perf_counter()
        for k in range(RECORDS):
            record.record("south", "prediction", IN, 1, 60, 120, Origin(f"{k:016x}", "north", "triage"), "ab" * 32)
        record.close()
        written = time.perf_counter() - begun
        begun = time.perf_counter()
        with read_ledger(path, "north") as content:
            (verified,) = verify_together([content], None)
        taken = time.perf_counter() - begun
    if not verified.is_whole or verified.records != RECORDS:
        raise SystemExit(f"The ledger must be whole; {verified.findings}")
    return [
        {
            "records": f"{RECORDS:,}", "written, a second": f"{RECORDS / written:,.0f}",
            "verified, a second": f"{RECORDS / taken:,.0f}",
        }
    ]  # fmt: skip


def main(turns: int) -> None:
    report: list[str] = []

    def say(text: str) -> None:
        print(text + "\n", flush=True)
        report.append(text)

    say("# The ledger")
    say(HEAD.format(most=MOST))
    latency, sizes, ratio = measure(turns)
    say(as_markdown(latency))
    say(f"Met: {'yes' if ratio <= MOST else 'no'}.")
    say("## Size")
    say(SIZE)
    say(as_markdown(sizes))
    say("## Verification")
    say(VERIFYING.format(records=RECORDS))
    say(as_markdown(verify()))
    RESULTS.write_text("\n\n".join(report) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=60)
    main(parser.parse_args().turns)
