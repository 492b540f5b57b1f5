"""OffsetCommit without objects in between: every consumer commits every few seconds, partition by partition.

The same bytes as the generated `offset_commit` module, which the tests hold this one against, in every version.
Requests of versions that no current client sends (before 8) are read by the generated code.
"""

from __future__ import annotations

from struct import Struct as Format
from struct import error as struct_error
from typing import TYPE_CHECKING, Any, Final

from tidelog.protocol.errors import MalformedMessage, UnencodableValue
from tidelog.protocol.wire import (
    ZERO_UUID,
    append_compact_count,
    append_compact_string,
    append_string,
    read_compact_count,
    read_compact_string,
    read_nullable_compact_string,
    skip_tags,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.protocol.wire import Buffer

    CommittedPartition = tuple[int, int, int, str | None]
    """Partition, offset, leader epoch, metadata."""
    CommittedTopic = tuple[str, bytes, list[CommittedPartition]]
    """Name (up to version 9) or topic id (from 10 on), and its partitions."""
    OffsetCommit = tuple[str, int, str, str | None, int, list[CommittedTopic]]
    """Group, generation or epoch, member, instance, retention in milliseconds, topics."""
    TopicAnswer = tuple[str, bytes, list[tuple[int, int]]]
    """Name, topic id, and (partition, error code) of each partition."""

FLEXIBLE_FROM: Final = 8
TOPIC_IDS_FROM: Final = 10
THROTTLE_FROM: Final = 3
_NO_RETENTION: Final = -1
_PARTITION_BYTES_MIN: Final = 18

_unpack_generation: Final = Format(">i").unpack_from
_unpack_partition: Final = Format(">iqiBB").unpack_from
_pack_i: Final = Format(">i").pack
_pack_classic: Final = Format(">ih").pack
_pack_flexible: Final = Format(">ihx").pack


def decode_offset_commit(frame: Buffer, pos: int, version: int) -> OffsetCommit:
    """Reads the body of a request at `pos`. Raises nothing but MalformedMessage and UnsupportedVersion."""
    if version < FLEXIBLE_FROM or version > TOPIC_IDS_FROM:
        return _decode_generally(frame, pos, version)
    try:
        return _decode_flexible(frame, pos, version)
    except (IndexError, struct_error, UnicodeDecodeError) as error:
        raise MalformedMessage(f"OffsetCommitRequest version {version}: {error}") from None


def _decode_flexible(frame: Buffer, pos: int, version: int) -> OffsetCommit:
    limit = len(frame)
    group_id, pos = read_compact_string(frame, pos)
    generation: int = _unpack_generation(frame, pos)[0]
    member_id, pos = read_compact_string(frame, pos + 4)
    instance_id, pos = read_nullable_compact_string(frame, pos)
    count, pos = read_compact_count(frame, pos)
    if count == 0 or count - 1 > limit - pos:
        raise MalformedMessage("OffsetCommitRequest.topics is null or has more elements than bytes")
    topics: list[CommittedTopic] = []
    for _ in range(count - 1):
        name, topic_id = "", ZERO_UUID
        if version >= TOPIC_IDS_FROM:
            topic_id = bytes(frame[pos : pos + 16])
            pos += 16
        else:
            name, pos = read_compact_string(frame, pos)
        partitions, pos = _decode_partitions(frame, pos, limit)
        topics.append((name, topic_id, partitions))
        pos += 1
        if frame[pos - 1]:
            pos = skip_tags(frame, pos, limit)
    pos += 1
    if frame[pos - 1]:
        pos = skip_tags(frame, pos, limit)
    if pos > limit:
        raise MalformedMessage("OffsetCommitRequest: it ends beyond its bytes")
    return group_id, generation, member_id, instance_id, _NO_RETENTION, topics


def _decode_partitions(frame: Buffer, pos: int, limit: int) -> tuple[list[CommittedPartition], int]:
    count, pos = read_compact_count(frame, pos)
    if count == 0 or (count - 1) * _PARTITION_BYTES_MIN > limit - pos:
        raise MalformedMessage("OffsetCommitRequestTopic.partitions is null or has more elements than bytes")
    partitions: list[CommittedPartition] = []
    index: Any
    offset: Any
    leader_epoch: Any
    for _ in range(count - 1):
        index, offset, leader_epoch, size, tags = _unpack_partition(frame, pos)
        if size == 1 and tags == 0:
            # What nearly every consumer sends: no metadata.
            pos += 18
            partitions.append((index, offset, leader_epoch, ""))
            continue
        metadata, pos = read_nullable_compact_string(frame, pos + 16)
        partitions.append((index, offset, leader_epoch, metadata))
        pos += 1
        if frame[pos - 1]:
            pos = skip_tags(frame, pos, limit)
    return partitions, pos


def _decode_generally(frame: Buffer, pos: int, version: int) -> OffsetCommit:
    from tidelog.protocol.generated.offset_commit import OffsetCommitRequest

    request, _ = OffsetCommitRequest.decode(frame, pos, version)
    topics: list[CommittedTopic] = [
        (
            topic.name,
            topic.topic_id,
            [
                (each.partition_index, each.committed_offset, each.committed_leader_epoch, each.committed_metadata)
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return (
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        request.retention_time_ms,
        topics,
    )


def encode_offset_commit_response(version: int, topics: Sequence[TopicAnswer]) -> bytes:
    out = bytearray()
    try:
        if version >= FLEXIBLE_FROM:
            _encode_flexible(out, version, topics)
        else:
            _encode_classic(out, version, topics)
    except struct_error as error:
        raise UnencodableValue(f"OffsetCommitResponse version {version}: {error}") from error
    return bytes(out)


def _encode_flexible(out: bytearray, version: int, topics: Sequence[TopicAnswer]) -> None:
    out += b"\0\0\0\0"
    append_compact_count(out, len(topics))
    for name, topic_id, partitions in topics:
        if version >= TOPIC_IDS_FROM:
            out += topic_id
        else:
            append_compact_string(out, name)
        append_compact_count(out, len(partitions))
        for index, code in partitions:
            out += _pack_flexible(index, code)
        out.append(0)
    out.append(0)


def _encode_classic(out: bytearray, version: int, topics: Sequence[TopicAnswer]) -> None:
    if version >= THROTTLE_FROM:
        out += b"\0\0\0\0"
    out += _pack_i(len(topics))
    for name, _, partitions in topics:
        append_string(out, name)
        out += _pack_i(len(partitions))
        for index, code in partitions:
            out += _pack_classic(index, code)
