"""The requests that members of groups repeat, and their responses: heartbeats of both protocols, JoinGroup and
SyncGroup.

The same bytes as the generated modules, which the tests hold this one against, without objects in between. Versions
that no current client sends (the ones that are not flexible) go through the generated code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from librt.strings import BytesWriter, read_i32_be, write_i16_be, write_i32_be

from tidelog.protocol.errors import MalformedMessage, UnsupportedVersion
from tidelog.protocol.hot_wire import (
    as_bytes,
    read_bytes,
    read_count,
    read_int32s,
    read_last_tags,
    read_nullable_string,
    read_string,
    read_tags,
    write_bytes,
    write_count,
    write_nullable_string,
    write_string,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mypy_extensions import i64

    from tidelog.protocol.wire import Buffer

    HeartbeatFields = tuple[str, int, str, str | None]
    """Group, generation, member, instance."""
    ConsumerFields = tuple[
        str,
        str,
        int,
        str | None,
        str | None,
        int,
        list[str] | None,
        str | None,
        str | None,
        dict[bytes, tuple[int, ...]] | None,
    ]
    """Group, member, member epoch, instance, rack, rebalance timeout in milliseconds, topics, pattern, assignor, owned
    partitions by topic id."""
    JoinFields = tuple[str, int, int, str, str | None, str, list[tuple[str, bytes]]]
    """Group, session and rebalance timeout in milliseconds, member, instance, protocol type, (protocol, metadata)."""
    SyncFields = tuple[str, int, str, str | None, str | None, str | None, list[tuple[str, bytes]]]
    """Group, generation, member, instance, protocol type, protocol, (member, assignment) from the leader."""

HEARTBEAT_FLEXIBLE_FROM: Final = 4
JOIN_FLEXIBLE_FROM: Final = 6
JOIN_REASON_FROM: Final = 8
JOIN_TYPE_FROM: Final = 7
JOIN_SKIP_FROM: Final = 9
SYNC_FLEXIBLE_FROM: Final = 4
SYNC_PROTOCOL_FROM: Final = 5
CONSUMER_PATTERN_FROM: Final = 1
_PAIR_BYTES_MIN: Final = 3
_TOPIC_BYTES_MIN: Final = 18

_QUIET: Final = (b"\0\0\xff\xff\xff\xff\0\0\0\0", b"\0\0\xff\xff\xff\xff\0\0\0\0\0")
"""By version, all that follows the epoch of a member without news: nulls, no timeout, no tags."""

_NO_ERROR: Final = b"\0\0\0\0\0\0\0"
"""No throttling, no error, no tags: nearly every answer to a Heartbeat."""
_NO_ERROR_BEHIND_THROTTLE: Final = b"\0\0\0"


def decode_heartbeat(frame: Buffer, pos: int, version: int) -> HeartbeatFields:
    """Like all of these raises nothing but MalformedMessage and UnsupportedVersion."""
    if version != HEARTBEAT_FLEXIBLE_FROM:
        from tidelog.protocol.generated.heartbeat import HeartbeatRequest

        request, _ = HeartbeatRequest.decode(frame, pos, version)
        return request.group_id, request.generation_id, request.member_id, request.group_instance_id
    try:
        data = as_bytes(frame)
        group_id, generation, member_id, instance_id, at = _read_member(data, pos)
        read_last_tags(data, at)
    except (IndexError, UnicodeDecodeError) as error:
        raise MalformedMessage(f"HeartbeatRequest version {version}: {error}") from None
    return group_id, generation, member_id, instance_id


def _read_member(data: bytes, pos: i64) -> tuple[str, int, str, str | None, i64]:
    """Group, generation, member and instance, as Heartbeat and SyncGroup begin, and where they end."""
    at: i64
    group_id, at = read_string(data, pos)
    generation = read_i32_be(data, at)
    member_id, at = read_string(data, at + 4)
    instance_id, at = read_nullable_string(data, at)
    return group_id, generation, member_id, instance_id, at


def encode_heartbeat_response(version: int, error_code: int, throttle_ms: int = 0) -> bytes:
    if version >= HEARTBEAT_FLEXIBLE_FROM:
        if error_code == 0 and throttle_ms == 0:
            return _NO_ERROR
        out = BytesWriter()
        write_i32_be(out, throttle_ms)
        write_i16_be(out, error_code)
        out.append(0)
        return out.getvalue()
    from tidelog.protocol.generated.heartbeat import HeartbeatResponse

    return HeartbeatResponse(error_code=error_code, throttle_time_ms=throttle_ms).encode(version)


def decode_consumer_heartbeat(frame: Buffer, pos: int, version: int) -> ConsumerFields:
    if not 0 <= version < len(_QUIET):
        raise UnsupportedVersion("ConsumerGroupHeartbeatRequest", version)
    try:
        data = as_bytes(frame)
        at: i64
        group_id, at = read_string(data, pos)
        member_id, at = read_string(data, at)
        epoch = read_i32_be(data, at)
        at += 4
        if data[at:] == _QUIET[version]:
            return group_id, member_id, epoch, None, None, -1, None, None, None, None
        instance_id, at = read_nullable_string(data, at)
        rack_id, at = read_nullable_string(data, at)
        rebalance_ms = read_i32_be(data, at)
        topics, at = _read_names(data, at + 4)
        pattern: str | None = None
        if version >= CONSUMER_PATTERN_FROM:
            pattern, at = read_nullable_string(data, at)
        assignor, at = read_nullable_string(data, at)
        owned, at = _read_topic_partitions(data, at)
        read_last_tags(data, at)
    except (IndexError, UnicodeDecodeError) as error:
        raise MalformedMessage(f"ConsumerGroupHeartbeatRequest version {version}: {error}") from None
    return group_id, member_id, epoch, instance_id, rack_id, rebalance_ms, topics, pattern, assignor, owned


def _read_names(data: bytes, pos: i64) -> tuple[list[str] | None, i64]:
    """An array of strings, or null."""
    limit: i64 = len(data)
    count, pos = read_count(data, pos)
    if count == 0:
        return None, pos
    if count - 1 > limit - pos:
        raise MalformedMessage("an array has more elements than bytes")
    names: list[str] = []
    for _ in range(count - 1):
        name, pos = read_string(data, pos)
        names.append(name)
    return names, pos


def _read_topic_partitions(data: bytes, pos: i64) -> tuple[dict[bytes, tuple[int, ...]] | None, i64]:
    """Partitions by topic id, or null; of a topic that is named twice the last."""
    limit: i64 = len(data)
    count, pos = read_count(data, pos)
    if count == 0:
        return None, pos
    if (count - 1) * _TOPIC_BYTES_MIN > limit - pos:
        raise MalformedMessage("an array has more elements than bytes")
    owned: dict[bytes, tuple[int, ...]] = {}
    for _ in range(count - 1):
        topic_id = data[pos : pos + 16]
        size, pos = read_count(data, pos + 16)
        if size == 0 or 4 * (size - 1) > limit - pos:
            raise MalformedMessage("an array is null that must not be, or has more elements than bytes")
        owned[topic_id] = tuple(read_int32s(data, pos, size - 1))
        pos = read_tags(data, pos + 4 * (size - 1))
    return owned, pos


def encode_consumer_heartbeat_response(
    member_id: str,
    member_epoch: int,
    heartbeat_interval_ms: int,
    assignment: Mapping[bytes, Sequence[int]] | None,
    throttle_ms: int = 0,
) -> bytes:
    """Without an error; the format is the same in all versions."""
    out = BytesWriter()
    write_i32_be(out, throttle_ms)
    out.write(_NO_ERROR_BEHIND_THROTTLE)
    write_string(out, member_id)
    write_i32_be(out, member_epoch)
    write_i32_be(out, heartbeat_interval_ms)
    if assignment is None:
        out.write(b"\xff\0")
        return out.getvalue()
    out.append(1)
    write_count(out, len(assignment))
    for topic_id, partitions in assignment.items():
        out.write(topic_id)
        write_count(out, len(partitions))
        for partition in partitions:
            write_i32_be(out, partition)
        out.append(0)
    out.write(b"\0\0")
    return out.getvalue()


def decode_join(frame: Buffer, pos: int, version: int) -> JoinFields:
    if version < JOIN_FLEXIBLE_FROM or version > JOIN_SKIP_FROM:
        from tidelog.protocol.generated.join_group import JoinGroupRequest

        request, _ = JoinGroupRequest.decode(frame, pos, version)
        protocols = [(protocol.name, bytes(protocol.metadata)) for protocol in request.protocols]
        timeouts = request.session_timeout_ms, request.rebalance_timeout_ms
        member = request.member_id, request.group_instance_id
        return request.group_id, timeouts[0], timeouts[1], member[0], member[1], request.protocol_type, protocols
    try:
        data = as_bytes(frame)
        at: i64
        group_id, at = read_string(data, pos)
        session_ms = read_i32_be(data, at)
        rebalance_ms = read_i32_be(data, at + 4)
        member_id, at = read_string(data, at + 8)
        instance_id, at = read_nullable_string(data, at)
        protocol_type, at = read_string(data, at)
        protocols, at = _read_pairs(data, at)
        if version >= JOIN_REASON_FROM:
            _, at = read_nullable_string(data, at)
        read_last_tags(data, at)
    except (IndexError, UnicodeDecodeError) as error:
        raise MalformedMessage(f"JoinGroupRequest version {version}: {error}") from None
    return group_id, session_ms, rebalance_ms, member_id, instance_id, protocol_type, protocols


def encode_join_response(
    version: int,
    error_code: int,
    generation: int,
    protocol_type: str | None,
    protocol: str | None,
    leader: str,
    member_id: str,
    skip_assignment: bool,
    members: Sequence[tuple[str, str | None, bytes]],
    throttle_ms: int = 0,
) -> bytes:
    """In flexible versions; those before 7 have no null for the protocol. Members are (id, instance, metadata)."""
    out = BytesWriter()
    write_i32_be(out, throttle_ms)
    write_i16_be(out, error_code)
    write_i32_be(out, generation)
    if version >= JOIN_TYPE_FROM:
        write_nullable_string(out, protocol_type)
        write_nullable_string(out, protocol)
    else:
        write_string(out, protocol or "")
    write_string(out, leader)
    if version >= JOIN_SKIP_FROM:
        out.append(1 if skip_assignment else 0)
    write_string(out, member_id)
    write_count(out, len(members))
    for each, instance_id, metadata in members:
        write_string(out, each)
        write_nullable_string(out, instance_id)
        write_bytes(out, metadata)
        out.append(0)
    out.append(0)
    return out.getvalue()


def decode_sync(frame: Buffer, pos: int, version: int) -> SyncFields:
    if version < SYNC_FLEXIBLE_FROM or version > SYNC_PROTOCOL_FROM:
        from tidelog.protocol.generated.sync_group import SyncGroupRequest

        request, _ = SyncGroupRequest.decode(frame, pos, version)
        assignments = [(each.member_id, bytes(each.assignment)) for each in request.assignments]
        member = request.generation_id, request.member_id, request.group_instance_id
        return request.group_id, member[0], member[1], member[2], None, None, assignments
    try:
        data = as_bytes(frame)
        group_id, generation, member_id, instance_id, at = _read_member(data, pos)
        protocol_type: str | None = None
        protocol: str | None = None
        if version >= SYNC_PROTOCOL_FROM:
            protocol_type, at = read_nullable_string(data, at)
            protocol, at = read_nullable_string(data, at)
        assignments, at = _read_pairs(data, at)
        read_last_tags(data, at)
    except (IndexError, UnicodeDecodeError) as error:
        raise MalformedMessage(f"SyncGroupRequest version {version}: {error}") from None
    return group_id, generation, member_id, instance_id, protocol_type, protocol, assignments


def encode_sync_response(
    version: int,
    error_code: int,
    protocol_type: str | None,
    protocol: str | None,
    assignment: bytes,
    throttle_ms: int = 0,
) -> bytes:
    """In flexible versions."""
    out = BytesWriter()
    write_i32_be(out, throttle_ms)
    write_i16_be(out, error_code)
    if version >= SYNC_PROTOCOL_FROM:
        write_nullable_string(out, protocol_type)
        write_nullable_string(out, protocol)
    write_bytes(out, assignment)
    out.append(0)
    return out.getvalue()


def _read_pairs(data: bytes, pos: i64) -> tuple[list[tuple[str, bytes]], i64]:
    """An array of structures that are a string and bytes."""
    limit: i64 = len(data)
    count, pos = read_count(data, pos)
    if count == 0 or (count - 1) * _PAIR_BYTES_MIN > limit - pos:
        raise MalformedMessage("an array is null or has more elements than bytes")
    pairs: list[tuple[str, bytes]] = []
    for _ in range(count - 1):
        name, pos = read_string(data, pos)
        value, pos = read_bytes(data, pos)
        pairs.append((name, value))
        pos = read_tags(data, pos)
    return pairs, pos
