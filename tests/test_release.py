"""What is released: the wheel and the sdist hold all that is needed and nothing else, and run where nothing else is."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

import degroot

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
JUNK = re.compile(
    r"__pycache__|\.py[co]$|\.nb[ic]$|\.venv|\.ruff|\.mypy|\.pytest|\.hypothesis|\.DS_Store|~$|\.key$|\.pem$"
)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel and the sdist, made by the project's own build backend."""
    pytest.importorskip("hatchling", reason="hatchling is not installed: pip install 'degroot[release]'")
    place, made = tmp_path_factory.mktemp("dist"), []
    for kind in ("wheel", "sdist"):
        run = f"from hatchling.build import build_{kind} as build; print(build({str(place)!r}))"
        done = subprocess.run(
            [sys.executable, "-c", run], cwd=ROOT, capture_output=True, text=True, timeout=120,
            env={**os.environ, "DEGROOT_KERNEL_LEVELS": "none"},  # those that are there go along
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        made.append(place / done.stdout.split()[-1])
    return made


def read_metadata(wheel):
    with zipfile.ZipFile(wheel) as opened:
        name = next(name for name in opened.namelist() if name.endswith("METADATA"))
        return Parser().parsestr(opened.read(name).decode())


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(built):
    with zipfile.ZipFile(built[0]) as wheel:
        names = set(wheel.namelist())
    metadata = read_metadata(built[0])
    source = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src/degroot").rglob("*") if path.is_file()}
    wanted = {name for name in source if not JUNK.search(name)}
    assert {name for name in names if ".dist-info/" not in name} == wanted
    for kind in ("py.typed", ".proto", ".toml", ".html", ".css", ".js"):
        assert any(name.endswith(kind) for name in names), kind
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert metadata["Version"] == degroot.__version__ == PROJECT["version"]
    assert metadata["License-Expression"] == "BSD-3-Clause"
    assert "\n# degroot\n" in f"\n{metadata.get_payload()}"


def test_the_sdist_holds_the_source_the_tests_and_the_documents_and_no_junk(built):
    with tarfile.open(built[1]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    for name in ("LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "SECURITY.md", "Makefile", "pyproject.toml"):
        assert name in names
    for folder in ("src/degroot/", "tests/", "docs/", "benchmarks/", "deploy/"):
        assert any(name.startswith(folder) for name in names)
    assert [name for name in names if JUNK.search(name) or name.endswith(".o")] == []
    assert [name for name in names if name.split("/")[0] in ("build", "dist", "degroot-paper")] == []


def test_the_metadata_tells_what_pyproject_tells(built):
    metadata = read_metadata(built[0])
    assert set(metadata.get_all("Provides-Extra")) == set(PROJECT["optional-dependencies"])
    assert set(metadata.get_all("Classifier")) == set(PROJECT["classifiers"])
    from trove_classifiers import classifiers, deprecated_classifiers

    assert set(PROJECT["classifiers"]) <= set(classifiers) - set(deprecated_classifiers)


def test_the_citation_is_of_this_version_and_of_the_paper():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["cff-version"] == "1.2.0"
    assert cited["version"] == degroot.__version__
    assert cited["license"] == PROJECT["license"]
    assert {"message", "title", "authors"} <= set(cited)
    (paper,) = cited["references"]
    assert [each["family-names"] for each in paper["authors"]] == ["Mendler-Dünner", "Guo", "Bates", "Jordan"]
    assert (paper["title"], paper["year"]) == ("Test-time collective prediction", 2021)


def test_the_security_policy_leads_to_pages_that_there_are():
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#]+)\)", text)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.slow  # it installs all dependencies, from the package index
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_it_installs_and_runs_where_nothing_else_is(kind, built, tmp_path):
    file, home = built[kind == "sdist"], tmp_path / "empty"
    home.mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL"))}

    def run(*command, patience=900):
        return subprocess.run(
            [str(each) for each in command], cwd=home, env=environment, capture_output=True, text=True, timeout=patience
        )

    assert run(sys.executable, "-m", "venv", tmp_path / "venv").returncode == 0
    installed = run(tmp_path / "venv/bin/pip", "install", "-q", f"{file}[node]")
    if "No matching distribution" in installed.stderr or "Connection" in installed.stderr:
        pytest.skip(f"the package index cannot be reached: {installed.stderr.splitlines()[-1]}")
    assert installed.returncode == 0, installed.stderr
    if kind == "sdist":  # the kernels are compiled while pip builds it, with nothing but what a build requires
        assert len(list((tmp_path / "venv").rglob("degroot/compute/objects/*/*.o"))) > 40
    command = tmp_path / "venv/bin/degroot"
    assert run(command, "--version").stdout.strip() == degroot.__version__
    demo = run(command, "demo")
    assert demo.returncode == 0, demo.stderr
    assert "All processes have ended" in demo.stdout
    random = np.random.default_rng(0)
    for k, name in enumerate(("north", "south", "new")):
        table = pd.DataFrame(random.normal(k, 1.0, size=(80, 2)), columns=["size", "age"])
        table = table if name == "new" else table.assign(price=table["size"] + random.normal(size=80))
        table.to_csv(home / f"{name}.csv", index=False)
    for line in (
        "train north.csv south.csv --target price",
        "predict --collective collective --input new.csv --output answers.csv",
        "explain --collective collective --input new.csv",
    ):
        done = run(command, *line.split())
        assert done.returncode == 0, done.stderr
    assert np.isfinite(pd.read_csv(home / "answers.csv").to_numpy()).all()
    assert {path.name for path in home.iterdir()} == {"north.csv", "south.csv", "new.csv", "collective", "answers.csv"}
