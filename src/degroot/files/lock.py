"""Locks: a file that one process at a time holds, and that it lets go when it closes the file or ends, however it ends.

POSIX systems lock with ``fcntl``, Windows with ``msvcrt``; no other module of the package imports either.
"""

import errno
import os
import time
from importlib import import_module
from typing import IO, Any

try:
    import fcntl
except ImportError:
    HAS_POSIX_LOCKS = False
    msvcrt: Any = import_module("msvcrt")
else:
    HAS_POSIX_LOCKS = True

POLL_SECONDS = 0.002
HELD = (errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK)  # what systems say of a lock that is held


def try_lock(file: IO[Any]) -> bool:
    """Lock an open file, without waiting. False: it is locked already, by this process or another.

    Raises OSError where the file cannot be locked at all: there are file systems without locks.

    Examples
    --------
    >>> from tempfile import NamedTemporaryFile
    >>> with NamedTemporaryFile() as file, open(file.name) as same:
    ...     try_lock(file), try_lock(same)
    (True, False)
    """
    try:
        if HAS_POSIX_LOCKS:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            os.lseek(file.fileno(), 0, os.SEEK_SET)  # bytes are locked from where the file stands
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    except OSError as error:
        if error.errno not in HELD:
            raise
        return False
    return True


def release_lock(file: IO[Any]) -> None:
    """Let a lock go before the file is closed: processes that were forked meanwhile have the file open, too."""
    if HAS_POSIX_LOCKS:
        fcntl.flock(file, fcntl.LOCK_UN)
    else:
        os.lseek(file.fileno(), 0, os.SEEK_SET)
        msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)


def wait_for_lock(file: IO[Any]) -> None:
    """Lock an open file, as soon as nobody else holds it."""
    while not try_lock(file):
        time.sleep(POLL_SECONDS)
