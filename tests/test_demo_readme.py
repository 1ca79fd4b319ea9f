"""The README's three terminals, command by command, in an empty folder."""

import dataclasses
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from consortium import free_ports

from degroot.node import configuration

DOCS = Path(__file__).parents[1] / "docs" / "node.md"
README = Path(__file__).parents[1] / "README.md"
DEGROOT = f'{sys.executable} -c "from degroot.cli import main; main()"'


def blocks(ports):
    """What stands in the section, in order; with free ports, and with the Python and the degroot that are tested."""
    text = README.read_text(encoding="utf-8").partition("### Three terminals")[2].partition("\n## ")[0]
    for written, port in zip(("7441", "7442", "7443"), ports, strict=True):
        assert written in text
        text = text.replace(written, str(port))
    yield from re.findall(r"```(console|python)\n(.*?)```", text, re.DOTALL)


def run(folder, command, kind="console"):
    functions = f'degroot() {{ {DEGROOT} "$@"; }}; python() {{ {sys.executable} "$@"; }}; set -e\n'
    arguments = [sys.executable, "-c", command] if kind == "python" else ["bash", "-c", functions + command]
    done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_from_nothing_to_an_answer_of_three_nodes(tmp_path):
    nodes, printed = [], []
    try:
        for kind, block in blocks(free_ports(3)):
            if "degroot node run" not in block:
                printed.append(run(tmp_path, block, kind))
                continue
            for line in block.strip().splitlines():
                with (tmp_path / f"log{len(nodes)}").open("w") as log:
                    arguments = [sys.executable, "-c", "from degroot.cli import main; main()", *line.split()[1:]]
                    nodes.append(subprocess.Popen(arguments, cwd=tmp_path, stderr=log, env=dict(os.environ)))
            until = time.monotonic() + 120
            while any((tmp_path / f"log{k}").read_text().count("peer ready") < 2 for k in range(3)):
                assert time.monotonic() < until, [(tmp_path / f"log{k}").read_text() for k in range(3)]
                time.sleep(0.1)
    finally:
        for node in nodes:
            node.kill()
            node.wait()
    assert len(nodes) == 3
    answers = pd.read_csv(tmp_path / "answers.csv", keep_default_na=False)
    names = ["weight_north", "weight_south", "weight_west"]
    assert list(answers) == ["value", "standard_error", *names, "missing", "flags"]
    assert len(answers) == 1000
    assert answers[names].sum(axis=1).to_numpy() == pytest.approx(1.0)
    assert set(answers["missing"]) == {""}
    assert "model query" in printed[-2]  # the audit
    assert printed[-1].count("[") >= 4  # values, standard errors and weights from Python


def test_every_key_of_the_configuration_is_explained_with_its_default():
    text = DOCS.read_text(encoding="utf-8")
    tables = {"identity": "IdentityFiles", "model": "ModelSource", "data": "DataSource", "collective": "Settings"}
    tables |= {"limits": "Limits", "timing": "Timing"}
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    for table, made in tables.items():
        for field in dataclasses.fields(getattr(configuration, made)):
            told = [row for row in rows if row.startswith(f"| `{table}.") and f".{field.name}`" in row]
            assert len(told) == 1, f"{table}.{field.name}"
            if table in ("limits", "timing"):
                assert f"{field.default:.0f}" in told[0].rsplit("|", 2)[1].replace("_", ""), f"{table}.{field.name}"
    for key in ("name", "listen", "state", "quorum", "queries", "peers", "clients", "metrics.port"):
        assert any(row.startswith(f"| `{key}`") for row in rows), key
