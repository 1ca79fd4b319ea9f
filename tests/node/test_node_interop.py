"""Models are queried by, and from, what nobody here wrote: tritonclient and MLServer."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose
from support.consortium import Consortium, free_ports
from tritonclient.grpc import InferenceServerClient, InferInput, InferRequestedOutput
from tritonclient.utils import InferenceServerException

from degroot.exceptions import DeGrootError

PEER, NAME = "node0", "node0"


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    with Consortium(tmp_path_factory.mktemp("interop")) as nodes:
        yield nodes.fork().ready()


@pytest.fixture
def triton(nodes):
    """NVIDIA's client at a node, with another node's certificate."""
    files = nodes.credentials("node1")
    client = InferenceServerClient(
        f"localhost:{nodes.ports[NAME]}", ssl=True, root_certificates=str(files["ca"]),
        private_key=str(files["key"]), certificate_chain=str(files["certificate"]),
    )  # fmt: skip
    yield client
    client.close()


def given(X, kind, name="points"):
    tensor = InferInput(name, X.shape, kind)
    tensor.set_data_from_numpy(X)
    return tensor


def test_a_node_is_live_and_ready(triton):
    assert triton.is_server_live()
    assert triton.is_server_ready()
    assert triton.is_model_ready(NAME)
    assert not triton.is_model_ready("another")
    assert not triton.is_model_ready(NAME, "another")


def test_a_node_tells_of_its_model(triton, nodes):
    assert triton.get_server_metadata().name == "degroot"
    told = triton.get_model_metadata(NAME)
    assert (told.name, told.platform) == (NAME, "degroot")
    assert [(each.name, each.datatype, list(each.shape)) for each in told.inputs] == [("points", "FP64", [-1, 3])]
    assert [(each.name, each.datatype, list(each.shape)) for each in told.outputs] == [("predictions", "FP64", [-1])]
    assert triton.is_model_ready(NAME, told.versions[0])


@pytest.mark.parametrize(("kind", "dtype"), [("FP64", np.float64), ("FP32", np.float32)])
def test_a_node_predicts(triton, nodes, kind, dtype):
    X = nodes.agents[0].X[:20].astype(dtype)
    answer = triton.infer(NAME, [given(X, kind)], outputs=[InferRequestedOutput("predictions")], request_id="seven")
    expected = nodes.agents[0].model.predict(X.astype(np.float64))
    assert_allclose(answer.as_numpy("predictions"), expected, rtol=1e-12)
    assert answer.get_response().id == "seven"
    assert_allclose(triton.infer(NAME, [given(X, kind)]).as_numpy("predictions"), expected, rtol=1e-12)


def test_a_version_that_is_not_there(triton, nodes):
    X = nodes.agents[0].X[:2]
    version = triton.get_model_metadata(NAME).versions[0]
    assert triton.infer(NAME, [given(X, "FP64")], model_version=version).as_numpy("predictions").shape == (2,)
    for name, version in ((NAME, "1"), ("another", "")):
        with pytest.raises(InferenceServerException) as caught:
            triton.infer(name, [given(X, "FP64")], model_version=version)
        assert caught.value.status() == "StatusCode.NOT_FOUND"


@pytest.mark.parametrize(
    "tensor",
    [
        given(np.zeros((2, 3)), "FP64", "rows"),
        given(np.zeros((2, 4)), "FP64"),
        given(np.zeros((2, 3), np.int64), "INT64"),
        given(np.full((2, 3), np.nan), "FP64"),
    ],
    ids=["name", "features", "type", "nan"],
)
def test_what_it_does_not_take(triton, tensor):
    with pytest.raises(InferenceServerException) as caught:
        triton.infer(NAME, [tensor])
    assert caught.value.status() == "StatusCode.INVALID_ARGUMENT"


def test_many_queries_at_a_time(triton, nodes):
    from concurrent.futures import ThreadPoolExecutor

    X = nodes.agents[0].X[:40]
    expected = nodes.agents[0].model.predict(X)
    with ThreadPoolExecutor(8) as workers:
        answers = workers.map(
            lambda k: triton.infer(NAME, [given(X[k : k + 1], "FP64")]).as_numpy("predictions"), range(40)
        )
        assert_allclose(np.concatenate(list(answers)), expected, rtol=1e-12)


# a model that MLServer serves


def cache():
    """Where the virtual environment stays between runs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "degroot" / "mlserver"


def mlserver_python():
    """The Python of a virtual environment that has MLServer, made if need be; or why there is none."""
    folder = cache() / f"{sys.version_info[0]}.{sys.version_info[1]}-{sklearn.__version__}"
    python, done = folder / "bin" / "python", folder / "installed"
    if done.exists():
        return python, None
    folder.parent.mkdir(parents=True, exist_ok=True)
    wanted = ["mlserver", "mlserver-sklearn"]
    for command in ([sys.executable, "-m", "venv", "--clear", folder], [python, "-m", "pip", "install", "-q", *wanted]):
        ran = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=900, check=False)
        if ran.returncode:
            return None, f"MLServer cannot be installed: {(ran.stderr or ran.stdout).strip().splitlines()[-1:]}"
    done.touch()
    return python, None


@pytest.fixture
def mlserver(tmp_path):
    """Starts MLServer with a model in a joblib file, and ends it."""
    started = []

    def start(model, name, rows):
        python, reason = mlserver_python()
        if reason is not None:
            pytest.skip(reason)
        folder, (http, grpc_port, metrics) = tmp_path / "mlserver", free_ports(3)
        folder.mkdir()
        save(python, folder, model, rows)
        settings = {"http_port": http, "grpc_port": grpc_port, "metrics_port": metrics, "host": "127.0.0.1"}
        settings |= {"parallel_workers": 0, "debug": False}
        (folder / "settings.json").write_text(json.dumps(settings))
        described = {"name": name, "implementation": "mlserver_sklearn.SKLearnModel"}
        described |= {"parameters": {"uri": "./model.joblib", "version": "v3"}}
        (folder / "model-settings.json").write_text(json.dumps(described))
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [str(python), "-m", "mlserver.cli.main", "start", str(folder)]
                if not (python.parent / "mlserver").exists()
                else [str(python.parent / "mlserver"), "start", str(folder)],
                stdout=log, stderr=log, cwd=folder,
            )  # fmt: skip
        started.append(process)
        wait_until_ready(process, grpc_port, name, folder / "log")
        return grpc_port

    yield start
    for process in started:
        process.kill()
        process.wait()


def save(python, folder, model, rows):
    """The model fitted anew in that environment: its scikit-learn may be another than here."""
    np.savez(folder / "rows.npz", X=rows[0], y=rows[1])
    code = (
        "import joblib, numpy as np; from sklearn.linear_model import LinearRegression; "
        "rows = np.load('rows.npz'); joblib.dump(LinearRegression().fit(rows['X'], rows['y']), 'model.joblib')"
    )
    subprocess.run([str(python), "-c", code], cwd=folder, check=True, timeout=120)


def wait_until_ready(process, port, name, log, patience=90.0):
    until = time.monotonic() + patience
    client = InferenceServerClient(f"127.0.0.1:{port}")
    try:
        while True:
            try:
                if client.is_model_ready(name):
                    return
            except InferenceServerException:
                pass
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.2)
    finally:
        client.close()


def complete(asked, points, patience=60.0):
    """An answer of everybody: a machine that is still busy with installing and starting may be late at first."""
    until = time.monotonic() + patience
    while True:
        try:
            found = asked.consult(points)
            if not any(flag.reason.startswith("missing") for flag in found.flags):
                return found
        except DeGrootError:
            pass
        assert time.monotonic() < until
        time.sleep(0.2)


@pytest.mark.slow
def test_a_model_at_mlserver_is_as_good_as_a_file(mlserver, tmp_path):
    from sklearn.linear_model import LinearRegression

    with Consortium(tmp_path / "nodes") as nodes:
        X, y = nodes.agents[0].X, nodes.agents[0].y
        fitted = LinearRegression().fit(X, y)
        port = mlserver(fitted, "iris", (X, y))
        nodes.agents[0].model.coef_, nodes.agents[0].model.intercept_ = fitted.coef_, fitted.intercept_
        path = nodes.folder / "node0" / "node.toml"
        text = path.read_text()
        assert 'file = "model.skops"' in text
        path.write_text(text.replace('file = "model.skops"', f'address = "grpc://127.0.0.1:{port}"\nname = "iris"'))
        (nodes.folder / "node0" / "model.skops").unlink()
        nodes.fork().ready()
        points = np.vstack([agent.X[:10] for agent in nodes.agents]) + 0.05
        expected = nodes.collective().consult(points)
        for name in ("node0", "node1"):
            for way in ("solve", "rounds"):
                with nodes.connect(name, way=way, tolerance=1e-12) as asked:
                    found = complete(asked, points)
                for field in ("value", "weights", "standard_error", "beliefs"):
                    assert_allclose(getattr(found, field), getattr(expected, field), rtol=1e-6, atol=1e-9)
