"""What a node logs: one JSON line for each event, and never contents."""

import io
import json
import sys

import numpy as np

from degroot.node.records.log import logger

SECRET = 123.456


def written(capsys):
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_an_event_is_one_json_line(capsys):
    logger("north").info("peer is ready", peer="south", rows=np.int64(1000), seconds=0.25, missing={"west", "east"})
    logger("north").warning("peer is late", peer="south\nwest")
    first, second = written(capsys)
    assert (first["event"], first["level"], first["logger"]) == ("peer is ready", "info", "north")
    assert (first["peer"], first["rows"], first["seconds"]) == ("south", 1000, 0.25)
    assert first["missing"] == ["east", "west"]
    assert second["level"] == "warning"


def test_contents_are_not_written(capsys):
    rows = np.full((2, 3), SECRET)
    logger("north").info(
        "asked", rows=rows, labels=list(rows[0]), reply=rows.tobytes(), by_name={"y": SECRET}, nested=[["a", SECRET]]
    )
    (line,) = written(capsys)
    assert str(SECRET) not in json.dumps(line)
    assert line["rows"] == "<ndarray of shape (2, 3)>"
    assert line["labels"] == "<list of length 3>"


def test_a_traceback_shows_no_variables(capsys):
    rows = np.full(2, SECRET)
    try:
        rows.reshape(7)
    except ValueError:
        logger("north").exception("failed")
    (line,) = written(capsys)
    assert "ValueError" in line["exception"]
    assert str(SECRET) not in line["exception"]


def test_long_texts_are_cut(capsys):
    logger("north").info("asked", reason="x" * 10_000, peers=["south"] * 10_000)
    (line,) = written(capsys)
    assert len(json.dumps(line)) < 3000


def test_numbers_that_json_does_not_have_are_words(capsys):
    logger("north").info("asked", worst=float("inf"))
    assert written(capsys)[0]["worst"] == "inf"


def test_a_node_outlives_its_reader(monkeypatch):
    class Broken:
        def isatty(self):
            return False

        def write(self, *_):
            raise BrokenPipeError

        flush = write

    log = logger("north")
    for stderr in (Broken(), None):
        monkeypatch.setattr(sys, "stderr", stderr)
        log.info("asked")
        logger("south").info("asked")
    readable = io.StringIO()
    monkeypatch.setattr(sys, "stderr", readable)
    log.info("asked again")
    assert "asked again" in readable.getvalue()
