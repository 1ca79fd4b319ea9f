"""ONNX files looked into without onnxruntime: their operators, constants, trees and labels.

A file may come from somebody else. Nothing of it runs here. Each message is read by itself, its parts are bytes until
they are looked at, and no tensor is larger than its numbers in the file: a file that is made for it takes some 20 times
its size in memory, others hardly more than their size.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.exceptions import InvalidInput, describe_error
from degroot.models.onnx_hazards import FixedTensor, Flow, GraphInput, Step, describe_hazard
from degroot.models.onnx_trees import TREES, TreeNode

FIELDS = {  # message: field, number, type; an asterisk: any number of them
    "Model": [("graph", 7, "Graph"), ("training_info", 20, "Training*"), ("functions", 25, "Function*")],
    "Training": [("initialization", 1, "Graph"), ("algorithm", 2, "Graph")],
    "Function": [("node", 7, "Node*"), ("attribute_proto", 11, "Attribute*")],
    "Graph": [
        ("node", 1, "Node*"), ("initializer", 5, "Tensor*"), ("sparse_initializer", 15, "Sparse*"),
        ("input", 11, "Value*"), ("output", 12, "Value*"),
    ],
    "Node": [
        ("input", 1, "bytes*"), ("output", 2, "bytes*"), ("op_type", 4, "bytes"), ("attribute", 5, "Attribute*"),
        ("domain", 7, "bytes"),
    ],
    "Attribute": [
        ("name", 1, "bytes"), ("i", 3, "int64"), ("t", 5, "Tensor"), ("g", 6, "Graph"), ("floats", 7, "float*"),
        ("ints", 8, "int64*"),
        ("strings", 9, "bytes*"), ("tensors", 10, "Tensor*"), ("graphs", 11, "Graph*"),
        ("sparse_tensor", 22, "Sparse"), ("sparse_tensors", 23, "Sparse*"),
    ],
    "Tensor": [
        ("dims", 1, "int64*"), ("data_type", 2, "int32"), ("float_data", 4, "float*"), ("int32_data", 5, "int32*"),
        ("int64_data", 7, "int64*"), ("name", 8, "bytes"), ("raw_data", 9, "bytes"), ("double_data", 10, "double*"),
        ("external_data", 13, "bytes*"), ("data_location", 14, "int32"),
    ],
    "Sparse": [("values", 1, "Tensor"), ("indices", 2, "Tensor"), ("dims", 3, "int64*")],
    "Value": [("name", 1, "bytes"), ("type", 2, "Type")],
    "Type": [("tensor_type", 1, "TensorType")],
    "TensorType": [("elem_type", 1, "int32"), ("shape", 2, "Shape")],
    "Shape": [("dim", 1, "Dim*")],
    "Dim": [("dim_value", 1, "int64")],
}  # fmt: skip
MOST_MESSAGES = 200_000  # in a file; large networks have some ten thousand
MOST_DIMS = 32
DENSER = 16  # how many times the file's size a sparse tensor may have when it is dense
ORT_FORMAT = b"ORTM"  # bytes 4 to 8 of onnxruntime's own format, which it reads in place of ONNX
WHOLE = "An ONNX file must be whole; "

ATTRIBUTES = ("classlabels_strings", "classlabels_int64s", "classlabels_ints")
ZIP_MAP = "ZipMap"
FLOATS = {1: ("<f4", "float_data"), 11: ("<f8", "double_data"), 10: ("<f2", "int32_data")}  # halves: bits in 32
BYTES, INT64 = (2, 3, 9), 7  # data types: uint8, int8 and bool; and int64


@dataclass(frozen=True, eq=False)
class OnnxGraph:
    """What is in an ONNX file: in its graph, in graphs within the graph and in its functions."""

    operators: frozenset[str]  # with their domain, unless it is the default one
    external_data: bool  # some tensor is in another file
    functions: bool  # some operators are made in the file
    sparse: bool  # some tensor is sparse
    constants: tuple[NDArray[Any], ...]  # tensors of floats, but for those of trees; sparse ones as dense ones
    lists: tuple[NDArray[Any], ...]  # floats in attributes, (n,), but for those of trees
    trees: tuple[TreeNode, ...]
    flow: Flow  # of the outermost graph, without its trees


def inspect_graph(content: bytes) -> OnnxGraph:
    """What is in an ONNX file. Nothing runs, and no tensor is made larger than the file justifies."""
    if content[4:8] == ORT_FORMAT:
        raise InvalidInput("An ONNX file must hold ONNX; this one is in the format of onnxruntime.")
    survey = _Survey(len(content))
    survey.look_into(content)
    return OnnxGraph(
        operators=frozenset(survey.operators),
        external_data=survey.external_data,
        functions=survey.functions,
        sparse=survey.sparse,
        constants=tuple(survey.constants),
        lists=tuple(survey.lists),
        trees=tuple(survey.trees),
        flow=survey.flow,
    )


def find_hazard(content: bytes) -> str:
    """Why the file must not run inside a node, to follow "it"; empty if it may."""
    return describe_hazard(inspect_graph(content))


def check_no_external_data(content: bytes) -> None:
    """Refuse a file whose tensors are in other files, which would be read from this machine."""
    if inspect_graph(content).external_data:
        raise InvalidInput("An ONNX file must hold all of its tensors; some of them are in other files.")


def find_labels(content: bytes, kind: type, width: int | None) -> list[str] | list[int] | None:
    """The labels of this kind of the last step that has any: ZipMap's, or else as many as there are probabilities."""
    nodes = [
        _parse("Node", node)
        for _, _, graph in _parts("Model", _parse("Model", content), only="graph")
        for node in _parse("Graph", graph).node
    ]
    steps = [(_text(node.op_type), _labels(node)) for node in nodes]
    found = [(step, labels) for step, labels in steps if labels and isinstance(labels[0], kind)]
    zipped = [labels for step, labels in found if step == ZIP_MAP]
    fitting = zipped or [labels for _, labels in found if width is None or len(labels) == width]
    return fitting[-1] if fitting else None


def with_outputs(content: bytes, names: Sequence[str]) -> bytes:
    """The same file, whose graph also gives these of its tensors."""
    messages = _messages()
    values = [messages["Value"](name=name.encode()).SerializeToString() for name in names]
    graph = messages["Graph"](output=values).SerializeToString()
    more: bytes = messages["Model"](graph=[graph]).SerializeToString()
    return content + more  # what follows a message adds to it


class _Survey:
    """What has been met so far."""

    def __init__(self, size: int) -> None:
        self.size = size  # of the file, in bytes
        self.messages = 0
        self.operators: set[str] = set()
        self.external_data = self.functions = self.sparse = False
        self.constants: list[NDArray[Any]] = []
        self.lists: list[NDArray[Any]] = []
        self.trees: list[TreeNode] = []
        self.flow = Flow()

    def look_into(self, content: bytes) -> None:
        """Look at all messages in the file, each once, from the outside to the inside."""
        waiting: list[tuple[str, bytes, int]] = [("Model", content, 0)]  # and how many graphs it is in
        while waiting:
            kind, part, depth = waiting.pop()
            message = self._read(kind, part)
            if kind == "Node":
                inner = self._look_at_node(message, depth)
            elif kind == "Tensor":
                inner = self._look_at_tensor(message)
            elif kind == "Sparse":
                inner = self._look_at_sparse(message)
            else:
                self.functions |= kind == "Function"
                if kind == "Graph" and depth == 0:
                    self._look_at_outermost(message)
                self._look_at_lists([message] if kind == "Attribute" else [])  # a function's own
                self._count(sum(len(getattr(message, field)) for field, _, what in FIELDS[kind] if _is_message(what)))
                inner = list(_parts(kind, message))
            deeper = depth + (kind in ("Graph", "Function", "Training"))
            waiting.extend((kind, part, deeper) for _, kind, part in inner)
            self._count(len(waiting))

    def _read(self, kind: str, content: bytes) -> Any:
        self.messages += 1
        self._count(0)
        return _parse(kind, content)

    def _count(self, waiting: int) -> None:
        if self.messages + waiting > MOST_MESSAGES:
            raise InvalidInput(f"An ONNX file must have at most {MOST_MESSAGES:,} parts; this one has more.")

    def _look_at_outermost(self, graph: Any) -> None:
        """Remember the names and shapes of what the graph takes and holds."""
        self._count(len(graph.input) + len(graph.initializer))
        for value in (_parse("Value", part) for part in graph.input):
            kind = _parse("TensorType", _join("Type", "tensor_type", b"".join(value.type)))
            dims = _parse("Shape", b"".join(kind.shape)).dim
            self._count(len(dims))
            shape = tuple(_parse("Dim", part).dim_value for part in dims)
            self.flow.inputs[_text(value.name)] = GraphInput(kind.elem_type, shape)
        for tensor in (_parse("Tensor", part) for part in graph.initializer):
            self.flow.fixed[_text(tensor.name)] = FixedTensor(tuple(tensor.dims), _find_least(tensor))

    def _look_at_node(self, node: Any, depth: int) -> list[tuple[str, str, bytes]]:
        name = _operator(node)
        self.operators.add(name)
        self._count(len(node.attribute))
        attributes = [self._read("Attribute", part) for part in node.attribute]
        parts = [part for attribute in attributes for part in _parts("Attribute", attribute)]
        if name not in TREES:
            self._look_at_lists(attributes)
            if depth == 1:
                told = {_text(each.name): _plain(each) for each in attributes}
                inputs, outputs = (tuple(map(_text, names)) for names in (node.input, node.output))
                self.flow.steps.append(Step(name, inputs, outputs, told))
            return parts
        told = {_text(attribute.name): self._values(attribute) for attribute in attributes}
        features = _text(node.input[0]) if node.input else ""
        self.trees.append(TreeNode(name, features, depth > 1, told))
        return [part for part in parts if part[1] != "Tensor"]

    def _look_at_lists(self, attributes: Sequence[Any]) -> None:
        self.lists += [_numbers(each.floats, np.float32) for each in attributes if each.floats]

    def _values(self, attribute: Any) -> Any:
        """What an attribute of trees holds: texts or numbers, in a list or in a tensor."""
        tensors = [self._read("Tensor", part) for part in (b"".join(attribute.t), *attribute.tensors)]
        held = [array.ravel() for array in map(self._array, tensors) if array is not None]
        held += [
            np.frombuffer(tensor.raw_data, np.uint8) if tensor.raw_data else _numbers(tensor.int32_data, np.int32)
            for tensor in tensors
            if tensor.data_type in BYTES
        ]
        return held[0] if held else _plain(attribute)

    def _look_at_tensor(self, tensor: Any) -> list[tuple[str, str, bytes]]:
        array = self._array(tensor)
        if array is not None:
            self.constants.append(array)
        return []

    def _array(self, tensor: Any) -> NDArray[Any] | None:
        """The tensor's floats; None where it has none, or has them elsewhere."""
        self.flow.data_types.add(tensor.data_type)
        if tensor.data_location or tensor.external_data:
            self.external_data = True
            return None
        shape = _shape(tensor.dims)
        if tensor.data_type not in FLOATS:
            return None
        kind, field = FLOATS[tensor.data_type]
        if tensor.raw_data:
            _check_whole(len(tensor.raw_data) == math.prod(shape) * np.dtype(kind).itemsize)
            values = np.frombuffer(tensor.raw_data, kind)
        else:
            numbers = getattr(tensor, field)
            _check_whole(len(numbers) == math.prod(shape))
            values = _numbers(numbers, np.int32 if field == "int32_data" else kind)
            values = values.astype(np.uint16).view(kind) if field == "int32_data" else values
        return values.reshape(shape) if len(values) else None

    def _look_at_sparse(self, sparse: Any) -> list[tuple[str, str, bytes]]:
        self.sparse = True
        values, indices = (self._read("Tensor", b"".join(part)) for part in (sparse.values, sparse.indices))
        numbers, shape = self._array(values), _shape(sparse.dims)
        self.external_data |= bool(indices.data_location or indices.external_data)
        if self.external_data or numbers is None:
            return []
        if math.prod(shape) * numbers.itemsize > DENSER * self.size:
            raise InvalidInput(
                f"A sparse tensor of an ONNX file must not have more than {DENSER} times the size of the file when it "
                f"is dense; one has the shape {shape}."
            )
        places = np.frombuffer(indices.raw_data, "<i8") if indices.raw_data else _numbers(indices.int64_data, np.int64)
        dense = np.zeros(math.prod(shape), numbers.dtype)
        if len(places) == numbers.size * len(shape) and len(shape) > 1:
            _check_whole(bool((places.reshape(-1, len(shape)) < shape).all() and (places >= 0).all()))
            places = np.ravel_multi_index(tuple(places.reshape(-1, len(shape)).T), shape)
        _check_whole(indices.data_type == INT64 and len(places) == numbers.size)
        _check_whole(bool((places >= 0).all() and (places < len(dense)).all()))
        dense[places] = numbers.ravel()
        self.constants.append(dense.reshape(shape))
        return []


def _operator(node: Any) -> str:
    domain, name = _text(node.domain), _text(node.op_type)
    return name if domain in ("", "ai.onnx") else f"{domain}.{name}"


def _plain(attribute: Any) -> Any:
    """The texts or numbers of an attribute, or its number."""
    if attribute.strings:
        return [_text(text) for text in attribute.strings]
    if attribute.ints:
        return _numbers(attribute.ints, np.int64)
    return attribute.i if attribute.HasField("i") else _numbers(attribute.floats, np.float32)


def _find_least(tensor: Any) -> int | None:
    """The least of a tensor's int64 numbers; None where it has none."""
    if tensor.data_type != INT64 or len(tensor.raw_data) % 8:
        return None
    numbers = np.frombuffer(tensor.raw_data, "<i8") if tensor.raw_data else _numbers(tensor.int64_data, np.int64)
    return int(numbers.min()) if len(numbers) else None


def _join(kind: str, field: str, content: bytes) -> bytes:
    """The message in a field of a message, whose parts add up."""
    return b"".join(getattr(_parse(kind, content), field))


def _labels(node: Any) -> list[str] | list[int]:
    for attribute in (_parse("Attribute", part) for part in node.attribute):
        if _text(attribute.name) in ATTRIBUTES:
            texts: list[str] = [text.decode() for text in attribute.strings]
            numbers: list[int] = list(attribute.ints)
            if texts or numbers:
                return texts or numbers
    return []


def _parts(kind: str, message: Any, only: str | None = None) -> Iterator[tuple[str, str, bytes]]:
    """The messages in a message: field, kind and content. What stands several times for one is one, joined."""
    for field, _, what in FIELDS[kind]:
        inner, many = what.rstrip("*"), what.endswith("*")
        if not _is_message(what) or only not in (None, field):
            continue
        contents = getattr(message, field)
        for content in contents if many or not contents else (b"".join(contents),):
            yield field, inner, content


def _is_message(what: str) -> bool:
    return what.rstrip("*") in FIELDS and what != "Value*"  # of which only those of the outermost graph are read


def _parse(kind: str, content: bytes) -> Any:
    from google.protobuf.message import DecodeError

    message = _messages()[kind]()
    try:
        message.ParseFromString(content)
    except DecodeError as error:
        raise InvalidInput(f"{WHOLE}{describe_error(error)}.") from error
    return message


@cache
def _messages() -> dict[str, Any]:
    """The classes of messages. Messages in messages are bytes, which cost no more memory than the file."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    Field = descriptor_pb2.FieldDescriptorProto
    kinds = {
        "bytes": Field.TYPE_BYTES, "int64": Field.TYPE_INT64, "int32": Field.TYPE_INT32, "float": Field.TYPE_FLOAT,
        "double": Field.TYPE_DOUBLE,
    }  # fmt: skip
    file = descriptor_pb2.FileDescriptorProto(name="degroot/onnx.proto", package="degroot.onnx")
    for message, described in FIELDS.items():
        made = file.message_type.add(name=message)
        for name, number, what in described:
            kind = what.rstrip("*")
            label = Field.LABEL_REPEATED if what.endswith("*") or kind in FIELDS else Field.LABEL_OPTIONAL
            made.field.add(name=name, number=number, label=label, type=kinds.get(kind, Field.TYPE_BYTES))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"degroot.onnx.{name}")) for name in FIELDS
    }


def _numbers(values: Any, kind: Any) -> NDArray[Any]:
    return np.fromiter(values, kind, len(values))


def _shape(dims: Any) -> tuple[int, ...]:
    _check_whole(len(dims) <= MOST_DIMS and all(size >= 0 for size in dims))
    return tuple(dims)


def _check_whole(fits: bool) -> None:
    if not fits:
        raise InvalidInput(f"{WHOLE}the numbers of a tensor do not fit its shape.")


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")
