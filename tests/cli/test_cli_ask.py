"""`degroot ask`: points from a file, answers to a file, as in process; every mistake is one line and exit code 2."""

import re
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression
from support.consortium import CLIENT, Consortium, free_ports

from degroot import Agent
from degroot.answers.answer import Consensus
from degroot.answers.flags import Flag
from degroot.cli.output import columns, show, summary
from degroot.node.records import ledger
from degroot.node.report.facts import gather_facts
from degroot.node.tls import authority

RANDOM = np.random.default_rng(5)
POINTS = pd.DataFrame(RANDOM.normal(size=(25, 3)), columns=["x0", "x1", "x2"])
FIGURES = ["value", "standard_error"]


@pytest.fixture
def ask(degroot, monkeypatch, tmp_path):
    """`degroot ask` in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")

    def run(*arguments, **options):
        told = [text for name, value in options.items() for text in (f"--{name.replace('_', '-')}", str(value))]
        return degroot("ask", *arguments, *told)

    return run


@pytest.fixture
def refused(ask, tmp_path):
    """What a mistake is told as: one line, exit code 2, and nothing written."""

    def run(*arguments, **options):
        before = sorted(tmp_path.rglob("*"))
        code, out, err = ask(*arguments, **options)
        assert (code, out, err.count("\n")) == (2, "", 1), err
        assert err.startswith("degroot: ")
        assert "Traceback" not in err
        assert sorted(tmp_path.rglob("*")) == before
        return err

    return run


@pytest.fixture(scope="module")
def consortium(tmp_path_factory):
    with Consortium(tmp_path_factory.mktemp("consortium"), 4) as made:
        yield made.fork().ready()


@pytest.fixture
def points(tmp_path):
    POINTS.to_csv(tmp_path / "points.csv", index=False)
    return tmp_path / "points.csv"


@pytest.fixture
def who(consortium, points):
    """How the first node is asked by the client."""
    return {"node": address(consortium), "input": points, **consortium.credentials()}


def address(consortium, name="node0"):
    return f"127.0.0.1:{consortium.ports[name]}"


def assert_answered(found, expected, rtol=1e-12):
    """The columns are the fields of an answer."""
    assert_allclose(found["value"], expected.value, rtol=rtol)
    assert_allclose(found["standard_error"], expected.standard_error, rtol=rtol)
    for k, name in enumerate(expected.names):
        assert_allclose(found[f"weight_{name}"], expected.weights[:, k], rtol=rtol)


@pytest.mark.parametrize(
    ("kind", "options", "asker", "whose"),
    [
        ("csv", [], "node0", "the view of node0"),
        ("parquet", [], "node0", "the view of node0"),
        ("csv", ["--consensus"], None, "the consensus"),
    ],
)
def test_answers_are_those_of_the_same_agents_in_process(
    ask, consortium, who, tmp_path, kind, options, asker, whose
):  # fmt: skip
    code, out, err = ask(*options, **who, output=f"answers.{kind}")
    assert (code, err) == (0, "")
    assert f"; {whose}; " in out
    table = getattr(pd, f"read_{kind}")(f"answers.{kind}", **({"keep_default_na": False} if kind == "csv" else {}))
    weights = [f"weight_{name}" for name in consortium.names]
    assert list(table) == [*FIGURES, *weights, "missing", "flags"]
    assert_answered(table, consortium.collective().consult(POINTS.to_numpy(), asker=asker))
    assert set(table["missing"]) == {""}
    assert out.count("\n") == 1
    assert "25 rows, 4 agents" in out
    assert f"answers.{kind}" in out
    assert "missing" not in out
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([f"answers.{kind}", "points.csv"])


def test_rows_keep_their_order_over_many_batches_and_columns_may_come_in_any(ask, consortium, who, tmp_path):
    many = pd.DataFrame(np.random.default_rng(0).normal(size=(2500, 3)), columns=["x0", "x1", "x2"])
    many.assign(note="text")[["x2", "note", "x0", "x1"]].to_parquet("many.parquet")
    code, out, _ = ask(**who | {"input": "many.parquet"}, output="new/folder/answers.parquet")
    assert code == 0
    assert "columns not used: note" in out
    table = pd.read_parquet("new/folder/answers.parquet")
    assert_answered(table, consortium.collective().consult(many.to_numpy(), asker="node0"))


def test_rounds_give_the_same_answer(ask, consortium, who):
    options = {"way": "rounds", "tolerance": 1e-12, "rounds": 100_000, "output": "answers.parquet"}
    code, out, _ = ask(**who, **options)
    assert code == 0
    assert re.search(r"; [1-9]\d* rounds; the consensus;", out)
    assert_answered(pd.read_parquet("answers.parquet"), consortium.collective().consult(POINTS.to_numpy()), rtol=1e-6)


def test_rounds_are_pooled_with_everybody_as_soon_as_all_are_ready(ask, points, tmp_path_factory):
    with Consortium(tmp_path_factory.mktemp("seldom"), 4) as seldom:
        for name in seldom.names:  # what the nodes know of each other is old
            path = seldom.folder / name / "node.toml"
            path.write_text(path.read_text().replace("_seconds = 0.2", "_seconds = 3.0"))
        seldom.fork().ready()
        who = {"node": address(seldom), "input": points, **seldom.credentials()}
        assert "missing" not in ask(**who, way="rounds", output="answers.csv").out


def test_the_guard_is_not_for_the_caller_to_leave_out(refused, who):
    assert "No such option: --no-guard" in refused("--no-guard", **who)


def test_a_node_asks_itself_or_another_with_its_own_identity(ask, consortium, points):
    config, other = consortium.folder / "node2" / "node.toml", f"node1@{address(consortium, 'node1')}"
    for options in (["--consensus"], []):
        assert ask(*options, config=config, input=points, output="own.parquet").code == 0
        assert ask(*options, config=config, node=other, input=points, output="p.parquet").code == 0
        own, others = pd.read_parquet("own.parquet"), pd.read_parquet("p.parquet")
        if options:  # the same, whoever is asked
            pd.testing.assert_frame_equal(own, others)
        else:
            assert_answered(own, consortium.collective().consult(POINTS.to_numpy(), asker="node2"))
            assert_answered(others, consortium.collective().consult(POINTS.to_numpy(), asker="node1"))


@pytest.mark.parametrize("command", [["ask"], ["explain"]], ids=" ".join)
def test_everybody_who_answers_records_the_purpose(degroot, consortium, who, command):
    told = [text for name, value in who.items() for text in (f"--{name}", str(value))]
    purpose = f"triage, by {command[0]}"
    assert degroot(*command, *told, "--purpose", purpose).code == 0
    for name in consortium.names:
        found = gather_facts(consortium.configuration(name)).recorded.questions
        (asked,) = [each for each in found if each.purpose == purpose]
        assert (asked.asker, asked.questions) == (CLIENT, 1)
        assert asked.rows == (len(POINTS) if command == ["ask"] else 1)


def test_a_purpose_that_cannot_be_recorded_is_refused_before_anybody_is_asked(refused, degroot, points):
    nobody = {"input": points, "node": "127.0.0.1:1", "insecure_loopback": "me"}
    for purpose in ("=1+1", "x" * 201, "two\nlines"):
        assert "A purpose must be a line" in refused(purpose=purpose, **nobody)
    run = degroot("explain", "--collective", "somewhere", "--input", points, "--purpose", "triage")
    assert (run.code, run.out) == (2, "")
    assert "--purpose must come with --node or --config" in run.err


def test_the_first_rows_are_printed_where_no_file_is_asked_for(ask, consortium, who, tmp_path):
    code, out, _ = ask(**who)
    expected = consortium.collective().consult(POINTS.to_numpy(), asker="node0")
    assert code == 0
    assert "The first 10 rows" in out
    shown = [line for line in out.splitlines() if line.startswith("│")]
    assert [float(line.split("│")[1]) for line in shown] == [float(f"{value:.4g}") for value in expected.value[:10]]
    assert [path.name for path in tmp_path.iterdir()] == ["points.csv"]


def test_a_table_of_classes_has_room_in_a_terminal(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    names, rng = ("north", "south", "[red]west", "east\x1b[31m"), np.random.default_rng(0)
    value, weights = rng.dirichlet(np.ones(3), 12), rng.dirichlet(np.ones(4), 12)
    answer = Consensus(names, value=value, standard_error=value, weights=weights, sets=value > 0.2, coverage=0.9)
    show(answer, ("'low'", "'mid'", "'high'"))
    out = capsys.readouterr().out
    assert "…" not in out
    assert "\x1b" not in out
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if line.startswith("│")]
    labels = np.array(["low", "mid", "high"])
    for row, probabilities in zip(rows, value, strict=False):
        assert row[:2] == [labels[probabilities.argmax()], f"{probabilities.max():.4g}"]
        assert row[2] == ", ".join(labels[probabilities > 0.2])
    assert len(rows) == 10
    assert "largest weight" in out or all(name in out for name in names[:2])


def test_where_weights_have_no_room_the_largest_is_printed(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    weights = np.random.default_rng(0).dirichlet(np.ones(12), 3)
    names, value = tuple(f"hospital {k}" for k in range(12)), np.arange(3.0)
    show(Consensus(names, value=value, standard_error=value, weights=weights))
    out = capsys.readouterr().out
    assert "…" not in out
    for row in weights:
        assert f" {names[row.argmax()]} {row.max():.4g} " in out


def test_whoever_is_missing_is_named_with_the_reason(ask, refused, points, tmp_path_factory):
    with Consortium(tmp_path_factory.mktemp("dying"), 4) as dying:
        dying.fork().ready().kill("node3")
        who = {"node": address(dying), "input": points, **dying.credentials()}
        itself = who | dying.credentials("node0")
        for options, asker, asking, reason in (
            (["--consensus"], None, who, "unreachable"), ([], "node0", itself, "unreachable"),
            ([], "node0", who, "its model cannot be asked now)"),  # why is for the node's own people
        ):  # fmt: skip
            code, out, _ = ask(*options, **asking, output="answers.parquet")
            assert code == 0
            assert f"missing: node3 ({reason}" in out
            table = pd.read_parquet("answers.parquet")
            assert set(table["missing"]) == {"node3"}
            assert not table["weight_node3"].any()
            expected = dying.collective(without=["node3"]).consult(POINTS.to_numpy(), asker=asker)
            assert_answered(table, expected)
        dying.kill("node2")
        assert ask(**who, output="own.parquet").code == 0  # from its own view a node answers without a quorum
        told = refused("--consensus", **who, output="few.parquet")
        assert "At least 3 agents must answer" in told
        assert "node2" in told
        assert "node3" in told


def test_classes_and_several_outputs_have_a_column_each(ask, points, tmp_path_factory):
    rng = np.random.default_rng(0)
    agents = []
    for k in range(3):
        X = rng.normal(size=(60, 3))
        labels = np.array(["low", "high"])[(X[:, 0] > 0).astype(int)]
        model = LogisticRegression().fit(X, labels)
        agents.append((Agent(model, X, labels, f"node{k}", classes=["low", "high"]), labels))
    folder = tmp_path_factory.mktemp("classes")
    with Consortium(folder, 3, agents=agents, data='classes = ["low", "high"]') as classes:
        classes.fork().ready()
        who = {"node": address(classes), "input": points, **classes.credentials()}
        assert ask(**who, output="a.parquet").code == 0
        assert ask(**who, output="few.csv", fields="weights,label").code == 0
    table, expected = pd.read_parquet("a.parquet"), classes.collective().consult(POINTS.to_numpy(), asker="node0")
    assert_allclose(table[["value_low", "value_high"]], expected.value)
    assert_allclose(table[["standard_error_low", "standard_error_high"]], expected.standard_error, rtol=1e-9)
    assert next(iter(table)) == "label"
    assert table["label"].tolist() == [("low", "high")[q] for q in expected.value.argmax(axis=1)]
    few = pd.read_csv("few.csv")
    assert list(few) == ["weight_node0", "weight_node1", "weight_node2", "label"]
    assert few["label"].tolist() == table["label"].tolist()
    assert_allclose(few["weight_node1"], table["weight_node1"], rtol=1e-9)


def test_columns_of_several_outputs_and_of_flags_at_some_rows():
    flags = (
        Flag("b", "missing: gone", np.array([0, 1])),
        Flag("c", "missing: late", np.array([1])),
        Flag("a", "stale: scored before", np.array([1])),
    )
    answer = Consensus(("a", "b", "c"), np.eye(2), np.ones((2, 2)), np.full((2, 3), 1 / 3), flags=flags)
    table = columns(answer)
    assert [table["value_0"], table["value_1"]] == [[1.0, 0.0], [0.0, 1.0]]
    assert list(columns(answer, ["1", "'two'"]))[:5] == [
        "label",
        *(f"{name}_{label}" for name in FIGURES for label in ("1", "two")),
    ]
    assert table["missing"] == ["b", "b;c"]
    assert table["flags"] == ["", "a: stale"]
    assert summary(answer) == "2 rows, 3 agents; missing: b (gone), c (late, at 1 rows); flagged: a (stale, at 1 rows)"


# mistakes


def test_files_of_points(refused, who, tmp_path):
    assert "nowhere.csv: No such file" in refused(**who | {"input": "nowhere.csv"})
    (tmp_path / "points.txt").write_text("x0,x1,x2\n1,2,3\n")
    told = refused(**who | {"input": "points.txt"})
    assert "must be in a .csv, .parquet, .pq, .arrow, .feather, .ipc, .npz file; got points.txt" in told
    POINTS.drop(columns="x1").to_csv(tmp_path / "few.csv", index=False)
    assert "missing: 'x1'" in refused(**who | {"input": "few.csv"})
    POINTS.assign(x1="blue").to_csv(tmp_path / "text.csv", index=False)
    assert "Column 'x1' of text.csv must hold numbers; row 1 is 'blue'" in refused(**who | {"input": "text.csv"})
    POINTS.assign(x1=np.nan).to_csv(tmp_path / "nan.csv", index=False)
    assert "Column 'x1' of nan.csv" in refused(**who | {"input": "nan.csv"})


def test_files_of_answers_are_refused_before_anybody_is_asked(refused, who, tmp_path):
    nobody = who | {"node": "127.0.0.1:1"}
    assert "must go to a .csv or .parquet file; got answers.xlsx" in refused(**nobody, output="answers.xlsx")
    assert "--fields must come with --output" in refused(**nobody, fields="value")
    assert "Fields must be different ones of label" in refused(**nobody, output="answers.csv", fields="values")
    (tmp_path / "file").write_text("")
    assert "Answers must go" not in refused(**nobody, output="file/answers.csv")
    assert "file" in refused(**nobody, output="file/answers.csv")


def test_nodes_that_cannot_be_asked(refused, who, consortium):
    (port,) = free_ports(1)
    assert f"127.0.0.1:{port}: unreachable (Connection refused)" in refused(**who | {"node": f"127.0.0.1:{port}"})
    assert "--node must be \"host:port\"; got 'nowhere'" in refused(**who | {"node": "nowhere"})
    assert "The name in --node" in refused(**who | {"node": "No Body@127.0.0.1:1"})
    told = refused(**who | {"node": f"node1@{address(consortium)}"})
    assert "Its certificate is for another name" in told


def test_callers_that_are_not_let_in(refused, who, consortium, tmp_path_factory):
    keys = tmp_path_factory.mktemp("keys")
    authority.init_ca(keys)
    authority.issue(keys, "analyst")
    own = {"ca": keys / "ca.pem", "certificate": keys / "analyst.pem", "key": keys / "analyst.key"}
    assert "Its certificate must be of the consortium's CA" in refused(**who | own)
    assert "must be signed by the CA" in refused(**who | {"ca": keys / "ca.pem"})
    assert "must belong to the certificate" in refused(**who | {"key": keys / "analyst.key"})
    assert "nowhere.key: No such file" in refused(**who | {"key": "nowhere.key"})
    authority.issue(consortium.folder / "keys", "stranger", force=True)
    assert "'stranger' is not in the roster of 'node0'" in refused(**who | consortium.credentials("stranger"))
    past = datetime.now(UTC) - timedelta(days=20)
    authority.init_ca(keys, force=True, now=past)
    authority.issue(keys, "analyst", 10, force=True, now=past)
    assert "analyst.pem expired on" in refused(**who | own)


def test_options_that_do_not_go_together(refused, who, points, consortium):
    config = consortium.folder / "node1" / "node.toml"
    assert "Either --node or --config" in refused(input=points)
    assert "got 0 of them" in refused(input=points, node="127.0.0.1:1")
    assert "got --config and 3 of them" in refused(config=config, **who)
    assert "--way must be solve or rounds; got 'guess'" in refused(**who, way="guess")
    assert "must come with --way rounds" in refused(**who, tolerance=0.1)
    assert "`correct` must come with a node's own view" in refused("--correct", "--consensus", **who)
    assert "tolerance from 0 to 1" in refused(**who, way="rounds", tolerance=7)
    assert "--input" in refused(node="127.0.0.1:1")
    remote = {"node": "10.1.1.1:7443", "input": points, "insecure_loopback": "me"}
    assert "must be of this machine" in refused(**remote)
    assert "It may want certificates" in refused(**remote | {"node": address(consortium)})


def test_without_certificates_on_this_machine(ask, points, tmp_path_factory):
    folder = tmp_path_factory.mktemp("insecure")
    with Consortium(folder, 1) as alone:
        text = (folder / "node0" / "node.toml").read_text()
        begin, end = text.index("[identity]"), text.index("[model]")
        (folder / "node0" / "node.toml").write_text(text[:begin] + text[end:])
        alone.processes["node0"] = serve_insecurely(folder / "node0" / "node.toml")
        who = {"input": points, "node": address(alone)}
        run = wait_for(lambda: ask(**who, insecure_loopback="analyst", output="a.parquet"))
        assert run.code == 0, run.err
    assert_allclose(pd.read_parquet("a.parquet")["value"], alone.agents[0].predict(POINTS.to_numpy()))


def serve_insecurely(path):
    command = [sys.executable, "-c", "from degroot.cli import main; main()", "node", "run", path, "--insecure-loopback"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def wait_for(attempt, patience=60.0):
    until = time.monotonic() + patience
    while (run := attempt()).code != 0 and time.monotonic() < until:
        time.sleep(0.2)
    return run


def test_an_interruption_ends_it_while_answers_are_waited_for(consortium, tmp_path):
    many = tmp_path / "many.csv"
    pd.DataFrame(RANDOM.normal(size=(60_000, 3)), columns=["x0", "x1", "x2"]).to_csv(many, index=False)
    options = {"node": address(consortium), "input": many, "output": tmp_path / "answers.csv", "way": "rounds"}
    told = [text for name, value in (options | consortium.credentials()).items() for text in (f"--{name}", str(value))]
    code = f"import sys; from degroot import cli; sys.argv = {['degroot', 'ask', *told]!r}; cli.main()"
    asked = sum(line.exchanges for line in consults(consortium))
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True) as asking:
        until = time.monotonic() + 60.0
        while sum(line.exchanges for line in consults(consortium)) == asked and time.monotonic() < until:
            time.sleep(0.05)
        asking.send_signal(signal.SIGINT)
        assert asking.wait(120) == 130
        assert asking.stderr.read().splitlines()[-1] == "degroot: stopped"
    assert not (tmp_path / "answers.csv").exists()


def consults(consortium):
    lines = ledger.summary(consortium.configuration("node0").ledger)
    return [line for line in lines if line.kind == "consult"]
