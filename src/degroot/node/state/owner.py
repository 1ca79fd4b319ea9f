"""The owner of a state folder: commands that write into it have to be run as that user."""

import os
from pathlib import Path

from degroot.exceptions import InvalidInput


def check_owner(state: Path) -> None:
    """Refuse root where a state folder belongs to another user: the node could not use the files that root makes there.

    Nobody else is refused: the folder of a volume may be root's, while node and commands run as another user.
    """
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or not state.exists():
        return
    owner = state.stat().st_uid
    if owner != 0:
        raise InvalidInput(
            f"This must be run as the user of the node, who owns {state}; it is run as root. Try: sudo -u "
            f"{_find_user(owner)} degroot ..."
        )


def _find_user(number: int) -> str:
    """The name of a user, as sudo takes it; that of a user without a name is the number."""
    import pwd  # which Windows does not have

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"'#{number}'"
