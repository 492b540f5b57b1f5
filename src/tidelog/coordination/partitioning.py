"""Which partition of an internal topic holds a group or transactional id: Kafka's rule, since its files are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mypy_extensions import i64

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"


def java_string_hash(text: str) -> int:
    """Java's `String.hashCode`: over UTF-16 units, as a signed 32-bit number."""
    value: i64 = 0
    if text.isascii():
        # Compiled, that is cheaper than to look up what it was the last time.
        letters = text.encode()
        for at in range(len(letters)):
            letter: i64 = letters[at]
            value = (31 * value + letter) & 0xFFFFFFFF
    else:
        units = text.encode("utf-16-be", "surrogatepass")
        for at in range(0, len(units), 2):
            value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return value - 0x100000000 if value >= 0x80000000 else value


def coordinator_partition(key: str, partition_count: int) -> int:
    value = java_string_hash(key)
    # Java cannot negate its smallest number; Kafka takes zero for it.
    return 0 if value == -0x80000000 else abs(value) % partition_count
