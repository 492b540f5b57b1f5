"""CRC-32C (Castagnoli), the checksum of every record batch.

The extension module takes any buffer without a copy and releases the GIL; where it cannot be loaded, a table in pure
Python gives the same answers slowly.
"""

from collections.abc import Callable
from typing import Final

from tidelog.codec.buffers import Buffer

_POLYNOMIAL_REVERSED: Final = 0x82F63B78
_table: list[int] = []


def crc32c_pure(data: Buffer) -> int:
    """The same function without the extension module."""
    if not _table:
        for byte in range(256):
            value = byte
            for _ in range(8):
                value = (value >> 1) ^ _POLYNOMIAL_REVERSED if value & 1 else value >> 1
            _table.append(value)
    table = _table
    crc = 0xFFFFFFFF
    for byte in memoryview(data).cast("B"):
        crc = (crc >> 8) ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


crc32c: Callable[[Buffer], int]
"""The checksum of the buffer, 0 to 2**32 - 1."""

try:
    from fastcrc.crc32 import iscsi as crc32c
except ImportError:  # pragma: no cover - depends on the platform's wheels
    crc32c = crc32c_pure
