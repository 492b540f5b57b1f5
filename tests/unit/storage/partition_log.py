"""A log in a temporary directory and short ways to fill it and to see what is in it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tidelog.config.topic import TopicConfig
from tidelog.model.ids import TopicPartition
from tidelog.records.batch import decode_header, iterate_whole_headers
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.control import build_end_txn_marker
from tidelog.records.record import Record, iterate_records
from tidelog.runtime.system import System
from tidelog.storage.compaction import find_cleanable, finish_compaction, plan_compaction
from tidelog.storage.compaction_pass import run_pass
from tidelog.storage.log import Log
from tidelog.storage.log_writer import AppendResult

NOW = 1_800_000_000_000
PARTITION = TopicPartition("topic", 0)
COMPACT = frozenset({"compact"})


def config(**settings: object) -> TopicConfig:
    return TopicConfig(**settings)


def open_log(directory: Path, *, clean: bool = True, now_ms: int = NOW, **settings: object) -> Log:
    return Log.open(
        directory / "topic-0", PARTITION, config(**settings), system=System(lambda: now_ms), clean_shutdown=clean
    )


def append(
    log: Log, records: Iterable[tuple[bytes | None, bytes | None]], *, timestamp: int = NOW, **options: object
) -> AppendResult:
    batch = build_batch([NewRecord(key, value, timestamp) for key, value in records], **options)  # type: ignore[arg-type]
    return log.writer.append_as_leader(batch, decode_header(batch), 0, timestamp)


def end_transaction(log: Log, producer_id: int, *, commit: bool, epoch: int = 0, timestamp: int = NOW) -> AppendResult:
    marker = build_end_txn_marker(
        producer_id=producer_id, producer_epoch=epoch, commit=commit, coordinator_epoch=0, timestamp=timestamp
    )
    return log.writer.append_as_leader(marker, decode_header(marker), 0, timestamp)


def read_batches(log: Log) -> list[bytes]:
    """Every batch from the log start on, as a reader of everything gets them."""
    batches: list[bytes] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.reader.read(offset, 1 << 20, upper_offset=log.log_end_offset, min_one_batch=True).load()
        if not data:
            break
        for position, header in iterate_whole_headers(data):
            batches.append(data[position : position + header.size_in_bytes])
            offset = header.next_offset
    return batches


def visible(log: Log) -> list[Record]:
    """The data records a consumer gets."""
    return [
        record
        for batch in read_batches(log)
        if not decode_header(batch).is_control
        for record in iterate_records(batch)
        if record.offset >= log.log_start_offset
    ]


def contents(log: Log) -> dict[bytes | None, bytes | None]:
    """The last value of each key."""
    return {record.key: record.value for record in visible(log)}


def compact(log: Log, cleaner_offset: int = 0, *, now_ms: int = NOW, keys_max: int = 10_000) -> int:
    """One whole pass, as the cleaner does it; up to where the log is clean afterwards."""
    cleanable = find_cleanable(log, cleaner_offset, log.reader.last_stable_offset(log.log_end_offset), now_ms)
    plan = plan_compaction(log, cleanable, now_ms)
    result = run_pass(plan, keys_max=keys_max)
    assert finish_compaction(log, plan, result)
    return result.end_offset
