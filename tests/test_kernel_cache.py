"""Kernels on disk: several processes that start at once compile each kernel once; a lock that is lost stops nobody."""

import os
import subprocess
import sys

from support.drills import until

from degroot.compute import kernel_cache
from degroot.files.lock import try_lock

KERNEL = """
from degroot.compute.compiled import compiled

@compiled
def add_one(x):
    return x + 1.0

@compiled
def add_two(x):
    return add_one(add_one(x))
"""
USE = """
import sys, time
from pathlib import Path
import kernels
Path(sys.argv[1]).touch()  # ready
while not Path(sys.argv[2]).exists():
    time.sleep(0.001)
assert kernels.add_two(1.0) == 3.0
print(sum(kernels.add_two.stats.cache_misses.values()), sum(kernels.add_one.stats.cache_misses.values()))
"""


def start_process(folder, number):
    ready = folder / f"ready{number}"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": str(folder)}
    command = [sys.executable, "-c", USE, str(ready), str(folder / "go")]
    return ready, subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def test_processes_that_start_at_once_compile_each_kernel_once(tmp_path):
    (tmp_path / "kernels.py").write_text(KERNEL)
    started = [start_process(tmp_path, number) for number in range(3)]
    until(lambda: all(ready.exists() or process.poll() is not None for ready, process in started), "one hangs")
    (tmp_path / "go").touch()
    compiled = [process.communicate()[0].split() for _, process in started]
    assert all(process.returncode == 0 for _, process in started)
    # who compiles the outer kernel compiles the inner one; who loads the outer one needs no other
    assert sorted(compiled) == [["0", "0"]] * 2 + [["1", "1"]]


def test_a_cache_that_can_only_be_read_and_a_lock_that_is_never_let_go_stop_nobody(tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_cache, "WAIT_SECONDS", 0.0)
    path = tmp_path / "kernel.lock"
    with path.open("ab") as held:
        assert try_lock(held)
        with kernel_cache._hold(path), path.open("ab") as other:
            assert not try_lock(other)  # it is still the other process's
    with kernel_cache._hold(tmp_path / "missing" / "kernel.lock"):
        pass
    with kernel_cache._hold(path), path.open("ab") as other:
        assert not try_lock(other)
    with path.open("ab") as other:
        assert try_lock(other)  # it was let go
