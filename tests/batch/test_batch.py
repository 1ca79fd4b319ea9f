"""Files through a collective: the answers are those of `consult`, however often a run is interrupted."""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import FunctionTransformer

from degroot import Agent, Collective, DeGrootError, InvalidInput
from degroot.answers.answer import FIELDS, Consensus
from degroot.answers.columns import ALL
from degroot.answers.flags import Flag
from degroot.batch import Columns, Local, check, make_plan, output_names, run

NAMES = ["x0", "x1", "x2"]


def agents(y=lambda X, k: X @ np.array([1.0, -2.0, k]) + np.sin(3 * X[:, 0]), model=Ridge, K=3, **about):
    random = np.random.default_rng(1)
    rows = [random.normal(k / 2, 1.0, size=(60, 3)) for k in range(K)]
    return [Agent(model().fit(X, y(X, k)), X, y(X, k), f"a{k}", **about) for k, X in enumerate(rows)]


@pytest.fixture(scope="module")
def collective():
    return Collective(agents(), n_jobs=1)


def points(rows, seed=2):
    X = np.random.default_rng(seed).normal(size=(rows, 3))
    return pa.table({"id": [f"r{seed}-{k}" for k in range(rows)], **dict(zip(NAMES, X.T, strict=True))})


def array(table):
    return np.column_stack([table[name].to_numpy() for name in NAMES])


def columns(collective, fields=("value", "standard_error", "weights")):
    peers = None if collective.peers is None else tuple(map(tuple, collective.peers.tolist()))
    outputs = output_names(collective.outputs, collective.classes)
    return Columns(tuple(fields), collective.names, outputs, peers)


def planned(collective, files, output, fields=("value", "standard_error", "weights"), **about):
    return make_plan([*map(str, files)], output, NAMES, columns(collective, fields), **({"rows": 20} | about))


class Counting:
    """The engine, with a note of the shards that it was given; it fails at one of them."""

    def __init__(self, collective, fails=None):
        self.engine, self.fails, self.seen = Local(collective.consult, 2), fails, []

    def answers(self, shards, task, end_start_up):
        for shard, answers in self.engine.answers(shards, task, end_start_up):
            if len(self.seen) == self.fails:
                raise DeGrootError("interrupted")
            self.seen.append(shard.number)
            yield shard, answers


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@pytest.mark.parametrize("jobs", [1, 3])
def test_the_answers_are_those_of_the_collective(collective, tmp_path, suffix, jobs):
    tables = [points(rows, rows) for rows in (50, 1, 90)]
    for k, table in enumerate(tables):
        pa.parquet.write_table(table, tmp_path / f"{k}.parquet")
    out = tmp_path / "deep" / f"out{suffix}"
    plan = planned(collective, sorted(tmp_path.glob("*.parquet")), out, [*FIELDS, "flags"], keep=["id"])
    done = run(plan, Local(collective.consult, jobs))
    assert (done.rows, done.before, done.bad, done.output) == (141, 0, 0, out)
    found = pa.parquet.read_table(out) if suffix == ".parquet" else pa.csv.read_csv(out)
    whole = pa.concat_tables(tables)
    answer = collective.consult(array(whole))
    assert found["id"].to_pylist() == whole["id"].to_pylist()
    assert_allclose(found["value"], answer.value, rtol=1e-12)
    assert_allclose(found["standard_error"], answer.standard_error, rtol=1e-9)
    for k, name in enumerate(collective.names):
        assert_allclose(found[f"weight_{name}"], answer.weights[:, k], rtol=1e-12)
        assert_allclose(found[f"belief_{name}"], answer.beliefs[:, k], rtol=1e-12)
        assert_allclose(found[f"influence_{name}"], answer.influence[:, k], rtol=1e-9, atol=1e-12)
        for j, other in enumerate(collective.names):
            assert_allclose(found[f"trust_{name}_{other}"], answer.trust[:, k, j], rtol=1e-12)
    assert not any(found["flags"].to_pylist())
    assert sorted(path.name for path in out.parent.iterdir()) == [out.name]


def test_the_first_question_is_asked_by_one_thread(collective, tmp_path):
    pa.parquet.write_table(points(100), tmp_path / "in.parquet")
    events = []

    def consult(X, fields):
        events.append("begun")
        time.sleep(0.05)
        answer = collective.consult(X, fields)
        events.append("ended")
        return answer

    run(planned(collective, [tmp_path / "in.parquet"], tmp_path / "out.parquet"), Local(consult, 4))
    assert events[:2] == ["begun", "ended"]
    assert len(events) == 12  # five shards, and one row before


def test_a_shard_without_a_good_row_is_no_first_question(collective, tmp_path):
    table = points(100)
    bad = pa.array([None] * 21 + table["x1"].to_pylist()[21:])
    pa.parquet.write_table(table.set_column(2, "x1", bad), tmp_path / "in.parquet")
    events = []

    def consult(X, fields):
        events.append(len(X))
        time.sleep(0.05)
        events.append("ended")
        return collective.consult(X, fields)

    plan = planned(collective, [tmp_path / "in.parquet"], tmp_path / "out.parquet", on_bad_row="null")
    assert run(plan, Local(consult, 4)).bad == 21
    assert events[:2] == [1, "ended"]
    assert sorted(rows for rows in events if rows != "ended") == [1, 19, 20, 20, 20]


def test_classes_and_several_outputs_have_columns_by_their_names(tmp_path):
    made = {
        ("cat", "dog"): agents(
            lambda X, k: np.where(X[:, 0] > 0, "cat", "dog"), LogisticRegression, classes=["cat", "dog"]
        ),
        ("0", "1"): agents(lambda X, k: X[:, :2] + k),
    }
    pa.parquet.write_table(points(30), tmp_path / "in.parquet")
    for names, members in made.items():
        asked = Collective(members, n_jobs=1)
        plan = planned(asked, [tmp_path / "in.parquet"], tmp_path / "out.parquet", ["value", "beliefs", "weights"])
        run(plan, Local(asked.consult, 1))
        found, answer = pa.parquet.read_table(tmp_path / "out.parquet"), asked.consult(array(points(30)))
        for q, name in enumerate(names):
            assert_allclose(found[f"value_{name}"], answer.value[:, q])
            assert_allclose(found[f"belief_a1_{name}"], answer.beliefs[:, 1, q])
        assert_allclose(found["weight_a2"], answer.weights[:, 2])


def test_trust_in_a_sample_of_the_models_names_those_that_are_scored(tmp_path):
    asked = Collective(agents(K=5), degree=3, n_jobs=1)
    pa.parquet.write_table(points(30), tmp_path / "in.parquet")
    run(planned(asked, [tmp_path / "in.parquet"], tmp_path / "out.parquet", ["trust"]), Local(asked.consult, 1))
    found, answer = pa.parquet.read_table(tmp_path / "out.parquet"), asked.consult(array(points(30)))
    assert found.num_columns == 15
    for i, scored in enumerate(asked.peers):
        for place, j in enumerate(scored):
            assert_allclose(found[f"trust_a{i}_a{j}"], answer.trust[:, i, place])


def test_flags_are_told_row_by_row():
    flags = (
        Flag("b", "missing: no answer", np.array([0, 2])), Flag("a", "too far: it says 7", np.array([2])),
        Flag("c", "missing: timeout", np.array([2])),
    )  # fmt: skip
    answer = Consensus(("a", "b", "c"), value=np.zeros(3), flags=flags)
    made = Columns(("flags", "missing"), answer.names)
    told = dict(zip(made.schema.names, (each.to_pylist() for each in made.arrays(answer)), strict=True))
    assert told == {"flags": ["", "", "a: too far"], "missing": ["b", "", "b;c"]}


def test_a_class_that_is_no_python_is_called_as_it_is_written():
    assert output_names(3, ["'cat'", "cow", "1 +"]) == ("cat", "cow", "1 +")


def test_agents_that_change_while_they_are_asked_are_refused():
    with pytest.raises(InvalidInput, match="must stay the same; they were a, b and are a, c"):
        Columns(("value",), ("a", "b")).arrays(Consensus(("a", "c"), value=np.zeros(1)))


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@settings(max_examples=8)
@given(stops=st.lists(st.integers(0, 4), max_size=3))
def test_an_interrupted_run_goes_on_and_ends_with_the_same_bytes(collective, tmp_path_factory, suffix, stops):
    folder = tmp_path_factory.mktemp("run")
    for k in range(3):
        pa.parquet.write_table(points(45, k), folder / f"{k}.parquet")
    straight, out = folder / f"straight{suffix}", folder / f"out{suffix}"
    files = sorted(folder.glob("?.parquet"))
    run(planned(collective, files, straight, keep=["id"]), Local(collective.consult, 1))
    seen = []
    for stop in stops:
        if len(seen) + stop < 9:
            engine = Counting(collective, stop)
            with pytest.raises(DeGrootError, match="interrupted"):
                run(planned(collective, files, out, keep=["id"]), engine)
            assert not out.exists()
            seen += engine.seen
    engine = Counting(collective)
    done = run(planned(collective, files, out, keep=["id"]), engine)
    assert done.before == sum((20, 20, 5)[number % 3] for number in seen)
    assert sorted(seen + engine.seen) == list(range(9))  # nothing is done twice
    assert out.read_bytes() == straight.read_bytes()
    assert not out.with_name(out.name + ".unfinished").exists()


@pytest.fixture
def stopped(collective, tmp_path):
    """A run that was interrupted after two shards, the plan, and its folder."""
    pa.parquet.write_table(points(100), tmp_path / "in.parquet")
    plan = planned(collective, [tmp_path / "in.parquet"], tmp_path / "out.parquet")
    with pytest.raises(DeGrootError, match="interrupted"):
        run(plan, Counting(collective, 2))
    return plan, tmp_path / "out.parquet.unfinished"


def finished(folder):
    first, *entries = (folder / "manifest.jsonl").read_text().splitlines()
    assert json.loads(first)["inputs"]
    return [json.loads(entry)["part"] for entry in entries]


def test_a_manifest_says_what_is_finished(stopped, collective):
    _, folder = stopped
    assert {f"{number:08d}.arrow" for number in finished(folder)} <= {path.name for path in folder.iterdir()}
    assert len(finished(folder)) == 2
    assert not (folder.parent / "out.parquet").exists()


def test_a_line_of_the_manifest_that_was_cut_off_does_not_count(stopped, collective):
    plan, folder = stopped
    manifest = folder / "manifest.jsonl"
    manifest.write_bytes(manifest.read_bytes()[:-5])
    engine = Counting(collective)
    assert run(plan, engine).before == 20
    assert len(engine.seen) == 4


def test_a_manifest_of_which_a_power_cut_left_nothing_does_not_count(stopped, collective):
    plan, folder = stopped
    manifest = folder / "manifest.jsonl"
    manifest.write_bytes(b"\0" * manifest.stat().st_size + b"\n")
    assert run(plan, Local(collective.consult, 1)).before == 0


def test_a_part_that_is_not_whole_does_not_count(stopped, collective):
    plan, folder = stopped
    changed, lost = (folder / f"{number:08d}.arrow" for number in finished(folder))
    content = bytearray(changed.read_bytes())
    content[len(content) // 2] ^= 1
    changed.write_bytes(content)
    lost.unlink()
    engine = Counting(collective)
    assert run(plan, engine).before == 0
    assert sorted(engine.seen) == [0, 1, 2, 3, 4]


def test_a_run_of_something_else_is_refused_and_restarted_when_told(stopped, collective, tmp_path):
    plan, folder = stopped
    source, out = tmp_path / "in.parquet", plan.output
    before = sorted((path.name, path.read_bytes()) for path in folder.iterdir())
    others = {
        "fields": planned(collective, [source], out, ["value"]),
        "keep": planned(collective, [source], out, keep=["id"]),
        "on_bad_row": planned(collective, [source], out, on_bad_row="null"),
        "collective": planned(collective, [source], out, identity={"collective": "another"}),
        "rows": planned(collective, [source], out, rows=30),
    }
    pa.parquet.write_table(points(100), tmp_path / "more.parquet")
    others["inputs"] = planned(collective, [source, tmp_path / "more.parquet"], out)
    for what, other in others.items():
        with pytest.raises(
            InvalidInput, match=rf"must be of the same command to go on; it had other .*{what}.*`restart`"
        ):
            run(other, Local(collective.consult, 1))
    assert sorted((path.name, path.read_bytes()) for path in folder.iterdir()) == before
    assert run(others["inputs"], Local(collective.consult, 1), restart=True).before == 0
    assert pa.parquet.read_table(out).num_rows == 200


def test_input_that_changes_while_it_is_read_is_refused(collective, tmp_path):
    source = tmp_path / "in.parquet"
    pa.parquet.write_table(points(100), source)
    plan = planned(collective, [source], tmp_path / "out.parquet")

    class Meddling(Counting):
        def answers(self, shards, task, end_start_up):
            yield from super().answers(shards, task, end_start_up)
            pa.parquet.write_table(points(100, 3), source)

    with pytest.raises(InvalidInput, match="must stay the same while it is read"):
        run(plan, Meddling(collective))
    assert not plan.output.exists()


def test_an_engine_that_loses_a_shard_writes_no_output(stopped, collective):
    plan, _ = stopped

    class Losing(Counting):
        def answers(self, shards, task, end_start_up):
            yield from super().answers(shards[:-1], task, end_start_up)

    with pytest.raises(DeGrootError, match="must answer all shards; number 4 of 5 was not answered"):
        run(plan, Losing(collective))
    assert not plan.output.exists()


def test_one_output_is_written_by_one_run(stopped, collective):
    plan, _ = stopped

    class Nested(Counting):
        def answers(self, shards, task, end_start_up):
            with pytest.raises(InvalidInput, match="Only one run at a time"):
                run(plan, Local(collective.consult, 1))
            yield from super().answers(shards, task, end_start_up)

    assert run(plan, Nested(collective)).rows == 100


def test_a_run_that_finishes_nothing_leaves_nothing(collective, tmp_path):
    pa.parquet.write_table(points(100), tmp_path / "in.parquet")
    with pytest.raises(DeGrootError, match="interrupted"):
        run(planned(collective, [tmp_path / "in.parquet"], tmp_path / "out.parquet"), Counting(collective, 0))
    assert [path.name for path in tmp_path.iterdir()] == ["in.parquet"]


BAD = {5: "x0", 25: "x2", 26: "x0", 99: "x1"}  # rows with a value that is none


@pytest.mark.parametrize(("value", "told"), [(None, "missing"), (np.nan, "NaN"), (np.inf, "inf"), (-np.inf, "-inf")])
def test_a_bad_row_is_refused_by_its_file_and_number(collective, tmp_path, value, told):
    table = points(100)
    for row, name in BAD.items():
        values = table[name].to_pylist()
        values[row] = value
        table = table.set_column(table.schema.get_field_index(name), name, pa.array(values, pa.float64()))
    pa.parquet.write_table(points(7), tmp_path / "a.parquet")
    pa.parquet.write_table(table, tmp_path / "b.parquet")
    plan = planned(collective, [tmp_path / "b.parquet", tmp_path / "a.parquet"], tmp_path / "out.parquet")
    with pytest.raises(InvalidInput, match=rf"row 6 of .*b\.parquet: 'x0' is {told}\."):
        run(plan, Local(collective.consult, 1))
    assert not plan.output.exists()


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("source", ["csv", "parquet"])
def test_bad_rows_are_null_and_counted_where_that_is_asked_for(collective, tmp_path, source, suffix):
    table, out = points(100), tmp_path / f"out{suffix}"
    good = np.setdiff1d(np.arange(100), list(BAD))
    for row, name in BAD.items():
        values = table[name].to_pylist()
        values[row] = "n/a?" if source == "csv" else np.inf
        table = table.set_column(
            table.schema.get_field_index(name),
            name,
            pa.array(map(str, values)) if source == "csv" else pa.array(values),
        )
    writers = {"csv": pa.csv.write_csv, "parquet": pa.parquet.write_table}
    writers[source](table, tmp_path / f"in.{source}")
    about = {"on_bad_row": "null", "keep": ["id"], "rows": 2}
    plan = planned(collective, [tmp_path / f"in.{source}"], out, **about)
    assert run(plan, Local(collective.consult, 2)).bad == 4
    found = pa.parquet.read_table(out) if suffix == ".parquet" else pa.csv.read_csv(out)
    assert found["id"].to_pylist() == points(100)["id"].to_pylist()
    answer = collective.consult(array(points(100))[good])
    for name, expected in {"value": answer.value, "weight_a1": answer.weights[:, 1]}.items():
        assert_array_equal(np.flatnonzero(found[name].is_null()), sorted(BAD))
        assert_allclose(found[name].take(good), expected, rtol=1e-12)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_gaps_are_points_like_others_where_every_agent_has_a_space(tmp_path, kind):
    asked = Collective(agents(model=lambda: Filling(Ridge()), space=FunctionTransformer(np.nan_to_num)), n_jobs=1)
    assert asked.takes_gaps
    values = [None, np.nan, *points(30)["x0"].to_pylist()[2:]]
    table = points(30).set_column(1, "x0", pa.array(values, pa.float64()))
    if kind == "csv":
        values = ["", "NA", "?", *map(str, values[3:])]
        table = table.set_column(1, "x0", pa.array(values))
    (pa.csv.write_csv if kind == "csv" else pa.parquet.write_table)(table, tmp_path / f"in.{kind}")
    about = {"gaps": asked.takes_gaps, "on_bad_row": "null"}
    plan = planned(asked, [tmp_path / f"in.{kind}"], tmp_path / "out.parquet", **about)
    bad = [2] if kind == "csv" else []  # no number, and no gap either
    assert run(plan, Local(asked.consult, 1)).bad == len(bad)
    found = pa.parquet.read_table(tmp_path / "out.parquet")["value"].to_numpy()
    X = array(points(30))
    X[:2, 0] = 0.0
    expected = asked.predict(X)
    expected[bad] = np.nan
    assert_allclose(found, expected)


class Filling:
    def __init__(self, model):
        self.model = model

    def fit(self, X, y):
        self.model.fit(X, y)
        return self

    def predict(self, X):
        return self.model.predict(np.nan_to_num(X))


def test_what_a_model_cannot_answer_is_told_with_the_rows(tmp_path):
    def narrow(X):
        if (X[:, 0] > 1.8).any():
            raise RuntimeError("out of range")
        return X[:, 0]

    random = np.random.default_rng(0)
    X = np.clip(random.normal(size=(40, 3)), -1.5, 1.5)
    asked = Collective([Agent(narrow, X, X[:, 0], "narrow"), Agent(lambda X: X[:, 0], X, X[:, 0], "other")], n_jobs=1)
    table = points(100)
    row = int(np.argmax(array(table)[:, 0] > 1.8))
    pa.parquet.write_table(table, tmp_path / "in.parquet")
    plan = planned(asked, [tmp_path / "in.parquet"], tmp_path / "out.parquet")
    first = row // 20 * 20 + 1
    with pytest.raises(
        InvalidInput, match=rf"^rows {first} to {first + 19} of .*in.parquet: Agent 'narrow'.*out of range"
    ):
        run(plan, Local(asked.consult, 1))


@pytest.mark.parametrize("field", ["value", "weights"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_an_answer_that_is_no_number_is_never_written(collective, tmp_path, field, value):
    table = points(100)
    pa.parquet.write_table(
        table.set_column(2, "x1", pa.array([None, *table["x1"].to_pylist()[1:]])), tmp_path / "in.parquet"
    )

    def consult(X, fields):
        answer = collective.consult(X, fields)
        getattr(answer, field)[X[:, 0] == array(table)[47, 0]] = value
        return answer

    plan = planned(collective, [tmp_path / "in.parquet"], tmp_path / "out.parquet", on_bad_row="null")
    with pytest.raises(InvalidInput, match=rf"must be a finite number; row 48 of .*in.parquet: '{field}' is not\."):
        run(plan, Local(consult, 1))
    assert not plan.output.exists()


def test_input_is_looked_at_in_a_fixed_order_and_each_file_once(collective, tmp_path, monkeypatch):
    for name in (
        "b.parquet",
        "a.parquet",
        "deep/c.parquet",
        "_hidden.parquet",
        ".b/x.parquet",
        "o.csv.unfinished/0.arrow",
    ):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        pa.parquet.write_table(points(3), tmp_path / "in" / name)
    (tmp_path / "in" / "readme.txt").write_text("not a table")
    monkeypatch.chdir(tmp_path)
    given = ["in", tmp_path / "in", tmp_path / "in" / "b.parquet", tmp_path / "in" / "[a-c].par*"]
    plan = planned(collective, given, tmp_path / "out.parquet")
    assert [Path(shard.file).name for shard in plan.shards] == ["a.parquet", "b.parquet", "c.parquet"]


def test_a_folder_that_may_not_be_looked_into_is_refused(collective, tmp_path, monkeypatch):
    (tmp_path / "in" / "locked").mkdir(parents=True)
    pa.parquet.write_table(points(3), tmp_path / "in" / "a.parquet")
    scandir = os.scandir

    def denied(path):
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", denied)  # root may look into every folder
    assert planned(collective, [tmp_path / "in" / "a.parquet"], tmp_path / "out.parquet").rows == 3
    with pytest.raises(InvalidInput, match=r"must be folders that can be read; .*in/locked: Permission denied"):
        planned(collective, [tmp_path / "in"], tmp_path / "out.parquet")
    (tmp_path / "in" / "locked").rename(tmp_path / "in" / ".locked")  # nobody wants to look there
    assert planned(collective, [tmp_path / "in"], tmp_path / "out.parquet").rows == 3


@pytest.mark.parametrize("fields", [["value"], ["weights"], ["weights", "trust"]])
def test_shards_are_smaller_where_answers_are_wide(tmp_path, fields):
    pa.parquet.write_table(points(100_000), tmp_path / "in.parquet")
    for K in (2, 200):
        made = Columns(tuple(fields), tuple(f"a{k}" for k in range(K)))
        plan = make_plan([str(tmp_path / "in.parquet")], tmp_path / "out.parquet", NAMES, made)
        assert max(shard.rows for shard in plan.shards) * len(plan.task.schema) * 8 <= 2**25
        assert plan.rows == 100_000
        wide = len(NAMES) + len(plan.task.schema) + K  # numbers of a row
        assert len(plan.shards) == -(-100_000 // min(65536, 2**25 // (8 * wide)))


def test_a_run_tells_its_rate_without_start_up(collective, tmp_path, monkeypatch):
    class Clock:
        now = 0.0

        def monotonic(self):
            return self.now

    class Slow(Counting):
        def answers(self, shards, task, end_start_up):
            clock.now += 20.0
            end_start_up()
            for answered in super().answers(shards, task, lambda: None):
                clock.now += 0.5
                yield answered

    clock = Clock()
    monkeypatch.setattr(sys.modules["degroot.batch.run"], "time", clock)  # the package has a function of that name
    pa.parquet.write_table(points(100), tmp_path / "in.parquet")
    plan = planned(collective, [tmp_path / "in.parquet"], tmp_path / "out.csv", rows=25)
    done = run(plan, Slow(collective))
    assert (done.seconds, done.start_up, done.rate) == (2.0, 20.0, 50.0)
    assert "; 20.0 seconds of start-up; 2.0 seconds; 50 rows per second; " in str(done)


def test_start_up_ends_when_the_first_question_is_answered(collective, tmp_path):
    pa.parquet.write_table(points(100), tmp_path / "in.parquet")
    plan, events = planned(collective, [tmp_path / "in.parquet"], tmp_path / "out.csv", rows=25), []

    def consult(X, fields):
        answer = collective.consult(X, fields)
        events.append(len(X))
        return answer

    for _ in Local(consult, 2).answers(plan.shards, plan.task, lambda: events.append("end of start-up")):
        pass
    assert events[:2] == [1, "end of start-up"]
    assert sorted(events[2:]) == [25] * 4


@pytest.mark.parametrize("fields", [[], ["value", "value"], ["values"], ["weights", "nothing"]])
def test_fields_must_be_known_and_different(tmp_path, fields):
    with pytest.raises(InvalidInput, match=f"Fields must be different ones of {', '.join(ALL)}; got "):
        check([str(tmp_path)], tmp_path / "out.csv", fields)
