"""A collective that a TOML file lists answers as the one made of the same models and rows; mistakes are one line."""

import subprocess
import sys
import textwrap
import tomllib
from contextlib import suppress
from itertools import product
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import skops.io
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from skl2onnx import to_onnx
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from support.refusals import complaint

from degroot import Agent, Collective, InvalidInput, saved
from degroot.files.toml import toml_text
from degroot.models.onnx import from_onnx
from degroot.saved.document import ENTRY, TOP

NAMES = ["rooms", "age", "tax"]
CLASSES = ["cat", "cow", "dog"]
X = np.random.default_rng(1).normal(size=(8, 3))


def frames(K=3, n=40):
    source = np.random.default_rng(0)
    for k in range(K):
        frame = pd.DataFrame(source.normal(size=(n, 3)) + k / 2, columns=NAMES)
        yield frame.assign(price=frame["rooms"] - 2 * frame["tax"] + 0.3 * source.normal(size=n))


def write(path, frame):
    if path.suffix == ".csv":
        frame.to_csv(path, index=False, float_format="%.17g")
    elif path.suffix in (".parquet", ".pq"):
        frame.to_parquet(path)
    elif path.suffix == ".feather":
        frame.to_feather(path)
    elif path.suffix == ".npz":
        np.savez(path, **{name: frame[name].to_numpy() for name in frame})
    else:
        with pa.ipc.new_stream(path, pa.Table.from_pandas(frame).schema) as stream:
            stream.write(pa.Table.from_pandas(frame))


def listed(folder, top="", suffix=".csv", model=Ridge, **entries):
    """A file that lists three agents, and the agents themselves."""
    agents, text = [], f'target = "price"\n{top}\n'
    for k, frame in enumerate(frames()):
        rows, y = np.ascontiguousarray(frame[NAMES]), frame["price"].to_numpy()
        agents.append(Agent(model().fit(rows, y), rows, y, f"agent {k}"))
        skops.io.dump(agents[-1].model, folder / f"{k}.skops")
        write(folder / f"{k}{suffix}", frame)
        told = {"name": f"agent {k}", "model": f"{k}.skops", "data": f"{k}{suffix}"} | entries
        text += toml_text({"agents": [told]})
    (folder / "collective.toml").write_text(text)
    return folder / "collective.toml", agents


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".pq", ".npz", ".arrow", ".feather", ".ipc"])
def test_a_listed_collective_answers_as_one_of_the_same_agents(tmp_path, suffix):
    file, agents = listed(tmp_path, 'rule = "stacking"\nneighbours = 0.2\nkernel = "uniform"\nridge = 2', suffix)
    made = Collective(agents, 0.2, "stacking", kernel="uniform", ridge=2.0)
    for path in (file, tmp_path, str(file)):
        assert_array_equal(Collective.load(path).predict(X), made.predict(X))
    loaded = Collective.load(file)
    assert loaded.feature_names == NAMES
    assert loaded.names == made.names
    assert_allclose(loaded.predict(pd.DataFrame(X, columns=NAMES)), made.predict(X))


def test_a_listed_collective_can_be_saved_whole(tmp_path):
    file, _ = listed(tmp_path, 'space = "standardise"\ndegree = 3')
    loaded = Collective.load(file)
    again = Collective.load(loaded.save(tmp_path / "saved"))
    assert_array_equal(loaded.consult(X).influence, again.consult(X).influence)
    assert again.feature_names == NAMES
    assert again.degree == 3


def test_every_setting_arrives(tmp_path):
    told = {
        "rule": "degroot", "neighbours": 4, "metric": "cosine", "kernel": "gaussian", "ridge": 0.5, "guard": True,
    }  # fmt: skip
    file, _ = listed(tmp_path, toml_text(told | {"format": 1}))
    assert saved.load(file).settings == told
    loaded = Collective.load(file)
    assert {name: getattr(loaded, name) for name in told} == told


def test_mapped_rows_and_labels(tmp_path):
    _, agents = listed(tmp_path)
    text = ""
    for k, agent in enumerate(agents):
        np.save(tmp_path / f"{k}.rows.npy", agent.X.astype(np.float32))
        np.save(tmp_path / f"{k}.labels.npy", agent.y)
        np.save(tmp_path / f"{k}.own.npy", agent.y + 0.1)
        own = ["peers", f"{k}.own.npy", None][k]
        told = {"name": f"agent {k}", "model": f"{k}.skops", "rows": f"{k}.rows.npy", "labels": f"{k}.labels.npy"}
        text += toml_text({"agents": [told | {"own_predictions": own}]})
    (tmp_path / "collective.toml").write_text(text)
    own = ["peers", agents[1].y + 0.1, None]
    made = Collective(
        [
            Agent(a.model, a.X.astype(np.float32), a.y, a.name, own_predictions=o)
            for a, o in zip(agents, own, strict=True)
        ]
    )
    loaded = Collective.load(tmp_path)
    assert_array_equal(loaded.consult(X).weights, made.consult(X).weights)
    assert loaded.feature_names == ["x0", "x1", "x2"]
    assert isinstance(loaded.agents[0].X.base, np.memmap) or isinstance(loaded.agents[0].X.base.base, np.memmap)


def test_mapped_rows_have_the_features_of_the_first_agent(tmp_path):
    file, agents = listed(tmp_path)
    np.save(tmp_path / "rows.npy", agents[2].X)
    np.save(tmp_path / "labels.npy", agents[2].y)
    text = file.read_text()
    file.write_text(text.replace('data = "2.csv"', 'rows = "rows.npy"\nlabels = "labels.npy"'))
    loaded = Collective.load(file)
    assert_array_equal(loaded.predict(X), Collective(agents).predict(X))
    assert loaded.feature_names == NAMES
    np.save(tmp_path / "rows.npy", agents[2].X[:, :2])
    assert "must have 3 columns" in complaint(lambda: Collective.load(file))


def test_classes_own_predictions_and_spaces(tmp_path):
    agents, text = [], f'classes = {CLASSES}\ntarget = "kind"\nspace = "space.skops"\n'
    rows = pd.concat(frames())[NAMES].to_numpy()
    space = make_pipeline(SimpleImputer(), StandardScaler()).fit(rows)
    skops.io.dump(space, tmp_path / "space.skops")
    for k, frame in enumerate(frames()):
        labels = np.array(CLASSES)[np.clip(frame.pop("price").astype(int), 0, 2)]
        rows = np.ascontiguousarray(frame)
        model = LogisticRegression().fit(rows, labels)
        own = pd.DataFrame(model.predict_proba(rows), columns=["p0", "p1", "p2"])
        content = to_onnx(model, rows[:1].astype(np.float32)).SerializeToString()
        (tmp_path / f"{k}.onnx").write_bytes(content)
        frame.assign(kind=labels, **own).to_parquet(tmp_path / f"{k}.parquet")
        told = {"name": f"a{k}", "model": f"{k}.onnx", "data": f"{k}.parquet", "own_predictions": list(own)}
        text += toml_text({"agents": [told | ({"space": "standardise"} if k == 1 else {})]})
        about = {"own_predictions": own.to_numpy(), "classes": CLASSES, "space": StandardScaler() if k == 1 else None}
        agents.append(Agent(from_onnx(content), rows, labels, f"a{k}", **about))
    (tmp_path / "collective.toml").write_text(text)
    loaded, made = Collective.load(tmp_path), Collective(agents, space=space)
    assert_array_equal(loaded.consult(X).value, made.consult(X).value)
    assert loaded.takes_gaps == made.takes_gaps


def test_rows_with_gaps_need_a_space_that_fills_them(tmp_path):
    file, agents = listed(tmp_path, model=lambda: make_pipeline(SimpleImputer(), Ridge()), suffix=".parquet")
    frame = next(frames())
    frame.loc[3, "age"] = np.nan
    write(tmp_path / "0.parquet", frame)
    assert "row 4 is missing or NaN" in complaint(lambda: Collective.load(file))
    skops.io.dump(make_pipeline(SimpleImputer(), StandardScaler()).fit(agents[0].X), tmp_path / "fill.skops")
    file.write_text(file.read_text().replace('data = "0.parquet"', 'data = "0.parquet"\nspace = "fill.skops"'))
    loaded = Collective.load(file)
    assert np.isnan(loaded.agents[0].X[3, 1])
    assert not loaded.takes_gaps  # the others have no such space
    file.write_text('space = "fill.skops"\n' + file.read_text())
    assert Collective.load(file).takes_gaps


def test_features_may_come_in_any_order_and_be_picked(tmp_path):
    file, agents = listed(tmp_path)
    frame = list(frames())[1]
    write(tmp_path / "1.csv", frame[["price", "tax", "age", "rooms"]])
    made = Collective(agents).predict(X)
    assert_array_equal(Collective.load(file).predict(X), made)
    write(tmp_path / "2.csv", list(frames())[2].assign(note="none of it"))
    assert "Column 'note' of" in complaint(lambda: Collective.load(file))
    write(tmp_path / "2.csv", list(frames())[2].assign(note=1))
    assert "only this agent has 'note'" in complaint(lambda: Collective.load(file))
    file.write_text(f"features = {NAMES}\n" + file.read_text())
    assert_array_equal(Collective.load(file).predict(X), made)


def test_a_pickle_is_opened_only_if_that_is_asked_for(tmp_path):
    file, agents = listed(tmp_path)
    joblib.dump(agents[0].model, tmp_path / "0.joblib")
    file.write_text(file.read_text().replace("0.skops", "0.joblib"))
    assert "can run any code" in complaint(lambda: Collective.load(file))
    assert_array_equal(Collective.load(file, unsafe_pickle=True).predict(X), Collective(agents).predict(X))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("target", "traget", "`traget`: did you mean 'target'?"),
        ("data = ", "dta = ", "`agents[1].dta`: did you mean 'data'?"),
        ('"price"', '"prize"', "did you mean 'price'?"),
        ('name = "agent 1"', 'name = "agent 0"', "two are called 'agent 0'"),
        ('name = "agent 1"', "name = 7", "`agents[2].name` must be a string"),
        ('model = "0.skops"', 'model = "9.skops"', "9.skops: No such file"),
        ('model = "0.skops"', 'model = "0.h5"', "must be an .onnx, .skops, .ubj"),
        ('model = "0.skops"', 'model = {file = "0.skops", name = "n"}', "`agents[1].model.name` must stand beside"),
        ('model = "0.skops"', 'model = {address = "localhost:1", name = "n"}', 'must be "grpc://host:port"'),
        ('data = "0.csv"', 'data = "0.xlsx"', "0.xlsx: No such file"),
        ('data = "0.csv"', 'data = "0.csv"\nrows = "0.npy"', "must not stand beside `rows`"),
        ('data = "0.csv"', 'data = "0.csv"\nspace = "0.skops"', "must have transform(X)"),
        ('data = "0.csv"', 'data = "0.csv"\nown_predictions = ["age", "tax"]', "'peers' or one column"),
        ("[[agents]]", "rule = 'best'\n[[agents]]", "`rule` must be one of"),
        ("[[agents]]", "neighbours = 0\n[[agents]]", "`neighbours` must be"),
        ("[[agents]]", "neighbours = 2.5\n[[agents]]", "`neighbours` must be"),
        ("[[agents]]", "degree = 7\n[[agents]]", "degree"),
        ("[[agents]]", "format = 3\n[[agents]]", "`format` must be 1"),
        ("[[agents]]", "features = ['rooms', 'age']\n[[agents]]", "Agent 'agent 0': The model takes 3 features"),
        ("[[agents]]", "= 3\n[[agents]]", "must be a TOML file"),
    ],
)
def test_a_mistake_is_one_line(tmp_path, old, new, says):
    file, _ = listed(tmp_path)
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    assert says in complaint(lambda: Collective.load(file))


JUNK = [
    0,
    -1,
    7,
    1.5,
    float("nan"),
    True,
    "",
    "x",
    "../..",
    "a\0b",
    [],
    ["x"],
    [0, 9],
    [[1]],
    {},
    {"file": 3},
    {"x": "y"},
    {"a\0b": "y"},
]


SLOW = [pytest.param(kind, marks=pytest.mark.slow) for kind in ("listed", "arrays", "sampled")]


@pytest.mark.parametrize("kind", ["saved", *SLOW])
def test_whatever_stands_in_the_file_is_taken_or_refused(tmp_path, kind):
    file, agents = listed(tmp_path, 'space = "standardise"')
    if kind == "arrays":
        np.save(tmp_path / "rows.npy", agents[0].X)
        np.save(tmp_path / "labels.npy", agents[0].y)
        told = {"name": "a", "model": "0.skops", "rows": "rows.npy", "labels": "labels.npy", "own_predictions": "peers"}
        file.write_text(
            toml_text({"agents": [told, {"name": "b", "model": "1.skops", "data": "1.csv", "target": "price"}]})
        )
    elif kind != "listed":
        fourth = Agent(agents[0].model, agents[0].X, agents[0].y, "d", space=StandardScaler())
        made = Collective([*agents, fourth], degree=3 if kind == "sampled" else None)
        file = made.save(tmp_path / "saved") / "collective.toml"
    changed = file.with_name("changed.toml")
    for whole, known in ((True, TOP), (False, ENTRY)):
        for key, junk in product(known, JUNK):
            entries = tomllib.loads(file.read_text())
            (entries if whole else entries["agents"][-1])[key] = junk
            changed.write_text(toml_text(entries))
            with suppress(InvalidInput):
                assert Collective.load(changed).predict(X[:1]).shape == (1,)


def test_no_file_and_no_agents(tmp_path):
    assert "there is no" in complaint(lambda: Collective.load(tmp_path))
    (tmp_path / "collective.toml").write_text("rule = 'degroot'\n")
    assert "at least one agent" in complaint(lambda: Collective.load(tmp_path))


def test_the_digest_is_of_all_that_answers_depend_on(tmp_path):
    file, _ = listed(tmp_path, 'space = "standardise"')
    first = saved.digest(tmp_path)
    assert first == saved.digest(file)
    for path in sorted(tmp_path.iterdir()):
        content = path.read_bytes()
        path.write_bytes(content + b"\n")
        assert saved.digest(tmp_path) != first, path
        path.write_bytes(content)
    assert saved.digest(tmp_path) == first
    (tmp_path / "1.csv").unlink()
    assert "1.csv" in complaint(lambda: saved.digest(tmp_path))


@pytest.mark.parametrize("model", ['"~/0.skops"', '{file = "~/0.skops"}', '{file = "0.skops"}'])
def test_a_model_may_be_in_the_home_folder(tmp_path, monkeypatch, model):
    monkeypatch.setenv("HOME", str(tmp_path))
    file, agents = listed(tmp_path)
    file.write_text(file.read_text().replace('"0.skops"', model))
    assert_array_equal(Collective.load(file).predict(X), Collective(agents).predict(X))
    first = saved.digest(file)
    (tmp_path / "0.skops").write_bytes((tmp_path / "1.skops").read_bytes())
    assert saved.digest(file) != first


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.booleans()
TABLES = st.dictionaries(TEXTS, TEXTS | NUMBERS | st.lists(TEXTS) | st.lists(st.integers(0, 9)))


@given(TABLES, st.dictionaries(TEXTS, TABLES | st.lists(TABLES, min_size=1)))
def test_what_is_written_as_toml_reads_the_same(plain, nested):
    entries = plain | nested
    assert tomllib.loads(toml_text(entries)) == entries


def test_a_missing_package_is_an_instruction_and_saved_collectives_need_fewer(tmp_path):
    file, _ = listed(tmp_path)
    whole = Collective.load(file).save(tmp_path / "saved")
    code = """
        import sys
        sys.modules[sys.argv[1]] = None
        from degroot import Collective, InvalidInput
        try:
            print(Collective.load(sys.argv[2]))
        except InvalidInput as error:
            print(error)
    """

    def said(package, path):
        command = [sys.executable, "-c", textwrap.dedent(code), package, str(path)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert "pip install 'degroot[batch]'" in said("skops", file)
    assert "pip install 'degroot[batch]'" in said("skops", whole)
    assert "Collective(agent 0" in said("pyarrow", file)  # of small files
    assert "Collective(agent 0" in said("pyarrow", whole)


def test_paths_are_relative_to_the_file(tmp_path, monkeypatch):
    file, agents = listed(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert_array_equal(Collective.load(Path("..") / file.name).predict(X), Collective(agents).predict(X))
