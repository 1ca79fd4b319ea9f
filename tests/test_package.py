import contextlib
import os
import pickle
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import degroot
from degroot import Agent, Collective

NAMES = [
    "Agent",
    "AgentError",
    "Audit",
    "CalibrationReport",
    "Choice",
    "Collective",
    "Consensus",
    "DeGrootClassifier",
    "DeGrootError",
    "DeGrootRegressor",
    "Explanation",
    "Flag",
    "Gains",
    "InvalidInput",
    "connect",
    "load_model",
]


def python(code, **environment):
    """Run `code` in a Python of its own, with these changes to the environment; give what it printed."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


# -- names -------------------------------------------------------------------------------------------------------------


def test_the_public_names_are_these():
    assert sorted(degroot.__all__) == NAMES
    assert degroot.__all__ == NAMES  # written in order


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_can_be_imported(name):
    space = {}
    exec(f"from degroot import {name}", space)
    assert space[name] is getattr(degroot, name)
    assert space[name].__doc__


def test_everything_can_be_imported_at_once():
    space = {}
    exec("from degroot import *", space)
    assert set(NAMES) <= set(space)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'degroot' has no attribute 'DeGrootClusterer'"):
        degroot.DeGrootClusterer  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'DeGrootClusterer' from 'degroot'"):
        from degroot import DeGrootClusterer  # noqa: F401


def test_importing_brings_nothing_heavy_and_the_estimator_comes_when_asked_for():
    heavy = ("pyarrow", "sklearn", "pandas", "polars", "matplotlib", "rich", "typer", "joblib", "scipy.stats")
    code = f"""
import sys, time
begun = time.perf_counter()
import degroot
print(time.perf_counter() - begun)
print([name for name in {heavy} if name in sys.modules])
degroot.DeGrootRegressor
print("sklearn" in sys.modules, "matplotlib" in sys.modules)
"""
    took, before, after = python(code).splitlines()
    print(f"import degroot takes {float(took):.2f} s")  # noqa: T201
    assert before == "[]"
    assert after == "True False"


def test_predicting_without_the_estimator_does_not_need_scikit_learn():
    code = """
import sys
sys.modules["sklearn"] = None  # whoever imports it fails
import numpy as np
from degroot import Agent, Collective
rows = np.random.default_rng(0).normal(size=(50, 2))
agents = [Agent(lambda X, k=k: X[:, k], rows, rows[:, 0], str(k), space=lambda X: 2 * X) for k in (0, 1)]
print(np.abs(Collective(agents, 3).predict(rows) - rows[:, 0]).max() < 1e-9)
"""
    assert python(code) == "True\n"


# -- wherever it runs --------------------------------------------------------------------------------------------------

MAKE = """
import numpy as np
from degroot import Agent, Collective, consensus, trust
from degroot.neighbourhoods import METRICS
from degroot.rules.rules import RULES

def collective(rule="degroot", metric="euclidean", d=6):
    source = np.random.default_rng(0)
    agents = []
    for k in range(3):
        X = source.normal(size=(300, d)) + k
        slope = source.normal(size=d)
        agents.append(Agent(lambda X, slope=slope: X @ slope, X, X[:, 0] ** 2, f"agent {k}"))
    return Collective(agents, 5, rule, metric=metric), source.normal(size=(500, d)) + 1

def answers():
    found = []
    for rule in RULES:
        for metric, d in [(metric, d) for metric in METRICS for d in (1, 6)]:
            whole, asked = collective(rule, metric, d)
            answer = whole.consult(asked)
            found += [answer.value, answer.standard_error, answer.trust.ravel()]
    return np.concatenate(found)

def pooled():  # kernels that take a second to compile, not half a minute
    source = np.random.default_rng(0)
    return consensus.solve(trust.from_errors(source.exponential(size=(50, 4, 4))))
"""
exec(MAKE)


@pytest.fixture(scope="module")
def expected():
    return answers()  # noqa: F821


@pytest.mark.slow  # it compiles every kernel
def test_an_installation_that_cannot_be_written_gives_the_same_answers(tmp_path, expected):
    assert_array_equal(without_a_cache(tmp_path, "answers()"), expected)


def test_an_installation_that_cannot_be_written_works(tmp_path):
    assert_array_equal(without_a_cache(tmp_path, "pooled()"), pooled())  # noqa: F821


def without_a_cache(tmp_path, asked):
    """What `asked` gives where numba has no place to keep code."""
    # Permissions do not bind root, so every place where numba keeps code is below a regular file.
    package = tmp_path / "lib" / "degroot"
    shutil.copytree(Path(degroot.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    wall = tmp_path / "wall"
    wall.touch()
    for folder in [package, *filter(Path.is_dir, package.rglob("*"))]:
        (folder / "__pycache__").touch()
    before = sorted(tmp_path.rglob("*"))
    code = f"""{MAKE}
import degroot, numba, sys
from degroot import trust
assert degroot.__file__.startswith({str(package)!r}), degroot.__file__
try:
    numba.njit(cache=True)(trust._from_errors.py_func)
except RuntimeError as error:
    assert "cannot cache" in str(error), error
else:
    sys.exit("numba found a place for its cache: this tests nothing")
assert type(trust._from_errors._cache).__name__ == "NullCache"
np.save({str(tmp_path / "found.npy")!r}, {asked})
"""
    blocked = str(wall / "below")
    python(
        code,
        PYTHONPATH=str(package.parent),
        NUMBA_CACHE_DIR=blocked, HOME=blocked, XDG_CACHE_HOME=blocked, IPYTHONDIR=blocked,
    )  # fmt: skip
    assert sorted(tmp_path.rglob("*")) == sorted([*before, tmp_path / "found.npy"])
    return np.load(tmp_path / "found.npy")


@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=pytest.mark.slow), 3])
def test_the_number_of_threads_does_not_change_the_answers(threads, tmp_path, expected):
    file = str(tmp_path / "found.npy")
    code = f"{MAKE}\nfrom degroot.compute.compiled import threads\nprint(threads())\nnp.save({file!r}, answers())"
    assert python(code, NUMBA_NUM_THREADS=str(threads)) == f"{threads}\n"
    assert_array_equal(np.load(file), expected)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # Python 3.12 warns where threads have been seen
def test_a_forked_child_gives_the_same_answers():
    whole, asked = collective()  # noqa: F821
    expected = whole.consult(asked).value  # threads have run in the parent
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reader)
            new = collective()[0]  # noqa: F821
            with os.fdopen(writer, "wb") as out:
                pickle.dump((whole.predict(asked), new.consult(asked).value), out)
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    watchdog = threading.Timer(60, os.kill, (child, 9))
    watchdog.start()
    with os.fdopen(reader, "rb") as pipe:
        sent = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    watchdog.cancel()
    for found in pickle.loads(sent):
        assert_array_equal(found, expected)


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "manhattan"])
def test_threads_that_ask_at_once_get_the_same_answers(metric):
    whole, asked = collective(metric=metric)  # noqa: F821
    expected = whole.consult(asked)
    start, found = threading.Barrier(4), [None] * 4

    def ask(k):
        start.wait()
        found[k] = [whole.consult(asked) if k % 2 else whole.predict(asked) for _ in range(10)]

    threads = [threading.Thread(target=ask, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in range(4):
        for answer in found[k]:
            assert_array_equal(answer.value if k % 2 else answer, expected.value)
            if k % 2:
                assert_array_equal(answer.standard_error, expected.standard_error)
                assert_array_equal(answer.trust, expected.trust)


# -- progress ----------------------------------------------------------------------------------------------------------

CLOCK = """
import sys, time
import numpy as np
from degroot import Agent, AgentError, Collective

class Clock:
    now = 0.0
    monotonic = staticmethod(lambda: Clock.now)

sys.modules["degroot.compute.progress"].time = Clock  # it moves when a model is asked: a busy machine is not slow work
"""

SLOW = (
    CLOCK
    + """
def model(X):
    Clock.now += {pause}
    {then}
    return X[:, 0]

rows = np.arange(20.0)[:, None]
print(Collective([Agent(model, rows, rows[:, 0], name) for name in "abc"], 3).predict(rows[:2]))
"""
)


def test_nothing_is_written_where_nobody_watches():
    assert python(SLOW.format(pause=0.15, then="")) == "[0. 1.]\n"  # `python` sees to it that standard error is empty


def on_a_terminal(code):
    """What `code` writes to a terminal that is its standard error."""
    pty = pytest.importorskip("pty", reason="this system has no pseudo-terminals")
    master, terminal = pty.openpty()
    run = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code], stdin=terminal, stdout=subprocess.PIPE, stderr=terminal,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"},
    )  # fmt: skip
    os.close(terminal)
    written = b""
    with contextlib.suppress(OSError):  # Linux reports the end of a terminal as an error
        while part := os.read(master, 4096):
            written += part
    os.close(master)
    out = run.communicate(timeout=300)[0]
    assert run.returncode == 0, written.decode()
    return written.decode(), out.decode()


def visible(written):
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", written)


def test_a_terminal_shows_how_far_slow_work_has_come():
    written, out = on_a_terminal(SLOW.format(pause=0.2, then=""))
    assert "Scoring models" in written
    assert re.search(r"\b(67|100)%", written)
    assert "Traceback" not in written
    assert out == "[0. 1.]\n"


def test_a_terminal_stays_clean_where_work_is_quick():
    written, out = on_a_terminal(SLOW.format(pause=0, then=""))
    assert visible(written).strip() == ""
    assert out == "[0. 1.]\n"


def test_what_a_model_prints_goes_where_it_was_sent():
    written, out = on_a_terminal(SLOW.format(pause=0, then="print('asked')"))
    assert out == 12 * "asked\n" + "[0. 1.]\n"  # nine times for the scores and three for the prediction
    assert "asked" not in written


def test_a_program_without_standard_error_works(monkeypatch):
    rows = np.arange(20.0)[:, None]
    agents = [Agent(lambda X: X[:, 0], rows, rows[:, 0], name) for name in "abc"]
    monkeypatch.setattr(sys, "stderr", None)  # as under pythonw
    assert_allclose(Collective(agents, 3).predict(rows), rows[:, 0], rtol=1e-14)


ERROR = (
    CLOCK
    + """
def model(X):
    Clock.now += 0.2
    if len(X) == 20:
        raise RuntimeError("out of order")
    return X[:, 0]

def agent(name, n):
    return Agent(model, np.arange(n)[:, None], np.arange(n), name)

try:
    Collective([agent("a", 10), agent("b", 10), agent("c", 20)], 3)
except AgentError as error:
    {then}
"""
)


def test_an_error_in_slow_work_ends_the_bar():
    then = "import os; os.write(2, b'<error>'); time.sleep(0.5)"
    written, _ = on_a_terminal(ERROR.format(then=then))
    before, after = written.split("<error>")
    assert "Scoring models" in before
    assert visible(after).strip() == ""


def test_after_an_error_in_slow_work_printing_works():
    _, out = on_a_terminal(ERROR.format(then="print(error)"))
    assert out == "Agent 'a': its model must predict; it raised RuntimeError: out of order.\n"
