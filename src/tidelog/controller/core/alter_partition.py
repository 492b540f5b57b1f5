"""AlterPartition: a leader reports its in-sync replicas. Checked by epochs, answered in Kafka's codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.controller.core.brokers import require_broker
from tidelog.controller.core.decision import Decision
from tidelog.controller.core.partition_change import RECOVERED, RECOVERING, PartitionChange
from tidelog.metadata.image import MetadataImage, PartitionState, TopicImage
from tidelog.metadata.topics import NO_LEADER_CHANGE, changed_partition
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.message import Message

ANY_EPOCH = -1


class InSyncReplica(NamedTuple):
    node_id: int
    epoch: int = ANY_EPOCH
    """The broker epoch the leader saw the replica fetch with."""


class IsrChange(NamedTuple):
    topic_id: bytes
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: Sequence[InSyncReplica]
    recovery_state: int = RECOVERED


class IsrOutcome(NamedTuple):
    topic_id: bytes
    partition: int
    error: BrokerError | None = None
    state: PartitionState | None = None
    """As it is now; None with an error."""


def decide_alter_partitions(
    image: MetadataImage, node_id: int, broker_epoch: int, changes: Sequence[IsrChange]
) -> Decision[list[IsrOutcome]]:
    """One independent outcome per change. Raises STALE_BROKER_EPOCH for a node that has registered again since."""
    require_broker(image, node_id, broker_epoch)
    records: list[Message] = []
    outcomes: list[IsrOutcome] = []
    seen: set[tuple[bytes, int]] = set()
    for change in changes:
        try:
            if (change.topic_id, change.partition) in seen:
                raise BrokerError(ErrorCode.INVALID_REQUEST, "The partition is named twice.")
            seen.add((change.topic_id, change.partition))
            topic, state = _find(image, change)
            _check(image, node_id, topic, state, change)
            made = PartitionChange(image, topic.topic_id, change.partition, state)
            made.isr = [replica.node_id for replica in change.isr]
            made.recovery_state = change.recovery_state
            record = made.record()
            if record is None:
                outcomes.append(IsrOutcome(change.topic_id, change.partition, state=state))
                continue
            records.append(record)
            after = changed_partition(state, record)
            if record.leader not in (NO_LEADER_CHANGE, state.leader):
                # The reassignment that this change completed moved the leadership away from the reporting node.
                raise BrokerError(ErrorCode.NEW_LEADER_ELECTED)
            outcomes.append(IsrOutcome(change.topic_id, change.partition, state=after))
        except BrokerError as error:
            outcomes.append(IsrOutcome(change.topic_id, change.partition, error))
    return Decision(records, outcomes)


def _find(image: MetadataImage, change: IsrChange) -> tuple[TopicImage, PartitionState]:
    topic = image.topics_by_id.get(change.topic_id)
    if topic is None:
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_ID)
    state = topic.partitions.get(change.partition)
    if state is None:
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic, state


def _check(image: MetadataImage, node_id: int, topic: TopicImage, state: PartitionState, change: IsrChange) -> None:
    name = f"{topic.name}-{change.partition}"
    if change.leader_epoch > state.leader_epoch or change.partition_epoch > state.partition_epoch:
        # The leader knows more than this controller: it has been replaced, and does not know it yet.
        raise BrokerError(ErrorCode.NOT_CONTROLLER)
    if change.leader_epoch < state.leader_epoch:
        raise BrokerError(ErrorCode.FENCED_LEADER_EPOCH)
    if node_id != state.leader:
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"Node {node_id} does not lead {name}.")
    if change.partition_epoch < state.partition_epoch:
        raise BrokerError(ErrorCode.INVALID_UPDATE_VERSION)
    wanted = [replica.node_id for replica in change.isr]
    if not wanted or len(set(wanted)) != len(wanted) or not set(wanted) <= set(state.replicas):
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"{wanted} cannot be in sync with {name}.")
    if node_id not in wanted:
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"The leader of {name} must be in sync with itself.")
    if change.recovery_state == RECOVERING and (len(wanted) > 1 or state.leader_recovery_state == RECOVERED):
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"The leader of {name} cannot be recovering.")
    for replica in change.isr:
        if replica.node_id not in state.isr and not image.is_active(replica.node_id):
            raise BrokerError(ErrorCode.INELIGIBLE_REPLICA, f"Node {replica.node_id} is fenced or shutting down.")
        if replica.epoch != ANY_EPOCH and replica.epoch != image.brokers[replica.node_id].epoch:
            raise BrokerError(ErrorCode.INELIGIBLE_REPLICA, f"Node {replica.node_id} has restarted since.")
