"""What members of groups send and are told over and over: heartbeats of both protocols, JoinGroup and SyncGroup.

The same bytes as the generated modules, which the tests hold this one against, without objects in between. Versions
that no current client sends (the ones that are not flexible) go through the generated code.
"""

from __future__ import annotations

from struct import Struct as Format
from struct import error as struct_error
from typing import TYPE_CHECKING, Final

from tidelog.protocol.errors import MalformedMessage, UnsupportedVersion
from tidelog.protocol.wire import (
    append_compact_bytes,
    append_compact_count,
    append_compact_string,
    decode_int32_array,
    read_compact_bytes,
    read_compact_count,
    read_compact_string,
    read_nullable_compact_string,
    skip_tags,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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

_unpack_i: Final = Format(">i").unpack_from
_unpack_ii: Final = Format(">ii").unpack_from
_pack_i: Final = Format(">i").pack
_pack_ih: Final = Format(">ih").pack
_pack_ihi: Final = Format(">ihi").pack
_pack_ii: Final = Format(">ii").pack
_pack_heartbeat: Final = Format(">ihx").pack


def decode_heartbeat(frame: Buffer, pos: int, version: int) -> HeartbeatFields:
    """Like all of these raises nothing but MalformedMessage and UnsupportedVersion."""
    if version != HEARTBEAT_FLEXIBLE_FROM:
        from tidelog.protocol.generated.heartbeat import HeartbeatRequest

        request, _ = HeartbeatRequest.decode(frame, pos, version)
        return request.group_id, request.generation_id, request.member_id, request.group_instance_id
    try:
        group_id, pos = read_compact_string(frame, pos)
        generation: int = _unpack_i(frame, pos)[0]
        member_id, pos = read_compact_string(frame, pos + 4)
        instance_id, pos = read_nullable_compact_string(frame, pos)
        _skip_to_end(frame, pos)
    except (IndexError, struct_error, UnicodeDecodeError) as error:
        raise MalformedMessage(f"HeartbeatRequest version {version}: {error}") from None
    return group_id, generation, member_id, instance_id


def encode_heartbeat_response(version: int, error_code: int) -> bytes:
    if version >= HEARTBEAT_FLEXIBLE_FROM:
        body: bytes = _pack_heartbeat(0, error_code)
        return body
    from tidelog.protocol.generated.heartbeat import HeartbeatResponse

    return HeartbeatResponse(error_code=error_code).encode(version)


def decode_consumer_heartbeat(frame: Buffer, pos: int, version: int) -> ConsumerFields:
    if not 0 <= version < len(_QUIET):
        raise UnsupportedVersion("ConsumerGroupHeartbeatRequest", version)
    limit = len(frame)
    try:
        group_id, pos = read_compact_string(frame, pos)
        member_id, pos = read_compact_string(frame, pos)
        epoch: int = _unpack_i(frame, pos)[0]
        pos += 4
        if frame[pos:] == _QUIET[version]:
            return group_id, member_id, epoch, None, None, -1, None, None, None, None
        instance_id, pos = read_nullable_compact_string(frame, pos)
        rack_id, pos = read_nullable_compact_string(frame, pos)
        rebalance_ms: int = _unpack_i(frame, pos)[0]
        topics, pos = _read_names(frame, pos + 4, limit)
        pattern: str | None = None
        if version >= CONSUMER_PATTERN_FROM:
            pattern, pos = read_nullable_compact_string(frame, pos)
        assignor, pos = read_nullable_compact_string(frame, pos)
        owned, pos = _read_topic_partitions(frame, pos, limit)
        _skip_to_end(frame, pos)
    except (IndexError, struct_error, UnicodeDecodeError) as error:
        raise MalformedMessage(f"ConsumerGroupHeartbeatRequest version {version}: {error}") from None
    return group_id, member_id, epoch, instance_id, rack_id, rebalance_ms, topics, pattern, assignor, owned


def _read_names(frame: Buffer, pos: int, limit: int) -> tuple[list[str] | None, int]:
    """An array of strings, or null."""
    count, pos = read_compact_count(frame, pos)
    if count == 0:
        return None, pos
    if count - 1 > limit - pos:
        raise MalformedMessage("an array has more elements than bytes")
    names: list[str] = []
    for _ in range(count - 1):
        name, pos = read_compact_string(frame, pos)
        names.append(name)
    return names, pos


def _read_topic_partitions(frame: Buffer, pos: int, limit: int) -> tuple[dict[bytes, tuple[int, ...]] | None, int]:
    """Partitions by topic id, or null; of a topic that is named twice the last."""
    count, pos = read_compact_count(frame, pos)
    if count == 0:
        return None, pos
    if (count - 1) * _TOPIC_BYTES_MIN > limit - pos:
        raise MalformedMessage("an array has more elements than bytes")
    owned: dict[bytes, tuple[int, ...]] = {}
    for _ in range(count - 1):
        topic_id = bytes(frame[pos : pos + 16])
        size, pos = read_compact_count(frame, pos + 16)
        if size == 0:
            raise MalformedMessage("an array is null that must not be")
        owned[topic_id] = tuple(decode_int32_array(frame, pos, limit, size - 1))
        pos += 4 * (size - 1) + 1
        if frame[pos - 1]:
            pos = skip_tags(frame, pos, limit)
    return owned, pos


def encode_consumer_heartbeat_response(
    member_id: str, member_epoch: int, heartbeat_interval_ms: int, assignment: Mapping[bytes, Sequence[int]] | None
) -> bytes:
    """Without an error; the format is the same in all versions."""
    out = bytearray(b"\0\0\0\0\0\0\0")
    append_compact_string(out, member_id)
    out += _pack_ii(member_epoch, heartbeat_interval_ms)
    if assignment is None:
        out += b"\xff\0"
        return bytes(out)
    out.append(1)
    append_compact_count(out, len(assignment))
    for topic_id, partitions in assignment.items():
        out += topic_id
        append_compact_count(out, len(partitions))
        for partition in partitions:
            out += _pack_i(partition)
        out.append(0)
    out += b"\0\0"
    return bytes(out)


def decode_join(frame: Buffer, pos: int, version: int) -> JoinFields:
    if version < JOIN_FLEXIBLE_FROM or version > JOIN_SKIP_FROM:
        from tidelog.protocol.generated.join_group import JoinGroupRequest

        request, _ = JoinGroupRequest.decode(frame, pos, version)
        protocols = [(protocol.name, bytes(protocol.metadata)) for protocol in request.protocols]
        timeouts = request.session_timeout_ms, request.rebalance_timeout_ms
        member = request.member_id, request.group_instance_id
        return request.group_id, timeouts[0], timeouts[1], member[0], member[1], request.protocol_type, protocols
    try:
        group_id, pos = read_compact_string(frame, pos)
        session_ms: int
        rebalance_ms: int
        session_ms, rebalance_ms = _unpack_ii(frame, pos)
        member_id, pos = read_compact_string(frame, pos + 8)
        instance_id, pos = read_nullable_compact_string(frame, pos)
        protocol_type, pos = read_compact_string(frame, pos)
        protocols, pos = _read_pairs(frame, pos)
        if version >= JOIN_REASON_FROM:
            _, pos = read_nullable_compact_string(frame, pos)
        _skip_to_end(frame, pos)
    except (IndexError, struct_error, UnicodeDecodeError) as error:
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
) -> bytes:
    """In flexible versions; those before 7 have no null for the protocol. Members are (id, instance, metadata)."""
    out = bytearray(_pack_ihi(0, error_code, generation))
    if version >= JOIN_TYPE_FROM:
        append_compact_string(out, protocol_type)
        append_compact_string(out, protocol)
    else:
        append_compact_string(out, protocol or "")
    append_compact_string(out, leader)
    if version >= JOIN_SKIP_FROM:
        out.append(1 if skip_assignment else 0)
    append_compact_string(out, member_id)
    append_compact_count(out, len(members))
    for each, instance_id, metadata in members:
        append_compact_string(out, each)
        append_compact_string(out, instance_id)
        append_compact_bytes(out, metadata)
        out.append(0)
    out.append(0)
    return bytes(out)


def decode_sync(frame: Buffer, pos: int, version: int) -> SyncFields:
    if version < SYNC_FLEXIBLE_FROM or version > SYNC_PROTOCOL_FROM:
        from tidelog.protocol.generated.sync_group import SyncGroupRequest

        request, _ = SyncGroupRequest.decode(frame, pos, version)
        assignments = [(each.member_id, bytes(each.assignment)) for each in request.assignments]
        member = request.generation_id, request.member_id, request.group_instance_id
        return request.group_id, member[0], member[1], member[2], None, None, assignments
    try:
        group_id, pos = read_compact_string(frame, pos)
        generation: int = _unpack_i(frame, pos)[0]
        member_id, pos = read_compact_string(frame, pos + 4)
        instance_id, pos = read_nullable_compact_string(frame, pos)
        protocol_type: str | None = None
        protocol: str | None = None
        if version >= SYNC_PROTOCOL_FROM:
            protocol_type, pos = read_nullable_compact_string(frame, pos)
            protocol, pos = read_nullable_compact_string(frame, pos)
        assignments, pos = _read_pairs(frame, pos)
        _skip_to_end(frame, pos)
    except (IndexError, struct_error, UnicodeDecodeError) as error:
        raise MalformedMessage(f"SyncGroupRequest version {version}: {error}") from None
    return group_id, generation, member_id, instance_id, protocol_type, protocol, assignments


def encode_sync_response(
    version: int, error_code: int, protocol_type: str | None, protocol: str | None, assignment: bytes
) -> bytes:
    """In flexible versions."""
    out = bytearray(_pack_ih(0, error_code))
    if version >= SYNC_PROTOCOL_FROM:
        append_compact_string(out, protocol_type)
        append_compact_string(out, protocol)
    append_compact_bytes(out, assignment)
    out.append(0)
    return bytes(out)


def _read_pairs(frame: Buffer, pos: int) -> tuple[list[tuple[str, bytes]], int]:
    """An array of structures that are a string and bytes."""
    limit = len(frame)
    count, pos = read_compact_count(frame, pos)
    if count == 0 or (count - 1) * _PAIR_BYTES_MIN > limit - pos:
        raise MalformedMessage("an array is null or has more elements than bytes")
    pairs: list[tuple[str, bytes]] = []
    for _ in range(count - 1):
        name, pos = read_compact_string(frame, pos)
        value, pos = read_compact_bytes(frame, pos)
        pairs.append((name, value))
        pos += 1
        if frame[pos - 1]:
            pos = skip_tags(frame, pos, limit)
    return pairs, pos


def _skip_to_end(frame: Buffer, pos: int) -> None:
    """The tags that end a message, which must not end beyond its bytes."""
    limit = len(frame)
    if frame[pos] and skip_tags(frame, pos + 1, limit) > limit:
        raise MalformedMessage("it ends beyond its bytes")
