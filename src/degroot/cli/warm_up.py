"""``degroot warm-up``: compile now what would be compiled on first use."""

from typing import Annotated

import typer

from degroot.compute.progress import progress
from degroot.exceptions import InvalidInput


def warm_up(
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Processes at a time; by default one for each core.")
    ] = None,
) -> None:
    """Compile all kernels that the installed package lacks for this processor, for images and nodes.

    A package that was built on such a machine has them all, and nothing is left to do. What is compiled goes into the
    user's cache or, if that is set, into the folder DEGROOT_KERNELS.
    """
    from degroot.compute.kernel_build import compile_tasks, list_missing
    from degroot.compute.store import NATIVE, find_writable_target

    missing, total = list_missing()
    done = "nothing to compile"
    if missing:
        target = find_writable_target()
        if target is None:
            raise InvalidInput("DEGROOT_KERNELS must name a folder that can be written; there is none.")
        with progress("Compiling kernels", len(missing), lines=True) as advance:
            compile_tasks(missing, target, NATIVE, advance, jobs)
        if list_missing()[0]:
            raise InvalidInput(f"There must be room for compiled kernels in {target}; there is too little.")
        done = f"{len(missing)} of them compiled now, in {target}"
    typer.echo(f"{total} kernels; {done}.")
