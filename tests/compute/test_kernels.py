"""Kernels: machine code does what the Python does, comes from the package or is compiled once, and needs no numba."""

import os
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from support.drills import until

from degroot import trust
from degroot.compute import kernel_build, kernel_compiler, store
from degroot.compute.kernel import Kernel, compiled, describe_types, intrinsic
from degroot.compute.order import find_median, find_nth_smallest, sort_with_keys
from degroot.compute.sums import row_product, row_sum
from degroot.files.lock import try_lock
from degroot.jackknife import delete_one

KERNEL = """
from degroot.compute.kernel import compiled

STEP = 1.0

@compiled
def add_one(x):
    return x + STEP

@compiled
def add_two(x):
    return add_one(add_one(x))
"""
USE = """
import sys, time
from pathlib import Path
from degroot.compute import kernel_compiler, store
import kernels
compiled_here, compile_kernel = [], kernel_compiler.compile_kernel
def count(kernel, signature, name):
    compiled_here.append(kernel.name)
    return compile_kernel(kernel, signature, name)
kernel_compiler.compile_kernel = count
Path(sys.argv[1]).touch()  # ready
while not Path(sys.argv[2]).exists():
    time.sleep(0.001)
assert kernels.add_two(1.0) == 3.0
print(len(compiled_here))
"""
FIVE_LINES = """
import sys
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from degroot import DeGrootRegressor
X, y = load_diabetes(return_X_y=True)
model = DeGrootRegressor(Ridge(0.1), n_agents=5, random_state=0).fit(X[50:], y[50:])
print(model.predict(X[:3], return_std=True)[0].round(6).tolist())
print(sorted({"numba", "platformdirs", "typer"} & set(sys.modules)))
"""
numbers = st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=70).map(np.array)


class Line(NamedTuple):
    slope: float
    points: np.ndarray


@compiled
def add_line(line: Line, out: np.ndarray, is_doubled: bool) -> int:
    for i in range(out.size):
        out[i] += line.slope * line.points[i] * (2.0 if is_doubled else 1.0)
    return out.size


@compiled
def is_positive(x: float) -> bool:
    return x > 0.0


@compiled
def copy_into(rows: np.ndarray, out: np.ndarray) -> None:
    halves = rows.reshape(2, rows.size // 2)  # views and arrays of a kernel's own
    room = np.zeros(rows.size)
    for k in range(2):
        for i in range(halves.shape[1]):
            room[k * halves.shape[1] + i] = halves[k, i]
    for i in range(out.size):
        out[i] = room[i]


# -- calls -------------------------------------------------------------------------------------------------------------


def test_kernels_take_named_tuples_and_return_numbers():
    out = np.ones(3)
    assert add_line(Line(2.0, np.arange(3.0)), out, True) == 3
    assert_array_equal(out, [1.0, 5.0, 9.0])
    assert add_line(Line(np.float64(1.0), np.arange(3.0)), out, np.False_) == 3
    assert_array_equal(out, [1.0, 6.0, 11.0])
    assert is_positive(1.0) is True
    assert is_positive(-1) is False


@given(numbers)
def test_kernels_have_arrays_of_their_own(values):
    values = np.concatenate([values, values])
    out = np.empty_like(values)
    copy_into(values, out)
    assert_array_equal(out, values)


def test_kernels_read_arrays_that_cannot_be_written(tmp_path):
    np.save(tmp_path / "values.npy", np.arange(4.0))
    out = np.empty(4)
    copy_into(np.load(tmp_path / "values.npy", mmap_mode="r"), out)
    assert_array_equal(out, np.arange(4.0))


def test_arrays_of_another_form_are_refused():
    with pytest.raises(TypeError, match=r"copy_into: arrays must be C-contiguous and aligned; one of them is not\."):
        copy_into(np.arange(8.0)[::2], np.empty(4))
    with pytest.raises(TypeError, match="must have the byte order of this machine; got >f8"):
        copy_into(np.arange(4.0).astype(">f8"), np.empty(4))
    with pytest.raises(TypeError, match="Kernels take arrays and numbers; got list"):
        copy_into([1.0], np.empty(1))


def test_arguments_that_machine_code_cannot_take_are_refused():
    with pytest.raises(TypeError, match=r"Arrays for kernels must be of f8, .*; got complex128"):
        copy_into(np.zeros(2, complex), np.empty(2))
    with pytest.raises(OverflowError, match="must fit into 64 bits; got 9223372036854775808"):
        row_sum(np.zeros((1, 1)), 0, 2**63)


def test_intrinsics_cannot_be_called_and_what_needs_numba_is_refused():
    @intrinsic
    def nothing(_context):
        """Nothing."""

    with pytest.raises(TypeError, match="is a part of kernels; Python cannot call it"):
        nothing()

    def sort(values: np.ndarray) -> None:
        values.sort()

    def give(values: np.ndarray) -> np.ndarray:
        return values

    with pytest.raises(TypeError, match=r"Kernels may use the C library alone; .*sort needs NRT_"):
        kernel_compiler.compile_kernel(Kernel(sort), "f8[1]", "sort")
    with pytest.raises(TypeError, match=r"Kernels that Python calls return a number or nothing; .*give returns array"):
        kernel_compiler.compile_kernel(Kernel(give), "f8[1]", "give")


@given(st.integers(1, 30), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_machine_code_does_what_the_python_does(M, K, seed):
    errors = np.random.default_rng(seed).exponential(size=(M, K)) ** 4
    fast, plain = np.empty(M), np.empty(M)
    delete_one._spread_into(errors, fast)
    delete_one._spread_into.function(errors, plain)
    np.testing.assert_allclose(fast, plain, rtol=1e-14)
    assert row_sum(errors, 0, K) == row_sum.function(errors, 0, K)
    np.testing.assert_allclose(
        row_product(errors, 0, errors, M - 1, K), row_product.function(errors, 0, errors, M - 1, K), rtol=1e-14
    )


@given(numbers)
def test_order_statistics_are_those_of_numpy(values):
    keys, order = values.copy(), np.arange(values.size)
    sort_with_keys(keys, order)
    assert_array_equal(keys, np.sort(values))
    assert_array_equal(order, np.argsort(values, kind="stable"))
    assert find_median(values.copy(), values.size) == np.median(values)
    for n in {0, values.size // 3, values.size - 1}:
        assert find_nth_smallest(values.copy(), values.size, n) == np.sort(values)[n]


# -- where code comes from ---------------------------------------------------------------------------------------------


def start_process(folder, number):
    ready = folder / f"ready{number}"
    environment = {**os.environ, "DEGROOT_KERNELS": str(folder / "cache"), "PYTHONPATH": str(folder)}
    command = [sys.executable, "-c", USE, str(ready), str(folder / "go")]
    return ready, subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def run_together(folder, count):
    """How many kernels each of so many processes compiles that use one at the same time."""
    started = [start_process(folder, number) for number in range(count)]
    until(lambda: all(ready.exists() or process.poll() is not None for ready, process in started), "one hangs")
    (folder / "go").touch()
    compiled_there = [int(process.communicate()[0]) for _, process in started]
    assert all(process.returncode == 0 for _, process in started)
    for ready, _ in started:
        ready.unlink()
    (folder / "go").unlink()
    return sorted(compiled_there)


def test_processes_that_start_at_once_compile_each_kernel_once(tmp_path):
    (tmp_path / "kernels.py").write_text(KERNEL)
    assert run_together(tmp_path, 3) == [0, 0, 1]
    assert run_together(tmp_path, 1) == [0]
    (tmp_path / "kernels.py").write_text(KERNEL.replace("x + STEP", "STEP + x"))  # of the kernel that is called
    assert run_together(tmp_path, 1) == [1]


def test_code_is_of_the_source_that_was_imported(tmp_path):
    (tmp_path / "kernels.py").write_text(KERNEL)
    code = """
import kernels, pathlib
file = pathlib.Path(kernels.__file__)
file.write_text(file.read_text().replace("STEP = 1.0", "STEP = 2.0"))
print(kernels.add_two(1.0))
"""
    environment = {**os.environ, "DEGROOT_KERNELS": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path)}
    printed = [
        subprocess.run(
            [sys.executable, "-B", "-c", text], env=environment, capture_output=True, text=True, check=True
        ).stdout
        for text in (code, "import kernels; print(kernels.add_two(1.0))")
    ]
    assert printed == ["3.0\n", "5.0\n"]


def test_a_user_without_a_home_compiles_and_is_told_so_once(tmp_path):
    (tmp_path / "kernels.py").write_text(KERNEL)
    code = """
import platformdirs, kernels
def fail(*_):
    raise RuntimeError("could not determine the home directory")
platformdirs.user_cache_path = fail
print(kernels.add_two(1.0), kernels.add_one(1.0))
"""
    environment = {key: value for key, value in os.environ.items() if key != "DEGROOT_KERNELS"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment | {"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "3.0 2.0\n"), done.stderr
    (line,) = [line for line in done.stderr.splitlines() if not line.startswith("Compiling")]
    assert line.startswith("Compiled kernels cannot be kept: this user has no folder for caches.")


def test_code_has_the_same_name_in_every_process():
    code = "from degroot.compute import kernel_build; print([task.file for task in kernel_build.list_tasks()])"
    names = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2", "3")
    }  # fmt: skip
    assert len(names) == 1


def test_code_is_named_by_all_that_it_is_made_from(monkeypatch):
    name = store.name_file(add_line, "f8[1]")
    assert name == store.name_file(add_line, "f8[1]")
    assert name != store.name_file(add_line, "f4[1]")
    before = store.name_file(trust.from_errors_into, "f8[2] f8[2]")
    monkeypatch.setattr(trust, "EPS", 1e-9)
    assert store.name_file(trust.from_errors_into, "f8[2] f8[2]") != before


def test_a_cache_that_can_only_be_read_and_a_lock_that_is_never_let_go_stop_nobody(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "WAIT_SECONDS", 0.0)
    path = tmp_path / "kernel.lock"
    with path.open("ab") as held:
        assert try_lock(held)
        with store._hold(path), path.open("ab") as other:
            assert not try_lock(other)  # it is still the other process's
    with store._hold(tmp_path / "missing" / "kernel.lock"):
        pass
    with store._hold(path), path.open("ab") as other:
        assert not try_lock(other)
    with path.open("ab") as other:
        assert try_lock(other)  # it was let go


def test_a_damaged_file_is_compiled_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "find_user_cache", lambda: tmp_path)
    kernel = Kernel(row_sum.function)
    table = np.arange(6.0).reshape(2, 3)
    assert kernel(table, 1, 3) == 12.0
    (file,) = tmp_path.rglob("*.o")
    whole = file.read_bytes()
    for damaged in (b"", b"{}\n", whole[: len(whole) // 2], whole[:-9] + b"different", whole.replace(b'"ii', b'"if')):
        file.write_bytes(damaged)
        assert Kernel(row_sum.function)(table, 1, 3) == 12.0
        assert store.read(file) is not None


def test_the_package_has_code_for_all_declared_kernels():
    if not any(store.PACKAGE.glob("*/*.o")):
        pytest.skip("This package was built without machine code.")
    missing, total = kernel_build.list_missing()
    assert total > 40
    assert missing == [], "Kernels have changed since the package was built: pip install -e ."


def test_the_readme_s_five_lines_need_no_numba():
    if not any(store.PACKAGE.glob("*/*.o")):
        pytest.skip("This package was built without machine code.")
    done = subprocess.run([sys.executable, "-c", FIVE_LINES], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[187.574675, 81.749522, 167.41539]", "[]"]
    assert done.stderr == ""


def test_types_are_described_as_the_compiler_reads_them():
    described = describe_types((Line(0.5, np.zeros(1)), np.zeros((2, 3), np.float32), True))
    assert described == "Line(f8 f8[1]) f4[2] b1"
    parsed = kernel_compiler.parse_signature(described, add_line)
    assert [str(kind) for kind in parsed] == ["Line(float64, array(float64, 1d, C))", "array(float32, 2d, C)", "bool"]
    with pytest.raises(TypeError, match="must be annotated with the named tuples that it takes; Line is none of them"):
        kernel_compiler.parse_signature(described, is_positive)
