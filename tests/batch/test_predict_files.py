"""`predict_files`: what the command does, byte for byte, for collectives in files, in memory and of nodes."""

import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import Ridge

from degroot import Agent, Collective, InvalidInput, cli
from degroot.batch import predict_files
from degroot.consultation.consult import LocalEngine

NAMES = ["x0", "x1", "x2"]


def rows(count, seed=0):
    table = pd.DataFrame(np.random.default_rng(seed).normal(size=(count, 3)), columns=NAMES)
    return table.assign(id=[f"r{k}" for k in range(count)])


def make_collective(K=3, slope=1.0, form=lambda X: X, **settings):
    random, agents = np.random.default_rng(1), []
    for k in range(K):
        X = form(pd.DataFrame(random.normal(k / 2, 1.0, size=(80, 3)), columns=NAMES))
        y = np.sin(np.asarray(X)) @ np.array([slope, -2.0, k])
        agents.append(Agent(Ridge().fit(X, y), X, y, f"a{k}"))
    return Collective(agents, **settings)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return make_collective().save(tmp_path_factory.mktemp("saved") / "collective")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Where good rows are, and bad ones."""
    monkeypatch.chdir(tmp_path)
    rows(50).to_csv("in.csv", index=False)
    rows(50).assign(x1=lambda table: table["x1"].where(table.index != 7)).to_csv("gap.csv", index=False)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "call"),
    [
        ("--input in.csv", {"inputs": "in.csv"}),
        ("--input in.csv --coverage 0.8 --jobs 2", {"inputs": ["in.csv"], "coverage": 0.8, "jobs": 2}),
        (
            "--input in.csv gap.csv --fields influence,value --keep id --on-bad-row null --verify",
            {
                "inputs": ["in.csv", "gap.csv"],
                "fields": ["influence", "value"],
                "keep": "id",
                "on_bad_row": "null",
                "verify": True,
            },
        ),
    ],
)
def test_the_command_and_the_call_write_the_same_bytes(home, saved, monkeypatch, capsys, command, call):
    arguments = ["--collective", str(saved), "--output", "out/command.csv", *command.split()]
    monkeypatch.setattr(sys, "argv", ["degroot", "predict", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code
    printed = capsys.readouterr().out
    verify = {"verify": call.pop("verify", False)}
    for collective, more in ((saved, verify), (Collective.load(saved), {})):
        done = predict_files(collective, output=home / "out" / "call.csv", **call, **more)
        assert done.output.read_bytes() == (home / "out" / "command.csv").read_bytes()
        assert (done.rows, done.before, done.bad) == ((100, 0, 1) if "gap.csv" in command else (50, 0, 0))
        assert str(done).split("; ")[:2] == printed.split("; ")[:2]


@pytest.mark.parametrize("form", ["array", "pandas", "polars"])
def test_models_get_rows_in_the_form_of_their_own(home, form):
    forms = {
        "array": np.asarray,
        "pandas": lambda X: X,
        "polars": lambda X: pytest.importorskip("polars").from_pandas(X),
    }
    collective = make_collective(form=forms[form])
    done = predict_files(collective, "in.csv", "out.parquet", keep=["id"])
    found, expected = pd.read_parquet(done.output), collective.consult(forms[form](rows(50)[NAMES]))
    assert list(found["id"]) == list(rows(50)["id"])
    assert_allclose(found["value"], expected.value, rtol=1e-12)
    assert_allclose(found[["weight_a0", "weight_a1", "weight_a2"]], expected.weights, rtol=1e-12)


def test_the_collective_of_the_caller_stays_as_it_is(home, monkeypatch):
    collective, threads = make_collective(n_jobs=2), []
    expected = collective.predict(rows(5)[NAMES])  # which starts its engine

    def watch(*about):
        threads.append(about[-1])
        return LocalEngine(*about)

    with monkeypatch.context() as patch:
        patch.setattr("degroot.collective.LocalEngine", watch)
        predict_files(collective, "in.csv", "values.csv", fields="value")
    assert set(threads) == {1}  # every thread of the run uses one
    predict_files(collective, "in.csv", "out.csv", coverage=0.8)
    assert_allclose(collective.predict(rows(5)[NAMES]), expected, rtol=0)
    assert list(pd.read_csv("out.csv"))[:4] == ["value", "standard_error", "lower", "upper"]
    assert collective.n_jobs == 2
    with pytest.raises(InvalidInput, match=r"call calibrate\(\)"):
        collective.consult(rows(1)[NAMES], coverage=0.8)


def test_a_collective_in_memory_is_recognised_by_its_answers(home):
    rows(3).assign(x1="?").to_csv("in2.csv", index=False)  # which ends the run

    def interrupted(collective):
        with pytest.raises(InvalidInput) as refused:
            predict_files(collective, "in*.csv", "out.csv", jobs=1)
        return str(refused.value)

    for _ in range(2):  # another object with the same models and rows
        assert "row 1 of in2.csv: 'x1' is '?'" in interrupted(make_collective())
    assert "it had other answers. `restart` begins anew." in interrupted(make_collective(slope=1.001))
    assert "it had other collective, answers." in interrupted(make_collective(neighbours=20))
    with pytest.raises(InvalidInput, match=r"row 1 of in2\.csv"):
        predict_files(make_collective(slope=1.001), "in*.csv", "out.csv", jobs=1, restart=True)


def test_a_collective_of_nodes_is_asked_where_it_is(home):
    consult = make_collective(form=np.asarray).consult
    about = {"names": ("a0", "a1", "a2"), "feature_names": NAMES, "outputs": None, "classes": (), "takes_gaps": False}
    granted = frozenset({"value", "standard_error", "weights"})
    nodes = SimpleNamespace(identity={"models": {"a0": "1"}}, consult=consult, granted=granted, schema=None, **about)
    done = predict_files(nodes, "in.csv", "out.csv")
    assert list(pd.read_csv(done.output))[-2:] == ["missing", "flags"]
    with pytest.raises(InvalidInput, match=r"^The engine 'ray' must come with a collective in files or in memory; got"):
        predict_files(nodes, "in.csv", "new.csv", engine="ray")


@pytest.mark.parametrize(
    ("about", "told"),
    [
        ({"inputs": "nowhere.csv"}, "The input must be files, folders or patterns of files; there is no nowhere.csv."),
        ({"inputs": []}, "The input must be one file or more; got none."),
        ({"output": "out.xlsx"}, "The output must be a .parquet or .csv file; got out.xlsx."),
        ({"fields": "values"}, "Fields must be different ones of label, value, "),
        ({"fields": []}, "Fields must be different ones of label, value, "),
        ({"keep": "name"}, "in.csv must have the column 'name'; it has none"),
        ({"coverage": 90}, "must lie between 0 and 1; got 90"),
        ({"on_bad_row": "skip"}, "What is done with bad rows must be 'refuse' or 'null'; got 'skip'."),
        ({"jobs": 0}, "`jobs` must be a whole number of at least 1, or None; got 0."),
        ({"jobs": "2"}, "`jobs` must be a whole number of at least 1, or None; got '2'."),
        ({"jobs": 1.5}, "`jobs` must be a whole number of at least 1, or None; got 1.5."),
        ({"inputs": None}, "`inputs` must be text or a path, or several; got None."),
        ({"inputs": b"in.csv"}, "`inputs` must be text or a path; got "),
        ({"output": None}, "`output` must be text or a path; got None."),
        ({"output": f"{300 * 'x'}.csv"}, "x.csv: File name too long."),
        ({"output": "a\0.csv"}, "The output must have a name that files can have; got "),
        ({"fields": 3}, "`fields` must be text or a path, or several; got 3."),
        ({"keep": None}, "`keep` must be text or a path, or several; got None."),
        ({"engine": "spark"}, "`engine` must be one of 'local', 'ray'; got 'spark'."),
        ({"address": "auto"}, "`address` must come with the engine 'ray'; got 'local'."),
        ({"placement": "agents"}, "`placement` must come with the engine 'ray'; got 'local'."),
        ({"placement": "here", "engine": "ray"}, "`placement` must be one of 'workers', 'agents'; got 'here'."),
        ({"verify": True}, "`verify` and `unsafe_pickle` must come with the path of a collective; got an open one."),
        ({"unsafe_pickle": True}, "`verify` and `unsafe_pickle` must come with the path of a collective;"),
        ({"collective": None}, "`collective` must be a collective, or the path of one; got None."),
        ({"collective": "nowhere"}, "nowhere"),
        ({"inputs": "gap.csv"}, "Every feature must be a finite number; row 8 of gap.csv: 'x1' is missing."),
    ],
)
def test_a_mistake_is_one_clear_line(home, about, told):
    before = sorted(home.rglob("*"))
    call = {"collective": make_collective(), "inputs": "in.csv", "output": "out.csv"} | about
    with pytest.raises(InvalidInput) as refused:
        predict_files(call.pop("collective"), call.pop("inputs"), call.pop("output"), **call)
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)
    assert sorted(home.rglob("*")) == before


def test_a_collective_with_an_engine_of_its_own_is_refused(home):
    pytest.importorskip("ray")
    with pytest.raises(
        InvalidInput, match=r"must have its agents in this process; got engine=.*`predict_files` has an"
    ):
        predict_files(make_collective(rule="average", engine="ray"), "in.csv", "out.csv")


def test_there_are_no_more_threads_than_parts_of_the_input(home, monkeypatch):
    threads = []

    def watch(n, **about):
        threads.append(n)
        return ThreadPoolExecutor(1, **about)

    monkeypatch.setattr("degroot.batch.local.ThreadPoolExecutor", watch)
    predict_files(make_collective(), "in.csv", "out.csv", jobs=1000)
    assert threads == [1]
