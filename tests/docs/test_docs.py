"""Every command and snippet of the documentation, as written; and the site that is made of it."""

import dataclasses
import re
import shutil
import subprocess
import sys
import time
import tomllib
from importlib.util import find_spec

import pytest
from support.documents import PAGES, ROOT, Terminal, blocks, matches

import degroot
from degroot import Collective
from degroot.files.toml import toml_text
from degroot.node import config

DOCS = ROOT / "docs"
PICTURE = re.compile("[─│┌└├▶]|──>")
LOOKS = 240.0  # seconds in which a log comes to say what the page shows


def of(page):
    return str(page.relative_to(ROOT))


def steps(page):
    """The blocks that are tried in a folder, in order; doctests are run by pytest itself."""
    return [each for each in blocks(page) if each.kind in ("console", "python", "toml") and not each.is_doctest]


def unfenced(page):
    """The text of a page without its blocks."""
    text = page.read_text(encoding="utf-8")
    for each in blocks(page):
        text = text.replace(each.text, "")
    return text


# -- no block that is not run ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=of)
def test_every_block_is_of_a_kind_that_is_tried(page):
    for each in blocks(page):
        if each.kind == "text":
            assert PICTURE.search(each.text), f"{each}: text is for pictures; commands are console, code is python."
        elif each.kind == "console":
            assert each.commands, f"{each}: there is no command."
        else:
            assert each.is_directive or each.kind in ("python", "toml"), f"{each}: {each.kind!r} is not tried."
            assert each.kind == "python" or ">>> " not in each.text, str(each)
    assert not re.search(r"^(?: {4}|\t)(?:\$|degroot|pip|make) ", unfenced(page), re.MULTILINE), "commands are console"


def test_pytest_runs_the_examples_of_every_page():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    assert "--doctest-glob=*.md" in settings["addopts"]
    ignored = re.findall(r"--ignore=(\S+)", settings["addopts"])
    for page in PAGES:
        if any(each.is_doctest for each in blocks(page)):
            assert any(of(page).startswith(place) for place in settings["testpaths"]), of(page)
            assert not any(of(page).startswith(place) for place in ignored), of(page)


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if steps(page)], ids=of)
def test_a_page_from_its_first_command_to_its_last(page, tmp_path):
    from support.scenes import SCENES, nothing  # which take long to import

    scene = SCENES.get(of(page), nothing)
    with Terminal(tmp_path, page.read_text(encoding="utf-8")) as terminal, scene(terminal):
        for step in steps(page):
            TRIED[step.kind](terminal, step)


def commands(terminal, block):
    for command, shown in block.commands:
        code, printed = terminal.run(command)
        until = time.monotonic() + LOOKS
        while command.startswith("grep ") and not matches(shown, printed) and time.monotonic() < until:
            time.sleep(0.5)  # a page says to look again until the log has it
            code, printed = terminal.run(command)
        told = f"{block}: $ {command}\n{printed}"
        assert code == (2 if re.search("^degroot: ", shown, re.MULTILINE) else 0), told
        assert not shown or matches(shown, printed), f"{told}\nis not\n{shown}"


def script(terminal, block):
    if re.search("^import torch$", block.text, re.MULTILINE) and find_spec("torch") is None:
        pytest.skip(f"{block} and what follows it need torch, which is not installed.")
    (terminal.folder / "snippet.py").write_text(terminal.here(block.text), encoding="utf-8")
    code, printed = terminal.run("python snippet.py")
    assert code == 0, f"{block}: {printed}"


def settings(terminal, block):
    """A collective is loaded, from where the page's commands find it; a part of a node's file is read in its place."""
    text = terminal.here(block.text)
    if "agents" in tomllib.loads(text):
        (terminal.folder / "collective.toml").write_text(text, encoding="utf-8")
        assert Collective.load(terminal.folder / "collective.toml").names
        return
    peers = [("south", "127.0.0.1:7442"), ("west", "127.0.0.1:7443")]
    whole = tomllib.loads(config.template("north", "127.0.0.1:7441", peers))
    path = terminal.folder / "whole.toml"
    path.write_text(toml_text(whole | tomllib.loads(text)), encoding="utf-8")
    assert config.read(path)


TRIED = {"console": commands, "python": script, "toml": settings}


# -- what pages must have ----------------------------------------------------------------------------------------------


def test_the_reference_has_every_public_name_once():
    text = "".join(page.read_text(encoding="utf-8") for page in sorted((DOCS / "reference").glob("*.md")))
    documented = re.findall(r"^\.\. auto(?:class|function|exception):: (?:degroot\.)?(\w+)$", text, re.MULTILINE)
    assert sorted(documented) == sorted(degroot.__all__)
    listed = re.search(r"\.\. autosummary::\n.*?\n\n(.*?)```", text, re.DOTALL)[1].split()
    assert sorted(listed) == sorted(degroot.__all__)
    for part in ("plot", "baselines", "partitions", "batch", "trust", "consensus", "jackknife", "stacking", "schema"):
        assert f".. automodule:: degroot.{part}\n" in text


def test_every_measurement_is_a_page():
    for written in (ROOT / "benchmarks").glob("*.md"):
        page = DOCS / "measured" / written.name
        assert page.exists(), page
        assert f"{{include}} ../../benchmarks/{written.name}" in page.read_text(encoding="utf-8")


def test_every_key_of_the_configuration_is_explained_with_its_default():
    text = (DOCS / "node.md").read_text(encoding="utf-8")
    tables = {"identity": "IdentityFiles", "model": "ModelSource", "data": "DataSource", "collective": "NodeSettings"}
    tables |= {"limits": "Limits", "timing": "Timing", "page": "Page"}
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    for table, made in tables.items():
        for field in dataclasses.fields(getattr(config, made)):
            told = [row for row in rows if row.startswith(f"| `{table}.") and f".{field.name}`" in row]
            assert len(told) == 1, f"{table}.{field.name}"
            if table in ("limits", "timing"):
                assert f"{field.default:.0f}" in told[0].rsplit("|", 2)[1].replace("_", ""), f"{table}.{field.name}"
    for key in ("name", "listen", "state", "evidence", "quorum", "peers", "clients", "metrics.port"):
        assert any(row.startswith(f"| `{key}`") for row in rows), key


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_its_links_lead_somewhere(tmp_path):
    for name in ("docs", "benchmarks", "deploy", "src"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("examples", "__pycache__"))
    for file in ROOT.glob("*.md"):
        shutil.copy(file, tmp_path)
    quick = "plot_gallery=0"  # examples are run elsewhere
    build = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-D", quick]
    commands = [[*build, "docs", "site"], [sys.executable, "docs/links.py", "site"]]
    for command in commands:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    for name in ("start", "consortium", "method", "choosing", "security", "scale", "paper/report", "contributing"):
        assert (tmp_path / "site" / f"{name}.html").exists()
