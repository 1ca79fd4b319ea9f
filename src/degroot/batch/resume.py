"""Unfinished runs: the parts that are done, and a manifest of them, kept until the output is whole."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from zlib import crc32

import pyarrow as pa
import pyarrow.ipc

from degroot.batch.outputs import writer
from degroot.batch.shards import Shard
from degroot.batch.task import read_unlisted, read_unmatched
from degroot.consultation.groups import Unmatched
from degroot.exceptions import DeGrootError, InvalidInput
from degroot.files.atomic import publish
from degroot.files.lock import HAS_POSIX_LOCKS, try_lock

SUFFIX, MANIFEST, LOCK = ".unfinished", "manifest.jsonl", "lock"


def pack_batch(batch: pa.RecordBatch) -> pa.Buffer:
    """A batch as the bytes of an Arrow file."""
    sink = pa.BufferOutputStream()
    with pyarrow.ipc.new_file(sink, batch.schema) as file:
        file.write_batch(batch)
    return sink.getvalue()


def unpack_batch(content: pa.Buffer | pa.NativeFile) -> pa.RecordBatch:
    """The batch that was packed."""
    return pyarrow.ipc.open_file(content).get_batch(0)


class UnfinishedOutput:
    """A folder beside the output. Its manifest says what the run is of, and then which parts are there.

    A part counts if it is there with its checksum, so nothing has to wait for the disk: what a power cut takes away is
    done again.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bad: dict[int, int] = {}  # the finished shards, each with its number of bad rows

    def save(self, shard: Shard, answers: pa.RecordBatch, bad: int) -> None:
        """Keep the answers for a shard: whole or not at all."""
        content, part = pack_batch(answers), self._part(shard.number)
        part.with_suffix(".new").write_bytes(content)
        part.with_suffix(".new").replace(part)
        self._note({"part": shard.number, "rows": shard.rows, "bad": bad, "crc": crc32(content)})
        self.bad[shard.number] = bad

    def part(self, number: int) -> pa.RecordBatch:
        """The answers for a finished shard."""
        with pa.memory_map(str(self._part(number))) as file:
            return unpack_batch(file)

    def remove(self) -> None:
        """All of it. Where open files cannot be removed, as on Windows, the lock goes when it is let go."""
        if HAS_POSIX_LOCKS:
            shutil.rmtree(self.folder)
        else:
            self._clear()

    def begin(self, identity: dict[str, Any]) -> None:
        """Forget whatever is there."""
        self._clear()
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
        if not manifest.exists():
            return []
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

    def _clear(self) -> None:
        """Remove all but the lock, and the manifest first: without it no part counts."""
        (self.folder / MANIFEST).unlink(missing_ok=True)
        for old in self.folder.iterdir():
            if old.name != LOCK:
                old.unlink()

    def _part(self, number: int) -> Path:
        return self.folder / f"{number:08d}.arrow"

    def _note(self, entry: dict[str, Any]) -> None:
        with (self.folder / MANIFEST).open("a") as file:
            file.write(json.dumps(entry) + "\n")


@contextmanager
def unfinished(output: Path, identity: dict[str, Any], restart: bool = False) -> Iterator[UnfinishedOutput]:
    """The unfinished run that leads to `output`: one that was interrupted, or a new one. It is ours alone."""
    folder = output.with_name(output.name + SUFFIX)
    folder.mkdir(exist_ok=True)
    try:
        with (folder / LOCK).open("a") as lock:
            if not try_lock(lock):
                raise InvalidInput(f"Only one run at a time may write {output}; another one does.")
            run = UnfinishedOutput(folder)
            (run.begin if restart else run.go_on)(identity)
            try:
                yield run
            except BaseException:
                if not run.bad:  # there is nothing to go on with
                    run.remove()
                raise
    finally:
        if not HAS_POSIX_LOCKS:
            _remove_lock(folder)


def _remove_lock(folder: Path) -> None:
    """Remove a lock that is all there is, with its folder; Windows refuses that while another run has it."""
    if [each.name for each in folder.iterdir()] == [LOCK]:
        with suppress(OSError):
            (folder / LOCK).unlink()
            folder.rmdir()


def _check_same(folder: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    now = json.loads(json.dumps(now))
    strange = [key for key in {**before, **now} if before.get(key) != now.get(key)]
    if strange:
        raise InvalidInput(
            f"{folder} must be of the same command to go on; it had other {', '.join(strange)}. `restart` begins anew."
        )


class Merging:
    """A file in the folder of an unfinished run that takes the parts in order, as far as they are there."""

    def __init__(self, run: UnfinishedOutput, output: Path, schema: pa.Schema) -> None:
        self._run, self._output, self._next = run, output, 0
        self._unmatched: list[Unmatched] = []
        self.unlisted: dict[str, list[str]] = {}  # categories so far that count as gaps, by the name of the column
        self._file = run.folder / f"merged{output.suffix}"
        self._sink = self._file.open("wb")
        self._writer = writer(output.suffix, schema, self._sink)

    def __enter__(self) -> "Merging":
        return self

    def __exit__(self, *_: object) -> None:
        if not self._sink.closed:
            with open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), self._sink.fileno())  # what writers write last, which might not fit on disk
            self._writer.close()
            self._sink.close()

    def advance(self, most: int) -> None:
        """Take the next parts, as far as they are there."""
        for _ in range(most):
            if self._next not in self._run.bad:
                return
            batch = self._run.part(self._next)
            self._writer.write_batch(batch)
            self._unmatched.append(read_unmatched(batch))
            for name, texts in read_unlisted(batch).items():
                self.unlisted[name] = list(dict.fromkeys([*self.unlisted.get(name, ()), *texts]))
            self._next += 1

    @property
    def unmatched(self) -> Unmatched:
        """The rows so far whose asker is no agent."""
        return Unmatched.joined(self._unmatched)

    def finish(self, count: int) -> None:
        """Take what is left of `count` parts, and give the file its name."""
        self.advance(count)
        if self._next != count:
            raise DeGrootError(f"The engine must answer all shards; number {self._next} of {count} was not answered.")
        self._writer.close()
        self._sink.close()
        publish(self._file, self._output)
