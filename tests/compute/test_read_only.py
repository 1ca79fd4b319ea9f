"""A package that can only be read, without a home that can be written: one line says so, and answers are the same."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import degroot
from degroot.compute import store

FIVE_LINES = """
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from degroot import DeGrootRegressor
X, y = load_diabetes(return_X_y=True)
model = DeGrootRegressor(Ridge(0.1), n_agents=5, random_state=0).fit(X[50:], y[50:])
print([each.tolist() for each in model.predict(X[:3], return_std=True)])

import degroot
from pathlib import Path
package = Path(degroot.__file__).parent
try:
    (package / "new").touch()
    print(package, "can be written")
except OSError:
    print(package, "cannot be written")
"""

NOWHERE = "/dev/null/nowhere"  # a folder that nobody can make, not even root
READ_ONLY = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && exec "$2" -c "$3"'
NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount"]
COMPILES = "Compiling kernels for this machine"  # how the line begins that says what takes so long


def install(folder, *left_out):
    """A folder with the package as it is in its source."""
    package = folder / "installed" / "degroot"
    shutil.copytree(Path(degroot.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__", *left_out))
    return package.parent


def run(command, installed, **environment):
    """What the five lines print with the package in this folder: answers, where it is, and the lines of complaint."""
    kept = {key: value for key, value in os.environ.items() if key != "DEGROOT_KERNELS"}
    done = subprocess.run(
        command, env=kept | {"PYTHONPATH": str(installed)} | environment, cwd=installed, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    answers, place = done.stdout.splitlines()
    return answers, place, done.stderr.splitlines()


def run_read_only(installed):
    """The same where neither the package nor the user's home can be written."""
    if not shutil.which("unshare") or subprocess.run([*NAMESPACE, "true"], capture_output=True).returncode:
        pytest.skip("a folder that root cannot write needs user namespaces, which this machine does not allow")
    command = [*NAMESPACE, "sh", "-c", READ_ONLY, "sh", str(installed), sys.executable, FIVE_LINES]
    answers, place, complaints = run(command, installed, HOME=NOWHERE, XDG_CACHE_HOME=NOWHERE)
    assert place == f"{installed / 'degroot'} cannot be written"
    return answers, complaints


def run_as_usual(installed, home):
    here = {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    answers, place, _ = run([sys.executable, "-c", FIVE_LINES], installed, **here)
    assert place == f"{installed / 'degroot'} can be written"
    (installed / "degroot" / "new").unlink()
    for cache in installed.rglob("__pycache__"):
        shutil.rmtree(cache)
    return answers


def test_a_package_with_machine_code_needs_to_write_nothing_and_says_nothing(tmp_path):
    if not any(store.PACKAGE.glob("*/*.o")):
        pytest.skip("This package was built without machine code.")
    installed = install(tmp_path)
    expected = run_as_usual(installed, tmp_path)
    assert not (tmp_path / "cache").exists()
    assert run_read_only(installed) == (expected, [])


@pytest.mark.slow  # kernels are compiled, once in each process
def test_a_package_without_machine_code_says_once_that_none_can_be_kept(tmp_path):
    installed = install(tmp_path, "objects")
    expected = run_as_usual(installed, tmp_path)
    assert any((tmp_path / "cache").rglob("*.o"))
    answers, complaints = run_read_only(installed)
    assert answers == expected
    (told,) = [line for line in complaints if not line.startswith(COMPILES)]
    assert "cannot be written" in told
    assert sum(line.startswith(COMPILES) for line in complaints) <= 1
