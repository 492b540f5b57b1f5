"""Partitions move to other brokers: the new replicas are added, fetch until they are in sync, then the old ones go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tidelog.config.broker import BrokerConfig
from tidelog.controller.core.decision import RECORDS_PER_DECISION_MAX, Decision
from tidelog.controller.core.lowered import remember_lowered
from tidelog.controller.core.partition_change import PartitionChange
from tidelog.controller.core.placement import check_assignment, check_not_cordoned
from tidelog.metadata.image import MetadataImage, PartitionState, TopicImage
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.protocol.generated.partition_change_record import PartitionChangeRecord
from tidelog.protocol.message import Message


class Reassignment(NamedTuple):
    partition: TopicPartition
    replicas: Sequence[int] | None
    """The preferred leader first; None calls a reassignment off."""


class ReassignmentOutcome(NamedTuple):
    partition: TopicPartition
    error: BrokerError | None = None


class OngoingReassignment(NamedTuple):
    partition: TopicPartition
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


def decide_reassign(
    image: MetadataImage,
    config: BrokerConfig,
    reassignments: Sequence[Reassignment],
    *,
    allow_factor_change: bool = True,
) -> Decision[list[ReassignmentOutcome]]:
    records: list[Message] = []
    outcomes: list[ReassignmentOutcome] = []
    targets: dict[TopicPartition, tuple[int, ...]] = {}
    named = Counter(wanted.partition for wanted in reassignments)
    for wanted in reassignments:
        try:
            if named[wanted.partition] > 1:
                raise BrokerError(ErrorCode.INVALID_REQUEST, f"{wanted.partition} is named more than once.")
            if len(records) + len({p.topic for p in targets}) >= RECORDS_PER_DECISION_MAX:
                raise BrokerError(ErrorCode.POLICY_VIOLATION, "Too many reassignments in one request.")
            topic, state = _find(image, wanted.partition)
            change = PartitionChange(image, topic.topic_id, wanted.partition.partition, state, prefer_first=False)
            if wanted.replicas is None:
                _call_off(image, config, topic, state, change)
            else:
                _begin(image, state, wanted.replicas, change, allow_factor_change)
            targets[wanted.partition] = tuple(n for n in change.replicas if n not in change.removing)
            record = change.record()
            if record is not None:
                records.append(record)
        except BrokerError as error:
            outcomes.append(ReassignmentOutcome(wanted.partition, error))
        else:
            outcomes.append(ReassignmentOutcome(wanted.partition))
    return Decision([*remember_lowered(image, targets), *records], outcomes)


def _find(image: MetadataImage, partition: TopicPartition) -> tuple[TopicImage, PartitionState]:
    topic = image.topics.get(partition.topic)
    if topic is None:
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {partition.topic}.")
    state = topic.partitions.get(partition.partition)
    if state is None:
        raise BrokerError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"Unable to find partition {partition.topic}:{partition.partition}.",
        )
    return topic, state


def _begin(
    image: MetadataImage,
    state: PartitionState,
    target: Sequence[int],
    change: PartitionChange,
    allow_factor_change: bool,
) -> None:
    check_assignment(target, image.brokers, None)
    # A reassignment under way is replaced: what it was adding counts for nothing, what it was removing is still there.
    original = [node_id for node_id in state.replicas if node_id not in state.adding_replicas]
    if not allow_factor_change and len(target) != len(original):
        raise BrokerError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {len(original)} to {len(target)}",
        )
    check_not_cordoned(image, (node_id for node_id in target if node_id not in state.replicas))
    change.replicas = [*target, *(node_id for node_id in original if node_id not in target)]
    change.adding = [node_id for node_id in target if node_id not in original]
    change.removing = [node_id for node_id in original if node_id not in target]
    change.isr = [node_id for node_id in state.isr if node_id in change.replicas]
    if not change.isr:
        raise BrokerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "No replica that is in sync would be left; wait until one is."
        )


def _call_off(
    image: MetadataImage, config: BrokerConfig, topic: TopicImage, state: PartitionState, change: PartitionChange
) -> None:
    if not state.adding_replicas and not state.removing_replicas:
        raise BrokerError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    kept = [node_id for node_id in state.replicas if node_id not in state.adding_replicas]
    in_sync = [node_id for node_id in state.isr if node_id in kept]
    if not in_sync:
        if not topic.effective_config(image.broker_config(config)).unclean_leader_election_enable:
            raise BrokerError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "Unable to revert partition assignment for the topic because it would require an unclean leader "
                "election.",
            )
        in_sync = kept[:1]
    change.replicas, change.adding, change.removing, change.isr = kept, (), (), in_sync


def decide_complete_reassignments(image: MetadataImage) -> Decision[None]:
    """Finishes what only waited for a broker to come back; the usual way is AlterPartition."""
    records: list[Message] = []
    for topic, index, state in _ongoing(image):
        record: PartitionChangeRecord | None = PartitionChange(image, topic.topic_id, index, state).record()
        if record is not None and len(records) < RECORDS_PER_DECISION_MAX:
            records.append(record)
    return Decision(records, None)


def list_reassignments(
    image: MetadataImage, partitions: Iterable[TopicPartition] | None = None
) -> Iterator[OngoingReassignment]:
    """Reassignments under way, of all partitions or of the given ones."""
    wanted = None if partitions is None else set(partitions)
    for topic, index, state in _ongoing(image):
        partition = TopicPartition(topic.name, index)
        if wanted is None or partition in wanted:
            yield OngoingReassignment(partition, state.replicas, state.adding_replicas, state.removing_replicas)


def _ongoing(image: MetadataImage) -> Iterator[tuple[TopicImage, int, PartitionState]]:
    for topic in image.topics.values():
        for index, state in topic.partitions.items():
            if state.adding_replicas or state.removing_replicas:
                yield topic, index, state
