"""Committed offsets: commit, fetch, delete, and how they expire."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from tidelog.coordination.decision import Decision, Moment
from tidelog.groups.core.classic_group import ClassicGroup
from tidelog.groups.core.consumer.group import ConsumerGroup
from tidelog.groups.core.messages import Commit, DeleteOffsets, FetchedOffset, FetchOffsets
from tidelog.groups.core.pending_offsets import PendingOffsets
from tidelog.groups.core.records import CommittedOffset, OffsetCommitRecord
from tidelog.groups.core.settings import GroupSettings
from tidelog.groups.core.state import COMPLETING_REBALANCE, EMPTY
from tidelog.model.errors import NO_ERROR, BrokerError, ErrorCode
from tidelog.model.ids import NO_PRODUCER_ID, ZERO_TOPIC_ID

METADATA_BYTES_MAX: Final = 32767
"""What the record's string can hold, whatever `offset.metadata.max.bytes` says."""

TIMESTAMP_MAX_MS: Final = 2**63 - 1
"""A retention of as much as a client can ask for ends when the record's number does."""

FetchedTopic = tuple[str, bytes, list[FetchedOffset]]
"""(topic, topic id, partitions), in the order of the request."""


class OffsetStore:
    """Every committed offset of one shard, and those that wait for a transaction; changed by `replay` only."""

    __slots__ = ("_by_group", "pending")

    def __init__(self) -> None:
        self._by_group: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
        self.pending = PendingOffsets()

    def replay(self, record: OffsetCommitRecord, log_offset: int = -1, producer_id: int = NO_PRODUCER_ID) -> None:
        group_id, topic, partition, committed = record.group_id, record.topic, record.partition, record.committed
        if producer_id != NO_PRODUCER_ID:
            self.pending.add(producer_id, record, log_offset)
            return
        if self.pending:
            self.pending.supersede((group_id, topic, partition), log_offset)
        if committed is not None:
            by_topic = self._by_group.get(group_id)
            if by_topic is None:
                by_topic = self._by_group[group_id] = {}
            by_partition = by_topic.get(topic)
            if by_partition is None:
                by_partition = by_topic[topic] = {}
            by_partition[partition] = committed
            return
        by_topic = self._by_group.get(group_id)
        if by_topic is None or partition not in by_topic.get(topic, ()):
            return
        del by_topic[topic][partition]
        if not by_topic[topic]:
            del by_topic[topic]
            if not by_topic:
                del self._by_group[group_id]

    def of_group(self, group_id: str) -> dict[str, dict[int, CommittedOffset]]:
        """By topic and partition; empty for a group that never committed. Not to be changed."""
        return self._by_group.get(group_id, {})

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        return self._by_group.get(group_id, {}).get(topic, {}).get(partition)

    def has_any(self, group_id: str) -> bool:
        """Whether the group has an offset, be it one that waits for its transaction."""
        return group_id in self._by_group or bool(self.pending.of_group(group_id))

    def has(self, group_id: str, topic: str, partition: int) -> bool:
        return self.get(group_id, topic, partition) is not None or self.pending.has((group_id, topic, partition))

    def tombstones(
        self, group_id: str, wanted: Callable[[str], bool] = lambda _topic: True
    ) -> Iterator[OffsetCommitRecord]:
        """For all that the group has of the topics wanted; offsets that wait are not committed after that."""
        for topic, by_partition in self.of_group(group_id).items():
            if wanted(topic):
                for partition in by_partition:
                    yield OffsetCommitRecord(group_id, topic, partition, None)
        for topic, partition in self.pending.of_group(group_id):
            if wanted(topic) and self.get(group_id, topic, partition) is None:
                yield OffsetCommitRecord(group_id, topic, partition, None)

    def group_ids(self) -> list[str]:
        """Of all that have an offset, be it one that waits."""
        if not self.pending:
            return list(self._by_group)
        return list({**self._by_group, **dict.fromkeys(self.pending.group_ids())})

    def __len__(self) -> int:
        return sum(len(partitions) for topics in self._by_group.values() for partitions in topics.values())


def validate_transactional_commit(group: ClassicGroup | None, request: Commit) -> None:
    """The same for a commit in a transaction, which need not name a member, and may come during a rebalance."""
    if request.generation < 0 and (group is None or group.state is EMPTY):
        return
    if group is None:
        raise BrokerError(ErrorCode.ILLEGAL_GENERATION)
    if request.generation < 0 and not request.member_id and request.instance_id is None:
        return
    error = group.validate_member(request.member_id, request.instance_id)
    if error is not NO_ERROR:
        raise BrokerError(error)
    if request.generation != group.generation:
        raise BrokerError(ErrorCode.ILLEGAL_GENERATION)


def validate_commit(group: ClassicGroup | None, request: Commit) -> None:
    """Raises unless a member of the current generation commits, or a client without membership to an empty group."""
    if group is None:
        if request.generation < 0:
            return
        missing = ErrorCode.GROUP_ID_NOT_FOUND if request.reports_missing_group else ErrorCode.ILLEGAL_GENERATION
        raise BrokerError(missing)
    if request.generation < 0 and group.state is EMPTY:
        return
    if request.generation < 0 and not request.member_id and request.instance_id is None:
        raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID)
    error = group.validate_member(request.member_id, request.instance_id)
    if error is not NO_ERROR:
        raise BrokerError(error)
    if request.generation != group.generation:
        raise BrokerError(ErrorCode.ILLEGAL_GENERATION)
    if group.state is COMPLETING_REBALANCE:
        raise BrokerError(ErrorCode.REBALANCE_IN_PROGRESS)


def decide_commit(request: Commit, now: Moment, settings: GroupSettings) -> Decision[Sequence[ErrorCode]]:
    """The reply holds one code per offset, in the order of the request."""
    max_length = settings.offset_metadata_max_bytes
    commit_ms = now.wall_ms
    expire_ms = -1 if request.retention_ms == -1 else min(commit_ms + request.retention_ms, TIMESTAMP_MAX_MS)
    errors: list[ErrorCode] = []
    decision: Decision[Sequence[ErrorCode]] = Decision(errors)
    records = decision.records
    group_id = request.group_id
    for asked in request.offsets:
        text = asked.metadata or ""
        if len(text) > max_length or (len(text) * 4 > METADATA_BYTES_MAX and len(text.encode()) > METADATA_BYTES_MAX):
            errors.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
            continue
        committed = CommittedOffset(asked.offset, asked.leader_epoch, text, commit_ms, expire_ms, asked.topic_id)
        records.append(OffsetCommitRecord(group_id, asked.topic, asked.partition, committed))
        errors.append(NO_ERROR)
    return decision


def fetch_offsets(store: OffsetStore, request: FetchOffsets) -> list[FetchedTopic]:
    by_topic = store.of_group(request.group_id)
    if request.require_stable and store.pending:
        return _fetch_stable(store, request)
    if request.topics is None:
        return [
            (topic, ZERO_TOPIC_ID, [_fetched(partition, committed) for partition, committed in partitions.items()])
            for topic, partitions in by_topic.items()
        ]
    topics: list[FetchedTopic] = []
    for topic, partitions, topic_id in request.topics:
        committed = by_topic.get(topic, {})
        found = [_fetched(partition, committed.get(partition), topic_id) for partition in partitions]
        topics.append((topic, topic_id, found))
    return topics


def _fetch_stable(store: OffsetStore, request: FetchOffsets) -> list[FetchedTopic]:
    """Partitions with offsets in an open transaction get an error that makes the client retry."""
    group_id = request.group_id
    stable = fetch_offsets(store, request._replace(require_stable=False))
    return [
        (
            topic,
            topic_id,
            [
                FetchedOffset(found.partition, error=ErrorCode.UNSTABLE_OFFSET_COMMIT)
                if store.pending.has((group_id, topic, found.partition))
                else found
                for found in partitions
            ],
        )
        for topic, topic_id, partitions in stable
    ]


def _fetched(partition: int, committed: CommittedOffset | None, topic_id: bytes = ZERO_TOPIC_ID) -> FetchedOffset:
    if committed is None or _is_other_topic(committed.topic_id, topic_id):
        return FetchedOffset(partition)
    return FetchedOffset(partition, committed.offset, committed.leader_epoch, committed.metadata)


def _is_other_topic(committed: bytes, asked: bytes) -> bool:
    """A topic that was deleted and created again has the name but not the id the offset was committed for."""
    return committed != asked and committed != ZERO_TOPIC_ID and asked != ZERO_TOPIC_ID


def decide_delete_offsets(
    group: ClassicGroup | ConsumerGroup, store: OffsetStore, request: DeleteOffsets
) -> Decision[list[tuple[str, list[tuple[int, ErrorCode]]]]]:
    """Offsets of topics that the group still reads stay."""
    if not group.is_empty and not group.uses_consumer_protocol:
        raise BrokerError(ErrorCode.NON_EMPTY_GROUP)
    results: list[tuple[str, list[tuple[int, ErrorCode]]]] = []
    decision = Decision(results)
    for topic, partitions in request.topics:
        error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if group.is_subscribed_to(topic) else NO_ERROR
        results.append((topic, [(partition, error) for partition in partitions]))
        if error is NO_ERROR:
            decision.records.extend(
                OffsetCommitRecord(request.group_id, topic, partition, None)
                for partition in dict.fromkeys(partitions)
                if store.has(request.group_id, topic, partition)
            )
    return decision


def expired_offsets(
    group: ClassicGroup | ConsumerGroup, store: OffsetStore, group_id: str, now: Moment, retention_ms: int
) -> Iterator[OffsetCommitRecord]:
    """Tombstones for what is past its time.

    The time runs from when a group with members became empty, and from the commit itself for offsets of a group that
    never had members or for topics that a stable group no longer reads. What a transaction is about to move stays.
    """
    since_ms = group.expiry_start_ms()
    if since_ms is None:
        return
    for topic, by_partition in store.of_group(group_id).items():
        if group.is_subscribed_to(topic):
            continue
        for partition, committed in by_partition.items():
            if committed.expire_timestamp_ms >= 0:
                is_over = now.wall_ms >= committed.expire_timestamp_ms
            else:
                start_ms = committed.commit_timestamp_ms if since_ms < 0 else since_ms
                is_over = now.wall_ms - start_ms >= retention_ms
            if is_over and not store.pending.has((group_id, topic, partition)):
                yield OffsetCommitRecord(group_id, topic, partition, None)
