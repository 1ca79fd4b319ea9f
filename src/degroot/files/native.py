"""Files and buffers that Arrow's threads can release without Python.

Arrow reads and parses on threads of its own, which may release what they were given after the reading function has
returned. To release a Python file or `bytes` object they need the interpreter's lock. Before Python 3.14 a thread that
asks for it while the interpreter ends is made to exit, from within C++ destructors that do not allow that, and the
process aborts: "terminate called without an active exception", exit code 134 instead of the command's own. Therefore
Arrow is given files and memory of its own only.
"""

import os
from pathlib import Path

import pyarrow as pa


def open_native(path: Path) -> pa.NativeFile:
    """Open a file for Arrow to read; what is wrong with it is raised as Python says it."""
    path.open("rb").close()
    return pa.OSFile(os.fsencode(path))


def copy_native(content: bytes) -> pa.Buffer:
    """Copy bytes into memory of Arrow's own."""
    sink = pa.BufferOutputStream()
    sink.write(content)
    return sink.getvalue()
