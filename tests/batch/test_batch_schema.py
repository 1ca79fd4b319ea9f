"""Files predicted by a schema: raw tables give what the same rows give as a frame, whatever file they are in."""

import json
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression
from support.refusals import complaint

from degroot import Agent, Collective
from degroot.batch import predict_files
from degroot.files import points
from degroot.schema import Column, Schema, Site, SiteColumn, encode_frame

SCHEMA = Schema(
    (
        Column("age", unit="years", range=(0, 120)),
        Column("sex", "category", ("female", "male")),
        Column("smokes", "boolean", ("no", "yes")),
        Column("visit", "date"),
    ),
    target=Column("weight", unit="kg"),
)


def make_table(seed: int, n: int = 60) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "id": [f"{seed:02d}{k:03d}" for k in range(n)],
            "age": random.integers(20, 80, n).astype(float),
            "sex": random.choice(["female", "male", None], n),
            "smokes": random.choice(["yes", "no"], n),
            "visit": pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 9000, n), unit="h"),
        }
    )


def make_agent(seed: int, name: str) -> Agent:
    numbers = encode_frame(make_table(seed)[list(SCHEMA.names)], SCHEMA)
    y = numbers[:, 0] + 5 * np.nan_to_num(numbers[:, 1], nan=0.5)
    model = HistGradientBoostingRegressor(max_iter=4, categorical_features=[1, 2]).fit(numbers, y)
    return Agent(model, numbers, y, name, schema=SCHEMA)


@pytest.fixture(scope="module")
def collective() -> Collective:
    return Collective([make_agent(seed, f"agent {seed}") for seed in range(3)])


def write(table: pd.DataFrame, path) -> str:
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    if path.suffix == ".csv":
        pyarrow.csv.write_csv(arrow, path)
    elif path.suffix == ".arrow":
        pyarrow.feather.write_feather(arrow, str(path))
    else:
        pyarrow.parquet.write_table(arrow, path, use_dictionary=["sex"], row_group_size=17)
    return str(path)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".arrow"])
def test_raw_files_are_answered_as_frames_are(tmp_path, collective, suffix):
    table = make_table(9)
    done = predict_files(
        collective, write(table, tmp_path / f"in{suffix}"), tmp_path / "out.parquet", keep=["id", "sex"]
    )
    found = pd.read_parquet(done.output)
    answer = collective.consult(table[list(SCHEMA.names)])
    np.testing.assert_array_equal(found["value"], answer.value)
    assert found["id"].tolist() == table["id"].tolist()
    assert not done.note


def test_categories_of_pandas_and_several_types_of_dates_are_read(tmp_path, collective):
    table = make_table(9)
    expected = collective.consult(table[list(SCHEMA.names)]).value
    table["sex"], table["smokes"] = table["sex"].astype("category"), table["smokes"] == "yes"
    table["visit"] = table["visit"].dt.tz_localize("UTC").dt.tz_convert("Europe/Berlin")
    write(table, tmp_path / "in.parquet")
    done = predict_files(collective, tmp_path / "in.parquet", tmp_path / "out.parquet", fields="value")
    np.testing.assert_array_equal(pd.read_parquet(done.output)["value"], expected)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_value_that_is_not_admitted_is_refused_or_null(tmp_path, collective, suffix):
    table = make_table(9)
    table.loc[41, "sex"], table.loc[50, "age"] = "x", 500.0
    path = write(table, tmp_path / f"in{suffix}")
    message = complaint(lambda: predict_files(collective, path, tmp_path / "out.csv"))
    for part in (f"{path}: row 42: column 'sex'", "'female', 'male'", "got 'x'", "site file"):
        assert part in message, message
    done = predict_files(collective, path, tmp_path / "out.parquet", on_bad_row="null", fields="value")
    values = pd.read_parquet(done.output)["value"]
    assert np.flatnonzero(values.isna()).tolist() == [41, 50]
    assert done.bad == 2


def test_a_site_file_says_how_the_input_is_written(tmp_path, collective):
    table = make_table(9)
    expected = collective.consult(table[list(SCHEMA.names)]).value
    site = Site(
        {
            "age": SiteColumn(name="MONTHS", factor=0.25),
            "sex": SiteColumn(values=(("M", "male"), ("F", "female"))),
            "visit": SiteColumn(name="seen", format="%d/%m/%Y %H:%M"),
            "weight": SiteColumn(name="grams", factor=0.001),
        }
    )
    (tmp_path / "site.toml").write_text(site.to_toml())
    written = table.assign(
        MONTHS=table["age"] * 4, sex=table["sex"].map({"male": "M", "female": "F"}),
        seen=table["visit"].dt.strftime("%d/%m/%Y %H:%M"),
    ).drop(columns=["age", "visit"])  # fmt: skip
    path = write(written, tmp_path / "in.csv")
    about = {"fields": "value", "site": tmp_path / "site.toml"}
    done = predict_files(collective, path, tmp_path / "out.csv", **about)
    np.testing.assert_array_equal(pd.read_csv(done.output)["value"], expected)
    plain = Collective([Agent(lambda X: X[:, 0], [[0.0], [1.0]], [0.0, 1.0], "plain")], 1)
    assert "has a schema" in complaint(lambda: predict_files(plain, path, tmp_path / "o.csv", **about))


def test_the_site_file_beside_the_input_is_taken_and_said(tmp_path, collective):
    table = make_table(9)
    expected = collective.consult(table[list(SCHEMA.names)]).value
    path = write(table.assign(age=table["age"] * 4), tmp_path / "north.csv")
    (tmp_path / "north.site.toml").write_text("columns.age.factor = 0.25\n")
    done = predict_files(collective, path, tmp_path / "out.csv", fields="value")
    assert done.note == f"Read as {tmp_path / 'north.site.toml'} says."
    np.testing.assert_allclose(pd.read_csv(tmp_path / "out.csv")["value"], expected)
    other = write(table, tmp_path / "south.csv")
    message = complaint(lambda: predict_files(collective, [path, other], tmp_path / "both.csv"))
    assert "north.site.toml lies beside one of them" in message


def test_categories_that_no_agent_has_are_gaps_and_noted(tmp_path):
    open_list = replace(SCHEMA, columns=tuple(replace(each, unlisted="gap") for each in SCHEMA.columns))
    agents = [make_agent(seed, name) for seed, name in enumerate(("north", "south"))]
    agents = [Agent(each.model, each.X, each.y, each.name, schema=open_list) for each in agents]
    collective, table = Collective(agents), make_table(9)
    odd = table.assign(sex=table["sex"].where(np.arange(60) > 2, "unknown"))
    done = predict_files(collective, write(odd, tmp_path / "in.csv"), tmp_path / "out.csv", fields="value")
    assert "'unknown' of 'sex'" in done.note
    gaps = odd.assign(sex=odd["sex"].where(odd["sex"] != "unknown"))
    expected = collective.consult(gaps[list(SCHEMA.names)]).value
    np.testing.assert_allclose(pd.read_csv(tmp_path / "out.csv")["value"], expected)


def test_columns_that_the_input_lacks_are_absent_and_noted(tmp_path):
    agents = [make_agent(seed, f"agent {seed}") for seed in range(2)]
    numbers = agents[0].X.copy()
    numbers[:, 3] = np.nan
    agents.append(Agent(lambda X: X[:, 0], numbers, agents[0].y, "without dates", schema=SCHEMA))
    collective, table = Collective(agents), make_table(9).drop(columns="visit").assign(Visit=1)
    path = write(table, tmp_path / "in.csv")
    done = predict_files(collective, path, tmp_path / "out.csv", fields=["value", "flags"])
    assert "does not have 'visit'" in done.note
    assert "'Visit'" in done.note
    answer = collective.consult(table[["age", "sex", "smokes"]])
    found = pd.read_csv(done.output)
    np.testing.assert_array_equal(found["value"], answer.value)
    assert found["flags"].str.contains("abstain").all()
    other = write(table[["id"]], tmp_path / "other.csv")
    assert "must have columns of the schema" in complaint(lambda: predict_files(collective, other, tmp_path / "o.csv"))


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".arrow"])
def test_columns_under_other_names_are_recognised_as_when_points_are_read(tmp_path, suffix):
    agents = [make_agent(seed, f"agent {seed}") for seed in range(2)]
    numbers = agents[0].X.copy()
    numbers[:, :2] = np.nan
    agents.append(Agent(lambda X: X[:, 3], numbers, agents[0].y, "by dates", schema=SCHEMA))
    collective, table = Collective(agents), make_table(9)
    path = Path(write(table.rename(columns={"age": "AGE_YEARS", "sex": "GENDER"}), tmp_path / f"in{suffix}"))
    done = predict_files(collective, path, tmp_path / "out.csv", fields="value")
    beside = tmp_path / "in.site.toml"
    lines = 'columns.age = { name = "AGE_YEARS" }; columns.sex = { name = "GENDER" }'
    assert done.note.endswith(f"write in {beside}: {lines}")
    assert done.note == points(path, (), schema=SCHEMA, site_file=beside).note
    beside.write_text(lines.replace("; ", "\n"))
    done = predict_files(collective, path, tmp_path / "out.csv", fields="value")
    assert done.note == f"Read as {beside} says."
    expected = collective.consult(table[list(SCHEMA.names)]).value
    np.testing.assert_array_equal(pd.read_csv(done.output)["value"], expected)


@pytest.mark.parametrize("form", ["file", "object", "beside"])
def test_what_a_site_lacks_is_read_where_the_input_has_it(tmp_path, collective, form):
    table, site = make_table(9), Site(absent=("sex", "visit"))
    path = write(table, tmp_path / "in.csv")
    place = tmp_path / ("in.site.toml" if form == "beside" else "site.toml")
    place.write_text(site.to_toml())
    given = {"file": {"site": place}, "object": {"site": site}, "beside": {}}[form]
    done = predict_files(collective, path, tmp_path / "out.csv", fields="value", **given)
    assert "does not have" not in done.note
    expected = collective.consult(table[list(SCHEMA.names)]).value
    np.testing.assert_array_equal(pd.read_csv(done.output)["value"], expected)


def test_rows_that_no_model_answers_are_refused_or_null(tmp_path):
    agents = [make_agent(seed, f"agent {seed}") for seed in range(2)]
    for agent in agents:
        complete = agent.X[~np.isnan(agent.X).any(axis=1)]
        agent.model = LinearRegression().fit(complete, complete[:, 0])
    complete = [
        Agent(agent.model, agent.X[~np.isnan(agent.X).any(axis=1)], agent.X[~np.isnan(agent.X).any(axis=1), 0],
              agent.name, schema=SCHEMA)
        for agent in agents
    ]  # fmt: skip
    collective, table = Collective(complete), make_table(9)
    table["asker"] = np.where(np.arange(len(table)) % 2, "agent 0", None)
    path = write(table, tmp_path / "in.parquet")
    first = int(np.flatnonzero(table["sex"].isna())[0]) + 1
    message = complaint(lambda: predict_files(collective, path, tmp_path / "out.csv"))
    assert f"row {first} of {path}" in message
    assert "'sex'" in message
    for about in ({}, {"asker": "agent 0"}, {"asker_column": "asker"}):
        done = predict_files(collective, path, tmp_path / "o.parquet", on_bad_row="null", fields="value", **about)
        values = pd.read_parquet(done.output)["value"]
        np.testing.assert_array_equal(values.isna(), table["sex"].isna())
        assert done.bad == table["sex"].isna().sum()


def test_a_row_that_one_asker_gets_no_answer_to_is_null_for_that_asker_only(tmp_path):
    here, there = make_agent(0, "here"), make_agent(1, "there")
    known = here.X[~np.isnan(here.X).any(axis=1)]
    known[:, 3] = np.nan  # no visits, so that it cannot score the model of the other one
    lacking = Agent(lambda X: X[:, 0] + X[:, 1], known, known[:, 0], "here", schema=SCHEMA)
    needing = Agent(lambda X: np.nan_to_num(X[:, 1]) + X[:, 3], there.X, there.y, "there", schema=SCHEMA)
    table = make_table(9)
    table["asker"] = np.where(np.arange(len(table)) % 2, "here", "there")
    path = write(table, tmp_path / "in.parquet")
    done = predict_files(Collective([lacking, needing]), path, tmp_path / "out.parquet", on_bad_row="null",
                         fields="value", asker_column="asker")  # fmt: skip
    values = pd.read_parquet(done.output)["value"]
    np.testing.assert_array_equal(values.isna(), table["sex"].isna() & (table["asker"] == "here"))


def test_another_site_is_another_run(tmp_path, collective, monkeypatch):
    path = write(make_table(9, 200), tmp_path / "in.csv")
    stop, runs = Stop(), import_module("degroot.batch.run")
    monkeypatch.setattr(runs, "check_unchanged", stop)
    with pytest.raises(KeyboardInterrupt):
        predict_files(collective, path, tmp_path / "out.csv")
    assert stop.calls == 1
    manifest = tmp_path / "out.csv.unfinished" / "manifest.jsonl"
    assert json.loads(manifest.read_text().splitlines()[0])["schema"] == SCHEMA.digest
    (tmp_path / "site.toml").write_text(Site({"age": SiteColumn(factor=0.5)}).to_toml())
    message = complaint(lambda: predict_files(collective, path, tmp_path / "out.csv", site=tmp_path / "site.toml"))
    assert "other site" in message


class Stop:
    """Interrupts a run when all shards are answered."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, plan: object) -> None:
        self.calls += 1
        raise KeyboardInterrupt


def test_a_saved_collective_answers_files_alike(tmp_path, collective):
    table = make_table(9)
    path = write(table, tmp_path / "in.parquet")
    folder = collective.save(tmp_path / "saved")
    done = predict_files(folder, path, tmp_path / "out.parquet", fields="value", verify=True)
    expected = collective.consult(table[list(SCHEMA.names)]).value
    np.testing.assert_array_equal(pd.read_parquet(done.output)["value"], expected)


@pytest.mark.slow
def test_a_cluster_reads_by_the_schema_too(tmp_path, collective):
    pytest.importorskip("ray")
    table, folder = make_table(9), collective.save(tmp_path / "saved")
    path, found = write(table, tmp_path / "in.parquet"), []
    for about in ({"engine": "local"}, *({"engine": "ray", "placement": each} for each in ("workers", "agents"))):
        done = predict_files(folder, path, tmp_path / "out.parquet", fields=["value", "weights"], **about)
        found.append(done.output.read_bytes())
    assert found[0] == found[1] == found[2]
