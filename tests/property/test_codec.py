"""Codecs round-trip whatever they are given; hostile bytes raise only the typed errors and stay within the bound."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.codec import varint
from tidelog.codec.compression import CompressionType, DecompressionError, compress, decompress
from tidelog.codec.crc32c import crc32c, crc32c_pure
from tidelog.codec.varint import MalformedVarint

LIMIT = 1 << 20
CODECS = st.sampled_from(list(CompressionType))


@given(st.binary(max_size=300))
def test_both_checksums_agree(data: bytes) -> None:
    assert crc32c(data) == crc32c_pure(data)


@given(st.integers(0, 2**32 - 1), st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1))
def test_varints_round_trip(unsigned: int, signed: int, long: int) -> None:
    for value, encode, decode in (
        (unsigned, varint.encode_unsigned_varint, varint.decode_unsigned_varint),
        (signed, varint.encode_varint, varint.decode_varint),
        (long, varint.encode_varlong, varint.decode_varlong),
    ):
        encoded = encode(value)
        assert decode(encoded + b"\xff", 0) == (value, len(encoded))
    assert varint.varint_size(signed) == len(varint.encode_varint(signed))
    assert varint.varint_size(long) == len(varint.encode_varlong(long))
    assert varint.unsigned_varint_size(unsigned) == len(varint.encode_unsigned_varint(unsigned))


@given(st.binary(max_size=12))
def test_random_bytes_are_varints_or_refused(data: bytes) -> None:
    for decode in (varint.decode_unsigned_varint, varint.decode_varint, varint.decode_varlong):
        try:
            _, end = decode(data, 0)
        except MalformedVarint:
            continue
        assert 0 < end <= len(data)


@given(CODECS, st.binary(max_size=2000), st.integers(1, 200))
def test_compression_round_trips(codec: CompressionType, data: bytes, repeat: int) -> None:
    content = data * repeat
    packed = compress(codec, content)
    assert decompress(codec, packed, len(content)) == content
    if content:
        with pytest.raises(DecompressionError):
            decompress(codec, packed, len(content) - 1)


@given(CODECS, st.binary(max_size=500))
def test_random_bytes_decompress_or_are_refused(codec: CompressionType, data: bytes) -> None:
    with contextlib.suppress(DecompressionError):
        assert len(decompress(codec, data, LIMIT)) <= LIMIT


@settings(max_examples=300)
@given(CODECS, st.data())
def test_mutated_streams_decompress_or_are_refused(codec: CompressionType, data: st.DataObject) -> None:
    packed = bytearray(compress(codec, b"some text that repeats, some text that repeats, " * 50 + bytes(range(256))))
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(packed) - 1))
        packed[position] = data.draw(st.integers(0, 255))
    with contextlib.suppress(DecompressionError):
        assert len(decompress(codec, packed, LIMIT)) <= LIMIT
