"""The node's page: what it shows is what the node says, to the last bit; nobody asks through it without the token, and
nothing that comes is more than one line of complaint."""

import json
import re
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from datetime import datetime, timedelta

import httpx
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression
from support.consortium import Consortium, free_ports, save_linear
from support.processes import wait_for

from degroot import Agent
from degroot.exceptions import InvalidInput
from degroot.node.config import Page, read
from degroot.node.config.template import template
from degroot.node.page.app import bound
from degroot.node.page.auth import HEADERS
from degroot.node.page.requests import FORM_BYTES
from degroot.node.page.tokens import OPERATOR, make_operator_token
from degroot.node.records import ledger
from degroot.node.records.departures import describe_departures
from degroot.node.records.ledger_search import Wanted, find_questions
from degroot.node.records.recent import OF_ONE

FEATURES = ["x0", "x1", "x2"]
POINTS = pd.DataFrame(np.random.default_rng(3).normal(size=(1200, 3)), columns=FEATURES)
CSV = POINTS.to_csv(index=False)


def with_page(consortium, name, page="", **settings):
    """Give a node a page; its port. `page`: what else its file says of it."""
    port = next(each for each in free_ports(4) if each not in consortium.ports.values())
    consortium.write(name, limits=f"[page]\nport = {port}\n{page}\n", **settings)
    return port


class Browser(httpx.Client):
    """Somebody at the page of one node, with the token."""

    def __init__(self, consortium, name, port):
        token = make_operator_token(consortium.folder / name / "state")
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


@pytest.mark.parametrize("view", ["own", "consensus"])
def test_a_row_is_answered_as_in_one_process_with_all_that_lies_behind_it(three, browser, view):
    point = [0.3, -0.2, 0.5]
    views = {
        name: three.collective().consult([point], asker=who) for name, who in (("own", "node0"), ("consensus", None))
    }
    expected = views[view]
    for rows in ([point], [dict(zip(FEATURES, point, strict=True))]):
        id_ = browser.ask(json={"rows": rows} | ({"view": view} if view == "consensus" else {}))
        row = browser.told(id_, "/rows/0")
        assert row["point"] == dict(zip(FEATURES, point, strict=True))
        assert browser.told(id_)["asker"] == expected.asker
        assert_allclose(row["value"], expected.value[0], rtol=1e-9)
        assert_allclose(row["standard_error"], expected.standard_error[0], rtol=1e-6)
        assert_allclose(row["trust"], views["consensus"].trust[0], rtol=1e-6)
        for name, told in views.items():  # both are there, side by side
            assert_allclose(row["views"][name]["value"], told.value[0], rtol=1e-9)
        for name, field in (("belief", "beliefs"), ("weight", "weights"), ("influence", "influence")):
            assert_allclose([each[name] for each in row["agents"]], getattr(expected, field)[0], rtol=1e-6, atol=1e-12)
        assert [each["name"] for each in row["agents"]] == list(three.names)
        assert browser.told(id_)["source"] == "form"
        assert "node0" in row["text"]


def test_rounds_begin_with_the_beliefs_follow_the_trust_and_end_at_the_value(browser):
    row = browser.told(browser.ask(json={"rows": [[0.3, -0.2, 0.5]], "view": "consensus"}), "/rows/0")
    rounds, trust = np.array(row["rounds"]), np.array(row["trust"])
    assert_array_equal(rounds[0], [each["belief"] for each in row["agents"]])
    assert_allclose(rounds[1:], rounds[:-1] @ trust.T, rtol=1e-12)
    assert_allclose(rounds[-1], row["value"], atol=1e-5 * np.ptp(rounds[0]))
    assert 2 < len(rounds) <= 101
    by_rounds = browser.told(browser.ask(json={"rows": [[0.3, -0.2, 0.5]], "way": "rounds"}), "/rows/0")
    assert by_rounds["trust"] is by_rounds["rounds"] is None
    assert_allclose(by_rounds["value"], row["value"], rtol=1e-6)


def test_an_interval_is_that_of_the_client_and_the_consensus_beside_it_says_why_it_has_none(three, browser):
    point = [[0.3, -0.2, 0.5]]
    with three.connect("node0", caller="node0", view="own") as node:
        expected = node.consult(point, coverage=0.8)
    id_ = browser.ask(json={"rows": point, "coverage": 0.8})
    row, about = browser.told(id_, "/rows/0"), browser.told(id_)
    assert (row["lower"], row["upper"], row["coverage"]) == (expected.lower[0], expected.upper[0], 0.8)
    assert [row["views"]["own"][end] for end in ("lower", "upper")] == [expected.lower[0], expected.upper[0]]
    assert [row["views"]["consensus"][end] for end in ("lower", "upper")] == [None, None]
    assert_allclose(row["views"]["consensus"]["value"], three.collective().predict(point)[0], rtol=1e-9)
    assert "must be asked for with a node's own view" in about["lacking"]
    assert browser.told(browser.ask(json={"rows": point}))["lacking"] == ""
    for sent in ({"view": "consensus"}, {"way": "rounds"}):
        reply = browser.post("/api/ask", json={"rows": point, "coverage": 0.8, **sent})
        assert (reply.status_code, reply.json()["error"]) == (400, about["lacking"])
    assert list(pd.DataFrame(browser.told(id_, "/download", format="json")).columns[:7]) == [
        *FEATURES, "value", "standard_error", "lower", "upper",
    ]  # fmt: skip


def test_gains_are_those_of_the_same_agents_in_process(three, browser):
    told, expected = browser.get("/api/gains").json(), three.collective().gains(shapley=True)
    assert (told["node"], told["reason"], told["rows"], told["units"]) == ("node0", "", 120, None)
    assert told["members"] == list(three.names)
    for name in ("own", "control", "collective"):
        assert_allclose(told["errors"][name]["value"], np.sqrt(getattr(expected, name)[0]), rtol=1e-9)
    change, spread = abs(expected.change[0]), expected.change_error[0]
    assert f"{change:.1f} ± {spread:.1f} % {'below' if expected.difference[0] < 0 else 'above'}" in told["words"][0]
    shares = {each["name"]: each["gain"] for each in told["contributions"]}
    assert_allclose([shares[name] for name in three.names], expected.contributions[0], rtol=1e-9, atol=1e-12)
    assert_allclose(sum(shares.values()), -expected.difference[0], rtol=1e-9)
    assert [each["name"] for each in told["contributions"] if each["own"]] == ["node0"]
    choice = three.collective().view_of("node0").choice()
    mixed = {each["name"]: each["share"] for each in told["mixed"]["candidates"]}
    assert_allclose([mixed[name] for name in choice.candidates], choice.shares, rtol=1e-9, atol=1e-12)


def test_without_a_quorum_the_own_view_is_shown_and_why_there_is_no_consensus(tmp_path):
    with Consortium(tmp_path, 2) as two:
        port = with_page(two, "node0")
        two.fork().ready().kill("node1")
        with Browser(two, "node0", port) as page:
            point = [[0.3, -0.2, 0.5]]
            id_ = page.ask(json={"rows": point, "coverage": 0.8})
            about, row = page.told(id_), page.told(id_, "/rows/0")
            assert (about["status"], about["asker"]) == ("done", "node0")
            assert "At least 2 agents must answer" in about["lacking"]
            assert row["views"]["consensus"] is row["trust"] is row["rounds"] is None
            assert_allclose(row["value"], two.agents[0].predict(np.array(point))[0], rtol=1e-12)
            assert row["lower"] < row["value"] < row["upper"]
            failed = page.ask(json={"rows": point, "view": "consensus"})
            assert page.told(failed)["status"] == "failed"
            assert about["lacking"] == page.told(failed)["error"]


def test_rows_are_shown_page_by_page_in_every_order(browser):
    id_ = browser.ask(content=CSV, params={"filename": "points.csv", "view": "consensus"})
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
    most = sorted((len(row["flags"]) for row in everything), reverse=True)
    assert [len(row["flags"]) for row in flagged] == most[:50]
    assert browser.told(id_, "/rows", offset=1199, limit=5)["total"] == 1200
    counts = {(flag["agent"], flag["kind"]): flag["points"] for flag in browser.told(id_)["flags"]}
    assert sum(counts.values()) == sum(len(row["flags"]) for row in everything) > 0


def test_the_state_names_the_node_its_peers_and_what_has_left(three, browser):
    state = browser.get("/api/state").json()
    assert set(state) == {"node", "notices", "peers", "questions", "alerts", "leak", "departures"}
    assert state["notices"] == []
    node = state["node"]
    assert (node["name"], node["features"], node["rows"], node["answering"]) == ("node0", FEATURES, 120, True)
    assert (node["consensus"], node["able"], node["needed"], node["no_consensus"]) == (True, 3, 2, "")
    assert (node["evidence"], "members can recover each other's labels" in node["mode"]) == ("pooled", True)
    assert node["witnesses"]["row"] == "This row will be seen by node1 and node2: their models are queried."
    assert [peer["name"] for peer in state["peers"]] == ["node1", "node2"]
    for peer in state["peers"]:
        assert (peer["state"], peer["progress"], peer["ready"]) == ("up", 1.0, True)
        assert peer["model_version"] == peer["scored_version"]
        assert peer["latency_ms"]["last"] == peer["latencies"][-1] > 0.0
        assert (peer["use"]["as"], peer["use"]["hindrance"], peer["ours"]["copy"]) == ("query", None, False)
    before = state["questions"]["answered"]
    browser.ask(json={"rows": [[0, 0, 0]]})
    with three.connect("node0") as asked:
        asked.predict(POINTS[:7])
    questions = browser.get("/api/state").json()["questions"]
    assert questions["answered"] == before + 2
    assert [(each["who"], each["rows"]) for each in questions["recent"][:2]] == [("analyst", 7), ("node0", 1)]
    browser.ask(content=CSV, params={"filename": "points.csv"})  # in two batches
    questions = browser.get("/api/state").json()["questions"]
    assert questions["answered"] == before + 3
    assert (questions["recent"][0]["who"], questions["recent"][0]["rows"]) == ("node0", 1200)


def test_what_is_asked_through_the_page_is_in_the_ledger(three, browser):
    path = three.configuration("node0").ledger

    def consulted():
        return sum(line.rows for line in ledger.summary(path) if (line.peer, line.kind) == ("node0", "consult"))

    before = consulted()
    browser.ask(content=CSV, params={"filename": "points.csv"})
    assert consulted() == before + 1200
    found = browser.get("/api/audit", params={"peer": "node0", "kind": "consult", "limit": 2}).json()
    assert found["groups"][0]["rows"] == 1200  # in two batches
    assert {"consult", "opinion", "prediction"} <= set(found["kinds"])


def test_a_question_with_its_purpose_is_one_line_of_the_audit_that_peers_confirm(three, browser):
    for sent in (
        {"json": {"rows": [[0, 0, 1]], "purpose": "triage, ward 7"}},
        {"content": CSV, "params": {"filename": "points.csv", "purpose": "triage, ward 7"}},
    ):
        id_ = browser.ask(**sent)
        about = browser.told(id_)
        assert (about["purpose"], about["kept"]) == ("triage, ward 7", True)
        kept = datetime.fromisoformat(about["until"]) - datetime.fromisoformat(about["at"])
        assert kept == timedelta(days=30)
        listed = browser.get("/api/answers").json()["answers"]
        assert next(each for each in listed if each["id"] == id_)["purpose"] == "triage, ward 7"
        for text in (about["question"], "WARD 7"):
            group = browser.get("/api/audit", params={"q": text}).json()["groups"][0]
            assert (group["question"], group["asker"]) == (about["question"], "node0")
            assert group["purpose"] == "triage, ward 7"
            assert group["peers"] == list(three.names)
        told = browser.get("/api/audit/records", params={"question": about["question"], "limit": 1000}).json()
        assert told["total"] == len(told["rows"]) == group["records"] + 1  # a note of who asked, which has no purpose
        (note,) = [each for each in told["rows"] if not each["peer"]]
        assert (note["kind"], note["told"], group["person"]) == ("asked at the page", OPERATOR, OPERATOR)
        assert note == told["rows"][0]  # before anything has left
        assert {each["told"] for each in told["rows"][1:]} == {"triage, ward 7"}
        assert sum(each["confirmed"] is not None for each in told["rows"]) == group["replies"] > 0
        theirs = [ledger_of(three, name, about["question"]) for name in ("node1", "node2")]
        assert [(each.asker, each.purpose) for each in theirs] == [("node0", "triage, ward 7")] * 2

    def is_confirmed():
        (group,) = browser.get("/api/audit", params={"q": about["question"]}).json()["groups"]
        return group["confirmed"] == group["replies"]

    assert wait_for(is_confirmed)


def ledger_of(consortium, name, question):
    """What a node's ledger has of a question."""
    (found,), _ = find_questions(consortium.configuration(name).ledger, Wanted(question), None, 2)
    return found


SUMS = ("exchanges", "rows", "sent", "received")


def all_groups(browser):
    """All groups of the audit, page by page."""
    for by in ("question", "day"):
        before = {}
        while before is not None:
            told = browser.get("/api/audit", params={"by": by, "limit": 7, **before}).json()
            yield from told["groups"]
            before = None if told["next"] is None else {"before": told["next"]}


def test_groups_add_up_to_the_ledger_of_a_running_node(three, browser):
    path = three.configuration("node0").ledger

    def is_the_same():
        before, groups = ledger.summary(path), list(all_groups(browser))
        told, after = browser.get("/api/audit/totals").json(), ledger.summary(path)
        summed = [sum(getattr(line, name) for line in after) for name in SUMS]
        shown = [sum(group[name] for group in groups) for name in SUMS]
        return before == after and shown == summed == [told[name] for name in SUMS]

    assert wait_for(is_the_same)  # nodes exchange receipts meanwhile


def test_the_ledger_is_verified_on_demand(browser):
    assert browser.post("/api/audit/verification").status_code == 202
    told = wait_for(lambda: (found := browser.get("/api/audit/verification").json())["result"] and found)
    result = told["result"]
    assert (result["whole"], result["findings"], result["signed"], told["checks_signatures"]) == (True, [], True, True)
    assert result["records"] > 0
    assert told["error"] is None


def test_the_ledger_is_given_away_as_a_file_whole_or_of_one_peer(three, browser, tmp_path, degroot):
    for format_, suffix in (("json", "jsonl"), ("csv", "csv")):
        reply = browser.get("/api/audit/export", params={"format": format_})
        assert (reply.status_code, reply.headers["cache-control"]) == (200, "no-store")
        told = reply.headers["content-disposition"]
        assert re.fullmatch(rf'attachment; filename="ledger-node0-\d{{8}}T\d{{6}}Z\.{suffix}"', told)
        (tmp_path / f"whole.{suffix}").write_bytes(reply.content)
    assert len(pd.read_csv(tmp_path / "whole.csv", keep_default_na=False)) > 0
    ca = three.configuration("node0").identity.ca
    code, out, err = degroot("node", "audit", tmp_path / "whole.jsonl", "--verify", "--ca", ca)
    assert (code, "Nothing was changed, and nothing is missing." in out) == (0, True), err
    reply = browser.get("/api/audit/export", params={"peer": "node1"})
    lines = [json.loads(line) for line in reply.text.splitlines()]
    assert "ledger-node0-with-node1-" in reply.headers["content-disposition"]
    assert {line["peer"] for line in lines if line["what"] == "record"} == {"node1"}


def test_trust_over_the_last_questions_adds_up_and_regions_are_its_parts(browser):
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


# Where evidence stays at home


@pytest.fixture(scope="module")
def at_home(tmp_path_factory):
    """Three nodes with their own evidence: node0 has a copy of node1's model, and queries that of node2."""
    may = {"node0": ["query", "copy"], "node1": ["query", "copy"], "node2": ["query"]}
    with Consortium(tmp_path_factory.mktemp("home"), 3, evidence="own", may=may) as made:
        made.port = with_page(made, "node0")
        made.write("node2", may=["query"])
        yield made.fork().ready()


@pytest.fixture(scope="module")
def home(at_home):
    with Browser(at_home, "node0", at_home.port) as made:
        yield made


def test_with_own_evidence_an_answer_is_that_in_one_process_and_says_what_a_consensus_would_need(at_home, home):
    point = [[0.3, -0.2, 0.5]]
    expected = at_home.collective().consult(point, asker="node0", coverage=0.8)
    id_ = home.ask(json={"rows": point, "coverage": 0.8})
    row, about = home.told(id_, "/rows/0"), home.told(id_)
    assert_allclose([row["value"], row["lower"]], [expected.value[0], expected.lower[0]], rtol=1e-9)
    assert row["views"]["consensus"] is row["trust"] is row["rounds"] is None
    assert "evidence = 'pooled', which lets members recover" in about["lacking"]
    assert (about["status"], about["asker"], about["missing"]) == ("done", "node0", [])
    for sent in ({"view": "consensus"}, {"way": "rounds"}):
        reply = home.post("/api/ask", json={"rows": point, **sent})
        assert (reply.status_code, reply.json()["error"]) == (400, about["lacking"])
    page = home.get("/ask").text
    assert ("consensus of all" in page, "guard" in page) == (False, False)
    assert re.search("evidence = &#39;pooled&#39;, which lets members", page)


def test_with_own_evidence_trust_is_how_much_weight_this_nodes_answers_give(at_home, home):
    home.ask(content=CSV, params={"filename": "points.csv"})
    told = home.get("/api/trust").json()
    assert (told["points"] >= 2 * OF_ONE, told["trust"], told["names"]) == (True, None, at_home.names)
    assert_allclose(sum(told["weights"]), 1.0)
    assert all(agent["influence"] > 0.0 for agent in told["agents"])
    assert sum(cell["points"] for cell in told["regions"]["cells"]) == told["points"]
    assert "Who is trusted where" in home.get("/trust").text
    with at_home.connect("node0") as node:
        answer = node.consult(POINTS[:10])
        assert (answer.weights, answer.beliefs) == (None, None)  # what the sample takes is not told to others
    assert home.get("/api/trust").json()["points"] == told["points"] + 10


def test_with_own_evidence_the_state_says_how_models_are_used_and_what_has_left(at_home, home):
    path = at_home.configuration("node0").ledger
    home.ask(json={"rows": [[0, 0, 0]]})
    state = home.get("/api/state").json()
    assert (state["node"]["answering"], state["node"]["needed"]) == (True, None)
    used = {peer["name"]: (peer["use"]["as"], peer["ours"]["copy"]) for peer in state["peers"]}
    assert used == {"node1": ("copy", True), "node2": ("query", False)}
    queried, copied = "seen by node2: its model is queried.", "model of node1 is here as a copy: node1 sees nothing."
    assert state["node"]["witnesses"]["row"] == f"This row will be {queried} The {copied}"
    held = {"node1": state["node"]["model_version"]}

    def shown():
        told = home.get("/api/state").json()["departures"]
        return [f"{each['what']} {each['peer']}{each['why']}" for each in told]

    assert wait_for(lambda: shown() == describe_departures(ledger.summary(path), "node0", held))
    sentences = shown()
    assert "features of 120 rows were sent to node2, for scoring its model" in sentences
    assert f"our model was given as a copy to node1 (it holds version {held['node1']})" in sentences
    assert not any(re.search("evidence|(features|points).*node1", each) for each in sentences)


def test_gains_need_no_pooled_evidence(at_home, home):
    told, expected = home.get("/api/gains").json(), at_home.collective().gains()
    assert_allclose(told["errors"]["collective"]["value"], np.sqrt(expected.collective[0]), rtol=1e-9)


def test_who_asks_about_many_own_rows_is_shown_and_answered_all_the_same(at_home, home):
    assert home.get("/api/state").json()["alerts"] == []
    with at_home.connect("node0") as node:
        node.predict(at_home.agents[0].X[:20])
    (alert,) = wait_for(lambda: home.get("/api/state").json()["alerts"])  # looked at a little later
    assert (alert["caller"], alert["rows"]) == ("analyst", 20)
    assert alert["words"].startswith("analyst has asked about 20 of this node's own rows, exactly as they are (")


def test_a_peer_that_is_gone_and_whose_copy_is_here_is_ready_and_takes_part(at_home, home):
    before = home.told(home.ask(json={"rows": [[0.1, 0.2, 0.3]]}), "/rows/0")
    at_home.kill("node1")
    assert wait_for(lambda: home.peer("node1")["state"] == "ready")
    assert "the copy of its model is here" in home.peer("node1")["reason"]
    after = home.told(home.ask(json={"rows": [[0.1, 0.2, 0.3]]}), "/rows/0")
    assert (after["value"], after["missing"]) == (before["value"], [])
    at_home.kill("node2")
    assert wait_for(lambda: home.peer("node2")["state"] == "down")
    assert home.get("/api/state").json()["node"]["answering"] is True
    assert home.told(home.ask(json={"rows": [[0.1, 0.2, 0.3]]}), "/rows/0")["missing"] == ["node2"]


# Who may


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
    browser.ask(json={"rows": [[0, 0, 0]]}, headers={"Origin": own})  # and waited for: the page takes a few at a time


def test_every_reply_carries_what_browsers_have_to_keep_to(browser):
    there = ("/", "/ask", "/answers/x", "/gains", "/trust", "/audit", "/static/icon.svg", "/api/state")
    for path in (*there, "/nothing", "/api/nothing", "/docs", "/openapi.json"):
        reply = browser.get(path)
        assert reply.status_code == (200 if path in there else 404)
        assert {name: reply.headers.get(name) for name in HEADERS} == HEADERS
    assert browser.get("/api/state").headers["cache-control"] == "no-store"
    assert "default-src 'none'" in HEADERS["Content-Security-Policy"]


def test_files_have_an_address_for_ever_and_nothing_else_can_be_had(browser):
    page = browser.get("/")
    assert page.headers["cache-control"] == "no-store"  # it names whoever is signed in
    (address,) = set(re.findall(r"/static/[0-9a-f]{12}", page.text))
    kept = browser.get(f"{address}/icon.svg")
    assert "immutable" in kept.headers["cache-control"]
    assert browser.get("/static/icon.svg").headers["cache-control"] == "no-cache"
    assert kept.content == browser.get("/static/icon.svg").content
    for path in ("/static/", "/static/../serving.py", "/static/%2e%2e/serving.py", "/static//etc/passwd"):
        assert browser.get(path).status_code == 404
    assert browser.get(f"{address}/nothing").status_code == 404


def test_the_page_is_on_this_machine_only_and_not_where_peers_are(three, browser):
    with pytest.raises(httpx.TransportError):
        httpx.get(f"http://127.0.0.1:{three.ports['node0']}/api/state")
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://127.0.0.2:{three.port}/api/state")


# Mistakes


def test_a_question_that_failed_is_listed_by_its_time_and_says_why_it_has_no_rows(browser):
    failed, done = (browser.ask(json={"rows": [[size] * 3]}) for size in (1e300, 0.0))
    assert [browser.told(id_)["status"] for id_ in (failed, done)] == ["failed", "done"]
    assert [each["id"] for each in browser.get("/api/answers").json()["answers"]][:2] == [done, failed]
    reply = browser.get(f"/api/answers/{failed}/rows/0")
    assert (reply.status_code, browser.told(failed)["error"] in reply.json()["error"]) == (404, True)


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
        ({"json": {"rows": [[1, 2, 3]], "way": 1}}, 400, "`way` must be a string; got '1'."),
        ({"json": {"rows": [[1, 2, 3]], "guard": False}}, 400, "way, coverage, view, purpose only; got 'guard'."),
        ({"content": CSV, "params": {"filename": "a.csv", "guard": "false"}}, 400, "purpose only; got 'guard'."),
        ({"json": {"rows": [[1, 2, 3]], "purpose": "=1+1"}}, 400, "begins with a letter or a digit; got '=1+1'."),
        ({"json": {"rows": [[1, 2, 3]], "purpose": "a\nb"}}, 400, "A purpose must be a line of at most 200"),
        ({"json": {"rows": [[1, 2, 3]], "purpose": 7}}, 400, "`purpose` must be a string; got '7'."),
        ({"content": CSV, "params": {"filename": "a.csv", "purpose": "a" * 201}}, 400, "A purpose must be a line of"),
        ({"json": {"rows": [[1, 2, 3]], "view": "mine"}}, 400, "`view` must be 'own' or 'consensus'; got 'mine'."),
        ({"json": {"rows": [[1, 2, 3]], "view": 1}}, 400, "`view` must be a string or null; got '1'."),
        ({"json": {"rows": [[1, 2, 3]], "view": "own", "way": "rounds"}}, 400, "must be asked for by solving"),
        ({"json": {"rows": [[1, 2, 3]], "coverage": "0.9"}}, 400, "`coverage` must be a number"),
        ({"json": {"rows": [[1, 2, 3]], "coverage": 1.5}}, 400, "got 1.5"),
        ({"json": {"rows": [[1, 2, 3]], "coverage": 0.9, "way": "rounds"}}, 400, "a node's own view, on whose rows"),
        ({"json": {"rows": [[1, 2, 3]], "coverge": 0.9}}, 400, "purpose only; got 'coverge'."),
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
        ("/api/audit?by=week", 400), ("/api/audit?limit=1000000", 400), ("/api/audit?before=x", 400),
        ("/api/audit/records", 400), ("/api/audit/records?day=99999999999999", 400),
        ("/api/audit/records?question=x&offset=-1", 400), ("/api/audit/totals?since=never", 400),
        ("/api/audit/export?format=xml", 400), ("/api/audit/export?peer=nobody", 400), ("/api/ask", 405),
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
        ("port = 8443\nanswer_days = -1", "answer_days"),
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
        told = f"`page.port` must be free; 127.0.0.1:{port}: Address already in use"
        with pytest.raises(InvalidInput, match=re.escape(told)):
            bound(Page(port))


def test_replies_are_sent_at_once():
    (port,) = free_ports(1)
    with bound(Page(port)) as listening:
        assert listening.proto == socket.IPPROTO_TCP  # else asyncio lets the system wait for more, 40 ms a reply


def test_the_command_prints_an_address_with_which_one_may_ask(three, degroot, tmp_path):
    code, out, _ = degroot("node", "page", three.folder / "node0" / "node.toml")
    address, _, token = out.rstrip("\n").partition("#token=")
    assert (code, address) == (0, f"http://127.0.0.1:{three.port}/")
    told = httpx.get(f"{address}api/session", headers={"Authorization": f"Bearer {token}"}).json()
    assert (told["name"], told["may"]) == (OPERATOR, ["look", "ask"])
    code, out, err = degroot("node", "page", three.folder / "node1" / "node.toml")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "[page]" in err


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
    with running(tmp_path, deadline=3.0) as (three, browser):
        three.processes["node1"].send_signal(signal.SIGSTOP)
        assert wait_for(lambda: browser.peer("node1")["state"] == "late")
        three.processes["node1"].send_signal(signal.SIGCONT)
        assert wait_for(lambda: browser.peer("node1")["state"] == "up")
        three.write("node1", ["node2"])  # node0 is not in its roster any more
        assert wait_for(lambda: browser.peer("node1")["state"] == "refused")
        assert "not in the roster" in browser.peer("node1")["reason"]
        three.write("node1")
        assert wait_for(lambda: browser.peer("node1")["state"] == "up")
        version = browser.peer("node2")["model_version"]
        save_linear(three.folder / "node2" / "model.skops", [1.0, 0.5, 0.2, 0.1])
        assert wait_for(lambda: browser.peer("node2")["model_version"] != version)
        assert wait_for(lambda: browser.peer("node2")["state"] == "up")
        three.kill("node2")
        assert wait_for(lambda: browser.peer("node2")["state"] == "down")
        assert browser.get("/api/state").json()["node"]["answering"] is True
        told = browser.told(browser.ask(json={"rows": [[0, 0, 0]]}))
        assert [each["agent"] for each in told["missing"]] == ["node2"]
        row = browser.told(told["id"], "/rows/0")
        assert row["missing"] == ["node2"]
        assert row["agents"][2]["belief"] is None
        assert [each[2] for each in row["rounds"]] == [None] * len(row["rounds"])
        assert_allclose(row["rounds"][-1][0], row["views"]["consensus"]["value"], rtol=1e-5)
        three.kill("node1")
        assert wait_for(lambda: browser.peer("node1")["state"] == "down")
        node = browser.get("/api/state").json()["node"]
        assert (node["answering"], node["consensus"], node["able"]) == (True, False, 1)  # from its own rows
        failed = browser.told(browser.ask(json={"rows": [[0, 0, 0]], "view": "consensus"}))
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
            assert browser.get("/api/session").json() == again.get("/api/session").json()  # tokens outlive the node
            assert (again.told(id_), again.told(id_, "/rows/7")) == (before, row)


@pytest.mark.slow
def test_where_answers_are_not_kept_they_are_seen_and_nothing_is_written(tmp_path):
    with Consortium(tmp_path, 2) as two:
        port, folder = with_page(two, "node0"), tmp_path / "node0" / "state" / "answers"
        two.fork().ready()
        with Browser(two, "node0", port) as page:
            before = page.ask(json={"rows": [[0, 0, 0]]})
        assert [path.stem for path in folder.iterdir()] == [before]
        assert two.kill("node0", signal.SIGTERM) == 0
        port = with_page(two, "node0", page="answer_days = 0")
        two.fork("node0").ready("node0")
        with Browser(two, "node0", port) as page:
            assert wait_for(lambda: not list(folder.iterdir()))
            reply = page.get(f"/api/answers/{before}")
            assert (reply.status_code, "answers are not kept" in reply.json()["error"]) == (404, True)
            id_ = page.ask(json={"rows": [[0, 0, 0]]})
            assert (page.told(id_)["status"], page.told(id_)["kept"]) == ("done", False)
            assert page.told(id_, "/rows/0")["i"] == 0
            assert [each["id"] for each in page.get("/api/answers").json()["answers"]] == [id_]
            assert "Answers are not kept" in page.get("/ask").text
            assert list(folder.iterdir()) == []


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
        told = browser.told(browser.ask(json={"rows": point, "coverage": 0.8}))
        row, expected = browser.told(told["id"], "/rows/0"), three.collective().consult(point, asker="node0")
        assert_allclose(row["value"], expected.value[0], rtol=1e-6)
        assert_allclose([each["belief"] for each in row["agents"]], expected.beliefs[0], rtol=1e-6)
        assert_allclose(row["rounds"][-1], [row["views"]["consensus"]["value"]] * 3, atol=1e-5)
        assert set(row["set"]) <= set(classes)
        assert told["classes"] == classes
        names = pd.DataFrame(browser.told(told["id"], "/download", format="json")).columns
        assert [f"value_{each}" for each in classes] == list(names[3:6])


@pytest.mark.slow
def test_without_a_page_its_packages_are_not_even_imported():
    code = "import sys, degroot.node.server.run; print({'fastapi', 'uvicorn', 'jinja2'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
