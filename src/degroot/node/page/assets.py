"""Assets: the page's styles and scripts, read once, under an address that changes when one of them does."""

import gzip
import hashlib
import mimetypes
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

from fastapi import Request, Response

MIMES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
FOREVER, ANEW = "public, max-age=31536000, immutable", "no-cache"
SMALL = 500  # bytes that are not worth packing


@dataclass(frozen=True, slots=True)
class Asset:
    """One file."""

    content: bytes
    packed: bytes | None
    kind: str

    @classmethod
    def read(cls, file: Traversable) -> "Asset":
        """What the file holds."""
        content = file.read_bytes()
        suffix = f".{file.name.rpartition('.')[2]}"
        kind = MIMES.get(suffix) or mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        packed = gzip.compress(content, 9, mtime=0) if len(content) > SMALL else None
        return cls(content, packed if packed is not None and len(packed) < len(content) else None, kind)


class Assets:
    """All files, by name. Nothing else can be asked for."""

    def __init__(self) -> None:
        self._by_name = {name: Asset.read(file) for name, file in _below(files(__package__).joinpath("static"))}
        digest = hashlib.sha256()
        for name, asset in sorted(self._by_name.items()):
            digest.update(name.encode() + b"\0" + asset.content)
        self.version = digest.hexdigest()[:12]

    @property
    def address(self) -> str:
        """Where they are, as long as none changes."""
        return f"/static/{self.version}"

    def response(self, path: str, request: Request) -> Response | None:
        """The file at a path below ``/static/``, with or without the version; None: there is none."""
        version, _, name = path.partition("/")
        kept = version == self.version
        asset = self._by_name.get(name if kept else path)
        if asset is None:
            return None
        headers = {"Cache-Control": FOREVER if kept else ANEW, "Vary": "Accept-Encoding"}
        if asset.packed is not None and "gzip" in request.headers.get("accept-encoding", ""):
            return Response(asset.packed, media_type=asset.kind, headers=headers | {"Content-Encoding": "gzip"})
        return Response(asset.content, media_type=asset.kind, headers=headers)


def _below(folder: Traversable, prefix: str = "") -> list[tuple[str, Traversable]]:
    found: list[tuple[str, Traversable]] = []
    for each in folder.iterdir() if folder.is_dir() else ():
        name = f"{prefix}{each.name}"
        found += _below(each, f"{name}/") if each.is_dir() else [(name, each)]
    return found
