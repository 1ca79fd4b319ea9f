"""The dashboard and the alert rules: they ask only for what a node tells, and the rules fire when they should."""

import json
import re
import shutil
import subprocess
import sys
import urllib.request
from itertools import combinations
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from support.consortium import Consortium, free_ports
from support.drills import points, until

from degroot.exceptions import DeGrootError
from degroot.node.server.health import TROUBLES

promql = pytest.importorskip("promql_parser", reason="promql-parser is not installed: pip install promql-parser")

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "alerts.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "degroot.json"
CASES = Path(__file__).parent / "alerts.test.yml"
OF_PROMETHEUS = {"up"}  # which Prometheus itself knows of every target
TARGET_LABELS = {"instance", "job"}
PROMTOOL = shutil.which("promtool") or shutil.which("promtool", path=Path(sys.executable).parent)


def read_rules():
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    return group["rules"]


def read_panels():
    return json.loads(DASHBOARD.read_text())["panels"]


def list_queries():
    """Every query, and the texts in which its labels are named."""
    for rule in read_rules():
        yield rule["expr"], " ".join(rule["annotations"].values()).replace("$labels.", "")
    for panel in read_panels():
        for target in panel.get("targets", ()):
            yield fill_in(target["expr"]), target["legendFormat"]


def fill_in(query):
    """A query of the dashboard as Grafana sends it."""
    return query.replace("$__rate_interval", "5m").replace("$instance", ".*")


def find_parts(parsed, kind):
    """All parts of a query that are of a kind."""
    found = [parsed] if isinstance(parsed, kind) else []
    for name in ("expr", "lhs", "rhs", "param", "vector_selector"):
        found += find_parts(getattr(parsed, name), kind) if getattr(parsed, name, None) is not None else []
    return found + [each for argument in getattr(parsed, "args", ()) for each in find_parts(argument, kind)]


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What a node tells, after a question and a refusal: the labels of each metric, with their values."""
    (port,) = free_ports(1)
    with Consortium(tmp_path_factory.mktemp("told"), 2) as consortium:
        consortium.write("node0", limits=f"[metrics]\nport = {port}", may={"node1": ["query", "opinion"]})
        consortium.fork().ready()
        with consortium.connect("node0") as node:
            node.consult(points(2))
            node.consult(consortium.agents[0].X[:1])  # one of its own rows, which is counted
        with consortium.connect("node0", caller="node1", view="own") as node:
            until(lambda: is_refused(node), "a peer is let in that may not ask")
        address = f"http://127.0.0.1:{port}/metrics"
        text = until(lambda: (read := read_page(address)).count("degroot_own_rows_asked{") and read, "not counted")
    labels = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            for name, value in sample.labels.items():
                labels.setdefault(sample.name, {}).setdefault(name, set()).add(value)
            labels.setdefault(sample.name, {})
    return labels


def read_page(address):
    return urllib.request.urlopen(address, timeout=60).read().decode()


def is_refused(node):
    try:
        node.consult(points(1))
    except DeGrootError as error:
        return "must have the right 'ask'" in str(error)


def test_every_metric_that_is_asked_for_is_told_with_these_labels(told):
    seen = set()
    for query, text in list_queries():
        parsed = promql.parse(query)
        selectors = find_parts(parsed, promql.VectorSelector)
        assert selectors, query
        for selector in selectors:
            seen.add(selector.name)
            if selector.name in OF_PROMETHEUS:
                continue
            assert selector.name in told, f"{query}: a node does not tell {selector.name}"
            asked = {matcher.name for matcher in selector.matchers.matchers}
            assert asked <= told[selector.name].keys() | TARGET_LABELS, query
            named = {name for each in find_parts(parsed, promql.AggregateExpr) for name in each.modifier.labels}
            named |= set(re.findall(r"{{ ?(\w+) ?}}", text))
            assert named <= told[selector.name].keys() | TARGET_LABELS, query
    assert {"degroot_ready", "degroot_rows_total", "process_resident_memory_bytes", "up"} <= seen


def test_values_that_are_asked_for_are_told(told):
    assert told["degroot_trouble"]["kind"] == set(TROUBLES)
    for query, _ in list_queries():
        for selector in find_parts(promql.parse(query), promql.VectorSelector):
            for matcher in selector.matchers.matchers:
                if (selector.name, matcher.name) in (("degroot_trouble", "kind"), ("degroot_peers", "state")):
                    assert set(matcher.value.split("|")) <= told[selector.name][matcher.name], query


def test_every_rule_says_how_bad_it_is_and_what_is_the_matter():
    rules = read_rules()
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert re.search(r"{{ \$labels\.\w+ }}", rule["annotations"]["summary"])


def test_the_dashboard_is_laid_out_without_gaps_in_its_ids_and_overlaps():
    board = json.loads(DASHBOARD.read_text())
    panels = board["panels"]
    assert (board["uid"], board["title"]) == ("degroot", "degroot")
    assert [panel["id"] for panel in panels] == list(range(1, len(panels) + 1))
    assert {variable["name"] for variable in board["templating"]["list"]} == {"datasource", "instance"}
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] >= 0
        assert place["x"] + place["w"] <= 24
        if panel["type"] == "row":
            continue
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert [target["refId"] for target in panel["targets"]] == list("ABC")[: len(panel["targets"])]
        assert all('instance=~"$instance"' in target["expr"] for target in panel["targets"])
    for one, other in combinations(panels, 2):
        a, b = one["gridPos"], other["gridPos"]
        beside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        assert beside or a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"], (one["title"], other["title"])


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed: make linters")
@pytest.mark.parametrize("command", [("check", "rules", "--lint-fatal", RULES), ("test", "rules", CASES)])
def test_promtool_passes_the_rules_and_they_fire_when_they_should(command):
    done = subprocess.run([PROMTOOL, *command], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
