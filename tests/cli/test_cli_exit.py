"""Commands end with their own exit code, however late the threads of other libraries are."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

COMMANDS = """
import sys
from degroot.cli import main

for line in sys.stdin.read().splitlines():
    sys.argv = ["degroot", *line.split()]
    try:
        main()
    except SystemExit as ended:
        print(ended.code or 0, flush=True)
sys.exit(2)
"""
READ_BY_PYTHON = "import pyarrow.csv, sys; pyarrow.csv.read_csv(open(sys.argv[1], 'rb'))"
NAMES = ("u", "v", "price")
OUTCOMES = {
    "train north.csv south.csv --target prize": 2,
    "train north.csv few.csv --target price": 2,
    "train north.csv south.csv --target price --model linear --out collective": 0,
    "predict --collective collective --input south.csv --output answers.csv": 0,
    "predict --collective collective --input ragged.csv --output none.csv": 2,
    "predict --collective collective --input text.csv --output none.csv": 2,
    "predict --collective collective --input south.parquet --output answers.parquet": 0,
    "predict --collective collective --input south.arrow --output more.csv": 0,
    "explain --collective collective --input south.csv --row 1": 0,
    "explain --collective collective --input ragged.csv --row 1": 2,
    "explain --collective collective --input south.parquet --row 1": 0,
    "explain --collective collective --input south.arrow --row 1": 0,
    "explain --collective collective --input stream.arrow --row 1": 0,
}


@pytest.fixture
def noted(tmp_path):
    """Run Python: what came of it, and how often a thread that Python did not start asked for the lock."""
    if sys.platform != "linux" or shutil.which("cc") is None or not sysconfig.get_config_var("Py_ENABLE_SHARED"):
        pytest.skip("needs Linux, a C compiler, and a Python built as a shared library: a function of it is replaced")
    library, notes = tmp_path / "native_threads.so", tmp_path / "notes"
    source = Path(__file__).parents[1] / "support" / "native_threads.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)

    def run(*arguments, text=""):
        notes.write_text("")
        environment = {**os.environ, "LD_PRELOAD": str(library), "NATIVE_THREADS": str(notes)}
        command = [sys.executable, "-c", *arguments]
        done = subprocess.run(command, input=text, capture_output=True, text=True, cwd=tmp_path, env=environment)
        return done, len(notes.read_text())

    return run


def write_files(folder):
    random = np.random.default_rng(0)
    for name, rows in (("north", 40), ("south", 40), ("few", 5)):
        table = pa.table(dict(zip(NAMES, random.normal(size=(3, rows)), strict=True)))
        pyarrow.csv.write_csv(table, folder / f"{name}.csv")
    south = pyarrow.csv.read_csv(folder / "south.csv")
    pyarrow.parquet.write_table(south, folder / "south.parquet")
    pyarrow.feather.write_feather(south, folder / "south.arrow")
    with pa.ipc.new_stream(folder / "stream.arrow", south.schema) as stream:
        stream.write_table(south)
    (folder / "ragged.csv").write_text("u,v\n1,2\n3\n")
    (folder / "text.csv").write_text("u,v\n1,2\n3,four\n")


def test_no_thread_of_a_library_waits_for_the_interpreter(noted, tmp_path):
    # Before Python 3.14 such a thread aborts the process, if it comes while the interpreter ends.
    write_files(tmp_path)
    done, asked = noted(COMMANDS, text="\n".join(OUTCOMES))
    assert done.returncode == 2, done.stderr
    codes = [int(line) for line in done.stdout.splitlines() if line.isdigit()]
    assert codes == list(OUTCOMES.values()), done.stderr
    assert asked == 0
    _, asked = noted(READ_BY_PYTHON, str(tmp_path / "north.csv"))
    assert asked > 0  # with a file of Python's own: what is preloaded does take notes
