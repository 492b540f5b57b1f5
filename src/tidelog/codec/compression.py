"""The four codecs of Kafka's record batches, both ways, with a hard bound on what decompression may produce.

Whatever the input claims, `decompress` holds at most `limit_bytes` of output: it writes into a buffer that grows
fourfold up to the limit and gives up there. Snappy is written in the framing of Java's client (xerial) and read in
both framings; LZ4 is written as frames of independent blocks, the only kind Java reads.
"""

from __future__ import annotations

import io
import zlib
from enum import IntEnum
from typing import TYPE_CHECKING

from tidelog.codec.buffers import Buffer
from tidelog.model.errors import BrokerError, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable


class CompressionType(IntEnum):
    """The low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


COMPRESSION_NAMES = {member.name.lower(): member for member in CompressionType}
"""Kafka's names, as `compression.type` spells them."""


class DecompressionError(BrokerError):
    """The compressed bytes are damaged, or would grow beyond the bound."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.CORRUPT_MESSAGE, message)


GZIP_LEVEL_DEFAULT = -1
LZ4_LEVEL_DEFAULT = 9
ZSTD_LEVEL_DEFAULT = 3

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_BYTES = 32 * 1024
_FIRST_GUESS_BYTES_MIN = 64 * 1024
_OUTPUT_FULL = "failed to write whole buffer"
"""How cramjam says that the output buffer was too small (everything else means damaged input)."""

# No snappy element yields more than 64 bytes from 3; a block that claims more than this cannot be honest.
_SNAPPY_RATIO_MAX = 22
_GZIP_RATIO_MAX = 1032


def compress(compression_type: int, data: Buffer, level: int | None = None) -> bytes:
    """`level` is the codec's own scale (`compression.gzip.level`...); None is Kafka's default."""
    import cramjam

    if compression_type == CompressionType.NONE:
        return bytes(data)
    if compression_type == CompressionType.GZIP:
        packer = zlib.compressobj(GZIP_LEVEL_DEFAULT if level is None else level, zlib.DEFLATED, 31)
        return packer.compress(data) + packer.flush()
    if compression_type == CompressionType.SNAPPY:
        return _compress_xerial(data)
    if compression_type == CompressionType.LZ4:
        # Kafka's default level means the fast compressor, every other one the slow one at that level.
        fast = level is None or level == LZ4_LEVEL_DEFAULT
        frames = cramjam.lz4.Compressor(level=0 if fast else level, content_checksum=False, block_linked=False)
        frames.compress(data)
        return bytes(frames.finish())
    if compression_type == CompressionType.ZSTD:
        return bytes(cramjam.zstd.compress(data, level=ZSTD_LEVEL_DEFAULT if level is None else level))
    raise ValueError(f"unknown compression type {compression_type}")


def decompress(compression_type: int, data: Buffer, limit_bytes: int) -> bytes:
    """The original bytes, at most `limit_bytes` of them; anything else raises DecompressionError."""
    import cramjam

    if compression_type == CompressionType.NONE:
        if len(data) > limit_bytes:
            raise _too_large(limit_bytes)
        return bytes(data)
    if compression_type == CompressionType.SNAPPY:
        return _decompress_snappy(data, limit_bytes)
    if compression_type == CompressionType.GZIP:
        claimed = int.from_bytes(data[-4:], "little") if len(data) >= 18 else 0
        return _decompress_into(
            cramjam.gzip.decompress_into, data, limit_bytes, min(claimed, len(data) * _GZIP_RATIO_MAX)
        )
    if compression_type == CompressionType.LZ4:
        return _decompress_into(cramjam.lz4.decompress_into, data, limit_bytes, 0)
    if compression_type == CompressionType.ZSTD:
        return _decompress_into(cramjam.zstd.decompress_into, data, limit_bytes, 0)
    raise DecompressionError(f"unknown compression type {compression_type}")


def _too_large(limit_bytes: int) -> DecompressionError:
    return DecompressionError(f"the decompressed data is larger than {limit_bytes} bytes")


def _decompress_into(unpack: Callable[[Buffer, memoryview], int], data: Buffer, limit_bytes: int, guess: int) -> bytes:
    """Try with a buffer of the guessed size, then with ever larger ones, never beyond the limit.

    The output of a BytesIO is handed out without a copy, so that no second buffer of the same size exists.
    """
    import cramjam

    capacity = min(max(guess, 4 * len(data), _FIRST_GUESS_BYTES_MIN), limit_bytes)
    while True:
        out = io.BytesIO(bytes(capacity))
        try:
            with out.getbuffer() as view:
                written = unpack(data, view)
        except cramjam.DecompressionError as error:
            if str(error) != _OUTPUT_FULL:
                raise DecompressionError(f"damaged compressed data: {error}") from None
            if capacity >= limit_bytes:
                raise _too_large(limit_bytes) from None
            capacity = min(capacity * 4, limit_bytes)
            continue
        out.truncate(written)
        return out.getvalue()


def _compress_xerial(data: Buffer) -> bytes:
    import cramjam

    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts.append(len(block).to_bytes(4, "big"))
        parts.append(block)
    return b"".join(parts)


def _decompress_snappy(data: Buffer, limit_bytes: int) -> bytes:
    view = memoryview(data)
    if bytes(view[:8]) != _XERIAL_MAGIC:
        return _decompress_snappy_block(view, limit_bytes)
    parts = []
    room = limit_bytes
    position = 0
    while position < len(view):
        if bytes(view[position : position + 8]) == _XERIAL_MAGIC:
            # Streams may follow one another, each with its own header of magic, version and lowest compatible version.
            position += len(_XERIAL_HEADER)
            if position > len(view):
                raise DecompressionError("damaged compressed data: snappy header cut short")
            continue
        size = int.from_bytes(view[position : position + 4], "big")
        position += 4
        if size == 0 or size > len(view) - position:
            raise DecompressionError("damaged compressed data: snappy block longer than its stream")
        block = _decompress_snappy_block(view[position : position + size], room)
        room -= len(block)
        position += size
        parts.append(block)
    return b"".join(parts)


def _decompress_snappy_block(block: memoryview, room_bytes: int) -> bytes:
    import cramjam

    try:
        claimed: int = cramjam.snappy.decompress_raw_len(block)
        if claimed > room_bytes:
            raise _too_large(room_bytes)
        if claimed > len(block) * _SNAPPY_RATIO_MAX:
            raise DecompressionError("damaged compressed data: snappy block claims an impossible size")
        out = io.BytesIO(bytes(claimed))
        with out.getbuffer() as view:
            written = cramjam.snappy.decompress_raw_into(block, view)
    except cramjam.DecompressionError as error:
        raise DecompressionError(f"damaged compressed data: {error}") from None
    out.truncate(written)
    return out.getvalue()
