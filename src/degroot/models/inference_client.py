"""Models that are served: Triton, MLServer, KServe, or another node, over the Open Inference Protocol v2."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.compute.tables import ErrorFactory
from degroot.exceptions import InvalidInput

BYTES = "BYTES"
FLOATS: dict[str, np.dtype[Any]] = {"FP32": np.dtype("<f4"), "FP64": np.dtype("<f8")}
NUMBERS: dict[str, np.dtype[Any]] = FLOATS | {
    "FP16": np.dtype("<f2"), "BOOL": np.dtype("?"),
    "INT8": np.dtype("<i1"), "INT16": np.dtype("<i2"), "INT32": np.dtype("<i4"), "INT64": np.dtype("<i8"),
    "UINT8": np.dtype("<u1"), "UINT16": np.dtype("<u2"), "UINT32": np.dtype("<u4"), "UINT64": np.dtype("<u8"),
}  # fmt: skip
CONTENTS = {  # where typed values of a datatype are; there is no place for FP16
    "BOOL": "bool_contents", "INT8": "int_contents", "INT16": "int_contents", "INT32": "int_contents",
    "INT64": "int64_contents", "UINT8": "uint_contents", "UINT16": "uint_contents", "UINT32": "uint_contents",
    "UINT64": "uint64_contents", "FP32": "fp32_contents", "FP64": "fp64_contents", BYTES: "bytes_contents",
}  # fmt: skip
LENGTH = 4  # bytes before each text


def told_values(told: Any, place: int, complaint: ErrorFactory) -> NDArray[Any]:
    """The numbers or texts of the output at this place of a ``ModelInferResponse``, flat."""
    output = told.outputs[place]
    if output.datatype not in (*NUMBERS, BYTES):
        raise complaint(f"it gave {output.datatype}")
    if not told.raw_output_contents:
        return _typed(output)
    if place >= len(told.raw_output_contents):
        raise complaint("it did not give every output that it lists")
    raw: bytes = told.raw_output_contents[place]
    if output.datatype == BYTES:
        return _decoded(_texts(raw))
    kind = NUMBERS[output.datatype]
    if len(raw) % kind.itemsize:
        raise complaint(f"it gave {len(raw)} bytes of {output.datatype}")
    return np.frombuffer(raw, dtype=kind)


def _typed(output: Any) -> NDArray[Any]:
    values = getattr(output.contents, CONTENTS[output.datatype]) if output.datatype in CONTENTS else ()
    return _decoded(iter(values)) if output.datatype == BYTES else np.array(values, dtype=NUMBERS[output.datatype])


def _texts(raw: bytes) -> Iterator[bytes]:
    start = 0
    while start + LENGTH <= len(raw):
        end = start + LENGTH + int.from_bytes(raw[start : start + LENGTH], "little")
        yield raw[start + LENGTH : end]
        start = end


def _decoded(texts: Iterator[bytes]) -> NDArray[Any]:
    return np.array([text.decode(errors="replace") for text in texts], dtype=np.str_)


CHUNK_ROWS = 1000
CHUNK_BYTES = 1 << 21  # half of what a server takes by default
REPLY_BYTES = 1 << 26
VERSION_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Description:
    """What a server says of its model."""

    input: str
    datatype: str  # of the input
    features: int | None
    output: str | None  # None: the first one there is
    version: str
    told: bool = True  # whether the version is the server's own word, not a digest of what it says


class RemoteModel:
    """A model at an address, asked for the rows in chunks.

    Parameters
    ----------
    address : str
        ``"host:port"``.
    name, version : str
        What the server calls it; without a version, the server chooses.
    ca, certificate, key : path, optional
        For a server with TLS: whose certificates are believed, and who is asking.
    deadline : float
        Seconds for each chunk.
    """

    def __init__(
        self,
        address: str,
        name: str,
        version: str | None = None,
        *,
        ca: Path | None = None,
        certificate: Path | None = None,
        key: Path | None = None,
        deadline: float = 10.0,
    ) -> None:
        self.address, self.name, self.version = address, name, version
        self.ca, self.certificate, self.key = ca, certificate, key
        self.deadline = deadline

    def __repr__(self) -> str:
        return f"RemoteModel({self.address!r}, {self.name!r})"

    @property
    def n_features_in_(self) -> int | None:
        """How many features it takes, if the server says so."""
        return self._description.features

    def predict(self, X: Any) -> NDArray[Any]:
        """What the model says of each row: (n,), or (n, Q) for several outputs."""
        rows, described = np.asarray(X), self._description
        if described.features is not None and rows.shape[1] != described.features:
            raise self._error(f"takes {described.features} features; the rows have {rows.shape[1]}")
        chunks = _chunks(np.ascontiguousarray(rows, dtype=FLOATS[described.datatype]))
        return np.concatenate([self._answer(chunk, described) for chunk in chunks])

    def describe(self) -> Description:
        """Ask the server anew what it says of the model."""
        from tritonclient.grpc import service_pb2

        request = service_pb2.ModelMetadataRequest(name=self.name, version=self.version or "")
        told = self._call(self._stub.ModelMetadata, request)
        if len(told.inputs) > 1:
            raise self._error(f"must take one table; it has {len(told.inputs)} inputs")
        if not told.inputs:  # MLServer says nothing unless it is told what to say, and takes any name
            return Description("input-0", "FP64", None, None, *self._version(told))
        taken = told.inputs[0]
        if taken.datatype not in FLOATS:
            raise self._error(f"must take FP32 or FP64; its input {taken.name!r} takes {taken.datatype}")
        width = taken.shape[-1] if len(taken.shape) == 2 and taken.shape[-1] > 0 else None
        return Description(taken.name, taken.datatype, width, _output(told.outputs), *self._version(told))

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    @cached_property
    def _description(self) -> Description:
        return self.describe()

    @cached_property
    def _channel(self) -> Any:
        import grpc

        options = [("grpc.max_receive_message_length", REPLY_BYTES), ("grpc.enable_http_proxy", 0)]
        if self.ca is None:
            return grpc.insecure_channel(self.address, options)
        ca, key, chain = (None if path is None else _content(path) for path in (self.ca, self.key, self.certificate))
        return grpc.secure_channel(self.address, grpc.ssl_channel_credentials(ca, key, chain), options)

    @cached_property
    def _stub(self) -> Any:
        from tritonclient.grpc import service_pb2_grpc

        return service_pb2_grpc.GRPCInferenceServiceStub(self._channel)

    def _answer(self, rows: NDArray[Any], described: Description) -> NDArray[Any]:
        from tritonclient.grpc import service_pb2

        request = service_pb2.ModelInferRequest(model_name=self.name, model_version=self.version or "")
        request.inputs.add(name=described.input, datatype=described.datatype, shape=rows.shape)
        request.raw_input_contents.append(rows.tobytes())
        told = self._call(self._stub.ModelInfer, request)
        if described.told and told.model_version not in ("", described.version):
            raise self._error(f"must answer with version {described.version}; it answered with {told.model_version}")
        names = [output.name for output in told.outputs]
        if not names or (described.output is not None and described.output not in names):
            raise self._error(f"must give {described.output or 'an output'}; it gave {', '.join(names) or 'none'}")
        place = 0 if described.output is None else names.index(described.output)
        values = told_values(told, place, lambda why: self._error(f"must give numbers or labels; {why}"))
        return self._shaped(values, tuple(told.outputs[place].shape), len(rows))

    def _shaped(self, values: NDArray[Any], shape: tuple[int, ...], rows: int) -> NDArray[Any]:
        if len(shape) not in (1, 2) or shape[0] != rows or min(shape) < 1 or values.size != np.prod(shape):
            raise self._error(
                f"must give an answer for each of {rows} rows; it gave {values.size} values of shape {shape}"
            )
        return values if len(shape) == 1 or shape[1] == 1 else values.reshape(shape)

    def _call(self, method: Callable[..., Any], request: Any) -> Any:
        import grpc

        try:
            return method(request, timeout=self.deadline)
        except grpc.RpcError as error:
            raise self._error(f"must answer; {error.code().name}: {str(error.details()).rstrip('.')}") from error

    def _version(self, told: Any) -> tuple[str, bool]:
        """What was asked for, or the newest that the server tells of: then True; or else a digest of what it says."""
        versions = [self.version] if self.version else list(told.versions) or self._listed_versions()
        if versions:
            return max(versions, key=lambda version: (len(version), version)), True  # "10" comes after "9"
        return sha256(told.SerializeToString(deterministic=True)).hexdigest()[:VERSION_DIGITS], False

    def _listed_versions(self) -> list[str]:
        """The versions in the server's list of models, if it has one: MLServer tells them nowhere else."""
        import grpc
        from tritonclient.grpc import service_pb2

        try:
            told = self._call(self._stub.RepositoryIndex, service_pb2.RepositoryIndexRequest(ready=True))
        except InvalidInput as error:
            cause: Any = error.__cause__
            if cause.code() is grpc.StatusCode.UNIMPLEMENTED:
                return []
            raise
        return [str(model.version) for model in told.models if model.name == self.name and model.version]

    def _error(self, message: str) -> InvalidInput:
        return InvalidInput(f"The model {self.name!r} at {self.address} {message}.")


def _chunks(rows: NDArray[Any]) -> Iterator[NDArray[Any]]:
    step = max(1, min(CHUNK_ROWS, CHUNK_BYTES // max(1, rows[:1].nbytes)))
    for start in range(0, max(1, len(rows)), step):
        yield rows[start : start + step]


def _output(outputs: Any) -> str | None:
    """The first output that holds fractions, or else the first one."""
    names: list[str] = [output.name for output in outputs if output.datatype in FLOATS]
    return names[0] if names else outputs[0].name if outputs else None


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidInput(
            f"A certificate or key must be a file that can be read; {path}: {error.strerror}."
        ) from error
