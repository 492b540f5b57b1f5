"""Control batches: records that the broker writes for itself and consumers never see.

A control record's key is a version and a type (two 16-bit numbers); the value depends on the type. Transactions end
with a commit or abort marker; a Raft leader begins its term with a leader-change record.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from struct import error as struct_error
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.codec.varint import MalformedVarint, decode_unsigned_varint, encode_unsigned_varint
from tidelog.records.batch import InvalidRecord, decode_header
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.record import iterate_records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.codec.buffers import Buffer

_KEY: Final = Struct(">hh")
_END_TRANSACTION_VALUE: Final = Struct(">hi")
_LEADER_CHANGE_START: Final = Struct(">hi")
_INT32: Final = Struct(">i")


class ControlType(IntEnum):
    """What a control record says; numbers not listed here must be skipped by readers."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class EndTransactionMarker(NamedTuple):
    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    timestamp: int
    offset: int


class LeaderChange(NamedTuple):
    leader_id: int
    voters: tuple[int, ...]
    granting_voters: tuple[int, ...]


def encode_control_key(control_type: int) -> bytes:
    return _KEY.pack(0, control_type)


def decode_control_type(key: bytes | None) -> int:
    """The type in a control record's key; unknown numbers are returned as they are."""
    if key is None or len(key) < _KEY.size:
        raise InvalidRecord("a control record without version and type in its key")
    version, control_type = _KEY.unpack_from(key)
    if version < 0:
        raise InvalidRecord(f"control record of version {version}")
    return int(control_type)


def build_end_txn_marker(
    *,
    producer_id: int,
    producer_epoch: int,
    commit: bool,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    partition_leader_epoch: int = -1,
) -> bytes:
    """The batch of one record that ends a producer's transaction in a partition."""
    key = encode_control_key(ControlType.COMMIT if commit else ControlType.ABORT)
    value = _END_TRANSACTION_VALUE.pack(0, coordinator_epoch)
    return build_batch(
        (NewRecord(key, value, timestamp),),
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
        partition_leader_epoch=partition_leader_epoch,
    )


def decode_end_txn_marker(batch: Buffer) -> EndTransactionMarker | None:
    """What the control batch says, or None when it is a control batch of another type or an empty one."""
    header = decode_header(batch)
    if not header.is_control:
        raise InvalidRecord("not a control batch")
    for record in iterate_records(batch):
        control_type = decode_control_type(record.key)
        if control_type not in (ControlType.ABORT, ControlType.COMMIT):
            return None
        try:
            version, coordinator_epoch = _END_TRANSACTION_VALUE.unpack_from(record.value or b"")
        except struct_error:
            raise InvalidRecord("a transaction marker without its coordinator epoch") from None
        if version < 0:
            raise InvalidRecord(f"transaction marker of version {version}")
        return EndTransactionMarker(
            header.producer_id,
            header.producer_epoch,
            control_type == ControlType.COMMIT,
            coordinator_epoch,
            record.timestamp,
            record.offset,
        )
    return None


def _encode_voters(voters: Sequence[int]) -> bytes:
    return encode_unsigned_varint(len(voters) + 1) + b"".join(_INT32.pack(voter) + b"\x00" for voter in voters)


def build_leader_change(
    *,
    leader_id: int,
    voters: Sequence[int],
    granting_voters: Sequence[int],
    timestamp: int,
    leader_epoch: int,
    base_offset: int = 0,
) -> bytes:
    """The first batch of a leader's epoch in a Raft log."""
    value = _LEADER_CHANGE_START.pack(0, leader_id) + _encode_voters(voters) + _encode_voters(granting_voters) + b"\x00"
    return build_batch(
        (NewRecord(encode_control_key(ControlType.LEADER_CHANGE), value, timestamp),),
        base_offset=base_offset,
        control=True,
        partition_leader_epoch=leader_epoch,
    )


def decode_leader_change(value: bytes) -> LeaderChange:
    """The value of a LEADER_CHANGE record of version 0."""
    try:
        _, leader_id = _LEADER_CHANGE_START.unpack_from(value)
        voters, pos = _decode_voters(value, _LEADER_CHANGE_START.size)
        granting, _ = _decode_voters(value, pos)
    except (struct_error, MalformedVarint):
        raise InvalidRecord("a leader-change record cut short") from None
    return LeaderChange(leader_id, voters, granting)


def _decode_voters(value: bytes, pos: int) -> tuple[tuple[int, ...], int]:
    count, pos = decode_unsigned_varint(value, pos)
    voters = []
    for _ in range(count - 1):
        voters.append(_INT32.unpack_from(value, pos)[0])
        # Each voter ends with its tagged fields, of which version 0 has none.
        tags, pos = decode_unsigned_varint(value, pos + 4)
        if tags:
            raise InvalidRecord("a leader-change record with unknown fields")
    return tuple(voters), pos
