"""Partitioners against published values and against each other's slow form."""

from __future__ import annotations

import random

import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow (pip install 'tidelog[spark]')")

from tidelog.pipelines.delivery.partitioners import fnv1a, murmur2, partition_of  # noqa: E402

MASK = 0xFFFFFFFF


def slow_murmur2(data: bytes) -> int:
    """Key by key, as the algorithm is written down."""
    m = 0x5BD1E995
    value = 0x9747B28C ^ len(data)
    whole = len(data) // 4 * 4
    for index in range(0, whole, 4):
        word = int.from_bytes(data[index : index + 4], "little") * m & MASK
        word = (word ^ word >> 24) * m & MASK
        value = (value * m & MASK) ^ word
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * m & MASK
    value = (value ^ value >> 13) * m & MASK
    return (value ^ value >> 15) & 0x7FFFFFFF


def test_murmur2_of_known_keys() -> None:
    # The values that Apache Kafka's own tests expect, made positive.
    known = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536}
    assert list(murmur2(pa.array(list(known)))) == [value & 0x7FFFFFFF for value in known.values()]


def test_murmur2_of_many_keys() -> None:
    source = random.Random(7)
    keys = [source.randbytes(source.randrange(0, 70)) for _ in range(500)]
    assert list(murmur2(pa.array(keys))) == [slow_murmur2(key) for key in keys]
    assert list(murmur2(pa.array(keys).slice(100, 50))) == [slow_murmur2(key) for key in keys[100:150]]


def test_fnv1a_is_an_absolute_value() -> None:
    value = 0x811C9DC5
    for byte in b"customer-7":
        value = (value ^ byte) * 0x01000193 & MASK
    signed = value - (1 << 32) if value >> 31 else value
    assert list(fnv1a(pa.array([b"customer-7"]))) == [abs(signed)]


def test_partitions_are_in_range_and_nulls_do_no_harm() -> None:
    keys = pa.array([b"a", None, b"", b"b" * 1000])
    for name in ("murmur2", "fnv1a"):
        assert all(0 <= partition < 7 for partition in partition_of(keys, name, 7).to_pylist())
    assert partition_of(pa.array([], pa.binary()), "murmur2", 3).to_pylist() == []
