"""A live group changes its protocol: up when a consumer joins a classic group, down when only classic members are left.

Upwards, every classic member becomes a member of the consumer group with what it was assigned, and goes on with
JoinGroup and SyncGroup. Downwards, members and assignments become a generation, and the members are asked to rejoin.
"""

from __future__ import annotations

from tidelog.coordination.decision import Moment
from tidelog.groups.core.classic_group import CONSUMER_PROTOCOL_TYPE, ClassicGroup, Member
from tidelog.groups.core.consumer import embedded
from tidelog.groups.core.consumer.assigning import metadata_hash
from tidelog.groups.core.consumer.group import ConsumerGroup
from tidelog.groups.core.consumer.records import (
    ClassicMember,
    ConsumerGroupRecord,
    CurrentAssignment,
    CurrentRecord,
    GroupEpoch,
    GroupEpochRecord,
    Partitions,
    Subscription,
    SubscriptionRecord,
    TargetEpoch,
    TargetEpochRecord,
    TargetRecord,
)
from tidelog.groups.core.consumer.state import MemberState
from tidelog.groups.core.records import GroupMetadataRecord, StoredGroup
from tidelog.groups.core.settings import GroupSettings
from tidelog.metadata.image import MetadataImage
from tidelog.model.errors import BrokerError, ErrorCode


def upgrade_records(classic: ClassicGroup, settings: GroupSettings, image: MetadataImage) -> list[ConsumerGroupRecord]:
    """Makes a consumer group of a classic one with members; raises BrokerError when that cannot be."""
    group_id = classic.group_id
    if not (
        settings.allows_upgrade
        and classic.uses_consumer_protocol
        and len(classic.members) <= settings.consumer_max_size
    ):
        raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
    records: list[ConsumerGroupRecord] = []
    targets: list[tuple[str, Partitions]] = []
    topics: set[str] = set()
    taken: set[tuple[bytes, int]] = set()
    for member in classic.members.values():
        subscription, partitions = _upgraded(group_id, member, classic.protocol, image)
        # A client-side assignor is free to give one partition to two members; a consumer group is not.
        alone: Partitions = {
            topic_id: kept
            for topic_id, assigned in partitions.items()
            if (kept := tuple(p for p in assigned if (topic_id, p) not in taken))
        }
        taken.update((topic_id, partition) for topic_id, kept in alone.items() for partition in kept)
        topics.update(subscription.topics)
        records.append(SubscriptionRecord(group_id, member.member_id, subscription))
        targets.append((member.member_id, alone))
    epoch = classic.generation
    records.append(GroupEpochRecord(group_id, GroupEpoch(epoch, metadata_hash(topics, image))))
    records += [TargetRecord(group_id, member_id, partitions) for member_id, partitions in targets]
    # As if made long ago: a member that joins now does not wait for an assignment.
    records.append(TargetEpochRecord(group_id, TargetEpoch(epoch)))
    for member_id, partitions in targets:
        owned = {topic_id: dict.fromkeys(assigned, epoch) for topic_id, assigned in partitions.items()}
        records.append(CurrentRecord(group_id, member_id, CurrentAssignment(epoch, epoch, MemberState.STABLE, owned)))
    return records


def _upgraded(
    group_id: str, member: Member, protocol: str | None, image: MetadataImage
) -> tuple[Subscription, Partitions]:
    try:
        decoded = embedded.decode_subscription(member.metadata(protocol) or member.protocols[0][1])
        partitions, has_user_data = embedded.decode_assignment(member.assignment, image)
    except (ValueError, IndexError) as error:
        raise BrokerError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Cannot upgrade classic group {group_id} to consumer group because the embedded consumer protocol is "
            f"malformed.",
        ) from error
    if has_user_data:
        raise BrokerError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Cannot upgrade classic group {group_id} to consumer group because an unsupported custom assignor is in "
            f"use. Please refer to the documentation or switch to a default assignor before re-attempting the upgrade.",
        )
    subscription = Subscription(
        member.instance_id,
        decoded.rack_id,
        member.client_id,
        member.client_host,
        decoded.topics,
        None,
        member.rebalance_timeout_ms,
        None,
        ClassicMember(member.session_timeout_ms, member.protocols),
    )
    return subscription, partitions


def downgrade_record(
    group: ConsumerGroup, image: MetadataImage, now: Moment
) -> tuple[GroupMetadataRecord, list[Member]]:
    """The generation that a group of classic members goes on as, and its members with all they can speak."""
    members: list[Member] = []
    for member_id, subscription in group.members.items():
        assert subscription.classic is not None
        classic = subscription.classic
        version = embedded.decode_version(classic.protocols[0][1])
        assignment = embedded.encode_assignment(group.current_of(member_id).owned, version, image)
        members.append(
            Member(
                member_id,
                subscription.instance_id,
                subscription.client_id,
                subscription.client_host,
                subscription.rebalance_timeout_ms,
                classic.session_timeout_ms,
                classic.protocols,
                assignment,
            )
        )
    voters = ClassicGroup(group.group_id)
    for member in members:
        voters.add(member, None)
    protocol = voters.select_protocol()
    stored = StoredGroup(
        CONSUMER_PROTOCOL_TYPE,
        # Not the group's epoch, which no member has reached yet: a member that is up to date has to rejoin and is not
        # fenced.
        max(group.current_of(member.member_id).epoch for member in members),
        protocol,
        members[0].member_id,
        now.wall_ms,
        tuple(member.stored(protocol, member.assignment) for member in members),
    )
    return GroupMetadataRecord(group.group_id, stored), members
