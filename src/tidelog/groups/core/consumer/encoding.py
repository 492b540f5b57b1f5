"""Kafka's formats of the records of consumer groups.

Imported with the first consumer group. What an assignment writes for every member, and all keys, is packed by hand,
since hundreds of them are written at a time; the tests hold it against the generated codecs. Kind 4, which Kafka wrote
up to 4.0 for the partitions of topics, is not read: the hash in the record of the group's epoch has taken its place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from librt.strings import BytesWriter, write_i16_be, write_i32_be, write_i64_be

from tidelog.groups.core.consumer.records import (
    ClassicMember,
    ConsumerGroupRecord,
    CurrentAssignment,
    CurrentRecord,
    GroupEpoch,
    GroupEpochRecord,
    OwnedPartitions,
    Partitions,
    PatternRecord,
    ResolvedPattern,
    Subscription,
    SubscriptionRecord,
    TargetEpoch,
    TargetEpochRecord,
    TargetRecord,
)
from tidelog.groups.core.consumer.state import MemberState
from tidelog.protocol.errors import MalformedMessage
from tidelog.protocol.generated.consumer_group_current_member_assignment_key import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from tidelog.protocol.generated.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
)
from tidelog.protocol.generated.consumer_group_current_member_assignment_value import (
    TopicPartitions as CurrentTopicPartitions,
)
from tidelog.protocol.generated.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from tidelog.protocol.generated.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)
from tidelog.protocol.generated.consumer_group_metadata_key import ConsumerGroupMetadataKey
from tidelog.protocol.generated.consumer_group_metadata_value import ConsumerGroupMetadataValue
from tidelog.protocol.generated.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from tidelog.protocol.generated.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from tidelog.protocol.generated.consumer_group_target_assignment_member_key import (
    ConsumerGroupTargetAssignmentMemberKey,
)
from tidelog.protocol.generated.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
)
from tidelog.protocol.generated.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from tidelog.protocol.generated.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)
from tidelog.protocol.hot_wire import (
    unsigned_varint_bytes,
    write_classic_string,
    write_count,
    write_nullable_string,
    write_string,
    write_unsigned_varint,
)

_NO_TAGS: Final = 0
_NOT_CLASSIC: Final = b"\x01\x00\x01\x00"
"""The tagged field of a classic member's metadata as null; its default, left out, would be an empty one."""
_VERSION_0: Final = b"\x00\x00"


def encode(record: ConsumerGroupRecord) -> tuple[bytes, bytes | None]:
    # One comparison after the other: mypyc compiles it, a lookup in a table would call the interpreter.
    if isinstance(record, CurrentRecord):
        return _encode_current(record)
    if isinstance(record, TargetRecord):
        return _encode_target(record)
    if isinstance(record, SubscriptionRecord):
        return _encode_subscription(record)
    if isinstance(record, GroupEpochRecord):
        return _encode_epoch(record)
    if isinstance(record, TargetEpochRecord):
        return _encode_target_epoch(record)
    return _encode_pattern(record)


def decode(kind: int, key: bytes, value: bytes | None) -> ConsumerGroupRecord | None:
    """None for a kind that is not one of these; ValueError when the bytes make no sense."""
    decoder = _DECODERS.get(kind)
    if decoder is None:
        return None
    if value is not None and (len(value) < 2 or value[:2] != _VERSION_0):
        raise ValueError(f"record of kind {kind} in an unknown version")
    try:
        return decoder(key, value)
    except MalformedMessage as error:
        raise ValueError(str(error)) from error


_Encoded = tuple[bytes, bytes | None]
"""Key and value, each with the number of its kind or version in front."""


def _group_key(kind: int, group_id: str) -> bytes:
    out = BytesWriter()
    write_i16_be(out, kind)
    write_classic_string(out, group_id)
    return out.getvalue()


def _member_key(kind: int, group_id: str, member_id: str) -> bytes:
    out = BytesWriter()
    write_i16_be(out, kind)
    write_classic_string(out, group_id)
    write_classic_string(out, member_id)
    return out.getvalue()


def _encode_epoch_value(epoch: int, tagged: int) -> bytes:
    """The value of both kinds of epochs: the second number is tagged field 0, left out when it is 0."""
    out = BytesWriter()
    write_i16_be(out, 0)
    write_i32_be(out, epoch)
    if tagged == 0:
        out.append(_NO_TAGS)
    else:
        # One field, number 0, of eight bytes.
        out.write(b"\x01\x00\x08")
        write_i64_be(out, tagged)
    return out.getvalue()


def _encode_epoch(record: GroupEpochRecord) -> _Encoded:
    value = record.value
    key = _group_key(3, record.group_id)
    return key, None if value is None else _encode_epoch_value(value.epoch, value.metadata_hash)


def _decode_epoch(key: bytes, value: bytes | None) -> GroupEpochRecord:
    group_id = ConsumerGroupMetadataKey.decode(key, 2, 0)[0].group_id
    if value is None:
        return GroupEpochRecord(group_id, None)
    body = ConsumerGroupMetadataValue.decode(value, 2, 0)[0]
    return GroupEpochRecord(group_id, GroupEpoch(body.epoch, body.metadata_hash))


def _encode_subscription(record: SubscriptionRecord) -> _Encoded:
    key = _member_key(5, record.group_id, record.member_id)
    value = record.value
    if value is None:
        return key, None
    if value.classic is not None:
        return key, _VERSION_0 + _classic_subscription(value, value.classic).encode(0)
    out = BytesWriter()
    out.write(_VERSION_0)
    write_nullable_string(out, value.instance_id)
    write_nullable_string(out, value.rack_id)
    write_string(out, value.client_id)
    write_string(out, value.client_host)
    write_count(out, len(value.topics))
    for topic in value.topics:
        write_string(out, topic)
    write_nullable_string(out, value.pattern)
    write_i32_be(out, value.rebalance_timeout_ms)
    write_nullable_string(out, value.assignor)
    out.write(_NOT_CLASSIC)
    return key, out.getvalue()


def _classic_subscription(value: Subscription, classic: ClassicMember) -> ConsumerGroupMemberMetadataValue:
    return ConsumerGroupMemberMetadataValue(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed_topic_names=list(value.topics),
        subscribed_topic_regex=value.pattern,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.assignor,
        classic_member_metadata=ClassicMemberMetadata(
            session_timeout_ms=classic.session_timeout_ms,
            supported_protocols=[ClassicProtocol(name=name, metadata=metadata) for name, metadata in classic.protocols],
        ),
    )


def _decode_subscription(key: bytes, value: bytes | None) -> SubscriptionRecord:
    name = ConsumerGroupMemberMetadataKey.decode(key, 2, 0)[0]
    if value is None:
        return SubscriptionRecord(name.group_id, name.member_id, None)
    body = ConsumerGroupMemberMetadataValue.decode(value, 2, 0)[0]
    classic = None
    if body.classic_member_metadata is not None:
        classic = ClassicMember(
            body.classic_member_metadata.session_timeout_ms,
            tuple((p.name, bytes(p.metadata)) for p in body.classic_member_metadata.supported_protocols),
        )
    subscription = Subscription(
        body.instance_id,
        body.rack_id,
        body.client_id,
        body.client_host,
        tuple(sorted(set(body.subscribed_topic_names))),
        body.subscribed_topic_regex or None,
        body.rebalance_timeout_ms,
        body.server_assignor,
        classic,
    )
    return SubscriptionRecord(name.group_id, name.member_id, subscription)


def _encode_target_epoch(record: TargetEpochRecord) -> _Encoded:
    value = record.value
    key = _group_key(6, record.group_id)
    return key, None if value is None else _encode_epoch_value(value.epoch, value.timestamp_ms)


def _decode_target_epoch(key: bytes, value: bytes | None) -> TargetEpochRecord:
    group_id = ConsumerGroupTargetAssignmentMetadataKey.decode(key, 2, 0)[0].group_id
    if value is None:
        return TargetEpochRecord(group_id, None)
    body = ConsumerGroupTargetAssignmentMetadataValue.decode(value, 2, 0)[0]
    return TargetEpochRecord(group_id, TargetEpoch(body.assignment_epoch, body.assignment_timestamp))


def _encode_target(record: TargetRecord) -> _Encoded:
    key = _member_key(7, record.group_id, record.member_id)
    value = record.value
    if value is None:
        return key, None
    out = BytesWriter()
    out.write(_VERSION_0)
    write_count(out, len(value))
    for topic_id, partitions in value.items():
        out.write(topic_id)
        write_count(out, len(partitions))
        for partition in partitions:
            write_i32_be(out, partition)
        out.append(_NO_TAGS)
    out.append(_NO_TAGS)
    return key, out.getvalue()


def _decode_target(key: bytes, value: bytes | None) -> TargetRecord:
    name = ConsumerGroupTargetAssignmentMemberKey.decode(key, 2, 0)[0]
    if value is None:
        return TargetRecord(name.group_id, name.member_id, None)
    body = ConsumerGroupTargetAssignmentMemberValue.decode(value, 2, 0)[0]
    partitions: Partitions = {t.topic_id: tuple(sorted(t.partitions)) for t in body.topic_partitions if t.partitions}
    return TargetRecord(name.group_id, name.member_id, partitions)


def _encode_current(record: CurrentRecord) -> _Encoded:
    key = _member_key(8, record.group_id, record.member_id)
    value = record.value
    if value is None:
        return key, None
    out = BytesWriter()
    out.write(_VERSION_0)
    write_i32_be(out, value.epoch)
    write_i32_be(out, value.previous_epoch)
    out.append(int(value.state))
    _write_owned(out, value.owned)
    _write_owned(out, value.revoking)
    out.append(_NO_TAGS)
    return key, out.getvalue()


def _write_owned(out: BytesWriter, owned: OwnedPartitions) -> None:
    write_count(out, len(owned))
    for topic_id, partitions in owned.items():
        out.write(topic_id)
        count = len(partitions)
        write_count(out, count)
        for partition in partitions:
            write_i32_be(out, partition)
        # One tagged field, number 0: the epochs, an array like the one before.
        out.write(b"\x01\x00")
        write_unsigned_varint(out, unsigned_varint_bytes(count + 1) + 4 * count)
        write_count(out, count)
        for epoch in partitions.values():
            write_i32_be(out, epoch)


def _decode_current(key: bytes, value: bytes | None) -> CurrentRecord:
    name = ConsumerGroupCurrentMemberAssignmentKey.decode(key, 2, 0)[0]
    if value is None:
        return CurrentRecord(name.group_id, name.member_id, None)
    body = ConsumerGroupCurrentMemberAssignmentValue.decode(value, 2, 0)[0]
    # For a state of a later version the member looks at its target again.
    state = MemberState(body.state) if body.state in (0, 1, 2) else MemberState.UNRELEASED_PARTITIONS
    current = CurrentAssignment(
        body.member_epoch,
        body.previous_member_epoch,
        state,
        _decode_owned(body.assigned_partitions, body.member_epoch),
        _decode_owned(body.partitions_pending_revocation, body.member_epoch),
    )
    return CurrentRecord(name.group_id, name.member_id, current)


def _decode_owned(topics: list[CurrentTopicPartitions], member_epoch: int) -> OwnedPartitions:
    """Records of older Kafkas have no epochs per partition: then it is the member's."""
    owned = {}
    for topic in topics:
        epochs = topic.assignment_epochs or [member_epoch] * len(topic.partitions)
        if len(epochs) != len(topic.partitions):
            raise ValueError("a partition without its epoch in the assignment of a member")
        if topic.partitions:
            owned[topic.topic_id] = dict(sorted(zip(topic.partitions, epochs, strict=True)))
    return owned


def _encode_pattern(record: PatternRecord) -> _Encoded:
    key = _member_key(16, record.group_id, record.pattern)
    value = record.value
    if value is None:
        return key, None
    body = ConsumerGroupRegularExpressionValue(
        topics=list(value.topics), version=value.version, timestamp=value.timestamp_ms
    )
    return key, _VERSION_0 + body.encode(0)


def _decode_pattern(key: bytes, value: bytes | None) -> PatternRecord:
    name = ConsumerGroupRegularExpressionKey.decode(key, 2, 0)[0]
    if value is None:
        return PatternRecord(name.group_id, name.regular_expression, None)
    body = ConsumerGroupRegularExpressionValue.decode(value, 2, 0)[0]
    resolved = ResolvedPattern(tuple(sorted(set(body.topics))), body.version, body.timestamp)
    return PatternRecord(name.group_id, name.regular_expression, resolved)


_DECODERS: dict[int, Callable[[bytes, bytes | None], ConsumerGroupRecord]] = {
    3: _decode_epoch,
    5: _decode_subscription,
    6: _decode_target_epoch,
    7: _decode_target,
    8: _decode_current,
    16: _decode_pattern,
}
