"""The parts of the wire format that generated and hand-tuned codecs share: sizes, tags, arrays of numbers.

The codecs read one-byte sizes inline and call down here for longer ones. Strings and byte fields are sliced before
their end is compared with the end of the buffer: a slice never allocates beyond the buffer, the position runs past
the end, and the next read or the last check of `decode` refuses the message. Counts are compared first.
"""

from __future__ import annotations

from struct import Struct as Format
from typing import TYPE_CHECKING, Any, Final

from tidelog.model.limits import TAGGED_FIELDS_MAX
from tidelog.protocol.errors import MalformedMessage, UnencodableValue

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Buffer = bytes | bytearray | memoryview

    NodeEndpoint = tuple[int, str, int, str | None]
    """Node id, host, port, rack."""

STRING_BYTES_MAX: Final = 0x7FFF
ZERO_UUID: Final = bytes(16)
UNSET: Any = object()
"""Default of parameters where None means null and the real default is a new object; never handed out."""


def decode_long_size(buf: Buffer, pos: int) -> tuple[int, int]:
    """Reads the unsigned varint at `pos` (at most 32 bits)."""
    value = 0
    for shift in (0, 7, 14, 21, 28):
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0x7FFFFFFF:
                break
            return value, pos
    raise MalformedMessage("a size does not fit 31 bits")


def decode_long_string_size(buf: Buffer, pos: int) -> tuple[int, int]:
    size, pos = decode_long_size(buf, pos)
    if size > STRING_BYTES_MAX + 1:
        raise MalformedMessage("a string is longer than 32767 bytes")
    return size, pos


def decode_long_tag_count(buf: Buffer, pos: int) -> tuple[int, int]:
    count, pos = decode_long_size(buf, pos)
    if count > TAGGED_FIELDS_MAX:
        raise MalformedMessage(f"a structure has more than {TAGGED_FIELDS_MAX} tagged fields")
    return count, pos


def decode_tag(buf: Buffer, pos: int, limit: int) -> tuple[int, int, int]:
    """The tag, where its field begins and where it ends; the end is within the buffer."""
    tag = buf[pos]
    pos += 1
    if tag > 127:
        tag, pos = decode_long_size(buf, pos - 1)
    size = buf[pos]
    pos += 1
    if size > 127:
        size, pos = decode_long_size(buf, pos - 1)
    if size > limit - pos:
        raise MalformedMessage("a tagged field ends beyond its message")
    return tag, pos, pos + size


def skip_tags(buf: Buffer, pos: int, limit: int) -> int:
    """Steps over the tagged fields whose count stands just before `pos` and was not zero."""
    count = buf[pos - 1]
    if count > 127:
        count, pos = decode_long_tag_count(buf, pos - 1)
    for _ in range(count):
        _, _, pos = decode_tag(buf, pos, limit)
    return pos


def _array_decoder(code: str, width: int) -> Callable[[Buffer, int, int, int], list[int]]:
    short = [Format(f">{count}{code}").unpack_from for count in range(_SHORT_ARRAY)]

    def decode(buf: Buffer, pos: int, limit: int, count: int) -> list[int]:
        if count < _SHORT_ARRAY:
            return list(short[count](buf, pos))
        if count * width > limit - pos:
            raise MalformedMessage("an array has more elements than the message has bytes")
        return list(Format(f">{count}{code}").unpack_from(buf, pos))

    return decode


_SHORT_ARRAY: Final = 17
decode_int8_array = _array_decoder("b", 1)
decode_int16_array = _array_decoder("h", 2)
decode_int32_array = _array_decoder("i", 4)
decode_int64_array = _array_decoder("q", 8)


def decode_uuid_array(buf: Buffer, pos: int, limit: int, count: int) -> list[bytes]:
    if 16 * count > limit - pos:
        raise MalformedMessage("an array has more elements than the message has bytes")
    return [bytes(buf[start : start + 16]) for start in range(pos, pos + 16 * count, 16)]


def encode_long_size(value: int) -> bytes:
    """An unsigned varint; the codecs write those below 128 themselves."""
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_long_string_size(value: int) -> bytes:
    if value > STRING_BYTES_MAX + 1:
        raise UnencodableValue("a string is longer than 32767 bytes")
    return encode_long_size(value)


def _array_encoder(code: str) -> Callable[[list[int]], bytes]:
    short = [Format(f">{count}{code}").pack for count in range(_SHORT_ARRAY)]

    def encode(values: list[int]) -> bytes:
        count = len(values)
        return short[count](*values) if count < _SHORT_ARRAY else Format(f">{count}{code}").pack(*values)

    return encode


encode_int8_array = _array_encoder("b")
encode_int16_array = _array_encoder("h")
encode_int32_array = _array_encoder("i")
encode_int64_array = _array_encoder("q")


def append_tagged(out: bytearray, tag: int, field: bytes | bytearray) -> None:
    """Writes one tagged field: tag, size, bytes."""
    out += encode_long_size(tag) if tag > 127 else bytes((tag,))
    size = len(field)
    out += encode_long_size(size) if size > 127 else bytes((size,))
    out += field


def append_string(out: bytearray, text: str | None) -> None:
    """A string as in versions that are not flexible; None is null."""
    if text is None:
        out += b"\xff\xff"
        return
    raw = text.encode()
    out += _pack_int16(len(raw))
    out += raw


def append_compact_string(out: bytearray, text: str | None) -> None:
    """A string as in flexible versions; None is null."""
    if text is None:
        out.append(0)
        return
    raw = text.encode()
    size = len(raw) + 1
    if size < 128:
        out.append(size)
    else:
        out += encode_long_string_size(size)
    out += raw


def append_compact_bytes(out: bytearray, field: bytes) -> None:
    """A byte field as in flexible versions."""
    append_compact_count(out, len(field))
    out += field


def append_compact_count(out: bytearray, count: int) -> None:
    """The size of an array or a byte field as in flexible versions."""
    if count < 127:
        out.append(count + 1)
    else:
        out += encode_long_size(count + 1)


def append_node_endpoints(out: bytearray, endpoints: Sequence[NodeEndpoint]) -> None:
    """The tagged fields that end a Produce or Fetch response which says where partition leaders are (KIP-951)."""
    field = bytearray()
    count = len(endpoints) + 1
    field += encode_long_size(count) if count > 127 else bytes((count,))
    for node_id, host, port, rack in endpoints:
        field += _pack_int32(node_id)
        append_compact_string(field, host)
        field += _pack_int32(port)
        append_compact_string(field, rack)
        field.append(0)
    out.append(1)
    append_tagged(out, 0, field)


_pack_int16: Final = Format(">h").pack
_pack_int32: Final = Format(">i").pack
