"""Models from files and addresses answer as the models that they were made of; whatever is wrong is one line."""

import hashlib
import socket
from pathlib import Path

import grpc
import joblib
import numpy as np
import pandas as pd
import pytest
import skops.io
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType, StringTensorType
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from support.models import LABELS, RANDOM, Bomb, X, Y, onnx_file
from support.refusals import complaint
from tritonclient.grpc import service_pb2

from degroot import Agent
from degroot.models import ModelSource, RemoteModel, check_features, load
from degroot.models.inference_client import CHUNK_ROWS


def opened(path: Path, **options: bool) -> object:
    return load(ModelSource(file=path), **options)[0]


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_an_onnx_model_takes_the_kind_of_number_that_it_wants(tmp_path, kind):
    model = Ridge().fit(X, Y)
    loaded = opened(onnx_file(tmp_path, model, rows=X.astype(kind)))
    for given in (X, X.astype(np.float32), np.asfortranarray(X)):
        answer = loaded.predict(given)
        assert answer.shape == (60,)
        np.testing.assert_allclose(answer, model.predict(X), rtol=1e-4, atol=1e-5)


def test_an_onnx_model_with_several_outputs_gives_a_column_for_each(tmp_path):
    model = LinearRegression().fit(X, np.column_stack([Y, -Y]))
    answer = opened(onnx_file(tmp_path, model)).predict(X)
    np.testing.assert_allclose(answer, model.predict(X), rtol=1e-6)


def test_the_version_is_the_digest_of_the_file(tmp_path):
    path = onnx_file(tmp_path, Ridge().fit(X, Y))
    first = load(ModelSource(file=path))[1]
    assert first == hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    onnx_file(tmp_path, Ridge(alpha=2.0).fit(X, Y))
    assert load(ModelSource(file=path))[1] != first


@pytest.mark.parametrize("options", [{}, {"zipmap": False}, {"zipmap": "columns"}])
@pytest.mark.parametrize("labels", [LABELS, np.where(LABELS == "low", 7, np.where(LABELS == "mid", 2, 30))])
def test_an_onnx_classifier_gives_the_probabilities_of_its_classes_in_any_form(tmp_path, options, labels):
    model = LogisticRegression().fit(X, labels)
    loaded = opened(onnx_file(tmp_path, model, rows=X.astype(np.float32), **options))
    assert loaded.classes_.tolist() == model.classes_.tolist()
    np.testing.assert_allclose(loaded.predict_proba(X), model.predict_proba(X), atol=1e-5)
    assert (loaded.predict(X) == model.predict(X.astype(np.float32))).all()


def test_the_labels_of_a_pipeline_are_those_of_its_last_classifier(tmp_path):
    model = make_pipeline(StandardScaler(), RandomForestClassifier(5, random_state=0)).fit(X, LABELS)
    loaded = opened(onnx_file(tmp_path, model, rows=X.astype(np.float32)))
    agent = Agent(loaded, X, LABELS, "north", classes=["mid", "low", "high", "never"])
    expected = model.predict_proba(X.astype(np.float32))[:, [2, 1, 0]]
    np.testing.assert_allclose(agent.predict(X)[:, :3], expected, atol=1e-5)
    assert not agent.predict(X)[:, 3].any()


def test_labels_of_the_parts_of_a_classifier_are_not_taken_for_its_own(tmp_path):
    members = [("a", LogisticRegression()), ("b", LogisticRegression(C=0.1))]  # their labels are 0, 1, 2
    vote = VotingClassifier(members, voting="soft", flatten_transform=False)
    rows = X.astype(np.float32)
    path = onnx_file(tmp_path, vote.fit(X, LABELS), rows=rows, zipmap=False)
    assert "must tell its labels" in complaint(lambda: opened(path))
    path = onnx_file(tmp_path, vote.fit(X, np.where(LABELS == "low", 7, 30)), rows=rows, zipmap=False)
    assert "must give labels among [0, 1]" in complaint(lambda: opened(path).predict_proba(X))
    loaded = opened(onnx_file(tmp_path, vote, rows=rows))
    assert loaded.classes_.tolist() == [7, 30]
    np.testing.assert_allclose(loaded.predict_proba(X), vote.predict_proba(X), atol=1e-5)


def test_an_onnx_model_with_an_input_for_each_feature_knows_their_names(tmp_path):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = make_pipeline(StandardScaler(), Ridge()).fit(frame, Y)
    path = tmp_path / "model.onnx"
    kinds = [(name, FloatTensorType([None, 1])) for name in frame]
    path.write_bytes(to_onnx(model, initial_types=kinds).SerializeToString())
    loaded = opened(path)
    np.testing.assert_allclose(loaded.predict(X), model.predict(frame), atol=1e-4)
    check_features(loaded, ["a", "b", "c"])
    assert "feature 1 is 'c', and 'b' in the model" in complaint(lambda: check_features(loaded, ["a", "c", "b"]))


def test_an_onnx_model_with_another_number_of_features_says_so(tmp_path):
    loaded = opened(onnx_file(tmp_path, Ridge().fit(X, Y)))
    assert "takes 3 features" in complaint(lambda: loaded.predict(X[:, :2]))
    assert "takes 3 features" in complaint(lambda: check_features(loaded, ["a", "b"]))
    check_features(loaded, ["a", "b", "c"])


def test_an_onnx_model_of_texts_is_refused(tmp_path):
    model = OneHotEncoder().fit([["x"], ["y"]])
    path = tmp_path / "model.onnx"
    path.write_bytes(to_onnx(model, initial_types=[("x", StringTensorType([None, 1]))]).SerializeToString())
    assert "must take numbers; its input 'x' takes tensor(string)" in complaint(lambda: opened(path))


def test_a_skops_model_answers_as_the_one_that_was_saved(tmp_path):
    path, model = tmp_path / "model.skops", make_pipeline(StandardScaler(), Ridge()).fit(X, Y)
    skops.io.dump(model, path)
    np.testing.assert_array_equal(opened(path).predict(X), model.predict(X))
    assert "takes 3 features" in complaint(lambda: check_features(opened(path), ["a"]))


def test_a_model_trained_on_named_columns_gets_them_again(tmp_path):
    frame, path = pd.DataFrame(X, columns=["a", "b", "c"]), tmp_path / "model.skops"
    for model in (Ridge().fit(frame, Y), LogisticRegression().fit(frame, LABELS)):
        skops.io.dump(model, path)
        loaded = opened(path)
        np.testing.assert_array_equal(loaded.predict(X), model.predict(frame))
        assert hasattr(loaded, "predict_proba") == hasattr(model, "predict_proba")
        assert "'b' in the model" in complaint(lambda loaded=loaded: check_features(loaded, ["a", "c", "b"]))
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(frame))
    assert loaded.classes_.tolist() == model.classes_.tolist()


class Strange(RegressorMixin, BaseEstimator):
    def predict(self, X):
        return X[:, 0]


def test_a_skops_file_with_unknown_types_is_refused_and_names_them(tmp_path):
    path = tmp_path / "model.skops"
    skops.io.dump(Strange(), path)
    message = complaint(lambda: opened(path))
    assert f"{Strange.__module__}.Strange" in message
    assert "scikit-learn and numpy only" in message


@pytest.mark.parametrize("suffix", [".pkl", ".joblib"])
def test_pickles_are_opened_only_by_those_who_insist(tmp_path, suffix):
    path, model = tmp_path / f"model{suffix}", Ridge().fit(X, Y)
    joblib.dump(model, path)
    assert "can run any code" in complaint(lambda: opened(path))
    np.testing.assert_array_equal(opened(path, unsafe_pickle=True).predict(X), model.predict(X))


@pytest.mark.parametrize("name", ["bomb.pkl", "bomb.onnx", "bomb.skops"])
def test_a_refused_file_runs_no_code(tmp_path, name):
    bomb, path = Bomb(), tmp_path / name
    bomb.fuse = tmp_path / "went-off"
    joblib.dump(bomb, path)
    complaint(lambda: opened(path))
    assert not bomb.fuse.exists()
    complaint(lambda: opened(path.rename(tmp_path / "bomb.joblib"), unsafe_pickle=True))  # it is no model either
    assert bomb.fuse.exists()


CANNOT = "The model must be a {suffix} file; {path} cannot be opened: "
BROKEN = "{path}: An ONNX file must be whole; DecodeError: "
FOREIGN = {  # content: what is said of it as a file of each kind, up to where a library's own words begin
    b"": {".onnx": CANNOT + "InvalidArgument: ", ".skops": CANNOT + "BadZipFile: ", ".pkl": CANNOT + "EOFError."},
    b"not a model": {".onnx": BROKEN, ".skops": CANNOT + "BadZipFile: ", ".pkl": CANNOT + "KeyError: "},
    bytes(range(256)) * 10: {".onnx": BROKEN, ".skops": CANNOT + "BadZipFile: ", ".pkl": CANNOT + "KeyError: "},
}


@pytest.mark.parametrize("suffix", [".onnx", ".skops", ".pkl"])
def test_files_that_are_missing_or_hold_something_else(tmp_path, suffix):
    path = tmp_path / f"model{suffix}"
    missing = f"The model must be a file that can be read; {path}: No such file or directory."
    assert complaint(lambda: opened(path, unsafe_pickle=True)) == missing
    for content, said in FOREIGN.items():
        path.write_bytes(content)
        message = complaint(lambda: opened(path, unsafe_pickle=True))
        expected = said[suffix].format(suffix=suffix, path=path)
        assert message.startswith(expected), message
        assert message.count(str(path)) == 1
        assert message.endswith(".")


def test_other_files_are_no_models(tmp_path):
    message = complaint(lambda: opened(tmp_path / "model.h5", unsafe_pickle=True))
    assert "must be an .onnx, .skops, .ubj, .json, .xgb, .txt or .lgb file" in message


# Models at an address.


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("datatype", ["FP32", "FP64"])
def test_a_served_model_is_asked_in_its_own_kind_of_number_and_in_chunks(served, typed, datatype):
    server, model = served
    server.typed, server.metadata.inputs[0].datatype = typed, datatype
    rows = RANDOM.normal(size=(2 * CHUNK_ROWS + 1, 3))
    np.testing.assert_allclose(model.predict(rows), rows @ [1.0, -2.0, 0.5], atol=1e-5)
    assert server.sizes == [CHUNK_ROWS, CHUNK_ROWS, 1]


def test_wide_rows_go_in_smaller_chunks(served):
    server, model = served
    server.metadata.inputs[0].shape[1] = -1
    server.predict = lambda rows: rows[:, 0]
    assert len(model.predict(np.zeros((900, 10_000)))) == 900
    assert len(server.sizes) > 1


def test_the_version_is_what_was_asked_for_or_the_newest_or_a_digest(served):
    server, model = served
    source = ModelSource(address=model.address, name="iris")
    assert load(source)[1] == "10"
    assert load(ModelSource(address=model.address, name="iris", version="9"))[1] == "9"
    del server.metadata.versions[:]
    digest = load(source)[1]
    assert len(digest) == 16
    server.metadata.platform = "another"
    assert load(source)[1] != digest
    server.index = service_pb2.RepositoryIndexResponse()
    server.index.models.add(name="rose", version="v7")
    assert load(source)[1] not in ("v7", digest)
    server.index.models.add(name="iris", version="v3")
    assert load(source)[1] == "v3"


def test_a_list_of_versions_that_cannot_be_had_now_is_not_taken_for_none(served):
    server, model = served
    del server.metadata.versions[:]
    digest = model.describe().version
    server.listing = grpc.StatusCode.UNAVAILABLE
    assert "must answer; UNAVAILABLE: no list" in complaint(model.describe)
    server.listing = grpc.StatusCode.UNIMPLEMENTED
    assert model.describe().version == digest


def test_a_served_model_answers_with_the_version_that_it_was_announced_with(served):
    server, model = served
    assert len(model.predict(X)) == 60

    def versioned(version):
        def change(answer):
            answer.model_version = version
            return answer

        return change

    server.change = versioned("11")
    assert "must answer with version 10; it answered with 11" in complaint(lambda: model.predict(X))
    asked = RemoteModel(model.address, "iris", "9")
    assert "must answer with version 9; it answered with 11" in complaint(lambda: asked.predict(X))
    asked.close()
    server.change = versioned("")
    assert len(model.predict(X)) == 60, "some servers do not tell"
    del server.metadata.versions[:]
    server.change = versioned("11")
    silent = RemoteModel(model.address, "iris")
    assert len(silent.predict(X)) == 60, "a digest is not the server's word"
    silent.close()


def test_a_served_model_with_several_columns_and_one_that_says_nothing_of_itself(served):
    server, model = served
    server.metadata.Clear()
    server.predict = lambda rows: rows[:, :2]
    answer = model.predict(X)
    np.testing.assert_allclose(answer, X[:, :2], atol=1e-6)
    assert model.n_features_in_ is None


@pytest.mark.parametrize("raw", [False, True])
def test_labels_of_a_served_classifier_are_texts(served, raw):
    server, model = served

    def labelled(answer):
        answer.outputs[0].datatype = "BYTES"
        texts = [b"a", "ü".encode()] * 30
        del answer.raw_output_contents[:]
        if raw:
            answer.raw_output_contents.append(b"".join(len(text).to_bytes(4, "little") + text for text in texts))
        else:
            answer.outputs[0].contents.bytes_contents.extend(texts)
        return answer

    server.change = labelled
    assert model.predict(X).tolist() == ["a", "ü"] * 30


def break_shape(answer):
    answer.outputs[0].shape[:] = [59]
    return answer


def break_bytes(answer):
    answer.raw_output_contents[0] = answer.raw_output_contents[0][:-1]
    return answer


def break_length(answer):
    answer.raw_output_contents[0] = answer.raw_output_contents[0][:-4]
    return answer


def break_kind(answer):
    answer.outputs[0].datatype = "BF16"
    return answer


def break_name(answer):
    answer.outputs[0].name = "z"
    return answer


def break_all(answer):
    answer.Clear()
    return answer


def break_sign(answer):
    answer.outputs[0].shape[:] = [-60, -1]
    return answer


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (break_shape, "each of 60 rows; it gave 60 values of shape (59,)"),
        (break_sign, "each of 60 rows"),
        (break_bytes, "239 bytes of FP32"),
        (break_length, "it gave 59 values of shape (60,)"),
        (break_kind, "it gave BF16"),
        (break_name, "must give y; it gave z"),
        (break_all, "it gave none"),
    ],
)
def test_answers_that_are_no_answers_are_refused(served, change, words):
    server, model = served
    server.change = change
    message = complaint(lambda: model.predict(X))
    assert words in message
    assert f"'iris' at {model.address}" in message


def test_models_that_cannot_be_asked_say_why(served):
    server, model = served
    assert "takes 3 features; the rows have 2" in complaint(lambda: model.predict(X[:, :2]))
    assert "NOT_FOUND: no model rose" in complaint(lambda: load(ModelSource(address=model.address, name="rose")))
    server.metadata.inputs[0].datatype = "INT64"
    assert "its input 'x' takes INT64" in complaint(model.describe)
    server.metadata.inputs.add(name="z", datatype="FP32")
    assert "it has 2 inputs" in complaint(model.describe)


def test_an_address_where_nobody_is_and_one_that_never_answers():
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{deaf.getsockname()[1]}"
        message = complaint(lambda: load(ModelSource(address=address, name="iris")))
        assert "UNAVAILABLE" in message
        assert address in message
        deaf.listen()
        assert "must answer" in complaint(RemoteModel(address, "iris", deadline=0.3).describe)


def test_tls_files_that_are_missing(tmp_path):
    source = ModelSource(address="127.0.0.1:1", name="iris", ca=tmp_path / "ca.pem")
    assert "No such file" in complaint(lambda: load(source))


def test_a_served_model_is_an_agents_model(served):
    agent = Agent(served[1], X, Y, "north")
    np.testing.assert_allclose(agent.predict(X), X @ [1.0, -2.0, 0.5], atol=1e-5)
