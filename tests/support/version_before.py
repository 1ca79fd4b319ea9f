"""The version before this one, from the history: what spoke version 2 of the protocol alone."""

import importlib.util
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMIT = "5e2804bc23443b06fbb72b90652e07fa5e0149a5"  # the last that spoke version 2 alone
PROTOCOL = "src/degroot/node/protocol/v2"


def require_history():
    """Skip the test where the history does not go back so far: in an sdist, and in a shallow clone."""
    command = ["git", "-C", str(ROOT), "cat-file", "-e", f"{COMMIT}^{{commit}}"]
    try:
        known = subprocess.run(command, capture_output=True).returncode == 0
    except FileNotFoundError:
        known = False
    if not known:
        pytest.skip(f"the version before is built from the history, and commit {COMMIT[:7]} is not there")


def read_from_history(path):
    """A file as it was."""
    require_history()
    shown = subprocess.run(["git", "-C", str(ROOT), "show", f"{COMMIT}:{path}"], capture_output=True, check=True)
    return shown.stdout.decode()


@cache
def load_messages():
    """The messages of version 2, as its own code has them."""
    name = "collective_pb2_of_version_2"
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, None))
    sys.modules[name] = module
    exec(compile(read_from_history(f"{PROTOCOL}/collective_pb2.py"), name, "exec"), module.__dict__)
    return module


def install(folder):
    """Build a wheel of the version before, and install it beside the packages that are there; its path."""
    require_history()
    source, wheels, target = folder / "source", folder / "wheels", folder / "installed"
    source.mkdir(parents=True)
    archive = subprocess.run(["git", "-C", str(ROOT), "archive", COMMIT], capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", str(source)], input=archive.stdout, check=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels), str(source)]
    subprocess.run(build, check=True, env=environment)
    (wheel,) = wheels.glob("degroot-*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", str(target), str(wheel)], check=True, env=environment)
    return target
