"""Builds the wheel, or an editable installation, with the machine code of all kernels, which takes about a minute.

``DEGROOT_KERNEL_LEVELS`` says for which processors: by default the highest level of this one; for a wheel or an image
that goes elsewhere ``all``, or names of levels of x86-64, separated by spaces; ``none`` leaves the code as it is. What
is missing then, or cannot be compiled here, is compiled on first use.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

OBJECTS = "src/degroot/compute/objects"
BUILD = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])  # not by PYTHONPATH, on which pip puts what a build requires
from degroot.compute.kernel_build import build_package
build_package(Path(sys.argv[2]), sys.argv[3:])
"""


class KernelBuildHook(BuildHookInterface):
    """Compiles kernels in a process of its own, with the package as it lies here."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before files are collected."""
        levels = os.environ.get("DEGROOT_KERNEL_LEVELS", "").split()
        if self.target_name != "wheel" or levels == ["none"]:
            return
        root = Path(self.root)
        command = [sys.executable, "-c", BUILD, str(root / "src"), str(root / OBJECTS), *levels]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            why = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            self.app.display_warning(f"Kernels are not compiled here but on first use: {why}")
