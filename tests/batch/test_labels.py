"""The most likely class as a column, and weights of many agents only where they are asked for."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from degroot import Agent, Collective, Consensus, InvalidInput
from degroot.answers.columns import MAX_WEIGHTS, Columns
from degroot.batch import predict_files
from degroot.cli.ask import _choose_fields
from degroot.cli.output import columns

FEATURES = ["x0", "x1"]


def make_collective(classes=("low", "mid", "high"), K=2):
    random, agents, kinds = np.random.default_rng(0), [], np.array(classes)
    for k in range(K):
        X = pd.DataFrame(random.normal(k / 4, 1.0, size=(40, 2)), columns=FEATURES)
        y = kinds[np.digitize(X["x0"] + random.normal(size=40) / 4, [-0.5, 0.5])]
        agents.append(Agent(LogisticRegression().fit(X, y), X, y, f"a{k}", classes=classes))
    return Collective(agents)


def make_numbers(K):
    rows = np.random.default_rng(0).normal(size=(10, 2))
    return Collective([Agent(lambda X, k=k: X[:, 0] + k, rows, rows[:, 0], f"a{k}") for k in range(K)])


@pytest.fixture
def points(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame(np.random.default_rng(1).normal(size=(20, 2)), columns=FEATURES).assign(id=range(20))
    table.to_csv("in.csv", index=False)
    return table


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_the_most_likely_class_is_the_first_column_of_answers(points, suffix):
    collective = make_collective()
    done = predict_files(collective, "in.csv", f"out{suffix}", keep="id", coverage=0.8)
    found = pd.read_csv(done.output) if suffix == ".csv" else pd.read_parquet(done.output)
    values = ["value_low", "value_mid", "value_high"]
    assert list(found)[:5] == ["id", "label", *values]
    likeliest = collective.predict(points[FEATURES]).argmax(axis=1)
    assert found["label"].tolist() == np.array(["low", "mid", "high"])[likeliest].tolist()
    assert done.fields == ("label", "value", "standard_error", "weights")
    assert done.omitted == ()


def test_a_label_can_be_all_that_is_written_and_is_missing_where_a_row_is_bad(points):
    points.assign(x1=points["x1"].where(points["id"] != 3)).to_csv("gaps.csv", index=False)
    collective = make_collective()
    done = predict_files(collective, "gaps.csv", "out.parquet", fields="label", on_bad_row="null")
    found = pd.read_parquet(done.output)
    assert (list(found), done.bad) == (["label"], 1)
    assert np.flatnonzero(found["label"].isna()).tolist() == [3]


def test_of_equally_likely_classes_the_first_is_the_label():
    answer = Consensus(("a",), value=np.array([[0.2, 0.4, 0.4], [0.5, 0.5, 0.0]]), classes=("1", "2", "3"))
    assert answer.to_frame()["label"].tolist() == [2, 1]  # as the classes are, not as text
    assert answer.to_frame("polars")["label"].to_list() == [2, 1]
    assert columns(answer, answer.classes)["label"] == ["2", "1"]
    assert next(iter(columns(answer, answer.classes))) == "label"


def test_a_frame_has_the_label_first_and_can_do_without():
    collective = make_collective()
    answer = collective.consult(collective.agents[0].X[:5])
    frame = answer.to_frame()
    assert list(frame)[:2] == ["label", "value_low"]
    assert frame["label"].tolist() == [("low", "mid", "high")[q] for q in answer.value.argmax(axis=1)]
    assert list(answer.to_frame(fields=["label"])) == ["label"]
    assert "label" not in answer.to_frame(fields=["value"])


def test_a_label_must_be_of_classes_and_alone_of_its_name(points):
    with pytest.raises(
        InvalidInput, match="The field 'label' must come with classes; this collective predicts numbers"
    ):
        predict_files(make_numbers(2), "in.csv", "out.csv", fields=["label", "value"])
    points.assign(label="old").to_csv("labelled.csv", index=False)
    with pytest.raises(
        InvalidInput, match="column 'label' of the input must have another name to be kept, or `fields`"
    ):
        predict_files(make_collective(), "labelled.csv", "out.csv", keep="label")
    done = predict_files(make_collective(), "labelled.csv", "out.csv", keep="label", fields="value")
    assert set(pd.read_csv(done.output)["label"]) == {"old"}


def test_what_is_computed_for_a_label_is_the_value():
    assert Columns(("label",), ("a",)).computed_fields == ["value"]
    assert Columns(("label", "weights"), ("a",)).computed_fields == ["value", "weights"]
    assert Columns(("weights",), ("a",)).computed_fields == ["weights"]
    assert Columns(("weights", "label", "value"), ("a",)).computed_fields == ["weights", "value"]


# -- weights of many agents --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [0, 1])
def test_weights_of_more_than_twenty_agents_are_written_if_asked_for(points, more):
    collective = make_numbers(MAX_WEIGHTS + more)
    done = predict_files(collective, "in.csv", "out.csv")
    assert done.omitted == (("weights",) if more else ())
    assert len(pd.read_csv(done.output).columns) == (2 if more else 2 + MAX_WEIGHTS)
    done = predict_files(collective, "in.csv", "all.csv", fields=["value", "weights"])
    assert len(pd.read_csv(done.output).columns) == 1 + MAX_WEIGHTS + more
    assert done.omitted == ()


def test_the_command_says_how_to_get_weights_that_are_left_out(points, degroot):
    K, random = MAX_WEIGHTS + 1, np.random.default_rng(0)
    rows = pd.DataFrame(random.normal(size=(20, 2)), columns=FEATURES)
    y = np.where(rows["x0"] > 0, "no", "yes")
    model = LogisticRegression().fit(rows, y)
    Collective([Agent(model, rows, y, f"a{k}", classes=["no", "yes"]) for k in range(K)]).save("many")
    code, out, _ = degroot("predict", "--collective", "many", "--input", "in.csv", "--output", "out.csv")
    assert code == 0
    told = out.splitlines()[-1]
    said, _, fields = told.partition(" To write them: --fields ")
    assert said == "Left out, as there are more than 20 agents: weights."
    assert fields == "label,value,standard_error,weights"
    command = ("predict", "--collective", "many", "--input", "in.csv", "--output", "all.csv", "--fields", fields)
    code, out, _ = degroot(*command)
    assert (code, len(out.splitlines())) == (0, 1)
    assert list(pd.read_csv("all.csv"))[-K:] == [f"weight_a{k}" for k in range(K)]


def test_nodes_are_asked_for_weights_that_are_shown_or_few():
    names = tuple(f"node{k}" for k in range(MAX_WEIGHTS + 1))
    about = {"granted": frozenset({"value", "weights", "standard_error"}), "classes": ("'a'", "'b'")}
    many, few = SimpleNamespace(names=names, **about), SimpleNamespace(names=names[1:], **about)
    usual = ["value", "standard_error", "weights", "missing", "flags"]
    assert _choose_fields(None, many, None) == (usual, [])  # the table shows the largest
    assert _choose_fields(None, few, Path("out.csv")) == (["label", *usual], [])
    fields = ["label", "value", "standard_error", "missing", "flags"]
    assert _choose_fields(None, many, Path("out.csv")) == (fields, ["weights"])
    assert _choose_fields(["weights"], many, Path("out.csv")) == (["weights"], [])
