"""Files answered for an asker, or for those that a column names: as the collective does, counted and resumable."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from support.askers import KINDS, NAMES, make_agents
from support.refusals import complaint

from degroot import Agent, Collective
from degroot.batch import Columns, Local, make_plan, predict_files, run
from degroot.batch.task import Task
from degroot.consultation.asker import AskerView

FEATURES = ["x0", "x1"]


def rows(count=40, seed=0):
    table = pd.DataFrame(np.random.default_rng(seed).normal(size=(count, 2)) / 2, columns=FEATURES)
    return table.assign(who=[[*NAMES, "east", ""][k % 5] for k in range(count)])


def points(table):
    return table[FEATURES].to_numpy()


def askers(table):
    return [name if name in NAMES else None for name in table["who"]]


@pytest.fixture(scope="module")
def collective():
    return Collective(make_agents())


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A file in an empty folder."""
    monkeypatch.chdir(tmp_path)
    rows().to_csv("in.csv", index=False)
    rows().replace({"who": {"": None}}).to_parquet("in.parquet")
    return tmp_path


def assert_written(found, answer, names=("value", "weights", "correction")):
    for name in names:
        expected = np.asarray(getattr(answer, name)).reshape(len(found), -1)
        columns = [column for column in found if column.startswith({"weights": "weight_"}.get(name, name))]
        assert_allclose(found[columns].to_numpy(), expected, rtol=1e-9, atol=1e-12, err_msg=name)


# -- the same answers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_those_of_the_collective_for_its_asker(home, kind):
    made = Collective(make_agents(kind, n=60))
    fields = ["value", "weights", "correction"]
    done = predict_files(made, "in.csv", "one.csv", fields=fields, asker="south", correct=True)
    assert_written(pd.read_csv("one.csv"), made.consult(points(rows()), fields, asker="south", correct=True))
    assert "consensus" not in str(done)
    done = predict_files(made, "in.parquet", "each.csv", fields=fields, asker_column="who", keep="who")
    found = pd.read_csv("each.csv", keep_default_na=False)
    assert_written(found, made.consult(points(rows()), fields, asker=askers(rows())))
    assert found["who"].tolist() == rows()["who"].tolist()
    assert done.unmatched.rows == 16


def test_a_saved_collective_answers_askers_alike(home, collective):
    folder = collective.save("saved")
    for about in ({"asker": "west"}, {"asker_column": "who", "coverage": 0.8}):
        for given, output in ((collective, "memory.csv"), (folder, "file.csv")):
            predict_files(given, "in.csv", output, **about)
        one, other = (pd.read_csv(name) for name in ("memory.csv", "file.csv"))
        assert_allclose(one.to_numpy(), other.to_numpy(), rtol=1e-9)


def test_intervals_are_those_of_each_asker(home, collective):
    for about in ({"asker": "west"}, {"asker_column": "who"}):
        predict_files(collective, "in.csv", "out.csv", fields="value", coverage=0.8, **about)
        assert not collective.is_calibrated  # it is the caller's
        asked = about.get("asker", askers(rows()))
        expected = Collective(make_agents()).calibrate().consult(points(rows()), coverage=0.8, asker=asked)
        assert_written(pd.read_csv("out.csv"), expected, ["value", "lower", "upper"])


def test_a_calibration_that_was_saved_is_used(home, monkeypatch):
    folder = Collective(make_agents()).calibrate().save("saved")
    monkeypatch.setattr("degroot.collective.calibrate", None)
    predict_files(folder, "in.csv", "out.csv", fields="value", coverage=0.8, asker_column="who")
    assert list(pd.read_csv("out.csv")) == ["value", "lower", "upper"]


def test_the_view_of_an_asker_is_made_once(home, monkeypatch):
    made, views = Collective(make_agents()), []
    leave_out = AskerView._leave_out
    monkeypatch.setattr(AskerView, "_leave_out", lambda self, *a: views.append(self.agent.name) or leave_out(self, *a))
    predict_files(made, "in.csv", "out.csv", fields="value", asker="west", jobs=2)
    assert views == ["west"]
    made.predict(points(rows()), "west")  # the caller's own collective knew nothing of it
    assert views == ["west", "west"]


# -- which rows are whose ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(
    "kind", [int, float, str, lambda k: pd.Categorical(k.astype(str)), lambda k: pd.array(k).astype("Int64")]
)
def test_the_column_may_hold_text_or_numbers(home, suffix, kind):
    X = np.random.default_rng(0).normal(size=(40, 2))
    made = Collective([Agent(lambda X, k=k: k * X[:, 0], X, X[:, 0], str(k)) for k in (1, 2, 3)])
    numbers = pd.Series(np.arange(40) % 4 + 1)  # 4 is nobody
    table = rows().assign(who=numbers.astype(kind) if isinstance(kind, type) else kind(numbers))
    getattr(table, f"to_{suffix[1:]}")(f"numbers{suffix}", index=False)
    done = predict_files(made, f"numbers{suffix}", "out.csv", fields="value", asker_column="who")
    expected = made.predict(points(rows()), [None if k == 4 else str(k) for k in numbers])
    assert_allclose(pd.read_csv("out.csv")["value"], expected, rtol=1e-9)
    assert (done.unmatched.rows, len(done.unmatched.labels)) == (10, 1)


def test_the_column_is_no_feature_unless_it_is_one_by_name(home):
    X = np.random.default_rng(0).normal(size=(40, 2))
    frame = pd.DataFrame(X.round(), columns=["who", "x1"])
    made = Collective([Agent(lambda X, k=k: k * X["who"], frame, X[:, 0], str(k)) for k in (0, 1)])
    table = pd.DataFrame({"who": [0.0, 1.0, 5.0], "x1": 1.0})
    table.to_csv("feature.csv", index=False)
    predict_files(made, "feature.csv", "out.csv", fields="value", asker_column="who")
    assert_allclose(pd.read_csv("out.csv")["value"], made.predict(table, ["0", "1", None]), rtol=1e-9)


def test_rows_of_nobody_are_counted_over_all_parts_and_told_once(home, collective, monkeypatch):
    monkeypatch.setattr("degroot.batch.plan.ROWS", 7)
    done = predict_files(collective, ["in.csv", "in.parquet"], "out.csv", fields="value", asker_column="who", jobs=2)
    assert (done.unmatched.rows, done.asker_column) == (32, "who")
    told = (
        "32 of 80 rows have a 'who' that is no agent with a view of its own ('east', missing): "
        "they get the neutral consensus"
    )
    assert str(done).count(told) == 1
    rows().assign(who="north").to_csv("known.csv", index=False)
    assert "agent" not in str(predict_files(collective, "known.csv", "out.csv", fields="value", asker_column="who"))
    rows(4).assign(who=["east", "north", "north", "north"], x1=[1.0, 1.0, None, 1.0]).to_csv("bad.csv", index=False)
    done = predict_files(collective, "bad.csv", "out.csv", fields="value", asker_column="who", on_bad_row="null")
    assert (
        "1 bad; 1 of 4 rows has a 'who' that is no agent with a view of its own ('east'): it gets the neutral consensus"
        in str(done)
    )
    assert pd.read_csv("out.csv", skip_blank_lines=False)["value"].isna().tolist() == [False, False, True, False]


# -- a run that was interrupted ----------------------------------------------------------------------------------------


@pytest.fixture
def stopping(monkeypatch):
    """Ends runs before a shard, and tells which were answered."""
    answered, answer = [], Task.answer

    def stop(before):
        def answers(self, shard, table, consult):
            if shard.number == before:
                raise KeyboardInterrupt
            answered.append(shard.number)
            return answer(self, shard, table, consult)

        monkeypatch.setattr(Task, "answer", answers)

    return stop, answered


def test_a_resumed_run_counts_all_rows(home, collective, stopping, monkeypatch):
    stop, answered = stopping
    monkeypatch.setattr("degroot.batch.plan.ROWS", 10)
    command = {"fields": "value", "asker_column": "who", "jobs": 1}
    whole = predict_files(collective, "in.csv", "whole.csv", **command)
    stop(2)
    with pytest.raises(KeyboardInterrupt):
        predict_files(collective, "in.csv", "out.csv", **command)
    stop(None)
    del answered[:]
    done = predict_files(collective, "in.csv", "out.csv", **command)
    assert (answered, done.before) == ([2, 3], 20)
    assert done.unmatched == whole.unmatched
    assert (home / "out.csv").read_bytes() == (home / "whole.csv").read_bytes()


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"asker": "south"}, "asker"),
        ({"asker": None}, "asker"),
        ({"asker": None, "asker_column": "who"}, "asker_column"),
        ({"correct": True}, "correct"),
    ],
)
@pytest.mark.parametrize("place", ["memory", "file"])
def test_another_asker_is_another_run(home, collective, stopping, monkeypatch, other, told, place):
    stop, _ = stopping
    monkeypatch.setattr("degroot.batch.plan.ROWS", 10)
    command = {"fields": "value", "asker": "north", "jobs": 1}
    given = collective if place == "memory" else collective.save("saved")
    stop(2)
    with pytest.raises(KeyboardInterrupt):
        predict_files(given, "in.csv", "out.csv", **command)
    message = complaint(lambda: predict_files(given, "in.csv", "out.csv", **command | other))
    assert "must be of the same command to go on" in message
    assert told in message.partition("it had other ")[2]
    stop(None)
    assert predict_files(given, "in.csv", "out.csv", **command | {"correct": False}).before == 20  # as by default


def test_other_labels_of_the_asker_are_another_run(home, stopping, monkeypatch):
    """An average is the same whatever the labels are; the view of an asker is not."""
    stop, _ = stopping
    monkeypatch.setattr("degroot.batch.plan.ROWS", 10)
    one, two = make_agents(), make_agents()
    two[0].y = two[0].y + 1.0
    stop(2)
    for asked in ({"asker": "north"}, {"asker_column": "who"}):
        with pytest.raises(KeyboardInterrupt):
            predict_files(Collective(one, rule="average"), "in.csv", "out.csv", fields="value", jobs=1, **asked)
        other = Collective(two, rule="average")
        message = complaint(lambda: predict_files(other, "in.csv", "out.csv", fields="value", **asked))  # noqa: B023
        assert "it had other evidence" in message
        with pytest.raises(KeyboardInterrupt):
            predict_files(other, "in.csv", "out.csv", fields="value", jobs=1, restart=True, **asked)
        for file in (home / "out.csv.unfinished").iterdir():
            file.unlink()


# -- mistakes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("about", "told"),
    [
        ({"asker": "east"}, "`asker` must be one of 'north', 'south', 'west'; got 'east'."),
        ({"asker": ["north"]}, "`asker` must be one name; got ['north']."),
        ({"asker_column": 3}, "`asker_column` must be one name; got 3."),
        ({"asker": "north", "asker_column": "who"}, "Either `asker` or `asker_column` must say for whom"),
        ({"asker_column": "whose"}, "in.csv must have the column 'whose'; it has none"),
        ({"asker": "north", "fields": "trust"}, "The field 'trust' must come with the consensus"),
        ({"asker_column": "who", "fields": ["value", "trust"]}, "The field 'trust' must come with the consensus"),
        ({"fields": "correction"}, "The field 'correction' must come with an asker"),
        ({"correct": True}, "`correct` must come with an asker"),
        ({"asker": "north", "correct": 1}, "`correct` must be True or False; got 1."),
    ],
)
def test_a_mistake_is_one_clear_line(home, collective, about, told):
    assert told in complaint(lambda: predict_files(collective, "in.csv", "out.csv", **about))
    assert not (home / "out.csv").exists()
    assert not (home / "out.csv.unfinished").exists()


def test_who_scores_a_sample_of_the_models_has_no_view(home):
    more = make_agents(n=80)[0]
    more.name = "centre"
    sampled = Collective([*make_agents(), more], degree=3)
    for about in ({"asker": "north"}, {"asker_column": "who"}):
        told = complaint(lambda: predict_files(sampled, "in.csv", "out.csv", **about))  # noqa: B023
        assert "with degree=3 the scores of 1 of 4 models are missing" in told


def test_a_column_that_names_nobody_needs_no_views(home, collective):
    """Also of engines of one's own: whoever is asked is told the asker of each row."""
    asked = []

    def consult(X, fields, asker):
        asked.extend(asker)
        return collective.consult(X, fields, asker=asker)

    plan = make_plan(["in.csv"], Path("out.csv"), FEATURES, Columns(("value",), NAMES), asker_column="who")
    assert run(plan, Local(consult, 1)).unmatched.rows == 16
    assert asked[1:] == askers(rows())
