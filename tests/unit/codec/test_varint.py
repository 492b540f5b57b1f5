"""Varints at their edges; values from Kafka's own documentation of the format."""

import pytest

from tidelog.codec import varint
from tidelog.codec.varint import MalformedVarint

UNSIGNED = [(0, b"\x00"), (127, b"\x7f"), (128, b"\x80\x01"), (300, b"\xac\x02"), (2**32 - 1, b"\xff\xff\xff\xff\x0f")]
SIGNED = [
    (0, b"\x00"),
    (-1, b"\x01"),
    (1, b"\x02"),
    (-64, b"\x7f"),
    (64, b"\x80\x01"),
    (2**31 - 1, b"\xfe\xff\xff\xff\x0f"),
]
LONGS = [(-(2**63), b"\xff" * 9 + b"\x01"), (2**63 - 1, b"\xfe" + b"\xff" * 8 + b"\x01"), (-1, b"\x01")]


@pytest.mark.parametrize(("value", "encoded"), UNSIGNED)
def test_unsigned(value: int, encoded: bytes) -> None:
    assert varint.encode_unsigned_varint(value) == encoded
    assert varint.decode_unsigned_varint(b"x" + encoded + b"y", 1) == (value, 1 + len(encoded))
    assert varint.unsigned_varint_size(value) == len(encoded)


@pytest.mark.parametrize(("value", "encoded"), SIGNED)
def test_signed(value: int, encoded: bytes) -> None:
    assert varint.encode_varint(value) == encoded
    assert varint.decode_varint(encoded, 0) == (value, len(encoded))
    assert varint.varint_size(value) == len(encoded)


@pytest.mark.parametrize(("value", "encoded"), LONGS)
def test_long(value: int, encoded: bytes) -> None:
    assert varint.encode_varlong(value) == encoded
    assert varint.decode_varlong(encoded, 0) == (value, len(encoded))


@pytest.mark.parametrize("decode", [varint.decode_unsigned_varint, varint.decode_varint, varint.decode_varlong])
@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff\xff\xff"])
def test_a_cut_varint_is_refused(decode: object, data: bytes) -> None:
    with pytest.raises(MalformedVarint):
        decode(data, 0)  # type: ignore[operator]


def test_too_long_varints_are_refused() -> None:
    with pytest.raises(MalformedVarint):
        varint.decode_unsigned_varint(b"\x80" * 5 + b"\x01", 0)
    with pytest.raises(MalformedVarint):
        varint.decode_unsigned_varlong(b"\x80" * 10 + b"\x01", 0)
