"""Which partition a record goes to that names none: that of its key, as Kafka's Java client would choose.

Records without a key go to any partition, a call's together: one batch costs as much as one record.
"""

from __future__ import annotations

import random
from struct import unpack_from
from typing import Final

_SEED: Final = 0x9747B28C
_MIX: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def murmur2(key: bytes) -> int:
    """The positive hash that Kafka's clients call murmur2."""
    size = len(key)
    hashed = _SEED ^ size
    whole = size // 4
    for word in unpack_from(f"<{whole}I", key):
        mixed = word * _MIX & _MASK
        hashed = (hashed * _MIX & _MASK) ^ ((mixed ^ mixed >> 24) * _MIX & _MASK)
    rest = key[whole * 4 :]
    if rest:
        hashed = (hashed ^ int.from_bytes(rest, "little")) * _MIX & _MASK
    hashed = (hashed ^ hashed >> 13) * _MIX & _MASK
    return (hashed ^ hashed >> 15) & 0x7FFFFFFF


def partition_of(key: bytes | None, partition_count: int) -> int:
    if key is None:
        return random.randrange(partition_count)
    return murmur2(key) % partition_count
