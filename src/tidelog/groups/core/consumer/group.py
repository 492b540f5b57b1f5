"""A consumer group: its epochs, its members, what each should own and what each does own.

Changed by `replay` only, which takes the records in any order that compaction may leave them in. Three epochs tell how
far the members are: the group's epoch grows when something changed, the target's epoch is that of the latest
assignment, a member's epoch is that of the assignment it has reached.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TypeVar

from tidelog.groups.core.consumer.records import (
    NO_READERS,
    ConsumerGroupRecord,
    CurrentAssignment,
    CurrentRecord,
    GroupEpoch,
    GroupEpochRecord,
    Owners,
    Partitions,
    PatternRecord,
    ResolvedPattern,
    Subscription,
    SubscriptionRecord,
    TargetEpoch,
    TargetEpochRecord,
    TargetRecord,
)
from tidelog.groups.core.consumer.state import STABLE, ConsumerGroupState
from tidelog.model.limits import CHANGED_TOPICS_MAX

V = TypeVar("V")
_S = ConsumerGroupState
NEW_MEMBER = CurrentAssignment()
NO_PARTITIONS: Partitions = {}


class ConsumerGroup:
    __slots__ = (
        "assigned_at_ms",
        "changed_topics",
        "classic_protocols",
        "current",
        "epoch",
        "group_id",
        "is_metadata_stale",
        "members",
        "metadata_hash",
        "owners",
        "pattern_users",
        "patterns",
        "rebalances",
        "static_members",
        "target_epoch",
        "targets",
        "topic_readers",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.metadata_hash = 0
        self.target_epoch = 0
        """At most `epoch`."""
        self.assigned_at_ms = 0
        """When the target assignment was made."""
        self.members: dict[str, Subscription] = {}
        self.current: dict[str, CurrentAssignment] = {}
        self.targets: dict[str, Partitions] = {}
        self.patterns: dict[str, ResolvedPattern] = {}
        self.owners: Owners = {}
        self.static_members: dict[str, str] = {}
        """Instance id to member id."""
        self.topic_readers: dict[str, int] = {}
        """How many members name a topic."""
        self.pattern_users: dict[str, int] = {}
        self.classic_protocols: dict[str, int] = {}
        """How many members offer a protocol; None of them for a group without classic members."""
        self.rebalances = 0
        """Epochs that were given here; not in the log."""
        self.is_metadata_stale = True
        """Topics may have changed since the group's epoch was written. Not in the log: set after loading."""
        self.changed_topics: frozenset[str] | None = None
        """Which these are; None for all. Patterns are matched with no others."""

    def copy(self) -> ConsumerGroup:
        """To try records on. Everything is shared with the original until `unshare` says what a record will change."""
        other = ConsumerGroup(self.group_id)
        other.epoch = self.epoch
        other.metadata_hash = self.metadata_hash
        other.target_epoch = self.target_epoch
        other.assigned_at_ms = self.assigned_at_ms
        other.members = self.members
        other.current = self.current
        other.targets = self.targets
        other.patterns = self.patterns
        other.owners = self.owners
        other.static_members = self.static_members
        other.topic_readers = self.topic_readers
        other.pattern_users = self.pattern_users
        other.classic_protocols = self.classic_protocols
        other.is_metadata_stale = self.is_metadata_stale
        other.changed_topics = self.changed_topics
        return other

    def metadata_changed(self, topics: Collection[str] | None) -> None:
        """These topics, or all, may have changed."""
        self.is_metadata_stale = True
        seen = self.changed_topics
        changed = None if topics is None or seen is None else seen.union(topics)
        self.changed_topics = None if changed is None or len(changed) > CHANGED_TOPICS_MAX else changed

    def metadata_seen(self) -> None:
        self.is_metadata_stale = False
        self.changed_topics = frozenset()

    def unshare(self, kind: type) -> None:
        """Makes a copy of its own of everything that replaying a record of this kind may change in place."""
        if kind is SubscriptionRecord:
            self.members = dict(self.members)
            self.static_members = dict(self.static_members)
            self.topic_readers = dict(self.topic_readers)
            self.pattern_users = dict(self.pattern_users)
            self.classic_protocols = dict(self.classic_protocols)
        elif kind is TargetRecord:
            self.targets = dict(self.targets)
        elif kind is CurrentRecord:
            self.current = dict(self.current)
            self.owners = {topic_id: dict(readers) for topic_id, readers in self.owners.items()}
        elif kind is PatternRecord:
            self.patterns = dict(self.patterns)

    # -- what follows from it ----------------------------------------------------------------------------------------

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return _S.EMPTY
        if self.epoch > self.target_epoch:
            return _S.ASSIGNING
        if all(self.is_reconciled(member_id) for member_id in self.members):
            return _S.STABLE
        return _S.RECONCILING

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def is_forgotten_without_offsets(self) -> bool:
        return not self.members

    @property
    def uses_consumer_protocol(self) -> bool:
        return True

    def expiry_start_ms(self) -> int | None:
        """The time of an offset begins with its commit, unless the group reads the topic."""
        return -1

    def is_reconciled(self, member_id: str) -> bool:
        current = self.current.get(member_id, NEW_MEMBER)
        return current.state is STABLE and current.epoch == self.target_epoch

    def current_of(self, member_id: str) -> CurrentAssignment:
        return self.current.get(member_id, NEW_MEMBER)

    def target_of(self, member_id: str) -> Partitions:
        return self.targets.get(member_id, NO_PARTITIONS)

    def topics_of(self, subscription: Subscription) -> tuple[str, ...] | set[str]:
        """What a member wants to read, by name and by pattern."""
        resolved = None if subscription.pattern is None else self.patterns.get(subscription.pattern)
        if resolved is None or not resolved.topics:
            return subscription.topics
        return {*subscription.topics, *resolved.topics}

    def subscribed_topics(self) -> set[str]:
        topics = set(self.topic_readers)
        for pattern in self.pattern_users:
            resolved = self.patterns.get(pattern)
            if resolved is not None:
                topics.update(resolved.topics)
        return topics

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.topic_readers or any(
            topic in self.patterns[pattern].topics for pattern in self.pattern_users if pattern in self.patterns
        )

    @property
    def classic_member_count(self) -> int:
        return sum(subscription.classic is not None for subscription in self.members.values())

    @property
    def has_only_classic_members(self) -> bool:
        return bool(self.members) and all(member.classic is not None for member in self.members.values())

    def preferred_assignor(self, default: str) -> str:
        """The one that most members ask for; of several that as many ask for, the one that Kafka comes to first."""
        votes: dict[str, int] = {}
        for subscription in self.members.values():
            if subscription.assignor is not None:
                votes[subscription.assignor] = votes.get(subscription.assignor, 0) + 1
        return max(sorted(votes, reverse=True), key=votes.__getitem__) if votes else default

    def has_unreleased_target(self, member_id: str) -> bool:
        """Whether others still own something that the member is to get."""
        owned = self.current_of(member_id).owned
        return any(
            partition not in owned.get(topic_id, ()) and partition in self.owners[topic_id]
            for topic_id, partitions in self.target_of(member_id).items()
            if topic_id in self.owners
            for partition in partitions
        )

    def tombstones(self) -> Iterator[ConsumerGroupRecord]:
        """Ends the group; the record of the group itself is the last."""
        for member_id in self.current:
            yield CurrentRecord(self.group_id, member_id, None)
        for member_id in self.targets:
            yield TargetRecord(self.group_id, member_id, None)
        yield TargetEpochRecord(self.group_id, None)
        for member_id in self.members:
            yield SubscriptionRecord(self.group_id, member_id, None)
        for pattern in self.patterns:
            yield PatternRecord(self.group_id, pattern, None)
        yield GroupEpochRecord(self.group_id, None)

    # -- the log -----------------------------------------------------------------------------------------------------

    def replay(self, record: ConsumerGroupRecord) -> None:
        if isinstance(record, CurrentRecord):
            self._replay_current(record)
        elif isinstance(record, TargetRecord):
            _put(self.targets, record.member_id, record.value)
        elif isinstance(record, SubscriptionRecord):
            self._replay_subscription(record)
        elif isinstance(record, GroupEpochRecord):
            group_epoch = record.value or GroupEpoch(0)
            self.epoch, self.metadata_hash = group_epoch.epoch, group_epoch.metadata_hash
            self.metadata_seen()
        elif isinstance(record, TargetEpochRecord):
            target_epoch = record.value or TargetEpoch(0)
            self.target_epoch, self.assigned_at_ms = target_epoch.epoch, target_epoch.timestamp_ms
        else:
            _put(self.patterns, record.pattern, record.value)

    def _replay_current(self, record: CurrentRecord) -> None:
        member_id = record.member_id
        owners = self.owners
        before = self.current.get(member_id)
        if before is not None:
            for owned in (before.owned, before.revoking):
                for topic_id, partitions in owned.items():
                    readers = owners.get(topic_id, NO_READERS)
                    for partition in partitions:
                        # While a log is loaded, another member's newer record may already have taken it.
                        if readers.get(partition) == member_id:
                            del readers[partition]
                    if not readers:
                        owners.pop(topic_id, None)
        _put(self.current, member_id, record.value)
        if record.value is not None:
            for owned in (record.value.owned, record.value.revoking):
                for topic_id, partitions in owned.items():
                    taken = owners.get(topic_id)
                    if taken is None:
                        # All at once: a dictionary of known size does not have to grow.
                        owners[topic_id] = dict.fromkeys(partitions, member_id)
                    else:
                        for partition in partitions:
                            taken[partition] = member_id

    def _replay_subscription(self, record: SubscriptionRecord) -> None:
        before = self.members.get(record.member_id)
        if before is not None:
            self._count(before, -1)
            if before.instance_id is not None and self.static_members.get(before.instance_id) == record.member_id:
                del self.static_members[before.instance_id]
        _put(self.members, record.member_id, record.value)
        if record.value is not None:
            self._count(record.value, 1)
            if record.value.instance_id is not None:
                self.static_members[record.value.instance_id] = record.member_id

    def _count(self, subscription: Subscription, by: int) -> None:
        for topic in subscription.topics:
            _add(self.topic_readers, topic, by)
        if subscription.pattern is not None:
            _add(self.pattern_users, subscription.pattern, by)
        if subscription.classic is not None:
            for name in {name for name, _ in subscription.classic.protocols}:
                _add(self.classic_protocols, name, by)


def _put(values: dict[str, V], key: str, value: V | None) -> None:
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value


def _add(counts: dict[str, int], key: str, by: int) -> None:
    count = counts.get(key, 0) + by
    if count == 0:
        del counts[key]
    else:
        counts[key] = count
