"""Collectives with a schema, saved and opened again: the same answers, without pickles."""

import tomllib
from datetime import UTC, datetime
from functools import partial

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder
from skops.io import dumps
from support.refusals import complaint

from degroot import Agent, Collective
from degroot.models.by_schema import bind_schema
from degroot.models.lightgbm import from_lightgbm
from degroot.models.skops import opened
from degroot.models.xgboost import from_xgboost
from degroot.saved import verify
from degroot.schema import Column, Schema

SCHEMA = Schema(
    (
        Column("age", unit="years"),
        Column("sex", "category", ("female", "male", "other")),
        Column("smokes", "boolean", ("no", "yes")),
        Column("visit", "date"),
    ),
    target=Column("weight", unit="kg"),
)


def make_frame(seed: int, n: int = 30) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": random.integers(20, 80, n).astype(float),
            "sex": pd.Categorical(random.choice(["female", "male", "other"], n), ["female", "male", "other"]),
            "smokes": random.random(n) > 0.5,
            "visit": pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 400, n), unit="h"),
        }
    )
    frame.loc[random.choice(n, 3), "age"] = np.nan
    frame.loc[random.choice(n, 3), "sex"] = None
    return frame


def label(frame: pd.DataFrame) -> np.ndarray:
    return frame["age"].fillna(50.0).to_numpy() / 10 + (frame["sex"] == "male") * 3.0 + frame["smokes"] * 1.0


def one_hot_pipeline():
    return make_pipeline(
        make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore"), ["sex"]), (SimpleImputer(), ["age"]), ("passthrough", ["smokes"])
        ),
        Ridge(),
    )


def boosting_with_categories():
    columns = make_column_transformer(
        ("passthrough", ["age", "sex", "smokes"]), verbose_feature_names_out=False
    ).set_output(transform="pandas")
    return make_pipeline(columns, HistGradientBoostingRegressor(categorical_features="from_dtype", max_iter=4))


def agents(**about) -> list[Agent]:
    makers = [one_hot_pipeline, boosting_with_categories, one_hot_pipeline]
    made = []
    for seed, make in enumerate(makers):
        frame = make_frame(seed)
        made.append(Agent(make().fit(frame, label(frame)), frame, label(frame), f"agent {seed}", **about))
    return made


def same(one, other) -> None:
    for name in ("value", "standard_error", "weights", "beliefs"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), name)


@pytest.mark.parametrize("about", [{}, {"schema": SCHEMA}], ids=["inferred", "agreed"])
def test_answers_about_frames_are_the_same_after_saving_and_loading(tmp_path, about):
    collective = Collective(agents(**about))
    again = Collective.load(collective.save(tmp_path / "saved"))
    frame = make_frame(9)
    same(collective.consult(frame), again.consult(frame))
    assert again.schema == collective.schema
    assert again.schema.digest == collective.schema.digest
    for before, after in zip(collective.agents, again.agents, strict=True):
        assert before.form == after.form
        np.testing.assert_array_equal(before.X, after.X)
    assert not list((tmp_path / "saved").rglob("*.p*kl*"))
    verify(tmp_path / "saved")
    same(collective.consult(frame), Collective.load(again.save(tmp_path / "twice")).consult(frame))
    for file in ("schema.toml", "agent-1/rows.npy", "agent-1/model.skops"):
        assert (tmp_path / "saved" / file).read_bytes() == (tmp_path / "twice" / file).read_bytes(), file


@settings(max_examples=10, deadline=None)
@given(
    kinds=st.lists(st.sampled_from(["number", "text", "category", "boolean", "date", "whole"]), min_size=1, max_size=4),
    seed=st.integers(0, 1000),
    gaps=st.booleans(),
)
def test_any_mixed_frame_is_answered_alike_after_saving(tmp_path_factory, kinds, seed, gaps):
    random, n = np.random.default_rng(seed), 12

    def column(kind: str) -> pd.Series:
        made = {
            "number": lambda: pd.Series(random.normal(size=n)),
            "whole": lambda: pd.Series(random.integers(0, 9, n)),
            "text": lambda: pd.Series(random.choice(["", " a b", 'q"', "ü,;"], n)),
            "category": lambda: pd.Series(pd.Categorical(random.choice([3, 5, 70], n), [3, 5, 70])),
            "boolean": lambda: pd.Series(random.random(n) > 0.5),
            "date": lambda: pd.Series(
                pd.Timestamp("1969-01-01") + pd.to_timedelta(random.integers(0, 10**9, n), unit="s")
            ),
        }[kind]()
        return made.mask(random.random(n) < 0.2) if gaps and kind in ("number", "text", "category", "date") else made

    def frame() -> pd.DataFrame:
        return pd.DataFrame(
            {f"{kind} {k}": column(kind) for k, kind in enumerate(kinds)} | {"z": random.normal(size=n)}
        )

    def constant(value: float):
        columns = make_column_transformer(("passthrough", ["z"]))
        return make_pipeline(columns, Ridge()).fit(first, first["z"] * value)

    first, second = frame(), frame()
    for name, kind in zip(first, kinds, strict=False):
        if kind == "text":
            first.loc[0, name] = second.loc[0, name] = "x"  # a column needs some value
    made = [Agent(constant(2.0), first, first["z"], "one"), Agent(constant(1.5), second, second["z"], "two")]
    collective = Collective(made, neighbours=3)
    again = Collective.load(collective.save(tmp_path_factory.mktemp("any") / "saved"))
    same(collective.consult(first), again.consult(first))


def test_classes_lacking_columns_and_numbers_by_a_schema_are_kept(tmp_path):
    schema = Schema(SCHEMA.columns, target=Column("heavy", "category", ("no", "yes")))
    made = []
    for seed in range(3):
        frame = make_frame(seed, 40)
        numbers = schema.encode({name: frame[name].to_numpy(object if name == "sex" else None) for name in frame})
        y = np.where(label(frame) > 7, "yes", "no")
        columns = [False, True, True, False]
        model = HistGradientBoostingClassifier(max_iter=3, categorical_features=columns).fit(numbers, y)
        if seed == 2:
            numbers[:, 3] = np.nan
        made.append(Agent(model, numbers, y, f"a{seed}", classes=["no", "yes"], schema=schema))
    collective = Collective(made)
    again = Collective.load(collective.save(tmp_path / "saved"))
    same(collective.consult(made[0].X), again.consult(made[0].X))
    np.testing.assert_array_equal(again.agents[2].lacks, made[2].lacks)
    top = tomllib.loads((tmp_path / "saved" / "collective.toml").read_text())
    assert top["agents"][2]["absent"] == ["visit"]
    assert top["schema"] == "schema.toml"


def test_a_changed_schema_is_found(tmp_path):
    folder = Collective(agents(schema=SCHEMA)).save(tmp_path / "saved")
    file = folder / "schema.toml"
    file.write_text(file.read_text().replace('"other"', '"others"'))
    assert "changed or damaged" in complaint(lambda: Collective.load(folder))


def test_what_cannot_be_saved_is_named_with_agent_and_step(tmp_path):
    frame = make_frame(0)
    log = ("log", FunctionTransformer(lambda X: X), ["age"])
    columns = make_column_transformer((OneHotEncoder(), ["sex"]))
    columns.transformers.append(log)
    model = make_pipeline(columns, SimpleImputer(), Ridge()).fit(frame, label(frame))
    made = [Agent(model, frame, label(frame), "north"), *agents()[1:]]
    message = complaint(lambda: Collective(made).save(tmp_path / "saved"))
    assert "north" in message
    assert "'log'" in message
    intervals = frame.assign(age=pd.cut(frame["age"], 3))
    columns = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["sex"]))
    made = [
        Agent(make_pipeline(columns, Ridge()).fit(intervals, label(frame)), intervals, label(frame), name)
        for name in ("north", "south")
    ]
    message = complaint(lambda: Collective(made).save(tmp_path / "saved"))
    assert "north" in message
    assert "'age'" in message
    assert not (tmp_path / "saved").exists()


def test_functions_in_skops_files_stay_untrusted():
    content = dumps(FunctionTransformer(partial(eval, "1")))
    assert "eval" in complaint(lambda: opened(content))


@pytest.mark.parametrize(
    ("made", "kind"), [("pipeline", "category"), ("pipeline", "object"), ("pipeline", "str"), ("booster", "category")]
)
def test_a_category_that_is_called_as_a_gap_is_kept(tmp_path, made, kind):
    random = np.random.default_rng(0)
    parts = []
    for name in ("north", "south"):
        frame = pd.DataFrame({"veneer": random.choice(["None", "Stone", "NA"], 60), "size": random.normal(size=60)})
        frame["veneer"] = frame["veneer"].astype(kind)
        truth = 5.0 * (frame["veneer"] == "None") + frame["size"]
        columns = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["veneer"]), remainder="passthrough")
        model = lightgbm.LGBMRegressor(n_estimators=5, verbose=-1, n_jobs=1)
        model = model if made == "booster" else make_pipeline(columns, Ridge())
        parts.append((model.fit(frame, truth), frame, truth, name))
    collective, asked = Collective([Agent(*part) for part in parts]), parts[0][1]
    again = Collective.load(collective.save(tmp_path / "saved"))
    same(collective.consult(asked), again.consult(asked))
    assert again.schema.column("veneer").categories == collective.schema.column("veneer").categories
    np.testing.assert_allclose(again.consult(asked).beliefs[:, 0], parts[0][0].predict(asked))
    assert not list((tmp_path / "saved").rglob("*.p*kl*"))


def test_a_booster_file_with_a_category_that_is_called_as_a_gap_gets_its_own_codes():
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"veneer": pd.Categorical(random.choice(["None", "Stone", "NA"], 60))})
    truth = 5.0 * (frame["veneer"] == "None") + (frame["veneer"] == "NA")
    schema = Schema((Column("veneer", "category", ("Stone", "None", "NA", "Brick")),))
    numbers = schema.encode({"veneer": frame["veneer"].to_numpy(object)})
    light = lightgbm.LGBMRegressor(n_estimators=5, min_child_samples=2, verbose=-1, n_jobs=1).fit(frame, truth)
    bound = bind_schema(from_lightgbm(light.booster_.model_to_string().encode()), schema)
    np.testing.assert_allclose(bound.predict(numbers), light.predict(frame))
    extreme = xgboost.XGBRegressor(n_estimators=5, enable_categorical=True).fit(frame, truth)
    bound = bind_schema(from_xgboost(bytes(extreme.get_booster().save_raw("ubj"))), schema)
    np.testing.assert_allclose(bound.predict(numbers), extreme.predict(frame))


@pytest.mark.parametrize("gap", [None, np.nan, pd.NA], ids=["None", "NaN", "NA"])
def test_gaps_and_dates_that_are_python_objects_are_kept(tmp_path, gap):
    moments = [datetime(2024, 1, day, tzinfo=UTC) for day in range(1, 20)]
    frame = pd.DataFrame({"day": pd.Series([*moments, None], dtype=object), "x": np.arange(20.0)})
    frame["n"] = pd.Series([gap, *range(19)], dtype=object)
    columns = make_column_transformer(("passthrough", ["x"]))
    made = [Agent(make_pipeline(columns, Ridge()).fit(frame, frame["x"]), frame, frame["x"], k) for k in "ab"]
    collective = Collective(made, neighbours=5)
    again = Collective.load(collective.save(tmp_path / "saved"))
    assert [agent.form for agent in again.agents] == [agent.form for agent in collective.agents]
    assert again.agents[0].restore_rows(frame)["n"].tolist()[0] is gap
    naive = frame.assign(day=pd.Timestamp("2024-01-01"))
    told = "Column 'day' must have a time zone, as the rows of agent 'a' (object); got datetime64"
    assert complaint(lambda: again.predict(naive)).startswith(told)


@pytest.mark.parametrize("model", [Ridge(), xgboost.XGBRegressor(n_estimators=3)], ids=["ridge", "xgboost"])
def test_numbers_of_types_of_arrow_are_saved(tmp_path, model):
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"a": random.integers(0, 9, 40), "b": random.normal(size=40)})
    frame = frame.astype({"a": "int64[pyarrow]", "b": "double[pyarrow]"})
    y = frame["a"].to_numpy(float)
    collective = Collective([Agent(clone(model).fit(frame, y), frame, y, name) for name in "ab"], neighbours=5)
    again = Collective.load(collective.save(tmp_path / "saved"))
    same(collective.consult(frame), again.consult(frame))


def test_a_model_that_fails_once_opened_names_its_agent_in_one_line(tmp_path, monkeypatch):
    class Failing:
        def predict(self, X):
            raise ValueError("no such column\nin this table")

    monkeypatch.setattr("degroot.models.saving.from_skops", lambda _: Failing())
    message = complaint(lambda: Collective(agents()).save(tmp_path / "saved"))
    assert message.startswith("Agent 'agent 0': its model must be")
    assert message.endswith("once saved and opened again, it raised ValueError: no such column.")
