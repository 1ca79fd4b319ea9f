"""The ledger: nothing recorded is lost, totals stay what they are, and the file stays small and whole."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import closing
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.processes import on_small_disk

from degroot.exceptions import DeGrootError, InvalidInput
from degroot.node.page.ledger_totals import LedgerTotals
from degroot.node.records.chain import OUT, parse_line
from degroot.node.records.ledger import (
    COUNT_SECONDS,
    DAY,
    SET_ASIDE,
    SPARE,
    Ledger,
    LedgerEntry,
    LedgerError,
    beside_path,
    damaged_path,
    opened,
    record_beside,
    summary,
)

WRITER = """
import sys
from pathlib import Path
from degroot.node.records.ledger import Ledger
ledger = Ledger(Path(sys.argv[1]), kept=300)
for k in range(1, 1_000_000):
    ledger.record("south", "opinion", "in", 3, 20, 100)
    print(k, flush=True)
"""

FULL = """
import sqlite3, sys
from pathlib import Path
from degroot.node.records.ledger import Ledger, LedgerError, summary

folder = Path(sys.argv[1])
path, ballast = folder / "ledger.sqlite", folder / "ballast"
ballast.write_bytes(bytes(100_000))
ledger, done = Ledger(path), 0
try:
    while done < 1_000_000:
        ledger.record("south", "opinion", "in", 3, 20, 100)
        done += 1
except LedgerError as error:
    said = str(error)
assert 0 < done < 1_000_000, done
assert said == f"The ledger must be written before an exchange takes place; {path}: No space left on device.", said
assert sum(line.exchanges for line in summary(path)) == done
ballast.unlink()
ledger.record("south", "opinion", "in", 3, 20, 100)
ledger.close()
(line,) = summary(path)
assert (line.exchanges, line.rows) == (done + 1, 3 * (done + 1)), (line, done)
assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchall() == [("ok",)]
print("whole")
"""

READ_ONLY = """
import subprocess, sys
from pathlib import Path
from degroot.node.records.ledger import Ledger, LedgerError

path = Path(sys.argv[1]) / "ledger.sqlite"
Ledger(path).close()
subprocess.run(["mount", "-o", "remount,ro", sys.argv[1]], check=True)
try:
    Ledger(path).record("south", "opinion", "in", 3, 20, 100)
except LedgerError as error:
    assert len(str(error).splitlines()) == 1 and str(path) in str(error), error
    print("refused")
"""

EXCHANGES = st.lists(
    st.tuples(
        st.floats(0, 20 * DAY),  # when; clocks may go back
        st.sampled_from(["south", "west"]),
        st.sampled_from(["query", "opinion"]),
        st.sampled_from(["in", "out"]),
        *[st.integers(0, 10**9)] * 3,
    ),
    max_size=30,
)


def totals(exchanges) -> list[LedgerEntry]:
    groups = defaultdict(list)
    for at, peer, kind, direction, *amounts in exchanges:
        groups[peer, kind, direction].append((at, *amounts))
    lines = []
    for key, group in sorted(groups.items()):
        at, rows, sent, received = zip(*group, strict=True)
        begun, ended = (datetime.fromtimestamp(when, UTC) for when in (min(at), max(at)))
        lines.append(LedgerEntry(*key, len(group), sum(rows), sum(sent), sum(received), begun, ended))
    return lines


def single(path: Path) -> int:
    """How many exchanges are kept one by one."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT count(*) FROM records WHERE peer != ''").fetchone()[0]


def whole(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def wait_for(condition) -> None:
    """Wait until something is so, as long as a busy machine may take."""
    until = time.monotonic() + 60.0
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


@settings(max_examples=30)
@given(EXCHANGES, EXCHANGES, st.integers(0, 20), st.integers(0, 40))
def test_totals_are_those_of_what_was_recorded_folded_or_not(tmp_path_factory, early, late, days, kept):
    path = tmp_path_factory.mktemp("ledger") / "ledger.sqlite"
    for exchanges, all_so_far in ((early, early), (late, early + late)):
        now = [0.0]
        ledger = Ledger(path, clock=lambda now=now: now[0])
        for at, *exchange in exchanges:
            now[0] = at
            ledger.record(*exchange)
        ledger.close()
        assert summary(path) == totals(all_so_far)
        Ledger(path, days=days, kept=kept, clock=lambda: 20.0 * DAY).close()
        assert summary(path) == totals(all_so_far)
        assert single(path) <= kept * (1.0 + SPARE)


def test_nothing_is_recorded_in_a_folder_that_is_gone_or_replaced(tmp_path):
    home, aside = tmp_path / "state", tmp_path / "aside"
    home.mkdir()
    ledger = Ledger(home / "ledger.sqlite")
    ledger.record("south", "opinion", OUT, 1, 2, 0)
    home.rename(aside)
    for _ in range(2):
        with pytest.raises(LedgerError):
            ledger.record("south", "opinion", OUT, 1, 2, 0)
        home.mkdir(exist_ok=True)  # somebody has made another
    home.rmdir()
    aside.rename(home)
    ledger.record("south", "opinion", OUT, 1, 2, 0)
    ledger.close()
    (line,) = summary(home / "ledger.sqlite")
    assert line.exchanges == 2


def test_old_exchanges_are_folded_at_the_start(tmp_path):
    path = tmp_path / "ledger.sqlite"
    now = 1000 * DAY
    for day in range(10):
        ledger = Ledger(path, clock=lambda day=day: float(now + day * DAY))
        for _ in range(5):
            ledger.record("south", "opinion", "in", 3, 20, 100)
        ledger.close()
    before = summary(path)
    Ledger(path, days=3, clock=lambda: float(now + 9 * DAY)).close()
    assert single(path) == 4 * 5
    assert summary(path) == before


def test_the_file_stops_growing_while_the_node_runs(tmp_path):
    path = tmp_path / "ledger.sqlite"
    ledger, sizes = Ledger(path, kept=2000), []
    for _ in range(3):
        for _ in range(10):
            for _ in range(1000):
                ledger.record("south", "opinion", "in", 3, 20, 100)
            ledger.make_durable()
            wait_for(lambda: single(path) <= 2000 * (1.0 + SPARE))
        sizes.append(path.stat().st_size)  # SQLite's log beside it has a limit of its own
    assert sizes[2] <= sizes[0] * 1.1
    assert [(line.exchanges, line.rows, line.sent, line.received) for line in summary(path)] == [
        (30_000, 90_000, 600_000, 3_000_000)
    ]
    ledger.close()


def test_what_is_recorded_outlives_kill(tmp_path):
    path = tmp_path / "ledger.sqlite"
    recorded = 0
    for _ in range(3):
        with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True) as writer:
            said = 0
            while said < 700:
                said = int(writer.stdout.readline())
            os.kill(writer.pid, signal.SIGKILL)
            said = max([said, *map(int, writer.stdout.read().split())])
        (line,) = summary(path)
        assert recorded + said <= line.exchanges <= recorded + said + 1
        assert (line.rows, line.sent, line.received) == (3 * line.exchanges, 20 * line.exchanges, 100 * line.exchanges)
        assert whole(path)
        recorded = line.exchanges


def test_it_is_read_while_it_is_written(tmp_path):
    path = tmp_path / "ledger.sqlite"
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True) as writer:
        writer.stdout.readline()
        before = 0
        for _ in range(50):
            said = int(writer.stdout.readline())
            (line,) = summary(path)
            assert line.exchanges >= max(said, before)
            assert line.rows == 3 * line.exchanges  # never half an exchange
            before = line.exchanges
        writer.kill()


def test_a_full_disk_is_one_clear_line_and_the_file_stays_whole(tmp_path):
    run = on_small_disk(FULL, tmp_path, size="400k")
    assert (run.stdout, run.stderr) == ("whole\n", "")


def test_a_disk_that_cannot_be_written_is_one_clear_line(tmp_path):
    run = on_small_disk(READ_ONLY, tmp_path, size="400k")
    assert (run.stdout, run.stderr) == ("refused\n", "")


def test_a_folder_that_is_not_there_is_one_clear_line(tmp_path):
    with pytest.raises(
        LedgerError, match=r"must be written before an exchange takes place; .*unable to open"
    ) as caught:
        Ledger(tmp_path / "nowhere" / "ledger.sqlite")
    assert isinstance(caught.value, DeGrootError)


def test_another_writer_does_not_stop_the_node(tmp_path):
    path = tmp_path / "ledger.sqlite"
    ledger, records = Ledger(path), 500
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for _ in range(records):
            ledger.record("south", "opinion", "in", 3, 20, 100)
        with pytest.raises(LedgerError, match="locked"):
            ledger.make_durable()
        ledger.record("south", "opinion", "in", 3, 20, 100)
        records += 1
        assert single(path) == 0  # they could not be moved
        assert [line.exchanges for line in summary(path)] == [records]
        other.execute("ROLLBACK")
    ledger.close()
    assert single(path) == records
    assert [line.exchanges for line in summary(path)] == [records]


def test_a_ledger_that_is_none_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match=r"must be a file that a node has written; .* is not there"):
        summary(tmp_path / "ledger.sqlite")
    assert not list(tmp_path.iterdir())
    (tmp_path / "text").write_text("not a database, but long enough to be looked at as one" * 100)
    with pytest.raises(InvalidInput, match="file is not a database"):
        summary(tmp_path / "text")


def test_a_ledger_of_another_version_is_refused(tmp_path):
    path = tmp_path / "ledger.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 7")
    for read in (Ledger, summary):
        with pytest.raises(InvalidInput, match=r"must be of version 3 or older; .* is of version 7"):
            read(path)


def test_an_empty_ledger_has_no_lines(tmp_path):
    path = tmp_path / "ledger.sqlite"
    ledger = Ledger(path)
    assert summary(path) == []
    ledger.close()
    assert summary(path) == []


def journal(path: Path) -> Path:
    return path.with_suffix(".journal")


def test_exchanges_are_read_before_they_are_moved_and_once_after(tmp_path):
    path = tmp_path / "ledger.sqlite"
    ledger = Ledger(path)
    for count in range(1, 600):
        ledger.record("south", "opinion", "in", 3, 20, 100)
        if count % 50 == 0:
            assert [line.exchanges for line in summary(path)] == [count]
    ledger.make_durable()
    assert single(path) == count
    assert [line.exchanges for line in summary(path)] == [count]
    ledger.close()
    assert journal(path).read_bytes() == b""
    assert not journal(path).with_name("ledger.journal.moving").exists()


def test_what_was_moved_but_not_taken_out_of_the_journal_counts_once(tmp_path):
    path = tmp_path / "ledger.sqlite"
    ledger = Ledger(path)
    for _ in range(5):
        ledger.record("south", "opinion", "in", 3, 20, 100)
    left = read_lines(path)
    ledger.close()
    journal(path).write_bytes(b"".join(left))  # as if the process had been killed between the two
    assert [line.exchanges for line in summary(path)] == [5]
    ledger = Ledger(path)
    assert journal(path).read_bytes() == b""
    ledger.record("south", "opinion", "in", 3, 20, 100)
    assert [line.exchanges for line in summary(path)] == [6]
    ledger.close()


def read_lines(path: Path) -> list[bytes]:
    """The lines that a journal has, or would have if none had been moved."""
    with opened(path) as connection:
        rows = connection.execute("SELECT * FROM records WHERE peer != '' ORDER BY number").fetchall()
    written = [[each.hex() if isinstance(each, bytes) else str(each) for each in row] for row in rows]
    return ["\t".join(fields).encode() + b"\n" for fields in written]


def damage_line(place: int, field: str) -> bytes:
    line = b"6\t1.0\tsouth\topinion\tin\t1\t3\t20\t100\t\t\t\t\t" + b"ab" * 32
    assert parse_line(line) is not None
    fields = line.split(b"\t")
    fields[place] = field.encode()
    return b"\t".join(fields) + b"\n"


DAMAGE = [
    b"6\t1.0\tsouth", b"\0" * 100 + b"\n", b"6\t1.0\tsouth\topinion\tin\t3\t20\n", b"\xff\n",
    *(
        damage_line(place, field)
        for place, field in [
            (1, "nan"), (1, "inf"), (1, "1e30"), (1, "-1.0"), (4, "im"), (6, "-3"), (6, "9" * 23), (6, "three"),
            (12, "xyz"), (13, "ab"), (13, ""),
        ]
    ),
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_lines_of_the_journal_cost_only_themselves_and_are_kept(tmp_path, damage):
    path = tmp_path / "ledger.sqlite"
    ledger = Ledger(path)
    ledger.record_all(["south", "west"], "opinion", "in", 3, 20, 100)
    first, second = read_lines(path)
    ledger.close()
    with closing(sqlite3.connect(path)) as connection:  # as if nothing had been moved
        connection.executescript("DELETE FROM records; DELETE FROM head")
    inside = damage if damage.endswith(b"\n") else damage + b"\n"
    journal(path).write_bytes(first + inside + second + damage)
    assert_read(path)
    ledger = Ledger(path)
    assert ledger.damaged_lines == 2
    assert (tmp_path / "ledger.journal.damaged").read_bytes() == 2 * inside
    assert_read(path)
    ledger.record("north", "opinion", "in", 3, 20, 100)
    ledger.close()
    ledger = Ledger(path)
    assert ledger.damaged_lines == 0
    ledger.close()
    assert [(line.peer, line.exchanges) for line in summary(path)] == [("north", 1), ("south", 1), ("west", 1)]


def assert_read(path):
    assert [(line.peer, line.exchanges) for line in summary(path)] == [("south", 1), ("west", 1)]


EARLIER = """
CREATE TABLE exchanges (id INTEGER PRIMARY KEY, at REAL, peer TEXT, kind TEXT, direction TEXT, "rows" INTEGER,
    sent INTEGER, received INTEGER);
CREATE TABLE days (day INTEGER, peer TEXT, kind TEXT, direction TEXT, exchanges INTEGER, "rows" INTEGER, sent INTEGER,
    received INTEGER, first REAL, last REAL, PRIMARY KEY (day, peer, kind, direction)) WITHOUT ROWID;
"""


@pytest.mark.parametrize("version", [1, 2])
def test_a_ledger_of_an_earlier_version_is_taken_over(tmp_path, version):
    path = tmp_path / "ledger.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(EARLIER)
        if version == 2:
            connection.executescript("CREATE TABLE journal (moved INTEGER); INSERT INTO journal VALUES (0)")
        connection.execute("INSERT INTO exchanges VALUES (7, ?, 'south', 'opinion', 'in', 3, 20, 100)", (time.time(),))
        connection.execute("INSERT INTO days VALUES (1, 'south', 'opinion', 'in', 4, 12, 80, 400, 86400.0, 86401.0)")
        connection.execute(f"PRAGMA user_version = {version}")
        connection.commit()
    with pytest.raises(InvalidInput, match=f"must be of version 3; .* is of version {version}, which the node takes"):
        summary(path)
    ledger = Ledger(path)
    ledger.record("south", "opinion", "in", 3, 20, 100)
    ledger.close()
    assert [(line.exchanges, line.rows, line.sent) for line in summary(path)] == [(6, 18, 120)]
    with opened(path) as connection:
        assert connection.execute("SELECT number, peer FROM records").fetchall() == [
            (1, "south"),
            (2, ""),
            (3, "south"),
        ]


@pytest.mark.parametrize("damage", ["text", "page"])
def test_a_damaged_ledger_is_moved_aside_and_the_new_one_holds_its_hash(tmp_path, damage):
    path = tmp_path / "ledger.sqlite"
    ledger = Ledger(path)
    for _ in range(2000):
        ledger.record("south", "opinion", "in", 3, 20, 100)
    ledger.close()
    content = bytearray(path.read_bytes())
    start = 0 if damage == "text" else 4096 * 20
    content[start : start + 5000] = b"x" * 5000
    path.write_bytes(content)
    left = journal(path).with_name("ledger.journal.moving")  # of a move that was interrupted
    left.write_bytes(b"5001\t1.0\twest\topinion\tin\t1\t3\t20\t100\t\t\t\t\t" + b"ab" * 32 + b"\n")
    ledger = Ledger(path)
    assert ledger.set_aside is not None
    assert ledger.set_aside.read_bytes() == bytes(content)
    ledger.record("south", "opinion", "in", 3, 20, 100)
    ledger.close()
    with opened(path) as connection:
        kind, digest = connection.execute("SELECT kind, digest FROM records WHERE number = 1").fetchone()
    assert (kind, digest) == (SET_ASIDE, sha256(content).digest())
    assert [line.exchanges for line in summary(path)] == [1]
    Ledger(path).close()  # which is whole
    assert len(list(tmp_path.glob("*damaged*.sqlite"))) == 1


def test_heartbeats_are_counted_and_recorded_together(tmp_path):
    path, now = tmp_path / "ledger.sqlite", [1000.0 * DAY]
    ledger = Ledger(path, clock=lambda: now[0])
    ledger.record("south", "opinion", "in", 3, 20, 100)
    for _ in range(100):
        for direction in ("in", "out"):
            ledger.count("south", "describe", direction, 10, 20)
    assert ledger.totals["south", "describe", "in"] == (100, 0, 1000, 2000)
    assert [line.kind for line in summary(path)] == ["opinion"]
    now[0] += COUNT_SECONDS
    ledger.count("south", "describe", "in", 10, 20)
    assert [(line.kind, line.exchanges, line.sent) for line in summary(path)] == [
        ("describe", 101, 1010), ("describe", 100, 1000), ("opinion", 1, 20),
    ]  # fmt: skip
    ledger.count("south", "describe", "in", 10, 20)
    ledger.close()
    assert single(path) == 1 + 2 + 1
    assert summary(path)[0].exchanges == 102


def test_heartbeats_that_cannot_be_recorded_stay_counted(tmp_path, monkeypatch):
    path, now = tmp_path / "ledger.sqlite", [1000.0 * DAY]
    ledger, write = Ledger(path, clock=lambda: now[0]), os.write
    ledger.count("south", "describe", "in", 10, 20)
    now[0] += COUNT_SECONDS
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda file, content: write(file, content[:9]))
        ledger.count("south", "describe", "in", 10, 20)
    ledger.close()
    assert [(line.exchanges, line.sent, line.received) for line in summary(path)] == [(2, 20, 40)]


def test_replies_are_no_further_exchanges(tmp_path):
    path = tmp_path / "ledger.sqlite"
    ledger = Ledger(path)
    ledger.record_all(["south", "west"], "prediction", OUT, 3, 20, 0)
    ledger.record_replies("prediction", [("south", 50, "ab" * 32), ("west", 60, "cd" * 32)])
    ledger.close()
    assert [(line.exchanges, line.rows, line.sent, line.received) for line in summary(path)] == [
        (1, 3, 20, 50), (1, 3, 20, 60),
    ]  # fmt: skip


def test_a_write_that_stops_half_way_leaves_nothing(tmp_path, monkeypatch):
    path = tmp_path / "ledger.sqlite"
    ledger, write = Ledger(path), os.write
    ledger.record("south", "opinion", "in", 3, 20, 100)
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda file, content: write(file, content[:9]))
        with pytest.raises(LedgerError, match="No space left on device"):
            ledger.record_all(["south", "west"], "opinion", "in", 3, 20, 100)
    assert [line.exchanges for line in summary(path)] == [1]
    assert ledger.totals == {("south", "opinion", "in"): (1, 3, 20, 100)}
    ledger.record("south", "opinion", "in", 3, 20, 100)
    assert [line.exchanges for line in summary(path)] == [2]
    ledger.close()


def test_another_process_records_beside_the_node_and_nothing_is_lost(tmp_path):
    path, totals = tmp_path / "ledger.sqlite", LedgerTotals(tmp_path / "ledger.sqlite")
    ledger, count = Ledger(path), 0
    for _ in range(3):
        for _ in range(150):
            ledger.record("south", "opinion", "in", 3, 20, 100)
        count += 150
        record_beside(path, "west", "copy", "out", 0, 5, 0)
        ledger.record("south", "opinion", "in", 3, 20, 100)
        count += 1
        assert totals.read() == summary(path)
    assert [(line.peer, line.exchanges) for line in summary(path)] == [("south", count), ("west", 3)]
    ledger.close()
    assert totals.read() == summary(path)
    assert [(line.peer, line.exchanges) for line in summary(path)] == [("south", count), ("west", 3)]
    assert single(path) == count + 3


def test_what_was_recorded_beside_and_changed_is_set_aside_and_a_line_of_the_version_before_is_not(tmp_path):
    path = tmp_path / "ledger.sqlite"
    for rows in (5, 7):
        record_beside(path, "west", "copy", "out", rows, 5, 0)
    whole, changed = beside_path(path).read_text().splitlines()
    changed = changed.replace("\t7\t", "\t8\t")
    beside_path(path).write_text(f"{whole.rpartition(chr(9))[0]}\n{changed}\n")
    assert [line.rows for line in summary(path)] == [5]
    Ledger(path).close()
    assert [line.rows for line in summary(path)] == [5]
    assert damaged_path(path).read_text() == f"{changed}\n"


def test_a_ledger_that_is_closed_records_nothing_more(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.close()
    other = (tmp_path / "other").open("wb")  # which may have got the number of the journal's file
    with other, pytest.raises(LedgerError, match="Bad file descriptor"):
        ledger.record("south", "opinion", "in", 3, 20, 100)
    assert (tmp_path / "other").read_bytes() == b""


@pytest.mark.parametrize("replaced", [False, True])
def test_a_journal_that_is_deleted_or_replaced_under_a_running_node_is_made_anew(tmp_path, replaced):
    path = tmp_path / "ledger.sqlite"
    ledger = Ledger(path)
    for _ in range(5):
        ledger.record("south", "opinion", "in", 3, 20, 100)
    journal(path).unlink()
    if replaced:
        journal(path).write_bytes(b"somebody's\n")
    ledger.record("south", "opinion", "in", 3, 20, 100)
    ledger.make_durable()
    assert [line.exchanges for line in summary(path)] == [6]
    ledger.record("south", "opinion", "in", 3, 20, 100)
    assert [line.exchanges for line in summary(path)] == [7]
    ledger.close()
    assert [line.exchanges for line in summary(path)] == [7]


def test_errors_name_the_journal(tmp_path):
    path = tmp_path / "ledger.sqlite"
    Ledger(path).close()
    journal(path).unlink()
    journal(path).mkdir()
    with pytest.raises(LedgerError, match=r"ledger\.journal: Is a directory"):
        Ledger(path)
    with pytest.raises(InvalidInput, match=r"ledger\.journal: Is a directory"):
        summary(path)
