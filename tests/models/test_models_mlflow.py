"""Models in MLflow are opened from their files, by us; a pickle is opened only by those who insist."""

import time
import warnings

import joblib
import numpy as np
import pytest
import skops.io
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression, Ridge
from support.consortium import Consortium
from support.models import LABELS, Bomb, X, Y, onnx_file
from support.refusals import complaint

from degroot import Agent, Collective, load_model
from degroot.models import ModelSource, is_still, load

pytest.importorskip("yaml", reason="MLflow is not installed: pip install 'degroot[mlflow]'")


def registered(test):
    """A test of models that MLflow keeps in its database, of which SQLAlchemy has something to say."""
    return pytest.mark.slow(pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated")(test))


def folder_with(place, flavour, **about):
    place.mkdir(exist_ok=True)
    lines = "".join(f"    {key}: {value}\n" for key, value in about.items())
    (place / "MLmodel").write_text(f"flavors:\n  python_function:\n    loader_module: os\n  {flavour}:\n{lines}")
    return place


def test_a_folder_of_mlflow_is_a_model(tmp_path):
    model = Ridge().fit(X, Y)
    place = folder_with(tmp_path / "ridge", "sklearn", pickled_model="model.skops", serialization_format="skops")
    skops.io.dump(model, place / "model.skops")
    assert_array_equal(load_model(place).predict(X), model.predict(X))
    assert load(ModelSource(file=place))[1] == load(ModelSource(file=place / "model.skops"))[1]
    place = folder_with(tmp_path / "net", "onnx", data="model.onnx")
    onnx_file(place, model)
    assert_allclose(load_model(str(place)).predict(X), model.predict(X), atol=1e-5)


def test_a_pickled_flavour_runs_no_code_unless_somebody_insists(tmp_path):
    bomb, place = Bomb(), folder_with(tmp_path / "bomb", "sklearn", pickled_model="model.pkl")
    bomb.fuse = tmp_path / "went-off"
    joblib.dump(bomb, place / "model.pkl")
    assert "can run any code" in complaint(lambda: load_model(place))
    assert not bomb.fuse.exists()
    joblib.dump(Ridge().fit(X, Y), place / "model.pkl")
    assert load_model(place, unsafe_pickle=True).predict(X).shape == (60,)


def test_folders_that_are_no_models_of_mlflow(tmp_path):
    assert "has no MLmodel" in complaint(lambda: load_model(tmp_path))
    for text in ("", "flavors: 3", "flavors: [", "flavors:\n  onnx: 7", "\0"):
        (tmp_path / "MLmodel").write_text(text)
        assert "must list the flavours" in complaint(lambda: load_model(tmp_path))
    place = folder_with(tmp_path / "torch", "pytorch", model_data="data")
    assert "has python_function, pytorch, which can run any code" in complaint(lambda: load_model(place))
    place = folder_with(tmp_path / "away", "onnx", data="../model.onnx")
    onnx_file(tmp_path, Ridge().fit(X, Y))
    assert "must name the model's file in that folder" in complaint(lambda: load_model(place))
    place = folder_with(tmp_path / "empty", "xgboost", data="model.ubj")
    assert "No such file" in complaint(lambda: load_model(place))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("", "must be a file, a folder or an address"), (7, "must be a file, a folder or an address"),
        ("grpc://models:8001", '"grpc://host:port/name"'), ("grpc://models/prices", '"host:port"'),
        ("models:/prices/best", "a number, an alias or be the latest"), ("absent.onnx", "No such file"),
    ],
)  # fmt: skip
def test_names_that_are_no_models(source, words):
    assert words in complaint(lambda: load_model(source))


def test_a_served_model_is_named_by_its_address():
    assert "must answer" in complaint(lambda: load_model("grpc://127.0.0.1:1/prices"))


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    """MLflow with a database of its own, and a model of each flavour."""
    pytest.importorskip("mlflow", reason="MLflow is not installed: pip install 'degroot[mlflow]'")
    pytest.importorskip("alembic", reason="MLflow's database needs alembic and sqlalchemy")
    place = tmp_path_factory.mktemp("registry")
    with warnings.catch_warnings(action="ignore"):
        import lightgbm
        import mlflow
        import mlflow.lightgbm
        import mlflow.onnx
        import mlflow.sklearn
        import mlflow.xgboost
        import onnx
        import xgboost

        tracking = f"sqlite:///{place}/mlflow.db"
        before = mlflow.get_tracking_uri()
        mlflow.set_tracking_uri(tracking)
        mlflow.create_experiment("test", artifact_location=(place / "artifacts").as_uri())
        mlflow.set_experiment("test")
        made = {
            "ridge": (mlflow.sklearn, Ridge().fit(X, Y)),
            "logistic": (mlflow.sklearn, LogisticRegression().fit(X, LABELS)),
            "xgb": (mlflow.xgboost, xgboost.XGBRegressor(n_estimators=3, n_jobs=1).fit(X, Y)),
            "lgb": (mlflow.lightgbm, lightgbm.LGBMRegressor(n_estimators=3, n_jobs=1, verbose=-1).fit(X, Y)),
            "net": (mlflow.onnx, onnx.load(onnx_file(place, Ridge().fit(X, Y)))),
        }
        with mlflow.start_run() as run:
            for name, (flavour, model) in made.items():
                flavour.log_model(model, name=name, registered_model_name=name, pip_requirements=[])
            booster = made["lgb"][1].booster_
            mlflow.lightgbm.log_model(booster, name="booster", registered_model_name="lgb", pip_requirements=[])
        yield mlflow, run.info.run_id, {name: model for name, (_, model) in made.items()}
        mlflow.set_tracking_uri(before)


@registered
def test_models_of_mlflow_answer_as_they_were_logged(registry):
    _, run, models = registry
    for name in ("ridge", "xgb", "lgb"):
        assert_array_equal(load_model(f"models:/{name}/1").predict(X), models[name].predict(X))
        assert_array_equal(load_model(f"runs:/{run}/{name}").predict(X), models[name].predict(X))
    assert_array_equal(load_model("models:/lgb/latest").predict(X), models["lgb"].predict(X))
    assert_array_equal(load_model("models:/logistic/1").predict_proba(X), models["logistic"].predict_proba(X))
    assert_allclose(load_model("models:/net/1").predict(X), models["ridge"].predict(X), atol=1e-5)
    assert "MLflow has" in complaint(lambda: load_model("models:/absent/1"))
    assert "MLflow has" in complaint(lambda: load_model("models:/ridge@nobody"))
    assert "MLflow has" in complaint(lambda: load_model("models:/absent/latest"))
    assert "MLflow has" in complaint(lambda: load_model("runs:/0123/ridge"))


@registered
def test_an_alias_that_moves_leads_to_another_version(registry):
    mlflow, run, _ = registry
    client = mlflow.MlflowClient()
    mlflow.register_model(f"runs:/{run}/net", "ridge")
    source = ModelSource(uri="models:/ridge@champion", tracking=mlflow.get_tracking_uri())
    client.set_registered_model_alias("ridge", "champion", "1")
    first = load(source)[1]
    assert first.startswith("1-")
    assert len(first) == len("1-") + 16
    assert is_still(source, first)
    client.set_registered_model_alias("ridge", "champion", "2")
    assert not is_still(source, first)
    second = load(source)[1]
    assert second.startswith("2-")
    assert second[2:] != first[2:]


@registered
def test_a_file_lists_models_of_mlflow(registry, tmp_path):
    _, _, models = registry
    np.save(tmp_path / "rows.npy", X)
    np.save(tmp_path / "labels.npy", Y)
    entry = '[[agents]]\nname = "{0}"\nmodel = {1}\nrows = "rows.npy"\nlabels = "labels.npy"\n'
    tables = entry.format("a", '{ uri = "models:/ridge/1" }') + entry.format("b", '"models:/xgb/1"')
    (tmp_path / "collective.toml").write_text(f"neighbours = 5\n{tables}")
    loaded = Collective.load(tmp_path)
    plain = Collective([Agent(models[n], X, Y, k) for k, n in (("a", "ridge"), ("b", "xgb"))], neighbours=5)
    assert_array_equal(loaded.predict(X), plain.predict(X))
    assert_array_equal(Collective.load(loaded.save(tmp_path / "saved")).predict(X), plain.predict(X))


@registered
def test_a_node_takes_in_the_model_to_which_an_alias_has_moved(registry, tmp_path):
    mlflow, _, _ = registry
    client, rows = mlflow.MlflowClient(), np.zeros((1, 3))
    with mlflow.start_run():
        for level in (1.0, 2.0):
            model = Ridge().fit(X, np.full(60, level))
            mlflow.sklearn.log_model(model, name="level", registered_model_name="level", pip_requirements=[])
    client.set_registered_model_alias("level", "now", "1")
    with Consortium(tmp_path, K=1) as alone:
        name = alone.names[0]
        file = alone.folder / name / "node.toml"
        source = f'uri = "models:/level@now"\ntracking = "{mlflow.get_tracking_uri()}"'
        file.write_text(file.read_text().replace('file = "model.skops"', source, 1))
        alone.start()
        with alone.connect(name) as collective:
            assert_allclose(collective.predict(rows), 1.0, atol=1e-6)
            client.set_registered_model_alias("level", "now", "2")
            until = time.monotonic() + 120.0
            while "model taken in" not in alone.log(name):
                assert time.monotonic() < until, alone.log(name)
                time.sleep(0.2)
            assert_allclose(collective.predict(rows), 2.0, atol=1e-6)
