"""The version of a state folder: one of a version before is taken over when the node starts, a newer one is refused.

A folder without a mark is of version 1. Since version 2 residuals have checksums.
"""

from pathlib import Path
from typing import Any

import degroot
from degroot.exceptions import InvalidInput
from degroot.files.checksums import DamagedFile, read_record, save_record
from degroot.node.scoring.residual_store import StorageError, adopt

VERSION = 2
FILE = "version.json"
SET_BY = "before-restore-"  # how folders begin that a restore has moved the state before to
RESTORING = ".restored"  # what a restore has not put in its place yet; if it is there, the restore was interrupted


def check_version(state: Path) -> int | None:
    """The version of a state folder; None: its mark is damaged. One that is newer than this software is refused."""
    mark = state / FILE
    if (state / RESTORING).exists():
        raise InvalidInput(
            f"A state folder must be restored wholly; at {state} that was interrupted: run `degroot node restore` "
            "again, with --force."
        )
    if not mark.exists():
        return 1
    try:
        told = read_record(mark)
    except DamagedFile:
        return None
    except OSError as error:
        raise StorageError(f"The state folder must be readable; {mark}: {error.strerror}.") from error
    if told["version"] > VERSION:
        raise InvalidInput(
            f"A state folder must be of version {VERSION} or older; {state} was written by degroot {told['degroot']} "
            f"with state version {told['version']}, and this is degroot {degroot.__version__}."
        )
    return int(told["version"])


def take_over(state: Path, log: Any) -> None:
    """Bring a state folder, which is locked, to this version, and mark it."""
    found = check_version(state)
    if found is None:  # what has no checksum is damaged as well, then
        log.warning("the mark of the state's version is damaged, and is written anew", file=str(state / FILE))
    try:
        if found == 1:
            adopted = adopt(state)
            if adopted:
                log.info("residuals of an earlier version are used as they are", models=adopted, state=str(state))
        save_record(state / FILE, {"version": VERSION, "degroot": degroot.__version__})
    except OSError as error:
        raise StorageError(f"The state folder must have room and be writable; {state}: {error.strerror}.") from error
