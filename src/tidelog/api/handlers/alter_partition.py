"""AlterPartition: a leader reports its in-sync replicas to the active controller."""

from __future__ import annotations

from tidelog.api.context import RequestContext
from tidelog.controller.core.alter_partition import InSyncReplica, IsrChange, IsrOutcome
from tidelog.model.errors import BrokerError
from tidelog.protocol.generated.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)

FIRST_VERSION_WITH_EPOCHS = 3


async def handle(context: RequestContext, request: AlterPartitionRequest) -> AlterPartitionResponse:
    changes = [
        IsrChange(
            topic_id=bytes(topic.topic_id),
            partition=partition.partition_index,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            isr=_in_sync(context.version, partition),
            recovery_state=partition.leader_recovery_state,
        )
        for topic in request.topics
        for partition in topic.partitions
    ]
    try:
        outcomes = await context.services.controller.alter_partitions(request.broker_id, request.broker_epoch, changes)
    except BrokerError as error:
        return AlterPartitionResponse(error_code=error.code)
    topics: dict[bytes, list[AlterPartitionResponsePartitionData]] = {}
    for outcome in outcomes:
        topics.setdefault(outcome.topic_id, []).append(_answer(outcome))
    return AlterPartitionResponse(
        topics=[
            AlterPartitionResponseTopicData(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in topics.items()
        ]
    )


def _in_sync(version: int, partition: AlterPartitionRequestPartitionData) -> list[InSyncReplica]:
    if version < FIRST_VERSION_WITH_EPOCHS:
        return [InSyncReplica(node_id) for node_id in partition.new_isr]
    return [InSyncReplica(state.broker_id, state.broker_epoch) for state in partition.new_isr_with_epochs]


def _answer(outcome: IsrOutcome) -> AlterPartitionResponsePartitionData:
    state = outcome.state
    if outcome.error is not None or state is None:
        code = 0 if outcome.error is None else outcome.error.code
        return AlterPartitionResponsePartitionData(partition_index=outcome.partition, error_code=code)
    return AlterPartitionResponsePartitionData(
        partition_index=outcome.partition,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        leader_recovery_state=state.leader_recovery_state,
        partition_epoch=state.partition_epoch,
    )
