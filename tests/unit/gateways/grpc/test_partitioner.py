from __future__ import annotations

import pytest

from tidelog.gateways.grpc.partitioner import murmur2, partition_of


@pytest.mark.parametrize(
    ("key", "signed_hash"),
    [
        # What Kafka's own tests expect.
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_that_of_kafkas_clients(key: bytes, signed_hash: int) -> None:
    assert murmur2(key) == signed_hash & 0x7FFFFFFF


def test_every_key_has_a_partition() -> None:
    assert {partition_of(b"%d" % number, 3) for number in range(100)} == {0, 1, 2}
    assert partition_of(b"", 3) == partition_of(b"", 3)
    assert {partition_of(None, 3) for _ in range(200)} == {0, 1, 2}
