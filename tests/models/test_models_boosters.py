"""Files of LightGBM and XGBoost answer as the estimators that wrote them; half a file is a line, not a crash."""

import pickle
import subprocess
import sys

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from numpy.testing import assert_allclose, assert_array_equal
from support.refusals import complaint

from degroot import Agent, AgentError, Collective, load_model
from degroot.models import bind_schema, check_features
from degroot.models.lightgbm_check import check_trees
from degroot.models.saving import model_file
from degroot.models.skops import from_skops
from degroot.schema import Column, Schema, encode_frame

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(120, 3))
Y = X @ [1.0, -2.0, 0.5] + 0.1 * RANDOM.normal(size=120)
NUMBERS = np.digitize(Y, [-1.0, 1.0])
LABELS = np.array(["low", "mid", "top"])[NUMBERS]
FEW = {"n_estimators": 4, "n_jobs": 1}
ENABLED = {"enable_categorical": True}


def lightgbm_file(folder, model, suffix=".txt"):
    path = folder / f"model{suffix}"
    model.booster_.save_model(path)
    return path


def xgboost_file(folder, model, suffix=".ubj"):
    path = folder / f"model{suffix}"
    model.save_model(path)
    return path


def light(kind=lightgbm.LGBMRegressor, **options):
    return kind(verbose=-1, **FEW, **options)


def extreme(kind=xgboost.XGBRegressor, **options):
    return kind(**FEW, **options)


@pytest.mark.parametrize("suffix", [".txt", ".lgb"])
def test_a_lightgbm_file_answers_as_the_estimator(tmp_path, suffix):
    model = light().fit(X, Y)
    loaded = load_model(lightgbm_file(tmp_path, model, suffix))
    assert_array_equal(loaded.predict(X), model.predict(X), strict=True)
    assert (loaded.n_features_in_, loaded.feature_names_in_) == (3, None)
    with_gaps = np.where(X > 1.5, np.nan, X)
    assert_array_equal(loaded.predict(with_gaps), model.predict(with_gaps))
    assert_array_equal(pickle.loads(pickle.dumps(loaded)).predict(X), model.predict(X))


@pytest.mark.parametrize("suffix", [".ubj", ".json", ".xgb"])
@pytest.mark.parametrize(
    ("model", "labels"),
    [
        (extreme(), Y),
        (extreme(), np.column_stack([Y, -Y])),
        (extreme(booster="gblinear"), Y),
        (extreme(booster="dart"), Y),
    ],
)
def test_an_xgboost_file_answers_as_the_estimator(tmp_path, suffix, model, labels):
    if suffix == ".xgb":
        model.fit(X, labels).get_booster().save_model(tmp_path / "other.ubj")
        path = (tmp_path / "other.ubj").rename(tmp_path / "model.xgb")
    else:
        path = xgboost_file(tmp_path, model.fit(X, labels), suffix)
    loaded = load_model(path)
    assert_array_equal(loaded.predict(X), model.predict(X), strict=True)
    assert loaded.n_features_in_ == 3
    assert_array_equal(pickle.loads(pickle.dumps(loaded)).predict(X), model.predict(X))


def test_trees_that_were_grown_in_vain_do_not_count(tmp_path):
    model = extreme(early_stopping_rounds=1, learning_rate=1.0).set_params(n_estimators=50)
    model.fit(X[:60], Y[:60], eval_set=[(X[60:], Y[60:])], verbose=False)
    assert model.best_iteration + 1 < len(model.get_booster().get_dump())
    assert_array_equal(load_model(xgboost_file(tmp_path, model)).predict(X), model.predict(X))


@pytest.mark.parametrize("numbers", [NUMBERS, np.minimum(NUMBERS, 1)])
@pytest.mark.parametrize(
    "make", [(light, lightgbm.LGBMClassifier, lightgbm_file), (extreme, xgboost.XGBClassifier, xgboost_file)]
)
def test_a_classifier_knows_numbers_until_it_is_told_labels(tmp_path, make, numbers):
    made, kind, file = make
    model = made(kind).fit(X, numbers)
    path, names = file(tmp_path, model), ["low", "mid", "top"][: numbers.max() + 1]
    loaded, labelled = load_model(path), load_model(path, classes=names)
    assert_array_equal(loaded.predict_proba(X), model.predict_proba(X), strict=True)
    assert_array_equal(loaded.predict(X), model.predict(X))
    assert_array_equal(labelled.predict(X), np.array(names)[model.predict(X)])
    agent = Agent(labelled, X, np.array(names)[numbers], "north", classes=[*names[::-1], "never"])
    assert_allclose(agent.predict(X)[:, -2::-1], model.predict_proba(X), atol=1e-6)
    with pytest.raises(AgentError, match="must hold labels among 'low'"):
        Agent(loaded, X, np.array(names)[numbers], "north", classes=names).predict(X)
    assert f"must be {len(names)} different labels" in complaint(lambda: load_model(path, classes=["low"]))
    assert_array_equal(pickle.loads(pickle.dumps(labelled)).classes_, names)


def test_objectives_that_give_no_probabilities_are_turned_into_some(tmp_path):
    rows = xgboost.DMatrix(X, NUMBERS)
    soft, hard = (
        xgboost.train({"objective": f"multi:{kind}", "num_class": 3, "nthread": 1}, rows, 3)
        for kind in ("softprob", "softmax")
    )
    hard.save_model(tmp_path / "hard.json")
    loaded = load_model(tmp_path / "hard.json")
    assert_allclose(loaded.predict_proba(X), soft.predict(rows), atol=1e-6)
    assert_array_equal(loaded.predict(X), hard.predict(rows))
    raw = xgboost.train({"objective": "binary:logitraw", "nthread": 1}, xgboost.DMatrix(X, NUMBERS > 0), 3)
    raw.save_model(tmp_path / "raw.json")
    expected = 1 / (1 + np.exp(-raw.predict(rows)))
    assert_allclose(load_model(tmp_path / "raw.json").predict_proba(X)[:, 1], expected, rtol=1e-5)
    one = light(lightgbm.LGBMClassifier, objective="multiclassova").fit(X, NUMBERS)
    chances = load_model(lightgbm_file(tmp_path, one)).predict_proba(X)
    assert_allclose(chances.sum(axis=1), 1.0)
    assert_allclose(chances, one.predict_proba(X) / one.predict_proba(X).sum(axis=1, keepdims=True))


def test_labels_mean_nothing_for_other_models(tmp_path):
    path = lightgbm_file(tmp_path, light().fit(X, Y))
    assert "for another model" in complaint(lambda: load_model(path, classes=["a", "b"]))
    path = xgboost_file(tmp_path, extreme().fit(X, Y))
    assert "for another model" in complaint(lambda: load_model(path, classes=["a", "b"]))


@pytest.mark.parametrize("file", [lightgbm_file, xgboost_file])
def test_features_are_those_of_training_in_their_order(tmp_path, file):
    frame = pd.DataFrame(X, columns=["floor area", "b", "c"] if file is lightgbm_file else ["a", "b", "c"])
    model = (light() if file is lightgbm_file else extreme()).fit(frame, Y)
    loaded = load_model(file(tmp_path, model))
    check_features(loaded, list(frame))
    assert_array_equal(loaded.predict(frame), model.predict(frame))
    assert_array_equal(loaded.predict(X), model.predict(frame))
    assert "'b' in the model" in complaint(lambda: loaded.predict(frame[[frame.columns[0], "c", "b"]]))
    assert "takes 3 features" in complaint(lambda: loaded.predict(X[:, :2]))
    assert "takes 3 features" in complaint(lambda: check_features(loaded, ["a"]))


@pytest.mark.parametrize(("make", "file", "about"), [(light, lightgbm_file, {}), (extreme, xgboost_file, ENABLED)])
def test_categories_are_looked_up_in_frames_or_by_a_schema(tmp_path, make, file, about):
    frame = pd.DataFrame({"a": X[:, 0], "b": pd.Categorical(NUMBERS + 5)})
    trained = make(**about).fit(frame, Y)
    model = load_model(file(tmp_path, trained))
    assert_array_equal(model.predict(frame), trained.predict(frame))
    numbers = np.column_stack([X[:, 0], NUMBERS + 5])
    assert "categories" in complaint(lambda: model.predict(numbers))
    known = sorted({str(each) for each in NUMBERS + 5}, reverse=True)
    schema = Schema((Column("b", "category", (*known, "none of them")), Column("a")))
    bound = bind_schema(model, schema)
    assert_array_equal(bound.predict(encode_frame(frame, schema)), trained.predict(frame))
    again = pickle.loads(pickle.dumps(bound))  # as it goes to other processes
    assert_array_equal(again.predict(encode_frame(frame, schema)), trained.predict(frame))
    unknown = np.array([[float(len(known)), 0.5], [np.nan, 0.5]])
    assert len(set(bound.predict(unknown).tolist())) == 1  # a category that it never met is a gap


@pytest.mark.slow  # it takes a process
def test_half_a_file_and_other_files_are_one_line(tmp_path):
    """In a process of its own: LightGBM and XGBoost may end the one that gives them half a file."""
    whole = {
        ".txt": lightgbm_file(tmp_path, light().fit(X, Y)).read_bytes(),
        ".ubj": xgboost_file(tmp_path, extreme().fit(X, Y)).read_bytes(),
        ".json": xgboost_file(tmp_path, extreme().fit(X, Y), ".json").read_bytes(),
    }
    paths = []
    for suffix, content in whole.items():
        trees = content.find(b"end of trees") if suffix == ".txt" else len(content) - 1
        cuts = [content[: trees * k // 8] for k in range(8)]
        for k, part in enumerate([*cuts, b"not a model", bytes(range(256)) * 10, *whole.values()]):
            if part != content and not (part in (whole[".ubj"], whole[".json"]) and suffix != ".txt"):
                paths.append(tmp_path / f"{k}-part{suffix}")
                paths[-1].write_bytes(part)
    code = """
import sys
from degroot import InvalidInput, load_model
for path in sys.argv[1:]:
    try:
        load_model(path)
    except InvalidInput as error:
        assert path in str(error) and "\\n" not in str(error), error
    else:
        sys.exit(path)
print("all refused")
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *map(str, paths)], capture_output=True, text=True, timeout=120
    )
    assert (done.stdout, done.returncode) == ("all refused\n", 0), done.stderr


def test_a_file_that_is_not_whole_or_was_forged_is_not_given_to_lightgbm(tmp_path):
    content = lightgbm_file(tmp_path, light().fit(X, Y)).read_bytes()
    assert check_trees(content)["objective"] == "regression"
    for stop in range(5, content.index(b"end of trees"), 97):
        assert "must be whole" in complaint(lambda stop=stop: check_trees(content[:stop]))
    for key in ("left_child", "right_child", "split_feature"):
        start = content.index(f"\n{key}=".encode()) + len(key) + 2
        for forged in (b"0", b"9", b"-", b"x"):  # a child that is its own parent, one that is not there, and no number
            if key != "split_feature" or forged != b"0":
                other = content[:start] + forged + content[start + 1 :]
                assert "tree 0 is damaged" in complaint(lambda other=other: check_trees(other))


@pytest.mark.parametrize(
    ("model", "labels"),
    [
        (light(), Y), (light(lightgbm.LGBMClassifier), LABELS),
        (extreme(), Y), (extreme(xgboost.XGBClassifier), NUMBERS),
    ],
)  # fmt: skip
def test_an_estimator_of_either_is_saved_as_those_of_scikit_learn(model, labels):
    model.fit(X, labels)
    content, suffix = model_file(model, X)
    again = from_skops(content)
    assert suffix == ".skops"
    assert_array_equal(again.predict(X), model.predict(X), strict=True)
    assert model_file(again, X)[0] == content


def test_a_collective_of_such_files_is_saved_and_loaded_with_its_labels(tmp_path):
    labels = ["low", "mid", "top"]
    files = [
        lightgbm_file(tmp_path, light(lightgbm.LGBMClassifier).fit(X, NUMBERS)),
        xgboost_file(tmp_path, extreme(xgboost.XGBClassifier).fit(X, NUMBERS)),
    ]
    agents = [Agent(load_model(path, classes=labels), X, LABELS, path.suffix, classes=labels) for path in files]
    collective = Collective(agents, neighbours=10)
    loaded = Collective.load(collective.save(tmp_path / "saved"))
    assert_array_equal(loaded.predict(X), collective.predict(X))
    again = loaded.save(tmp_path / "again")
    for path in (tmp_path / "saved").rglob("*"):
        assert path.is_dir() or path.read_bytes() == (again / path.relative_to(tmp_path / "saved")).read_bytes()
    (again / "agent-1" / "model.txt").write_bytes(files[0].read_bytes() + b"\n")
    assert "as it was saved" in complaint(lambda: Collective.load(again))


def test_a_file_lists_them_by_hand(tmp_path):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame.assign(kind=LABELS).to_csv(tmp_path / "rows.csv", index=False)
    models = light(lightgbm.LGBMClassifier).fit(frame, NUMBERS), extreme(xgboost.XGBClassifier).fit(frame, NUMBERS)
    lightgbm_file(tmp_path, models[0])
    xgboost_file(tmp_path, models[1])
    text = """
target = "kind"
classes = ["top", "mid", "low"]
[[agents]]
name = "light"
model = { file = "model.txt", classes = ["low", "mid", "top"] }
data = "rows.csv"
[[agents]]
name = "extreme"
model = { file = "model.ubj", classes = ["low", "mid", "top"] }
data = "rows.csv"
"""
    (tmp_path / "collective.toml").write_text(text)
    answer = Collective.load(tmp_path).consult(X, ["value", "beliefs"])
    for k, model in enumerate(models):
        assert_allclose(answer.beliefs[:, k], model.predict_proba(frame)[:, ::-1], atol=1e-6)
    (tmp_path / "collective.toml").write_text(text.replace('["low", "mid", "top"] }', '["low", "low"] }', 1))
    assert "must be at least two distinct labels" in complaint(lambda: Collective.load(tmp_path))
