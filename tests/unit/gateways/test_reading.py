"""Records out of fetched bytes: where reading begins, what is left out, and how little is loaded at a time."""

from __future__ import annotations

import pytest

from tidelog.codec.compression import CompressionType
from tidelog.gateways.access import Fetched
from tidelog.gateways.reading import WINDOW_BYTES, RecordReader, read_records
from tidelog.model.errors import BrokerError
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.control import build_end_txn_marker


class RegionOf:
    """Bytes in place of a file."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)
        self.loaded_max = 0

    def load(self, start: int = 0, length: int | None = None) -> bytes:
        part = self._data[start : None if length is None else start + length]
        self.loaded_max = max(self.loaded_max, len(part))
        return part


def fetched(data: bytes, *, aborted: tuple[tuple[int, int], ...] = (), as_bytes: bool = False) -> Fetched:
    return Fetched(1_000, 1_000, 0, aborted, data if as_bytes else RegionOf(data))


def batch(offset: int, *values: bytes, producer_id: int = -1, compression: int = CompressionType.NONE) -> bytes:
    return build_batch(
        [NewRecord(None, value, 1_000) for value in values],
        base_offset=offset,
        producer_id=producer_id,
        transactional=producer_id >= 0,
        compression=compression,
    )


@pytest.mark.parametrize("as_bytes", [True, False])
@pytest.mark.parametrize(
    ("offset", "values"), [(0, [b"a", b"b", b"c", b"d"]), (1, [b"b", b"c", b"d"]), (3, [b"d"]), (4, [])]
)
def test_reading_begins_inside_a_batch(offset: int, values: list[bytes], as_bytes: bool) -> None:
    data = batch(0, b"a", b"b", b"c", compression=CompressionType.ZSTD) + batch(3, b"d")
    records, next_offset = read_records(fetched(data, as_bytes=as_bytes), offset)
    assert [record.value for record in records] == values
    assert next_offset == 4


@pytest.mark.parametrize("cut", [1, 11, 12, 60, 61])
@pytest.mark.parametrize("as_bytes", [True, False])
def test_a_batch_that_is_cut_short_ends_the_records(cut: int, as_bytes: bool) -> None:
    data = batch(0, b"a") + batch(1, b"b")[:cut]
    records, next_offset = read_records(fetched(data, as_bytes=as_bytes), 0)
    assert ([record.value for record in records], next_offset) == ([b"a"], 1)


def test_a_large_region_is_loaded_in_windows() -> None:
    values = [b"%d" % number * 1_000 for number in range(500)]
    data = b"".join(batch(number, value) for number, value in enumerate(values))
    region = RegionOf(data)
    assert region.size > 2 * WINDOW_BYTES
    reader = RecordReader(Fetched(500, 500, 0, (), region), 0)
    assert [record.value for record in reader] == values
    assert reader.next_offset == 500
    assert region.loaded_max <= WINDOW_BYTES


def test_a_batch_larger_than_a_window_fits() -> None:
    large = bytes(3 * WINDOW_BYTES)
    data = batch(0, b"a") + batch(1, large) + batch(2, b"b")
    records, next_offset = read_records(fetched(data), 0)
    assert ([record.value for record in records], next_offset) == ([b"a", large, b"b"], 3)


def test_a_reader_knows_who_wrote_the_last_batch() -> None:
    batches = [bytearray(batch(offset, b"a")) for offset in (0, 1)]
    for epoch, data in zip((6, 7), batches, strict=True):
        data[12:16] = epoch.to_bytes(4, "big")
    reader = RecordReader(fetched(b"".join(batches)), 0)
    assert reader.leader_epoch == -1
    assert len(list(reader)) == 2
    assert (reader.next_offset, reader.leader_epoch) == (2, 7)


def test_aborted_transactions_and_markers_are_left_out() -> None:
    data = b"".join(
        [
            batch(0, b"aborted", producer_id=7),
            batch(1, b"of another", producer_id=8),
            build_end_txn_marker(
                base_offset=2, producer_id=7, producer_epoch=0, commit=False, coordinator_epoch=0, timestamp=1
            ),
            batch(3, b"committed", producer_id=7),
            build_end_txn_marker(
                base_offset=4, producer_id=7, producer_epoch=0, commit=True, coordinator_epoch=0, timestamp=1
            ),
        ]
    )
    records, next_offset = read_records(fetched(data, aborted=((7, 0),)), 0)
    assert ([record.value for record in records], next_offset) == ([b"of another", b"committed"], 5)


def test_damage_is_an_error() -> None:
    with pytest.raises(BrokerError):
        read_records(fetched(b"\xff" * 100), 0)
