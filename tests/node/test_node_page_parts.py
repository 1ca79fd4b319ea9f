"""Parts of the node's page, each by itself: what is typed and sent, answers, the ledger searched, the state told."""

import asyncio
import io
import json
import os
import time
import zipfile
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
from degroot.files import columns
from degroot.node.errors import BadReply, PeerLate, PeerRefused, PeerUnreachable
from degroot.node.page import auth
from degroot.node.page.answers import Answer, Archive, new_id
from degroot.node.page.auth import HEADERS, AccessMiddleware
from degroot.node.page.encoding import encoded, numbers
from degroot.node.page.events import Live
from degroot.node.page.ledger_totals import LedgerTotals, describe_entry
from degroot.node.page.overview import Overview
from degroot.node.page.requests import ROWS, AskTerms, TooMuch, parse_rows, read_uploaded_file
from degroot.node.page.rows import describe_row, order_rows, rounds_of
from degroot.node.page.trust import FEWEST, Agents, regions, summary
from degroot.node.protocol.codec import NodeAnswer
from degroot.node.records import ledger
from degroot.node.records.ledger_search import Wanted, search
from degroot.node.records.own_rows import Alert
from degroot.node.records.recent import KEPT, OF_ONE, AnswerSample, QuestionRecord, Recent, SampledAnswers

PLAIN = st.one_of(st.none(), st.booleans(), st.floats(), st.integers(), st.text())
KEYS = st.sampled_from(["rows", "view", "way", "coverage", "a", "b"])
TOLD = st.recursive(PLAIN, lambda some: st.lists(some) | st.dictionaries(KEYS, some))


@given(st.one_of(st.binary(max_size=200), TOLD.map(lambda told: json.dumps(told).encode())))
def test_whatever_is_typed_gives_finite_points_or_one_line(body):
    points, told = np.zeros((1, 2)), ""
    try:
        points = parse_rows(body, ["a", "b"]).points
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
        points = read_uploaded_file(body, name + suffix, "application/octet-stream", AskTerms(), ["a", "b"]).points
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
    points = read_uploaded_file(packed(suffix, ROWS), f"x{suffix}", "", AskTerms(), ["a", "b"]).points
    assert points.shape == (ROWS, 2)
    monkeypatch.setattr(columns, "_from_table", None)
    monkeypatch.setattr(np, "load", None)
    body = packed(suffix, 3_000_000)
    assert len(body) < 200_000
    with pytest.raises(TooMuch, match=rf"x{suffix} must hold at most 100000 rows; it holds 3000000\. .degroot ask."):
        read_uploaded_file(body, f"x{suffix}", "", AskTerms(), ["a", "b"])


@pytest.mark.parametrize(
    ("descr", "shape", "told"),
    [("|i1", (0, 1 << 40), "columns"), ("|V0", (1, 1 << 40), "columns"), ("<U1000", (90_000,), "bytes")],
)
def test_an_array_that_says_it_is_larger_than_the_page_takes_is_not_read(descr, shape, told):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive, archive.open("X.npy", "w") as member:
        np.lib.format.write_array_header_1_0(member, {"descr": descr, "shape": shape, "fortran_order": False})
    with pytest.raises(TooMuch, match=rf"must hold at most \d+ {told}"):
        read_uploaded_file(file.getvalue(), "x.npz", "", AskTerms(), ["a", "b"])


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


def test_an_answer_is_the_same_when_it_is_opened_again(tmp_path):
    answer = made_answer()
    Archive(tmp_path).save(answer)
    again = Archive(tmp_path).find(answer.id)
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
    Archive(tmp_path).save(answer)
    (path,) = (tmp_path / "answers").iterdir()
    with np.load(path) as archive:
        arrays = dict(archive)
    about = json.loads(arrays["about"].tobytes())
    about["terms"] = {"way": "solve", "guard": False, "coverage": 0.9}
    np.savez(path, **arrays | {"about": np.frombuffer(json.dumps(about).encode(), np.uint8)})
    again = Archive(tmp_path).find(answer.id)
    assert again.terms == AskTerms("solve", 0.9, "consensus")
    assert again.summary() == answer.summary()
    assert len(Archive(tmp_path).entries()) == 1


def test_an_answer_from_the_own_view_keeps_the_consensus_beside_it(tmp_path):
    answer = made_for_the_node()
    Archive(tmp_path).save(answer)
    again = Archive(tmp_path).find(answer.id)
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
    archive, answers = Archive(tmp_path, kept=3), [made_answer(at=float(k)) for k in range(5)]
    for k, answer in enumerate(answers):
        archive.save(answer)
        kept = tmp_path / "answers" / f"{answer.id}.npz"
        os.utime(kept, ns=(k, k))  # files are told apart by their time, which a clock may tell coarsely
    assert [entry["id"] for entry in archive.entries()] == [answer.id for answer in answers[:1:-1]]
    assert archive.find(answers[0].id) is None
    assert archive.find("../../etc/passwd") is None
    (tmp_path / "answers" / f"{'b' * 22}.npz").write_bytes(b"no archive")
    assert len(archive.entries()) == 3


def test_the_token_is_made_once_and_only_its_owner_reads_it(tmp_path):
    with pytest.raises(InvalidInput, match="must have run with a page"):
        auth.read(tmp_path)
    token = auth.read_or_make_token(tmp_path)
    assert auth.read_or_make_token(tmp_path) == auth.read(tmp_path) == token
    assert len(token) >= 40
    assert (tmp_path / auth.FILE).stat().st_mode & 0o777 == 0o600
    (tmp_path / auth.FILE).write_text("")
    with pytest.raises(InvalidInput, match="must hold a token"):
        auth.read_or_make_token(tmp_path)


EXCHANGES = st.lists(
    st.tuples(
        st.sampled_from(["a", "b%", "b_c", "x\\y"]),
        st.sampled_from(["opinion", "describe"]),
        st.sampled_from(["in", "out"]),
        st.integers(0, 9),
    ),
    max_size=30,
)


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


@settings(max_examples=25)
@given(
    EXCHANGES, st.sampled_from(["", "%", "_", "\\", "b", "OPIN", "a desc", "y o"]), st.integers(0, 5), st.integers(1, 5)
)
def test_a_search_finds_what_a_look_at_every_exchange_does(tmp_path_factory, exchanges, text, offset, limit):
    path = tmp_path_factory.mktemp("ledger") / "ledger.sqlite"
    book = ledger.Ledger(path)
    for peer, kind, direction, rows in exchanges:
        book.record(peer, kind, direction, rows, 0, 0)
    book.close()
    one, all_but = Wanted(kind="opinion", direction="in"), Wanted(kind="-describe")
    for wanted in (Wanted(text or None), Wanted(text or None, peer="b_c"), one, all_but):
        expected = [
            each for each in reversed(exchanges)
            if (wanted.text or "").lower() in f"{each[0]} {each[1]}".lower() and wanted.peer in (None, each[0])
            and (wanted.kind in (None, each[1]) or (wanted is all_but and each[1] != "describe"))
            and wanted.direction in (None, each[2])
        ]  # fmt: skip
        total, found = search(path, wanted, offset, limit)
        assert total == len(expected)
        assert [(row.peer, row.kind, row.direction, row.rows) for row in found] == expected[offset : offset + limit]


def test_days_that_were_folded_follow_single_exchanges(tmp_path):
    now = [0.0]
    book = ledger.Ledger(tmp_path / "ledger.sqlite", clock=lambda: now[0])
    for day in (0, 0, 1):
        now[0] = day * 86_400.0 + 10.0
        book.record("a", "opinion", "in", 5, 1, 1)
    book.close()
    now[0] = 31.5 * 86_400
    book = ledger.Ledger(tmp_path / "ledger.sqlite", clock=lambda: now[0])
    book.record("b", "opinion", "in", 1, 1, 1)
    book.close()
    total, found = search(tmp_path / "ledger.sqlite", Wanted(), 0, 10)
    assert total == 3
    assert [(row.peer, row.exchanges, row.rows) for row in found] == [("b", 1, 1), ("a", 1, 5), ("a", 2, 10)]
    assert search(tmp_path / "ledger.sqlite", Wanted(), 1, 1)[1] == found[1:2]
    assert search(tmp_path / "ledger.sqlite", Wanted(since=86_400.0, until=30 * 86_400.0), 0, 10)[1] == found[1:2]


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
    agent = SimpleNamespace(X=np.zeros((5, 1)), n_features=1, outputs=None, classes=None)
    manifest = SimpleNamespace(version="7", issued=86_400.0)
    held = {name: SimpleNamespace(bundle=SimpleNamespace(manifest=manifest)) for name in copies}
    seat = SimpleNamespace(agent=agent, version="1", feature_names=(), guarded=True, scored=(), copies=held)
    configuration = SimpleNamespace(
        name="a", listen="127.0.0.1:2", collective=SimpleNamespace(rule="degroot", neighbours=None), evidence=evidence,
        pooled=evidence == "pooled", needed=2, rights={link.name: frozenset(may) for link in links},
    )  # fmt: skip

    def standing(link):
        return state if link.fault is None else "ready" if link.name in copies else "absent"

    def hindered(link, _seat):
        return None if link.name in copies else hindrance or link.trouble

    return SimpleNamespace(
        links={link.name: link for link in links}, configuration=configuration, scores=SimpleNamespace(seat=seat),
        no_view=no_view, state=standing, find_hindrance=hindered, copies=SimpleNamespace(offer_lacking=""),
        without_evidence=lambda: {link.name: "no" for link in links if link.fault or link.name in keep},
    )  # fmt: skip


def overview_of(circle, *alerts):
    return Overview(circle, Recent(), SimpleNamespace(alerts={each.caller: each for each in alerts}))


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
    assert "evidence = 'pooled' in the file of every node" in told["no_consensus"]
    assert told["mode"].startswith("Labels and errors stay here")
    without = overview_of(circle_of(link_of("b"), evidence="own", no_view="scored by its peers")).state()["node"]
    assert without["answering"] is False
    pooled = overview_of(circle_of(link_of("b"))).state()["node"]
    assert (pooled["no_consensus"], "recover each other's labels" in pooled["mode"]) == ("", True)


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
        listeners = [live.news() for _ in range(20)]
        for _ in range(3):
            seen = [await anext(each) for each in listeners]
            assert len(set(seen[1:])) == 1
        for each in listeners:
            await each.aclose()
        before = len(looks)
        assert before < 20
        await asyncio.sleep(0.1)
        assert len(looks) <= before + 1
        fresh = live.news()
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
        transport = httpx.ASGITransport(AccessMiddleware(broken, log))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.get("/")

    reply = asyncio.run(asked())
    assert reply.status_code == 500
    assert "secret" not in reply.text
    assert HEADERS["Content-Security-Policy"] == reply.headers["content-security-policy"]
    assert len(logged) == 1
