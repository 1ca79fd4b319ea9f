"""Complaints: what is wrong, in one line on standard error."""

import sys

MISTAKE, STOPPED = 2, 130  # exit codes


def complain(message: str, code: int = MISTAKE) -> int:
    """Say what is wrong; the exit code that goes with it."""
    sys.stderr.write(f"degroot: {' '.join(message.split())}\n")
    return code
