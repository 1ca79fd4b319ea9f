"""The map of the code in docs/contributing.md, and the picture: what they name exists, and no package is missing."""

import re
import runpy
from xml.etree import ElementTree

import pytest
from support.documents import PAGES, ROOT

SOURCE = ROOT / "src" / "degroot"
TEXT = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
PICTURE = ElementTree.parse(ROOT / "docs" / "images" / "architecture.svg")
TABLE = TEXT[TEXT.index("| to change | look at |") : TEXT.index("The packages.")]
TREE = re.search(r"```text\nsrc/degroot/\n(.*?)```", TEXT, re.DOTALL)[1]
PATH = re.compile(r"(?<![\w/.])(?:\w+/)*\w+(?:/(?![\w.])|\.(?:py|proto|toml)\b)")  # a folder ends with /
TOPICS = [
    "weights", "in process", "on Ray", "between nodes", "guard", "jackknife", "intervals in process",
    "intervals between nodes", "near a point", "what an answer has", "displayed", "the page", "the wire", "rounds",
    "models and their files", "what columns are", "saved", "batch", "training", "command line", "experiments", "demo",
]  # fmt: skip


def read_tree():
    """The paths in the tree of packages, and what is said of each."""
    found, above = {}, []
    for line in TREE.splitlines():
        indent, name, about = re.fullmatch(r"((?:│   |    )*)[├└]── (\S+)\s+(\S.*)", line).groups()
        above[len(indent) // 4 :] = [name]
        found["".join(above)] = about
    return found


def read_picture():
    return [each.text for each in PICTURE.iter("{http://www.w3.org/2000/svg}text")]


# -- the table and the tree --------------------------------------------------------------------------------------------


def test_every_path_of_the_table_exists():
    rows = [line.split(" | ", 1) for line in TABLE.splitlines()[2:] if line.startswith("|")]
    assert len(rows) > 25
    for topic, places in rows:
        paths = PATH.findall(places)
        assert paths, topic
        assert [path for path in paths if not exists(path)] == [], topic
        assert set(re.findall(r"`([^`]*[/.][^`]*)`", places)) - {"degroot.connect"} <= set(paths), topic


@pytest.mark.parametrize("topic", TOPICS)
def test_the_table_has_a_row_for_what_people_change(topic):
    assert any(topic in line.split("|")[1] for line in TABLE.splitlines() if line.startswith("|"))


def test_every_path_of_the_tree_exists():
    assert [path for path in read_tree() if not exists(path)] == []


def test_the_tree_has_every_package_and_every_flat_module():
    packages = {f"{path.parent.relative_to(SOURCE)}/" for path in SOURCE.rglob("__init__.py")} - {"./"}
    flat = {path.name for path in SOURCE.glob("*.py")} - {"__init__.py"}
    assert packages | flat <= set(read_tree())


def exists(path):
    return (SOURCE / path).is_dir() if path.endswith("/") else (SOURCE / path).is_file()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_of_the_repository_that_a_page_names_exist(page):
    named = re.findall(
        r"(?<![\w/.-])(?:\.\./)?((?:src|tests|benchmarks)/[\w./-]*\w/?)", page.read_text(encoding="utf-8")
    )
    assert [path for path in named if not (ROOT / path).exists()] == []


# -- the picture -------------------------------------------------------------------------------------------------------


def test_every_file_of_the_picture_exists():
    paths = [path for text in read_picture() for path in PATH.findall(text)]
    assert {"collective.py", "consultation/consult.py", "rules/degroot.py", "neighbourhoods/"} <= set(paths)
    assert [path for path in paths if not exists(path)] == []


def test_the_picture_has_every_layer():
    words = {word for text in read_picture() for word in text.split()}
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert packages | {path.stem for path in SOURCE.glob("*.py")} - {"__init__"} <= words


def test_the_names_in_the_picture_are_in_the_files_beside_them():
    beside = {
        "collective.py": ["Collective"],
        "consultation/consult.py": [
            "consult",
            "Question",
            "Engine",
            "LocalEngine",
            "give_opinion",
            "Opinion",
            "conclude",
        ],
        "agents/agent.py": ["Agent", "Scorer"],
        "guard/forecast.py": ["AnswerForecaster"],
        "consultation/guarding.py": ["examine"],
        "rules/degroot.py": ["pool_predictions", "jackknife_agents"],
        "answers/answer.py": ["Consensus"],
    }
    words = {word for text in read_picture() for word in re.findall(r"\w+", text)}
    for path, names in beside.items():
        code = (SOURCE / path).read_text(encoding="utf-8")
        for name in names:
            assert name in words, name
            assert re.search(rf"^(?:def|class) {name}\b", code, re.MULTILINE), name


# -- the index of modules ----------------------------------------------------------------------------------------------


def test_the_index_of_modules_is_current():
    code = runpy.run_path(str(ROOT / "docs" / "modules.py"))
    assert code["write_index"](TEXT) == TEXT, "run: python docs/modules.py"
    assert all(len(line.split(" | ")[1]) > 10 for line in code["list_modules"]().splitlines()[2:])
