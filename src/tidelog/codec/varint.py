"""Variable-length integers as Kafka writes them: base 128, least significant group first.

Records use the zigzag forms (`varint`, `varlong`), flexible messages the unsigned one. A value that does not end
within its five (or ten) bytes or within the buffer raises MalformedVarint; nothing else is raised.
"""

from typing import Final

from tidelog.codec.buffers import Buffer
from tidelog.model.errors import BrokerError, ErrorCode

_ONE_BYTE: Final = tuple(bytes((value,)) for value in range(128))


class MalformedVarint(BrokerError):
    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.CORRUPT_MESSAGE, message)


def decode_unsigned_varint(buf: Buffer, pos: int) -> tuple[int, int]:
    """A 32-bit value and the position behind it."""
    try:
        byte = buf[pos]
        if byte < 0x80:
            return byte, pos + 1
        value = byte & 0x7F
        shift = 7
        while shift < 35:
            pos += 1
            byte = buf[pos]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                # Java shifts the surplus bits of the fifth byte out; so do we, to agree on every input.
                return value & 0xFFFFFFFF, pos + 1
            shift += 7
    except IndexError:
        raise MalformedVarint("the buffer ends inside a varint") from None
    raise MalformedVarint("a varint of more than five bytes")


def decode_unsigned_varlong(buf: Buffer, pos: int) -> tuple[int, int]:
    """A 64-bit value and the position behind it."""
    try:
        byte = buf[pos]
        if byte < 0x80:
            return byte, pos + 1
        value = byte & 0x7F
        shift = 7
        while shift < 70:
            pos += 1
            byte = buf[pos]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFFFFFFFFFFFFFF, pos + 1
            shift += 7
    except IndexError:
        raise MalformedVarint("the buffer ends inside a varlong") from None
    raise MalformedVarint("a varlong of more than ten bytes")


def decode_varint(buf: Buffer, pos: int) -> tuple[int, int]:
    """A signed 32-bit value in zigzag form and the position behind it."""
    value, pos = decode_unsigned_varint(buf, pos)
    return (value >> 1) ^ -(value & 1), pos


def decode_varlong(buf: Buffer, pos: int) -> tuple[int, int]:
    """A signed 64-bit value in zigzag form and the position behind it."""
    value, pos = decode_unsigned_varlong(buf, pos)
    return (value >> 1) ^ -(value & 1), pos


def _encode(value: int) -> bytes:
    if value < 0x80:
        return _ONE_BYTE[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_unsigned_varint(value: int) -> bytes:
    assert 0 <= value < 1 << 32
    return _encode(value)


def encode_unsigned_varlong(value: int) -> bytes:
    assert 0 <= value < 1 << 64
    return _encode(value)


def encode_varint(value: int) -> bytes:
    assert -(1 << 31) <= value < 1 << 31
    return _encode(value << 1 if value >= 0 else (-value << 1) - 1)


def encode_varlong(value: int) -> bytes:
    assert -(1 << 63) <= value < 1 << 63
    return _encode(value << 1 if value >= 0 else (-value << 1) - 1)


def unsigned_varint_size(value: int) -> int:
    """How many bytes the unsigned form takes."""
    return 1 if value < 0x80 else (value.bit_length() + 6) // 7


def varint_size(value: int) -> int:
    """How many bytes the zigzag form takes (the same for varint and varlong)."""
    return unsigned_varint_size(value << 1 if value >= 0 else (-value << 1) - 1)
