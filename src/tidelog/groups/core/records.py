"""The records of `__consumer_offsets` that classic groups and offsets are made of, in Kafka's own formats.

A key and a value each start with two bytes: in a key they say what kind of record it is, in a value the version of its
layout. Written by hand because every commit and every replayed record passes here; the tests hold it byte for byte
against the generated codecs. Offsets are written as version 4 (1 with an expiry of their own), groups as version 3,
as Kafka 4.3 does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Final

from librt.strings import BytesWriter, write_i16_be, write_i32_be, write_i64_be

from tidelog.codec.varint import MalformedVarint, decode_unsigned_varint, encode_unsigned_varint
from tidelog.groups.core.consumer.records import ConsumerGroupRecord
from tidelog.model.ids import ZERO_TOPIC_ID
from tidelog.model.quick_value import QuickValue
from tidelog.protocol.hot_wire import write_classic_string

OFFSET_COMMIT_KEYS: Final = (0, 1)
GROUP_METADATA_KEY: Final = 2
CONSUMER_GROUP_KEYS: Final = frozenset({3, 5, 6, 7, 8, 16})
"""Written and read by `consumer/encoding.py`."""
VALUE_VERSION_MAX: Final = 4


class CommittedOffset(QuickValue):
    __slots__ = ("commit_timestamp_ms", "expire_timestamp_ms", "leader_epoch", "metadata", "offset", "topic_id")

    def __init__(
        self,
        offset: int,
        leader_epoch: int,
        metadata: str,
        commit_timestamp_ms: int,
        expire_timestamp_ms: int = -1,
        topic_id: bytes = ZERO_TOPIC_ID,
    ) -> None:
        self.offset = offset
        self.leader_epoch = leader_epoch
        self.metadata = metadata
        self.commit_timestamp_ms = commit_timestamp_ms
        self.expire_timestamp_ms = expire_timestamp_ms
        """From clients of OffsetCommit 2 to 4, which set their own retention; -1 otherwise."""
        self.topic_id = topic_id

    def fields(self) -> tuple[object, ...]:
        times = self.commit_timestamp_ms, self.expire_timestamp_ms
        return self.offset, self.leader_epoch, self.metadata, times[0], times[1], self.topic_id


class OffsetCommitRecord(QuickValue):
    __slots__ = ("committed", "group_id", "partition", "topic")

    def __init__(self, group_id: str, topic: str, partition: int, committed: CommittedOffset | None) -> None:
        self.group_id = group_id
        self.topic = topic
        self.partition = partition
        self.committed = committed
        """None is a tombstone: the offset is deleted."""

    @property
    def key(self) -> tuple[str, str, int]:
        return self.group_id, self.topic, self.partition

    def fields(self) -> tuple[object, ...]:
        return self.group_id, self.topic, self.partition, self.committed


class StoredMember(QuickValue):
    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "member_id",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "subscription",
    )

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        subscription: bytes,
        assignment: bytes,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.subscription = subscription
        self.assignment = assignment

    def fields(self) -> tuple[object, ...]:
        client = self.member_id, self.instance_id, self.client_id, self.client_host
        return *client, self.rebalance_timeout_ms, self.session_timeout_ms, self.subscription, self.assignment


class StoredGroup(QuickValue):
    __slots__ = ("generation", "leader", "members", "protocol", "protocol_type", "state_timestamp_ms")

    def __init__(
        self,
        protocol_type: str,
        generation: int,
        protocol: str | None,
        leader: str | None,
        state_timestamp_ms: int,
        members: Sequence[StoredMember],
    ) -> None:
        self.protocol_type = protocol_type
        self.generation = generation
        self.protocol = protocol
        self.leader = leader
        self.state_timestamp_ms = state_timestamp_ms
        """Wall clock when the group entered its state; -1 in records of old versions."""
        self.members = members

    def fields(self) -> tuple[object, ...]:
        agreed = self.protocol_type, self.generation, self.protocol, self.leader
        return *agreed, self.state_timestamp_ms, tuple(self.members)


class GroupMetadataRecord(QuickValue):
    __slots__ = ("group_id", "stored")

    def __init__(self, group_id: str, stored: StoredGroup | None) -> None:
        self.group_id = group_id
        self.stored = stored
        """None is a tombstone: the group is gone."""

    def fields(self) -> tuple[object, ...]:
        return self.group_id, self.stored


GroupRecord = OffsetCommitRecord | GroupMetadataRecord | ConsumerGroupRecord

_I16: Final = Struct(">h")
_I32: Final = Struct(">i")
_KIND_AND_LENGTH: Final = Struct(">hh")
_OFFSET_V0: Final = Struct(">hq")
_OFFSET_V4: Final = Struct(">hqi")
_OFFSET_V4_AND_LENGTH: Final = Struct(">hqiB")
_ONLY_TOPIC_ID: Final = b"\x01\x00\x10"
"""One tagged field, number 0, of 16 bytes."""
_I64: Final = Struct(">q")
_TWO_I64: Final = Struct(">qq")
_TWO_I32: Final = Struct(">ii")
_LEGACY_NO_TIMESTAMP: Final = -1


def encode_records(records: Sequence[GroupRecord]) -> list[tuple[bytes, bytes | None]]:
    """Key and value of each. A commit names the same group and topic for every partition."""
    encoded: list[tuple[bytes, bytes | None]] = []
    group_id, topic, prefix = "", "", b""
    out = BytesWriter()
    encode_consumer_record: Callable[[ConsumerGroupRecord], tuple[bytes, bytes | None]] | None = None
    for record in records:
        if isinstance(record, GroupMetadataRecord):
            encoded.append(_encode_group(record))
            continue
        if not isinstance(record, OffsetCommitRecord):
            if encode_consumer_record is None:
                encode_consumer_record = _encoder_of_consumer_groups()
            encoded.append(encode_consumer_record(record))
            continue
        if not prefix or record.topic is not topic or record.group_id is not group_id:
            group_id, topic = record.group_id, record.topic
            prefix = _offset_key_prefix(group_id, topic)
        committed = record.committed
        value = None if committed is None else _encode_offset_value(out, committed)
        encoded.append((_encode_offset_key(out, prefix, record.partition), value))
    return encoded


def encode_record(record: GroupRecord) -> tuple[bytes, bytes | None]:
    return encode_records((record,))[0]


def _encoder_of_consumer_groups() -> Callable[[ConsumerGroupRecord], tuple[bytes, bytes | None]]:
    from tidelog.groups.core.consumer.encoding import encode

    return encode


def _encode_group(record: GroupMetadataRecord) -> tuple[bytes, bytes | None]:
    group = record.group_id.encode()
    key = _KIND_AND_LENGTH.pack(GROUP_METADATA_KEY, len(group)) + group
    return key, None if record.stored is None else _encode_group_value(record.stored)


def decode_record(key: bytes, value: bytes | None) -> GroupRecord | None:
    """None for a kind of record that is not one of these; ValueError when the bytes make no sense."""
    try:
        kind, length = _KIND_AND_LENGTH.unpack_from(key)
        end = 4 + length
        group_id = str(key[4:end], "utf-8")
        if kind in OFFSET_COMMIT_KEYS:
            topic_length = _I16.unpack_from(key, end)[0]
            start, end = end + 2, end + 2 + topic_length
            if length < 0 or topic_length < 0:
                raise ValueError("negative length in the key of an offset record")
            committed = None if value is None else _decode_offset_value(value)
            # A length that reaches beyond the key leaves no room for the partition.
            return OffsetCommitRecord(group_id, str(key[start:end], "utf-8"), _I32.unpack_from(key, end)[0], committed)
        if kind == GROUP_METADATA_KEY:
            if length < 0 or end > len(key):
                raise ValueError("the group id reaches beyond the key of its record")
            return GroupMetadataRecord(group_id, None if value is None else _decode_group_value(value))
        if kind in CONSUMER_GROUP_KEYS:
            from tidelog.groups.core.consumer import encoding

            return encoding.decode(kind, key, value)
    except (StructError, MalformedVarint, UnicodeDecodeError) as error:
        raise ValueError(f"damaged group record: {error}") from error
    return None


def _encode_offset_key(out: BytesWriter, prefix: bytes, partition: int) -> bytes:
    """`out` is what key after key is put together in, and value after value."""
    out.truncate(0)
    out.write(prefix)
    write_i32_be(out, partition)
    return out.getvalue()


def _offset_key_prefix(group_id: str, topic_name: str) -> bytes:
    """All of a key but the partition."""
    group = group_id.encode()
    topic = topic_name.encode()
    return b"".join((_KIND_AND_LENGTH.pack(1, len(group)), group, _I16.pack(len(topic)), topic))


def _encode_offset_value(out: BytesWriter, committed: CommittedOffset) -> bytes:
    text, topic_id = committed.metadata, committed.topic_id
    if not text and committed.expire_timestamp_ms < 0 and topic_id != ZERO_TOPIC_ID:
        # What nearly every commit writes: no metadata, the topic's id.
        out.truncate(0)
        write_i16_be(out, VALUE_VERSION_MAX)
        write_i64_be(out, committed.offset)
        write_i32_be(out, committed.leader_epoch)
        out.append(1)
        write_i64_be(out, committed.commit_timestamp_ms)
        out.write(_ONLY_TOPIC_ID)
        out.write(topic_id)
        return out.getvalue()
    metadata = text.encode()
    if committed.expire_timestamp_ms >= 0:
        head = _OFFSET_V0.pack(1, committed.offset) + _I16.pack(len(metadata))
        return head + metadata + _TWO_I64.pack(committed.commit_timestamp_ms, committed.expire_timestamp_ms)
    head = _OFFSET_V4.pack(4, committed.offset, committed.leader_epoch)
    length = encode_unsigned_varint(len(metadata) + 1)
    tags = b"\x00" if committed.topic_id == ZERO_TOPIC_ID else _ONLY_TOPIC_ID + committed.topic_id
    return b"".join((head, length, metadata, _I64.pack(committed.commit_timestamp_ms), tags))


def _decode_offset_value(value: bytes) -> CommittedOffset:
    version = _I16.unpack_from(value)[0]
    if version == VALUE_VERSION_MAX:
        _, offset, leader_epoch, length = _OFFSET_V4_AND_LENGTH.unpack_from(value)
        at = 15
        if length > 0x7F:
            length, at = decode_unsigned_varint(value, 14)
        end = at + length - 1
        if length == 0:
            raise ValueError("an offset record without its metadata string")
        # Metadata that reaches beyond the value leaves no room for the timestamp.
        commit_ms = _I64.unpack_from(value, end)[0]
        if value[end + 8 : end + 11] == _ONLY_TOPIC_ID and len(value) >= end + 27:
            topic_id = value[end + 11 : end + 27]
        else:
            topic_id = _find_tag(value, end + 8, 0) or ZERO_TOPIC_ID
            if len(topic_id) != len(ZERO_TOPIC_ID):
                raise ValueError(f"a topic id of {len(topic_id)} bytes in an offset record")
        return CommittedOffset(offset, leader_epoch, str(value[at:end], "utf-8"), commit_ms, -1, topic_id)
    if version == 3:
        _, offset, leader_epoch = _OFFSET_V4.unpack_from(value)
        metadata, at = _decode_string(value, 14)
        return CommittedOffset(offset, leader_epoch, metadata, _I64.unpack_from(value, at)[0])
    if 0 <= version <= 2:
        offset = _OFFSET_V0.unpack_from(value)[1]
        metadata, at = _decode_string(value, 10)
        commit_ms = _I64.unpack_from(value, at)[0]
        expire_ms = _I64.unpack_from(value, at + 8)[0] if version == 1 else -1
        return CommittedOffset(offset, -1, metadata, commit_ms, expire_ms)
    raise ValueError(f"offset record of unknown version {version}")


def _encode_group_value(stored: StoredGroup) -> bytes:
    out = BytesWriter()
    write_i16_be(out, 3)
    write_classic_string(out, stored.protocol_type)
    write_i32_be(out, stored.generation)
    write_classic_string(out, stored.protocol)
    write_classic_string(out, stored.leader)
    write_i64_be(out, stored.state_timestamp_ms)
    write_i32_be(out, len(stored.members))
    for member in stored.members:
        write_classic_string(out, member.member_id)
        write_classic_string(out, member.instance_id)
        write_classic_string(out, member.client_id)
        write_classic_string(out, member.client_host)
        write_i32_be(out, member.rebalance_timeout_ms)
        write_i32_be(out, member.session_timeout_ms)
        write_i32_be(out, len(member.subscription))
        out.write(member.subscription)
        write_i32_be(out, len(member.assignment))
        out.write(member.assignment)
    return out.getvalue()


def _decode_group_value(value: bytes) -> StoredGroup:
    version = _I16.unpack_from(value)[0]
    if version == VALUE_VERSION_MAX:
        return _decode_flexible_group_value(value)
    if not 0 <= version <= 3:
        raise ValueError(f"group record of unknown version {version}")
    protocol_type, at = _decode_string(value, 2)
    generation = _I32.unpack_from(value, at)[0]
    protocol, at = _decode_nullable_string(value, at + 4)
    leader, at = _decode_nullable_string(value, at)
    timestamp_ms = _LEGACY_NO_TIMESTAMP
    if version >= 2:
        timestamp_ms = _I64.unpack_from(value, at)[0]
        at += 8
    count = _I32.unpack_from(value, at)[0]
    at += 4
    members: list[StoredMember] = []
    for _ in range(count):
        member, at = _decode_member(value, at, version)
        members.append(member)
    return StoredGroup(protocol_type, generation, protocol, leader, timestamp_ms, members)


def _decode_member(value: bytes, at: int, version: int) -> tuple[StoredMember, int]:
    member_id, at = _decode_string(value, at)
    instance_id: str | None = None
    if version >= 3:
        instance_id, at = _decode_nullable_string(value, at)
    client_id, at = _decode_string(value, at)
    client_host, at = _decode_string(value, at)
    rebalance_ms = -1
    if version >= 1:
        rebalance_ms = _I32.unpack_from(value, at)[0]
        at += 4
    session_ms, length = _TWO_I32.unpack_from(value, at)
    subscription = _take(value, at + 8, length)
    at += 8 + length
    length = _I32.unpack_from(value, at)[0]
    assignment = _take(value, at + 4, length)
    rebalance_ms = session_ms if rebalance_ms == -1 else rebalance_ms
    member = StoredMember(
        member_id, instance_id, client_id, client_host, rebalance_ms, session_ms, subscription, assignment
    )
    return member, at + 4 + length


def _decode_flexible_group_value(value: bytes) -> StoredGroup:
    """Version 4: no broker writes it yet, but a later Kafka may; rare enough to use the generated codec."""
    from tidelog.protocol.errors import MalformedMessage
    from tidelog.protocol.generated.group_metadata_value import GroupMetadataValue

    try:
        decoded, _ = GroupMetadataValue.decode(value, 2, VALUE_VERSION_MAX)
    except MalformedMessage as error:
        raise ValueError(str(error)) from error
    members = [
        StoredMember(
            m.member_id,
            m.group_instance_id,
            m.client_id,
            m.client_host,
            m.session_timeout if m.rebalance_timeout == -1 else m.rebalance_timeout,
            m.session_timeout,
            bytes(m.subscription),
            bytes(m.assignment),
        )
        for m in decoded.members
    ]
    return StoredGroup(
        decoded.protocol_type,
        decoded.generation,
        decoded.protocol,
        decoded.leader,
        decoded.current_state_timestamp,
        members,
    )


def _decode_string(buffer: bytes, at: int) -> tuple[str, int]:
    length = _I16.unpack_from(buffer, at)[0]
    return str(_take(buffer, at + 2, length), "utf-8"), at + 2 + length


def _decode_nullable_string(buffer: bytes, at: int) -> tuple[str | None, int]:
    if buffer[at : at + 2] == b"\xff\xff":
        return None, at + 2
    return _decode_string(buffer, at)


def _take(buffer: bytes, at: int, length: int) -> bytes:
    if length < 0 or at + length > len(buffer):
        raise ValueError("a length in a group record reaches beyond its end")
    return bytes(buffer[at : at + length])


def _find_tag(buffer: bytes, at: int, wanted: int) -> bytes | None:
    """The bytes of tagged field `wanted`, skipping unknown tags."""
    count, at = decode_unsigned_varint(buffer, at)
    for _ in range(min(count, len(buffer))):
        tag, at = decode_unsigned_varint(buffer, at)
        length, at = decode_unsigned_varint(buffer, at)
        field = _take(buffer, at, length)
        if tag == wanted:
            return field
        at += length
    return None
