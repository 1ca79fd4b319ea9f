"""What a node logs: one JSON line for each event, and never contents."""

import asyncio
import gc
import io
import json
import logging
import sys
import threading
import warnings

import numpy as np
import pytest
from support.consortium import Consortium
from support.drills import points
from support.under_load import read_log

from degroot.node.records.log import capture_libraries, logger

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


@pytest.fixture
def captured():
    """Warnings and messages of libraries as lines of the log, in this test only."""
    handlers = logging.getLogger().handlers
    hooks = sys.excepthook, threading.excepthook, sys.unraisablehook
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        yield lambda: capture_libraries(logger("north"))
    logging.getLogger().handlers = handlers
    sys.excepthook, threading.excepthook, sys.unraisablehook = hooks


def test_warnings_of_libraries_are_lines_of_the_log_each_place_once(captured, capsys):
    captured()
    for _ in range(3):
        np.log(np.full(2, -1.0))
    warnings.warn("two\nlines", UserWarning, stacklevel=1)
    first, second = written(capsys)
    assert (first["event"], first["level"], first["category"]) == ("library warning", "warning", "RuntimeWarning")
    assert "invalid value encountered in log" in first["message"]
    assert second["message"] == repr("two\nlines")


def test_what_libraries_log_is_json_too(captured, capsys):
    captured()

    async def scene():
        async def fail():
            raise ValueError("forgotten")

        task = asyncio.ensure_future(fail())
        await asyncio.sleep(0)
        del task

    asyncio.run(scene())
    logging.getLogger("library").warning("a message of %s", "a library")
    logging.getLogger("library").warning("%d of them", "many")
    logging.getLogger("library").info("said to nobody")
    failed, message, misfit = written(capsys)
    assert misfit["message"] == "%d of them"
    assert (failed["library"], failed["level"]) == ("asyncio", "error")
    assert "ValueError: forgotten" in failed["exception"]
    assert (message["library"], message["message"]) == ("library", "a message of a library")


def fail(rows):
    rows.reshape(7)


class FailingAtTheEnd:
    def __del__(self):
        fail(np.full(2, SECRET))


def test_exceptions_that_nobody_handles_are_lines_of_the_log_without_variables(captured, capsys):
    captured()
    thread = threading.Thread(target=fail, args=(np.full(2, SECRET),), name="worker")
    thread.start()
    thread.join()
    FailingAtTheEnd()
    gc.collect()
    try:
        fail(np.full(2, SECRET))
    except ValueError as error:
        sys.excepthook(ValueError, error, error.__traceback__)
    lines = written(capsys)
    assert [(line["event"], line["level"]) for line in lines] == [("unhandled exception", "error")] * 3
    assert all("in fail" in line["exception"] and "cannot reshape" in line["exception"] for line in lines)
    assert str(SECRET) not in json.dumps(lines)
    assert (lines[0]["thread"], lines[1]["ignored_in"]) == ("worker", "FailingAtTheEnd.__del__")


def test_who_stops_a_process_or_a_thread_is_no_failure(captured, capsys, monkeypatch):
    shown = []
    monkeypatch.setattr(sys, "__excepthook__", lambda *failed: shown.append(failed[0]))
    captured()
    thread = threading.Thread(target=sys.exit)
    thread.start()
    thread.join()
    sys.excepthook(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert written(capsys) == []
    assert shown == [KeyboardInterrupt]


def warn_often(_folder):
    """In a node's process: the model makes numpy warn whenever it is asked, and so does all that comes after it."""
    from sklearn.linear_model import LinearRegression

    predict = LinearRegression.predict

    def predict_with_warnings(self, X):
        np.log(np.full(2, -1.0))
        np.float64(1.0) / np.zeros(1)
        warnings.warn("as\nlibraries do", FutureWarning, stacklevel=2)
        logging.getLogger("library").error("an error\nof two lines")
        return predict(self, X)

    LinearRegression.predict = predict_with_warnings


def test_a_nodes_log_stays_json_whatever_its_model_warns_of(tmp_path):
    with Consortium(tmp_path, 2) as consortium:
        consortium.fork(before=warn_often).ready()
        with consortium.connect() as node:
            node.consult(points(3))
        for name in consortium.names:
            categories = {line["category"] for line in read_log(consortium, name, "library warning")}
            assert {"RuntimeWarning", "FutureWarning"} <= categories
            assert read_log(consortium, name, "library message")[0]["message"] == repr("an error\nof two lines")
