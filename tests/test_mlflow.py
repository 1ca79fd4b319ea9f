"""A collective is a model of MLflow: what it answers there is what it answers here."""

import json
import os
import socket
import subprocess
import sys
import time
from http.client import HTTPConnection
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from degroot import Agent, Collective, InvalidInput

FOREIGN = (  # what MLflow, SQLAlchemy and pandas have to say of each other
    ".*Any type hint is inferred as AnyType",
    "The ``noload`` loader strategy is deprecated",
    "Operation with range is deprecated",
)
pytestmark = [
    pytest.mark.slow,
    *(pytest.mark.filterwarnings(f"ignore:{text}") for text in FOREIGN),
    pytest.mark.skipif(find_spec("mlflow") is None, reason="MLflow is not installed: pip install 'degroot[mlflow]'"),
]

RANDOM = np.random.default_rng(0)
COLUMNS = ["area", "rooms", "year built"]
ASKED = pd.DataFrame(RANDOM.normal(size=(20, 3)), columns=COLUMNS)


def agents(classes=None):
    for name in ("north", "south", "west"):
        X = pd.DataFrame(RANDOM.normal(size=(80, 3)), columns=COLUMNS)
        y = 2 * X["area"] + 0.1 * RANDOM.normal(size=80)
        if classes is None:
            yield Agent(Ridge().fit(X, y), X, y, name)
        else:
            kinds = np.array(classes)[(y > 0).astype(int)]
            yield Agent(LogisticRegression().fit(X, kinds), X, kinds, name, classes=classes)


@pytest.fixture(scope="module")
def collective():
    return Collective(agents(), neighbours=10)


@pytest.fixture(scope="module")
def folder(collective, tmp_path_factory):
    from degroot import mlflow as flavour

    path = tmp_path_factory.mktemp("models") / "prices"
    flavour.save_model(collective, path, input_example=ASKED.head(2))
    return path


@pytest.fixture
def store(tmp_path, monkeypatch):
    pytest.importorskip("alembic", reason="MLflow's database needs alembic and sqlalchemy")
    import mlflow

    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    mlflow.create_experiment("test", artifact_location=(tmp_path / "artifacts").as_uri())
    mlflow.set_experiment("test")
    yield mlflow
    mlflow.set_tracking_uri(before)


def test_a_function_of_mlflow_answers_as_the_collective(collective, folder):
    import mlflow

    model = mlflow.pyfunc.load_model(str(folder))
    assert_array_equal(model.predict(ASKED), collective.predict(ASKED))
    assert_array_equal(model.predict(ASKED[COLUMNS[::-1]]), collective.predict(ASKED), "by their names")
    told = model.predict(ASKED, params={"fields": ["value", "standard_error", "weights"], "coverage": 0.9})
    answer = Collective.load(folder / "collective").calibrate().consult(ASKED, coverage=0.9)
    assert_array_equal(told["value"], answer.value)
    assert_array_equal(told["standard_error"], answer.standard_error)
    assert_array_equal(told["weight_south"], answer.weights[:, 1])
    assert_array_equal(told[["lower", "upper"]], np.column_stack([answer.lower, answer.upper]))
    for asked, expected in (({}, None), ({"coverage": 0.9}, 0.9)):
        told = model.predict(ASKED, params={"asker": "west", "fields": ["value", "correction"]} | asked)
        answer = collective.consult(ASKED, ["value", "correction"], coverage=expected, asker="west")
        assert_allclose(told["value"], answer.value, rtol=1e-9)
        assert_allclose(told["correction"], answer.correction, rtol=1e-9, atol=1e-12)
        assert ("lower" in told) == (expected is not None)
    assert_allclose(model.predict(ASKED, params={"asker": "west"}), answer.value, rtol=1e-9)
    with pytest.raises(InvalidInput, match="must be among 'value'"):
        model.predict(ASKED, params={"fields": ["colour"]})
    with pytest.raises(InvalidInput, match="`asker` must be one of 'north', 'south', 'west'; got 'east'"):
        model.predict(ASKED, params={"asker": "east"})


def test_what_mlflow_knows_of_it(folder):
    import mlflow

    info = mlflow.models.get_model_info(str(folder))
    assert info.signature.inputs.input_names() == COLUMNS
    assert [each.name for each in info.signature.params] == ["fields", "coverage", "asker"]
    assert info.flavors["python_function"]["loader_module"] == "degroot.mlflow"
    needed = (folder / "requirements.txt").read_text().splitlines()
    assert [line.partition("==")[0] for line in needed[:3]] == ["degroot[mlflow]", "numpy", "scikit-learn"]
    assert not [path for path in folder.rglob("*") if path.suffix in (".pkl", ".pickle", ".joblib")]
    assert len(mlflow.models.Model.load(str(folder)).load_input_example(str(folder))) == 2


def test_it_is_logged_registered_and_loaded_again(collective, store):
    from degroot import mlflow as flavour

    info = flavour.log_model(collective, "prices", registered_model_name="prices", metadata={"who": "consortium"})
    assert info.metadata == {"who": "consortium"}
    for uri in (info.model_uri, "models:/prices/1"):
        assert_array_equal(flavour.load_model(uri).predict(ASKED), collective.predict(ASKED))
        assert_array_equal(store.pyfunc.load_model(uri).predict(ASKED), collective.predict(ASKED))
    with pytest.raises(InvalidInput, match="must be one that MLflow has"):
        flavour.load_model("models:/absent/1")


def test_classes_and_rows_without_names(tmp_path):
    import mlflow

    from degroot import mlflow as flavour

    kinds = Collective(agents(["no", "yes"]), neighbours=10)
    flavour.save_model(kinds, tmp_path / "kinds")
    model = mlflow.pyfunc.load_model(str(tmp_path / "kinds"))
    assert_array_equal(model.predict(ASKED), kinds.predict(ASKED))
    assert list(model.predict(ASKED, params={"fields": ["value"]})) == ["label", "value_no", "value_yes"]
    rows = RANDOM.normal(size=(50, 2))
    bare = Collective([Agent(Ridge().fit(rows, rows[:, 0]), rows, rows[:, 0], name) for name in "ab"], neighbours=5)
    flavour.save_model(bare, tmp_path / "bare")
    model = mlflow.pyfunc.load_model(str(tmp_path / "bare"))
    assert_allclose(model.predict(pd.DataFrame(rows, columns=["x0", "x1"])), bare.predict(rows), rtol=1e-12)


def test_mistakes_are_one_line(collective, folder, tmp_path):
    from degroot import mlflow as flavour

    with pytest.raises(InvalidInput, match="must be a Collective; got a Ridge"):
        flavour.save_model(Ridge(), tmp_path / "ridge")
    with pytest.raises(InvalidInput, match="must go to a new folder"):
        flavour.save_model(collective, folder)
    with pytest.raises(InvalidInput, match="must be a collective, with a folder"):
        flavour.load_model(str(tmp_path))


def test_mlflow_serves_it(collective, folder):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # where uvicorn is
    arguments = ["models", "serve", "-m", str(folder), "-p", str(port), "--env-manager", "local"]
    server = subprocess.Popen(
        [sys.executable, "-m", "mlflow", *arguments], env={**os.environ, "PATH": path}, cwd=folder.parent,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        told = asked(port, {"dataframe_split": ASKED.to_dict("split")}, server)
        assert_allclose(told["predictions"], collective.predict(ASKED), rtol=1e-12)
    finally:
        server.terminate()
        server.wait(120)


def asked(port, question, server):
    """What the server answers, once it is there."""
    for _ in range(300):
        assert server.poll() is None, "the server has ended"
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request("POST", "/invocations", json.dumps(question), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
        except OSError:
            time.sleep(1)
        else:
            assert answer.status == 200, text
            return json.loads(text)
        finally:
            connection.close()
    raise AssertionError("the server does not answer")


def test_a_collective_with_a_schema_takes_mixed_frames(tmp_path):
    from mlflow import pyfunc

    from degroot import mlflow as flavour

    def frame(n):
        made = pd.DataFrame({"area": RANDOM.normal(size=n), "kind": RANDOM.choice(["flat", "house"], n)})
        made["garden"] = RANDOM.random(n) > 0.5
        made["sold"] = np.datetime64("2024-01-01T00:00:00") + RANDOM.integers(0, 999, n).astype("timedelta64[h]")
        return made

    def predict(X):
        return X["area"].to_numpy() + (X["kind"] == "house").to_numpy()

    rows = [frame(40) for _ in range(2)]
    models = [
        make_pipeline(make_column_transformer((OneHotEncoder(), ["kind"]), ("passthrough", ["area"])), Ridge())
        for _ in rows
    ]
    made = [
        Agent(model.fit(X, predict(X)), X, predict(X), name)
        for model, X, name in zip(models, rows, ("north", "south"), strict=True)
    ]
    collective, asked = Collective(made, neighbours=5), frame(9)
    flavour.save_model(collective, tmp_path / "mixed")
    found = pyfunc.load_model(str(tmp_path / "mixed")).predict(asked)
    assert_array_equal(found, collective.predict(asked))
    assert "pandas" in (tmp_path / "mixed" / "requirements.txt").read_text()


@pytest.mark.parametrize("kind", ["category", "str", "ordered", "numbers"])
def test_frames_that_the_collective_was_made_of_are_taken(tmp_path, kind):
    from mlflow import pyfunc

    from degroot import mlflow as flavour

    types = {"ordered": pd.CategoricalDtype(["None", "flat", "house"], ordered=True), "numbers": "category"}

    def frame(n):
        kinds = RANDOM.choice([3, 5, 70] if kind == "numbers" else ["flat", "house", "None"], n)
        made = pd.DataFrame({"kind": pd.Series(kinds).astype(types.get(kind, kind)), "rooms": RANDOM.integers(1, 9, n)})
        made["sold"] = (pd.Timestamp("2024-01-01", tz="UTC") + pd.to_timedelta(RANDOM.integers(0, 99, n), "D")).as_unit(
            "us"
        )
        return made

    rows = [frame(40) for _ in range(2)]
    encoder = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["kind"]), ("passthrough", ["rooms"]))
    made = [
        Agent(make_pipeline(encoder, Ridge()).fit(X, X["rooms"]), X, X["rooms"], name)
        for X, name in zip(rows, ("north", "south"), strict=True)
    ]
    collective = Collective(made, neighbours=5)
    flavour.save_model(collective, tmp_path / "mixed")
    model = pyfunc.load_model(str(tmp_path / "mixed"))
    for asked in (rows[0], frame(9), frame(9).assign(kind=lambda X: X["kind"].astype(str))):
        assert_array_equal(model.predict(asked), collective.predict(asked))


def test_whole_numbers_that_the_collective_was_made_of_are_taken(tmp_path):
    from mlflow import pyfunc

    from degroot import mlflow as flavour

    rows = pd.DataFrame(RANDOM.integers(0, 99, (50, 2)), columns=["a", "b"])
    made = [Agent(Ridge().fit(rows, rows["a"]), rows, rows["a"], name) for name in ("north", "south")]
    collective = Collective(made, neighbours=5)
    flavour.save_model(collective, tmp_path / "whole")
    model = pyfunc.load_model(str(tmp_path / "whole"))
    assert_array_equal(model.predict(rows), collective.predict(rows))
    assert_array_equal(model.predict(rows + 0.5), collective.predict(rows + 0.5))
