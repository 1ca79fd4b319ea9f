"""Drills of the ledger with real nodes: what somebody does to a member's record is found and named by the command."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from functools import partial
from hashlib import sha256

import numpy as np
import pytest
from support.consortium import Consortium
from support.drills import until

from degroot import cli
from degroot.node.config import IdentityFiles, read
from degroot.node.records import ledger as ledgers
from degroot.node.records.chain import Record, link, write_line
from degroot.node.records.ledger import summary
from degroot.node.tls import signing

PURPOSE = "triage, ward 7"
X = np.random.default_rng(5).normal(size=(4, 3))


def ask(consortium, times=5):
    with consortium.connect() as node:
        for _ in range(times):
            node.predict(X, purpose=PURPOSE)


def count_receipts(consortium, name):
    with ledgers.opened(consortium.configuration(name).ledger) as connection:
        return connection.execute("SELECT count(*) FROM receipts").fetchone()[0]


def count_unconfirmed(consortium, name):
    path, configuration = consortium.configuration(name).ledger, consortium.configuration(name)
    from degroot.node.records.export import read_ledger
    from degroot.node.records.verification import verify_together

    with read_ledger(path, configuration.name) as content:
        return verify_together([content], None)[0].unconfirmed


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A consortium that has answered, exchanged receipts and was stopped; tests change copies of it."""
    folder = tmp_path_factory.mktemp("drill")
    with Consortium(folder, 3, evidence="own", timing="receipt_seconds = 0.2") as consortium:
        consortium.fork().ready()
        ask(consortium)
        until(lambda: count_unconfirmed(consortium, "node0") == 0, "receipts for all exchanges")
        for name in consortium.names:
            assert consortium.kill(name, signal.SIGTERM) == 0
    return consortium


@pytest.fixture
def copy(stopped, tmp_path):
    """The folder of a copy of the consortium, to be changed."""
    return shutil.copytree(stopped.folder, tmp_path / "copy")


@pytest.fixture
def audit(monkeypatch, capsys):
    """Run `degroot node audit` in this process: exit code, what it prints, and its last line of complaint."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["degroot", "node", "audit", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        return ended.value.code or 0, out, err

    return run


def change(folder, name, *statements):
    with closing(sqlite3.connect(folder / name / "state" / "ledger.sqlite")) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def export(audit, folder, name):
    code, out, _ = audit(folder / name / "node.toml", "--json", "--out", folder / f"{name}.jsonl")
    assert code == 0
    assert f"records of {name}" in out
    return folder / f"{name}.jsonl"


def test_whole_ledgers_are_whole_and_name_asker_and_purpose(copy, audit):
    others = [export(audit, copy, name) for name in ("node1", "node2")]
    code, out, err = audit(copy / "node0" / "node.toml", "--verify", *(f"--against={path}" for path in others))
    assert (code, err) == (0, "")
    assert out.endswith("Nothing was changed, and nothing is missing.\n")
    for name in ("node0", "node1", "node2"):
        code, out, _ = audit(copy / name / "node.toml", "--csv")
        asked = [line for line in out.splitlines() if f'analyst,"{PURPOSE}"' in line]
        assert len(asked) == (5 * (1 + 2 + 2) if name == "node0" else 5)


def test_one_changed_byte_is_named(copy, audit):
    path = copy / "node1" / "state" / "ledger.sqlite"
    content = bytearray(path.read_bytes())
    place = content.index(PURPOSE.encode())
    content[place] ^= 1
    path.write_bytes(content)
    code, out, err = audit(copy / "node1" / "node.toml", "--verify")
    assert code == 1
    assert "prediction from node0, was changed after it was written" in out
    assert err.count("\n") == 1


def test_a_removed_record_is_named(copy, audit):
    change(copy, "node1", "DELETE FROM records WHERE number = 4")
    code, out, _ = audit(copy / "node1" / "node.toml", "--verify")
    assert code == 1
    assert "record 4 is missing, before record 5 of " in out


def test_a_cut_file_is_named(copy, audit):
    path = copy / "node1" / "state" / "ledger.sqlite"
    path.write_bytes(path.read_bytes()[:-8192])
    code, out, err = audit(copy / "node1" / "node.toml", "--verify")
    assert code in (1, 2)
    assert "malformed" in err or "cut off at the end" in out


def sign_anew(folder, name):
    """Compute the chain anew after a change, and sign its end: as the operator can, who has disk and key."""
    path, keys = folder / name / "state" / "ledger.sqlite", folder / "keys"
    with closing(sqlite3.connect(path)) as connection:
        before, number = ledgers.GENESIS, 0
        for record in map(Record._make, connection.execute(f"{ledgers.SELECT_RECORDS} ORDER BY number").fetchall()):
            number += 1
            before = link(before, write_line(record._replace(number=number)))
            connection.execute(
                "UPDATE records SET number = ?, hash = ? WHERE number = ?", (number, before, record.number)
            )
        message = ledgers.describe_head(name, ledgers.Head(number, before), 1.0)
        identity = IdentityFiles(keys / "ca.pem", keys / f"{name}.pem", keys / f"{name}.key")
        signature, _ = signing.sign(identity, signing.LEDGER_CONTEXT, message)
        connection.execute("UPDATE head SET number = ?, at = 1.0, hash = ?, signature = ?", (number, before, signature))
        connection.commit()


def test_an_end_cut_by_the_operator_is_named_by_peers(copy, audit):
    change(
        copy, "node1", "DELETE FROM receipts", "DELETE FROM records WHERE kind = 'receipt' OR number > 6",
    )  # fmt: skip
    sign_anew(copy, "node1")
    code, out, _ = audit(copy / "node1" / "node.toml", "--verify")
    assert code == 0, out
    code, out, _ = audit(copy / "node1" / "node.toml", "--verify", "--against", export(audit, copy, "node0"))
    assert code == 1
    assert "cut off at the end: record" in out
    assert "which node1 signed for node0" in out


def test_members_who_disagree_are_named(copy, audit):
    change(copy, "node1", "UPDATE records SET digest = randomblob(32) WHERE kind = 'prediction' AND direction = 'in'")
    sign_anew(copy, "node1")
    paths = [export(audit, copy, name) for name in ("node0", "node1")]
    code, out, _ = audit(paths[0], "--verify", "--against", paths[1], "--ca", copy / "keys" / "ca.pem")
    assert code == 1
    assert out.count("node0 and node1 disagree about what they exchanged at ") == 5


def test_a_forged_receipt_is_named(copy, audit):
    with closing(sqlite3.connect(copy / "node0" / "state" / "ledger.sqlite")) as connection:
        number, reply = connection.execute("SELECT number, reply FROM receipts WHERE direction = 'out'").fetchone()
        forged = reply[:-5] + bytes([reply[-5] ^ 1]) + reply[-4:]
        connection.execute("UPDATE receipts SET reply = ? WHERE number = ?", (forged, number))
        connection.commit()
    code, out, _ = audit(copy / "node0" / "node.toml", "--verify")
    assert code == 1
    assert "forged or was changed" in out or "is missing or was changed" in out
    assert "the receipt of " in out


DAMAGED = {
    "cut": (lambda path: os.truncate(path, path.stat().st_size // 2), "malformed"),
    "no database": (lambda path: path.write_bytes(b"not a database" * 1000), "file is not a database"),
    "empty": (lambda path: path.write_bytes(b""), "it is empty"),
    "gone": (lambda path: path.unlink(), "it is not there, and ledger.journal is"),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_ledger_is_moved_aside_and_that_is_told_by_check_and_ledger_alike(copy, audit, degroot, damage):
    """What the check says will happen is what happens; then the new ledger is whole, and says what it follows on."""
    home = copy / "node1"
    path = home / "state" / "ledger.sqlite"
    harm, reason = DAMAGED[damage]
    harm(path)
    content = path.read_bytes() if path.exists() else b""  # of the journal that is left
    code, out, _ = degroot("node", "check", home / "node.toml")
    assert code == 0
    (line,) = [each for each in out.splitlines() if each.startswith("warning ledger: ")]
    assert reason in line
    assert line.endswith("): the next start moves it aside and begins a new one")
    ledger = ledgers.Ledger(path, "node1", partial(signing.sign, read(home / "node.toml").identity))
    ledger.close()
    assert reason in ledger.damage
    (notice,) = ledger.list_notices()
    assert notice == f"The ledger was damaged when this node started ({ledger.damage}); a new one is begun beside it."
    assert ledger.set_aside.read_bytes() == content
    with ledgers.opened(path) as connection:
        found = connection.execute("SELECT kind, purpose, digest FROM records WHERE number = 1").fetchone()
    assert found == (ledgers.SET_ASIDE, ledger.set_aside.name, sha256(content).digest())
    code, out, _ = audit(home / "node.toml", "--verify")
    assert code == 1
    assert f"{ledgers.SET_ASIDE}: {ledger.set_aside.name}" in out
    assert "ok      ledger: " in degroot("node", "check", home / "node.toml").out


def test_records_that_went_with_a_deleted_log_of_the_database_are_told(tmp_path):
    """A node was killed; then somebody deletes `ledger.sqlite-wal`, which has the newest records but those waiting."""
    path = tmp_path / "ledger.sqlite"
    code = """
import os, sys; from pathlib import Path
from degroot.node.records.ledger import Ledger
ledger = Ledger(Path(sys.argv[1]))
for number in range(30):
    ledger.record("south", "query", "in", number, 0, 0)
ledger.make_durable()
ledger._closing.set()
for number in range(3):
    ledger.record("south", "query", "in", number, 0, 0)
os.kill(os.getpid(), 9)
"""
    before = ledgers.Ledger(path)
    before.record("south", "query", "in", 1, 0, 0)
    before.close()
    assert subprocess.run([sys.executable, "-c", code, path]).returncode == -9
    path.with_name("ledger.sqlite-wal").unlink()
    ledger = ledgers.Ledger(path)
    ledger.close()
    assert (ledger.set_aside, ledger.lost) == (None, range(2, 32))
    assert list(ledger.list_notices()) == ["Records 2 to 31 of the ledger were lost before this node started."]
    with ledgers.opened(path) as connection:
        numbers = [number for (number,) in connection.execute("SELECT number FROM records ORDER BY number")]
        assert numbers == [1, 32, 33, 34, 35]
        note = connection.execute("SELECT kind, purpose FROM records WHERE number = 35").fetchone()
    assert note == (ledgers.LOST, "records 2 to 31")


def test_a_ledger_that_cannot_be_opened_is_no_damage_and_left_alone(tmp_path):
    path = tmp_path / "ledger.sqlite"
    path.mkdir()
    with pytest.raises(ledgers.LedgerError, match=r"ledger\.sqlite: "):
        ledgers.Ledger(path)
    assert [each.name for each in tmp_path.iterdir()] == ["ledger.sqlite"]


def test_a_database_that_cannot_be_written_is_told_while_it_is_so_and_its_journal_keeps_the_records(
    tmp_path, monkeypatch
):
    path = tmp_path / "ledger.sqlite"
    ledger = ledgers.Ledger(path)

    def fail(*_):
        raise sqlite3.DatabaseError("database disk image is malformed")

    with monkeypatch.context() as patched:
        patched.setattr(ledger, "_insert", fail)
        ledger.record("south", "query", "in", 2, 0, 0)
        (notice,) = until(lambda: list(ledger.list_notices()), "a notice")
        assert "cannot be written (database disk image is malformed); its journal keeps" in notice
        assert [line.rows for line in summary(path)] == [2]
    until(lambda: not list(ledger.list_notices()), "the notice goes")
    ledger.close()
    assert [line.rows for line in summary(path)] == [2]


def lose_writes(folder):
    """Keep what is written from reaching the disk, from the moment on at which a file says so."""
    from degroot.node.records import journal

    append, rotate = journal.Journal.append, journal.Journal.rotate

    def append_unless_lost(self, lines):
        if not (folder / "lose").exists():
            append(self, lines)

    def rotate_unless_lost(self):
        if (folder / "lose").exists():
            raise OSError(5, "Input/output error")
        rotate(self)

    journal.Journal.append, journal.Journal.rotate = append_unless_lost, rotate_unless_lost


def test_what_a_loss_of_power_took_after_it_was_sent_is_named(tmp_path, audit):
    """The node's writes stop reaching the disk, it asks on, and is killed; its peers have what it sent."""
    with Consortium(tmp_path, 3, evidence="own", timing="receipt_seconds = 0.2") as consortium:
        consortium.fork("node0", before=lose_writes).fork("node1", "node2").ready()
        ask(consortium, 2)
        until(lambda: count_unconfirmed(consortium, "node0") == 0, "receipts for all exchanges")
        (tmp_path / "node0" / "lose").touch()
        ask(consortium, 3)
        consortium.kill("node0")
        (tmp_path / "node0" / "lose").unlink()
        consortium.fork("node0").ready("node0")
        for name in consortium.names:
            assert consortium.kill(name, signal.SIGTERM) == 0
    asked = {line.kind: line.rows for line in summary(consortium.configuration("node0").ledger) if line.peer == "node1"}
    assert asked["prediction"] == 2 * len(X)
    code, out, _ = audit(tmp_path / "node0" / "node.toml", "--verify", "--against", export(audit, tmp_path, "node1"))
    assert code == 1
    assert out.count("node0 has no record of what node1 answered it at ") == 3
