"""What the package and each command import: by what is loaded in the end, not by how long it takes."""

import ast
import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.consortium import Consortium

import degroot
from degroot.answers.columns import ALL, Columns
from degroot.cli import COMMANDS
from degroot.exceptions import InvalidInput
from degroot.files.columns import read_columns
from degroot.files.plain_csv import ARROW_GAPS, read_plain, write_plain
from degroot.rules.names import RULE_NAMES
from degroot.rules.rules import RULES

SOURCE = Path(degroot.__file__).parent
HEAVY = {
    "fastapi", "jinja2", "joblib", "matplotlib", "mlflow", "onnxruntime", "pandas", "polars", "prometheus_client",
    "pyarrow", "ray", "scipy", "sklearn", "skops", "structlog", "tritonclient", "uvicorn",
}  # fmt: skip
COMPILERS = {"llvmlite", "numba"}
ASKING = {"cryptography", "google", "grpc", "numpy"}  # and what is for asking nodes only
RUN = """
import json, sys
from degroot.cli import main
try:
    main()
except SystemExit as done:
    code = done.code
names = [name for name, module in sys.modules.items() if module is not None]
print(json.dumps([code, names]), file=sys.stderr)
"""


def run(code, *arguments, cwd=None):
    """What a Python of its own writes, standard output and standard error."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *map(str, arguments)],
        capture_output=True, text=True, timeout=300, cwd=cwd, env={**os.environ, "GRPC_VERBOSITY": "NONE"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def loaded_by_command(*arguments, cwd=None):
    """The modules that a command, which succeeds, has loaded when it is done."""
    _, told = run(RUN, *arguments, cwd=cwd)
    code, names = json.loads(told.splitlines()[-1])
    assert code in (0, None), told
    return set(names)


def loaded_by(code):
    return set(json.loads(run(f"{code}\nimport json, sys\nprint(json.dumps(list(sys.modules)))")[0]))


def kernel_modules():
    """The modules that have compiled functions."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        functions = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.FunctionDef)]
        if any(ast.unparse(each).startswith("compiled") for node in functions for each in node.decorator_list):
            found.add(".".join(["degroot", *path.relative_to(SOURCE).with_suffix("").parts]))
    return found


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    with Consortium(tmp_path_factory.mktemp("nodes"), 2, evidence="own") as consortium:
        (consortium.folder / "point.csv").write_text("x0,x1,x2\n0.5,0.25,-1.5\n")
        yield consortium.fork().ready()


# -- the package -------------------------------------------------------------------------------------------------------


def test_importing_the_package_imports_nothing_else():
    names = loaded_by("import degroot")
    assert {name for name in names if name.startswith("degroot")} == {"degroot"}
    assert not names & (HEAVY | COMPILERS | ASKING)


def test_dir_and_a_star_import_have_all_public_names():
    assert {*degroot.__all__, *degroot.MODULES} <= set(dir(degroot))
    space = {}
    exec("from degroot import *", space)
    assert set(degroot.__all__) <= set(space)
    assert sorted(degroot.MODULE_OF) == degroot.__all__


@pytest.mark.parametrize("name", degroot.MODULES)
def test_a_public_module_is_an_attribute_and_can_be_imported(name):
    assert getattr(degroot, name) is sys.modules[f"degroot.{name}"]
    exec(f"import degroot.{name}")


def test_a_module_needs_no_import_of_its_own():
    assert run("import degroot; print(degroot.trust.from_errors.__name__)")[0] == "from_errors\n"


# -- help --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], [], ["node", "check", "--help"], *([name, "--help"] for name in COMMANDS)]
)
def test_help_imports_neither_numbers_nor_networks(arguments):
    assert not loaded_by_command(*arguments) & (HEAVY | COMPILERS | ASKING)


def test_a_command_imports_no_other():
    names = loaded_by_command("schema", "--help")
    assert {name for name in COMMANDS if f"degroot.cli.{name}" in names} == {"schema"}


# -- commands ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [["ask"], ["ask", "--coverage", "0.5"], ["ask", "--output", "a.csv"], ["explain"]])
def test_asking_a_node_imports_no_models_no_kernels_and_no_arrow(nodes, command, tmp_path):
    options = ["--config", nodes.folder / "node0" / "node.toml", "--input", nodes.folder / "point.csv"]
    names = loaded_by_command(*command, *options, cwd=tmp_path)
    assert "degroot.node.client" in names
    assert not names & (HEAVY | COMPILERS)
    assert not names & kernel_modules()
    assert not names & {"degroot.agents.agent", "degroot.collective", "degroot.consultation.consult"}


def test_keys_need_certificates_only(tmp_path):
    for arguments in (
        ["init"],
        ["issue", "north"],
        ["request", "south"],
        ["sign", "keys/south.csr"],
        ["revoke", "north"],
    ):
        names = loaded_by_command("keys", *arguments, cwd=tmp_path)
        assert "cryptography" in names
        assert not names & (HEAVY | COMPILERS | {"google", "grpc", "numpy"})


def test_a_schema_is_tried_on_a_small_file_without_arrow_and_models(tmp_path):
    (tmp_path / "rows.csv").write_text("age,sex\n31,female\n42,male\n")
    (tmp_path / "schema.toml").write_text(
        'version = 1\n[columns.age]\nkind = "number"\n'
        '[columns.sex]\nkind = "category"\ncategories = ["female", "male"]\n'
    )
    names = loaded_by_command("schema", "check", "schema.toml", "rows.csv", cwd=tmp_path)
    assert not names & (HEAVY | COMPILERS | {"grpc", "cryptography"})
    assert not names & kernel_modules()


# -- small CSV files without Arrow -------------------------------------------------------------------------------------

CELLS = st.one_of(
    st.sampled_from(sorted(ARROW_GAPS)),
    st.integers(-(10**20), 10**20).map(str),
    st.floats().map(str),
    st.floats(-1e6, 1e6).map("{:.3f}".format),
    st.sampled_from(["true", "False", "inf", "-Infinity", "nan", "1e3", "007", "+5", ".5", "5.", " 5", "0x1F", "1_0"]),
    st.sampled_from(["2024-01-31", "2024-01-31 10:00", "10:30", "10:30:00", "a b", "t", 'a"b', "a,b", "x\ny", "é"]),
    st.text("ab1.,- \"\n;", max_size=4),
)  # fmt: skip


@given(st.data(), st.integers(1, 3), st.integers(1, 4), st.booleans())
def test_a_plain_file_is_read_as_arrow_reads_it(tmp_path_factory, data, width, length, labelled):
    from degroot.files import arrow_columns, arrow_tables

    kinds = [
        data.draw(st.sampled_from([CELLS, st.integers(0, 99).map(str), st.floats(0, 1).map(str)])) for _ in range(width)
    ]
    rows = [[data.draw(kind) for kind in kinds] for _ in range(length)]
    path = tmp_path_factory.mktemp("plain") / "rows.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([[f"c{k}" for k in range(width)], *rows])
    labels = ["c0"] if labelled else []
    plain = read_plain(path, labels)
    if plain is None:
        return
    expected = {
        name: arrow_columns.to_array(column, name in labels)
        for name, column in arrow_tables.read_csv(path, labels).items()
    }
    assert list(plain) == list(expected)
    for name, column in plain.items():
        assert column.dtype == expected[name].dtype, (name, rows)
        np.testing.assert_array_equal(column, expected[name])


@pytest.mark.parametrize(
    "content", ["a;b\n1;2\n", "a,a\n1,2\n", "a,b\n1\n", 'a,b\n"1,2\n', "a,b\n", "a\n2024-01-31\n", "a\ntrue\n"]
)
def test_what_is_not_plain_is_left_to_arrow(tmp_path, content):
    path = tmp_path / "rows.csv"
    path.write_text(content)
    assert read_plain(path, ()) is None


def test_a_large_file_is_left_to_arrow(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a\n" + "1\n" * 300_000)
    assert read_plain(path, ()) is None
    np.testing.assert_array_equal(read_columns(path)["a"], np.ones(300_000))


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_where_arrow_is_needed_and_missing_there_is_an_instruction(tmp_path, monkeypatch, name):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "degroot.files.arrow_tables", raising=False)
    (tmp_path / name).write_text("day\n2024-01-31\n")
    with pytest.raises(InvalidInput, match=r"^Data files need extra packages: pip install 'degroot\[batch\]' \("):
        read_columns(tmp_path / name)


def test_gaps_are_those_of_arrow():
    import pyarrow.csv

    assert set(pyarrow.csv.ConvertOptions().null_values) == ARROW_GAPS


@given(
    st.lists(st.floats(), min_size=1, max_size=4),
    st.sampled_from([["a", None, 'b"c', "d,e\n"], ["", "é", "x", "y"]]),
    st.sampled_from([[True, False, None, True], [None, 1e-5, 1e10, -0.0]]),
)
def test_a_few_answers_are_written_byte_for_byte_as_arrow_writes_them(numbers, texts, others):
    from degroot.files import arrow_tables

    length = len(numbers)
    columns = {"value": np.array(numbers), 'the "text"': texts[:length], "other": others[:length]}
    plain = write_plain(columns)
    if plain is None:  # of a column nothing is known
        assert any(set(map(type, values)) == {type(None)} for values in (texts[:length], others[:length]))
        return
    assert plain == arrow_tables.write_columns(columns, ".csv")


def test_columns_as_lists_are_those_of_arrow():
    from degroot import Agent, Collective

    rows = np.arange(30.0)[:, None]
    agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.4 * rows[:, 0], f"times {k}") for k in (1, 2, 3)]
    answer = Collective(agents).consult([[3.0], [5.0]], coverage=None)
    fields = tuple(name for name in ALL if name not in ("label", "correction"))
    columns = Columns(fields, answer.names)
    lists = columns.lists(answer)
    assert list(lists) == columns.schema.names
    for values, array in zip(lists.values(), columns.arrays(answer), strict=True):
        np.testing.assert_array_equal(np.array(values, object), np.array(array.to_pylist(), object))


# -- names that stand apart from what they name ------------------------------------------------------------------------


def test_rules_have_their_names():
    assert tuple(RULES) == RULE_NAMES


def test_plain_csv_is_csv():
    text = write_plain({"a": [1.0, 0.1], "b": ["x,y", 'z"']}).decode()
    assert list(csv.reader(io.StringIO(text))) == [["a", "b"], ["1", "x,y"], ["0.1", 'z"']]
