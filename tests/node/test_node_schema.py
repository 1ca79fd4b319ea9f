"""Nodes by a schema: raw tables with texts, gaps and dates give the answers of one process; who differs is told."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from support.processes import wait_for
from support.recorder import SENT, read_messages, record_messages
from support.tables import SCHEMA, SchemaConsortium, encode, make_table, train_without_gaps

from degroot import InvalidInput
from degroot.files import DataSource
from degroot.node.page.app import _find_table
from degroot.node.page.fields import NotAdmitted, format_points, parse_typed_rows
from degroot.node.page.requests import AskedTable, AskTerms, parse_rows, read_uploaded_file
from degroot.node.protocol.codec import Malformed, decode_prediction, tensor
from degroot.node.protocol.schemas import (
    MAX_COLUMNS,
    MAX_SCHEMA_BYTES,
    MAX_SCHEMA_CATEGORIES,
    ModelInputs,
    check_digest,
    decode_absent,
    decode_points,
    find_schema_difference,
    read_schema_text,
    write_schema,
)
from degroot.node.protocol.v3 import collective_pb2 as wire
from degroot.schema import Column, Schema, Site, SiteColumn

POINTS, _ = make_table(77, 40, gaps=0.15)
FIELDS = ("value", "weights", "standard_error", "lower", "upper", "beliefs", "influence")
OF_COLUMNS = ("abstains", "unscored")


def same(answer, expected, fields=FIELDS):
    """The same numbers, and the same flags about columns."""
    assert answer.names == expected.names
    for name in fields:
        assert_allclose(getattr(answer, name), getattr(expected, name), rtol=1e-9, atol=1e-9, err_msg=name)
    assert told(answer) == told(expected)


def told(answer):
    flags = (flag for flag in answer.flags if flag.kind in OF_COLUMNS)
    return {(flag.agent, flag.reason, tuple(flag.points.tolist())) for flag in flags}


# -- real nodes --------------------------------------------------------------------------------------------------------

# How one site writes what the others call age, weight in kg, and female and male; it does not know what `seen` is.
OWN_WORDS = Site(
    {
        "age": SiteColumn(name="ALTER_J"),
        "weight": SiteColumn(name="GEWICHT_LB", factor=0.45359237),
        "sex": SiteColumn(name="GESCHLECHT", values=(("weibl-XQ", "female"), ("maennl-XQ", "male"))),
        "seen": SiteColumn(name="DATUM", format="%d.%m.%Y"),
        "cost": SiteColumn(name="KOSTEN_TSD", factor=1000.0),
    }
)


def write_as_site(table, y=None):
    """The same rows as that site has them."""
    raw = table.rename(columns={name: OWN_WORDS.find_name(name) for name in table})
    raw["GEWICHT_LB"] = table["weight"] / 0.45359237
    raw["GESCHLECHT"] = table["sex"].map({"female": "weibl-XQ", "male": "maennl-XQ"})
    raw["DATUM"] = pd.to_datetime(table["seen"]).dt.strftime("%d.%m.%Y")
    return raw if y is None else raw.assign(KOSTEN_TSD=y / 1000.0)


@pytest.fixture(scope="module")
def four(tmp_path_factory):
    """One node as usual, one whose model takes no gaps, one that lacks a column, and one with words of its own."""
    with SchemaConsortium(tmp_path_factory.mktemp("four"), 4, trainers={"node1": train_without_gaps}) as made:
        table, y = make_table(5, 80)
        made.put("node2", table.drop(columns="weight"), y, site=Site(absent=("weight",)))
        table, y = make_table(6, 85)
        made.put("node3", table, y, site=OWN_WORDS, raw=write_as_site(table, y))
        yield made.fork(before=record_messages).ready()


@pytest.mark.parametrize("name", ["node0", "node1", "node2", "node3"])
def test_nodes_answer_as_one_process_does(four, name):
    expected = four.collective().consult(encode(POINTS), asker=name, coverage=0.8)
    with four.connect(name, caller=name) as node:
        assert node.schema == SCHEMA
        same(node.consult(POINTS, coverage=0.8), expected)
        same(node.consult(encode(POINTS), coverage=0.8), expected)
    kinds = {(flag.agent, flag.kind) for flag in expected.flags if flag.kind in OF_COLUMNS}
    lacking = {(each, "unscored") for each in ("node0", "node1", "node3")}
    assert kinds == (lacking if name == "node2" else {("node1", "abstains")})


def test_where_a_column_is_missing_models_that_take_it_abstain(four):
    rows = POINTS.drop(columns="weight")
    for name in ("node0", "node2"):
        expected = four.collective().consult(rows, asker=name)
        with four.connect(name, caller=name) as node:
            same(node.consult(rows), expected, [each for each in FIELDS if each not in ("lower", "upper")])
    lacking = POINTS.drop(columns="smoker")
    with (
        four.connect("node0", caller="node0") as node,
        pytest.raises(InvalidInput, match=r"row 0: it lacks .*'smoker'"),
    ):
        node.consult(lacking)


def test_a_category_that_is_not_listed_is_refused_with_its_row_or_a_gap(four):
    with four.connect("node0", caller="node0") as node:
        odd = POINTS.assign(grade=POINTS["grade"].where(POINTS.index != 2, "extreme"))
        with pytest.raises(InvalidInput, match=r"row 2: column 'grade' must be one of .*; got 'extreme'"):
            node.consult(odd)
        blank = POINTS.assign(grade=POINTS["grade"].where(POINTS.index != 2, None))
        columns = tuple(replace(each, unlisted="gap") if each.is_listed else each for each in SCHEMA.columns)
        assert_allclose(node.consult(encode(odd, replace(SCHEMA, columns=columns))).value, node.consult(blank).value)


def test_a_file_is_asked_about_as_the_nodes_own_rows_are_written(four, degroot, tmp_path):
    POINTS.to_csv(tmp_path / "shared.csv", index=False)
    write_as_site(POINTS).to_csv(tmp_path / "own.csv", index=False)
    (tmp_path / "site.toml").write_text(OWN_WORDS.to_toml())
    config = four.folder / "node3" / "node.toml"
    asked = {
        "own.csv": ("--config", config),
        "shared.csv": ("--config", config, "--site", tmp_path / "empty.toml"),
    }
    (tmp_path / "empty.toml").write_text("")
    expected = four.collective().consult(POINTS, asker="node3").value
    for file, options in asked.items():
        code, out, err = degroot("ask", "--input", tmp_path / file, *options, "--output", tmp_path / "answers.csv")
        assert (code, err) == (0, ""), err
        assert "40 rows, 4 agents" in out
        assert_allclose(pd.read_csv(tmp_path / "answers.csv")["value"], expected, rtol=1e-9)
    bad = write_as_site(POINTS).assign(GESCHLECHT="x")
    bad.to_csv(tmp_path / "bad.csv", index=False)
    code, _, err = degroot("ask", "--input", tmp_path / "bad.csv", "--config", config)
    assert code == 2
    assert "bad.csv: row 1: column 'sex' must be one of 'female', 'male'; got 'x'." in err


@pytest.mark.parametrize("command", ["ask", "predict"])
def test_what_a_file_has_is_used_though_the_rows_of_the_node_lack_it(four, degroot, tmp_path, command):
    POINTS.to_csv(tmp_path / "asked.csv", index=False)
    config, output = four.folder / "node2" / "node.toml", tmp_path / "answers.csv"
    asked = ("--input", tmp_path / "asked.csv", "--config", config)
    code, _, err = degroot(command, *asked, "--output", output)
    assert (code, err) == (0, ""), err
    expected = four.collective().consult(POINTS, asker="node2")
    assert_allclose(pd.read_csv(output)["value"], expected.value, rtol=1e-9)
    code, out, err = degroot("explain", *asked, "--row", "4")
    assert (code, err) == (0, ""), err
    assert f"{expected.value[3]:.3g} EUR" in out
    POINTS.drop(columns="weight").to_csv(tmp_path / "asked.csv", index=False)
    assert "asked.csv does not have 'weight'; " in degroot(command, *asked, "--output", output)[2]


def test_the_page_uses_what_a_file_has_though_the_rows_of_the_node_lack_it(tmp_path):
    (tmp_path / "site.toml").write_text(Site(absent=("weight",)).to_toml())
    data = DataSource(tmp_path / "rows.csv", (), site=tmp_path / "site.toml", absent=("sex",))
    seat = SimpleNamespace(agent=SimpleNamespace(schema=SCHEMA), feature_names=SCHEMA.names)
    circle = SimpleNamespace(scores=SimpleNamespace(seat=seat), configuration=SimpleNamespace(data=data))
    inquiry = read_uploaded_file(
        POINTS.to_csv(index=False).encode(), "asked.csv", "text/csv", AskTerms(), _find_table(circle)
    )
    assert_allclose(inquiry.points, encode(POINTS))
    assert (inquiry.absent, inquiry.note) == (None, "")
    raw = POINTS.rename(columns={"sex": "GENDER"}).to_csv(index=False).encode()
    note = read_uploaded_file(raw, "asked.csv", "text/csv", AskTerms(), _find_table(circle)).note
    assert note.startswith("asked.csv does not have 'sex'; ")
    assert note.endswith(" If 'GENDER' there is 'sex', rename it in the file.")


def test_how_a_site_writes_its_columns_never_leaves(four):
    with four.connect("node0", caller="node0") as node:
        node.consult(POINTS[:3])
    sent = [each for each in read_messages(four) if each.direction == SENT and each.peer != each.node]
    assert len(sent) > 20
    text = (four.folder / "node3" / "site.toml").read_text()
    for word in ("ALTER_J", "GEWICHT_LB", "weibl-XQ", "GESCHLECHT", "DATUM", "%d.%m.%Y", "KOSTEN_TSD"):
        assert word in text
        assert not [each for each in sent if word.encode() in each.raw]
    assert [each for each in sent if SCHEMA.digest.encode() in each.raw]


def test_check_tells_of_rows_that_the_schema_does_not_admit(four, degroot, tmp_path):
    home = four.folder / "node0"
    rows = pd.read_csv(home / "rows.csv", dtype=str)
    rows.loc[6, "grade"] = "hihg"
    rows.to_csv(home / "wrong.csv", index=False)
    text = (home / "node.toml").read_text()
    (home / "wrong.toml").write_text(text.replace("rows.csv", "wrong.csv"))
    code, out, _ = degroot("node", "check", home / "wrong.toml")
    assert code == 2
    assert "wrong.csv: row 7: column 'grade' must be one of 'low', 'middle', 'high'; got 'hihg'. To go on:" in out
    code, out, err = degroot("node", "check", home / "node.toml")
    assert (code, err) == (0, ""), out
    assert "holds 90 rows of 6 features and 'cost'" in out
    assert f"schema {SCHEMA.digest}" in out


def test_a_peer_with_another_schema_is_not_asked_and_both_say_what_differs(tmp_path, degroot):
    pounds = tuple(replace(each, unit="lb") if each.name == "weight" else each for each in SCHEMA.columns)
    with SchemaConsortium(tmp_path, 4, n=30) as made:
        made.put("node3", *make_table(3, 40), schema=replace(SCHEMA, columns=pounds))
        made.fork("node3")
        made.connect("node3", caller="node3").close()
        made.fork("node0", "node1", "node2").ready("node0", among=("node0", "node1", "node2"))
        reason = "schema differs: column 'weight': unit {} here, {} there"
        wait_for(lambda: reason.format("'kg'", "'lb'") in made.log("node0"))
        wait_for(lambda: made.log("node3").count(reason.format("'lb'", "'kg'")) == 3)
        with made.connect("node0", caller="node0") as node:
            answer = node.consult(POINTS)
            assert node.members["node3"] == reason.format("'kg'", "'lb'")
        assert [(flag.agent, flag.about) for flag in answer.flags if flag.kind == "missing"] == [
            ("node3", reason.format("'kg'", "'lb'"))
        ]
        code, out, _ = degroot("node", "check", made.folder / "node3" / "node.toml")
        assert code == 2
        assert out.count(reason.format("'lb'", "'kg'")) == 3
        code, _, err = degroot("node", "run", made.folder / "node3" / "node.toml")  # once more, where all are unlike it
        assert code == 2
        assert reason.format("'lb'", "'kg'") in err


# -- what comes from outside -------------------------------------------------------------------------------------------


def described(schema, text=None):
    return wire.Description(schema_digest=schema.digest, schema=schema.to_toml() if text is None else text)


def test_schemas_that_differ_are_told_in_words():
    assert find_schema_difference(SCHEMA, described(SCHEMA)) is None
    assert find_schema_difference(None, wire.Description()) is None
    other = replace(SCHEMA, columns=(replace(SCHEMA.columns[0], unit="months"), *SCHEMA.columns[1:-1]))
    told = find_schema_difference(SCHEMA, described(other))
    assert told == "schema differs: column 'seen' is only here; column 'age': unit 'years' here, 'months' there"
    assert "it has none" in find_schema_difference(SCHEMA, wire.Description())
    assert "this node has none" in find_schema_difference(None, described(SCHEMA))
    assert SCHEMA.digest in find_schema_difference(SCHEMA, described(other, ""))
    assert "is not the one of its digest" in find_schema_difference(
        SCHEMA, wire.Description(schema_digest="0" * 16, schema=SCHEMA.to_toml())
    )


@pytest.mark.parametrize(
    "text",
    [
        "x" * (MAX_SCHEMA_BYTES + 1),
        "a = " + "[" * 100_000,
        "[columns]\n" + "".join(f'c{k} = {{kind = "number"}}\n' for k in range(MAX_COLUMNS + 1)),
        '[columns.a]\nkind = "category"\ncategories = ['
        + ",".join(f'"{k}"' for k in range(MAX_SCHEMA_CATEGORIES + 1))
        + "]",
        "columns = 3",
        '[columns.a]\nkind = "\\u001b[31mred"',
        "\x00",
        "",
        '[columns."a\\nb"]\nkind = "number"\nrange = [nan, inf]',
    ],
)
def test_a_hostile_schema_is_one_short_line(text):
    with pytest.raises(Malformed):
        read_schema_text(text, "this peer")
    told = find_schema_difference(SCHEMA, wire.Description(schema_digest="bo\x1bgus" * 1000, schema=text or "="))
    assert told.startswith("schema differs: digest ")
    assert len(told) < 500
    assert told.isprintable()


def test_unprintable_names_are_not_printed():
    odd = replace(SCHEMA, columns=(*SCHEMA.columns, Column("\x1b[2J" * 500)))
    told = find_schema_difference(SCHEMA, described(odd))
    assert told.isprintable()
    assert len(told) < 500


def test_a_schema_that_peers_would_not_read_is_refused_at_home():
    assert read_schema_text(write_schema(SCHEMA), "x") == SCHEMA
    wide = Schema((Column("a", "category", tuple(f"c{k}" for k in range(MAX_SCHEMA_CATEGORIES + 1))),))
    with pytest.raises(InvalidInput, match=f"at most {MAX_SCHEMA_BYTES} bytes, {MAX_COLUMNS} columns"):
        write_schema(wide)


def test_points_are_numbers_by_the_schema_or_refused():
    points = encode(POINTS)
    assert_allclose(decode_points(tensor(points), SCHEMA, 6), points)
    with pytest.raises(Malformed, match="must be finite"):
        decode_points(tensor(points), None, 6)
    for place, value in ((2, 2.0), (2, 0.5), (2, -1.0), (0, np.inf), (4, 7.0)):
        wrong = points.copy()
        wrong[3, place] = value
        with pytest.raises(InvalidInput, match=f"row 3, column '{SCHEMA.names[place]}'"):
            decode_points(tensor(wrong), SCHEMA, 6)
    check_digest(SCHEMA.digest, SCHEMA)
    for digest, schema in (("", SCHEMA), ("0" * 16, SCHEMA), (SCHEMA.digest, None)):
        with pytest.raises(Malformed, match="by the schema of this node"):
            check_digest(digest, schema)


def test_absent_columns_are_gaps_of_the_schema():
    points = encode(POINTS.drop(columns="sex"))
    assert decode_absent([], points, SCHEMA) is None
    assert decode_absent(["sex"], points, SCHEMA).tolist() == [False, False, True, False, False, False]
    for names, why in ((["sex", "x\x1b"], "is none"), (["age"], "gaps in all points")):
        with pytest.raises(Malformed, match=why):
            decode_absent(names, points, SCHEMA)
    with pytest.raises(Malformed, match="is none"):
        decode_absent(["sex"], points, None)


def test_a_prediction_that_is_nan_is_a_bad_reply():
    reply = wire.Prediction(predictions=tensor(np.array([[1.0], [np.nan]])))
    with pytest.raises(Malformed, match="must be finite"):
        decode_prediction(reply, 2, 1)


def test_what_a_peer_says_of_its_model_decides_what_it_is_asked():
    X = np.array([[1.0, 2.0], [np.nan, 2.0], [1.0, np.nan]])
    about = wire.Description(schema_digest="x", optional_columns=["b", "nowhere"], takes_gaps=False)
    inputs = ModelInputs.from_message(about, ["a", "b"])
    assert inputs.find_able(X).tolist() == [0, 2]
    assert inputs.find_able(X, np.array([False, True])).tolist() == [0, 2]
    assert inputs.find_able(X, np.array([True, False])).tolist() == []
    assert ModelInputs.from_message(wire.Description(), ["a", "b"]) == ModelInputs()


# -- the page ----------------------------------------------------------------------------------------------------------


def test_typed_rows_are_read_by_the_schema():
    row = {"age": "44.5", "weight": 80, "sex": "male", "grade": "", "smoker": True, "seen": "2024-02-29"}
    points, absent = parse_typed_rows([row, {**row, "age": None}], SCHEMA)
    assert absent is None
    assert_allclose(points[0], [44.5, 80.0, 1.0, np.nan, 1.0, 19782.0])
    assert np.isnan(points[1, 0])
    assert format_points(points, SCHEMA)[0] == ["44.5", "80", "male", "", "yes", "2024-02-29"]
    points, absent = parse_typed_rows([{"age": "1"}], SCHEMA)
    assert absent.tolist() == [False, True, True, True, True, True]


def test_what_is_typed_and_not_admitted_is_told_by_field():
    row = {"age": "430", "weight": "heavy", "sex": "male", "seen": "yesterday"}
    with pytest.raises(NotAdmitted) as refused:
        parse_typed_rows([row], SCHEMA)
    assert set(refused.value.fields) == {"age", "weight", "seen"}
    assert str(refused.value) == "age must hold numbers in years from 0 to 120, or be left empty; got '430'."
    for rows in ([3], [[1, 2]], [{"height": "3"}], [{"age": [1]}], [{"age": {}}]):
        with pytest.raises(InvalidInput):
            parse_typed_rows(rows, SCHEMA)


def test_a_question_through_the_page_takes_texts_and_files_as_the_site_writes_them():
    table = AskedTable(SCHEMA.names, SCHEMA, OWN_WORDS)
    body = json.dumps({"rows": [{"age": "44", "sex": "male"}], "coverage": 0.9}).encode()
    assert parse_rows(body, table).points[0, 2] == 1.0
    raw = write_as_site(POINTS).drop(columns="GEWICHT_LB").to_csv(index=False).encode()
    inquiry = read_uploaded_file(raw, "own.csv", "text/csv", AskTerms(), table)
    assert_allclose(inquiry.points, encode(POINTS.drop(columns="weight")))
    assert inquiry.absent.tolist() == [False, True, False, False, False, False]
    assert inquiry.note.startswith("own.csv does not have 'weight'")
