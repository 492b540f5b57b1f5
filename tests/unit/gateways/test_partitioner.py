"""Partitions by key, as Kafka's own clients choose them."""

from __future__ import annotations

import asyncio

import pytest

from tidelog.gateways.partitioner import murmur2, next_turn, partition_of_key
from tidelog.model import limits


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_hashes_are_those_of_kafkas_own_tests(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed & 0xFFFFFFFF


def test_a_long_key_is_hashed_as_a_short_one() -> None:
    for size in (limits.KEY_BYTES_HASHED_AT_ONCE_MAX, limits.KEY_BYTES_HASHED_AT_ONCE_MAX + 1):
        key = b"x" * size
        assert asyncio.run(partition_of_key(key, 1000)) == (murmur2(key) & 0x7FFFFFFF) % 1000


def test_records_without_a_key_take_turns() -> None:
    assert {next_turn(3) for _ in range(3)} == {0, 1, 2}
