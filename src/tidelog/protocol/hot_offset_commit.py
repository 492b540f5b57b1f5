"""OffsetCommit without objects in between: every consumer commits every few seconds, partition by partition.

The same bytes as the generated `offset_commit` module, which the tests hold this one against, in every version.
Requests of versions that no current client sends (before 8) are read by the generated code.
"""

from __future__ import annotations

from struct import Struct as Format
from struct import error as struct_error
from typing import TYPE_CHECKING, Final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i16_be, write_i32_be

from tidelog.protocol.errors import MalformedMessage, UnencodableValue
from tidelog.protocol.hot_wire import (
    as_bytes,
    read_count,
    read_last_tags,
    read_nullable_string,
    read_string,
    read_tags,
    write_count,
    write_string,
)
from tidelog.protocol.wire import ZERO_UUID, append_string

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mypy_extensions import i64

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

_pack_i: Final = Format(">i").pack
_pack_classic: Final = Format(">ih").pack


def decode_offset_commit(frame: Buffer, pos: int, version: int) -> OffsetCommit:
    """Reads the body of a request at `pos`. Raises nothing but MalformedMessage and UnsupportedVersion."""
    if version < FLEXIBLE_FROM or version > TOPIC_IDS_FROM:
        return _decode_generally(frame, pos, version)
    try:
        return _decode_flexible(as_bytes(frame), pos, version)
    except (IndexError, UnicodeDecodeError) as error:
        raise MalformedMessage(f"OffsetCommitRequest version {version}: {error}") from None


def _decode_flexible(data: bytes, pos: i64, version: int) -> OffsetCommit:
    limit: i64 = len(data)
    group_id, pos = read_string(data, pos)
    generation = read_i32_be(data, pos)
    member_id, pos = read_string(data, pos + 4)
    instance_id, pos = read_nullable_string(data, pos)
    count, pos = read_count(data, pos)
    if count == 0 or count - 1 > limit - pos:
        raise MalformedMessage("OffsetCommitRequest.topics is null or has more elements than bytes")
    topics: list[CommittedTopic] = []
    for _ in range(count - 1):
        name, topic_id = "", ZERO_UUID
        if version >= TOPIC_IDS_FROM:
            topic_id = data[pos : pos + 16]
            pos += 16
        else:
            name, pos = read_string(data, pos)
        partitions, pos = _decode_partitions(data, pos, limit)
        topics.append((name, topic_id, partitions))
        pos = read_tags(data, pos)
    read_last_tags(data, pos)
    return group_id, generation, member_id, instance_id, _NO_RETENTION, topics


def _decode_partitions(data: bytes, pos: i64, limit: i64) -> tuple[list[CommittedPartition], i64]:
    count, pos = read_count(data, pos)
    if count == 0 or (count - 1) * _PARTITION_BYTES_MIN > limit - pos:
        raise MalformedMessage("OffsetCommitRequestTopic.partitions is null or has more elements than bytes")
    partitions: list[CommittedPartition] = []
    for _ in range(count - 1):
        index = read_i32_be(data, pos)
        offset = read_i64_be(data, pos + 4)
        leader_epoch = read_i32_be(data, pos + 12)
        if data[pos + 16] == 1 and data[pos + 17] == 0:
            # What nearly every consumer sends: no metadata.
            pos += 18
            partitions.append((index, offset, leader_epoch, ""))
            continue
        metadata, pos = read_nullable_string(data, pos + 16)
        partitions.append((index, offset, leader_epoch, metadata))
        pos = read_tags(data, pos)
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


def encode_offset_commit_response(version: int, topics: Sequence[TopicAnswer], throttle_ms: int = 0) -> bytes:
    try:
        if version >= FLEXIBLE_FROM:
            return _encode_flexible(version, topics, throttle_ms)
        return _encode_classic(version, topics, throttle_ms)
    except (struct_error, ValueError, OverflowError) as error:
        raise UnencodableValue(f"OffsetCommitResponse version {version}: {error}") from error


def _encode_flexible(version: int, topics: Sequence[TopicAnswer], throttle_ms: int) -> bytes:
    out = BytesWriter()
    write_i32_be(out, throttle_ms)
    write_count(out, len(topics))
    for name, topic_id, partitions in topics:
        if version >= TOPIC_IDS_FROM:
            out.write(topic_id)
        else:
            write_string(out, name)
        write_count(out, len(partitions))
        for index, code in partitions:
            write_i32_be(out, index)
            write_i16_be(out, code)
            out.append(0)
        out.append(0)
    out.append(0)
    return out.getvalue()


def _encode_classic(version: int, topics: Sequence[TopicAnswer], throttle_ms: int) -> bytes:
    out = bytearray()
    if version >= THROTTLE_FROM:
        out += _pack_i(throttle_ms)
    out += _pack_i(len(topics))
    for name, _, partitions in topics:
        append_string(out, name)
        out += _pack_i(len(partitions))
        for index, code in partitions:
            out += _pack_classic(index, code)
    return bytes(out)
