"""Notice changes of the files with the own rows, which a node reads once, when it starts."""

import asyncio
from pathlib import Path
from typing import Any

from degroot.files import DataSource
from degroot.files.atomic import find_stamp
from degroot.files.checksums import digest_file
from degroot.node.peers.peers import Peers
from degroot.node.server.threads import run_in_thread

Seen = tuple[object, str | None]  # by which a changed file is known; its checksum, None: it cannot be read


class DataWatch:
    """The files with the own rows, and with how these are written, as they are before the node reads them."""

    def __init__(self, source: DataSource) -> None:
        paths = (source.file, source.schema, source.site)
        self._read = {path: _look_at(path) for path in paths if path is not None}
        self._seen = dict(self._read)

    def find_changed(self) -> tuple[Path, ...]:
        """Which of them have another content now, or cannot be read. A file is only read again once it was written."""
        for path, (stamp, _) in self._seen.items():
            if find_stamp(path) != stamp:
                self._seen[path] = _look_at(path)
        return tuple(path for path, (_, digest) in self._seen.items() if digest != self._read[path][1])

    async def watch(self, circle: Peers, log: Any) -> None:
        """Look again and again, as long as the event loop runs."""
        while True:
            changed, known = await run_in_thread(self.find_changed), circle.changed_data
            for path in sorted({*changed} - {*known}):
                log.warning("the data have changed: restart the node to take them in", file=str(path))
            for path in sorted({*known} - {*changed}):
                log.info("the data are again as they were read", file=str(path))
            circle.changed_data = changed
            circle.wiring.metrics.show_data_change(is_changed=bool(changed))
            await asyncio.sleep(circle.file.timing.probe_seconds)


def _look_at(path: Path) -> Seen:
    stamp = find_stamp(path)  # first: what is written meanwhile is looked at again
    try:
        return stamp, digest_file(path)
    except OSError:
        return stamp, None
