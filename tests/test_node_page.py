"""The node's page: what it shows is what the node says, to the last bit; nobody asks through it without the token, and
nothing that comes is more than one line of complaint."""

import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from types import SimpleNamespace

import httpx
import numpy as np
import pandas as pd
import pytest
from consortium import Consortium, free_ports, save_linear
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from processes import wait_for
from sklearn.linear_model import LogisticRegression

from degroot import Agent, cli
from degroot.answers import Consensus, Flag
from degroot.exceptions import InvalidInput
from degroot.node import ledger
from degroot.node.configuration import Page, read, template
from degroot.node.faults import BadReply, PeerLate, PeerRefused, PeerUnreachable
from degroot.node.page import tokens
from degroot.node.page.answer import Answer
from degroot.node.page.archive import Archive, new_id
from degroot.node.page.encoding import encoded, numbers
from degroot.node.page.gate import HEADERS, Gate
from degroot.node.page.inquiries import FORM_BYTES, Terms, filed, typed
from degroot.node.page.leak import Leak
from degroot.node.page.live import Live
from degroot.node.page.overview import Overview
from degroot.node.page.serving import bound
from degroot.node.recent import KEPT, Question, Recent
from degroot.node.sample import OF_ONE, Sample
from degroot.node.search import Wanted, search
from degroot.node.solving import Answered

FEATURES = ["x0", "x1", "x2"]
POINTS = pd.DataFrame(np.random.default_rng(3).normal(size=(1200, 3)), columns=FEATURES)
CSV = POINTS.to_csv(index=False)


def with_page(consortium, name, **settings):
    """Give a node a page; its port."""
    port = next(each for each in free_ports(4) if each not in consortium.ports.values())
    consortium.write(name, limits=f"[page]\nport = {port}\n", **settings)
    return port


class Browser(httpx.Client):
    """Somebody at the page of one node, with the token."""

    def __init__(self, consortium, name, port):
        path = consortium.folder / name / "state" / tokens.FILE
        token = wait_for(lambda: path.is_file() and path.read_text())
        super().__init__(base_url=f"http://127.0.0.1:{port}", timeout=60, headers={"Authorization": f"Bearer {token}"})

    def ask(self, **sent):
        """The id of an answer, once it is there."""
        reply = self.post("/api/ask", **sent)
        assert reply.status_code == 202, reply.text
        assert reply.json()["url"] == f"/answers/{reply.json()['id']}"
        wait_for(lambda: self.told(reply.json()["id"])["status"] != "working")
        return reply.json()["id"]

    def told(self, id_, rest="", **query):
        reply = self.get(f"/api/answers/{id_}{rest}", params=query)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def peer(self, name):
        return next(each for each in self.get("/api/state").json()["peers"] if each["name"] == name)


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    with Consortium(tmp_path_factory.mktemp("three"), 3) as made:
        made.port = with_page(made, "node0")
        yield made.fork().ready()


@pytest.fixture(scope="module")
def browser(three):
    with Browser(three, "node0", three.port) as made:
        yield made


@pytest.fixture
def degroot(monkeypatch, capsys):
    """Run the command line in this process."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["degroot", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        return ended.value.code or 0, out, err

    return run


# What is shown


@pytest.mark.parametrize("way", ["solve", "rounds"])
def test_a_file_is_answered_as_by_degroot_ask_to_the_last_bit(three, browser, degroot, tmp_path, way):
    points = POINTS if way == "solve" else POINTS[:100]
    points.to_csv(tmp_path / "points.csv", index=False)
    config, out = three.folder / "node0" / "node.toml", tmp_path / "answers.parquet"
    code, *told = degroot("ask", "--config", config, "--input", tmp_path / "points.csv", "--output", out, "--way", way)
    assert code == 0, told
    content = (tmp_path / "points.csv").read_bytes()
    id_ = browser.ask(content=content, params={"filename": "points.csv", "way": way})
    asked, expected = browser.told(id_), pd.read_parquet(out)
    assert (asked["status"], asked["done"], asked["source"], asked["way"]) == ("done", len(points), "points.csv", way)
    whole = pd.concat([points, expected], axis=1)
    files = {kind: tmp_path / f"page.{kind}" for kind in ("parquet", "csv", "json")}
    for kind, path in files.items():
        path.write_bytes(browser.get(f"/api/answers/{id_}/download", params={"format": kind}).content)
    pd.testing.assert_frame_equal(pd.read_parquet(files["parquet"]), whole, check_exact=True)
    as_text = pd.read_csv(files["csv"], keep_default_na=False)
    pd.testing.assert_frame_equal(as_text, whole, check_exact=True, check_dtype=False)
    as_json = pd.DataFrame(json.loads(files["json"].read_text()))
    pd.testing.assert_frame_equal(as_json, whole, check_exact=True, check_dtype=False)


def test_a_row_is_answered_as_in_one_process_with_all_that_lies_behind_it(three, browser):
    point = [0.3, -0.2, 0.5]
    expected = three.collective().consult([point])
    for rows in ([point], [dict(zip(FEATURES, point, strict=True))]):
        id_ = browser.ask(json={"rows": rows})
        row = browser.told(id_, "/rows/0")
        assert row["point"] == dict(zip(FEATURES, point, strict=True))
        assert_allclose(row["value"], expected.value[0], rtol=1e-9)
        assert_allclose(row["standard_error"], expected.standard_error[0], rtol=1e-6)
        assert_allclose(row["trust"], expected.trust[0], rtol=1e-6)
        for name, field in (("belief", "beliefs"), ("weight", "weights"), ("influence", "influence")):
            assert_allclose([each[name] for each in row["agents"]], getattr(expected, field)[0], rtol=1e-6, atol=1e-12)
        assert [each["name"] for each in row["agents"]] == list(three.names)
        assert browser.told(id_)["source"] == "form"
        assert "node0" in row["text"]


def test_rounds_begin_with_the_beliefs_follow_the_trust_and_end_at_the_value(browser):
    row = browser.told(browser.ask(json={"rows": [[0.3, -0.2, 0.5]]}), "/rows/0")
    rounds, trust = np.array(row["rounds"]), np.array(row["trust"])
    assert_array_equal(rounds[0], [each["belief"] for each in row["agents"]])
    assert_allclose(rounds[1:], rounds[:-1] @ trust.T, rtol=1e-12)
    assert_allclose(rounds[-1], row["value"], atol=1e-5 * np.ptp(rounds[0]))
    assert 2 < len(rounds) <= 101
    by_rounds = browser.told(browser.ask(json={"rows": [[0.3, -0.2, 0.5]], "way": "rounds"}), "/rows/0")
    assert by_rounds["trust"] is by_rounds["rounds"] is None
    assert_allclose(by_rounds["value"], row["value"], rtol=1e-6)


def test_an_interval_is_that_of_the_client(three, browser):
    point = [[0.3, -0.2, 0.5]]
    with three.connect("node0", caller="node0") as node:
        expected = wait_for(lambda: _calibrated(node, point))
    id_ = browser.ask(json={"rows": point, "coverage": 0.8})
    row = browser.told(id_, "/rows/0")
    assert (row["lower"], row["upper"], row["coverage"]) == (expected.lower[0], expected.upper[0], 0.8)
    assert list(pd.DataFrame(browser.told(id_, "/download", format="json")).columns[:7]) == [
        *FEATURES, "value", "standard_error", "lower", "upper",
    ]  # fmt: skip


def _calibrated(node, point):
    try:
        return node.consult(point, coverage=0.8)
    except InvalidInput:  # not all have rehearsed yet
        return None


def test_rows_are_shown_page_by_page_in_every_order(browser):
    id_ = browser.ask(content=CSV, params={"filename": "points.csv"})
    everything = [
        row for start in range(0, 1200, 400) for row in browser.told(id_, "/rows", offset=start, limit=400)["rows"]
    ]
    assert [row["i"] for row in everything] == list(range(1200))
    assert_array_equal([row["point"] for row in everything], POINTS.to_numpy())
    for name in ("value", "standard_error"):
        for sign in ("", "-"):
            shown = browser.told(id_, "/rows", sort=f"{sign}{name}", limit=50)["rows"]
            ordered = sorted((row[name] for row in everything), reverse=bool(sign))
            assert [row[name] for row in shown] == ordered[:50]
    flagged = browser.told(id_, "/rows", sort="flags", limit=50)["rows"]
    assert [len(row["flags"]) for row in flagged] == sorted((len(row["flags"]) for row in everything), reverse=True)[
        :50
    ]
    assert browser.told(id_, "/rows", offset=1199, limit=5)["total"] == 1200
    counts = {(flag["agent"], flag["kind"]): flag["points"] for flag in browser.told(id_)["flags"]}
    assert sum(counts.values()) == sum(len(row["flags"]) for row in everything) > 0


def test_the_state_names_the_node_its_peers_and_what_has_left(three, browser):
    state = browser.get("/api/state").json()
    assert set(state) == {"node", "peers", "questions", "leak"}
    node = state["node"]
    assert (node["name"], node["features"], node["rows"], node["answering"]) == ("node0", FEATURES, 120, True)
    assert [peer["name"] for peer in state["peers"]] == ["node1", "node2"]
    for peer in state["peers"]:
        assert (peer["state"], peer["progress"], peer["ready"]) == ("up", 1.0, True)
        assert peer["model_version"] == peer["scored_version"]
        assert peer["latency_ms"]["last"] == peer["latencies"][-1] > 0.0
    before = state["questions"]["answered"]
    browser.ask(json={"rows": [[0, 0, 0]]})
    with three.connect("node0") as asked:
        asked.predict(POINTS[:7])
    questions = browser.get("/api/state").json()["questions"]
    assert questions["answered"] == before + 2
    assert [(each["who"], each["rows"]) for each in questions["recent"][:2]] == [("analyst", 7), ("node0", 1)]


def test_what_is_asked_through_the_page_is_in_the_ledger(three, browser):
    path = three.configuration("node0").ledger

    def consulted():
        return sum(line.rows for line in ledger.summary(path) if (line.peer, line.kind) == ("node0", "consult"))

    before = consulted()
    browser.ask(content=CSV, params={"filename": "points.csv"})
    assert consulted() == before + 1200
    found = browser.get("/api/audit", params={"peer": "node0", "kind": "consult", "limit": 2}).json()
    assert [row["rows"] for row in found["rows"]] == [200, 1000]
    assert {"consult", "describe", "opinion"} <= set(found["kinds"])


def test_trust_over_the_last_questions_is_the_mean_of_their_answers_and_regions_are_its_parts(browser):
    browser.ask(content=CSV, params={"filename": "points.csv"})
    told = browser.get("/api/trust", params={"x": "x2", "y": "x0", "cells": 4}).json()
    assert told["points"] >= 2 * OF_ONE
    assert_allclose(np.sum(told["trust"], axis=1), 1.0)
    assert_allclose(sum(told["weights"]), 1.0)
    cells = told["regions"]["cells"]
    counts = [cell["points"] for cell in cells]
    assert sum(counts) == told["points"]
    assert_allclose(np.average([cell["weights"] for cell in cells], axis=0, weights=counts), told["weights"])
    assert {cell["ix"] for cell in cells} == {cell["iy"] for cell in cells} == set(range(4))
    assert len(told["regions"]["x_edges"]) == 5
    for agent, weight in zip(told["agents"], told["weights"], strict=True):
        assert agent["weight"] == weight
        assert agent["droppable"] is False  # of these three nobody says the same as another


def test_events_begin_with_the_state_and_go_on(browser):
    with browser.stream("GET", "/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        told = [line for line, _ in zip((each for each in stream.iter_lines() if each), range(4), strict=False)]
    assert [line.partition(":")[0] for line in told] == ["event", "data"] * 2
    first, second = (json.loads(told[k].removeprefix("data: ")) for k in (1, 3))
    assert first["node"] == second["node"]
    assert first["peers"][0]["seen"] != second["peers"][0]["seen"]


# Who may


def test_nobody_asks_without_the_token(browser):
    for given_ in ("", "Bearer", "Bearer wrong", f"Basic {browser.headers['authorization'][7:]}", "Bearer \xe9"):
        headers = {"Authorization": given_.encode("latin-1")}
        for reply in (
            browser.post("/api/ask", json={"rows": [[0, 0, 0]]}, headers=headers),
            browser.get("/api/answers", headers=headers),
        ):
            assert reply.status_code == 401
            assert "degroot node page" in reply.json()["error"]


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "10.0.0.1:80", "", "[::2]", "localhost.", "a b", "[127.0.0.1"]
)
def test_a_strange_host_is_turned_away(browser, host):
    for path in ("/", "/api/state", "/events", "/static/icon.svg"):
        assert browser.get(path, headers={"Host": host}).status_code == 403


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9", "127.0.0.1:1", "[::1]:80", "127.9.9.9"])
def test_every_name_of_this_machine_will_do(browser, host):
    assert browser.get("/api/state", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1", "http://localhost"])
def test_another_site_cannot_ask_even_with_the_token(browser, origin):
    reply = browser.post("/api/ask", json={"rows": [[0, 0, 0]]}, headers={"Origin": origin})
    assert reply.status_code == 403
    own = str(browser.base_url).rstrip("/")
    assert browser.post("/api/ask", json={"rows": [[0, 0, 0]]}, headers={"Origin": own}).status_code == 202


def test_every_reply_carries_what_browsers_have_to_keep_to(browser):
    paths = [
        "/",
        "/ask",
        "/answers/x",
        "/trust",
        "/audit",
        "/static/icon.svg",
        "/nothing",
        "/api/state",
        "/api/nothing",
        "/docs",
        "/openapi.json",
    ]
    for path in paths:
        reply = browser.get(path)
        assert (
            HEADERS.items()
            <= {name.title().replace("X-", "X-"): value for name, value in reply.headers.items()}.items()
        )
        assert reply.status_code == (404 if path in ("/nothing", "/api/nothing", "/docs", "/openapi.json") else 200)
    assert browser.get("/api/state").headers["cache-control"] == "no-store"
    assert "default-src 'none'" in HEADERS["Content-Security-Policy"]


def test_files_have_an_address_for_ever_and_nothing_else_can_be_had(browser):
    page = browser.get("/")
    assert page.headers["cache-control"] == "no-cache"
    (address,) = set(re.findall(r"/static/[0-9a-f]{12}", page.text))
    kept = browser.get(f"{address}/icon.svg")
    assert "immutable" in kept.headers["cache-control"]
    assert browser.get("/static/icon.svg").headers["cache-control"] == "no-cache"
    assert kept.content == browser.get("/static/icon.svg").content
    for path in (
        "/static/",
        "/static/../serving.py",
        "/static/%2e%2e/serving.py",
        "/static//etc/passwd",
        f"{address}/nothing",
    ):
        assert browser.get(path).status_code == 404


def test_the_page_is_on_this_machine_only_and_not_where_peers_are(three, browser):
    with pytest.raises(httpx.TransportError):
        httpx.get(f"http://127.0.0.1:{three.ports['node0']}/api/state")
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://127.0.0.2:{three.port}/api/state")


# Mistakes

AS_JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("sent", "status", "words"),
    [
        ({"json": {"rows": [[1, None, 2]]}}, 400, "'x1' in row 0 must be a finite number; it is missing."),
        ({"json": {"rows": [[0, 0, 0], [1, "2", 2]]}}, 400, "'x1' in row 1 must be a finite number; got '2'."),
        ({"json": {"rows": [[1, 2]]}}, 400, "for each of 3 features; 2 came."),
        ({"json": {"rows": [{"x0": 1, "z": 2}]}}, 400, "features of the collective only; got 'z'."),
        ({"json": {"rows": []}}, 400, "at least one row"),
        ({"json": {"rows": [[1, 2, 3]], "way": "guess"}}, 400, "`way` must be 'solve' or 'rounds'; got 'guess'."),
        ({"json": {"rows": [[1, 2, 3]], "guard": 1}}, 400, "`guard` true or false"),
        ({"json": {"rows": [[1, 2, 3]], "coverage": "0.9"}}, 400, "`coverage` must be a number"),
        ({"json": {"rows": [[1, 2, 3]], "coverage": 1.5}}, 400, "got 1.5"),
        ({"json": {"rows": [[1, 2, 3]], "coverage": 0.9, "way": "rounds"}}, 400, "asked for by solving"),
        ({"json": [1]}, 400, "an object with a list `rows`"),
        ({"content": b'{"rows": [[1, NaN, 3]]}', "headers": AS_JSON}, 400, "finite number"),
        ({"content": b"[" * 100_000, "headers": AS_JSON}, 400, "must be JSON"),
        ({"content": b" " * (FORM_BYTES + 1), "headers": AS_JSON}, 413, "more came"),
        ({"content": b"", "params": {"filename": "a.csv"}}, 400, "a.csv must hold at least one row; it is empty."),
        ({"content": b"x0,x1\n1,2\n", "params": {"filename": "a.csv"}}, 400, "missing: 'x2'"),
        ({"content": b"x0,x1,x2\n1,2,=1+1\n", "params": {"filename": "a.csv"}}, 400, "Column 'x2' of a.csv"),
        ({"content": b'x0,x1,x2\n1,2,"3\n', "params": {"filename": "a.csv"}}, 400, "never closed"),
        ({"content": b"PAR1 and no more", "params": {"filename": "a.parquet"}}, 400, "must be a .parquet file"),
        ({"content": b"rows", "params": {"filename": "../../a.exe"}}, 400, "got a.exe."),
        ({"content": b"x0,x1,x2\n1,2,3\n"}, 400, "got the file."),
        ({"content": b"x0", "params": {"filename": "a.csv", "coverage": "much"}}, 400, "`coverage`"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(browser, sent, status, words):
    reply = browser.post("/api/ask", **sent)
    assert reply.status_code == status, reply.text
    assert set(reply.json()) == {"error"}
    assert words in reply.json()["error"]
    assert "\n" not in reply.json()["error"]
    assert "/tmp" not in reply.text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/answers/nothing", 404), ("/api/answers/..%2Fledger", 404), (f"/api/answers/{'a' * 22}/rows", 404),
        ("/api/trust?x=nothing", 400), ("/api/trust?cells=0", 400), ("/api/trust?cells=many", 400),
        ("/api/audit?since=yesterday", 400), ("/api/audit?asked_by=me", 400), ("/api/audit?limit=0", 400),
        ("/api/audit?offset=-1", 400), ("/api/audit?limit=1000000", 400), ("/api/ask", 405),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_in_one_line(browser, path, status):
    reply = browser.get(path)
    assert reply.status_code == status
    assert "\n" not in reply.json()["error"]


def test_rows_that_are_not_there_and_unknown_formats_and_orders(browser):
    id_ = browser.ask(json={"rows": [[0, 0, 0]]})
    for rest in ("/rows/1", "/rows/-1", "/rows/x", "/rows?sort=nothing", "/rows?limit=501", "/download?format=xlsx"):
        assert browser.get(f"/api/answers/{id_}{rest}").status_code == 400


PLAIN = st.one_of(st.none(), st.booleans(), st.floats(), st.integers(), st.text())
KEYS = st.sampled_from(["rows", "way", "guard", "coverage", "a", "b"])
TOLD = st.recursive(PLAIN, lambda some: st.lists(some) | st.dictionaries(KEYS, some))


@given(st.one_of(st.binary(max_size=200), TOLD.map(lambda told: json.dumps(told).encode())))
def test_whatever_is_typed_gives_finite_points_or_one_line(body):
    points, told = np.zeros((1, 2)), ""
    try:
        points = typed(body, ["a", "b"]).points
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
        points = filed(body, name + suffix, "application/octet-stream", Terms(), ["a", "b"]).points
    except InvalidInput as error:
        told = str(error)
    assert "degroot-page-" not in told
    assert np.isfinite(points).all()


# Parts


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
        new_id(), at, 0.5, "<b>.csv", Terms("solve", True, 0.9), "degroot", ("f", "=g()"), ("h",),
        rng.normal(size=(points, 2)), consensus,
    )  # fmt: skip


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


def test_the_last_answers_are_kept_and_no_others(tmp_path):
    archive, answers = Archive(tmp_path, kept=3), [made_answer(at=float(k)) for k in range(5)]
    for answer in answers:
        archive.save(answer)
        time.sleep(0.002)  # files are told apart by their time
    assert [entry["id"] for entry in archive.entries()] == [answer.id for answer in answers[:1:-1]]
    assert archive.find(answers[0].id) is None
    assert archive.find("../../etc/passwd") is None
    (tmp_path / "answers" / f"{'b' * 22}.npz").write_bytes(b"no archive")
    assert len(archive.entries()) == 3


def test_the_token_is_made_once_and_only_its_owner_reads_it(tmp_path):
    with pytest.raises(InvalidInput, match="must have run with a page"):
        tokens.read(tmp_path)
    token = tokens.made(tmp_path)
    assert tokens.made(tmp_path) == tokens.read(tmp_path) == token
    assert len(token) >= 40
    assert (tmp_path / tokens.FILE).stat().st_mode & 0o777 == 0o600
    (tmp_path / tokens.FILE).write_text("")
    with pytest.raises(InvalidInput, match="must hold a token"):
        tokens.made(tmp_path)


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
    leak = Leak(path)
    for run in runs:
        book = ledger.Ledger(path, kept=kept)  # which folds older ones as it is opened
        for k, (peer, kind, direction, rows) in enumerate(run):
            book.record(peer, kind, direction, rows, 2 * rows, 3 * rows)
            if k % 7 == 0:
                leak.read()
        told = [(line["peer"], line["kind"], line["asked_by"], line["exchanges"], line["sent"]) for line in leak.read()]
        lines = ledger.summary(path)
        assert told == [(each.peer, each.kind, said[each.direction], each.exchanges, each.sent) for each in lines]
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
    assert (total, [(row.peer, row.exchanges, row.rows) for row in found]) == (
        3,
        [("b", 1, 1), ("a", 1, 5), ("a", 2, 10)],
    )
    assert search(tmp_path / "ledger.sqlite", Wanted(), 1, 1)[1] == found[1:2]
    assert search(tmp_path / "ledger.sqlite", Wanted(since=86_400.0, until=30 * 86_400.0), 0, 10)[1] == found[1:2]


def test_the_sample_keeps_the_last_points_within_bounds():
    sample = Sample(points=100, numbers=10_000)
    for k in range(50):
        points = np.full((200, 2), float(k))
        sample.add(points, Answered(("a", "b"), {"weights": np.full((200, 2), 0.5), "beliefs": points}, ()))
        held = sample.of_the_roster()
        assert sum(len(each.points) for each in held) <= 100
        assert held[-1].points[0, 0] == k
        assert set(held[-1].fields) == {"weights"}
    assert len(held[-1].points) == OF_ONE
    sample.add(np.zeros((1, 2)), Answered(("a", "c"), {"weights": np.ones((1, 2))}, ()))
    assert [each.names for each in sample.of_the_roster()] == [("a", "c")]
    small = Sample(numbers=10)
    small.add(np.zeros((50, 2)), Answered(("a",), {"weights": np.ones((50, 1))}, ()))
    assert len(small.of_the_roster()) == 1  # the last question is kept however large


def test_the_last_questions_are_counted_and_few_are_looked_at():
    now = [0.0]
    recent = Recent(clock=lambda: now[0])
    for k in range(100):
        recent.add(Question(float(k), "a", 1, "solve", 0.001, error="no" if k % 4 == 0 else None))
    assert (recent.answered, recent.failed, len(recent.questions)) == (75, 25, KEPT)
    assert sum(recent.wants() for _ in range(1000)) == 20
    now[0] = 10.0
    assert recent.wants()


def circle_of(state="ready", setback=None, fault=None):
    """As much of a circle as the overview looks at."""
    agent = SimpleNamespace(X=np.zeros((5, 1)), n_features=1, outputs=None, classes=None)
    seat = SimpleNamespace(agent=agent, version="1", feature_names=(), guarded=True, scored=())
    pace = SimpleNamespace(seconds=(0.001, 0.005, 0.003), seen=0.0)
    peer = SimpleNamespace(address="127.0.0.1:1")
    link = SimpleNamespace(name="b", peer=peer, pace=pace, fault=fault, setback=setback, version="2", progress=0.5)
    rehearsed = SimpleNamespace(summary=None)
    settings = SimpleNamespace(rule="degroot", neighbours=None)
    told = SimpleNamespace(name="a", listen="127.0.0.1:2", collective=settings, queries="calibrate", needed=2)
    return SimpleNamespace(
        links={"b": link}, configuration=told, scores=SimpleNamespace(seat=seat),
        state=lambda _: "absent" if fault else state, rehearsed=rehearsed,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("circle", "state", "reason", "answering"),
    [
        (circle_of(), "up", None, True),
        (circle_of(state="stale"), "stale", "its model has changed", True),
        (circle_of(state="calibrating"), "calibrating", None, False),
        (circle_of(state="calibrating", setback=PeerRefused("b", "may not query")), "refused", "may not query", False),
        (circle_of(fault=PeerLate("b", "no answer within 5 seconds")), "late", "no answer within 5 seconds", False),
        (circle_of(fault=PeerRefused("b", "not in the roster")), "refused", "not in the roster", False),
        (circle_of(fault=BadReply("b", "makes no sense")), "refused", "makes no sense", False),
        (circle_of(fault=PeerUnreachable("b", "Connection refused")), "down", "Connection refused", False),
    ],
)
def test_how_it_stands_with_a_peer(circle, state, reason, answering):
    told = Overview(circle, Recent()).state()
    (peer,) = told["peers"]
    assert peer["state"] == state
    assert (peer["reason"] or "").startswith(reason or "")
    assert told["node"]["answering"] is answering
    assert peer["latency_ms"] == {"last": 3.0, "median": 3.0, "p95": 5.0}
    json.loads(encoded(told))


def test_the_state_is_computed_once_for_all_who_look_and_never_when_nobody_does(monkeypatch):
    monkeypatch.setattr("degroot.node.page.live.PAUSE", 0.01)
    looks = []
    overview = SimpleNamespace(state=lambda: looks.append(1) or {"look": len(looks)})
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
        transport = httpx.ASGITransport(Gate(broken, log))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.get("/")

    reply = asyncio.run(asked())
    assert reply.status_code == 500
    assert "secret" not in reply.text
    assert HEADERS["Content-Security-Policy"] == reply.headers["content-security-policy"]
    assert len(logged) == 1


# The configuration and the command


def test_the_template_has_a_page_beside_the_port_for_peers(tmp_path):
    for listen, page, expected in (("0.0.0.0:7443", None, 8443), ("h:65000", None, 64000), ("h:7443", 9000, 9000)):
        (tmp_path / "node.toml").write_text(template("north", listen, page=page))
        assert read(tmp_path / "node.toml").page == Page(expected)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("port = 0", "from 1 to 65535"),
        ("", "it is missing"),
        ("port = 7443", "another port than that of `listen`; got 7443"),
        ("port = 9443\n[metrics]\nport = 9443", "another port than that of `metrics.port`"),
        ('port = 8443\nhost = "0.0.0.0"', "of this machine only"),
        ('port = 8443\nhost = "north.example.org"', "of this machine only"),
        ('port = 8443\ntoken = "mine"', "known"),
    ],
)
def test_a_page_that_cannot_be_is_refused(tmp_path, table, words):
    text = template("north").partition("[page]")[0] + f"[page]\n{table}\n"
    (tmp_path / "node.toml").write_text(text)
    with pytest.raises(InvalidInput, match=re.escape(words)):
        read(tmp_path / "node.toml")


def test_a_port_in_use_is_one_clear_line():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            InvalidInput, match=rf"`page.port` must be free; 127\.0\.0\.1:{port}: Address already in use"
        ):
            bound(Page(port))


def test_replies_are_sent_at_once():
    (port,) = free_ports(1)
    with bound(Page(port)) as listening:
        assert listening.proto == socket.IPPROTO_TCP  # else asyncio lets the system wait for more, 40 ms a reply


def test_the_command_prints_the_address_with_the_token(three, browser, degroot, tmp_path):
    code, out, _ = degroot("node", "page", three.folder / "node0" / "node.toml")
    token = browser.headers["authorization"].removeprefix("Bearer ")
    assert (code, out) == (0, f"http://127.0.0.1:{three.port}/#token={token}\n")
    code, out, err = degroot("node", "page", three.folder / "node1" / "node.toml")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "[page]" in err
    assert degroot("node", "init", "north", "--out", tmp_path / "north.toml", "--page", 8123)[0] == 0
    code, out, err = degroot("node", "page", tmp_path / "north.toml")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "must have run" in err


# With real processes that fail


@contextmanager
def running(folder, name="node0", **settings):
    """Nodes of which one has a page, and somebody who looks at it."""
    with Consortium(folder, 3, **settings) as made:
        kept = {key: value for key, value in settings.items() if key in ("settings", "data")}
        made.port = with_page(made, name, **kept)
        made.fork().ready()
        with Browser(made, name, made.port) as browser:
            yield made, browser


@pytest.mark.slow
def test_the_page_follows_peers_that_stop_change_refuse_and_die(tmp_path):
    with running(tmp_path) as (three, browser):
        three.processes["node1"].send_signal(signal.SIGSTOP)
        assert wait_for(lambda: browser.peer("node1")["state"] == "late", seconds=20)
        three.processes["node1"].send_signal(signal.SIGCONT)
        assert wait_for(lambda: browser.peer("node1")["state"] == "up", seconds=20)
        three.write("node1", ["node2"])  # node0 is not in its roster any more
        assert wait_for(lambda: browser.peer("node1")["state"] == "refused", seconds=20)
        assert "not in the roster" in browser.peer("node1")["reason"]
        three.write("node1")
        assert wait_for(lambda: browser.peer("node1")["state"] == "up", seconds=20)
        version = browser.peer("node2")["model_version"]
        save_linear(three.folder / "node2" / "model.skops", [1.0, 0.5, 0.2, 0.1])
        assert wait_for(lambda: browser.peer("node2")["model_version"] != version, seconds=20)
        assert wait_for(lambda: browser.peer("node2")["state"] == "up", seconds=20)
        three.kill("node2")
        assert wait_for(lambda: browser.peer("node2")["state"] == "down", seconds=5)
        assert browser.get("/api/state").json()["node"]["answering"] is True
        told = browser.told(browser.ask(json={"rows": [[0, 0, 0]]}))
        assert [each["agent"] for each in told["missing"]] == ["node2"]
        row = browser.told(told["id"], "/rows/0")
        assert row["missing"] == ["node2"]
        assert row["agents"][2]["belief"] is None
        assert [each[2] for each in row["rounds"]] == [None] * len(row["rounds"])
        assert_allclose(row["rounds"][-1][0], row["value"], rtol=1e-5)
        three.kill("node1")
        assert wait_for(lambda: browser.peer("node1")["state"] == "down", seconds=5)
        assert browser.get("/api/state").json()["node"]["answering"] is False
        failed = browser.told(browser.ask(json={"rows": [[0, 0, 0]]}))
        assert failed["status"] == "failed"
        assert "quorum" in failed["error"]
        assert set(failed) == set(told)
        assert browser.get("/api/answers").json()["answers"][0]["status"] == "failed"
        assert browser.told(failed["id"]) == failed


@pytest.mark.slow
def test_an_answer_is_opened_again_after_a_restart_and_an_open_page_holds_no_node_back(tmp_path):
    with running(tmp_path) as (three, browser):
        id_ = browser.ask(content=CSV, params={"filename": "points.csv"})
        before, row = browser.told(id_), browser.told(id_, "/rows/7")
        with browser.stream("GET", "/events") as stream:
            next(stream.iter_lines())
            assert three.kill("node0", signal.SIGTERM) == 0
            assert "Traceback" not in three.log("node0")
        three.fork("node0").ready("node0")
        with Browser(three, "node0", three.port) as again:
            assert again.headers["authorization"] == browser.headers["authorization"]
            assert (again.told(id_), again.told(id_, "/rows/7")) == (before, row)


@pytest.mark.slow
def test_classes_are_shown_by_name(tmp_path):
    rng, classes = np.random.default_rng(7), ["<b>cat</b>", "cow", "dog"]
    agents = []
    for k in range(3):
        X = rng.normal(k / 3, 1.0, size=(150, 3))
        y = np.array(classes)[np.argmax(X + rng.normal(size=X.shape), axis=1)]
        agents.append((Agent(LogisticRegression().fit(X, y), X, y, f"node{k}", classes=classes), y))
    with running(tmp_path, agents=agents, data=f"classes = {json.dumps(classes)}") as (three, browser):
        assert browser.get("/api/state").json()["node"]["classes"] == classes
        point = [[0.3, 0.1, -0.2]]
        told = wait_for(lambda: _done(browser, {"rows": point, "coverage": 0.8}))
        row, expected = browser.told(told["id"], "/rows/0"), three.collective().consult(point)
        assert_allclose(row["value"], expected.value[0], rtol=1e-6)
        assert_allclose([each["belief"] for each in row["agents"]], expected.beliefs[0], rtol=1e-6)
        assert_allclose(row["rounds"][-1], [row["value"]] * 3, atol=1e-5)
        assert set(row["set"]) <= set(classes)
        assert told["classes"] == classes
        names = pd.DataFrame(browser.told(told["id"], "/download", format="json")).columns
        assert [f"value_{each}" for each in classes] == list(names[3:6])


def _done(browser, sent):
    told = browser.told(browser.ask(json=sent))
    return told if told["status"] == "done" else None


@pytest.mark.slow
def test_without_a_page_its_packages_are_not_even_imported():
    code = "import sys, degroot.node.server; print({'fastapi', 'uvicorn', 'jinja2'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
