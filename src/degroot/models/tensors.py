"""Tensors of the Open Inference Protocol: what is in an output, raw or typed."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.tables import Complaint

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


def told_values(told: Any, place: int, complaint: Complaint) -> NDArray[Any]:
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
