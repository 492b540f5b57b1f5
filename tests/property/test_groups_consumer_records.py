"""Records of consumer groups that are packed by hand, held against the generated codecs, and read back."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tidelog.groups.core.consumer.records import (
    CurrentAssignment,
    CurrentRecord,
    GroupEpoch,
    GroupEpochRecord,
    Subscription,
    SubscriptionRecord,
    TargetEpoch,
    TargetEpochRecord,
    TargetRecord,
)
from tidelog.groups.core.consumer.state import MemberState
from tidelog.groups.core.records import decode_record, encode_record
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
from tidelog.protocol.generated.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue
from tidelog.protocol.generated.consumer_group_metadata_key import ConsumerGroupMetadataKey
from tidelog.protocol.generated.consumer_group_metadata_value import ConsumerGroupMetadataValue
from tidelog.protocol.generated.consumer_group_target_assignment_member_key import (
    ConsumerGroupTargetAssignmentMemberKey,
)
from tidelog.protocol.generated.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from tidelog.protocol.generated.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from tidelog.protocol.generated.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)
from tidelog.protocol.message import Message

NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
EPOCHS = st.integers(-2, 2**31 - 1)
NUMBERS = st.integers(-(2**63), 2**63 - 1)
TOPIC_IDS = st.binary(min_size=16, max_size=16)
OWNED = st.dictionaries(
    TOPIC_IDS, st.dictionaries(st.integers(0, 2**31 - 1), EPOCHS, min_size=1, max_size=200), max_size=3
).map(lambda owned: {topic_id: dict(sorted(partitions.items())) for topic_id, partitions in owned.items()})


def expected(kind: int, key: Message, value: Message) -> tuple[bytes, bytes]:
    return kind.to_bytes(2, "big") + key.encode(0), b"\0\0" + value.encode(0)


def check(record: Any, kind: int, key: Message, value: Message) -> None:
    encoded = encode_record(record)
    assert encoded == expected(kind, key, value)
    assert decode_record(*encoded) == record
    gone = type(record)(*record.fields()[:-1], None)
    assert encode_record(gone) == (encoded[0], None)
    assert decode_record(encoded[0], None) == gone


@given(NAMES, EPOCHS, NUMBERS)
def test_epochs(group: str, epoch: int, number: int) -> None:
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=number)
    check(GroupEpochRecord(group, GroupEpoch(epoch, number)), 3, ConsumerGroupMetadataKey(group_id=group), value)
    check(
        TargetEpochRecord(group, TargetEpoch(epoch, number)),
        6,
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group),
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=number),
    )


MAYBE_NAMES = st.none() | NAMES
SUBSCRIPTIONS = st.builds(
    Subscription,
    MAYBE_NAMES,
    MAYBE_NAMES,
    NAMES,
    NAMES,
    st.lists(NAMES, max_size=5, unique=True).map(lambda topics: tuple(sorted(topics))),
    MAYBE_NAMES,
    EPOCHS,
    MAYBE_NAMES,
    st.none(),
)


@given(NAMES, NAMES, SUBSCRIPTIONS)
def test_subscriptions(group: str, member: str, subscription: Subscription) -> None:
    """Of members that speak the consumer protocol; those of others go through the generated codec."""
    check(
        SubscriptionRecord(group, member, subscription),
        5,
        ConsumerGroupMemberMetadataKey(group_id=group, member_id=member),
        ConsumerGroupMemberMetadataValue(
            instance_id=subscription.instance_id,
            rack_id=subscription.rack_id,
            client_id=subscription.client_id,
            client_host=subscription.client_host,
            subscribed_topic_names=list(subscription.topics),
            subscribed_topic_regex=subscription.pattern,
            rebalance_timeout_ms=subscription.rebalance_timeout_ms,
            server_assignor=subscription.assignor,
            classic_member_metadata=None,
        ),
    )


@given(NAMES, NAMES, OWNED)
def test_targets(group: str, member: str, owned: dict[bytes, dict[int, int]]) -> None:
    topics = [TopicPartition(topic_id=topic_id, partitions=list(partitions)) for topic_id, partitions in owned.items()]
    check(
        TargetRecord(group, member, {topic_id: tuple(partitions) for topic_id, partitions in owned.items()}),
        7,
        ConsumerGroupTargetAssignmentMemberKey(group_id=group, member_id=member),
        ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics),
    )


def topic_partitions(owned: dict[bytes, dict[int, int]]) -> list[CurrentTopicPartitions]:
    return [
        CurrentTopicPartitions(topic_id=topic_id, partitions=list(epochs), assignment_epochs=list(epochs.values()))
        for topic_id, epochs in owned.items()
    ]


@given(NAMES, NAMES, EPOCHS, EPOCHS, st.sampled_from(MemberState), OWNED, OWNED)
def test_current_assignments(
    group: str, member: str, epoch: int, previous: int, state: MemberState, owned: Any, revoking: Any
) -> None:
    check(
        CurrentRecord(group, member, CurrentAssignment(epoch, previous, state, owned, revoking)),
        8,
        ConsumerGroupCurrentMemberAssignmentKey(group_id=group, member_id=member),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=epoch,
            previous_member_epoch=previous,
            state=state,
            assigned_partitions=topic_partitions(owned),
            partitions_pending_revocation=topic_partitions(revoking),
        ),
    )
