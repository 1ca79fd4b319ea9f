"""A node's process that ends when the one that started it does, however that ends: its standard input closes then."""

import os
import signal
import sys
from pathlib import Path
from threading import Thread

from degroot.exceptions import DeGrootError
from degroot.node.configuration import read
from degroot.node.server import run


def _end_with_parent() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    Thread(target=_end_with_parent, daemon=True).start()
    try:
        run(read(Path(sys.argv[1])))
    except DeGrootError as error:
        sys.exit(str(error))
