"""A collective that was saved and loaded answers bit by bit as before; whatever is wrong is one line."""

import hashlib
import json
import os
import pickle
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from skl2onnx import to_onnx
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from support.refusals import complaint

from degroot import Agent, Collective, InvalidInput, saved
from degroot.consensus.sparse.sample_peers import sample_peers
from degroot.models.onnx import from_onnx
from degroot.schema import infer_form

ARRAYS = ("value", "standard_error", "weights", "beliefs", "trust", "influence")
CLASSES = np.array(["cat", "cow", "dog"])
NAMES = ["rooms", "age", "tax"]


def dealt(K=3, n=50, d=3, seed=0):
    source = np.random.default_rng(seed)
    for k in range(K):
        X = source.normal(size=(n, d)) + k / 2
        yield X, np.sin(X[:, 0]) + X[:, 1] + 0.2 * source.normal(size=n), source


def agents(models=None, **about):
    models = models or [Ridge(), Ridge(), Ridge()]
    several = zip(dealt(len(models)), models, strict=True)
    return [Agent(m.fit(X, y), X, y, f"agent {k}", **about) for k, ((X, y, _), m) in enumerate(several)]


def points(M=9, d=3):
    return np.random.default_rng(1).normal(size=(M, d)) + 0.5


# -- collectives of every kind -----------------------------------------------------------------------------------------


def of_trees():
    trees = DecisionTreeRegressor(max_depth=4), RandomForestRegressor(5), HistGradientBoostingRegressor(max_iter=5)
    network = MLPRegressor(hidden_layer_sizes=[4], solver="lbfgs", max_iter=5000)
    return Collective(agents([*trees, KNeighborsRegressor(3), network]), 7)


def of_spaces():
    about = [{"space": StandardScaler()}, {"space": make_pipeline(StandardScaler()).fit(next(dealt())[0])}, {}]
    made = [Agent(Ridge().fit(X, y), X, y, f"a{k}", **about[k]) for k, (X, y, _) in enumerate(dealt())]
    return Collective(made, 5)


def of_numbers_of_other_kinds():
    made = []
    for k, (X, y, _) in enumerate(dealt()):
        rows = [X.astype(np.float32), np.round(X * 10).astype(int), np.asfortranarray(X)][k]
        made.append(Agent(LinearRegression().fit(rows, y), rows, y, f"a{k}"))
    return Collective(made, 5)


def of_own_predictions():
    made = [
        Agent(
            Ridge().fit(X, y), X, y, f"a{k}", own_predictions=[None, "peers", y + 0.1 * source.normal(size=len(y))][k]
        )
        for k, (X, y, source) in enumerate(dealt())
    ]
    return Collective(made, 5)


def of_outputs(rule):
    made = [
        Agent(Ridge().fit(X, np.column_stack([y, -y])), X, np.column_stack([y, -y]), f"a{k}")
        for k, (X, y, _) in enumerate(dealt())
    ]
    return Collective(made, rule=rule)


def of_classes(classes, rule):
    made = []
    for k, (X, y, _) in enumerate(dealt(n=80)):
        labels = classes[np.clip(y.astype(int), 0, len(classes) - 1)]
        model = (DecisionTreeClassifier(max_depth=3) if k else LogisticRegression()).fit(X, labels)
        made.append(Agent(model, X, labels, f"a{k}", classes=classes))
    return Collective(made, rule=rule)


def of_frames():
    made = []
    for k, (X, y, _) in enumerate(dealt()):
        frame = pd.DataFrame(X, columns=NAMES)
        chosen = make_pipeline(make_column_transformer((StandardScaler(), ["age", "tax"])), Ridge())
        model = (chosen if k else Ridge()).fit(frame, y)
        space = make_column_transformer((StandardScaler(), ["rooms"])).fit(frame) if k else None
        made.append(Agent(model, frame, y, f"a{k}", space=space))
    return Collective(made, 5)


def of_gaps():
    made = []
    for k, (X, y, _) in enumerate(dealt()):
        X[::7, 1] = np.nan
        model = make_pipeline(SimpleImputer(), Ridge()).fit(X, y)
        made.append(Agent(model, X, y, f"a{k}", space=make_pipeline(SimpleImputer(), StandardScaler())))
    return Collective(made, 5)


def of_sparse_rows():
    made = []
    for k, (X, y, _) in enumerate(dealt()):
        rows = scipy.sparse.csr_matrix(np.where(np.abs(X) > 1.0, X, 0.0))
        made.append(Agent(Ridge().fit(rows, y), rows, y, f"a{k}"))
    return Collective(made, 5, metric="cosine")


def of_onnx_files():
    made = []
    for k, (X, y, _) in enumerate(dealt()):
        model = from_onnx(to_onnx(Ridge().fit(X, y), X[:1]).SerializeToString())
        made.append(Agent(model, X, y, f'"{k}"\n\\é\x7f'))
    return Collective(made, 5)


KINDS = {
    "degroot": lambda: Collective(agents(), 5),
    "stacking": lambda: Collective(agents(), rule="stacking", ridge=0.5),
    "average": lambda: Collective(agents(), rule="average"),
    "trust-average": lambda: Collective(agents(), 0.1, "trust-average", kernel="gaussian"),
    "error-average": lambda: Collective(agents(), 1.0, "error-average", metric="manhattan"),
    "auto": lambda: Collective(agents(), rule="auto"),
    "guard": lambda: Collective(agents([Ridge(), Ridge(), Ridge(), Ridge()]), guard=True),
    "degree": lambda: Collective(agents([Ridge() for _ in range(8)]), 5, degree=4),
    "shared space": lambda: Collective(agents(), 5, space=StandardScaler()),
    "trees": of_trees,
    "spaces": of_spaces,
    "numbers": of_numbers_of_other_kinds,
    "own predictions": of_own_predictions,
    "outputs": lambda: of_outputs("degroot"),
    "outputs, stacking": lambda: of_outputs("stacking"),
    "classes": lambda: of_classes(CLASSES, "degroot"),
    "classes, auto": lambda: of_classes(np.array([3, 1]), "auto"),
    "classes, true and false": lambda: of_classes(np.array([False, True]), "stacking"),
    "frames": of_frames,
    "gaps": of_gaps,
    "sparse": of_sparse_rows,
    "onnx": of_onnx_files,
}


def asked(kind):
    return pd.DataFrame(points(), columns=NAMES) if kind == "frames" else points()


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Every kind of collective, made once: itself, and the folder that it was saved to."""
    folder, made = tmp_path_factory.mktemp("saved"), {}

    def of(kind):
        if kind not in made:
            collective = KINDS[kind]()
            made[kind] = collective, collective.save(folder / kind)
        return made[kind]

    return of


def digest_of(answer):
    """A digest of all that an answer says."""
    told = hashlib.sha256(repr((answer.names, answer.flags, str(answer.choice))).encode())
    for name in ARRAYS:
        array = getattr(answer, name)
        told.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return told.hexdigest()


def assert_same(one, two):
    for name in ARRAYS:
        assert_array_equal(getattr(one, name), getattr(two, name), err_msg=name, strict=True)
    assert digest_of(one) == digest_of(two)


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# -- laws --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_collective_answers_as_the_one_that_was_saved(kept, kind):
    collective, folder = kept(kind)
    loaded, X = Collective.load(folder), asked(kind)
    assert_same(collective.consult(X), loaded.consult(X))
    assert_same(collective.consult(X), Collective.load(folder / "collective.toml").consult(X))
    assert_array_equal(collective.predict(X), loaded.predict(X), strict=True)
    assert repr(collective) == repr(loaded)
    assert collective.takes_gaps == loaded.takes_gaps


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_loaded_and_saved_again_is_the_same_bytes(kept, kind, tmp_path):
    _, folder = kept(kind)
    loaded = Collective.load(folder)
    loaded.consult(asked(kind))  # which leaves no trace
    again = loaded.save(tmp_path / "again")
    assert contents(again) == contents(folder)
    assert saved.digest(again) == saved.digest(folder)


def test_another_process_loads_the_same(kept, tmp_path):
    known = {kind: (kept(kind)[1], digest_of(kept(kind)[0].consult(asked(kind)))) for kind in KINDS}
    code = """
        import json, sys
        sys.path[:0] = sys.argv[1:]
        import test_saved as t
        loaded = {kind: t.Collective.load(folder) for kind, folder in json.load(sys.stdin).items()}
        print(json.dumps({kind: t.digest_of(each.consult(t.asked(kind))) for kind, each in loaded.items()}))
    """
    given = json.dumps({kind: str(folder) for kind, (folder, _) in known.items()})
    folder = Path(__file__).parent
    command = [sys.executable, "-c", textwrap.dedent(code), str(folder), str(folder.parent)]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert json.loads(done.stdout) == {kind: digest for kind, (_, digest) in known.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_a_pickle(kept, kind, monkeypatch):
    folder = kept(kind)[1]
    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, lambda *_, **__: pytest.fail("a pickle was opened"))
    assert len(saved.load(folder).agents) >= 3
    for path in folder.rglob("*.*"):
        assert path.suffix in (".toml", ".npy", ".skops", ".onnx")
        if path.suffix == ".npy":
            assert np.load(path, allow_pickle=False).dtype.kind in "fiub"
        elif path.suffix == ".skops":
            with ZipFile(path) as archive:
                assert {Path(name).suffix for name in archive.namelist()} <= {".json", ".npy", ".npz"}


def test_scores_of_other_models_than_the_degree_draws_are_refused_not_made_anew(copy, monkeypatch):
    folder = copy("degree")
    monkeypatch.setattr("degroot.agents.agent.residuals_of", lambda *_: pytest.fail("models were asked about rows"))
    monkeypatch.setattr("degroot.saved.scored.sample_peers", lambda K, degree: sample_peers(K, degree, seed=1))
    said = complaint(lambda: Collective.load(folder))
    assert "scored` must be those that this version of degroot and numpy draws for degree=4; they are others" in said
    file = folder / "collective.toml"
    file.write_text(file.read_text().replace("degree = 4\n", ""))
    assert "`agents[1].scored` must be all; they are others" in complaint(lambda: Collective.load(folder))


def test_who_scores_whom_is_saved_as_it_was(tmp_path):
    collective = KINDS["degree"]()
    peers = sample_peers(8, 4, seed=3)
    settings = {"neighbours": 5, "rule": "degroot", "degree": 4}
    saved.save(tmp_path / "c", collective.agents, collective.scorers, settings, peers)
    told = tomllib.loads((tmp_path / "c" / "collective.toml").read_text())
    assert [each["scored"] for each in told["agents"]] == peers.tolist()


def test_search_in_a_file_of_an_earlier_version_may_only_be_exact(tmp_path):
    collective = Collective(agents(), 5)
    file = collective.save(tmp_path / "c") / "collective.toml"
    written = file.read_text()
    assert "search" not in written
    file.write_text(written.replace("format = 1\n", 'format = 1\nsearch = "exact"\n'))
    assert_array_equal(Collective.load(file).predict(points()), collective.predict(points()))
    file.write_text(written.replace("format = 1\n", 'format = 1\nsearch = "approximate"\n'))
    expected = "`search` must be 'exact' or absent, as the approximate search has been removed; got 'approximate'."
    assert complaint(lambda: Collective.load(file)) == f"{file}: {expected}"


def test_files_are_on_the_disk_before_the_folder_has_its_name(tmp_path, monkeypatch):
    synced, sync = [], os.fsync

    def noting(file):
        synced.append(Path(os.readlink(f"/proc/self/fd/{file}")))
        sync(file)

    monkeypatch.setattr(os, "fsync", noting)
    for _ in range(2):
        synced.clear()
        folder = Collective(agents(), 5).save(tmp_path / "c")
        assert synced[-1] == tmp_path  # the name
        beside = {path.relative_to(tmp_path) for path in synced[:-1]}
        (unfinished,) = {path.parts[0] for path in beside}  # all of it, before
        assert unfinished.endswith(".unfinished")
        assert {path.relative_to(unfinished) for path in beside} == {
            Path(), *(path.relative_to(folder) for path in folder.rglob("*"))
        }  # fmt: skip


def test_nothing_is_scored_again(kept, monkeypatch):
    folders = [kept(kind)[1] for kind in ("degree", "auto")]
    monkeypatch.setattr("degroot.agents.agent.residuals_of", lambda *_: pytest.fail("models were asked about rows"))
    for folder in folders:
        Collective.load(folder).consult(points())


@pytest.mark.parametrize("kind", ["degroot", "shared space", "degree", "classes"])
def test_a_loaded_collective_changes_as_the_one_that_was_saved(kept, kind):
    collective, folder = KINDS[kind](), kept(kind)[1]
    loaded, X = Collective.load(folder), points()
    rows, y, _ = next(dealt(n=40, seed=5))
    classes = collective.agents[0].classes
    labels = y if classes is None else classes[np.clip(y.astype(int), 0, 2)]
    model = Ridge() if classes is None else LogisticRegression()
    for act in (
        lambda c: c.leave(c.names[1]),
        lambda c: c.join(Agent(model.fit(rows, labels), rows, labels, "new", classes=classes)),
        lambda c: c.replace(Agent(model.fit(rows, labels), rows, labels, c.names[0], classes=classes)),
    ):
        assert_same(act(collective).consult(X), act(loaded).consult(X))


def test_intervals_are_calibrated_alike(kept):
    collective, folder = kept("degroot")
    one, two = (c.calibrate().consult(points(), coverage=0.8) for c in (collective, Collective.load(folder)))
    assert_array_equal(one.lower, two.lower)
    assert_array_equal(one.upper, two.upper)


def test_points_in_frames_must_have_the_names_that_were_saved(kept):
    collective, folder = kept("frames")
    loaded, frame = Collective.load(folder), asked("frames")
    assert loaded.feature_names == NAMES
    assert_same(collective.consult(frame), loaded.consult(frame))
    assert_allclose(loaded.predict(points()), loaded.predict(frame))  # arrays get the names that models want
    with pytest.raises(InvalidInput, match="same features in the same order"):
        loaded.consult(frame[NAMES[::-1]])


def test_each_agent_can_be_had_alone(kept):
    for kind in ("degree", "shared space", "outputs"):
        collective, folder = kept(kind)
        for scorer, loaded in zip(collective.scorers, Collective.load(folder).scorers, strict=True):
            agent, alone = pickle.loads(pickle.dumps(loaded.source))()
            assert alone.agent is agent
            assert agent.name == scorer.agent.name
            for name in ("rows", "residuals", "errors"):
                assert_array_equal(getattr(scorer, name), getattr(alone, name), strict=True)
            assert_array_equal(scorer.transform(points()), alone.transform(points()))


def test_an_agent_alone_is_not_taken_from_a_folder_that_changed(kept, tmp_path):
    Collective(agents(), 5).save(tmp_path / "c")
    source = Collective.load(tmp_path / "c").scorers[0].source
    Collective(agents(), 6).save(tmp_path / "c")
    with pytest.raises(InvalidInput, match="it has been replaced"):
        source()


# -- memory ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A collective whose rows are searched where they lie."""
    source, made = np.random.default_rng(0), []
    for k in range(2):
        X = source.normal(size=(450_000, 20))
        made.append(Agent(Ridge().fit(X[:100], X[:100, 0]), X, X[:, 0], f"a{k}"))
    collective = Collective(made)
    return collective, collective.save(tmp_path_factory.mktemp("large") / "c")


def test_loading_takes_no_memory(large):
    size = sum(path.stat().st_size for path in large[1].rglob("*") if path.is_file())
    assert size > 150_000_000
    code = """
        import re, sys
        from degroot import Collective
        def anonymous(): return int(re.search(r"RssAnon:\\s+(\\d+)", open("/proc/self/status").read())[1]) << 10
        first = Collective.load(sys.argv[1])  # what is imported and allocated once stays
        before = anonymous()
        second = Collective.load(sys.argv[1])
        print(anonymous() - before)
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(large[1])]
    grown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert int(grown) < size / 100


def test_what_the_search_took_long_to_make_is_kept(large, monkeypatch):
    collective, folder = large
    made, X = collective.scorers[0].kept, points(5, 20)
    monkeypatch.setattr("degroot.neighbourhoods.large.rows.draw", lambda *_: pytest.fail("a sample was drawn"))
    loaded = Collective.load(folder)
    assert_same(collective.consult(X), loaded.consult(X))
    assert made.keys() == loaded.scorers[0].kept.keys() != set()
    for name, array in made.items():
        assert_array_equal(array, loaded.scorers[0].kept[name], strict=True)


def test_what_is_written_to_a_loaded_array_stays_in_this_process(kept):
    _, folder = kept("degroot")
    before = contents(folder)
    Collective.load(folder).scorers[0].residuals[:] = 0.0
    assert contents(folder) == before


# -- damage ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def copy(kept, tmp_path):
    def of(kind):
        return Path(shutil.copytree(kept(kind)[1], tmp_path / "copy"))

    return of


@pytest.mark.parametrize("name", ["rows", "labels", "residuals", "errors", "located", "own_predictions"])
@pytest.mark.parametrize("harm", ["gone", "cut", "empty", "text", "folder", "shape", "kind", "objects", "fortran"])
def test_a_damaged_array_is_one_line_that_names_it(copy, name, harm):
    folder = copy("own predictions" if name == "own_predictions" else "spaces")
    path = next(folder.rglob(f"{name}.npy"))
    array = np.load(path)
    path.unlink()
    if harm == "cut":
        np.save(path, array)
        os.truncate(path, path.stat().st_size - 8)
    elif harm == "folder":
        path.mkdir()
    elif harm in ("empty", "text"):
        path.write_bytes(b"" if harm == "empty" else b"1,2,3\n" * 100)
    elif harm != "gone":
        other = {
            "shape": np.concatenate([array, array], axis=-1),
            "kind": array.astype(str),
            "objects": array.astype(object),
        }
        np.save(path, other.get(harm, np.asfortranarray(np.stack([array, array], axis=-1))), allow_pickle=True)
    assert str(path) in complaint(lambda: Collective.load(folder))


@pytest.mark.parametrize("name", ["model.skops", "space.skops"])
@pytest.mark.parametrize("harm", ["gone", "changed", "cut"])
def test_a_damaged_model_or_space_is_one_line_that_names_it(copy, name, harm):
    path = next(copy("spaces").rglob(name))
    content = path.read_bytes()
    path.unlink()
    if harm != "gone":
        path.write_bytes(content[:-20] if harm == "cut" else content.replace(b"alpha", b"alpho") + b"\0")
    said = complaint(lambda: Collective.load(path.parent.parent))
    assert str(path) in said
    assert harm == "gone" or "as it was saved" in said


@pytest.mark.parametrize("name", ["rows", "labels", "residuals", "errors"])
def test_numbers_that_changed_are_found_when_all_is_read(copy, name, monkeypatch):
    folder = copy("degroot")
    saved.verify(folder)
    path = folder / "agent-2" / f"{name}.npy"
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    for act in (saved.verify, Collective.load):
        said = complaint(lambda act=act: act(folder))
        assert said == f"{path} must be as it was saved; it has been changed or damaged."
    size = sum(file.stat().st_size for file in folder.rglob("*.*") if file.suffix != ".toml")
    monkeypatch.setattr("degroot.saved.loading.SMALL", size)
    assert str(path) in complaint(lambda: Collective.load(folder))
    monkeypatch.setattr("degroot.saved.loading.SMALL", size - 1)
    Collective.load(folder)  # of large ones no arrays are read
    assert str(path) in complaint(lambda: saved.verify(folder))
    path.unlink()
    assert str(path) in complaint(lambda: saved.verify(folder / "collective.toml"))


def test_agents_with_and_without_scores_are_refused(copy):
    file = copy("degroot") / "collective.toml"
    text = file.read_text()
    file.write_text(text.replace('residuals = "agent-2/residuals.npy"\n', ""))
    assert "`agents[2].residuals`" in complaint(lambda: Collective.load(file))
    file.write_text(text.replace("features = 3\n", ""))
    assert "`features`" in complaint(lambda: Collective.load(file))
    file.write_text(text.replace("features = 3\n", "features = 4\n"))
    said = complaint(lambda: Collective.load(file))
    assert f"{file.parent / 'agent-1' / 'rows.npy'} must hold any x 4 numbers; it holds 50 x 3 of float64." in said
    file.write_text(text.replace("format = 1\n", "format = 2\n"))
    assert "`format` must be 1" in complaint(lambda: Collective.load(file))


def test_a_model_at_an_address_is_saved_as_its_address(served, tmp_path):
    X, y, _ = next(dealt())
    collective = Collective([*agents(), Agent(served[1], X, y, "far")], 5)
    loaded = Collective.load(collective.save(tmp_path / "c"))
    assert repr(loaded.agents[-1].model) == repr(served[1])
    assert_same(collective.consult(points()), loaded.consult(points()))
    assert contents(loaded.save(tmp_path / "again")) == contents(tmp_path / "c")
    loaded.agents[-1].model.close()


# -- what cannot be saved ----------------------------------------------------------------------------------------------


class Strange(Ridge):
    """A class that nobody else has."""


class Wrapped:
    """Not even an estimator."""

    def predict(self, X):
        return X[:, 0]


@pytest.mark.parametrize(
    ("model", "space", "says"),
    [
        (lambda X: X[:, 0], None, "its model must be an estimator of scikit-learn"),
        (Wrapped(), None, "it is a Wrapped"),
        (Strange().fit(points(), points()[:, 0]), None, "Strange"),
        (Ridge().fit(points(), points()[:, 0]), lambda X: X[:, :1], "its `space` must be a transformer"),
    ],
)
def test_what_cannot_be_saved_is_refused_before_anything_is_there(tmp_path, model, space, says):
    X, y, _ = next(dealt())
    collective = Collective([*agents(), Agent(model, X, y, "odd", space=space)], 5)
    said = complaint(lambda: collective.save(tmp_path / "c"))
    assert "Agent 'odd'" in said
    assert says in said
    assert list(tmp_path.iterdir()) == []


def test_a_space_and_a_model_of_frames_get_frames_again(tmp_path):
    frame = pd.DataFrame({"town": ["a", "b", "a", "b"], "age": [1.0, 2.0, 3.0, 4.0]})
    space = make_column_transformer((StandardScaler(), ["age"]))
    model = make_pipeline(make_column_transformer((StandardScaler(), ["age"])), Ridge()).fit(frame, frame["age"])
    plain = Collective([Agent(model, frame, frame["age"], "odd", space=space)], 2)
    assert "give the agent a `schema`" in complaint(lambda: plain.save(tmp_path / "c"))
    schema = infer_form(frame)[0]
    collective = Collective([Agent(model, frame, frame["age"], "odd", space=space, schema=schema)], 2)
    again = Collective.load(collective.save(tmp_path / "c"))
    np.testing.assert_array_equal(again.consult(frame).value, collective.consult(frame).value)


def test_other_agents_than_those_of_this_process_are_refused(tmp_path):
    class Far(Agent):
        remote = True

    X, y, _ = next(dealt())
    collective = Collective([Far(Ridge().fit(X, y), X, y, "far")], 5, guard=False)
    assert "Agent 'far'" in complaint(lambda: collective.save(tmp_path / "c"))


# -- folders -----------------------------------------------------------------------------------------------------------


def test_a_saved_collective_is_replaced_and_whoever_has_it_open_keeps_it(tmp_path):
    X, folder = points(), tmp_path / "c"
    first, second = Collective(agents(), 5), Collective(agents()[:2], rule="stacking")
    first.save(folder)
    held = Collective.load(folder)
    assert second.save(folder) == folder
    assert_same(Collective.load(folder).consult(X), second.consult(X))
    assert_same(held.consult(X), first.consult(X))
    loaded = Collective.load(folder)
    loaded.leave(loaded.names[0]).save(folder)  # into the place that it came from
    assert_same(Collective.load(folder).consult(X), second.leave(second.names[0]).consult(X))
    assert list(tmp_path.iterdir()) == [folder]


def test_a_folder_with_anything_else_in_it_is_left_alone(tmp_path):
    collective = Collective(agents(), 5)
    full, listed, file = tmp_path / "full", tmp_path / "listed", tmp_path / "file"
    for folder in (full, listed):
        folder.mkdir()
        (folder / "rows.csv").write_text("mine")
    (listed / "collective.toml").write_text("[[agents]]\nname = 'north'\n")
    file.write_text("mine")
    mixed = collective.save(tmp_path / "mixed")
    (mixed / "agent-1" / "notes.txt").write_text("mine")
    before = contents(tmp_path)
    for place in (full, listed, file, mixed):
        assert "must go to a new folder" in complaint(lambda place=place: collective.save(place))
    assert contents(tmp_path) == before
    (tmp_path / "empty").mkdir()
    collective.save(tmp_path / "empty")
    collective.save(tmp_path / "new" / "folders")


def test_who_loads_while_others_save_gets_one_or_the_other(tmp_path):
    one, two = Collective(agents(), 5), Collective(agents()[::-1], 6)
    known = {digest_of(each.consult(points())) for each in (one, two)}
    one.save(tmp_path / "c")
    stop = threading.Event()

    def save():
        while not stop.is_set():
            two.save(tmp_path / "c")
            one.save(tmp_path / "c")

    with ThreadPoolExecutor(1) as pool:
        saving = pool.submit(save)
        try:
            met, patience = set(), time.monotonic() + 60
            while met != known and time.monotonic() < patience:
                met |= {digest_of(Collective.load(tmp_path / "c").consult(points())) for _ in range(20)}
                assert met <= known
        finally:
            stop.set()
        saving.result()
    assert met == known


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    said = complaint(lambda: Collective(agents(), 5).save(tmp_path / "file" / "c"))
    assert str(tmp_path / "file" / "c") in said


LARGE = """
    import resource, sys
    import numpy as np
    from sklearn.linear_model import Ridge
    from degroot import Agent, Collective, InvalidInput
    X = np.random.default_rng(0).normal(size=(int(sys.argv[2]), 20))
    made = [Agent(Ridge().fit(X[:100], X[:100, k]), X, X[:, k], f"a{k}") for k in range(4)]
    collective = Collective(made)
"""


def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path):
    Collective(agents(), 5).save(tmp_path / "c")
    before = contents(tmp_path)
    code = (
        LARGE
        + """
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))  # no file may grow beyond: as a disk that is full
    try:
        collective.save(sys.argv[1])
    except InvalidInput as error:
        print(error)
    """
    )
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "c"), "10000"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "must have room and be writable" in said
    assert "File too large" in said
    assert contents(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_a_save_that_is_killed_leaves_what_was_there(tmp_path):
    first = Collective(agents(), 5)
    folder = first.save(tmp_path / "c")
    before = contents(folder)
    code = LARGE + "\n    print('go', flush=True)\n    collective.save(sys.argv[1])\n"
    command = [sys.executable, "-c", textwrap.dedent(code), str(folder), "200000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "go\n"
        while not list(tmp_path.glob(".c.*.unfinished/agent-1/rows.npy")):
            assert process.poll() is None
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
    assert contents(folder) == before
    assert_same(Collective.load(folder).consult(points()), first.consult(points()))
