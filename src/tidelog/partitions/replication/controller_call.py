"""AlterPartition as a request to the controller, wherever it is."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.controller.channel import ControllerChannel
from tidelog.controller.core.alter_partition import IsrChange, IsrOutcome
from tidelog.controller.service import ControllerService
from tidelog.metadata.image import PartitionState
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.net.client.pipelined import RpcClient
from tidelog.protocol.generated.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    BrokerState,
)

TIMEOUT_S = 10.0


async def alter_partitions(
    service: ControllerService,
    channel: ControllerChannel,
    node_id: int,
    broker_epoch: int,
    changes: Sequence[IsrChange],
) -> list[IsrOutcome]:
    """One outcome for each change that the controller answered, wherever it is."""
    return await channel.reach(
        lambda: service.alter_partitions(node_id, broker_epoch, changes),
        lambda client, left_s: send_alter_partitions(client, node_id, broker_epoch, changes, timeout_s=left_s),
        timeout_s=TIMEOUT_S,
    )


async def send_alter_partitions(
    client: RpcClient, node_id: int, broker_epoch: int, changes: Sequence[IsrChange], *, timeout_s: float = TIMEOUT_S
) -> list[IsrOutcome]:
    """Sends the changes to the controller at the other end; one outcome for each it answered."""
    topics: dict[bytes, list[AlterPartitionRequestPartitionData]] = {}
    for change in changes:
        topics.setdefault(change.topic_id, []).append(
            AlterPartitionRequestPartitionData(
                partition_index=change.partition,
                leader_epoch=change.leader_epoch,
                new_isr_with_epochs=[
                    BrokerState(broker_id=replica.node_id, broker_epoch=replica.epoch) for replica in change.isr
                ],
                leader_recovery_state=change.recovery_state,
                partition_epoch=change.partition_epoch,
            )
        )
    request = AlterPartitionRequest(
        broker_id=node_id,
        broker_epoch=broker_epoch,
        topics=[
            AlterPartitionRequestTopicData(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in topics.items()
        ],
    )
    response = await client.call(request, AlterPartitionResponse, timeout_s=timeout_s)
    if response.error_code:
        raise BrokerError(ErrorCode(response.error_code))
    outcomes: list[IsrOutcome] = []
    for topic in response.topics:
        for answer in topic.partitions:
            if answer.error_code:
                error = BrokerError(ErrorCode(answer.error_code))
                outcomes.append(IsrOutcome(topic.topic_id, answer.partition_index, error))
                continue
            state = PartitionState(
                leader=answer.leader_id,
                leader_epoch=answer.leader_epoch,
                partition_epoch=answer.partition_epoch,
                replicas=(),
                isr=tuple(answer.isr),
                leader_recovery_state=answer.leader_recovery_state,
            )
            outcomes.append(IsrOutcome(topic.topic_id, answer.partition_index, state=state))
    return outcomes
