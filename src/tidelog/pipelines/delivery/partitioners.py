"""Key to partition, as the producers of the Kafka world do it, over whole Arrow columns at a time (pure).

`murmur2` is that of the Java client (and of librdkafka under that name), `fnv1a` that of librdkafka and Sarama,
`crc32` is librdkafka's `consistent`. A row must go to the same partition every time a batch is run, so none of them
looks at chance.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

PARTITIONERS = ("murmur2", "fnv1a", "crc32")

_Hashes = Any
"""A numpy array; numpy belongs to an extra, so its types are not checked."""
_M = np.uint32(0x5BD1E995)
_SEED = 0x9747B28C
_FNV_OFFSET = np.uint32(0x811C9DC5)
_FNV_PRIME = np.uint32(0x01000193)


def murmur2(keys: pa.Array) -> _Hashes:
    """The positive murmur2 hash of every key; what a null key gets means nothing."""
    data, starts, lengths = _buffers(keys)
    hashes = np.uint32(_SEED) ^ lengths.astype(np.uint32)
    words = lengths // 4
    for index in range(int(words.max(initial=0))):
        rows = np.flatnonzero(words > index)
        word = _little_endian(data, starts[rows] + 4 * index, 4) * _M
        word = (word ^ (word >> np.uint32(24))) * _M
        hashes[rows] = (hashes[rows] * _M) ^ word
    for rest in (1, 2, 3):
        rows = np.flatnonzero(lengths % 4 == rest)
        tail = _little_endian(data, starts[rows] + lengths[rows] - rest, rest)
        hashes[rows] = (hashes[rows] ^ tail) * _M
    hashes = (hashes ^ (hashes >> np.uint32(13))) * _M
    hashes ^= hashes >> np.uint32(15)
    return hashes & np.uint32(0x7FFFFFFF)


def fnv1a(keys: pa.Array) -> _Hashes:
    """The FNV-1a hash of every key, as an absolute value of 32 signed bits."""
    data, starts, lengths = _buffers(keys)
    hashes: _Hashes = np.full(len(lengths), _FNV_OFFSET, dtype=np.uint32)
    for index in range(int(lengths.max(initial=0))):
        rows = np.flatnonzero(lengths > index)
        hashes[rows] = (hashes[rows] ^ data[starts[rows] + index].astype(np.uint32)) * _FNV_PRIME
    return np.abs(hashes.view(np.int32).astype(np.int64))


def partition_of(keys: pa.Array, partitioner: str, partitions: int) -> pa.Array:
    """The partition of every key."""
    hashes = {"murmur2": murmur2, "fnv1a": fnv1a}[partitioner](keys)
    return pa.array((hashes.astype(np.int64) % partitions).astype(np.int32))


def _buffers(keys: pa.Array) -> tuple[_Hashes, _Hashes, _Hashes]:
    """All key bytes, and where each key starts and how long it is."""
    if not pa.types.is_large_binary(keys.type):
        keys = keys.cast(pa.large_binary())
    _, positions, content = keys.buffers()
    offsets = np.frombuffer(positions, dtype=np.int64)[keys.offset : keys.offset + len(keys) + 1]
    data = np.frombuffer(content, dtype=np.uint8) if content is not None else np.zeros(0, dtype=np.uint8)
    return data, offsets[:-1], np.diff(offsets)


def _little_endian(data: _Hashes, places: _Hashes, size: int) -> _Hashes:
    value: _Hashes = np.zeros(len(places), dtype=np.uint32)
    for index in range(size):
        value |= data[places + index].astype(np.uint32) << np.uint32(8 * index)
    return value
