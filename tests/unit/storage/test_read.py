"""Reading: every edge of offsets, sizes and upper bounds; regions that outlive their segment."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.storage.log_building import append, append_many, batch_of, headers_in, offsets_of, open_log

from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.storage.errors import CorruptLog, StorageFailure
from tidelog.storage.log import Log
from tidelog.storage.region import EMPTY_REGION

RECORDS = 10
SIZE = len(batch_of(RECORDS))
UNBOUNDED = 1 << 30


def log_of(directory: Path, batches: int = 10, *, per_segment: int = 4, **settings: object) -> Log:
    """Batches of ten records of the same size, four to a segment, every one of them indexed."""
    settings.setdefault("index_interval_bytes", 1)
    log = open_log(directory, segment_bytes=per_segment * SIZE, **settings)
    append_many(log, batches, RECORDS, size=10)
    return log


def read_extent(
    log: Log, offset: int, max_bytes: int = UNBOUNDED, upper: int | None = None, *, one: bool = True
) -> tuple[int, int]:
    """Base offset of the first batch and how many bytes, (-1, 0) for nothing."""
    upper = log.log_end_offset if upper is None else upper
    region = log.reader.read(offset, max_bytes, upper_offset=upper, min_one_batch=one)
    headers = headers_in(region)
    return (headers[0].base_offset if headers else -1), region.size


@pytest.fixture(params=["live", "reopened", "no index"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Log:
    """Segments [0, 40), [40, 80), [80, 100)."""
    log = log_of(tmp_path / "log")
    if request.param != "live":
        log.close()
        if request.param == "no index":
            for path in (tmp_path / "log").glob("*index"):
                path.unlink()
        log = open_log(tmp_path / "log", segment_bytes=4 * SIZE)
    return log


@pytest.mark.parametrize("offset", [*range(0, 100, 7), 0, 9, 10, 39, 40, 79, 80, 99])
def test_a_read_begins_with_the_batch_that_holds_the_offset_and_stays_in_its_segment(log: Log, offset: int) -> None:
    batches_left = min(4 - offset % 40 // 10, 10 - offset // 10)
    assert read_extent(log, offset) == (offset // 10 * 10, batches_left * SIZE)


def test_the_end_of_the_log_is_empty_and_beyond_is_out_of_range(log: Log) -> None:
    assert log.reader.read(100, UNBOUNDED, upper_offset=100, min_one_batch=True) is EMPTY_REGION
    for offset in (-1, 101):
        with pytest.raises(BrokerError) as refused:
            log.reader.read(offset, UNBOUNDED, upper_offset=100, min_one_batch=True)
        assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(
    ("max_bytes", "one", "size"),
    [
        pytest.param(0, True, SIZE, id="nothing allowed, one batch owed"),
        pytest.param(0, False, 0, id="nothing allowed"),
        pytest.param(SIZE - 1, True, SIZE, id="a byte short, one owed"),
        pytest.param(SIZE - 1, False, 0, id="a byte short"),
        pytest.param(SIZE, False, SIZE, id="exactly one"),
        pytest.param(2 * SIZE, False, 2 * SIZE, id="exactly two"),
        pytest.param(3 * SIZE - 1, True, 2 * SIZE, id="cut where the index knows a batch begins"),
        pytest.param(4 * SIZE, True, 4 * SIZE, id="the whole segment"),
        pytest.param(4 * SIZE + 1, True, 4 * SIZE, id="no further than the segment"),
    ],
)
def test_max_bytes(tmp_path: Path, max_bytes: int, one: bool, size: int) -> None:
    assert read_extent(log_of(tmp_path / "log"), 0, max_bytes, one=one)[1] == size


def test_without_index_entries_the_cut_may_be_in_a_batch(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log", index_interval_bytes=1 << 20)
    assert read_extent(log, 0, 3 * SIZE - 1) == (0, 3 * SIZE - 1)
    assert len(headers_in(log.reader.read(0, 3 * SIZE - 1, upper_offset=100, min_one_batch=True))) == 2


@pytest.mark.parametrize(
    ("offset", "upper", "expected"),
    [
        (0, 0, (-1, 0)),
        (0, 10, (0, SIZE)),
        pytest.param(0, 9, (-1, 0), id="inside the first batch"),
        pytest.param(0, 11, (0, SIZE), id="inside the second batch"),
        pytest.param(0, 20, (0, 2 * SIZE), id="batch boundary"),
        pytest.param(0, 40, (0, 4 * SIZE), id="segment boundary"),
        pytest.param(0, 41, (0, 4 * SIZE), id="in the next segment"),
        pytest.param(30, 31, (-1, 0), id="inside the batch read"),
        pytest.param(85, 100, (80, 2 * SIZE), id="end of the log"),
        pytest.param(85, 90, (80, SIZE), id="inside the active segment"),
        pytest.param(85, 85, (-1, 0), id="at the offset"),
        pytest.param(85, 80, (-1, 0), id="below the offset"),
        pytest.param(0, 1000, (0, 4 * SIZE), id="above the log"),
    ],
)
def test_nothing_at_or_beyond_the_upper_offset(log: Log, offset: int, upper: int, expected: tuple[int, int]) -> None:
    assert read_extent(log, offset, upper=upper) == expected
    assert read_extent(log, offset, upper=upper) == expected, "the remembered position says the same"


def test_the_remembered_upper_position_follows_the_log(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log", 2, per_segment=100)
    assert read_extent(log, 0, upper=15) == (0, SIZE)
    log.rearranger.truncate_to(10)
    append(log, batch_of(3))
    append(log, batch_of(20))
    assert read_extent(log, 0, upper=13) == (0, SIZE + len(batch_of(3)))
    assert read_extent(log, 0, upper=15) == (0, SIZE + len(batch_of(3)))


def test_the_log_start_offset_bounds_reads(log: Log) -> None:
    log.rearranger.delete_records_before(15)
    with pytest.raises(BrokerError) as refused:
        log.reader.read(14, UNBOUNDED, upper_offset=100, min_one_batch=True)
    assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert read_extent(log, 15) == (10, 3 * SIZE)


def test_gaps_lead_to_the_next_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", index_interval_bytes=1)
    for offset in (0, 20, 50):
        log.writer.append_as_follower(batch_of(10, base_offset=offset))
    log.writer.roll(100)
    log.writer.append_as_follower(batch_of(10, base_offset=100))
    assert read_extent(log, 10) == (20, 2 * SIZE)
    assert read_extent(log, 49)[0] == 50
    assert read_extent(log, 60) == (100, SIZE), "nothing left in this segment"
    assert read_extent(log, 10, upper=20) == (-1, 0)
    assert read_extent(log, 60, upper=100) == (-1, 0)


def test_all_batches_come_once_and_in_order_whatever_their_size(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", segment_bytes=200_000)
    expected = []
    for number in range(400):
        result = append(log, batch_of(1 + number % 7, size=number * 37 % 5000))
        expected.append((result.base_offset, result.last_offset))
    assert len(log.segments) > 3
    assert offsets_of(log) == expected
    for first, last in expected:
        assert read_extent(log, first, 1)[0] == first
        assert read_extent(log, last, 1)[0] == first


def test_what_was_appended_is_read_at_once(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    for number in range(50):
        append(log, batch_of(2))
        assert read_extent(log, number * 2) == (number * 2, len(batch_of(2)))
        assert read_extent(log, number * 2 + 1)[0] == number * 2


def test_a_region_is_loaded_in_parts(tmp_path: Path) -> None:
    region = log_of(tmp_path / "log").reader.read(0, UNBOUNDED, upper_offset=100, min_one_batch=True)
    content = region.load()
    assert len(content) == len(region) == region.size
    assert region.load(5) == content[5:]
    assert region.load(5, 7) == content[5:12]
    assert EMPTY_REGION.load() == b""
    assert EMPTY_REGION.send_to(-1, 0) == 0


def test_a_region_outlives_its_segment(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log")
    region = log.reader.read(0, UNBOUNDED, upper_offset=100, min_one_batch=True)
    content = region.load()
    log.rearranger.delete_oldest(1)
    assert not (tmp_path / "log" / f"{0:020d}.log").exists()
    assert region.load() == content
    log.delete()
    assert region.load() == content
    assert not (tmp_path / "log").exists()


def test_an_index_that_lies_is_made_again(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log")
    log.close()
    index = tmp_path / "log" / f"{0:020d}.index"
    good = index.read_bytes()
    index.write_bytes(good[:4] + (SIZE - 1).to_bytes(4, "big") + good[8:])
    log = open_log(tmp_path / "log", segment_bytes=4 * SIZE, index_interval_bytes=1)
    assert read_extent(log, 20) == (20, 2 * SIZE)
    assert index.read_bytes() == good


def test_an_index_with_holes_is_made_again(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    append_many(log, 400, 10, size=1000)
    append(log, batch_of(1))
    log.close()
    index = tmp_path / "log" / f"{0:020d}.index"
    good = index.read_bytes()
    index.write_bytes(good[:80])
    log = open_log(tmp_path / "log")
    assert read_extent(log, 3995, 1)[0] == 3990
    log.close()
    assert index.read_bytes() == good


def test_damage_in_the_log_is_not_served(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log")
    log.close()
    with (tmp_path / "log" / f"{0:020d}.log").open("r+b") as file:
        file.seek(2 * SIZE + 16)
        file.write(b"\x07")
    log = open_log(tmp_path / "log", segment_bytes=4 * SIZE)
    with pytest.raises(CorruptLog):
        log.reader.read(30, UNBOUNDED, upper_offset=100, min_one_batch=True)


def test_a_file_that_is_gone_is_a_storage_failure(tmp_path: Path) -> None:
    log_of(tmp_path / "log").close()
    log = open_log(tmp_path / "log", segment_bytes=4 * SIZE)
    (tmp_path / "log" / f"{0:020d}.log").unlink()
    with pytest.raises(StorageFailure):
        log.reader.read(0, UNBOUNDED, upper_offset=100, min_one_batch=True)


@pytest.mark.parametrize(("max_bytes", "bound"), [(SIZE, 20), (2 * SIZE, 30), (4 * SIZE, 40)])
def test_the_upper_bound_of_a_region_covers_it(tmp_path: Path, max_bytes: int, bound: int) -> None:
    log = log_of(tmp_path / "log")
    region = log.reader.read(0, max_bytes, upper_offset=100, min_one_batch=True)
    assert log.reader.upper_bound_offset(region) == bound
    assert log.reader.upper_bound_offset(log.reader.read(80, UNBOUNDED, upper_offset=100, min_one_batch=True)) == 100
    assert log.reader.upper_bound_offset(EMPTY_REGION) == 100
