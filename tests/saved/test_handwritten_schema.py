"""Collectives written by hand with a schema: raw rows, sites, and models trained on numbers, frames and categories."""

from pathlib import Path

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from skops.io import dumps
from support.refusals import complaint

from degroot import Collective
from degroot.files.toml import toml_text
from degroot.models.skops import Framed
from degroot.schema import Column, Schema, Site, SiteColumn, encode_frame

SCHEMA = Schema(
    (
        Column("age", unit="years"),
        Column("sex", "category", ("other", "male", "female")),
        Column("stage", "ordered", ("low", "high")),
        Column("smokes", "boolean", ("no", "yes")),
    ),
    target=Column("body weight", unit="kg"),
)
SHARED = [column.name for column in SCHEMA.columns]


def make_table(seed: int, n: int = 40) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": random.integers(20, 80, n).astype(float),
            "sex": random.choice(["female", "male"], n),
            "stage": random.choice(["high", "low"], n),
            "smokes": random.choice(["yes", "no"], n),
        }
    )
    table["body weight"] = table["age"] + (table["sex"] == "male") * 9 + (table["stage"] == "high") * 5
    table.loc[1, "sex"] = None
    table.loc[2, "age"] = np.nan
    table.loc[2, "body weight"] = 50.0
    return table


def as_frame(table: pd.DataFrame) -> pd.DataFrame:
    """A frame with the types that the schema suggests."""
    return table[SHARED].assign(
        sex=pd.Categorical(table["sex"], ["other", "male", "female"]),
        stage=pd.Categorical(table["stage"], ["low", "high"], ordered=True),
        smokes=table["smokes"] == "yes",
    )


def in_own_order(table: pd.DataFrame) -> pd.DataFrame:
    """A frame whose categories are numbered otherwise than the schema's, and whose columns have another order."""
    frame = table[SHARED].assign(
        sex=table["sex"].astype("category"), stage=table["stage"].astype("category"), smokes=table["smokes"] == "yes"
    )
    return frame[["stage", "age", "smokes", "sex"]]


def numbers(frame: pd.DataFrame) -> np.ndarray:
    return encode_frame(frame, SCHEMA)


def pipeline(table: pd.DataFrame) -> tuple[str, bytes, object]:
    frame = as_frame(table)
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["sex", "stage"]), (SimpleImputer(), ["age"]), ("drop", ["smokes"])
    )
    model = make_pipeline(columns, Ridge()).fit(frame, table["body weight"])
    return "model.skops", dumps(model), lambda table: model.predict(as_frame(table))


def plain(table: pd.DataFrame) -> tuple[str, bytes, object]:
    model = HistGradientBoostingRegressor(max_iter=5, min_samples_leaf=3, categorical_features=[1])
    model.fit(numbers(as_frame(table)), table["body weight"])
    return "model.skops", dumps(model), lambda table: model.predict(numbers(as_frame(table)))


def light(table: pd.DataFrame) -> tuple[str, bytes, object]:
    model = lightgbm.LGBMRegressor(n_estimators=5, min_child_samples=3, verbose=-1)
    model.fit(in_own_order(table), table["body weight"])
    known = in_own_order(table)
    return (
        "model.txt",
        model.booster_.model_to_string().encode(),
        lambda table: model.predict(in_own_order(table).astype({name: known[name].dtype for name in ("sex", "stage")})),
    )


def extreme(table: pd.DataFrame) -> tuple[str, bytes, object]:
    model = xgboost.XGBRegressor(n_estimators=5, enable_categorical=True)
    model.fit(in_own_order(table), table["body weight"])
    known = in_own_order(table)
    return (
        "model.json",
        bytes(model.get_booster().save_raw("json")),
        lambda table: model.predict(in_own_order(table).astype({name: known[name].dtype for name in ("sex", "stage")})),
    )


def write(folder: Path, make, seed: int, *, model: dict[str, object] | None = None, **about: object):
    """The entry of one agent, with its files, and what its model says of a table."""
    place, table = folder / str(seed), make_table(seed)
    place.mkdir()
    name, content, predict = make(table)
    (place / name).write_bytes(content)
    table.to_parquet(place / "rows.parquet")
    file = f"{seed}/{name}"
    takes = {"model": file if model is None else {"file": file} | model}
    return {"name": f"agent {seed}", "data": f"{seed}/rows.parquet"} | takes | about, predict


def load(folder: Path, entries: list[dict[str, object]]) -> Collective:
    (folder / "schema.toml").write_text(SCHEMA.to_toml())
    (folder / "collective.toml").write_text(toml_text({"schema": "schema.toml", "agents": entries}))
    return Collective.load(folder)


@pytest.mark.parametrize("make", [pipeline, plain, light, extreme])
def test_models_get_what_they_were_trained_on(tmp_path, make):
    takes = {"input": "frame"} if make is pipeline else None
    entries, models = zip(*(write(tmp_path, make, seed, model=takes) for seed in range(2)), strict=True)
    collective = load(tmp_path, list(entries))
    asked = make_table(7)
    answer = collective.consult(as_frame(asked))
    for place, predict in enumerate(models):
        np.testing.assert_allclose(answer.beliefs[:, place], predict(asked), rtol=1e-6)
    again = Collective.load(collective.save(tmp_path / "saved"))
    np.testing.assert_array_equal(again.consult(as_frame(asked)).beliefs, answer.beliefs)
    np.testing.assert_array_equal(again.consult(numbers(as_frame(asked))).value, answer.value)
    assert again.schema == SCHEMA


def test_sites_and_absent_columns_are_read_by_the_schema(tmp_path):
    entries = [write(tmp_path, plain, seed)[0] for seed in range(3)]
    table = make_table(1).rename(columns={"age": "AGE", "body weight": "grams"})
    table["sex"], table["grams"] = table["sex"].map({"male": "M", "female": "F"}), table["grams"] * 1000
    table.to_parquet(tmp_path / "1/rows.parquet")
    site = Site(
        {
            "age": SiteColumn(name="AGE"),
            "sex": SiteColumn(values=(("M", "male"), ("F", "female"))),
            "body weight": SiteColumn(name="grams", factor=0.001),
        }
    )
    (tmp_path / "site.toml").write_text(site.to_toml())
    make_table(2).drop(columns="smokes").to_parquet(tmp_path / "2/rows.parquet")
    entries[1] |= {"site": "site.toml"}
    assert "'smokes'" in complaint(lambda: load(tmp_path, entries))
    entries[2] |= {"absent": ["smokes"]}
    collective = load(tmp_path, entries)
    expected = numbers(as_frame(make_table(1)))
    np.testing.assert_array_equal(collective.agents[1].X, expected)
    np.testing.assert_allclose(collective.agents[1].y, make_table(1)["body weight"])
    assert collective.agents[2].lacks.tolist() == [False, False, False, True]


def test_a_model_on_texts_that_would_get_numbers_is_refused(tmp_path):
    entry = write(tmp_path, pipeline, 0)[0]
    message = complaint(lambda: load(tmp_path, [entry]))
    assert "agent 0" in message
    assert 'input = "frame"' in message


def test_a_frame_needs_its_library_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("degroot.models.by_schema.find_spec", lambda name: None)
    entry = write(tmp_path, pipeline, 0, model={"input": "frame"})[0]
    message = complaint(lambda: load(tmp_path, [entry]))
    assert "needs pandas" in message
    assert "pip install pandas" in message


def test_a_frame_needs_a_schema_with_its_columns(tmp_path):
    entry = write(tmp_path, pipeline, 0, model={"input": "frame"})[0]
    text = toml_text({"target": "body weight", "features": ["age"], "agents": [entry]})
    (tmp_path / "collective.toml").write_text(text)
    make_table(0).dropna().to_parquet(tmp_path / "0/rows.parquet")
    assert "must come with a schema" in complaint(lambda: Collective.load(tmp_path))
    column = {"name": "height", "kind": "number", "dtype": "float64"}
    entry["model"] |= {"input": {"library": "pandas", "columns": [column]}}
    assert "'height' is none" in complaint(lambda: load(tmp_path, [entry]))
    entry["model"] |= {"input": "frames"}
    assert "must be one of 'frame'" in complaint(lambda: load(tmp_path, [entry]))


def test_a_booster_with_other_categories_than_the_schema_is_refused(tmp_path):
    def strange(table: pd.DataFrame) -> tuple[str, bytes, object]:
        return light(table.assign(sex=table["sex"].map({"male": "1", "female": "2"})))

    entry = write(tmp_path, strange, 0)[0]
    assert "2 columns with categories" in complaint(lambda: load(tmp_path, [entry]))


def test_named_models_get_their_columns(tmp_path):
    def narrow(table: pd.DataFrame) -> tuple[str, bytes, object]:
        rows = pd.DataFrame(numbers(as_frame(table)), columns=SHARED)[["stage", "age"]]
        model = HistGradientBoostingRegressor(max_iter=3).fit(rows, table["body weight"])
        return (
            "model.skops",
            dumps(model),
            lambda table: model.predict(pd.DataFrame(numbers(as_frame(table)), columns=SHARED)[["stage", "age"]]),
        )

    entry, predict = write(tmp_path, narrow, 0)
    collective = load(tmp_path, [entry])
    asked = make_table(7)
    np.testing.assert_array_equal(collective.consult(as_frame(asked)).beliefs[:, 0], predict(asked))
    assert isinstance(collective.agents[0].model.model, Framed)
