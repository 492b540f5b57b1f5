"""Protobuf messages for tests, described and written by Google's own library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, message_factory, timestamp_pb2

_FIELD = descriptor_pb2.FieldDescriptorProto
PACKAGE = "tidelog.test"
ORDER = f"{PACKAGE}.Order"
LINE = f"{PACKAGE}.Order.Line"


def order_file() -> descriptor_pb2.FileDescriptorProto:
    """A file whose first message is `Note`, and whose second, `Order`, has a field of every kind."""
    file = descriptor_pb2.FileDescriptorProto(name="orders.proto", package=PACKAGE, syntax="proto3")
    file.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/duration.proto"])
    add(file.message_type.add(name="Note"), "text", 1, "string")
    state = file.enum_type.add(name="State")
    for number, name in enumerate(("NEW", "PAID")):
        state.value.add(name=name, number=number)
    order = file.message_type.add(name="Order")
    line = order.nested_type.add(name="Line")
    add(line, "item", 1, "string")
    add(line, "count", 2, "sint32")
    entry = order.nested_type.add(name="LabelsEntry")
    entry.options.map_entry = True
    add(entry, "key", 1, "string")
    add(entry, "value", 2, "int64")
    for number, name in enumerate(
        (
            "int64 id",
            "uint32 small",
            "uint64 large",
            "float ratio",
            "double price",
            "bool open",
            "string name",
            "bytes raw",
        )
    ):
        kind, _, field = name.partition(" ")
        add(order, field, number + 1, kind)
    add(order, "state", 9, f".{PACKAGE}.State", kind=_FIELD.TYPE_ENUM)
    add(order, "first", 10, f".{LINE}")
    add(order, "lines", 11, f".{LINE}", repeated=True)
    add(order, "scores", 12, "fixed32", repeated=True)
    add(order, "labels", 13, f".{ORDER}.LabelsEntry", repeated=True)
    add(order, "at", 14, ".google.protobuf.Timestamp")
    add(order, "took", 15, ".google.protobuf.Duration")
    order.oneof_decl.add(name="paid_by")
    add(order, "card", 16, "string").oneof_index = 0
    add(order, "cash", 17, "int32").oneof_index = 0
    return file


def add(message: Any, name: str, number: int, type_name: str, *, repeated: bool = False, kind: int = 0) -> Any:
    label = _FIELD.LABEL_REPEATED if repeated else _FIELD.LABEL_OPTIONAL
    if type_name.startswith("."):
        return message.field.add(
            name=name, number=number, label=label, type=kind or _FIELD.TYPE_MESSAGE, type_name=type_name
        )
    return message.field.add(name=name, number=number, label=label, type=_FIELD.Type.Value(f"TYPE_{type_name.upper()}"))


def described(*files: descriptor_pb2.FileDescriptorProto) -> bytes:
    """The descriptor set that protoc would write with --include_imports."""
    known = [
        descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
        for module in (timestamp_pb2, duration_pb2)
    ]
    return descriptor_pb2.FileDescriptorSet(file=[*known, *files]).SerializeToString()


def write_descriptor(path: Path, *files: descriptor_pb2.FileDescriptorProto) -> str:
    path.write_bytes(described(*files))
    return str(path)


def message_class(descriptor_set: bytes, name: str) -> Any:
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptor_set).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def full_order(kind: Any) -> Any:
    """An order in which every field says something."""
    order = kind(
        id=-7,
        small=2**32 - 1,
        large=2**64 - 2,
        ratio=0.5,
        price=1.25,
        open=True,
        name="größer",
        raw=b"\x00\xff",
        state=1,
    )
    order.first.count = -3
    order.lines.add(item="a", count=1)
    order.lines.add()
    order.scores.extend([1, 2**32 - 1])
    order.labels["x"] = 5
    order.at.FromJsonString("2026-11-17T01:02:03.000004Z")
    order.took.FromMicroseconds(-1_500_000)
    order.cash = 0
    return order


FULL: dict[str, Any] = {
    "id": -7,
    "small": -1,
    "large": -2,
    "ratio": 0.5,
    "price": 1.25,
    "open": True,
    "name": "größer",
    "raw": bytearray(b"\x00\xff"),
    "state": "PAID",
    "first": {"item": "", "count": -3},
    "lines": [{"item": "a", "count": 1}, {"item": "", "count": 0}],
    "scores": [1, -1],
    "labels": {"x": 5},
    "card": None,
    "cash": 0,
}
"""`full_order` as a row, but for its times."""
