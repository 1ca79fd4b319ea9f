"""The ledger as proof: whatever is changed, removed, cut or forged is found and named."""

import errno
import json
import os
import shutil
import sqlite3
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from degroot.exceptions import InvalidInput
from degroot.node.config import IdentityFiles
from degroot.node.protocol.v3 import collective_pb2 as wire
from degroot.node.records import ledger as ledgers
from degroot.node.records.chain import GENESIS, IN, OUT, Origin, Record, digest_exchange, link, parse_line, write_line
from degroot.node.records.export import read_export, read_ledger, write_csv, write_json
from degroot.node.records.journal import Journal
from degroot.node.records.ledger import DAY, Ledger, LedgerError
from degroot.node.records.receipts import RECEIPT, Receipts
from degroot.node.records.verification import verify_together
from degroot.node.tls import authority, signing


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    authority.init_ca(folder, "tests", 30)
    for name in ("north", "south", "west"):
        authority.issue(folder, name, 30, ["localhost"])
    return folder


class Member:
    """A node's ledger and receipts, without the node."""

    def __init__(self, folder, keys, name, **settings):
        self.name, self.keys = name, keys
        folder.mkdir(exist_ok=True)
        self.path = folder / "ledger.sqlite"
        self.open(**settings)

    def open(self, **settings):
        identity = IdentityFiles(self.keys / "ca.pem", self.keys / f"{self.name}.pem", self.keys / f"{self.name}.key")

        def sign(context, message):
            return signing.sign(identity, context, message)

        self.ledger = Ledger(self.path, self.name, sign, **settings)
        names = {"north", "south", "west"}
        self.receipts = Receipts(self.ledger, self.name, sign, self.check, lambda: names)
        return self

    def check(self, context, message, signature, certificate, name):
        signing.check_signature(context, message, signature, certificate, self.keys / "ca.pem", name)

    def ask(self, other, rows=3, question="0123456789abcdef"):
        """An exchange that both sides record."""
        origin, request, reply = Origin(question, "analyst", "triage"), b"request", b"reply"
        digest = digest_exchange(self.name, other.name, "prediction", rows, question, request, reply)
        self.ledger.record_all([other.name], "prediction", OUT, rows, len(request), 0, origin)
        answered = other.ledger.record(self.name, "prediction", IN, rows, len(reply), len(request), origin, digest)
        other.receipts.note_answered(self.name, answered)
        (came,) = self.ledger.record_replies("prediction", [(other.name, len(reply), digest)], origin)
        self.receipts.note_received(other.name, came)

    def confirm(self, other):
        """State what was answered, and keep the receipt; what both find wrong."""
        statement = self.receipts.make_statement(other.name)
        reply, found = other.receipts.countersign(self.name, statement)
        return found, self.receipts.accept(other.name, statement, reply)

    def close(self):
        self.ledger.close()

    def change(self, *statements):
        """Change the file as somebody with the disk can."""
        with closing(sqlite3.connect(self.path)) as connection:
            for statement in statements:
                connection.execute(statement)
            connection.commit()

    @contextmanager
    def content(self):
        with read_ledger(self.path, self.name) as content:
            yield content

    def verify(self, *others):
        with self.content() as mine:
            opened = [mine]
            managers = [other.content() for other in others]
            try:
                opened += [manager.__enter__() for manager in managers]
                return verify_together(opened, self.check)
            finally:
                for manager in managers:
                    manager.__exit__(None, None, None)

    def findings(self, *others):
        return list(self.verify(*others)[0].findings)


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Let statements follow each other at once."""
    monkeypatch.setattr("degroot.node.records.receipts.LEAST_SECONDS", 0.0)


@pytest.fixture
def pair(tmp_path, keys):
    """Two members with 30 exchanges, confirmed, and 5 more that are not; both ledgers are closed."""
    north, south = (Member(tmp_path / name, keys, name) for name in ("north", "south"))
    for k in range(30):
        north.ask(south, question=f"{k:016x}")
    assert north.confirm(south) == ([], [])
    for k in range(30, 35):
        north.ask(south, question=f"{k:016x}")
    north.close()
    south.close()
    return north, south


def test_two_whole_ledgers_agree(pair):
    north, south = pair
    mine, theirs = north.verify(south)
    assert mine.findings == theirs.findings == ()
    assert (mine.records, mine.receipts, mine.confirmed, mine.unconfirmed, mine.is_signed) == (71, 1, 30, 5, True)
    assert (theirs.records, theirs.receipts, theirs.confirmed, theirs.unconfirmed) == (36, 1, 0, 0)
    assert south.findings(north) == []


records = st.builds(
    Record, st.just(1), st.floats(0, 1e9), st.sampled_from(["south", ""]), st.sampled_from(["opinion", "copy"]),
    st.sampled_from([IN, OUT]), *[st.integers(0, 10**12)] * 4, st.just(""), st.text("abc ", max_size=9),
    st.text("abc ", max_size=9), st.sampled_from(["", "ab" * 32]),
)  # fmt: skip


@given(records)
def test_a_line_is_read_back_as_it_was_written(record):
    hashed = link(GENESIS, write_line(record)).hex()
    assert parse_line(f"{write_line(record)}\t{hashed}".encode()) == record._replace(hash=hashed)


FIELDS = [
    "at = at + 1", "peer = 'west'", "kind = 'opinion'", "direction = 'in'", "exchanges = 2", '"rows" = "rows" + 1',
    "sent = sent - 1", "received = 9", "question = 'f'", "asker = 'somebody'", "purpose = 'research'",
    "digest = x'00'", "hash = zeroblob(32)",
]  # fmt: skip


@pytest.mark.parametrize("change", FIELDS)
@pytest.mark.parametrize("number", [1, 20, 60, 71])
def test_a_changed_record_is_named(pair, change, number):
    north, _ = pair
    north.change(f"UPDATE records SET {change} WHERE number = {number}")
    found = north.findings()
    if change.startswith("hash") and number == 71:
        assert any("record 71 is not the one that was signed" in each for each in found)
    else:
        assert any(f"record {number + change.startswith('hash')} of " in each and "changed" in each for each in found)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_one_changed_byte_of_the_journal_is_found(tmp_path_factory, keys, data):
    north = Member(tmp_path_factory.mktemp("north"), keys, "north", clock=lambda: 1e9)
    for _ in range(5):
        north.ledger.record("west", "opinion", IN, 3, 20, 100, Origin("a" * 16, "west", "triage"), "ab" * 32)
    with north.content() as content:
        lines = [f"{write_line(record)}\t{record.hash}\n" for record in content.records]
    north.close()
    north.change("DELETE FROM records", "DELETE FROM head")  # as after `kill -9`, before anything was moved
    written = bytearray("".join(lines).encode())
    place = data.draw(st.integers(0, len(written) - 2))
    byte = data.draw(st.integers(0, 255).filter(lambda byte: byte != written[place]))
    written[place] = byte
    (north.path.parent / "ledger.journal").write_bytes(written)
    north.open(clock=lambda: 1e9).close()
    assert north.findings()


def test_one_changed_byte_of_the_database_is_found_or_changes_nothing(pair):
    """Wherever it is; a byte that no record, receipt or signature is made of, such as free space, changes nothing."""
    north, _ = pair
    whole = north.path.read_bytes()
    random = np.random.default_rng(0)
    with north.content() as content:
        held = [*content.records], content.receipts, content.head, content.checkpoint, content.totals
    found = 0
    for place in random.integers(0, len(whole), 300).tolist():
        changed = bytearray(whole)
        changed[place] ^= 1 << int(random.integers(8))
        north.path.write_bytes(changed)
        try:
            if north.findings():
                found += 1
                continue
            with north.content() as content:
                assert held == ([*content.records], content.receipts, content.head, content.checkpoint, content.totals)
        except InvalidInput:
            found += 1
    assert found > 30


def test_a_removed_record_is_named(pair):
    north, _ = pair
    north.change("DELETE FROM records WHERE number BETWEEN 20 AND 22")
    assert "records 20 to 22 are missing, before record 23 of " in north.findings()[0]


def test_an_inserted_record_is_named(pair):
    north, _ = pair
    north.change(
        "UPDATE records SET number = number + 1000 WHERE number > 40",
        "UPDATE records SET number = number - 999 WHERE number > 1000",
        "INSERT INTO records SELECT 41, at, peer, kind, direction, exchanges, rows, sent, received, question, asker, "
        "purpose, digest, hash FROM records WHERE number = 40",
    )
    assert any("record 41 of " in each and "changed" in each for each in north.findings())


def test_a_cut_end_is_named_by_the_signed_head(pair):
    north, _ = pair
    north.change("DELETE FROM records WHERE number > 68")
    assert north.findings()[0].startswith("records 69 to 71 are cut off at the end: the node signed up to record 71")


def cut(member: Member, until: int) -> None:
    """Cut the ledger after a record and sign its new end, as an operator with the key can."""
    member.change(f"DELETE FROM records WHERE number > {until}", f"DELETE FROM receipts WHERE number > {until}")
    with closing(sqlite3.connect(member.path)) as connection:
        (hashed,) = connection.execute("SELECT hash FROM records WHERE number = ?", (until,)).fetchone()
        head = ledgers.Head(until, hashed)
        message = ledgers.describe_head(member.name, head, 1.0)
        identity = IdentityFiles(*(member.keys / f"{name}" for name in ("ca.pem", "north.pem", "north.key")))
        signature, certificate = signing.sign(identity, signing.LEDGER_CONTEXT, message)
        connection.execute("UPDATE head SET number = ?, at = 1.0, hash = ?, signature = ?", (until, hashed, signature))
        assert connection.execute("SELECT count(*) FROM certificates WHERE content = ?", (certificate,)).fetchone() == (
            1,
        )
        connection.commit()


def test_an_end_that_its_operator_cut_is_named_by_the_peers_receipt(pair):
    north, south = pair
    cut(north, 50)
    assert north.findings() == []  # by itself it is a whole, shorter ledger
    found = north.findings(south)
    assert any("records 51 to 60 are cut off at the end: record 60, which north signed for south" in e for e in found)
    assert any("north has no record of what south answered it" in each for each in found)


def test_a_cut_ledger_is_noticed_when_the_node_runs_again(pair, tmp_path):
    north, south = pair
    cut(north, 50)
    north.open()
    south.open()
    north.ask(south, question="f" * 16)
    theirs, mine = north.confirm(south)
    assert theirs == ["north had record 60 before, and now ends with 52"]
    assert mine == ["south holds our signature of record 60, which is not here: it was cut or changed"]
    north.close()
    south.close()
    assert any("ledger went back" in each for each in north.findings())
    (verified,) = south.verify()
    assert verified.findings == ()  # it is the other's that went back
    assert any("peer's ledger went back" in each for each in verified.disputes)


def test_a_rewritten_ledger_disagrees_with_its_peer(pair):
    """Somebody with the disk and the key changes a record, and computes the whole chain anew."""
    north, south = pair
    with closing(sqlite3.connect(north.path)) as connection:
        connection.execute('UPDATE records SET "rows" = 1, digest = zeroblob(32) WHERE number IN (3, 4)')
        before = GENESIS
        found = connection.execute(f"{ledgers.SELECT_RECORDS} ORDER BY number").fetchall()
        for record in map(Record._make, found):
            before = link(before, write_line(record))
            connection.execute("UPDATE records SET hash = ? WHERE number = ?", (before, record.number))
        connection.commit()
    cut(north, 71)
    alone = north.findings()
    assert any("is for 1 exchanges that are not in the ledger" in each for each in alone)
    assert any("record 60 is not the one which north signed for south" in each for each in north.findings(south))
    assert any("north and south disagree about what they exchanged" in each for each in north.findings(south))


@pytest.mark.parametrize("column", ["statement", "reply"])
def test_a_forged_receipt_is_named(pair, column):
    north, _ = pair
    with closing(sqlite3.connect(north.path)) as connection:
        number, content = connection.execute(f"SELECT number, {column} FROM receipts").fetchone()
        for place in (10, len(content) // 2, len(content) - 40):
            forged = bytearray(content)
            forged[place] ^= 1
            connection.execute(f"UPDATE receipts SET {column} = ?", (bytes(forged),))
            connection.commit()
            found = [each for each in north.findings() if f"with south, record {number}," in each]
            assert any("forged" in each or "changed" in each for each in found), (place, found)


def test_a_receipt_that_was_added_or_removed_is_named(pair):
    north, _ = pair
    north.change("INSERT INTO receipts SELECT 5000, at, peer, direction, statement, reply FROM receipts")
    assert any("record 5000, is in no record: it was forged" in each for each in north.findings())
    north.change("DELETE FROM receipts")
    assert any("the receipt for 30 exchanges with south, record 61, is missing" in each for each in north.findings())


def test_a_record_is_never_without_its_receipt(tmp_path, keys, monkeypatch):
    """At every step in which a receipt is kept, what another process reads, and what a killed one leaves, is whole."""
    north, south = (Member(tmp_path / name, keys, name) for name in ("north", "south"))
    copies, execute, write = [], Ledger.execute, Ledger._write

    def copying(step):
        def copy(*arguments, **more):
            found = step(*arguments, **more)
            if arguments[0] is north.ledger:
                copies.append(shutil.copytree(north.path.parent, tmp_path / f"copy{len(copies)}"))
            return found

        return copy

    for k in range(2):
        north.ask(south, question=f"{k:016x}")
        north.ledger.make_durable()  # which signs its head
        with monkeypatch.context() as copied:
            copied.setattr(Ledger, "execute", copying(execute))
            copied.setattr(Ledger, "_write", copying(write))
            assert north.confirm(south) == ([], [])
    north.close()
    kept, waiting = [], 0
    for folder in copies:
        member = Member.__new__(Member)
        member.name, member.keys, member.path = "north", keys, folder / "ledger.sqlite"
        first = member.verify()[0]
        with closing(sqlite3.connect(member.path)) as connection:
            waiting += connection.execute("SELECT count(*) FROM receipts WHERE number < 0").fetchone()[0]
        member.open().close()
        second = member.verify()[0]
        assert (first.findings, second.findings) == ((), ())
        assert (first.receipts, first.confirmed) == (second.receipts, second.confirmed)
        kept.append(first.confirmed)
    assert waiting > 1, "no copy was made in between"
    assert (kept, kept[-1]) == (sorted(kept), 2)


def test_a_receipt_that_cannot_be_recorded_is_not_kept(tmp_path, keys, monkeypatch):
    north, south = (Member(tmp_path / name, keys, name) for name in ("north", "south"))
    north.ask(south)
    statement = north.receipts.make_statement("south")
    reply, _ = south.receipts.countersign("north", statement)

    def fail(self, lines):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        full.setattr(Journal, "append", fail)
        with pytest.raises(LedgerError, match="No space left"):
            north.receipts.accept("south", statement, reply)
    assert north.ledger.execute("SELECT count(*) FROM receipts") == [(0,)]
    north.close()
    assert north.verify()[0].is_whole


def test_a_receipt_by_another_key_is_refused(pair, keys):
    north, south = pair
    north.open()
    south.open()
    statement = north.receipts.make_statement("south")
    forger = Member(north.path.parent / "forger", keys, "west")
    forger.receipts.name = "south"
    with pytest.raises(InvalidInput, match="must be by the certificate of 'north'"):
        south.receipts.countersign("north", forger.receipts.make_statement("south"))
    reply, _ = south.receipts.countersign("north", statement)
    reply.signature = b"x" + reply.signature[1:]
    with pytest.raises(InvalidInput, match="signature must be that of 'south'"):
        north.receipts.accept("south", statement, reply)
    for each in (north, south, forger):
        each.close()


def test_what_a_loss_of_power_took_is_named_by_the_peer(pair, monkeypatch):
    """Messages were sent, and their records never reached the disk."""
    north, south = pair
    north.open()
    south.open()
    files = {path: path.read_bytes() for path in north.path.parent.iterdir()}
    for k in (1, 2):
        north.ask(south, question=f"{k:x}" * 16)
    north.close()
    for path in north.path.parent.iterdir():  # what was not flushed is gone
        path.unlink()
    for path, content in files.items():
        path.write_bytes(content)
    north.open()
    monkeypatch.setattr("degroot.node.records.receipts.PATIENCE", 0.0)
    theirs, mine = north.confirm(south)
    assert theirs == []
    assert [("1" * 16 in each, "2" * 16 in each) for each in mine] == [(True, True)]
    north.close()
    south.close()
    (alone,), (against, _) = north.verify(), north.verify(south)
    for each in (alone.disputes, against.findings):
        assert any("1" * 16 in finding for finding in each)
        assert any("2" * 16 in finding for finding in each)


def test_records_that_a_peer_lost_are_named(pair):
    north, south = pair
    south.change("DELETE FROM records WHERE number > 36", "DELETE FROM records WHERE number = 36")
    south.open()
    north.open()
    theirs, mine = north.confirm(south)
    assert theirs == ["north states 1 exchanges that are not in this ledger"]
    assert mine == ["south has no record of 1 of 5 exchanges that it answered"]
    north.close()
    south.close()


@pytest.mark.parametrize(
    "content", [b"", b"\xff" * 40, wire.Statement(caller="north", digests=b"x").SerializeToString()]
)
def test_signed_nonsense_is_refused_in_one_line(pair, content):
    north, south = pair
    north.open()
    south.open()
    nonsense = north.receipts._signed(content)
    with pytest.raises(InvalidInput):
        south.receipts.countersign("north", nonsense)
    with pytest.raises(InvalidInput):
        south.receipts.accept("north", south.receipts.make_statement("north"), nonsense)
    north.close()
    south.close()
    assert north.findings(south) == []


def rewrite(member: Member, *statements: str) -> None:
    """Change records, and compute the whole chain anew, as somebody with the disk can; the key signs nothing."""
    member.change(*statements)
    with closing(sqlite3.connect(member.path)) as connection:
        before, number = GENESIS, 0
        for record in map(Record._make, connection.execute(f"{ledgers.SELECT_RECORDS} ORDER BY number").fetchall()):
            number, before = record.number, link(before, write_line(record))
            connection.execute("UPDATE records SET hash = ? WHERE number = ?", (before, number))
        connection.execute("UPDATE head SET number = ?, hash = ?, signature = x'', certificate = x''", (number, before))
        connection.commit()


def test_a_chain_that_is_computed_anew_without_the_key_is_found(pair):
    north, _ = pair
    rewrite(
        north, "DELETE FROM receipts", "DELETE FROM records WHERE kind = 'receipt' OR number > 50",
        'UPDATE records SET "rows" = 1 WHERE number = 3',
    )  # fmt: skip
    assert north.findings() == ["the signed head is not signed"]


@pytest.mark.parametrize("about", [{"exported": 0}, {"exported": 0, "peer": "north"}, {"exported": 1e18}])
def test_an_export_that_hides_exchanges_by_its_time_is_told(pair, tmp_path, about):
    north, south = pair
    lines = export(south, tmp_path / "south.jsonl").read_text().splitlines()
    first = json.loads(lines[0]) | about
    kept = [line for line in lines[1:] if json.loads(line)["what"] == "certificate"]
    (tmp_path / "hiding.jsonl").write_text("\n".join([json.dumps(first), *kept]) + "\n")
    with read_export(tmp_path / "hiding.jsonl") as content, north.content() as mine:
        verified, _ = verify_together([mine, content], north.check)
    assert verified.uncompared + len(verified.findings) > 0


def test_a_peer_writes_no_lines_into_the_journal(pair):
    north, _ = pair
    north.open()
    forged = "x\n99\t1.0\twest\topinion\tin\t1\t3\t20\t100\t\t\t\t\t" + "ab" * 32
    claims = [wire.Unclaimed(question="\t", kind=forged)] * 1000
    (told,) = north.receipts._compare("south", wire.Receipt(unclaimed=claims))
    assert told.isprintable()
    assert "claims to have answered 1000 requests" in told
    north.close()
    assert {each.peer for each in ledgers.summary(north.path)} == {"south"}
    (verified,) = north.verify()
    assert (len(verified.findings), len(verified.disputes)) == (0, 1)  # a lie harms nobody's record


def test_a_claim_about_our_ledger_needs_our_signature(pair):
    north, south = pair
    north.open()
    south.open()
    statement = wire.Statement(caller="north", callee="south", head=wire.ChainHead(number=2**63, hash=b"x"))
    claimed = south.receipts._signed(statement.SerializeToString())  # by its own key
    assert north.receipts._compare("south", wire.Receipt(known=claimed)) == []
    proved = north.receipts._signed(statement.SerializeToString())
    (told,) = north.receipts._compare("south", wire.Receipt(known=proved))
    assert "holds our signature of record 9223372036854775808" in told
    north.close()
    south.close()


def test_exchanges_that_never_were_cannot_fill_the_ledger(pair):
    north, south = pair
    north.open()
    south.open()
    record = Record(1, 0.0, "south", "prediction", OUT, 0, 0, 0, 0, "", "", "", "cd" * 32)
    north.receipts.note_received("south", record)
    assert north.confirm(south)[0] == ["north states 1 exchanges that are not in this ledger"]
    north.receipts.note_received("south", record)
    with pytest.raises(InvalidInput, match="must not follow another in 600 s"):
        north.confirm(south)
    north.close()
    south.close()


def test_a_statement_that_is_made_again_is_no_dispute(pair):
    """The receipt for the first one was lost on its way."""
    north, south = pair
    north.open()
    south.open()
    south.receipts.countersign("north", north.receipts.make_statement("south"))
    assert north.confirm(south) == ([], [])
    north.close()
    south.close()
    assert north.findings(south) == []


def test_expired_records_leave_a_signed_checkpoint(tmp_path, keys):
    now = [1000.0 * DAY]
    north = Member(tmp_path / "north", keys, "north", clock=lambda: now[0])
    for day in range(40):
        now[0] = (1000.0 + day) * DAY
        for _ in range(3):
            north.ledger.record("west", "opinion", IN, 3, 20, 100)
    north.close()
    before = ledgers.summary(north.path)
    north.open(clock=lambda: now[0]).close()
    assert ledgers.summary(north.path) == before
    (verified,) = north.verify()
    assert verified.findings == ()
    assert verified.records == 31 * 3
    for change, told in {
        "UPDATE totals SET sent = 1 WHERE day = 1001": "totals of expired records, up to record 27, were changed",
        "UPDATE checkpoint SET number = 26": "record 27 is missing",
        "UPDATE checkpoint SET hash = zeroblob(32)": "record 28 of",
        "UPDATE checkpoint SET at = 1.0": "the checkpoint of expired records is forged or was changed",
        "DELETE FROM checkpoint": "the checkpoint of expired records is missing",
        "UPDATE certificates SET content = x'00'": "the certificate for the checkpoint of expired records is missing",
    }.items():
        content = north.path.read_bytes()
        north.change(change)
        assert any(told in each for each in north.findings()), (change, north.findings())
        for suffix in ("-wal", "-shm"):
            north.path.with_name(north.path.name + suffix).unlink(missing_ok=True)
        north.path.write_bytes(content)
    assert north.findings() == []


def test_real_exchanges_survive_ten_million_heartbeats(tmp_path):
    """Ten million heartbeats are two weeks of a consortium of five; they leave a record every 15 minutes."""
    now = [1000.0 * DAY]
    ledger = Ledger(tmp_path / "ledger.sqlite", clock=lambda: now[0])
    ledger.record("south", "opinion", IN, 3, 20, 100)
    step = 14 * DAY / 10_000
    for _ in range(10_000):  # a thousand heartbeats at a time: the count of each is the same
        now[0] += step
        counts = ledger._counts.setdefault(("south", "describe", IN), [0, 0, 0])
        counts[0] += 999
        ledger.count("south", "describe", IN, 10, 20)
    ledger.close()
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as connection:
        kinds = dict(connection.execute("SELECT kind, count(*) FROM records GROUP BY kind"))
    assert kinds["opinion"] == 1
    assert kinds["describe"] <= 14 * 24 * 4 + 1
    heartbeats, opinion = ledgers.summary(tmp_path / "ledger.sqlite")
    assert (heartbeats.exchanges, opinion.exchanges) == (10_000_000, 1)


def export(member: Member, path: Path, peer=None, write=write_json) -> Path:
    with member.content() as content, path.open("w") as out:
        write(content, out, peer)
    return path


def test_an_export_is_verified_as_the_ledger_is(pair, tmp_path):
    north, south = pair
    paths = [export(member, tmp_path / f"{member.name}.jsonl") for member in pair]
    with read_export(paths[0]) as one, read_export(paths[1]) as other:
        assert verify_together([one, other], north.check) == north.verify(south)
    changed = tmp_path / "changed.jsonl"
    changed.write_text(paths[0].read_text().replace('"rows":3', '"rows":4', 1))
    with read_export(changed) as content:
        (verified,) = verify_together([content], north.check)
    assert "was changed after it was written" in verified.findings[0]


def test_an_export_for_one_peer_shows_nothing_of_others_and_is_compared(pair, tmp_path):
    north, south = pair
    north.open().ledger.record("west", "opinion", IN, 3, 20, 100)
    north.close()
    path = export(north, tmp_path / "north-for-south.jsonl", "south")
    assert "west" not in path.read_text()
    with read_export(path) as content, south.content() as theirs:
        assert [each.findings for each in verify_together([theirs, content], north.check)] == [(), ()]
    south.change("DELETE FROM records WHERE number = 7")
    with read_export(path) as content, south.content() as theirs:
        found = verify_together([theirs, content], north.check)[0].findings
    assert any("south has no record of what north got from it" in each for each in found)


def test_a_table_has_all_records(pair, tmp_path):
    lines = export(pair[0], tmp_path / "north.csv", write=write_csv).read_text().splitlines()
    assert lines[0].split(",") == list(Record._fields)
    assert len(lines) == 1 + 71


ABOUT = '{"format":"degroot ledger 1","node":"n","exported":1}\n'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "must be an export of a ledger"),
        ("{}", "must be an export of a ledger"),
        ("name = 'north'", "line 1 of .* is not"),
        ("[1]", "must be an object"),
        (ABOUT + '{"what":"x"}', "must be a part of an export"),
        (
            '{"format":"degroot ledger 1","node":"n","exported":1}\n{"what":"head","number":"1"}',
            "must have a right 'number'",
        ),
        (
            '{"format":"degroot ledger 1","node":"n","exported":1}\n{"what":"record","number":true}',
            "must have a right 'number'",
        ),
    ],
)
def test_what_is_no_export_is_one_clear_line(tmp_path, text, told):
    path = tmp_path / "export.jsonl"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=told) as caught, read_export(path) as content:
        list(content.records)
    assert len(str(caught.value).splitlines()) == 1


def test_lines_of_an_export_are_json(pair, tmp_path):
    whats = [json.loads(line)["what"] for line in export(pair[0], tmp_path / "n.jsonl").read_text().splitlines()]
    assert whats[:2] == ["ledger", "certificate"]
    assert whats.count("record") == 71
    assert whats.count(RECEIPT) == 1
