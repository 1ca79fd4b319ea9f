"""Bundles: a model's file with a manifest, signed by its owner for one recipient."""

import hashlib
import json
import time
from collections.abc import Container, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from degroot.exceptions import InvalidInput
from degroot.models.exporting import COPYABLE
from degroot.models.formats import version_of
from degroot.node.protocol.codec import Malformed
from degroot.node.protocol.v3 import collective_pb2 as wire
from degroot.node.tls.signing import COPY_CONTEXT, Signer, check_signature

SUFFIX = ".degroot"  # of a bundle in a file
OVERHEAD_BYTES = 1 << 20  # of a bundle beside the model's file, at most
LATEST_SECONDS = 1e11  # since 1970, a time that can be written as a date


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle whose signature holds."""

    manifest: wire.Manifest
    content: bytes  # the model's file

    @property
    def owner(self) -> str:
        """Whose model it is."""
        return self.manifest.owner

    @property
    def version(self) -> str:
        """Of the model."""
        return self.manifest.version

    @property
    def labels(self) -> tuple[Any, ...] | None:
        """Of classes 0, 1, …, where the file knows numbers only."""
        return tuple(json.loads(self.manifest.labels)) if self.manifest.labels else None

    @property
    def issued(self) -> str:
        """When it was signed, in words."""
        return f"{datetime.fromtimestamp(self.manifest.issued, UTC):%Y-%m-%d %H:%M:%S} UTC"


def make_bundle(
    description: wire.Description,
    recipient: str,
    suffix: str,
    content: bytes,
    labels: Sequence[Any] | None,
    sign: Signer,
) -> bytes:
    """A model's file, signed with the owner's key for one recipient. `description`: what the owner says of itself."""
    digest = hashlib.sha256(content)
    manifest = wire.Manifest(
        owner=description.name, recipient=recipient, version=version_of(content), issued=time.time(),
        suffix=suffix, digest=digest.digest(), size=len(content), labels="" if labels is None else json.dumps(labels),
        n_features=description.n_features, feature_names=description.feature_names, outputs=description.outputs,
        classes=description.classes, schema_digest=description.schema_digest,
        optional_columns=description.optional_columns, takes_gaps=description.takes_gaps,
    )  # fmt: skip
    signed = manifest.SerializeToString()
    signature, certificate = sign(COPY_CONTEXT, signed)
    bundle = wire.Bundle(manifest=signed, content=content, signature=signature, certificate=certificate)
    return bytes(bundle.SerializeToString())


def open_bundle(
    encoded: bytes, ca: Path, recipient: str, *, allow_expired: bool = False, revoked: Container[int] = ()
) -> Bundle:
    """What is in a bundle for this recipient, if its owner, with a certificate of the CA, has signed it.

    `allow_expired`: it was opened before, so that the owner's certificate may have expired since. `revoked`: serial
    numbers of certificates that sign nothing new.
    """
    bundle, manifest = wire.Bundle(), wire.Manifest()
    try:
        bundle.ParseFromString(encoded)
        if len(encoded) - len(bundle.content) > OVERHEAD_BYTES:
            raise Malformed(f"A bundle must have at most {OVERHEAD_BYTES} bytes beside the model's file; it has more.")
        bundle.DiscardUnknownFields()
        if bundle.ByteSize() != len(encoded):
            raise Malformed("A bundle must hold nothing but what its owner has put into it; it holds more.")
        manifest.ParseFromString(bundle.manifest)
    except DecodeError as error:
        raise Malformed("A bundle must be one that `degroot node export` or a node has made; this is none.") from error
    check_signature(
        COPY_CONTEXT, bundle.manifest, bundle.signature, bundle.certificate, ca, manifest.owner,
        allow_expired=allow_expired, revoked=revoked,
    )  # fmt: skip
    if manifest.recipient != recipient:
        raise Malformed(f"A bundle must be signed for {recipient!r}; it is for {manifest.recipient[:100]!r}.")
    if not 0.0 <= manifest.issued < LATEST_SECONDS:
        raise Malformed(f"A bundle must say when it was signed; it says {manifest.issued}.")
    _check_content(manifest, bundle.content)
    return Bundle(manifest, bundle.content)


def _check_content(manifest: wire.Manifest, content: bytes) -> None:
    """The file is the one that was signed, and of a kind that runs no code of its own."""
    digest = hashlib.sha256(content)
    if digest.digest() != manifest.digest or len(content) != manifest.size:
        raise Malformed("A bundle must hold the file whose digest was signed; it holds another.")
    if manifest.version != version_of(content):
        raise Malformed("A bundle must name its model's version by the file's digest; it names another.")
    if manifest.suffix not in COPYABLE:
        raise Malformed(f"A copied model must be one of {', '.join(COPYABLE)}; it is {manifest.suffix[:20]!r}.")
    if manifest.labels:
        _check_labels(manifest.labels)


def _check_labels(text: str) -> None:
    try:
        labels = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Malformed("The labels of a bundle must be a list in JSON; they are not.") from error
    if not isinstance(labels, list) or not all(isinstance(each, str | int | float | bool) for each in labels):
        raise Malformed("The labels of a bundle must be a list of texts or numbers; they are not.")


def read_bundle(path: Path, most_bytes: int) -> bytes:
    """A bundle in a file, if it is not too large."""
    try:
        if path.stat().st_size > most_bytes + OVERHEAD_BYTES:
            raise InvalidInput(
                f"A copied model must have at most {most_bytes} bytes (limits.copy_bytes); {path} has more."
            )
        return path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"A bundle must be a file that can be read; {path}: {error.strerror}.") from error
