"""The wire format for messages that come by the thousand: numbers go to and from `bytes` without objects for them.

Compiled, librt's functions are a few instructions each, where `struct` takes a call, a tuple and a number object; plain
Python calls them as they are. Strings and byte fields end where they say, which may be beyond the buffer: the next read
or the last check refuses the message, as in `wire`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from librt.strings import BytesWriter, read_i32_be, write_i16_be

from tidelog.protocol.errors import MalformedMessage, UnencodableValue
from tidelog.protocol.wire import STRING_BYTES_MAX, decode_long_size, decode_long_string_size, skip_tags

if TYPE_CHECKING:
    from mypy_extensions import i64, u8

    from tidelog.protocol.wire import Buffer


def as_bytes(frame: Buffer) -> bytes:
    """Small frames are `bytes` already."""
    return frame if isinstance(frame, bytes) else bytes(frame)


def read_string(data: bytes, pos: i64) -> tuple[str, i64]:
    """A string that cannot be null, and where it ends."""
    text, pos = read_nullable_string(data, pos)
    if text is None:
        raise MalformedMessage("a string is null that must not be")
    return text, pos


def read_nullable_string(data: bytes, pos: i64) -> tuple[str | None, i64]:
    size: i64 = data[pos]
    pos += 1
    if size > 127:
        size, pos = decode_long_string_size(data, pos - 1)
    if size == 0:
        return None, pos
    end: i64 = pos + size - 1
    return data[pos:end].decode("utf-8"), end


def read_bytes(data: bytes, pos: i64) -> tuple[bytes, i64]:
    """A byte field that cannot be null, and where it ends."""
    size: i64 = data[pos]
    pos += 1
    if size > 127:
        size, pos = decode_long_size(data, pos - 1)
    if size == 0:
        raise MalformedMessage("a byte field is null that must not be")
    end: i64 = pos + size - 1
    return data[pos:end], end


def read_count(data: bytes, pos: i64) -> tuple[i64, i64]:
    """One more than the elements of an array, 0 for null, and where they begin."""
    count: i64 = data[pos]
    if count > 127:
        return decode_long_size(data, pos)
    return count, pos + 1


def read_int32s(data: bytes, pos: i64, count: i64) -> list[int]:
    """The caller has compared the count with the bytes that are left, or the first read beyond them raises."""
    numbers: list[int] = []
    for _ in range(count):
        numbers.append(read_i32_be(data, pos))
        pos += 4
    return numbers


def read_tags(data: bytes, pos: i64) -> i64:
    """Steps over the tagged fields of a structure, their count first."""
    if data[pos] == 0:
        return pos + 1
    return skip_tags(data, pos + 1, len(data))


def read_last_tags(data: bytes, pos: i64) -> None:
    """The tags that end a message, which must not end beyond its bytes."""
    if read_tags(data, pos) > len(data):
        raise MalformedMessage("it ends beyond its bytes")


def write_unsigned_varint(out: BytesWriter, value: i64) -> None:
    # Through `int`: there is no way from one number of the machine to a smaller one but a call of the interpreter's.
    while value > 127:
        byte: u8 = int((value & 127) | 128)
        out.append(byte)
        value >>= 7
    last: u8 = int(value)
    out.append(last)


def unsigned_varint_bytes(value: i64) -> i64:
    size: i64 = 1
    value >>= 7
    while value > 0:
        size += 1
        value >>= 7
    return size


def write_count(out: BytesWriter, count: i64) -> None:
    """The size of an array or a byte field, which is not null."""
    write_unsigned_varint(out, count + 1)


def write_string(out: BytesWriter, text: str) -> None:
    raw = text.encode("utf-8")
    if len(raw) > STRING_BYTES_MAX:
        raise UnencodableValue("a string is longer than 32767 bytes")
    write_unsigned_varint(out, len(raw) + 1)
    out.write(raw)


def write_nullable_string(out: BytesWriter, text: str | None) -> None:
    if text is None:
        out.append(0)
    else:
        write_string(out, text)


def write_classic_string(out: BytesWriter, text: str | None) -> None:
    """A string of versions that are not flexible: its size has two bytes, that of null is -1."""
    if text is None:
        write_i16_be(out, -1)
        return
    raw = text.encode("utf-8")
    write_i16_be(out, len(raw))
    out.write(raw)


def write_bytes(out: BytesWriter, field: bytes) -> None:
    write_unsigned_varint(out, len(field) + 1)
    out.write(field)
