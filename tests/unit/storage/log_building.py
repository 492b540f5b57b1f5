"""Logs and batches for the storage tests: small, with a clock that stands still until a test moves it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tidelog.config.topic import TopicConfig
from tidelog.model.ids import TopicPartition
from tidelog.records.batch import BatchHeader, decode_header, iterate_headers
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.control import build_end_txn_marker
from tidelog.runtime.disk import DISK, Disk
from tidelog.runtime.system import System
from tidelog.storage.log import Log
from tidelog.storage.log_writer import AppendResult
from tidelog.storage.region import LogRegion

TOPIC_PARTITION = TopicPartition("orders", 0)
START_MS = 1_700_000_000_000


class Clock:
    def __init__(self) -> None:
        self.now = START_MS

    def __call__(self) -> int:
        return self.now


def open_log(
    directory: Path, clock: Clock | None = None, *, clean: bool = True, disk: Disk = DISK, **options: Any
) -> Log:
    """A log with the given topic settings; names of `Log.open` go to it, all others to the configuration."""
    opening = {
        name: options.pop(name)
        for name in ("recovery_point", "log_start_offset", "hint", "topic_id", "producer_id_expiration_ms", "leftovers")
        if name in options
    }
    if "segment_bytes" in options:
        options["internal_segment_bytes"] = options.pop("segment_bytes")
    return Log.open(
        directory,
        TOPIC_PARTITION,
        TopicConfig(**options),
        system=System(clock or Clock(), disk=disk),
        clean_shutdown=clean,
        **opening,
    )


def batch_of(count: int = 1, *, size: int = 10, timestamp: int = START_MS, **fields: Any) -> bytes:
    """A batch of `count` records of `size` value bytes, a millisecond apart from `timestamp` on."""
    return build_batch([NewRecord(b"key", b"v" * size, timestamp + index) for index in range(count)], **fields)


def append(log: Log, batch: bytes, *, leader_epoch: int = 0, now_ms: int = START_MS) -> AppendResult:
    return log.writer.append_as_leader(batch, decode_header(batch), leader_epoch, now_ms)


def append_many(log: Log, batches: int, records: int = 10, *, size: int = 100, leader_epoch: int = 0) -> None:
    for _ in range(batches):
        append(log, batch_of(records, size=size), leader_epoch=leader_epoch)


def data(producer_id: int, epoch: int, sequence: int, count: int = 1, *, transactional: bool = False) -> bytes:
    return batch_of(
        count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=transactional
    )


def marker(producer_id: int, epoch: int, *, commit: bool, coordinator_epoch: int = 0) -> bytes:
    return build_end_txn_marker(
        producer_id=producer_id,
        producer_epoch=epoch,
        commit=commit,
        coordinator_epoch=coordinator_epoch,
        timestamp=START_MS,
    )


def headers_in(region: LogRegion) -> list[BatchHeader]:
    """The headers of the whole batches of a region."""
    return [header for _, header in iterate_headers(region.load())]


def offsets_of(log: Log) -> list[tuple[int, int]]:
    """First and last offset of every batch a reader gets from beginning to end."""
    found: list[tuple[int, int]] = []
    offset = log.log_start_offset
    while headers := headers_in(log.reader.read(offset, 1 << 16, upper_offset=log.log_end_offset, min_one_batch=True)):
        found += [(header.base_offset, header.last_offset) for header in headers]
        offset = found[-1][1] + 1
    return found


def names_in(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def crash(log: Log) -> None:
    """End without saving anything, as kill -9 does."""
    log.close(clean=False)
