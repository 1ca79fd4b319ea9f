"""Files that can tell whether they are whole: records as JSON and other content, each with its SHA-256."""

import errno
import json
from collections.abc import Mapping
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

from degroot.exceptions import DeGrootError
from degroot.files.atomic import save_durably

KEY = "sha256"  # of a record's checksum
DIGEST_BYTES = 32
LOST_FILE_ERRORS = (errno.ENOENT, errno.EIO)  # the content is gone; other errors may pass, and are no damage


class DamagedFile(DeGrootError):
    """A file is not as it was written."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"{self.path} must be as it was written; {self.reason}."


def digest_file(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return file_digest(file, KEY).hexdigest()


def save_record(path: Path, told: Mapping[str, Any], *, mode: int = 0o666) -> None:
    """Write a record as JSON with its checksum, all of it or nothing; it is on the disk when this returns."""
    save_durably(path, encode_record(told), mode=mode)


def read_record(path: Path) -> dict[str, Any]:
    """What `save_record` wrote. Raises OSError where that cannot be read now, and DamagedFile where it is lost."""
    try:
        return decode_record(path.read_bytes(), path)
    except OSError as error:
        if error.errno not in LOST_FILE_ERRORS:
            raise
        raise DamagedFile(path, str(error.strerror)) from error


def encode_record(told: Mapping[str, Any]) -> bytes:
    """A record as JSON with its checksum."""
    return json.dumps({**told, KEY: _digest_record(told)}).encode()


def decode_record(content: bytes, path: Path) -> dict[str, Any]:
    """The record in these bytes, which are from that file."""
    try:
        told = json.loads(content)
        digest = told.pop(KEY)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        raise DamagedFile(path, "it is no record with a checksum") from None
    if digest != _digest_record(told):
        raise DamagedFile(path, "its checksum does not match")
    record: dict[str, Any] = told
    return record


def seal(content: bytes) -> bytes:
    """Content with its checksum after it."""
    return content + sha256(content).digest()


def read_sealed(path: Path) -> bytes:
    """The content of a file that holds what `seal` made."""
    sealed = path.read_bytes()
    content = sealed[:-DIGEST_BYTES]
    if seal(content) != sealed:
        raise DamagedFile(path, "its checksum does not match")
    return content


def _digest_record(told: Mapping[str, Any]) -> str:
    return sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
