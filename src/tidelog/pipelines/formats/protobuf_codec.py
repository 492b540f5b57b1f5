"""Protobuf messages to Arrow columns and back, in Spark's Python workers: for sessions without Spark's own functions.

A column of messages is taken apart field by field, not message by message: one Arrow array for each field. Where a
message cannot be columns (a time past the end of time, say), the batch is gone through message by message, so that only
that one is bad.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from google.protobuf.message import DecodeError, EncodeError
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from tidelog.pipelines.errors import PipelineError
from tidelog.pipelines.formats.protobuf_schema import DURATION, TIMESTAMP, find_message, is_map

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

CODECS_MAX = 16
MICROS = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_UNFIT = (pa.ArrowException, OverflowError, TypeError, ValueError)
Convert = Callable[[Sequence[Any]], pa.Array]
"""Values of one field, None where there is none, to an array."""
_codecs: dict[tuple[bytes, str], MessageCodec] = {}


def message_codec(described: bytes, name: str) -> MessageCodec:
    """The codec of a message, made once in a process."""
    identity = (described, name)
    codec = _codecs.pop(identity, None) or MessageCodec(find_message(described, name))
    _codecs[identity] = codec
    while len(_codecs) > CODECS_MAX:
        del _codecs[next(iter(_codecs))]
    return codec


class MessageCodec:
    """Reads and writes messages of one type."""

    def __init__(self, message: Descriptor) -> None:
        self.name = message.full_name
        self._class: Any = GetMessageClass(message)
        self._convert = _struct_converter(message)
        self._fill = _filler(message)
        self._known = frozenset(field.number for field in message.fields)

    @property
    def arrow_type(self) -> pa.DataType:
        return self._convert([]).type

    def decode(self, records: Sequence[bytes | None]) -> tuple[pa.Array, list[bool]]:
        """The columns, and for each record whether it is bad; bad ones and null ones are null."""
        messages = [None if record is None else self._parse(record) for record in records]
        bad = [message is None and record is not None for message, record in zip(messages, records, strict=True)]
        try:
            return self._convert(messages), bad
        except _UNFIT:
            for index, message in enumerate(messages):
                try:
                    self._convert([message])
                except _UNFIT:
                    messages[index], bad[index] = None, True
            return self._convert(messages), bad

    def encode(self, rows: Sequence[dict[str, Any] | None]) -> list[bytes | None]:
        """Serialised messages of rows; PipelineError for one that the message cannot hold."""
        return [None if row is None else self._serialise(row) for row in rows]

    def _parse(self, record: bytes) -> Any:
        try:
            message = self._class.FromString(record)
        except DecodeError:
            return None
        # A field of another wire type is left with the unknown ones; its value would be dropped without a word.
        if any(field.field_number in self._known for field in UnknownFieldSet(message)):
            return None
        return message if message.IsInitialized() else None

    def _serialise(self, row: dict[str, Any]) -> bytes:
        message = self._class()
        try:
            self._fill(message, row)
            return bytes(message.SerializeToString(deterministic=True))
        except (TypeError, ValueError, OverflowError, EncodeError) as error:
            raise PipelineError(f"a row does not fit the Protobuf message {self.name}: {error}") from None


# -- messages to columns ---------------------------------------------------------------------------------------------


def _struct_converter(message: Descriptor) -> Convert:
    parts = [(field.name, _reader(field), _field_converter(field)) for field in message.fields]
    names = [name for name, _, _ in parts]

    def convert(messages: Sequence[Any]) -> pa.Array:
        mask = pa.array([message is None for message in messages], pa.bool_())
        if not parts:
            return pa.array([None if message is None else {} for message in messages], pa.struct([]))
        columns = [
            column([None if message is None else read(message) for message in messages]) for _, read, column in parts
        ]
        return pa.StructArray.from_arrays(columns, names, mask=mask)

    return convert


def _reader(field: FieldDescriptor) -> Callable[[Any], Any]:
    """What a message has for a field: None if it can be left out and was, and has no default of its own."""
    name = field.name
    if field.is_repeated or not field.has_presence or field.has_default_value:
        return lambda message: getattr(message, name)
    return lambda message: getattr(message, name) if message.HasField(name) else None


def _field_converter(field: FieldDescriptor) -> Convert:
    if is_map(field):
        keys = _value_converter(field.message_type.fields_by_name["key"])
        items = _value_converter(field.message_type.fields_by_name["value"])

        def convert_map(maps: Sequence[Any]) -> pa.Array:
            entries = [entry for pairs in maps if pairs for entry in pairs.items()]
            offsets = _offsets(maps)
            return pa.MapArray.from_arrays(
                offsets, keys([key for key, _ in entries]), items([item for _, item in entries])
            )

        return convert_map
    convert = _value_converter(field)
    if not field.is_repeated:
        return convert

    def convert_list(lists: Sequence[Any]) -> pa.Array:
        return pa.ListArray.from_arrays(
            _offsets(lists), convert([value for values in lists if values for value in values])
        )

    return convert_list


def _offsets(lists: Sequence[Any]) -> pa.Array:
    offsets, end = [0], 0
    for values in lists:
        end += len(values) if values else 0
        offsets.append(end)
    return pa.array(offsets, pa.int32())


def _value_converter(field: FieldDescriptor) -> Convert:
    if field.enum_type is not None:
        names = {value.number: value.name for value in reversed(field.enum_type.values)}
        kind = field.enum_type.name
        # A number without a name has the one that Java makes up for it.
        return lambda numbers: pa.array(
            [
                None if number is None else names.get(number) or f"UNKNOWN_ENUM_VALUE_{kind}_{number}"
                for number in numbers
            ],
            pa.string(),
        )
    if field.message_type is not None:
        full_name = field.message_type.full_name
        if full_name in (TIMESTAMP, DURATION):
            arrow = pa.timestamp("us", "UTC") if full_name == TIMESTAMP else pa.duration("us")
            return lambda times: pa.array([_micros(time) for time in times], pa.int64()).cast(arrow)
        return _struct_converter(field.message_type)
    unsigned = {field.CPPTYPE_UINT32: (pa.uint32(), pa.int32()), field.CPPTYPE_UINT64: (pa.uint64(), pa.int64())}
    if field.cpp_type in unsigned:
        read, shown = unsigned[field.cpp_type]
        return lambda values: pa.array(values, read).cast(shown, safe=False)
    kind_of = {
        field.CPPTYPE_INT32: pa.int32(),
        field.CPPTYPE_INT64: pa.int64(),
        field.CPPTYPE_FLOAT: pa.float32(),
        field.CPPTYPE_DOUBLE: pa.float64(),
        field.CPPTYPE_BOOL: pa.bool_(),
        field.CPPTYPE_STRING: pa.binary() if field.type == field.TYPE_BYTES else pa.string(),
    }
    arrow_type = kind_of[field.cpp_type]
    return lambda values: pa.array(values, arrow_type)


def _micros(time: Any) -> int | None:
    return None if time is None else int(time.seconds) * MICROS + int(time.nanos / 1000)


# -- columns to messages ---------------------------------------------------------------------------------------------

Fill = Callable[[Any, dict[str, Any]], None]


def _filler(message: Descriptor) -> Fill:
    """Sets the fields of a message from a row; what is null is left out."""
    setters = {field.name: _setter(field) for field in message.fields}

    def fill(target: Any, row: dict[str, Any]) -> None:
        for name, value in row.items():
            if value is not None:
                setters[name](target, value)

    return fill


def _setter(field: FieldDescriptor) -> Callable[[Any, Any], None]:
    name = field.name
    if is_map(field):
        return _map_setter(field)
    if field.message_type is not None:
        put = _message_putter(field)
        if not field.is_repeated:

            def put_message(target: Any, value: Any) -> None:
                part = getattr(target, name)
                part.SetInParent()
                put(part, value)

            return put_message

        def add_messages(target: Any, values: Any) -> None:
            for value in values:
                put(getattr(target, name).add(), _there(value, name))

        return add_messages
    plain = _plain_value(field)
    if field.is_repeated:
        return lambda target, values: getattr(target, name).extend([plain(_there(value, name)) for value in values])
    return lambda target, value: setattr(target, name, plain(value))


def _map_setter(field: FieldDescriptor) -> Callable[[Any, Any], None]:
    name = field.name
    plain_key = _plain_value(field.message_type.fields_by_name["key"])
    item = field.message_type.fields_by_name["value"]
    put = _message_putter(item) if item.message_type is not None else None
    plain = None if put else _plain_value(item)

    def set_map(target: Any, pairs: Any) -> None:
        entries = getattr(target, name)
        for key, value in pairs:
            if put is not None:
                part = entries[plain_key(key)]
                put(part, _there(value, name))
            elif plain is not None:
                entries[plain_key(key)] = plain(_there(value, name))

    return set_map


def _message_putter(field: FieldDescriptor) -> Callable[[Any, Any], None]:
    full_name = field.message_type.full_name
    if full_name in (TIMESTAMP, DURATION):
        return _put_time if full_name == TIMESTAMP else _put_duration
    return _filler(field.message_type)


def _put_time(target: Any, value: datetime) -> None:
    target.seconds, rest = divmod((value - _EPOCH) // _MICROSECOND, MICROS)
    target.nanos = rest * 1000


def _put_duration(target: Any, value: timedelta) -> None:
    """Seconds and nanoseconds of a Duration have the same sign."""
    seconds, rest = divmod(abs(value) // _MICROSECOND, MICROS)
    sign = -1 if value < timedelta() else 1
    target.seconds, target.nanos = sign * seconds, sign * rest * 1000


def _plain_value(field: FieldDescriptor) -> Callable[[Any], Any]:
    if field.enum_type is not None:
        numbers = {value.name: value.number for value in field.enum_type.values}
        name, known = field.name, ", ".join(numbers)

        def number_of(value: str) -> int:
            if value not in numbers:
                raise ValueError(f"{name} is {value!r}, not one of {known}")
            return int(numbers[value])

        return number_of
    if field.cpp_type == field.CPPTYPE_UINT32:
        return lambda value: value & 0xFFFFFFFF
    if field.cpp_type == field.CPPTYPE_UINT64:
        return lambda value: value & 0xFFFFFFFFFFFFFFFF
    return lambda value: value


def _there(value: Any, name: str) -> Any:
    if value is None:
        raise ValueError(f"{name} has an element that is null")
    return value
