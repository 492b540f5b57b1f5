"""Leader elections that an operator asks for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tidelog.controller.core.decision import RECORDS_PER_DECISION_MAX, Decision
from tidelog.metadata.image import MetadataImage, PartitionState
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
        return PartitionChangeRecord(
            partition_id=partition.partition, topic_id=topic.topic_id, leader=_preferred(image, state)
        )
    leader, isr = _unclean(image, state)
    return PartitionChangeRecord(
        partition_id=partition.partition,
        topic_id=topic.topic_id,
        leader=leader,
        isr=isr,
        leader_recovery_state=-1 if isr is None else 1,
    )


def _preferred(image: MetadataImage, state: PartitionState) -> int:
    preferred = state.replicas[0]
    if state.leader == preferred:
        raise BrokerError(ErrorCode.ELECTION_NOT_NEEDED)
    if preferred not in state.isr or not image.is_live(preferred):
        raise BrokerError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
    return preferred


def _unclean(image: MetadataImage, state: PartitionState) -> tuple[int, list[int] | None]:
    """The leader, and the in-sync set it starts with where it was not in sync itself."""
    if state.leader >= 0:
        raise BrokerError(ErrorCode.ELECTION_NOT_NEEDED)
    for node_id in state.replicas:
        if node_id in state.isr and image.is_live(node_id):
            return node_id, None
    for node_id in state.replicas:
        if image.is_live(node_id):
            return node_id, [node_id]
    raise BrokerError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
