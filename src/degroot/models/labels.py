"""The labels of a classifier in an ONNX file, which the runtime does not tell.

An ONNX file is a protocol buffer. Only the few fields on the way to the labels are described here; readers pass over
the others.
"""

from functools import cache
from typing import Any

ATTRIBUTES = ("classlabels_strings", "classlabels_int64s", "classlabels_ints")
ZIP_MAP = "ZipMap"
FIELDS = {  # message: field, number, type
    "Attribute": [("name", 1, "string"), ("ints", 8, "int64s"), ("strings", 9, "bytes")],
    "Node": [("op_type", 4, "string"), ("attribute", 5, "Attribute")],
    "Graph": [("node", 1, "Node")],
    "Model": [("graph", 7, "Graph")],
}


def find_labels(content: bytes, kind: type, width: int | None) -> list[str] | list[int] | None:
    """The labels of this kind of the last step that has any: ZipMap's, or else as many as there are probabilities."""
    model = _messages()()
    model.ParseFromString(content)
    steps = [(node.op_type, _labels(node)) for graph in model.graph for node in graph.node]
    found = [(step, labels) for step, labels in steps if labels and isinstance(labels[0], kind)]
    zipped = [labels for step, labels in found if step == ZIP_MAP]
    fitting = zipped or [labels for _, labels in found if width is None or len(labels) == width]
    return fitting[-1] if fitting else None


def _labels(node: Any) -> list[str] | list[int]:
    for attribute in node.attribute:
        if attribute.name in ATTRIBUTES:
            texts: list[str] = [text.decode() for text in attribute.strings]
            numbers: list[int] = list(attribute.ints)
            if texts or numbers:
                return texts or numbers
    return []


@cache
def _messages() -> Any:
    """The class of the message that is the file."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    Field = descriptor_pb2.FieldDescriptorProto
    kinds = {"string": Field.TYPE_STRING, "bytes": Field.TYPE_BYTES, "int64s": Field.TYPE_INT64}
    file = descriptor_pb2.FileDescriptorProto(name="degroot/onnx.proto", package="degroot.onnx")
    for message, described in FIELDS.items():
        made = file.message_type.add(name=message)
        for name, number, kind in described:
            label = Field.LABEL_OPTIONAL if kind == "string" else Field.LABEL_REPEATED
            field = made.field.add(name=name, number=number, label=label, type=kinds.get(kind, Field.TYPE_MESSAGE))
            if kind not in kinds:
                field.type_name = f".degroot.onnx.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("degroot.onnx.Model"))
