"""Drills of the state folder with real nodes: what is damaged is scored anew, what has changed is told."""

import json
import signal

import httpx
import numpy as np
from support.consortium import Consortium, free_ports
from support.drills import points, queried, until

from degroot.node.config import read
from degroot.node.server.data_watch import DataWatch


def lines(consortium, name, event):
    found = [json.loads(line) for line in consortium.log(name).splitlines() if line.startswith("{")]
    return [each for each in found if each["event"] == event]


def consult(consortium, X):
    with consortium.connect("node0", caller="node0") as node:
        return node.consult(X).value


def test_damaged_residuals_are_scored_anew_and_answers_stay_what_they_were(tmp_path):
    X, event = points(7), "damaged residuals are scored anew"
    with Consortium(tmp_path, 3, evidence="own") as consortium:
        consortium.fork().ready()
        before = consult(consortium, X)
        assert consortium.kill("node0", signal.SIGTERM) == 0
        cut, changed = sorted((tmp_path / "node0" / "state" / "residuals").glob("*/*.npy"))
        content = bytearray(changed.read_bytes())
        content[-3] ^= 64  # which changes a number by far
        changed.write_bytes(content)
        cut.write_bytes(cut.read_bytes()[:500])
        consortium.fork("node0").ready()
        np.testing.assert_array_equal(consult(consortium, X), before)
        told = [(each["peer"], each["file"], each["reason"]) for each in lines(consortium, "node0", event)]
        size = len(content)
        assert sorted(told) == [
            ("node1", str(cut), f"it has 500 bytes instead of {size}"),
            ("node2", str(changed), "its checksum does not match"),
        ]
        assert "Traceback" not in consortium.log("node0")
        n = len(consortium.agents[0].X)
        assert [queried(consortium, name)["node0"] for name in ("node1", "node2")] == [2 * n] * 2
        assert queried(consortium, "node1")["node2"] == len(consortium.agents[2].X), "nothing else is scored again"


def test_data_that_change_while_the_node_runs_are_told_and_not_taken_in(tmp_path):
    X, (port,) = points(7), free_ports(1)

    def find_metric():
        text = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=60).text
        return next(line for line in text.splitlines() if line.startswith("degroot_data_changed "))

    with Consortium(tmp_path, 2, evidence="own") as consortium:
        consortium.write("node0", limits=f"[metrics]\nport = {port}")
        consortium.fork().ready()
        before, rows = consult(consortium, X), tmp_path / "node0" / "rows.csv"
        content = rows.read_bytes()
        assert find_metric() == "degroot_data_changed 0.0"
        rows.write_bytes(content + content.splitlines(keepends=True)[-1])
        until(lambda: find_metric() == "degroot_data_changed 1.0", "the metric says so")
        np.testing.assert_array_equal(consult(consortium, X), before)
        rows.write_bytes(content)
        until(lambda: find_metric() == "degroot_data_changed 0.0", "the metric says so")
        told = lines(consortium, "node0", "the data have changed: restart the node to take them in")
        assert [each["file"] for each in told] == [str(rows)]
        np.testing.assert_array_equal(consult(consortium, X), before)


def test_data_are_changed_when_their_content_is(tmp_path):
    for name in ("rows.csv", "schema.toml"):
        (tmp_path / name).write_text(name)
    path = tmp_path / "north.toml"
    path.write_text(
        'name = "north"\nlisten = "127.0.0.1:7443"\nstate = "state"\n[model]\nfile = "model.skops"\n'
        '[data]\nfile = "rows.csv"\nschema = "schema.toml"\n'
    )
    source = read(path).data
    watch = DataWatch(source)
    assert watch.find_changed() == ()
    (tmp_path / "new").write_text("rows.csv")
    (tmp_path / "new").replace(source.file)  # as an export every night, which finds nothing new
    assert watch.find_changed() == ()
    source.file.write_text("others")
    source.schema.unlink()
    assert watch.find_changed() == (source.file, source.schema)
    source.file.write_text("rows.csv")
    assert watch.find_changed() == (source.schema,)
