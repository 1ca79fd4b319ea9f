import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import degroot

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
