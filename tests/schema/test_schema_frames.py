"""Frames by a schema: models get what they were trained on, and a collective takes frames as they are."""

import warnings
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from support.refusals import complaint

from degroot import Agent, Collective
from degroot.exceptions import AgentError, InvalidInput, UnlistedWarning
from degroot.schema import Column, Schema, encode_frame, infer_form, is_mixed

KINDS = (
    "int64",
    "float64",
    "Int64",
    "bool",
    "boolean",
    "category",
    "ordered",
    "numbers",
    "object",
    "str",
    "time",
    "zone",
)


@st.composite
def frames(draw):
    """Frames of pandas with columns of many types, with gaps where the type has them."""
    n = draw(st.integers(1, 8))
    columns = {}
    for k, kind in enumerate(draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=6))):
        columns[f"{kind} {k}"] = draw(series(kind, n))
    return pd.DataFrame(columns)


@st.composite
def series(draw, kind, n):
    def lists(values, gaps=True):
        return draw(st.lists(st.none() | values if gaps else values, min_size=n, max_size=n))

    whole, texts = st.integers(-(2**40), 2**40), st.sampled_from(["a", "b", "c"])
    if kind == "int64":
        return pd.Series(lists(whole, gaps=False), dtype="int64")
    if kind == "float64":
        return pd.Series(lists(st.floats(-1e9, 1e9)), dtype="float64")
    if kind in ("Int64", "boolean"):
        return pd.Series(lists(whole if kind == "Int64" else st.booleans()), dtype=kind)
    if kind == "bool":
        return pd.Series(lists(st.booleans(), gaps=False), dtype=bool)
    if kind in ("category", "ordered"):
        return pd.Series(pd.Categorical(lists(texts), ["c", "a", "b"], ordered=kind == "ordered"))
    if kind == "numbers":
        return pd.Series(pd.Categorical(lists(st.sampled_from([3, 1, 2])), [3, 1, 2]))
    if kind in ("object", "str"):
        return pd.Series([*lists(texts)[:-1], "a"], dtype=kind)  # a column of nothing has no type
    moments = lists(st.datetimes(pd.Timestamp(1950, 1, 1), pd.Timestamp(2100, 1, 1)))
    stamps = pd.Series(pd.to_datetime(pd.Series(moments, dtype="datetime64[us]")))
    return stamps.dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo") if kind == "zone" else stamps


@given(frames())
@settings(max_examples=50)
def test_a_frame_comes_back_from_its_numbers(frame):
    schema, form = infer_form(frame)
    numbers = encode_frame(frame, schema)
    assert numbers.shape == frame.shape
    np.testing.assert_array_equal(np.isnan(numbers), frame.isna().to_numpy())
    assert_frame_equal(form.restore(numbers, schema), frame)


def test_polars_frames_come_back_too():
    frame = pl.DataFrame(
        {
            "x": [1.5, None],
            "n": [1, 2],
            "c": ["a", None],
            "b": [True, None],
            "d": [date(2024, 1, 31), None],
            "small": pl.Series([7, None], dtype=pl.UInt8),
            "zone": pl.Series([datetime(2024, 1, 31), None]).dt.replace_time_zone("Asia/Tokyo"),
            "time": pl.Series([datetime(2024, 1, 31), None], dtype=pl.Datetime("ms")),
            "k": pl.Series(["v", "u"], dtype=pl.Categorical),
            "e": pl.Series(["v", "u"], dtype=pl.Enum(["v", "u"])),
        }
    )
    schema, form = infer_form(frame)
    kinds = ["number", "number", "category", "boolean", "date", "number", "date", "date", "category", "category"]
    assert [column.kind for column in schema.columns] == kinds
    restored = form.restore(encode_frame(frame, schema), schema)
    assert restored.schema == frame.schema
    assert restored.equals(frame)


def test_plain_numbers_need_no_schema():
    assert not is_mixed(pd.DataFrame({"a": [1, 2], "b": [0.5, 1.0]}))
    assert is_mixed(pd.DataFrame({"a": [1.0, np.nan]}))
    assert is_mixed(pd.DataFrame({"a": [True, False]}))


def make_frame(seed, categories, n=120):
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "town": pd.Categorical(random.choice(categories, n)),
            "owner": random.choice(["private", "public"], n),
            "open": random.random(n) < 0.5,
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(random.integers(0, 900, n), "D"),
            "size": random.normal(size=n),
        }
    )
    frame.loc[random.random(n) < 0.1, ["size", "town"]] = np.nan
    truth = frame["size"].fillna(0) + frame["open"] + 2 * (frame["town"] == "a") + random.normal(size=n) * 0.1
    return frame, truth.to_numpy()


def make_pipeline_on_frames():
    text = make_column_selector(dtype_exclude=["number", "datetime"])
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    encoder = OneHotEncoder(handle_unknown="ignore")
    return make_pipeline(
        make_column_transformer((encoder, text), (numbers, make_column_selector(dtype_include="number"))), Ridge()
    )


def make_models():
    return [
        make_pipeline_on_frames(),
        HistGradientBoostingRegressor(max_iter=10, categorical_features="from_dtype"),
        lightgbm.LGBMRegressor(n_estimators=10, verbose=-1, n_jobs=1),
    ]


def make_agents(models):
    agents = []
    for k, (model, categories) in enumerate(zip(models, (["a", "b"], ["b", "c"], ["a", "d"]), strict=True)):
        frame, truth = make_frame(k, categories)
        if not isinstance(model, type(make_pipeline_on_frames())):
            frame = frame.drop(columns=["since"]).astype({"owner": "category"})
        agents.append((model.fit(frame, truth), frame, truth, f"agent {k}"))
    return agents


@pytest.mark.parametrize("model", range(3))
def test_models_get_frames_as_they_were_trained_on(model):
    parts = make_agents([make_models()[model] for _ in range(3)])
    agents = [Agent(*part) for part in parts]
    collective = Collective(agents, rule="average")
    for place, (fitted, frame, _, _) in enumerate(parts):
        answer = collective.consult(frame[:20])
        np.testing.assert_allclose(answer.beliefs[:, place], fitted.predict(frame[:20]))
    assert collective.schema.column("town").categories == ("a", "b", "c", "d")


@pytest.mark.parametrize("rule", ["degroot", "stacking"])
def test_a_collective_of_frames_answers_for_everybody_and_for_askers(rule):
    agents = [Agent(*part) for part in make_agents([make_pipeline_on_frames() for _ in range(3)])]
    collective, asked = Collective(agents, rule=rule).calibrate(), make_frame(7, ["a", "b", "c", "d"])[0][:9]
    neutral, view = collective.consult(asked, coverage=0.9), collective.consult(asked, asker="agent 1", coverage=0.9)
    for answer in (neutral, view):
        assert np.isfinite(answer.value).all()
        assert (answer.lower <= answer.value).all()
    np.testing.assert_array_equal(neutral.index, asked.index)
    np.testing.assert_allclose(collective.predict(encode_frame(asked, collective.schema)), neutral.value)
    shuffled = asked[asked.columns[::-1]]
    np.testing.assert_allclose(collective.predict(shuffled), neutral.value)


def test_a_category_that_no_agent_has_is_a_gap_with_a_warning():
    agents = [Agent(*part) for part in make_agents([make_pipeline_on_frames() for _ in range(3)])]
    collective, asked = Collective(agents), make_frame(7, ["a", "zoo"])[0][:9]
    with pytest.warns(UnlistedWarning, match="since the schema does not list them: 'zoo' of 'town'"):
        said = collective.predict(asked)
    gaps = asked.assign(town=asked["town"].where(asked["town"] != "zoo"))
    np.testing.assert_allclose(collective.predict(gaps), said)


def test_spaces_of_users_get_the_frames_that_models_get():
    space = make_column_transformer((OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["town"]))
    agents = [Agent(*part) for part in make_agents([make_pipeline_on_frames() for _ in range(3)])]
    asked = make_frame(7, ["a", "b"])[0][:5]
    shared = Collective(agents, space=space).predict(asked)
    again = [Agent(*part, space=space) for part in make_agents([make_pipeline_on_frames() for _ in range(3)])]
    own = Collective(again)
    np.testing.assert_allclose(own.predict(asked), shared)


def test_arrays_with_gaps_or_texts_take_the_space_of_the_collective():
    rows = np.array([[1.0, np.nan], [2.0, 1.0], [3.0, 4.0]])
    agents = [Agent(lambda X, k=k: k * X[:, 0], rows, rows[:, 0], f"times {k}") for k in (1, 2)]
    filled = Collective(agents, neighbours=2, space=SimpleImputer()).predict([[2.0, np.nan]])
    assert np.isfinite(filled).all()
    with pytest.raises(AgentError, match="must be finite"):
        Collective(agents, neighbours=2)
    texts = [Agent(lambda X: np.ones(len(X)), np.array([["a"], ["b"]], object), [1.0, 2.0], name) for name in "xy"]
    space = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    assert Collective(texts, neighbours=2, space=space).predict(np.array([["a"]], object)) == [1.0]


def test_an_agreed_schema_says_what_a_frame_lacks():
    schema = Schema((Column("size"), Column("town", "category", ("a", "b"))))
    part = pd.DataFrame({"size": [1.0, 2.0, 3.0]})
    agent = Agent(lambda X: X["size"].to_numpy(), part, [1.0, 2.0, 3.0], "north", schema=schema)
    assert agent.lacks.tolist() == [False, True]
    np.testing.assert_allclose(agent.predict(part), [1.0, 2.0, 3.0])
    numbers = Agent(lambda X: X[:, 0], [[1.0, 0.0], [2.0, np.nan]], [1.0, 2.0], "south", schema=schema)
    assert numbers.lacks is None
    assert Collective([agent, numbers], neighbours=2).schema is schema
    with pytest.raises(AgentError, match="row 1, column 'town' must be 0 to 1 or NaN; got 2"):
        Agent(lambda X: X[:, 0], [[1.0, 0.0], [2.0, 2.0]], [1.0, 2.0], "south", schema=schema)


def test_agents_must_have_agreed_on_one_schema():
    one, two = (Schema((Column("size", unit=unit),)) for unit in ("m", "ft"))
    agents = [Agent(lambda X: X[:, 0], [[1.0], [2.0]], [1.0, 2.0], s.columns[0].unit, schema=s) for s in (one, two)]
    with pytest.raises(AgentError, match="they differ: column 'size': unit 'ft' here, 'm' there"):
        Collective(agents, neighbours=2)


def test_frames_must_have_the_same_columns():
    frames = [pd.DataFrame({"a": ["x", "y"], "b": [1.0, 2.0]}), pd.DataFrame({"a": ["x", "y"], "c": [1.0, 2.0]})]
    agents = [Agent(lambda X: np.ones(len(X)), frame, [1.0, 2.0], f"agent {k}") for k, frame in enumerate(frames)]
    with pytest.raises(AgentError, match="it lacks 'b', only it has 'c'"):
        Collective(agents)


def test_kinds_must_agree_but_an_empty_column_is_of_any_kind():
    def agent(values, name):
        return Agent(lambda X: np.ones(len(X)), pd.DataFrame({"a": ["x", "y"], "b": values}), [1.0, 2.0], name)

    with pytest.raises(InvalidInput, match="'b' is a category of 'texts' and a number of 'numbers'"):
        Collective([agent(["u", "v"], "texts"), agent([1.0, 2.0], "numbers")])
    merged = Collective([agent([None, None], "nothing"), agent([1.0, 2.0], "numbers")])
    assert merged.schema.column("b").kind == "number"


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (Column("c", "category", ("1", "2", "3")), [1, 3, 1]),
        (Column("c", "boolean", ("no", "yes")), [1, 0, 1]),
        (Column("c", "boolean", ("no", "yes")), ["Y", "N", "Y"]),
        (Column("c", "boolean", ("no", "yes")), [True, False, True]),
        (Column("c", "date"), ["2024-01-31", "1960-05-05", "2024-01-31"]),
        (Column("c"), pd.Categorical(["10", "20", "10"])),
    ],
)
def test_models_get_the_values_of_their_frame_where_an_agreed_schema_has_another_kind(column, values):
    frame = pd.DataFrame({"c": values, "x": [1.0, 2.0, 3.0]})
    agent = Agent(lambda X: X["x"].to_numpy(), frame, [1.0, 2.0, 3.0], "north", schema=Schema((column, Column("x"))))
    assert agent.restore_rows(frame)["c"].tolist() == frame["c"].tolist()


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_boolean_of_one_agent_and_a_category_of_another_are_merged(order):
    texts = pd.DataFrame({"c": ["no", "unknown", "yes"], "x": [1.0, 2.0, 3.0]})
    booleans = pd.DataFrame({"c": [True, False, True], "x": [1.0, 2.0, 3.0]})
    frames = [(texts, booleans)[place] for place in order]
    agents = [Agent(lambda X: X["x"].to_numpy(), frame, [1.0, 2.0, 3.0], str(k)) for k, frame in enumerate(frames)]
    merged = Collective(agents, neighbours=2)
    assert merged.schema.columns[0].unlisted == "gap"
    for agent, frame in zip(merged.agents, frames, strict=True):
        assert agent.restore_rows(agent.X)["c"].tolist() == frame["c"].tolist()


def test_what_was_found_of_a_model_is_found_anew_for_columns_in_another_order():
    first = pd.DataFrame({"c": ["u", "v", "u"], "x": [1.0, 2.0, 3.0], "z": [1.0, np.nan, 3.0]})
    agents = [
        Agent(lambda X: X["x"].to_numpy(), frame, [1.0, 2.0, 3.0], name)
        for name, frame in (("north", first), ("south", first[["z", "x", "c"]]))
    ]
    assert agents[1].optional.tolist() == [True, False, False]
    assert Collective(agents, neighbours=2).agents[1].optional.tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame([[1.0, "a"], [2.0, "b"]], columns=["x", "x"]), "'x' is there twice"),
        (pd.DataFrame({"x": [1.0, 2.0], "c": [[1], [2]]}), "'c' must hold numbers, texts, booleans or dates; got list"),
    ],
)
def test_frames_that_cannot_be_encoded_are_refused(frame, message):
    with pytest.raises(AgentError, match=message):
        Agent(lambda X: X["x"], frame, [1.0, 2.0], "north")


@pytest.mark.parametrize("kind", [pl.Categorical, pl.Enum(["b", "a"])])
def test_categories_of_polars_are_categories(kind):
    frame = pl.DataFrame({"c": pl.Series(["a", "b", None], dtype=kind), "x": [1.0, 2.0, 3.0]})
    agent = Agent(lambda X: X["x"].to_numpy(), frame, [1.0, 2.0, 3.0], "north")
    assert sorted(agent.schema.column("c").categories) == ["a", "b"]
    assert agent.restore_rows(agent.X)["c"].to_list() == ["a", "b", None]


def test_a_category_that_nobody_has_is_answered_by_models_that_take_it_as_unknown():
    frame, truth = make_frame(0, ["a", "b"])
    whole = frame.drop(columns="since").assign(
        size=frame["size"].fillna(0.0), town=frame["town"].astype(object).fillna("b")
    )
    encoder = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["town", "owner"]), remainder="passthrough"
    )
    agents = [Agent(make_pipeline(encoder, Ridge(k)).fit(whole, truth), whole, truth, f"{k}") for k in (1.0, 2.0)]
    with pytest.warns(UnlistedWarning, match="'zoo' of 'town'"):
        answer = Collective(agents).consult(whole[:2].assign(town=["zoo", "a"]))
    assert np.isfinite(answer.value).all()


def test_points_that_are_neither_frames_nor_numbers_are_refused_in_one_line():
    frame, truth = make_frame(0, ["a", "b"])
    agent = Agent(make_pipeline_on_frames().fit(frame, truth), frame, truth, "north")
    with pytest.raises(InvalidInput, match=r"`X` must hold numbers; it holds .* A frame of pandas or polars"):
        Collective([agent]).predict(frame.to_numpy())


# ---- words that read as gaps ----------------------------------------------------------------------------------------

WORDS = ["None", "NA", "nan", "NULL", "n/a"]


@pytest.mark.parametrize("kind", ["object", "str", "category", "string"])
def test_a_text_of_a_frame_is_a_category_whatever_it_is_called(kind):
    frame = pd.DataFrame({"c": pd.Series([*WORDS, "Stone", None], dtype=kind), "x": np.arange(7.0)})
    schema, form = infer_form(frame)
    numbers = encode_frame(frame, schema)
    assert sorted(schema.column("c").categories) == sorted([*WORDS, "Stone"])
    np.testing.assert_array_equal(np.isnan(numbers[:, 0]), [False] * 6 + [True])
    assert_frame_equal(form.restore(numbers, schema), frame)


@pytest.mark.parametrize("kind", [pl.String, pl.Categorical, pl.Enum([*WORDS, "Stone"])])
def test_a_text_of_polars_is_a_category_whatever_it_is_called(kind):
    frame = pl.DataFrame({"c": pl.Series([*WORDS, "Stone", None], dtype=kind), "x": np.arange(7.0)})
    schema, form = infer_form(frame)
    assert form.restore(encode_frame(frame, schema), schema).equals(frame)


@pytest.mark.parametrize("model", range(3))
def test_models_get_categories_that_are_called_as_gaps(model):
    random = np.random.default_rng(1)
    parts = []
    for name in ("north", "south"):
        frame = pd.DataFrame({"veneer": random.choice(["None", "Stone", "NA"], 90), "size": random.normal(size=90)})
        frame["veneer"] = frame["veneer"].astype("category")
        truth = 5.0 * (frame["veneer"] == "None") + frame["size"]
        parts.append((make_models()[model].fit(frame, truth), frame, truth, name))
    collective = Collective([Agent(*part) for part in parts])
    asked = parts[0][1][:20]
    for place, (fitted, *_) in enumerate(parts):
        np.testing.assert_allclose(collective.consult(asked).beliefs[:, place], fitted.predict(asked))


def test_a_word_that_reads_as_a_gap_is_one_where_no_frame_has_it():
    frame = pd.DataFrame({"c": ["None", "Stone", None], "x": [1.0, 2.0, 3.0]})
    schema = infer_form(frame)[0]
    np.testing.assert_array_equal(encode_frame(frame.assign(c=["NA", "None", "Stone"]), schema)[:, 0], [np.nan, 0, 1])
    numbers = pd.DataFrame({"c": pd.Series([1, "NA", 2], dtype=object), "x": [1.0, 2.0, 3.0]})
    assert infer_form(numbers)[0].column("c").kind == "number"


# ---- types ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [[Decimal("1.5"), Decimal(2), None], [np.float32(1.5), np.int64(2), None], [1.5, 2, None]],
    ids=["decimals", "numpy", "python"],
)
def test_python_objects_that_are_numbers_are_numbers(values):
    frame = pd.DataFrame({"c": pd.Series(values, dtype=object), "t": ["u", "v", "w"]})
    schema, form = infer_form(frame)
    numbers = encode_frame(frame, schema)
    assert schema.column("c").kind == "number"
    np.testing.assert_array_equal(numbers[:, 0], [1.5, 2.0, np.nan])
    restored = form.restore(numbers, schema)["c"]
    assert restored.dtype == object
    assert restored.tolist()[:2] == values[:2]
    assert restored.tolist()[2] is values[2]


@pytest.mark.parametrize("gap", [None, np.nan, pd.NA], ids=["None", "NaN", "NA"])
@pytest.mark.parametrize("values", [["a", "b"], [1.0, 2.0], [True, False]], ids=["texts", "numbers", "booleans"])
def test_gaps_among_python_objects_come_back_as_they_were(values, gap):
    frame = pd.DataFrame({"c": pd.Series([*values, gap], dtype=object), "t": ["u", "v", "w"]})
    schema, form = infer_form(frame)
    assert form.restore(encode_frame(frame, schema), schema)["c"].tolist()[2] is gap


@pytest.mark.parametrize(
    ("column", "came"),
    [
        (pd.Series(pd.period_range("2024", periods=2, freq="D")), "Period"),
        (pd.Series([timedelta(1), timedelta(2)]), "timedelta64"),
        (pd.Series([timedelta(1), timedelta(2)], dtype=object), "timedelta"),
        (pd.Series([time(1), time(2)]), "time"),
        (pl.Series([timedelta(1), timedelta(2)]), "Duration"),
        (pl.Series([time(1), time(2)]), "Time"),
        (pl.Series([object(), object()], dtype=pl.Object), "Object"),
    ],
    ids=["Period", "timedelta64", "timedelta", "time", "Duration", "Time", "Object"],
)
def test_types_that_no_column_holds_are_refused_of_agents_and_of_questions(column, came):
    made = pd.DataFrame if isinstance(column, pd.Series) else pl.DataFrame
    frame = made({"c": column, "t": ["u", "v"]})
    told = f"Column 'c' must hold numbers, texts, booleans or dates; got {came}"
    message = complaint(lambda: Agent(lambda X: np.ones(len(X)), frame, [1.0, 2.0], "north"))
    assert message.startswith(f"Agent 'north': {told}")
    for values in ([1.0, None], ["a", "b"]):
        agent = Agent(lambda X: np.ones(len(X)), made({"c": values, "t": ["u", "v"]}), [1.0, 2.0], "north")
        message = complaint(lambda agent=agent: Collective([agent]).predict(frame))
        assert message.startswith(told)
        assert "site file" not in message


def test_booleans_and_numbers_in_one_column_are_refused():
    for values in ([True, 1, 0], [0, np.True_, 1], ["a", True, 1.0]):
        frame = pd.DataFrame({"c": pd.Series(values, dtype=object), "x": [1.0, 2.0, 3.0]})
        with pytest.raises(InvalidInput, match="Column 'c' must hold booleans or numbers; got both"):
            infer_form(frame)
    column = Column("c", "category", ("1", "true"))
    np.testing.assert_array_equal(column.encode(np.array([True, 1, np.True_, 1.0], object)), [1, 0, 1, 0])


@pytest.mark.parametrize("library", [pd, pl])
def test_a_whole_number_of_an_agent_may_be_a_fraction_of_a_question(library):
    frame = library.DataFrame({"n": [1, 2], "t": ["u", "v"]})
    agent = Agent(lambda X: np.asarray(X["n"], float), frame, [1.0, 2.0], "north")
    np.testing.assert_array_equal(agent.predict(library.DataFrame({"n": [1.5, 2.5], "t": ["u", "v"]})), [1.5, 2.5])


@pytest.mark.parametrize(
    "columns", [[0, 1], pd.MultiIndex.from_tuples([("a", "b"), ("a", "c")])], ids=["integers", "several levels"]
)
@pytest.mark.parametrize("values", [["u", "v"], pd.Categorical(["u", "v"]), [1.0, np.nan]], ids=["text", "cat", "gap"])
def test_names_of_columns_must_be_texts_where_a_frame_takes_a_schema(columns, values):
    frame = pd.DataFrame({"x": [1.0, 2.0], "c": values})
    frame.columns = columns
    message = complaint(lambda: Agent(lambda X: np.ones(len(X)), frame, [1.0, 2.0], "north"))
    assert message == f"Agent 'north': The columns of a frame must have names that are texts; got {columns[0]!r}."


# ---- time zones -----------------------------------------------------------------------------------------------------

NAIVE, AWARE = datetime(2024, 1, 31), datetime(2024, 1, 31, tzinfo=UTC)


def make_dates(library, is_zoned, form="plain"):
    moments = [AWARE if is_zoned else NAIVE] * 3
    if form == "objects":
        moments = pd.Series(moments, dtype=object)
    return library.DataFrame({"day": moments, "x": [1.0, 2.0, 3.0]})


def make_dated(frame, name, **about):
    return Agent(lambda X: np.asarray(X["x"], float), frame, [1.0, 2.0, 3.0], name, **about)


@pytest.mark.parametrize("is_zoned", [False, True])
@pytest.mark.parametrize(("library", "form"), [(pd, "plain"), (pd, "objects"), (pl, "plain")])
def test_dates_with_and_without_a_time_zone_are_not_mixed(is_zoned, library, form):
    frame, other = make_dates(library, is_zoned, form), make_dates(library, not is_zoned, form)
    collective = Collective([make_dated(frame, name) for name in ("north", "south")], neighbours=2)
    assert np.isfinite(collective.predict(frame)).all()
    told = f"Column 'day' must have {'a' if is_zoned else 'no'} time zone, as the rows of agent 'north' ("
    assert complaint(lambda: collective.predict(other)).startswith(told)
    assert complaint(lambda: collective.agents[0].predict(other)).startswith(told)
    mixed = [make_dated(frame, "north"), make_dated(other, "south")]
    assert complaint(lambda: Collective(mixed)).startswith(f"Agent 'south': {told}")
    restored = collective.agents[0].restore_rows(frame)["day"]
    assert (restored[0].tzinfo is not None) == is_zoned


def test_an_agent_without_a_date_has_no_time_zone():
    empty = make_dates(pd, True).assign(day=pd.Series([pd.NaT] * 3, dtype="datetime64[us]"))
    collective = Collective([make_dated(empty, "north"), make_dated(make_dates(pd, True), "south")], neighbours=2)
    assert np.isfinite(collective.predict(make_dates(pd, True))).all()


def test_a_question_without_a_date_has_no_time_zone():
    collective = Collective([make_dated(make_dates(pd, True), name) for name in ("north", "south")], neighbours=2)
    asked = make_dates(pd, True).assign(day=pd.Series([pd.NaT] * 3, dtype="datetime64[us]"))
    with warnings.catch_warnings(action="ignore"):
        assert len(collective.predict(asked)) == 3


def test_by_an_agreed_schema_rows_from_files_are_in_utc():
    schema = Schema((Column("day", "date"), Column("x")))
    numbers = encode_frame(make_dates(pd, True), schema)
    agents = [Agent(lambda X: X[:, 1], numbers, [1.0, 2.0, 3.0], name, schema=schema) for name in ("north", "south")]
    collective = Collective(agents, neighbours=2)
    np.testing.assert_array_equal(*(collective.predict(make_dates(pd, zoned)) for zoned in (False, True)))
