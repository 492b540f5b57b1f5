"""An operator moves leaderships: another order of the replicas, then an election of the preferred ones."""

from __future__ import annotations

import asyncio

from tests.simulation.cluster.clients import TOPIC, Client

from tidelog.protocol.generated.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.protocol.generated.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions


class Operator(Client):
    _wanted = 0

    def move(self) -> None:
        self._wanted += 1

    async def live(self) -> None:
        while not self.is_stopping:
            if not self._wanted:
                await asyncio.sleep(0.05)
                continue
            self._wanted = 0
            index = self.world.random.randrange(self.cluster.partitions)
            replicas = self.world.random.sample(list(self.cluster.nodes), 3)
            self.world.note(self.process, f"moves partition {index} to {replicas}")
            partition = ReassignablePartition(partition_index=index, replicas=replicas)
            await self.call(
                self.anyone(),
                AlterPartitionReassignmentsRequest(
                    timeout_ms=500, topics=[ReassignableTopic(name=TOPIC, partitions=[partition])]
                ),
                AlterPartitionReassignmentsResponse,
                0,
            )
            await asyncio.sleep(0.2)
            asked = ElectLeadersRequest(
                election_type=0,
                topic_partitions=[TopicPartitions(topic=TOPIC, partitions=[index])],
                timeout_ms=500,
            )
            await self.call(self.anyone(), asked, ElectLeadersResponse, 2)
