"""Unfinished runs: the parts that are done, and a manifest of them, kept until the output is whole."""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zlib import crc32

import pyarrow as pa

from degroot.batch.packing import packed, unpacked
from degroot.batch.shards import Shard
from degroot.exceptions import InvalidInput

SUFFIX, MANIFEST = ".unfinished", "manifest.jsonl"


class Unfinished:
    """A folder beside the output. Its manifest says what the run is of, and then which parts are there.

    A part counts if it is there with its checksum, so nothing has to wait for the disk: what a power cut takes away is
    done again.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bad: dict[int, int] = {}  # the finished shards, each with its number of bad rows

    def save(self, shard: Shard, answers: pa.RecordBatch, bad: int) -> None:
        """Keep the answers for a shard: whole or not at all."""
        content, part = packed(answers), self._part(shard.number)
        part.with_suffix(".new").write_bytes(content)
        part.with_suffix(".new").replace(part)
        self._note({"part": shard.number, "rows": shard.rows, "bad": bad, "crc": crc32(content)})
        self.bad[shard.number] = bad

    def part(self, number: int) -> pa.RecordBatch:
        """The answers for a finished shard."""
        with pa.memory_map(str(self._part(number))) as file:
            return unpacked(file)

    def remove(self) -> None:
        """All of it."""
        shutil.rmtree(self.folder)

    def begin(self, identity: dict[str, Any]) -> None:
        """Forget whatever is there."""
        os.truncate(self.folder / MANIFEST, 0)
        for old in self.folder.iterdir():
            if old.name != MANIFEST:
                old.unlink()
        self._note(identity)

    def go_on(self, identity: dict[str, Any]) -> None:
        """Take the parts that are there, if they are of the same command; begin if there is no manifest yet."""
        entries = self._entries()
        if not entries:
            self.begin(identity)
            return
        _check_same(self.folder, entries.pop(0), identity)
        self.bad = {entry["part"]: entry["bad"] for entry in entries if self._whole(entry)}

    def _entries(self) -> list[dict[str, Any]]:
        """The lines of the manifest; what a kill or a power cut has left of others is cut off."""
        manifest, entries, length = self.folder / MANIFEST, [], 0
        for line in manifest.read_bytes().split(b"\n")[:-1]:
            try:
                entries.append(json.loads(line.decode()))
            except ValueError:
                break
            length += len(line) + 1
        os.truncate(manifest, length)
        return entries

    def _whole(self, entry: dict[str, Any]) -> bool:
        """Whether a part is there as it was written."""
        try:
            return crc32(self._part(entry["part"]).read_bytes()) == int(entry["crc"])
        except OSError:
            return False

    def _part(self, number: int) -> Path:
        return self.folder / f"{number:08d}.arrow"

    def _note(self, entry: dict[str, Any]) -> None:
        with (self.folder / MANIFEST).open("a") as file:
            file.write(json.dumps(entry) + "\n")


@contextmanager
def unfinished(output: Path, identity: dict[str, Any], restart: bool = False) -> Iterator[Unfinished]:
    """The unfinished run that leads to `output`: one that was interrupted, or a new one. It is ours alone."""
    folder = output.with_name(output.name + SUFFIX)
    folder.mkdir(exist_ok=True)
    with (folder / MANIFEST).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InvalidInput(f"Only one run at a time may write {output}; another one does.") from error
        run = Unfinished(folder)
        (run.begin if restart else run.go_on)(identity)
        try:
            yield run
        except BaseException:
            if not run.bad:  # there is nothing to go on with
                run.remove()
            raise


def _check_same(folder: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    now = json.loads(json.dumps(now))
    strange = [key for key in {**before, **now} if before.get(key) != now.get(key)]
    if strange:
        raise InvalidInput(
            f"{folder} must be of the same command to go on; it had other {', '.join(strange)}. --restart begins anew."
        )
