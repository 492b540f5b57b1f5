"""Kafka's formats of the records of consumer groups, by the generated codecs.

Imported with the first consumer group. Kind 4, which Kafka wrote up to 4.0 for the partitions of topics, is not read:
the hash in the record of the group's epoch has taken its place.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

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
from tidelog.protocol.generated.consumer_group_target_assignment_member_value import (
    TopicPartition as TargetTopicPartitions,
)
from tidelog.protocol.generated.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from tidelog.protocol.generated.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)

_KIND = Struct(">h")
_VERSION_0 = _KIND.pack(0)


def encode(record: ConsumerGroupRecord) -> tuple[bytes, bytes | None]:
    kind, key, value = _ENCODERS[type(record)](record)
    return _KIND.pack(kind) + key, None if value is None else _VERSION_0 + value


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


_Encoded = tuple[int, bytes, bytes | None]


def _encode_epoch(record: GroupEpochRecord) -> _Encoded:
    value = record.value
    body = None if value is None else ConsumerGroupMetadataValue(epoch=value.epoch, metadata_hash=value.metadata_hash)
    return 3, ConsumerGroupMetadataKey(group_id=record.group_id).encode(0), None if body is None else body.encode(0)


def _decode_epoch(key: bytes, value: bytes | None) -> GroupEpochRecord:
    group_id = ConsumerGroupMetadataKey.decode(key, 2, 0)[0].group_id
    if value is None:
        return GroupEpochRecord(group_id, None)
    body = ConsumerGroupMetadataValue.decode(value, 2, 0)[0]
    return GroupEpochRecord(group_id, GroupEpoch(body.epoch, body.metadata_hash))


def _encode_subscription(record: SubscriptionRecord) -> _Encoded:
    key = ConsumerGroupMemberMetadataKey(group_id=record.group_id, member_id=record.member_id).encode(0)
    value = record.value
    if value is None:
        return 5, key, None
    classic = value.classic
    body = ConsumerGroupMemberMetadataValue(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed_topic_names=list(value.topics),
        subscribed_topic_regex=value.pattern,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.assignor,
        classic_member_metadata=None
        if classic is None
        else ClassicMemberMetadata(
            session_timeout_ms=classic.session_timeout_ms,
            supported_protocols=[ClassicProtocol(name=name, metadata=metadata) for name, metadata in classic.protocols],
        ),
    )
    return 5, key, body.encode(0)


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
    key = ConsumerGroupTargetAssignmentMetadataKey(group_id=record.group_id).encode(0)
    value = record.value
    if value is None:
        return 6, key, None
    body = ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=value.epoch, assignment_timestamp=value.timestamp_ms
    )
    return 6, key, body.encode(0)


def _decode_target_epoch(key: bytes, value: bytes | None) -> TargetEpochRecord:
    group_id = ConsumerGroupTargetAssignmentMetadataKey.decode(key, 2, 0)[0].group_id
    if value is None:
        return TargetEpochRecord(group_id, None)
    body = ConsumerGroupTargetAssignmentMetadataValue.decode(value, 2, 0)[0]
    return TargetEpochRecord(group_id, TargetEpoch(body.assignment_epoch, body.assignment_timestamp))


def _encode_target(record: TargetRecord) -> _Encoded:
    key = ConsumerGroupTargetAssignmentMemberKey(group_id=record.group_id, member_id=record.member_id).encode(0)
    if record.value is None:
        return 7, key, None
    body = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TargetTopicPartitions(topic_id=topic_id, partitions=list(partitions))
            for topic_id, partitions in record.value.items()
        ]
    )
    return 7, key, body.encode(0)


def _decode_target(key: bytes, value: bytes | None) -> TargetRecord:
    name = ConsumerGroupTargetAssignmentMemberKey.decode(key, 2, 0)[0]
    if value is None:
        return TargetRecord(name.group_id, name.member_id, None)
    body = ConsumerGroupTargetAssignmentMemberValue.decode(value, 2, 0)[0]
    partitions: Partitions = {t.topic_id: tuple(sorted(t.partitions)) for t in body.topic_partitions if t.partitions}
    return TargetRecord(name.group_id, name.member_id, partitions)


def _encode_current(record: CurrentRecord) -> _Encoded:
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=record.group_id, member_id=record.member_id).encode(0)
    value = record.value
    if value is None:
        return 8, key, None
    body = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=value.epoch,
        previous_member_epoch=value.previous_epoch,
        state=value.state,
        assigned_partitions=_encode_owned(value.owned),
        partitions_pending_revocation=_encode_owned(value.revoking),
    )
    return 8, key, body.encode(0)


def _encode_owned(owned: OwnedPartitions) -> list[CurrentTopicPartitions]:
    return [
        CurrentTopicPartitions(
            topic_id=topic_id, partitions=list(partitions), assignment_epochs=list(partitions.values())
        )
        for topic_id, partitions in owned.items()
    ]


def _decode_current(key: bytes, value: bytes | None) -> CurrentRecord:
    name = ConsumerGroupCurrentMemberAssignmentKey.decode(key, 2, 0)[0]
    if value is None:
        return CurrentRecord(name.group_id, name.member_id, None)
    body = ConsumerGroupCurrentMemberAssignmentValue.decode(value, 2, 0)[0]
    # A state of versions to come leaves the member where it must look at its target again.
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
    key = ConsumerGroupRegularExpressionKey(group_id=record.group_id, regular_expression=record.pattern).encode(0)
    value = record.value
    if value is None:
        return 16, key, None
    body = ConsumerGroupRegularExpressionValue(
        topics=list(value.topics), version=value.version, timestamp=value.timestamp_ms
    )
    return 16, key, body.encode(0)


def _decode_pattern(key: bytes, value: bytes | None) -> PatternRecord:
    name = ConsumerGroupRegularExpressionKey.decode(key, 2, 0)[0]
    if value is None:
        return PatternRecord(name.group_id, name.regular_expression, None)
    body = ConsumerGroupRegularExpressionValue.decode(value, 2, 0)[0]
    resolved = ResolvedPattern(tuple(sorted(set(body.topics))), body.version, body.timestamp)
    return PatternRecord(name.group_id, name.regular_expression, resolved)


_ENCODERS: dict[type, Callable[..., _Encoded]] = {
    GroupEpochRecord: _encode_epoch,
    SubscriptionRecord: _encode_subscription,
    TargetEpochRecord: _encode_target_epoch,
    TargetRecord: _encode_target,
    CurrentRecord: _encode_current,
    PatternRecord: _encode_pattern,
}
_DECODERS: dict[int, Callable[[bytes, bytes | None], ConsumerGroupRecord]] = {
    3: _decode_epoch,
    5: _decode_subscription,
    6: _decode_target_epoch,
    7: _decode_target,
    8: _decode_current,
    16: _decode_pattern,
}
