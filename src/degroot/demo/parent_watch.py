"""A node that ends with the process that started it: ``python -m degroot.demo.parent_watch FILE``."""

import os
import signal
import sys
from pathlib import Path
from threading import Thread

from degroot.exceptions import DeGrootError
from degroot.node.config import read
from degroot.node.server.run import run


def end_with_parent() -> None:
    """Wait until standard input is closed, as it is when the parent ends, and end this process."""
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    Thread(target=end_with_parent, daemon=True).start()
    try:
        run(read(Path(sys.argv[1])))
    except DeGrootError as error:
        sys.exit(str(error))
