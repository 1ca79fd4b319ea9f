"""The state folder as storage: whether a node can write what it has to write down."""

import errno
import os
from tempfile import TemporaryFile

from degroot.node.config import Configuration
from degroot.node.records.ledger import journal_path

PROBE_BYTES = 4096  # a block of most file systems: smaller files may fit where no record does


def find_storage_trouble(configuration: Configuration) -> str | None:
    """Why the state folder cannot be written now, in a few words; None: it can be.

    A file without a name is written and flushed to the disk: call it in a thread where others wait.
    """
    folder, ledger = configuration.state, configuration.ledger
    try:
        with TemporaryFile(dir=folder) as file:
            file.write(bytes(PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return f"{folder} cannot be written: {error.strerror}"
    # not opened: to close a second descriptor of its database lets go of the locks that SQLite holds in this process
    for path in (ledger, journal_path(ledger)):
        if path.exists() and not os.access(path, os.R_OK | os.W_OK):
            return f"{path} cannot be written: {os.strerror(errno.EACCES)}"
    return None
