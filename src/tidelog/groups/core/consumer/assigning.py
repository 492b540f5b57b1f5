"""What follows from a change in a group: a new epoch, topics found for patterns, a new target assignment.

A burst of changes makes few assignments: after one, the next waits for `group.consumer.assignment.interval.ms`
(KIP-1263). A member that joins meanwhile is at the epoch of the last assignment, without partitions; the only member
of a group never waits.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from tidelog.coordination.decision import Moment
from tidelog.groups.core.consumer.assignors import ASSIGNORS, AssignedMember
from tidelog.groups.core.consumer.draft import Draft
from tidelog.groups.core.consumer.group import ConsumerGroup
from tidelog.groups.core.consumer.patterns import matching_topics
from tidelog.groups.core.consumer.records import (
    CurrentAssignment,
    CurrentRecord,
    GroupEpoch,
    GroupEpochRecord,
    Partitions,
    PatternRecord,
    ResolvedPattern,
    Subscription,
    SubscriptionRecord,
    TargetEpoch,
    TargetEpochRecord,
    TargetRecord,
)
from tidelog.groups.core.settings import GroupSettings
from tidelog.metadata.image import MetadataImage

FIRST_EPOCH: Final = 2
"""The epoch of a new group, as in Kafka, where members that wait for the first assignment are at 1."""


def refresh_epoch(draft: Draft, image: MetadataImage, now: Moment, *, has_changed: bool) -> None:
    """Gives the group a new epoch if a subscription has changed, or a topic that it reads."""
    if not has_changed and not draft.group.is_metadata_stale:
        return
    _resolve_patterns(draft, image, now)
    group = draft.group
    found = metadata_hash(group.subscribed_topics(), image)
    if has_changed or found != group.metadata_hash:
        epoch = group.epoch + 1 if group.epoch > 0 else FIRST_EPOCH
        draft.add(GroupEpochRecord(group.group_id, GroupEpoch(epoch, found)))
    else:
        group.metadata_seen()


def _resolve_patterns(draft: Draft, image: MetadataImage, now: Moment) -> None:
    group = draft.group
    for pattern in [pattern for pattern in group.patterns if pattern not in group.pattern_users]:
        draft.add(PatternRecord(group.group_id, pattern, None))
    for pattern in group.pattern_users:
        known = group.patterns.get(pattern)
        if known is not None and not group.is_metadata_stale:
            continue
        if known is None or group.changed_topics is None:
            topics = matching_topics(pattern, image.topics)
        else:
            topics = _matching_still(pattern, known.topics, group.changed_topics, image)
        if known is None or known.topics != topics:
            draft.add(PatternRecord(group.group_id, pattern, ResolvedPattern(topics, image.offset, now.wall_ms)))


def _matching_still(
    pattern: str, known: tuple[str, ...], changed: frozenset[str], image: MetadataImage
) -> tuple[str, ...]:
    """The same as matching all topics, when only some of them were created or deleted since `known` was found."""
    kept = {topic for topic in known if topic in image.topics}
    kept.update(matching_topics(pattern, [topic for topic in changed if topic in image.topics]))
    return tuple(sorted(kept))


def metadata_hash(topics: Iterable[str], image: MetadataImage) -> int:
    """Differs when one of the topics is created, deleted, created again or grows; 0 when none exists."""
    parts = []
    for name in sorted(topics):
        topic = image.topics.get(name)
        if topic is not None:
            parts.append(topic.topic_id + f" {len(topic.partitions)};".encode())
    if not parts:
        return 0
    return _hash(b"".join(parts))


@lru_cache(maxsize=1024)
def _hash(text: bytes) -> int:
    """Many groups read the same topics."""
    from hashlib import blake2b

    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big", signed=True)


def put_off_ms(group: ConsumerGroup, image: MetadataImage, settings: GroupSettings, now: Moment) -> int:
    """How long the group's next assignment still has to wait for more members."""
    member_count = len(group.members)
    if member_count <= 1:
        return 0
    interval_ms = settings.assignment_interval_ms(image.group_configs.get(group.group_id), member_count)
    since_ms = now.wall_ms - group.assigned_at_ms
    # A clock that was set back must not delay it for longer.
    return interval_ms - since_ms if 0 <= since_ms < interval_ms else 0


def refresh_target(draft: Draft, image: MetadataImage, settings: GroupSettings, now: Moment) -> None:
    """Makes a new assignment if the group has a newer epoch than the last one, and it is time."""
    group = draft.group
    if group.epoch <= group.target_epoch or put_off_ms(group, image, settings, now) > 0:
        return
    assignment = _assign(group, image, settings)
    for member_id, partitions in assignment.items():
        if group.targets.get(member_id) != partitions:
            draft.add(TargetRecord(group.group_id, member_id, partitions))
    draft.add(TargetEpochRecord(group.group_id, TargetEpoch(group.epoch, now.wall_ms)))


def _assign(group: ConsumerGroup, image: MetadataImage, settings: GroupSettings) -> dict[str, Partitions]:
    if len(group.members) == 1:
        # Every assignor would return this.
        [(member_id, subscription)] = group.members.items()
        topics = [image.topics_by_id[topic_id] for topic_id in sorted(subscribed_ids(group, subscription, image))]
        return {
            member_id: {topic.topic_id: tuple(range(len(topic.partitions))) for topic in topics if topic.partitions}
        }
    counts: dict[bytes, int] = {}
    topic_ids: dict[tuple[tuple[str, ...], str | None], tuple[bytes, ...]] = {}
    members: dict[str, AssignedMember] = {}
    for member_id, subscription in group.members.items():
        key = (subscription.topics, subscription.pattern)
        if key not in topic_ids:
            topic_ids[key] = tuple(subscribed_ids(group, subscription, image))
            for topic_id in topic_ids[key]:
                counts[topic_id] = len(image.topics_by_id[topic_id].partitions)
        members[member_id] = AssignedMember(topic_ids[key], subscription.instance_id)
    assignor = ASSIGNORS[group.preferred_assignor(settings.consumer_assignors[0])]
    return assignor(members, counts, group.targets)


def subscribed_ids(group: ConsumerGroup, subscription: Subscription, image: MetadataImage) -> list[bytes]:
    """Of the topics that exist, in the order of their names."""
    topics = image.topics
    return [topics[name].topic_id for name in sorted(group.topics_of(subscription)) if name in topics]


def remove_member(draft: Draft, member_id: str) -> None:
    group_id = draft.group.group_id
    draft.add(CurrentRecord(group_id, member_id, None))
    draft.add(TargetRecord(group_id, member_id, None))
    draft.add(SubscriptionRecord(group_id, member_id, None))


def replace_member(draft: Draft, old_id: str, new_id: str) -> None:
    """A static member came back under a new id: it has its place and its partitions, but no epoch yet."""
    group = draft.group
    subscription, target = group.members[old_id], group.target_of(old_id)
    before = group.current_of(old_id)
    current = CurrentAssignment(0, 0, before.state, before.owned, before.revoking)
    remove_member(draft, old_id)
    draft.add(SubscriptionRecord(group.group_id, new_id, subscription))
    draft.add(TargetRecord(group.group_id, new_id, target))
    draft.add(CurrentRecord(group.group_id, new_id, current))
