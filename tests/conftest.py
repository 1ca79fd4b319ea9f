import math
import os
import subprocess
import sys
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, settings

# One core for each worker: threads of BLAS and OpenMP that wait for each other take longer than the work itself.
# Read when numpy is imported, and inherited by the processes that tests start.
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(name, "1")

pytest.register_assert_rewrite("support")  # so that what helpers assert is told in full

# No example may fail for being slow: the first call of a kernel compiles it, and the machine may be busy.
settings.register_profile("degroot", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("degroot")


def pytest_configure(config):
    """Before workers start, compile the kernels that have changed since the package was built."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None) or config.option.collectonly:
        return
    if subprocess.run([sys.executable, "-c", "from degroot.cli import main; main()", "warm-up"]).returncode:
        raise pytest.UsageError("degroot warm-up failed.")


class Run(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def degroot(monkeypatch, capsys):
    """Run a command in this process: its exit code, and what it prints and complains of."""
    from degroot import cli

    monkeypatch.setattr("degroot.compute.progress.PATIENCE", math.inf)  # a busy machine is not slow work

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["degroot", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        return Run(ended.value.code or 0, out, err)

    return run


@pytest.fixture
def served():
    """A model server of another make, and the model that it serves as this package sees it."""
    from support.models import serve_model  # which takes long to import

    yield from serve_model()
