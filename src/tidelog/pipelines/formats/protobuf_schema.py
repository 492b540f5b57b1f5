"""Protobuf messages described by a descriptor set: which message, and which columns Spark has for it.

The columns are those of Spark's own `from_protobuf` with its default options: enums are text, unsigned numbers are the
signed ones of their width, `google.protobuf.Timestamp` and `Duration` are a timestamp and an interval, all can be
null. A message that contains itself has no columns, there as here. Used by the driver and by Spark's Python workers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tidelog.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor
    from pyspark.sql.types import DataType, StructType

COLUMNS_MAX = 10_000
"""Fields of a message with all that it contains; a few small messages inside each other can describe millions."""
POOLS_MAX = 16
"""Descriptor sets that a process keeps; the one used longest ago is forgotten for a new one."""
TIMESTAMP, DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"
_pools: dict[bytes, Any] = {}


def find_message(described: bytes, name: str) -> Descriptor:
    """A message of a serialised FileDescriptorSet by its full name; PipelineError says what there is instead."""
    pool, names = _pool(described)
    try:
        found: Descriptor = pool.FindMessageTypeByName(name.lstrip("."))
    except KeyError:
        raise PipelineError(f"no message {name} in the Protobuf descriptor; there is {', '.join(names)}") from None
    return found


def _pool(described: bytes) -> tuple[Any, list[str]]:
    from google.protobuf import descriptor_pb2, descriptor_pool
    from google.protobuf.message import DecodeError

    identity = hashlib.sha256(described).digest()
    kept = _pools.pop(identity, None)
    if kept is None:
        try:
            files = descriptor_pb2.FileDescriptorSet.FromString(described).file
        except DecodeError:
            files = ()
        if not files or not all(file.name for file in files):
            raise PipelineError("this is no Protobuf descriptor: make it with `protoc --descriptor_set_out`")
        pool = descriptor_pool.DescriptorPool()
        for file in in_order_of_imports(files):
            try:
                pool.Add(file)
            except TypeError as error:
                reason = " ".join(str(error).split())
                raise PipelineError(
                    f"{file.name} of the Protobuf descriptor: {reason} (made with `protoc --include_imports`?)"
                ) from None
        names = [f"{file.package}.{kind.name}".lstrip(".") for file in files for kind in file.message_type]
        kept = (pool, sorted(name for name in names if not name.startswith("google.protobuf.")))
        while len(_pools) >= POOLS_MAX:
            del _pools[next(iter(_pools))]
    _pools[identity] = kept
    found: tuple[Any, list[str]] = kept
    return found


def in_order_of_imports(files: Iterable[Any]) -> list[Any]:
    """FileDescriptorProtos, each after those it imports; the well-known ones come from the library where missing."""
    by_name = {file.name: file for file in files}
    ordered: dict[str, Any] = {}

    def visit(name: str, above: Sequence[str]) -> None:
        file = by_name.get(name) or _well_known(name)
        if name in ordered or file is None:
            return
        if name in above:
            raise PipelineError(f"{name} of the Protobuf descriptor imports itself")
        for imported in file.dependency:
            visit(imported, [*above, name])
        ordered[name] = file

    for name in by_name:
        visit(name, [])
    return list(ordered.values())


def _well_known(name: str) -> Any:
    """A file of Protobuf's own, which compilers know without being given it; None if it is no such file."""
    from google.protobuf import (
        any_pb2,
        api_pb2,
        descriptor_pb2,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        source_context_pb2,
        struct_pb2,
        timestamp_pb2,
        type_pb2,
        wrappers_pb2,
    )

    modules: tuple[Any, ...] = (any_pb2, api_pb2, descriptor_pb2, duration_pb2, empty_pb2, field_mask_pb2)
    modules += (source_context_pb2, struct_pb2, timestamp_pb2, type_pb2, wrappers_pb2)
    for module in modules:
        if module.DESCRIPTOR.name == name:
            return descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
    return None


def message_columns(message: Descriptor) -> StructType:
    """The columns of a message; PipelineError if it contains itself or has too many."""
    return _Columns(message.full_name).of_message(message, ())


class _Columns:
    def __init__(self, root: str) -> None:
        self._root = root
        self._count = 0

    def of_message(self, message: Descriptor, above: tuple[str, ...]) -> StructType:
        from pyspark.sql.types import StructField, StructType

        if message.full_name in above:
            path = " in ".join([message.full_name, *reversed(above)])
            raise PipelineError(f"Protobuf message {self._root} cannot be columns: it contains itself ({path})")
        inside = (*above, message.full_name)
        return StructType([StructField(field.name, self._of_field(field, inside)) for field in message.fields])

    def _of_field(self, field: FieldDescriptor, above: tuple[str, ...]) -> DataType:
        from pyspark.sql.types import ArrayType, MapType

        self._count += 1
        if self._count > COLUMNS_MAX:
            raise PipelineError(f"Protobuf message {self._root} has more than {COLUMNS_MAX:,} fields within fields")
        if is_map(field):
            key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
            return MapType(self._of_value(key, above), self._of_value(value, above))
        value_type = self._of_value(field, above)
        return ArrayType(value_type) if field.is_repeated else value_type

    def _of_value(self, field: FieldDescriptor, above: tuple[str, ...]) -> DataType:
        from pyspark.sql import types

        kinds: dict[int, DataType] = {
            field.CPPTYPE_INT32: types.IntegerType(),
            field.CPPTYPE_UINT32: types.IntegerType(),
            field.CPPTYPE_INT64: types.LongType(),
            field.CPPTYPE_UINT64: types.LongType(),
            field.CPPTYPE_FLOAT: types.FloatType(),
            field.CPPTYPE_DOUBLE: types.DoubleType(),
            field.CPPTYPE_BOOL: types.BooleanType(),
            field.CPPTYPE_ENUM: types.StringType(),
            field.CPPTYPE_STRING: types.StringType(),
        }
        if field.type == field.TYPE_BYTES:
            return types.BinaryType()
        if field.cpp_type in kinds:
            return kinds[field.cpp_type]
        if field.message_type.full_name == TIMESTAMP:
            return types.TimestampType()
        if field.message_type.full_name == DURATION:
            return types.DayTimeIntervalType()
        return self.of_message(field.message_type, above)


def message_layout(message: Descriptor) -> list[list[object]]:
    """What the bytes of a message depend on: the fields of all messages within, and the numbers behind their enums."""
    found: dict[str, list[list[object]]] = {}

    def visit(message: Descriptor) -> None:
        if message.full_name in found:
            return
        fields: list[list[object]] = []
        found[message.full_name] = fields
        for field in sorted(message.fields, key=lambda field: field.number):
            numbers = {value.name: value.number for value in field.enum_type.values} if field.enum_type else {}
            fields.append([message.full_name, field.name, field.number, field.type, field.is_repeated, numbers])
            if field.message_type is not None:
                visit(field.message_type)

    visit(message)
    return [field for name in sorted(found) for field in found[name]]


def is_map(field: FieldDescriptor) -> bool:
    return bool(field.is_repeated and field.message_type is not None and field.message_type.GetOptions().map_entry)
