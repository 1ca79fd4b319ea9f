"""A model in a process of its own answers as it would in this one, and harms nobody."""

import os
import pickle
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import cache
from pathlib import Path
from threading import current_thread

import lightgbm
import numpy as np
import onnx
import pandas as pd
import pytest
import xgboost
from numpy.testing import assert_array_equal
from onnx import TensorProto, helper
from skl2onnx import to_onnx
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.tree import DecisionTreeClassifier
from skops.io import dumps
from support.refusals import complaint

from degroot import InvalidInput
from degroot.agents.classification import probabilities
from degroot.exceptions import DeGrootError
from degroot.models import check_features, sandbox
from degroot.models import sandbox_worker as worker
from degroot.models.formats import open_content
from degroot.models.sandbox import (
    SandboxedClassifier,
    SandboxedModel,
    SandboxError,
    SandboxLimitExceeded,
    open_in_sandbox,
)

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(90, 3))
Y = X @ [1.0, -2.0, 0.5] + 0.1 * RANDOM.normal(size=90)
NUMBERS = np.digitize(Y, [-1.0, 1.0])
LABELS = np.array(["low", "mid", "très haut"])[NUMBERS]
NAMES = ["a b", "c", "d"]
FEW = {"n_estimators": 4, "n_jobs": 1}
LIMITS = {"memory_bytes": 1 << 29, "seconds": 60.0}  # a busy machine is slow
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def skops(model, labels=Y, rows=X):
    return ".skops", dumps(model.fit(rows, labels)), None


def light(kind, labels, classes=None):
    model = kind(verbose=-1, **FEW).fit(pd.DataFrame(X, columns=NAMES), labels)
    return ".txt", model.booster_.model_to_string().encode(), classes


def extreme(kind, labels, classes=None, written="ubj", **options):
    model = kind(**FEW, **options).fit(X, labels)
    return f".{written}", bytes(model.get_booster().save_raw(written)), classes


def exported(model, labels, **options):
    rows = X.astype(np.float32)
    model.fit(rows, labels)
    made = to_onnx(model, rows[:1], options={id(model): options} if options else None)
    return ".onnx", made.SerializeToString(), None


def without_probabilities(suffix, content, classes):
    model = onnx.load_model_from_string(content)
    del model.graph.output[1:]
    return suffix, model.SerializeToString(), classes


MAKE = {  # a file of each case
    "skops": lambda: skops(LinearRegression(), np.column_stack([Y, -Y]), pd.DataFrame(X, columns=NAMES)),
    "skops, text": lambda: skops(LogisticRegression(), LABELS),
    "skops, whole numbers, labels only": lambda: skops(RidgeClassifier(), 3 * NUMBERS),
    "skops, booleans": lambda: skops(DecisionTreeClassifier(max_depth=3), Y > 0),
    "lightgbm": lambda: light(lightgbm.LGBMRegressor, Y),
    "lightgbm, text": lambda: light(lightgbm.LGBMClassifier, NUMBERS, ["low", "mid", "top"]),
    "xgboost": lambda: extreme(xgboost.XGBRegressor, np.column_stack([Y, -Y])),
    "xgboost, linear": lambda: extreme(xgboost.XGBRegressor, Y, written="json", booster="gblinear"),
    "xgboost, booleans": lambda: extreme(xgboost.XGBClassifier, Y > 0, [False, True]),
    "onnx": lambda: exported(LinearRegression(), Y),
    "onnx, text": lambda: exported(LogisticRegression(), LABELS),
    "onnx, text, labels only": lambda: without_probabilities(*exported(LogisticRegression(), LABELS)),
    "onnx, whole numbers": lambda: exported(LogisticRegression(), NUMBERS, zipmap=False),
}
SLOW = ("skops, text", "skops, whole numbers, labels only", "skops, booleans", "xgboost, linear", "xgboost, booleans")


@cache
def file_of(case):
    return MAKE[case]()


@pytest.fixture(scope="module")
def models():
    """Each case in this process and in one of its own, opened when it is used, from a thread that is gone then."""
    opened = {}

    def open_both(case):
        if case not in opened:
            suffix, content, classes = file_of(case)
            here = open_content(Path(f"model{suffix}"), content, classes)[0]
            with ThreadPoolExecutor(1) as pool:
                opened[case] = here, pool.submit(open_in_sandbox, suffix, content, classes, **LIMITS).result()
        return opened[case]

    yield open_both
    for _, model in opened.values():
        model.close()


def in_chunks(ask, rows):
    return np.concatenate([ask(rows[k : k + sandbox.CHUNK_ROWS]) for k in range(0, len(rows), sandbox.CHUNK_ROWS)])


# -- the same answers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [pytest.param(case, marks=[pytest.mark.slow] * (case in SLOW)) for case in MAKE])
def test_it_answers_as_in_this_process(models, case):
    here, there = models(case)
    for rows in (X, X[:1], np.asfortranarray(X)):
        assert_array_equal(there.predict(rows), here.predict(rows), strict=here.predict(rows).dtype.kind != "U")
        assert there.predict(rows).dtype.kind == here.predict(rows).dtype.kind
        if hasattr(here, "predict_proba"):
            assert_array_equal(there.predict_proba(rows), here.predict_proba(rows), strict=True)
    many = RANDOM.normal(size=(2 * sandbox.CHUNK_ROWS + 1, 3))
    assert_array_equal(there.predict(many), in_chunks(here.predict, many))
    assert type(there) is (SandboxedClassifier if hasattr(here, "predict_proba") else SandboxedModel)
    assert there.n_features_in_ == getattr(here, "n_features_in_", None)
    assert there.feature_names_in_ == getattr(here, "feature_names_in_", None)
    assert hasattr(there, "classes_") == hasattr(here, "classes_")
    if hasattr(here, "classes_"):
        assert there.classes_.tolist() == here.classes_.tolist()
        assert there.classes_.dtype.kind == here.classes_.dtype.kind
        assert_array_equal(*(probabilities(each, X, here.classes_, InvalidInput) for each in (there, here)))


def test_frames_and_sparse_rows_are_taken_as_numbers(models):
    from scipy.sparse import csr_array

    _, model = models("lightgbm")
    assert_array_equal(model.predict(pd.DataFrame(X, columns=["a_b", "c", "d"])), model.predict(X))
    assert_array_equal(model.predict(csr_array(X)), model.predict(X))
    check_features(model, NAMES)
    assert "'c' in the model" in complaint(lambda: model.predict(pd.DataFrame(X, columns=["a_b", "d", "c"])))
    assert "takes 3 features; the rows have 2" in complaint(lambda: model.predict(X[:, :2]))
    assert "must be 2-dimensional" in complaint(lambda: model.predict(X[0]))


def test_eight_threads_at_once(models):
    here, there = models("lightgbm, text")
    expected = here.predict_proba(X)

    def ask(seed):
        rows = np.random.default_rng(seed).integers(0, len(X), size=(20, 5))
        return all(np.array_equal(there.predict_proba(X[each]), here.predict_proba(X[each])) for each in rows)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(8)))
    assert_array_equal(there.predict_proba(X), expected)


def test_what_the_model_raises_is_told_and_does_not_end_it(models):
    _, model = models("skops")
    before = model.pid
    for _ in range(5):
        with pytest.raises(SandboxError, match=r"^raised ValueError: Input X contains NaN$"):
            model.predict(np.full((1, 3), np.nan))
    assert np.isfinite(model.predict(X)).all()
    assert model.pid == before


# -- files that cannot be opened ---------------------------------------------------------------------------------------


def refusal(*file, **limits):
    with pytest.raises(SandboxError) as caught:
        open_in_sandbox(*file, **LIMITS | limits)
    assert isinstance(caught.value, DeGrootError)
    assert "\n" not in str(caught.value)
    assert "/" not in str(caught.value)
    return str(caught.value)


def test_files_that_cannot_be_opened():
    suffix, content, _ = file_of("lightgbm")
    assert refusal(suffix, content[:600]).startswith("cannot be opened: a text file of LightGBM must be whole; ")
    assert refusal(".onnx", b"no model").startswith("cannot be opened: ")
    assert refusal(".pkl", pickle.dumps(1)).startswith(
        "cannot be opened: the name of its file must end in one of .onnx"
    )
    assert "text, numbers or booleans" in complaint(lambda: open_in_sandbox(".onnx", b"any", [b"a"], **LIMITS))


@pytest.mark.slow
def test_other_files_that_cannot_be_opened():
    assert refusal(".ubj", file_of("xgboost")[1][:-30]).startswith("cannot be opened: XGBoostError: ")
    assert "must come with a classifier" in refusal(*file_of("onnx")[:2], ["no", "yes"])
    assert "must be 3 different labels" in refusal(*file_of("lightgbm, text")[:2], ["no", "yes"])


def test_paths_of_this_machine_are_not_told():
    told = "OSError: '/home/me/file.txt' and /usr/lib/x.so: see https://a.org/b/c or a/b, 1/2"
    assert sandbox.PATHS.sub(r"\1", told) == "OSError: 'file.txt' and x.so: see https://a.org/b/c or a/b, 1/2"


# -- files that are slow or eat memory ---------------------------------------------------------------------------------


def costly_model():
    """An ONNX model that goes round a loop as often as the first feature says, and makes an array as long as the
    second; its answer is the third."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["on"], ["still"]), helper.make_node("Identity", ["sum"], ["next"])],
        "body",
        [
            helper.make_tensor_value_info("k", TensorProto.INT64, []),
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("sum", TensorProto.DOUBLE, [1]),
        ],
        [
            helper.make_tensor_value_info("still", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.DOUBLE, [1]),
        ],
    )

    def constant(name, values, kind=TensorProto.INT64, shape=None):
        return helper.make_tensor(name, kind, [len(values)] if shape is None else shape, values)

    nodes = [
        helper.make_node("ReduceMax", ["x"], ["largest"], axes=[0], keepdims=0),
        helper.make_node("Cast", ["largest"], ["whole"], to=TensorProto.INT64),
        helper.make_node("Gather", ["whole", "zero"], ["rounds"]),
        helper.make_node("Gather", ["whole", "one"], ["length"], axis=0),
        helper.make_node(
            "ConstantOfShape", ["length"], ["long"], value=helper.make_tensor("v", TensorProto.DOUBLE, [1], [0.0])
        ),
        helper.make_node("ReduceSum", ["long"], ["nothing"], keepdims=1),
        helper.make_node("Loop", ["rounds", "true", "nothing"], ["looped"], body=body),
        helper.make_node("Gather", ["x", "two"], ["column"], axis=1),
        helper.make_node("Add", ["column", "looped"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "costly",
        [helper.make_tensor_value_info("x", TensorProto.DOUBLE, [None, 3])],
        [helper.make_tensor_value_info("y", TensorProto.DOUBLE, [None, 1])],
        [
            constant("zero", [0], shape=[]),
            constant("one", [1]),
            constant("two", [2]),
            constant("true", [True], TensorProto.BOOL, []),
        ],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(made)
    return made.SerializeToString()


COSTLY = costly_model()
CHEAP, ENDLESS, HUGE = ([[1.0, 1.0, 7.0]], [[1e18, 1.0, 7.0]], [[1.0, 1e11, 7.0]])


@pytest.fixture
def costly():
    with closing(open_in_sandbox(".onnx", COSTLY, **LIMITS)) as model:
        assert model.predict(CHEAP).tolist() == [7.0]
        yield model


def has_ended(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def wait_until(condition):
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("it has not come to pass within a minute")


@LINUX
def test_a_question_that_takes_too_long_is_ended_and_the_next_is_answered(costly):
    before, costly.seconds = costly.pid, 0.3
    with pytest.raises(SandboxLimitExceeded, match=r"^took more than 0\.3 s$") as caught:
        costly.predict(ENDLESS)
    assert caught.value.limit == "seconds"
    wait_until(lambda: has_ended(before))
    costly.seconds = 60.0
    assert costly.predict(CHEAP).tolist() == [7.0]
    assert costly.pid != before


@LINUX
def test_memory_is_limited_and_told(costly):
    with pytest.raises(SandboxLimitExceeded, match=r"^needed more than 536870912 bytes of memory$") as caught:
        costly.predict(HUGE)
    assert caught.value.limit == "memory_bytes"
    assert costly.predict(CHEAP).tolist() == [7.0]


@LINUX
def test_opening_is_limited_too():
    large = onnx.load_model_from_string(COSTLY)
    large.graph.initializer.append(helper.make_tensor("large", TensorProto.UINT8, [1 << 24], bytes(1 << 24), raw=True))
    told = refusal(".onnx", large.SerializeToString(), memory_bytes=2 << 20)
    assert told == "needed more than 2097152 bytes of memory"


@LINUX
def test_a_process_that_somebody_kills(costly):
    os.kill(costly.pid, signal.SIGKILL)
    wait_until(lambda: costly._process.has_ended)
    assert costly.predict(CHEAP).tolist() == [7.0]  # by another
    before = costly.pid
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(costly.predict, ENDLESS)
        wait_until(lambda: " R " in Path(f"/proc/{before}/stat").read_text())
        os.kill(before, signal.SIGSEGV)
        with pytest.raises(SandboxError, match=r"^ended by signal SIGSEGV$"):
            asked.result()
    assert costly.predict(CHEAP).tolist() == [7.0]


@LINUX
def test_it_ends_when_its_parent_is_gone_even_amid_a_question(costly):
    costly._process.connection.shutdown(2)
    wait_until(lambda: costly._process.has_ended)
    assert costly.predict(CHEAP).tolist() == [7.0]
    pid = costly.pid
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(costly.predict, ENDLESS)
        wait_until(lambda: " R " in Path(f"/proc/{pid}/stat").read_text())
        costly._process.popen.stdin.close()  # as the kernel does
        wait_until(lambda: has_ended(pid))
        with pytest.raises(SandboxError, match="ended by signal SIG"):
            asked.result()


@LINUX
def test_closing_does_not_wait_for_an_answer(costly):
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(costly.predict, ENDLESS)
        wait_until(lambda: " R " in Path(f"/proc/{costly.pid}/stat").read_text())
        costly.close()
        with pytest.raises(SandboxError, match="SIGKILL"):
            asked.result()
    wait_until(lambda: has_ended(costly.pid))
    with pytest.raises(SandboxError, match=r"^is closed$"):
        costly.predict(CHEAP)


# -- what the process has ----------------------------------------------------------------------------------------------


@LINUX
def test_it_inherits_neither_files_nor_secrets_and_has_limits(tmp_path, monkeypatch):
    monkeypatch.setenv("DEGROOT_SECRET", "hunter2")
    with (tmp_path / "secret").open("w") as secret:
        os.set_inheritable(secret.fileno(), True)
        with closing(open_in_sandbox(".onnx", COSTLY, **LIMITS)) as model:
            process = Path(f"/proc/{model.pid}")
            variables = {each.partition(b"=")[0].decode() for each in (process / "environ").read_bytes().split(b"\0")}
            targets = [os.readlink(each) for each in (process / "fd").iterdir()]
            assert os.readlink(process / "cwd") == "/"
            limits = (process / "limits").read_text()
            status = (process / "status").read_text()
            session = (process / "stat").read_text().rpartition(")")[2].split()[3]
    assert variables - {""} <= {*sandbox.INHERITED, *sandbox.ENVIRONMENT, "TMPDIR"}
    assert not [each for each in targets if not each.startswith(("pipe:", "socket:", "/dev/null", "anon_inode:"))]
    assert sum(each.startswith("socket:") for each in targets) == 1
    bounded = {line[:25].strip(): line[26:].split()[:2] for line in limits.splitlines()}
    assert bounded["Max file size"] == bounded["Max core file size"] == ["0", "0"]
    assert bounded["Max address space"][1] != "unlimited"
    assert bounded["Max cpu time"][0] != "unlimited"
    assert "NoNewPrivs:\t1" in status
    assert session == str(model.pid)


@LINUX
def test_it_leaves_no_folder_behind_and_imports_what_it_needs_only(models, tmp_path, monkeypatch):
    monkeypatch.setattr(sandbox.tempfile, "tempdir", str(tmp_path))
    with closing(open_in_sandbox(*file_of("xgboost"), **LIMITS)) as model:
        mapped = Path(f"/proc/{model.pid}/maps").read_text()
    assert not list(tmp_path.iterdir())
    assert "xgboost" in mapped
    assert not [name for name in ("llvmlite", "numba", "sklearn", "pandas") if f"/{name}/" in mapped]
    assert "llvmlite" not in Path(f"/proc/{models('skops')[1].pid}/maps").read_text()


# -- a process that lies -----------------------------------------------------------------------------------------------

LIAR = """
import json, socket, struct, sys
reply, described = (bytes.fromhex(each) for each in sys.argv[1:3])
link = socket.socket(fileno=int(sys.argv[-1]))
def take(n):
    got = b""
    while len(got) < n:
        got += link.recv(n - len(got)) or sys.exit()
    return got
order = json.loads(take(struct.unpack("<I", take(4))[0]))
link.sendall(struct.pack("<BBII", 0, 0, 0, 0))
take(order["bytes"])
link.sendall(described)
take(10 + 8 * 3)
exec(reply) if reply.startswith(b"import") else link.sendall(reply)
link.recv(1)
"""
PLAIN = b'{"has_probabilities": true, "classes": ["U", ["a", "b"]], "n_features": 3, "feature_names": null}'


def head(kind, place=0, first=0, second=0):
    return worker.REPLY.pack(kind, place, first, second)


def described(text):
    return head(worker.DESCRIPTION, 0, len(text)) + text


def lie(monkeypatch, reply=b"", description=None, **options):
    said = described(PLAIN) if description is None else description
    command = (sys.executable, "-I", "-S", "-c", LIAR, reply.hex(), said.hex())
    monkeypatch.setattr(sandbox, "COMMAND", command)
    return open_in_sandbox(".onnx", b"any", **LIMITS, **options)


def labelled(text, columns=0):
    return head(worker.LABELS, 0, len(text), columns) + text


MISFIT = "sent a reply that does not fit the question"


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (b"\xff" * 64, MISFIT),
        (head(worker.READY), MISFIT),
        (head(worker.NUMBERS, 0, 2, 0), MISFIT),
        (head(worker.NUMBERS, 0, 1, worker.LARGEST_OUTPUTS + 1), MISFIT),
        (head(worker.NUMBERS, 0, 2**32 - 1, 1), MISFIT),
        (head(worker.NUMBERS, len(worker.NUMBER_TYPES), 1, 1), MISFIT),
        (head(worker.RAISED, 0, 2**32 - 1), MISFIT),
        (head(worker.LABELS, 0, worker.JSON_BYTES + 1), MISFIT),
        (labelled(b'["U", ["a", "b"]]'), MISFIT),
        (labelled(b'["U", [1]]'), MISFIT),
        (labelled(b'["V8", ["a"]]'), MISFIT),
        (labelled(b'["i1", [1000]]'), MISFIT),
        (labelled(b'["U", ["' + b"a" * 1001 + b'"]]'), MISFIT),
        (labelled(b"[" * 20_000), MISFIT),
        (labelled(b"\xff\xfe"), MISFIT),
        (b"import os; os._exit(3)", "ended with exit code 3"),
        (b"import os; os.kill(os.getpid(), 11)", "ended by signal SIGSEGV"),
        (head(worker.RAISED, 0, 11) + b"No:\x1b[1m\n\xff/e", "raised No: [1m �/e"),
        (head(worker.NO_MEMORY), "needed more than 536870912 bytes of memory"),
    ],
)
def test_replies_that_are_none(monkeypatch, reply, words):
    with closing(lie(monkeypatch, reply)) as model, pytest.raises(SandboxError) as caught:
        model.predict_proba(X[:1])
    assert str(caught.value) == words


@pytest.mark.parametrize(
    "description",
    [
        described(b"{}"),
        described(b"[]"),
        described(PLAIN.replace(b"true", b"1")),
        described(PLAIN.replace(b"3", b"-3")),
        described(PLAIN.replace(b"null", b"[1]")),
        described(PLAIN.replace(b'["a", "b"]', b'[["a"], "b"]')),
        described(b"null"),
        described(PLAIN.replace(b'["a", "b"]', b"[" + b"1," * worker.LARGEST_OUTPUTS + b"1]").replace(b"U", b"i1")),
        head(worker.DESCRIPTION, 0, worker.JSON_BYTES + 1),
        head(worker.NUMBERS),
    ],
)
def test_descriptions_that_are_none(monkeypatch, description):
    with pytest.raises(SandboxError, match=MISFIT):
        lie(monkeypatch, description=description)


def test_numbers_that_are_not_finite_are_kept_and_booleans_are_true_or_false(monkeypatch):
    numbers = np.array([np.nan, -np.inf])
    with closing(lie(monkeypatch, head(worker.NUMBERS, 0, 1, 2) + numbers.tobytes())) as model:
        assert_array_equal(model.predict_proba(X[:1]), numbers[None])
    with closing(lie(monkeypatch, head(worker.NUMBERS, 11, 1, 3) + b"\x00\x01\xff")) as model:
        answer = model.predict(X[:1])
    assert answer.view(np.uint8).tolist() == [[0, 1, 1]]


def test_a_model_that_says_something_else_when_it_is_opened_again(monkeypatch):
    with closing(lie(monkeypatch, b"import os; os._exit(3)")) as model:
        with pytest.raises(SandboxError, match="exit code 3"):
            model.predict(X[:1])
        lie(monkeypatch, description=described(PLAIN.replace(b'"a"', b'"c"'))).close()
        with pytest.raises(SandboxError, match="says something else of itself"):
            model.predict(X[:1])
        with pytest.raises(SandboxError, match="says something else of itself"):
            model.predict(X[:1])
        with pytest.raises(SandboxError, match="exit code 3"):
            model.predict(X[:1])  # the first of three failures: no process was started


@pytest.mark.parametrize(
    ("reply", "limit", "words"),
    [
        (head(worker.NO_MEMORY), "memory_bytes", "needed more than 536870912 bytes of memory"),
        (b"import os, signal; os.kill(os.getpid(), signal.SIGXCPU)", "seconds", "took more than 60 s"),
    ],
)
def test_a_limit_that_was_exceeded_is_named_as_long_as_the_model_is_not_tried_again(monkeypatch, reply, limit, words):
    with closing(lie(monkeypatch, reply)) as model:
        for _ in range(sandbox.FAILURES_IN_A_ROW + 1):
            with pytest.raises(SandboxLimitExceeded) as caught:
                model.predict(X[:1])
            assert (caught.value.limit, str(caught.value)) == (limit, words)


def test_after_three_failures_it_is_tried_again_a_minute_later(monkeypatch):
    now = [1000.0]
    with closing(lie(monkeypatch, b"import os; os._exit(3)", clock=lambda: now[0])) as model:
        for _ in range(sandbox.FAILURES_IN_A_ROW):
            with pytest.raises(SandboxError, match="exit code 3"):
                model.predict(X[:1])
        monkeypatch.setattr(sandbox, "COMMAND", ("/nowhere/python",))
        now[0] += sandbox.RETRY_SECONDS - 1
        with pytest.raises(SandboxError, match="exit code 3"):
            model.predict(X[:1])
        now[0] += 1
        with pytest.raises(SandboxError, match="no process can be started"):
            model.predict(X[:1])
        lie(monkeypatch, head(worker.NUMBERS, 0, 1) + np.array([7.0]).tobytes()).close()
        now[0] += sandbox.RETRY_SECONDS - 1
        with pytest.raises(SandboxError, match="exit code 3"):
            model.predict(X[:1])
        now[0] += 1
        assert model.predict(X[:1]).tolist() == [7.0]
        assert not model._failures


@LINUX
def test_a_model_that_is_forgotten_ends_its_process_and_nobody_waits_for_that(monkeypatch):
    model = lie(monkeypatch)
    pid, wait, waiting = model.pid, sandbox.subprocess.Popen.wait, []

    def note_and_wait(popen, timeout=None):
        waiting.append(current_thread())
        return wait(popen, timeout)

    monkeypatch.setattr(sandbox.subprocess.Popen, "wait", note_and_wait)
    del model
    wait_until(lambda: not Path(f"/proc/{pid}").exists())  # not even as a zombie
    assert current_thread() not in waiting


def test_no_process_can_be_started(monkeypatch):
    monkeypatch.setattr(sandbox, "COMMAND", ("/nowhere/python",))
    assert refusal(".onnx", b"any") == "cannot be opened: no process can be started: No such file or directory"
