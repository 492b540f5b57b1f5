"""Which partition a record goes to, as Kafka's default partitioner says: by its key; without one, in turns.

Records without a key that come together stay together, in one batch; the next ones go to the next partition.
"""

from __future__ import annotations

import asyncio
import itertools
from struct import Struct
from typing import Final

from tidelog.model import limits

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
_WORDS: Final = Struct("<I").iter_unpack

_turns: Final = itertools.count()


def murmur2(key: bytes) -> int:
    """The hash of 32 bits that Kafka's clients take of keys."""
    size = len(key)
    whole = size & ~3
    value = (_SEED ^ size) & _MASK
    for (word,) in _WORDS(memoryview(key)[:whole]):
        word = word * _M & _MASK
        word = (word ^ word >> 24) * _M & _MASK
        value = (value * _M & _MASK) ^ word
    if size != whole:
        value = (value ^ int.from_bytes(key[whole:], "little")) * _M & _MASK
    value = (value ^ value >> 13) * _M & _MASK
    return value ^ value >> 15


async def partition_of_key(key: bytes, partition_count: int) -> int:
    """A long key is hashed in a thread: others on the loop do not wait for it."""
    if len(key) <= limits.KEY_BYTES_HASHED_AT_ONCE_MAX:
        hashed = murmur2(key)
    else:
        hashed = await asyncio.to_thread(murmur2, key)
    return (hashed & 0x7FFFFFFF) % partition_count


def next_turn(partition_count: int) -> int:
    """The partition for records without a key."""
    return next(_turns) % partition_count
