"""Large data sets, downloaded from LIBSVM's and UCI's sites once and kept in the user's cache."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from degroot.exceptions import InvalidInput

SITE = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/regression"
UCI = {"beijing+multi+site+air+quality+data.zip": "https://archive.ics.uci.edu/static/public/501"}
TIMEOUT = (10, 60)  # seconds: to be connected, and between two pieces
PIECE = 1 << 16  # bytes

# sha256. We found none that LIBSVM publishes itself. These are what github.com/pratikrathore8/rlaopt-experiments
# (suites/real_erm/data.py) demands of its own downloads of the same two files. No second source was found, and the
# complete files have not been at hand here: whoever gets another sum should suspect these as well. The sum of UCI's
# archive is what two projects that download it demand, independently.
CHECKSUMS = {
    "E2006.train.bz2": "944066984ed3b6c9c3b137a4968afead81dc80f6b77f16f1988b0ecb591c4683",
    "YearPredictionMSD.bz2": "bd820472d9a6d87ae30d6208dcbfd0e80386e96e6e6832f78c498cd78df6da29",
    "beijing+multi+site+air+quality+data.zip": "b04da438b2f331ac0ffd45aebdfec0d20d2367feb5f6948c4b1f7ce1191e33c4",
}


def address(file: str) -> str:
    """Where the file is published."""
    return f"{UCI.get(file, SITE)}/{file}"


def kept(file: str) -> Path | None:
    """The file as it was downloaded earlier, if it was. It must still be the one that was published."""
    import pooch

    path = Path(pooch.os_cache("degroot")) / file
    if not path.exists():
        return None
    found = pooch.file_hash(str(path))
    if found != CHECKSUMS[file]:
        raise InvalidInput(
            f"{file} in the cache must have the sha256 {CHECKSUMS[file]}; it has {found}. "
            f"Delete {path}, and it is downloaded again."
        )
    return path


def fetch(file: str) -> Path:
    """Download the file into the user's cache, where it appears once it is complete and its checksum is right.

    What keeps it from coming (no connection, no space) is an OSError of one line.
    """
    import pooch

    pooch.get_logger().setLevel("WARNING")  # the bar says enough
    try:
        with _bar(file) as bar, _closed_in_the_end() as remember:
            path = pooch.retrieve(
                address(file),
                known_hash=f"sha256:{CHECKSUMS[file]}",
                fname=file,
                path=pooch.os_cache("degroot"),
                downloader=pooch.HTTPDownloader(
                    progressbar=bar, chunk_size=PIECE, timeout=TIMEOUT, hooks={"response": remember}
                ),
            )
    except OSError as error:
        raise OSError(_reason(error)) from error
    except ValueError as error:  # another checksum
        raise InvalidInput(
            f"{error} If the published file has changed, download it by hand and give its folder: --data DIR."
        ) from error
    return Path(path)


@contextmanager
def _closed_in_the_end() -> Iterator[Callable[..., None]]:
    """Gives a hook for requests that remembers responses, to close them: pooch leaves open what fails."""
    with ExitStack() as stack:

        def remember(response: Any, **_: Any) -> None:
            stack.callback(response.close)

        yield remember


def _reason(error: OSError) -> str:
    response = getattr(error, "response", None)  # of HTTP errors
    if response is not None:
        return f"the server says {response.status_code} {response.reason}"
    return error.strerror or type(error).__name__


@contextmanager
def _bar(label: str) -> Iterator[Any]:
    """A bar for pooch, on a terminal only."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield False
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield _Bar(bar, label)


class _Bar:
    """Rich's bar with the four names that pooch expects."""

    def __init__(self, bar: Any, label: str) -> None:
        self._bar = bar
        self._task = bar.add_task(label, total=None)

    @property
    def total(self) -> float | None:
        total: float | None = self._bar.tasks[self._task].total
        return total

    @total.setter
    def total(self, size: int) -> None:
        self._bar.update(self._task, total=size or None)  # 0: the server does not say

    def update(self, size: int) -> None:
        self._bar.advance(self._task, size)

    def reset(self) -> None:
        self._bar.reset(self._task)

    def close(self) -> None:
        self._bar.stop()
