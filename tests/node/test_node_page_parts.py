"""Parts of the node's page, each by itself: what is typed and sent, answers, the ledger searched, the state told."""

import asyncio
import io
import json
import re
import sqlite3
import time
import zipfile
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from degroot.answers.answer import Consensus
from degroot.answers.choice import Mixture
from degroot.answers.flags import Flag
from degroot.exceptions import InvalidInput
from degroot.files import arrow_tables
from degroot.node.errors import BadReply, PeerLate, PeerRefused, PeerUnreachable
from degroot.node.page.answers import Answer, Archive, new_id
from degroot.node.page.auth import HEADERS, AccessMiddleware
from degroot.node.page.encoding import encoded, numbers
from degroot.node.page.events import Live
from degroot.node.page.ledger_files import LedgerFiles
from degroot.node.page.ledger_state import LedgerState
from degroot.node.page.ledger_totals import LedgerTotals, describe_entry
from degroot.node.page.overview import Overview
from degroot.node.page.requests import ROWS, AskedTable, AskTerms, TooMuch, parse_rows, read_uploaded_file
from degroot.node.page.rows import describe_row, order_rows, rounds_of
from degroot.node.page.trust import FEWEST, Agents, regions, summary
from degroot.node.peers.peers import ANSWERING
from degroot.node.protocol.codec import NodeAnswer
from degroot.node.protocol.v3 import collective_pb2 as wire
from degroot.node.records import ledger
from degroot.node.records.chain import NO_ORIGIN, Origin, Record
from degroot.node.records.export import read_ledger, write_csv, write_json
from degroot.node.records.ledger import DAY
from degroot.node.records.ledger_search import GroupPlace, Wanted, add_up, find_days, find_questions, find_records
from degroot.node.records.own_rows import Alert
from degroot.node.records.recent import KEPT, OF_ONE, AnswerSample, QuestionRecord, Recent, SampledAnswers
from degroot.schema import Column, Schema

TABLE = AskedTable(["a", "b"])

PLAIN = st.one_of(st.none(), st.booleans(), st.floats(), st.integers(), st.text())
KEYS = st.sampled_from(["rows", "view", "way", "coverage", "purpose", "a", "b"])
TOLD = st.recursive(PLAIN, lambda some: st.lists(some) | st.dictionaries(KEYS, some))


@given(st.one_of(st.binary(max_size=200), TOLD.map(lambda told: json.dumps(told).encode())))
def test_whatever_is_typed_gives_finite_points_or_one_line(body):
    points, told = np.zeros((1, 2)), ""
    try:
        points = parse_rows(body, TABLE).points
    except InvalidInput as error:
        told = str(error)
    assert "\n" not in told
    assert points.shape[1] == 2
    assert np.isfinite(points).all()


SUFFIXES = st.sampled_from([".csv", ".parquet", ".arrow", ".npz", ".exe", ""])


@given(st.binary(max_size=300), st.text(max_size=20), SUFFIXES)
def test_whatever_file_is_sent_gives_finite_points_or_an_error_that_names_no_folder(body, name, suffix):
    points, told = np.zeros((1, 2)), ""
    try:
        points = read_uploaded_file(body, name + suffix, "application/octet-stream", AskTerms(), TABLE).points
    except InvalidInput as error:
        told = str(error)
    assert "degroot-page-" not in told
    assert np.isfinite(points).all()


def packed(suffix, rows):
    """A file of zeros, packed well."""
    table, file = pa.table({"a": np.zeros(rows), "b": np.zeros(rows)}), io.BytesIO()
    if suffix == ".npz":
        np.savez_compressed(file, a=np.zeros(rows), b=np.zeros(rows))
    elif suffix == ".parquet":
        pq.write_table(table, file, compression="zstd")
    else:
        made = pa.ipc.new_file if suffix == ".arrow" else pa.ipc.new_stream
        with made(file, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
            writer.write_table(table)
    return file.getvalue()


@pytest.mark.parametrize("suffix", [".npz", ".parquet", ".arrow", ".ipc"])
def test_a_small_file_that_holds_very_much_is_refused_before_it_is_read(suffix, monkeypatch):
    points = read_uploaded_file(packed(suffix, ROWS), f"x{suffix}", "", AskTerms(), TABLE).points
    assert points.shape == (ROWS, 2)
    monkeypatch.setattr(arrow_tables, "_from_table", None)
    monkeypatch.setattr(np, "load", None)
    body = packed(suffix, 3_000_000)
    assert len(body) < 200_000
    with pytest.raises(TooMuch, match=rf"x{suffix} must hold at most 100000 rows; it holds 3000000\. .degroot ask."):
        read_uploaded_file(body, f"x{suffix}", "", AskTerms(), TABLE)


@pytest.mark.parametrize(
    ("descr", "shape", "told"),
    [("|i1", (0, 1 << 40), "columns"), ("|V0", (1, 1 << 40), "columns"), ("<U1000", (90_000,), "bytes")],
)
def test_an_array_that_says_it_is_larger_than_the_page_takes_is_not_read(descr, shape, told):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive, archive.open("X.npy", "w") as member:
        np.lib.format.write_array_header_1_0(member, {"descr": descr, "shape": shape, "fortran_order": False})
    with pytest.raises(TooMuch, match=rf"must hold at most \d+ {told}"):
        read_uploaded_file(file.getvalue(), "x.npz", "", AskTerms(), TABLE)


def test_what_is_no_finite_number_is_null():
    content = numbers([[1.5, np.nan], [np.inf, -np.inf]])
    assert json.loads(encoded(content)) == [[1.5, None], [None, None]]
    assert numbers(np.nan) is None
    assert numbers(2.5) == 2.5


def made_answer(points=3, at=0.0):
    rng = np.random.default_rng(points)
    consensus = Consensus(
        ("a", "b"), value=rng.normal(size=points), standard_error=np.full(points, np.nan),
        weights=rng.dirichlet([1, 1], points), beliefs=rng.normal(size=(points, 2)),
        trust=rng.dirichlet([1, 1], (points, 2)), influence=rng.normal(size=(points, 2)),
        lower=rng.normal(size=points), upper=rng.normal(size=points),
        flags=(Flag("a", "missing: it has gone", np.array([0, 2])), Flag("b", "unverified: why", np.array([1]))),
        rounds=7, coverage=0.9,
    )  # fmt: skip
    return Answer(
        new_id(), at, 0.5, "<b>.csv", AskTerms("solve", 0.9), "degroot", ("f", "=g()"), ("h",),
        rng.normal(size=(points, 2)), consensus,
    )  # fmt: skip


def made_for_the_node(points=3):
    """An answer from the view of b, with the consensus beside it."""
    answer = made_answer(points)
    mixed = Mixture("b", ("own", "centred"), *np.array([[0.25, 0.75], [2.0, 1.0], [1.0, 0.0], [np.inf, 0.0]]), 9, 3)
    own = replace(answer.front, asker="b", choice=mixed, trust=None, correction=np.arange(float(points)), rounds=None)
    return replace(answer, front=own, beside=answer.front, lacking="there is <b>no</b> interval")


def test_rows_are_ordered_by_the_width_of_their_intervals_or_sets_and_those_without_a_value_come_last():
    answer = made_answer(points=6)
    width = answer.consensus.upper - answer.consensus.lower
    assert_array_equal(order_rows(answer, "width"), np.argsort(width))
    assert_array_equal(order_rows(answer, "-width"), np.argsort(-width))
    answer.consensus.standard_error[:] = [3.0, np.nan, 1.0, 2.0, np.nan, 0.0]
    assert order_rows(answer, "standard_error").tolist() == [5, 2, 3, 0, 1, 4]
    assert order_rows(answer, "-standard_error").tolist() == [0, 3, 2, 5, 1, 4]
    sets = np.array([[True, True], [True, False], [True, True], [False, False], [True, False], [True, True]])
    in_sets = replace(answer, front=replace(answer.front, sets=sets))
    assert order_rows(in_sets, "width").tolist() == [3, 1, 4, 0, 2, 5]


def test_rounds_of_several_outputs_are_those_of_each_and_those_who_trust_no_member_have_none():
    answer = made_answer(points=2)
    beliefs = np.random.default_rng(0).normal(size=(2, 2, 3))
    several = replace(answer, front=replace(answer.front, beliefs=beliefs))
    found = np.array(rounds_of(several, 1, [True, True]))
    assert found.shape[1:] == (2, 3)
    for t, each in enumerate(found):
        assert_allclose(each, np.linalg.matrix_power(several.consensus.trust[1], t) @ beliefs[1], rtol=1e-12)
    assert rounds_of(answer, 1, [True, False]) == [[answer.consensus.beliefs[1, 0], None]]
    answer.consensus.trust[1, 0] = [0.0, 1.0]
    assert rounds_of(answer, 1, [True, False]) is None


def archive_in(folder):
    """Answers of 1970, at that time."""
    return Archive(folder, clock=lambda: 0.0)


def test_an_answer_is_the_same_when_it_is_opened_again(tmp_path):
    answer = made_answer()
    archive_in(tmp_path).save(answer)
    again = archive_in(tmp_path).find(answer.id)
    assert again.summary() == answer.summary()
    for name in ("value", "standard_error", "weights", "beliefs", "trust", "influence", "lower", "upper"):
        assert_array_equal(getattr(again.consensus, name), getattr(answer.consensus, name))
    assert again.consensus.explain(1).text == answer.consensus.explain(1).text
    assert_array_equal(again.points, answer.points)
    assert [(flag.agent, flag.reason, flag.points.tolist()) for flag in again.consensus.flags] == [
        ("a", "missing: it has gone", [0, 2]), ("b", "unverified: why", [1]),
    ]  # fmt: skip
    assert (tmp_path / "answers").stat().st_mode & 0o077 == 0


def test_an_answer_with_terms_of_an_earlier_version_is_opened(tmp_path):
    answer = made_answer()
    archive_in(tmp_path).save(answer)
    (path,) = (tmp_path / "answers").iterdir()
    with np.load(path) as archive:
        arrays = dict(archive)
    about = json.loads(arrays["about"].tobytes())
    about["terms"] = {"way": "solve", "guard": False, "coverage": 0.9}
    np.savez(path, **arrays | {"about": np.frombuffer(json.dumps(about).encode(), np.uint8)})
    again = archive_in(tmp_path).find(answer.id)
    assert again.terms == AskTerms("solve", 0.9, "consensus")
    assert again.summary() == answer.summary()
    assert len(archive_in(tmp_path).entries()) == 1


def test_an_answer_from_the_own_view_keeps_the_consensus_beside_it(tmp_path):
    answer = made_for_the_node()
    archive_in(tmp_path).save(answer)
    again = archive_in(tmp_path).find(answer.id)
    assert again.summary() == answer.summary()
    assert (again.view, again.consensus) == (again.front, again.beside)
    assert (again.view.asker, again.consensus.asker, again.lacking) == ("b", None, answer.lacking)
    assert str(again.view.choice) == str(answer.view.choice)
    assert_array_equal(again.view.choice.standard_errors, answer.view.choice.standard_errors)
    assert_array_equal(again.view.correction, answer.view.correction)
    assert_array_equal(again.consensus.trust, answer.consensus.trust)
    mixed = again.summary()["mixed"]
    assert [(each["name"], each["share"]) for each in mixed["candidates"]] == [("centred", 0.75), ("own", 0.25)]
    row = describe_row(again, 1)
    assert row["views"]["own"]["value"] == row["value"] == again.view.value[1]
    assert row["views"]["consensus"]["lower"] == again.consensus.lower[1]
    assert_array_equal(row["trust"], again.consensus.trust[1])
    encoded(row)


def test_the_last_answers_are_kept_and_no_others(tmp_path):
    archive = Archive(tmp_path, kept=3, clock=lambda: 5.0)
    answers = [made_answer(at=float(k)) for k in range(5)]
    for answer in answers:
        archive.save(answer)
    assert [entry["id"] for entry in archive.entries()] == [answer.id for answer in answers[:1:-1]]
    assert archive.find(answers[0].id) is None
    assert archive.find("../../etc/passwd") is None


def test_answers_expire_after_their_days(tmp_path):
    now = [100.0 * DAY]
    archive = Archive(tmp_path, days=2.0, clock=lambda: now[0])
    old, new = made_answer(at=now[0] - 1.5 * DAY), made_answer(at=now[0])
    for answer in (old, new):
        archive.save(answer)
    assert archive.find_end(old) == old.at + 2.0 * DAY
    assert archive.describe() == "the last 100 are kept, for 2 days"
    now[0] += 0.6 * DAY  # what has expired is not shown, though it is not deleted yet
    assert (archive.find(old.id), len(files_in(tmp_path))) == (None, 2)
    assert [each["id"] for each in archive.entries()] == [new.id]
    archive.expire()
    assert files_in(tmp_path) == {f"{new.id}.npz"}
    now[0] += 2.0 * DAY
    Archive(tmp_path, days=2.0, clock=lambda: now[0]).expire()  # as when the node is started
    assert files_in(tmp_path) == set()
    assert archive.find(new.id) is None


def test_answers_that_a_restore_has_moved_aside_expire_too(tmp_path):
    now = [100.0 * DAY]
    archive = Archive(tmp_path, days=2.0, clock=lambda: now[0])
    archive.save(made_answer(at=now[0]))
    aside = tmp_path / "before-restore-20260101T000000000000"
    aside.mkdir()
    (tmp_path / "answers").rename(aside / "answers")
    (aside / "answers" / "other.npz").write_bytes(b"none of ours")
    archive.expire()
    assert len(files_in(aside)) == 2
    now[0] += 2.1 * DAY
    archive.expire()
    assert files_in(aside) == {"other.npz"}


def files_in(folder):
    return {path.name for path in (folder / "answers").iterdir()}


def test_switched_off_no_answer_is_written_and_those_that_were_are_deleted(tmp_path):
    now = [0.0]
    kept = made_answer()
    Archive(tmp_path, clock=lambda: now[0]).save(kept)
    archive = Archive(tmp_path, days=0.0, clock=lambda: now[0])
    archive.expire()
    assert (files_in(tmp_path), archive.find(kept.id)) == (set(), None)
    (tmp_path / "answers").rmdir()
    answers = [made_answer(at=float(k)) for k in range(6)]
    for answer in answers:
        archive.save(answer)
    assert list(tmp_path.iterdir()) == []
    assert [each["id"] for each in archive.entries()] == [answer.id for answer in answers[:1:-1]]
    assert (archive.find(answers[5].id), archive.find(answers[0].id)) == (answers[5], None)
    assert archive.describe().startswith("answers are not kept")
    now[0] = 3604.5
    assert [each["id"] for each in archive.entries()] == [answers[5].id]
    now[0] = 3606.0
    archive.expire()
    assert (archive.find(answers[5].id), archive.entries()) == (None, [])


@pytest.mark.parametrize("days", [30.0, 0.0])
def test_damaged_and_foreign_files_are_left_alone_and_break_nothing(tmp_path, days):
    answer = made_answer(at=1.0)
    Archive(tmp_path, clock=lambda: 2.0).save(answer)
    folder = tmp_path / "answers"
    whole = (folder / f"{answer.id}.npz").read_bytes()
    about = {"id": "d" * 22, "at": 1.0, "rows": 1}
    told = io.BytesIO()
    np.savez(told, about=np.frombuffer(json.dumps(about).encode(), np.uint8))
    strange = {
        f"{'a' * 22}.npz": b"no archive", f"{'b' * 22}.npz": whole[: len(whole) // 2], f"{'c' * 22}.npz": whole,
        f"{'d' * 22}.npz": told.getvalue(), f"{'e' * 22}.npz": b"", "notes.txt": b"mine", "rows.npz": whole,
    }  # fmt: skip
    for name, content in strange.items():
        (folder / name).write_bytes(content)
    (folder / f"{'f' * 22}.npz").mkdir()
    archive = Archive(tmp_path, days=days, kept=1, clock=lambda: 3.0)
    assert [each["id"] for each in archive.entries()] == ([answer.id] if days else [])
    for name in [*strange, f"{'f' * 22}.npz"]:
        assert archive.find(name.removesuffix(".npz")) is None
    archive.expire()
    archive.save(made_answer(at=2.5))
    late = Archive(tmp_path, days=days, clock=lambda: 1e9)
    late.expire()
    assert files_in(tmp_path) == {*strange, f"{'f' * 22}.npz"}
    assert {name: (folder / name).read_bytes() for name in strange} == strange


def test_a_purpose_is_kept_with_its_answer(tmp_path):
    answer = replace(made_answer(), terms=AskTerms(purpose="triage, <b>"), question="0123456789abcdef")
    archive_in(tmp_path).save(answer)
    archive = archive_in(tmp_path)
    (line,), again = archive.entries(), archive.find(answer.id)
    assert line["purpose"] == again.summary()["purpose"] == "triage, <b>"
    assert again.summary()["question"] == "0123456789abcdef"


EXCHANGE = st.tuples(
    st.sampled_from(["a", "b%", "b_c", "x\\y"]),
    st.sampled_from(["opinion", "describe"]),
    st.sampled_from(["in", "out"]),
    st.integers(0, 9),
)
EXCHANGES = st.lists(EXCHANGE, max_size=30)


@settings(max_examples=25)
@given(st.lists(EXCHANGES, min_size=1, max_size=4), st.integers(1, 20))
def test_the_leak_meter_adds_up_to_what_the_ledger_says_whenever_it_is_read(tmp_path_factory, runs, kept):
    path, said = tmp_path_factory.mktemp("ledger") / "ledger.sqlite", {"in": "they", "out": "we"}
    leak = LedgerTotals(path)
    for run in runs:
        book = ledger.Ledger(path, kept=kept)  # which folds older ones as it is opened
        for k, (peer, kind, direction, rows) in enumerate(run):
            book.record(peer, kind, direction, rows, 2 * rows, 3 * rows)
            if k % 7 == 0:
                leak.read()
        lines = ledger.summary(path)
        assert leak.read() == lines
        assert [describe_entry(line)["asked_by"] for line in lines] == [said[line.direction] for line in lines]
        book.close()


NUMBERS = [f"{k:016x}" for k in range(4)]
WARD = Origin(NUMBERS[0], "analyst", "triage, ward 7")
ORIGINS = st.sampled_from([NO_ORIGIN, WARD, Origin(NUMBERS[1], "b%"), Origin(NUMBERS[2], "a", "x_y")])
RECORDED = st.lists(st.tuples(EXCHANGE, ORIGINS, st.booleans()), max_size=30)
WANTED = st.builds(
    Wanted,
    st.sampled_from([None, "%", "_", "\\", "b", "OPIN", "a desc", "WARD", "analyst", NUMBERS[0], NUMBERS[3], "0000"]),
    st.sampled_from([None, "b_c"]), st.sampled_from([None, "opinion", "-describe"]), st.sampled_from([None, "in"]),
    st.sampled_from([None, 1.5 * DAY]), st.sampled_from([None, 3.5 * DAY]),
)  # fmt: skip


def written_ledger(folder, recorded, folded=False):
    """A ledger with one record in an hour, some days long; `folded`: the first of them have expired."""
    path, now = folder / "ledger.sqlite", [0.0]
    book = ledger.Ledger(path, clock=lambda: now[0])
    for (peer, kind, direction, rows), origin, is_reply in recorded:
        now[0] += 0.4 * DAY
        if is_reply:
            book.record_replies(kind, [(peer, rows, f"{rows:064x}")], origin)
        else:
            book.record(peer, kind, direction, rows, 2 * rows, 3 * rows, origin)
    book.note("damaged lines set aside", "none, in truth")
    book.count("a", "describe", "in", 5, 6)
    book.close()
    if folded:
        now[0] = 33.0 * DAY
        ledger.Ledger(path, clock=lambda: now[0]).close()
    return path


def turned(find, path, wanted, limit):
    """All groups, page by page."""
    found, before = [], None
    while True:
        groups, following = find(path, wanted, before, limit)
        assert len(groups) >= limit or following is None
        found += groups
        if following is None:
            return found
        before = following


def opened_groups(path, wanted, limit):
    """All groups with all their records."""
    for group in [*turned(find_questions, path, wanted, limit), *turned(find_days, path, wanted, limit)]:
        place = GroupPlace(group.question, group.day, group.kinds[0], group.is_expired)
        total, *_ = find_records(path, wanted, place, 0, 1)
        found = [each for k in range(0, total, 3) for each in find_records(path, wanted, place, k, 3)[1]]
        assert len(found) == total == group.records
        yield group, found


def sums_of(things):
    return tuple(sum(getattr(each, name) for each in things) for name in ("exchanges", "rows", "sent", "received"))


@settings(max_examples=25)
@given(RECORDED, WANTED, st.integers(1, 5), st.booleans())
def test_every_record_that_is_wanted_is_in_one_group_and_groups_add_up(tmp_path_factory, recorded, wanted, limit, fold):
    path = written_ledger(tmp_path_factory.mktemp("ledger"), recorded, fold)
    with ledger.opened(path) as connection:
        kept = [Record._make(row) for row in connection.execute(ledger.SELECT_RECORDS)]
        expired = connection.execute("SELECT peer, kind, direction, first, last FROM totals").fetchall()

    def is_wanted(texts, peer, kind, direction, first, last):
        return (
            (wanted.text or "").lower() in " ".join(texts).lower() and wanted.peer in (None, peer)
            and (wanted.kind in (None, kind) or (wanted.kind == "-describe" and kind != "describe"))
            and wanted.direction in (None, direction)
            and (wanted.since is None or last >= wanted.since) and (wanted.until is None or first <= wanted.until)
        )  # fmt: skip

    expected = sorted(
        each.number for each in kept
        if is_wanted((each.peer, each.kind, each.asker, each.purpose, each.question), *each[2:5], each.at, each.at)
    )  # fmt: skip
    groups, found = [], []
    for group, records in opened_groups(path, wanted, limit):
        assert sums_of([group]) == sums_of(records)
        assert {each.question for each in records} == {group.question}
        groups.append(group)
        found += records
    assert sorted(each.number for each in found if each.number is not None) == expected
    totals = sum(is_wanted(each[:2], *each[:3], each[3], each[4]) for each in expired)
    assert len(found) - len(expected) == totals
    told = add_up(path, wanted)
    assert (told.exchanges, told.rows, told.sent, told.received) == sums_of(groups)
    assert told.questions == len({group.question for group in groups} - {""})
    newest = [
        max(each.number for each in found if each.question == group.question) for group in groups if group.question
    ]
    assert newest == sorted(newest, reverse=True)
    if wanted == Wanted():
        assert sums_of(groups) == sums_of(ledger.summary(path))


def test_a_question_is_one_line_and_days_that_have_expired_keep_their_totals(tmp_path):
    exchanges = [
        (("analyst", "consult", "in", 5), WARD, False),
        (("b", "prediction", "out", 5), WARD, False),
        (("b", "prediction", "out", 7), WARD, True),
        (("a", "receipt", "out", 0), NO_ORIGIN, False),
    ]
    path = written_ledger(tmp_path, exchanges)
    (group,), following = find_questions(path, Wanted(), None, 10)
    assert (group.asker, group.purpose, group.peers, group.kinds, following) == (
        "analyst", "triage, ward 7", ("analyst", "b"), ("consult", "prediction"), None,
    )  # fmt: skip
    assert (group.records, group.exchanges, group.rows, group.replies, group.confirmed) == (3, 2, 10, 1, 0)
    assert group.last - group.first == pytest.approx(0.8 * DAY)
    assert find_questions(path, Wanted(peer="b"), None, 10)[0][0].rows == 5  # of those records that are wanted
    assert {each.kinds[0] for each in find_days(path, Wanted(), None, 10)[0]} == {
        "receipt", "describe", "damaged lines set aside",
    }  # fmt: skip
    (tmp_path / "folded").mkdir()
    folded = written_ledger(tmp_path / "folded", exchanges, folded=True)
    assert {each.day for each in find_days(folded, Wanted(), None, 10)[0] if each.is_expired} == {0, 1}
    with pytest.raises(InvalidInput, match="the number of a question, or with a day and a kind"):
        find_records(path, Wanted(), GroupPlace(), 0, 1)


def test_an_exchange_is_confirmed_when_a_receipt_has_it_and_the_peer_knows_it(tmp_path):
    path, asked = tmp_path / "ledger.sqlite", Origin(NUMBERS[0], "a")
    book, digests = ledger.Ledger(path), [f"{k:064x}" for k in range(5)]
    book.record_replies("prediction", [("b", 1, digest) for digest in digests], asked)

    def keep(stated, peer="b", direction="out", unknown=()):
        head = wire.ChainHead(number=book.make_durable().number)
        statement = wire.Statement(digests=b"".join(bytes.fromhex(each) for each in stated), head=head)
        contents = [statement.SerializeToString(), wire.Receipt(unknown=unknown).SerializeToString()]
        stored = [wire.Signed(content=content).SerializeToString() for content in contents]
        book.record_receipt(peer, "receipt", direction, "for some exchanges", *stored)

    keep(digests[:2], unknown=[1])
    keep(digests[2:3])
    keep(digests[3:4], direction="in")  # which the peer has stated, not confirmed
    keep(digests[3:4], peer="c")
    book.execute("INSERT INTO receipts VALUES (9999, 0.0, 'b', 'out', x'ff', x'ff')")  # damaged
    book.close()
    (group,), _ = find_questions(path, Wanted(), None, 10)
    assert (group.replies, group.confirmed) == (5, 2)
    _, found, confirmed = find_records(path, Wanted(), GroupPlace(NUMBERS[0]), 0, 10)
    assert [each.digest in confirmed for each in found] == [True, False, True, False, False]


def test_an_export_is_what_the_command_writes_and_one_that_is_given_up_holds_nothing_up(tmp_path):
    path = written_ledger(tmp_path, [((f"peer{k % 2}", "opinion", "in", k), NO_ORIGIN, False) for k in range(50)])
    files = LedgerFiles(path, "north <1>", None)

    async def export(kind, peer):
        file = await files.export(kind, peer)
        return file.name, b"".join([piece async for piece in file.content]).decode()

    for kind, write in (("json", write_json), ("csv", write_csv)):
        for peer in (None, "peer1"):
            name, content = asyncio.run(export(kind, peer))
            out = io.StringIO(newline="")
            with read_ledger(path, "north <1>") as told:
                write(told, out, peer)
            lines = [content.splitlines(), out.getvalue().splitlines()]
            skipped = int(kind == "json")  # when it was exported
            assert lines[0][skipped:] == lines[1][skipped:]
            assert re.fullmatch(r"ledger-north__1_-(with-peer1-)?\d{8}T\d{6}Z\.(jsonl|csv)", name)

    async def given_up():
        many = [await files.export("json", None) for _ in range(2)]
        with pytest.raises(TooMuch, match="at most 2 exports at a time"):
            await files.export("csv", None)
        for each in many:
            await anext(each.content)
            await each.content.aclose()
        await files.export("csv", None)
        with pytest.raises(InvalidInput, match="`format` must be one of json, csv; got 'xml'"):
            await files.export("xml", None)
        with pytest.raises(InvalidInput, match="is not there"):
            await LedgerFiles(tmp_path / "none", "a", None).export("csv", None)

    asyncio.run(given_up())


def test_a_ledger_is_verified_when_it_is_wanted_once_at_a_time(tmp_path):
    path = written_ledger(tmp_path, [(("a", "opinion", "in", 3), NO_ORIGIN, False)] * 4)

    async def verified(place):
        state = LedgerState(place, "north", None, None, clock=lambda: 5.0)
        before = state.describe()
        state.begin()
        task = state._task
        state.begin()
        assert (state._task is task, state.describe()["working"]) == (True, True)
        await task
        return before, state.describe()

    before, told = asyncio.run(verified(path))
    assert (before["at"], before["result"], before["working"]) == (None, None, False)
    assert (told["at"], told["error"], told["checks_signatures"]) == ("1970-01-01T00:00:05.000+00:00", None, False)
    result = told["result"]
    assert (result["records"], result["whole"]) == (6, False)  # the note is a finding
    assert ["the node noted: damaged lines set aside" in each for each in result["findings"]] == [True]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE records SET sent = 1 WHERE number = 2")
    _, told = asyncio.run(verified(path))
    assert any("record 2 of" in each and "was changed" in each for each in told["result"]["findings"])
    _, told = asyncio.run(verified(tmp_path / "none"))
    assert (told["result"], "is not there" in told["error"]) == (None, True)


def test_the_sample_keeps_the_last_points_within_bounds():
    sample = AnswerSample(points=100, numbers=10_000)
    for k in range(50):
        points = np.full((200, 2), float(k))
        sample.add(points, NodeAnswer(("a", "b"), {"weights": np.full((200, 2), 0.5), "beliefs": points}, ()))
        held = sample.of_the_roster()
        assert sum(len(each.points) for each in held) <= 100
        assert held[-1].points[0, 0] == k
        assert set(held[-1].fields) == {"weights"}
    assert len(held[-1].points) == OF_ONE
    sample.add(np.zeros((1, 2)), NodeAnswer(("a", "c"), {"weights": np.ones((1, 2))}, ()))
    assert [each.names for each in sample.of_the_roster()] == [("a", "c")]
    small = AnswerSample(numbers=10)
    small.add(np.zeros((50, 2)), NodeAnswer(("a",), {"weights": np.ones((50, 1))}, ()))
    assert len(small.of_the_roster()) == 1  # the last question is kept however large


def test_trust_is_the_mean_of_what_is_known_and_who_changes_nothing_could_be_dropped():
    rng = np.random.default_rng(0)
    fields = {"value": rng.normal(size=(30, 1)), "weights": rng.dirichlet([1, 1], 30)}
    fields |= {"trust": rng.dirichlet([1, 1], (30, 2)), "influence": np.zeros((30, 2, 1))}
    fields["trust"][:10, :, 1] = np.nan  # the second was missing
    fields["influence"][:, 0] = fields["value"]
    points = rng.normal(size=(30, 1))
    told = summary(Agents.of([SampledAnswers(("a", "b"), points, fields)]), ())
    assert_allclose(told["trust"], np.nanmean(fields["trust"], axis=0))
    assert_allclose([each["weight"] for each in told["agents"]], fields["weights"].mean(axis=0))
    assert [each["droppable"] for each in told["agents"]] == [False, True]
    few = {name: values[: FEWEST - 1] for name, values in fields.items()}
    told = summary(Agents.of([SampledAnswers(("a", "b"), points[: FEWEST - 1], few)]), ())
    assert [each["droppable"] for each in told["agents"]] == [False, False]
    assert told["agents"][1]["why"].startswith("too few points")


def test_nothing_is_said_of_dropping_an_agent_that_took_no_part():
    rng = np.random.default_rng(1)
    value, sample = rng.normal(size=(FEWEST, 1)), AnswerSample()
    weights, influence = np.eye(3)[:2].repeat(FEWEST // 2, axis=0), np.stack([value, value, 0.0 * value], axis=1)
    away = (Flag("c", "missing: it has gone", np.arange(FEWEST)),)
    fields = {"value": value, "weights": weights, "influence": influence}
    sample.add(np.zeros((FEWEST, 1)), NodeAnswer(("a", "b", "c"), fields, away))
    told = summary(Agents.of(sample.of_the_roster()), ())["agents"][2]
    assert (told["droppable"], told["why"], told["influence"]) == (False, "it did not take part", None)
    present = {"value": value, "weights": weights, "influence": influence[:, [0, 1, 0]]}
    sample.add(np.zeros((FEWEST, 1)), NodeAnswer(("a", "b", "c"), present, ()))
    told = summary(Agents.of(sample.of_the_roster()), ())["agents"]
    assert told[2]["influence"] == pytest.approx(told[0]["influence"])  # where it took part


def test_a_feature_with_few_values_has_a_cell_for_each_and_a_common_value_has_one_of_its_own():
    sex, age = np.repeat([1.0, 2.0], 40), np.tile(np.arange(40.0), 2)
    doses = np.concatenate([np.zeros(70), np.arange(1.0, 11.0)])
    points, weights = np.stack([sex, age, doses], axis=1), np.eye(2)[(sex - 1.0).astype(int)]
    agents = Agents.of([SampledAnswers(("a", "b"), points, {"weights": weights})])
    told = regions(agents, ["sex", "age", "doses"], "sex", "age", 4)
    assert (told["x_edges"], told["x_values"], told["y_values"]) == ([1.0, 2.0, 2.0], True, False)
    assert told["y_edges"] == [0.0, 10.0, 20.0, 30.0, 39.0]
    assert [each["points"] for each in told["cells"]] == [10] * 8
    assert [each["top"] for each in told["cells"]] == ["a"] * 4 + ["b"] * 4
    told = regions(agents, ["sex", "age", "doses"], "doses", "doses", 4)
    assert [each["points"] for each in told["cells"]] == [70, 10]


def test_cells_of_categories_and_dates_have_texts_and_those_of_numbers_a_unit():
    places, days = np.tile([0.0, 2.0], 20), np.repeat([19723.0, 19724.0], 20)
    points, weights = np.stack([places, days, days], axis=1), np.eye(2)[places.astype(int) // 2]
    agents = Agents.of([SampledAnswers(("a", "b"), points, {"weights": weights})])
    towns = Column("town", "category", categories=("Bree", "Archet", "Combe"))
    schema = Schema((towns, Column("seen", "date"), Column("size", unit="m2")))
    told = regions(agents, schema.names, "town", "seen", 4, schema)
    assert told["x_texts"] == [["Bree", "Bree"], ["Combe", "Combe"]]
    assert told["y_texts"] == [["2024-01-01", "2024-01-01"], ["2024-01-02", "2024-01-02"]]
    told = regions(agents, schema.names, "town", "size", 1, schema)
    assert (told["y_texts"], told["y_unit"]) == (None, "m2")


def test_the_last_questions_are_counted_and_few_are_looked_at():
    now = [0.0]
    recent = Recent(clock=lambda: now[0])
    for k in range(100):
        recent.add(QuestionRecord(float(k), "a", 1, "solve", 0.001, error="no" if k % 4 == 0 else None))
    assert (recent.answered, recent.failed, len(recent.questions)) == (75, 25, KEPT)
    assert sum(recent.wants() for _ in range(1000)) == 20
    now[0] = 10.0
    assert recent.wants()


def link_of(name, fault=None, setback=None, held="", use=("copy", "query")):
    """As much of a link as the overview looks at."""
    return SimpleNamespace(
        name=name, peer=SimpleNamespace(address="127.0.0.1:1", use=frozenset(use)), fault=fault, setback=setback,
        pace=SimpleNamespace(seconds=(0.001, 0.005, 0.003), seen=0.0), version="2", progress=0.5,
        trouble=None if fault is None else fault.reason, description=SimpleNamespace(held_copy=held),
    )  # fmt: skip


def circle_of(*links, state="ready", copies=(), hindrance=None, evidence="pooled", keep=(), may=("query",), no_view=""):
    """As much of a circle as the overview looks at. `keep`: who keeps its evidence to itself."""
    agent = SimpleNamespace(X=np.zeros((5, 1)), n_features=1, outputs=None, classes=None, schema=None)
    manifest = SimpleNamespace(version="7", issued=86_400.0)
    held = {name: SimpleNamespace(bundle=SimpleNamespace(manifest=manifest)) for name in copies}
    seat = SimpleNamespace(agent=agent, version="1", feature_names=(), guarded=True, scored=(), copies=held)
    configuration = SimpleNamespace(
        name="a", listen="127.0.0.1:2", collective=SimpleNamespace(rule="degroot", neighbours=None), evidence=evidence,
        pooled=evidence == "pooled", has_consensus=evidence != "own", needed=2,
        rights={link.name: frozenset(may) for link in links},
        maps=SimpleNamespace(lifetime_epsilon=8.0) if evidence == "maps" else None,
    )  # fmt: skip

    def standing(link):
        return state if link.fault is None else "ready" if link.name in copies else "absent"

    def hindered(link, _seat):
        return None if link.name in copies else hindrance or link.trouble

    without = {link.name: "no" for link in links if link.fault or link.name in keep}
    answering = {link.name for link in links if standing(link) in ANSWERING}
    return SimpleNamespace(
        links={link.name: link for link in links}, configuration=configuration, scores=SimpleNamespace(seat=seat),
        no_view=no_view, state=standing, find_hindrance=hindered, copies=SimpleNamespace(offer_lacking=""),
        maps=SimpleNamespace(published=None, lacking="not all models are scored yet", epsilon_spent=0.0),
        without_evidence=lambda: without,
        find_answering=lambda: answering,
        count_able=lambda: 1 + len(answering - without.keys()),
    )  # fmt: skip


def overview_of(circle, *alerts, faults=(), notices=()):
    watch = SimpleNamespace(alerts={each.caller: each for each in alerts})
    return Overview(circle, Recent(), watch, lambda: dict.fromkeys(faults, "a disk is full"), lambda: notices)


LATE, GONE = PeerLate("b", "no answer within 5 seconds"), PeerUnreachable("b", "Connection refused")
NO_QUERY = PeerRefused("b", "may not query")


@pytest.mark.parametrize(
    ("circle", "state", "reason", "consensus"),
    [
        (circle_of(link_of("b")), "up", None, True),
        (circle_of(link_of("b"), state="stale"), "stale", "its model has changed", True),
        (circle_of(link_of("b"), state="calibrating"), "calibrating", None, False),
        (circle_of(link_of("b", setback=NO_QUERY), state="calibrating"), "refused", "may not query", False),
        (circle_of(link_of("b", LATE)), "late", "no answer within 5 seconds", False),
        (circle_of(link_of("b", PeerRefused("b", "not in the roster"))), "refused", "not in the roster", False),
        (circle_of(link_of("b", BadReply("b", "makes no sense"))), "refused", "makes no sense", False),
        (circle_of(link_of("b", GONE)), "down", "Connection refused", False),
        (
            circle_of(link_of("b", GONE), copies="b"),
            "ready",
            "Connection refused; the copy of its model is here",
            False,
        ),
        (circle_of(link_of("b"), keep="b"), "up", None, False),
    ],
)
def test_how_it_stands_with_a_peer_and_whether_there_is_a_consensus(circle, state, reason, consensus):
    told = overview_of(circle).state()
    (peer,) = told["peers"]
    assert peer["state"] == state
    assert (peer["reason"] or "").startswith(reason or "")
    assert (told["node"]["consensus"], told["node"]["answering"]) == (consensus, True)  # from its own rows at least
    assert peer["latency_ms"] == {"last": 3.0, "median": 3.0, "p95": 5.0}
    json.loads(encoded(told))


def test_with_own_evidence_a_node_answers_whoever_is_there_and_says_what_a_consensus_would_need():
    told = overview_of(circle_of(link_of("b", GONE), evidence="own")).state()["node"]
    assert (told["answering"], told["consensus"], told["able"], told["needed"]) == (True, False, None, None)
    assert "evidence = 'pooled', which lets members recover" in told["no_consensus"]
    assert told["mode"].startswith("Labels and errors stay here")
    faulty = overview_of(circle_of(link_of("b"), evidence="own"), faults=["storage"]).state()["node"]
    assert (faulty["answering"], faulty["faults"]) == (False, ["a disk is full"])
    without = overview_of(circle_of(link_of("b"), evidence="own", no_view="scored by its peers")).state()["node"]
    assert without["answering"] is False
    pooled = overview_of(circle_of(link_of("b"))).state()["node"]
    assert (pooled["no_consensus"], "recover each other's labels" in pooled["mode"]) == ("", True)


def test_the_evidence_map_and_what_maps_have_cost_are_shown_where_evidence_is_maps():
    circle = circle_of(link_of("b"), link_of("c"), evidence="maps")
    lacking = {
        "serial": None,
        "lacking": "not all models are scored yet",
        "epsilon_spent": 0.0,
        "lifetime_epsilon": 8.0,
    }
    assert overview_of(circle).state()["node"]["map"] == lacking
    circle.maps = SimpleNamespace(published=SimpleNamespace(serial="ab" * 16), lacking="", epsilon_spent=2.0)
    published = {"serial": "ab" * 16, "lacking": "", "epsilon_spent": 2.0, "lifetime_epsilon": 8.0}
    assert overview_of(circle).state()["node"]["map"] == published
    assert overview_of(circle_of(link_of("b"))).state()["node"]["map"] is None


@pytest.mark.parametrize(
    ("circle", "use", "words"),
    [
        (circle_of(link_of("b"), copies="b", evidence="own"), "copy", "no row and no asked point is sent to it"),
        (circle_of(link_of("b", GONE), copies="b", evidence="own"), "copy", "no row and no asked point is sent to it"),
        (circle_of(link_of("b"), copies="b"), "copy", "for the consensus it sees asked points"),
        (circle_of(link_of("b"), copies="b", keep="b"), "copy", "no row and no asked point is sent to it"),
        (circle_of(link_of("b"), evidence="own"), "query", "it sees the features of our rows, for scoring, and asked"),
        (circle_of(link_of("b"), hindrance="bad signature", evidence="own"), None, "not used now: no row and no asked"),
        (circle_of(link_of("b"), hindrance="bad signature"), None, "not used now; for the consensus it sees asked"),
    ],
)
def test_how_a_peers_model_is_used_and_what_it_sees(circle, use, words):
    (peer,) = overview_of(circle).state()["peers"]
    told = peer["use"]
    assert (told["as"], told["hindrance"]) == (use, circle.find_hindrance(circle.links["b"], None))
    assert words in told["words"]
    copied = ("7", "1970-01-02T00:00:00.000+00:00") if use == "copy" else (None, None)
    assert (told["version"], told["issued"]) == copied


@pytest.mark.parametrize(
    ("may", "held", "copy", "words"),
    [
        (["query"], "", False, "it may query it"),
        (["copy"], "", True, "it may copy it"),
        (["copy"], "5", True, "it holds a copy"),
        (["query"], "5", False, "it may query it; it holds an earlier copy"),
        ([], "", False, "it may not use it"),
    ],
)
def test_what_a_peer_may_do_with_our_model(may, held, copy, words):
    (peer,) = overview_of(circle_of(link_of("b", held=held), may=may)).state()["peers"]
    assert peer["ours"] == {"copy": copy, "query": "query" in may, "held": held or None, "words": words}


A_COPY = "The model of d is here as a copy: d sees nothing."


@pytest.mark.parametrize(
    ("circle", "words"),
    [
        (circle_of(evidence="own"), "Nobody outside will see this row."),
        (circle_of(link_of("b"), evidence="own"), "This row will be seen by b: its model is queried."),
        (
            circle_of(link_of("b"), link_of("c"), link_of("d"), copies="d", evidence="own"),
            f"This row will be seen by b and c: their models are queried. {A_COPY}",
        ),
        (
            circle_of(link_of("c", GONE), link_of("d", GONE), copies="cd", evidence="own"),
            "Nobody outside will see this row. The models of c and d are here as copies: they see nothing.",
        ),
        (
            circle_of(link_of("b", GONE), link_of("c", GONE, use=["copy"]), link_of("d"), copies="d", evidence="own"),
            f"Nobody outside will see this row. {A_COPY} If b can be reached by then, it may see this row too.",
        ),
        (circle_of(link_of("b"), hindrance="not ready", evidence="own"), "Nobody outside will see this row."),
        (
            circle_of(link_of("b"), link_of("c"), link_of("d"), copies="cd", keep="d"),
            "This row will be seen by b: its model is queried. For the consensus this row will be seen by c too. "
            + A_COPY,
        ),
        (
            circle_of(link_of("d", GONE), copies="d"),
            f"Nobody outside will see this row. {A_COPY} If d can be reached by then, it may see this row too.",
        ),
        (circle_of(link_of("b"), no_view="none"), "For the consensus this row will be seen by b."),
    ],
)
def test_who_will_see_a_row_is_told_before_it_is_asked_about(circle, words):
    told = overview_of(circle).state()["node"]["witnesses"]
    assert told == {"row": words, "rows": words.replace("his row", "hese rows")}


def test_notices_are_told_what_is_worst_first():
    overview = overview_of(circle_of(link_of("b")), notices=[("warning", "it ends soon"), ("error", "it has ended")])
    assert [each["words"] for each in overview.state()["notices"]] == ["it has ended", "it ends soon"]


def test_an_alert_says_who_asked_about_how_many_own_rows_and_when():
    now = time.time()
    today, before = Alert("dashboard", 40, 55, now), Alert("west", 12, 12, 86_400.0)
    told = overview_of(circle_of(), today, before).state()["alerts"]
    assert [each["words"] for each in told] == [
        "dashboard has asked about 40 of this node's own rows, exactly as they are (55 points asked in all today).",
        "west has asked about 12 of this node's own rows, exactly as they are (12 points asked in all on 1970-01-02).",
    ]
    assert (told[0]["caller"], told[0]["rows"], told[0]["asked"]) == ("dashboard", 40, 55)
    assert "testing whether these rows are in the data" in told[0]["meaning"]


def test_the_state_is_computed_once_for_all_who_look_and_never_when_nobody_does(monkeypatch):
    monkeypatch.setattr("degroot.node.page.events.PAUSE", 0.01)
    looks = []
    overview = SimpleNamespace(state=lambda: looks.append(1) or {"look": len(looks)}, departures=list)
    live = Live(overview, SimpleNamespace(read=list), None)

    async def watched():
        listeners = [live.news(lambda: True) for _ in range(20)]
        for _ in range(3):
            seen = [await anext(each) for each in listeners]
            assert len(set(seen[1:])) == 1
        for each in listeners:
            await each.aclose()
        before = len(looks)
        assert before < 20
        await asyncio.sleep(0.1)
        assert len(looks) <= before + 1
        fresh = live.news(lambda: True)
        assert str(len(looks) + 1).encode() in await anext(fresh)
        live.close()
        assert [each async for each in fresh] == []

    asyncio.run(watched())


def test_a_mistake_of_ours_is_one_line_and_is_logged():
    logged = []

    async def broken(scope, receive, send):
        raise RuntimeError("secret")

    async def asked():
        log = SimpleNamespace(exception=lambda event, **told: logged.append(event))
        gate = SimpleNamespace(identify=lambda headers: None)
        transport = httpx.ASGITransport(AccessMiddleware(broken, gate, None, log))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.get("/")

    reply = asyncio.run(asked())
    assert reply.status_code == 500
    assert "secret" not in reply.text
    assert HEADERS["Content-Security-Policy"] == reply.headers["content-security-policy"]
    assert len(logged) == 1
