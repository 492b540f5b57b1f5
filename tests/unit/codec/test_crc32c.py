"""Known answers of CRC-32C, and the fallback against the extension."""

import pytest

from tidelog.codec.crc32c import crc32c, crc32c_pure

KNOWN = [
    (b"", 0),
    (b"123456789", 0xE3069283),
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
]


@pytest.mark.parametrize(("data", "expected"), KNOWN)
def test_known_answers(data: bytes, expected: int) -> None:
    assert crc32c(data) == expected
    assert crc32c_pure(data) == expected


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_takes_every_buffer(kind: type) -> None:
    assert crc32c(kind(b"123456789")) == 0xE3069283
    assert crc32c_pure(kind(b"123456789")) == 0xE3069283


def test_takes_a_slice_of_a_view() -> None:
    view = memoryview(b"xx123456789yy")[2:-2]
    assert crc32c(view) == crc32c_pure(view) == 0xE3069283
