"""What Spark's Python workers do with Protobuf: bytes to columns with a reason, columns to bytes, frames of a registry.

Each function here makes one for `arrow_udf`. In a schema registry's frame stand a zero byte, the schema's id in four
bytes, then which message of the schema it is: the length of a path and its indexes, as zigzag varints, where the
path of the first message is a single zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from tidelog.pipelines.formats.protobuf_codec import message_codec

PATH_MAX = 64
"""How deep messages may be declared inside messages; Protobuf's own limit of nesting is 100."""
_VARINT_BYTES_MAX = 10
Path = tuple[int, ...]
Writers = Mapping[int, Mapping[Path, str]]
"""Schema id -> where a message stands in the schema -> its full name."""


def message_reader(described: bytes, name: str) -> Callable[[pa.Array], pa.Array]:
    """Binary to a struct of value and reason."""

    def read(records: pa.Array) -> pa.Array:
        columns, bad = message_codec(described, name).decode(records.to_pylist())
        reasons = [f"not Protobuf of the message {name}" if is_bad else None for is_bad in bad]
        return _with_reasons(columns, reasons)

    return _annotated(read)


def frame_reader(described: bytes, name: str, writers: Writers, subject: str) -> Callable[[pa.Array], pa.Array]:
    """The same for frames: the messages of known schemas, read by one of them as Protobuf does, by field number.

    Raises for an id above all known: it may have been registered after the query was started.
    """

    def read(records: pa.Array) -> pa.Array:
        payloads: list[bytes | None] = []
        reasons: list[str | None] = []
        for record in records.to_pylist():
            payload, reason = (None, None) if record is None else open_frame(record, name, writers, subject)
            payloads.append(payload)
            reasons.append(reason)
        columns, bad = message_codec(described, name).decode(payloads)
        for index, is_bad in enumerate(bad):
            if is_bad:
                reasons[index] = f"not Protobuf of the message {name}"
        return _with_reasons(columns, reasons)

    return _annotated(read)


def message_writer(described: bytes, name: str) -> Callable[[pa.Array], pa.Array]:
    """A struct to bytes."""

    def write(rows: pa.Array) -> pa.Array:
        return pa.array(message_codec(described, name).encode(rows.to_pylist()), pa.binary())

    return _annotated(write)


def _with_reasons(columns: pa.Array, reasons: Sequence[str | None]) -> pa.Array:
    return pa.StructArray.from_arrays([columns, pa.array(reasons, pa.string())], ["value", "reason"])


def _annotated(function: Callable[[pa.Array], pa.Array]) -> Callable[[pa.Array], pa.Array]:
    """Spark sees from the types what kind of function it is."""
    [argument] = function.__code__.co_varnames[: function.__code__.co_argcount]
    function.__annotations__ = {argument: pa.Array, "return": pa.Array}
    return function


# -- frames ----------------------------------------------------------------------------------------------------------


def open_frame(record: bytes, name: str, writers: Writers, subject: str) -> tuple[bytes | None, str | None]:
    """The message in a frame, or the reason why there is none for us."""
    unframed = (None, "not framed for a schema registry")
    if len(record) < 6 or record[0] != 0:
        return unframed
    identity = int.from_bytes(record[1:5], "big")
    if identity > max(writers):
        raise RuntimeError(
            f"schema id {identity} is newer than the versions of {subject} known when the query was started: restart it"
        )
    if identity not in writers:
        return None, f"schema id {identity} is not one of subject {subject}"
    try:
        path, start = decode_path(record, 5)
    except ValueError:
        return unframed
    written = writers[identity].get(path)
    if written is None:
        return None, f"schema id {identity} has no message at {list(path)}"
    if written != name:
        return None, f"the message {written}, not {name}"
    return record[start:], None


def encode_path(path: Path) -> bytes:
    if path == (0,):
        return b"\x00"
    return b"".join(_encode_zigzag(number) for number in (len(path), *path))


def decode_path(data: bytes, position: int) -> tuple[Path, int]:
    """The path at a position and where it ends; ValueError for what is none."""
    length, position = _decode_zigzag(data, position)
    if length == 0:
        return (0,), position
    if not 0 < length <= PATH_MAX:
        raise ValueError(f"a path of {length}")
    path = []
    for _ in range(length):
        index, position = _decode_zigzag(data, position)
        path.append(index)
    return tuple(path), position


def _encode_zigzag(number: int) -> bytes:
    rest, encoded = number << 1, bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*encoded, rest])


def _decode_zigzag(data: bytes, position: int) -> tuple[int, int]:
    found = 0
    for index, byte in enumerate(data[position : position + _VARINT_BYTES_MAX]):
        found |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return (found >> 1) ^ -(found & 1), position + index + 1
    raise ValueError("no varint")
