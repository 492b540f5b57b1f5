"""Snapshots as Kafka writes them: `<end offset>-<term>.checkpoint`, batches between a header and a footer.

Behind the header come the members in force at the end offset, then the records of the state machine. Every batch has
its checksum, and the footer shows that nothing is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from tidelog.model.errors import BrokerError
from tidelog.raft.core.members import MemberSet
from tidelog.raft.core.messages import MEMBERS_RECORDS, SnapshotId
from tidelog.raft.entries import build_members_batch, decode_members
from tidelog.records.batch import InvalidRecord, iterate_headers, verify_crc
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.control import ControlType, decode_control_type, encode_control_key
from tidelog.records.record import iterate_records

RECORDS_PER_BATCH = 1000
SNAPSHOT_SUFFIX = ".checkpoint"


class DamagedSnapshot(Exception):
    """The file is no whole snapshot; the text says what is wrong with it."""


class SnapshotContent(NamedTuple):
    members: MemberSet | None
    """None in a snapshot of a node that had no quorum."""
    values: list[bytes]
    """Of the records, in order."""


def snapshot_file_name(snapshot: SnapshotId) -> str:
    return f"{snapshot.end_offset:020d}-{snapshot.term:010d}{SNAPSHOT_SUFFIX}"


def parse_snapshot_name(name: str) -> SnapshotId | None:
    stem = name.removesuffix(SNAPSHOT_SUFFIX)
    offset, dash, term = stem.partition("-")
    if stem == name or not dash or len(offset) != 20 or len(term) != 10:
        return None
    return SnapshotId(int(offset), int(term)) if (offset + term).isascii() and (offset + term).isdigit() else None


def encode_snapshot(values: Iterable[bytes], members: MemberSet, snapshot: SnapshotId, now_ms: int) -> Iterator[bytes]:
    """The batches of the file one after the other, so that the whole need not be in memory."""
    # Imported here: a start reads snapshots, and few write one.
    from tidelog.protocol.generated.snapshot_footer_record import SnapshotFooterRecord
    from tidelog.protocol.generated.snapshot_header_record import SnapshotHeaderRecord

    def control(kind: ControlType, value: bytes, offset: int) -> bytes:
        record = NewRecord(encode_control_key(kind), value, now_ms)
        return build_batch([record], base_offset=offset, control=True, partition_leader_epoch=snapshot.term)

    yield control(ControlType.SNAPSHOT_HEADER, SnapshotHeaderRecord(last_contained_log_timestamp=now_ms).encode(0), 0)
    yield build_members_batch(members, base_offset=1, term=snapshot.term, now_ms=now_ms)
    offset = 1 + MEMBERS_RECORDS
    remaining = iter(values)
    while chunk := [NewRecord(None, value, now_ms) for value in islice(remaining, RECORDS_PER_BATCH)]:
        yield build_batch(chunk, base_offset=offset, partition_leader_epoch=snapshot.term)
        offset += len(chunk)
    yield control(ControlType.SNAPSHOT_FOOTER, SnapshotFooterRecord().encode(0), offset)


def decode_snapshot(data: bytes) -> SnapshotContent:
    """DamagedSnapshot unless every byte is as it was written."""
    kinds: list[int] = []
    members: MemberSet | None = None
    values: list[bytes] = []
    end = 0
    try:
        for position, header in iterate_headers(data):
            if not verify_crc(data, position, header):
                raise DamagedSnapshot(f"bad checksum at byte {position}")
            batch = data[position : position + header.size_in_bytes]
            end = position + header.size_in_bytes
            if header.is_control:
                kinds += (decode_control_type(record.key) for record in iterate_records(batch))
                members = decode_members(batch) or members
            else:
                values += (record.value or b"" for record in iterate_records(batch))
    except (BrokerError, InvalidRecord) as error:
        raise DamagedSnapshot(error.message) from None
    if end != len(data) or not kinds or kinds[0] != ControlType.SNAPSHOT_HEADER:
        raise DamagedSnapshot("it is cut short or no snapshot")
    if kinds[-1] != ControlType.SNAPSHOT_FOOTER:
        raise DamagedSnapshot("it has no end")
    return SnapshotContent(members, values)
