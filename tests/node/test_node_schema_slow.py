"""Nodes by a schema, at length: what was trained, copies of models, pooled evidence and maps, and models of frames."""

import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
import skops.io
from numpy.testing import assert_allclose
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from support import schema_liars
from support.consortium import PATIENCE, free_ports
from support.processes import wait_for
from support.tables import SCHEMA, SchemaConsortium, encode, make_table, train_without_gaps
from test_node_schema import POINTS, same

from degroot import Agent, Collective, DeGrootError, InvalidInput, connect
from degroot.models.forms import form_by_schema
from degroot.schema import Column, Schema, read_schema

pytestmark = pytest.mark.slow

NAMES = ("north", "south", "west")
CLI = "from degroot.cli import main; main()"


def run(*arguments):
    done = subprocess.run([sys.executable, "-c", CLI, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_nodes_of_what_was_trained_answer_as_predict_does(tmp_path):
    for k, name in enumerate(NAMES):
        table, y = make_table(k, 120)
        table = table.drop(columns="grade") if name == "west" else table
        table.assign(cost=y, id=[f"{name}-{n}" for n in range(120)]).to_csv(tmp_path / f"{name}.csv", index=False)
    (tmp_path / "schema.toml").write_text(SCHEMA.to_toml())
    trained, table = tmp_path / "out", make_table(50, 25)[0]
    files = [tmp_path / f"{name}.csv" for name in NAMES]
    (tmp_path / "west.toml").write_text('absent = ["grade"]\n')
    site = f"west={tmp_path / 'west.toml'}"
    run("train", *files, "--schema", tmp_path / "schema.toml", "--site", site, "--out", trained)
    document = trained / "collective.toml"
    document.write_text("guard = true\n" + document.read_text())  # as nodes are, which may lie
    ports, processes = dict(zip(NAMES, free_ports(3), strict=True)), []
    try:
        for name in NAMES:
            peers = [f"--peer={other}@127.0.0.1:{ports[other]}" for other in NAMES if other != name]
            run("node", "init", name, "--trained", trained, f"--listen=127.0.0.1:{ports[name]}", *peers)
            file = trained / name / f"{name}.toml"
            assert read_schema(trained / name / "schema.toml") == SCHEMA
            text = file.read_text()  # whose page would take a port that others may have
            file.write_text(text.replace(text[text.index("[page]") : text.index("# [metrics]")], ""))
            run("node", "check", file, "--insecure-loopback")
            command = [sys.executable, "-c", CLI, "node", "run", str(file), "--insecure-loopback"]
            with (trained / name / "log").open("wb") as log:
                processes.append(subprocess.Popen(command, stderr=log))
        for name in NAMES:
            asked = tmp_path / f"new-{name}.csv"
            (table.drop(columns="grade") if name == "west" else table).to_csv(asked, index=False)
            run("predict", "--collective", trained, "--input", asked, "--output", tmp_path / "one.csv", "--asker", name)
            file = trained / name / f"{name}.toml"
            wait_until_ready(name, ports[name])
            options = ("--config", file, "--insecure-loopback", name, "--output", tmp_path / "nodes.csv")
            run("ask", "--input", asked, *options)
            one, nodes = pd.read_csv(tmp_path / "one.csv"), pd.read_csv(tmp_path / "nodes.csv")
            assert_allclose(nodes["value"], one["value"], rtol=1e-9, atol=1e-9)
    finally:
        for process in processes:
            process.kill()
            process.wait()


def wait_until_ready(name, port):
    until = time.monotonic() + PATIENCE
    while True:
        try:
            with connect(f"127.0.0.1:{port}", insecure_loopback=name) as node:
                if set(node.members.values()) == {"ready"}:
                    return
        except DeGrootError:
            pass
        assert time.monotonic() < until
        time.sleep(0.2)


def test_copies_take_gaps_and_abstain_as_their_owners_models_do(tmp_path):
    trainers = {"node1": train_without_gaps}
    with SchemaConsortium(tmp_path, 3, trainers=trainers, may=["query", "copy"], use=["copy"]) as made:
        table, y = make_table(5, 80)
        made.put("node2", table.drop(columns="weight"), y, data='absent = ["weight"]\n')
        made.fork().ready()
        for name in made.names:
            with made.connect(name, caller=name) as node:
                same(
                    node.consult(POINTS, coverage=0.8),
                    made.collective().consult(encode(POINTS), asker=name, coverage=0.8),
                )
        assert '"copy": true, "event": "calibrated"' in made.log("node0")


@pytest.mark.parametrize("rule", ["degroot", "stacking"])
def test_pooled_evidence_takes_gaps_and_no_missing_columns(tmp_path, rule):
    settings = f'rule = "{rule}"'
    with SchemaConsortium(
        tmp_path, 4, trainers={"node1": train_without_gaps}, evidence="pooled", settings=settings
    ) as made:
        made.fork().ready()
        expected = Collective(made.agents, rule=rule, guard=True).consult(encode(POINTS))
        with made.connect("node0", view="consensus") as node:
            answer = node.consult(POINTS)
            same(answer, expected, ("value", "weights", "standard_error"))
            assert {flag.agent for flag in answer.flags if flag.kind == "abstains"} == {"node1"}
            with pytest.raises(InvalidInput, match="must be asked about points with all columns; these lack 'weight'"):
                node.consult(POINTS.drop(columns="weight"))
        with made.connect("node0", view="consensus", way="rounds") as node:
            with pytest.raises(InvalidInput, match="without gaps"):
                node.consult(POINTS)
            whole = POINTS.dropna()
            expected = Collective(made.agents, rule=rule, guard=True).consult(encode(whole))
            if rule == "degroot":
                assert_allclose(node.consult(whole).value, expected.value, rtol=1e-6)


def test_a_node_that_lacks_columns_keeps_its_evidence_to_itself(tmp_path, degroot):
    with SchemaConsortium(tmp_path, 3, evidence="pooled") as made:
        table, y = make_table(5, 80)
        made.put("node2", table.drop(columns="weight"), y, data='absent = ["weight"]\n')
        code, out, _ = degroot("node", "check", made.folder / "node2" / "node.toml")
        assert code == 2
        assert "`evidence` must be 'own' where rows lack columns; got 'pooled'" in out


def test_a_model_of_frames_is_queried_and_not_copied(tmp_path, degroot):
    """A pipeline that was trained on a frame with texts."""
    with SchemaConsortium(tmp_path, 3, may=["query", "copy"]) as made:
        table, y = make_table(9, 100)
        form = form_by_schema(SCHEMA)
        frame = form.restore(encode(table), SCHEMA)
        texts, numbers = ["sex", "grade"], ["age", "weight"]
        model = make_pipeline(
            ColumnTransformer(
                [
                    ("texts", OneHotEncoder(handle_unknown="ignore"), texts),
                    ("numbers", SimpleImputer(), numbers),
                ]
            ),
            Ridge(),
        ).fit(frame, y)
        made.put("node2", table, y, lambda X, y: train_without_gaps(X, y))
        skops.io.dump(model, made.folder / "node2" / "model.skops")
        path = made.folder / "node2" / "node.toml"
        path.write_text(path.read_text().replace('file = "model.skops"', 'file = "model.skops"\ninput = "frame"'))
        _, out, _ = degroot("node", "check", path)
        assert "the model cannot be copied by node0, node1" in out
        assert "takes frames or categories of its own" in out
        agent = Agent(model, frame, y, "node2", schema=SCHEMA)
        agents = [*(each for each in made.agents if each.name != "node2"), agent]
        made.fork().ready()
        assert '"copy": true' not in [line for line in made.log("node0").splitlines() if '"node2"' in line]
        for name in ("node0", "node2"):
            with made.connect(name, caller=name) as node:
                same(
                    node.consult(POINTS),
                    Collective(agents, guard=True).consult(encode(POINTS), asker=name),
                    ("value", "weights"),
                )


def try_to(ask, points):
    """What is answered, once that can be."""
    try:
        return ask(points)
    except DeGrootError:
        return None


def test_maps_take_gaps(tmp_path):
    schema = Schema((Column("age", range=(0.0, 120.0)), Column("sex", "category", ("female", "male"))), SCHEMA.target)
    maps = (
        "ranges = { age = [0, 120], sex = [0, 1] }\nresidual_bound = 60.0\nrows = 1100\nepsilon = 8.0\n"
        "lifetime_epsilon = 16.0\n"
    )
    with SchemaConsortium(tmp_path, 3, evidence="maps", maps=maps, n=20) as made:
        for k, name in enumerate(made.names):
            table, y = make_table(k, 1100)
            made.put(name, table[["age", "sex"]], y, schema=schema)
        made.fork()
        asked = POINTS[["age", "sex"]]
        with made.connect("node0", caller="node0", view="consensus") as node:
            answer = wait_for(lambda: try_to(node.consult, asked), seconds=PATIENCE)
        assert np.isfinite(answer.value).all()
        beliefs = np.stack([agent.predict(encode(asked, schema)) for agent in made.agents], axis=1)
        assert_allclose((answer.weights * beliefs).sum(axis=1), answer.value)


@pytest.mark.parametrize("lie", [schema_liars.tell_bogus_schema, schema_liars.tell_huge_schema])
def test_a_peer_with_a_bogus_schema_is_left_out_in_one_line(tmp_path, lie):
    with SchemaConsortium(tmp_path, 4) as made:
        made.fork("node3", before=lie)
        made.connect("node3", caller="node3").close()
        honest = ("node0", "node1", "node2")
        made.fork(*honest).ready("node0", among=honest)
        with made.connect("node0", caller="node0") as node:
            reason = wait_for(lambda: (told := node.members["node3"]).startswith("schema differs") and told)
            assert reason.isprintable()
            assert len(reason) < 500
            others = Collective([each for each in made.agents if each.name != "node3"], guard=True)
            answer, expected = node.consult(POINTS), others.consult(encode(POINTS), asker="node0")
            assert_allclose(answer.value, expected.value, rtol=1e-9)
            assert {flag.agent for flag in answer.flags if flag.kind == "missing"} == {"node3"}
        for line in made.log("node0").splitlines():
            assert line.isprintable()
            assert len(line) < 2000


def test_a_peer_that_predicts_nan_where_it_does_not_abstain_is_a_bad_reply(tmp_path):
    trainers = {"node2": train_without_gaps}
    with SchemaConsortium(tmp_path, 3, trainers=trainers) as made:
        made.fork("node2", before=schema_liars.claim_to_take_gaps)
        made.fork("node0", "node1")
        with made.connect("node0", caller="node0") as node:
            reason = wait_for(lambda: node.members["node1"] == "ready" and node.members["node2"])
            wait_for(lambda: "must be finite" in node.members["node2"])
            answer = node.consult(POINTS)
            expected = Collective(made.agents[:2], guard=True).consult(encode(POINTS), asker="node0")
            assert_allclose(answer.value, expected.value, rtol=1e-9)
            assert {flag.agent for flag in answer.flags if flag.kind == "missing"} == {"node2"}, reason
