"""Leader elections: those an operator requests, and those that return leadership to preferred replicas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tidelog.controller.core.decision import RECORDS_PER_DECISION_MAX, Decision
from tidelog.controller.core.partition_change import PartitionChange
from tidelog.metadata.image import NO_LEADER, MetadataImage, PartitionState
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.protocol.generated.partition_change_record import PartitionChangeRecord
from tidelog.protocol.message import Message

PREFERRED = 0
UNCLEAN = 1


class ElectionOutcome(NamedTuple):
    partition: TopicPartition
    error: BrokerError | None = None


def decide_elect_leaders(
    image: MetadataImage, election_type: int, partitions: Iterable[TopicPartition] | None
) -> Decision[list[ElectionOutcome]]:
    """One outcome per partition asked for. None asks for all partitions and leaves out those that need no election."""
    asked = (
        partitions
        if partitions is not None
        else [TopicPartition(topic.name, index) for topic in image.topics.values() for index in topic.partitions]
    )
    records: list[Message] = []
    outcomes: list[ElectionOutcome] = []
    for partition in asked:
        try:
            record = _elect(image, election_type, partition)
            if len(records) == RECORDS_PER_DECISION_MAX:
                raise BrokerError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "Too many elections in one request.")
            records.append(record)
            outcomes.append(ElectionOutcome(partition))
        except BrokerError as error:
            if partitions is not None or error.code != ErrorCode.ELECTION_NOT_NEEDED:
                outcomes.append(ElectionOutcome(partition, error))
    return Decision(records, outcomes)


def _elect(image: MetadataImage, election_type: int, partition: TopicPartition) -> PartitionChangeRecord:
    topic = image.topics.get(partition.topic)
    if topic is None:
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {partition.topic}")
    state = topic.partitions.get(partition.partition)
    if state is None:
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {partition}")
    if election_type == PREFERRED:
        _check_preferred(image, state)
    elif state.leader != NO_LEADER:
        raise BrokerError(ErrorCode.ELECTION_NOT_NEEDED)
    record = PartitionChange(
        image,
        topic.topic_id,
        partition.partition,
        state,
        prefer_first=election_type == PREFERRED,
        unclean=election_type == UNCLEAN,
    ).record()
    if record is None:
        raise BrokerError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
    return record


def _check_preferred(image: MetadataImage, state: PartitionState) -> None:
    preferred = state.replicas[0]
    if state.leader == preferred:
        raise BrokerError(ErrorCode.ELECTION_NOT_NEEDED)
    if preferred not in state.isr or not image.is_active(preferred):
        raise BrokerError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)


def decide_balance_leaders(image: MetadataImage, changes_max: int = RECORDS_PER_DECISION_MAX) -> Decision[int]:
    """Moves leadership back to every preferred replica that can take it; the reply is how many moved."""
    records: list[Message] = []
    for topic in image.topics.values():
        for index, state in topic.partitions.items():
            preferred = state.replicas[0]
            if state.leader == preferred or preferred not in state.isr or not image.is_active(preferred):
                continue
            record = PartitionChange(image, topic.topic_id, index, state, prefer_first=True).record()
            if record is not None and len(records) < changes_max:
                records.append(record)
    return Decision(records, len(records))
