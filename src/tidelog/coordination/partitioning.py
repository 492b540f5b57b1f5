"""Which partition of an internal topic a group or transactional id lives on: Kafka's rule, to take over its files."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"


@lru_cache(maxsize=16384)
def java_string_hash(text: str) -> int:
    """Java's `String.hashCode`: over UTF-16 units, as a signed 32-bit number."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return value - 0x100000000 if value >= 0x80000000 else value


def coordinator_partition(key: str, partition_count: int) -> int:
    value = java_string_hash(key)
    # Java cannot negate its smallest number; Kafka takes zero for it.
    return 0 if value == -0x80000000 else abs(value) % partition_count
