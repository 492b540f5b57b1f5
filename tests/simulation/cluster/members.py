"""Members of groups, of the classic protocol and of KIP-848: they join, own partitions, commit how far they are, go.

A member begins where the coordinator says that its group is, and commits only ever more. It never asks twice for one
commit: when it does not know what became of one it comes back as a new member, so that a late commit is seen to be of
the old one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.simulation.cluster.clients import TOPIC
from tests.simulation.cluster.coordinated import GROUP, CoordinatedClient
from tests.simulation.cluster.node import GROUP_SESSION_MS
from tests.simulation.coordination_observations import MemberBegan, MemberCommitted, PartitionsOwned

from tidelog.model.errors import ErrorCode
from tidelog.protocol.generated.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from tidelog.protocol.generated.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.protocol.generated.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.protocol.generated.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from tidelog.protocol.generated.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tidelog.protocol.generated.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tidelog.protocol.generated.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

if TYPE_CHECKING:
    from tests.simulation.cluster.cluster import SimulatedCluster

REBALANCE_MS = 1500
REST_S = 0.08
"""Between two heartbeats, in the mean."""
LEAVES = 0.02
"""How often a member goes instead of sending its next heartbeat."""
HANGS = 0.04
"""How often it hangs between two of them, perhaps for longer than its group waits for it."""
ELSEWHERE = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
"""What a member hears from a node that is not its coordinator, or not yet: it is one as before."""


class GroupMember(CoordinatedClient):
    """`live` goes from one membership to the next; `take_part` is one of them."""

    commit_version: int
    fetch_version: int

    def __init__(self, cluster: SimulatedCluster, number: int, group: str) -> None:
        super().__init__(cluster, number)
        # A commit has nothing that would distinguish a second one from a new one, in Kafka's protocol.
        self.process.is_repeated = False
        self.group = group
        self.committed = 0
        self.member_id = ""
        self.generation = -1
        self._coordinator = -1

    async def live(self) -> None:
        while not self.is_stopping:
            self.waits_for = f"{self.group}, as {self.member_id or 'nobody yet'}"
            await self.take_part()
            await self.rest()

    async def take_part(self) -> None:
        """From joining until this member goes or is asked to."""
        raise NotImplementedError

    async def rest(self) -> None:
        if self.world.random.random() < HANGS:
            self.process.stop_for(self.world.random.uniform(0.2, 2.5) * GROUP_SESSION_MS)
        await asyncio.sleep(self.world.random.uniform(REST_S / 2, 1.5 * REST_S))

    async def coordinator(self) -> int:
        while self._coordinator < 0 and not self.is_stopping:
            self._coordinator = await self.coordinator_of(self.group, GROUP)
        return max(self._coordinator, 1)

    def look_elsewhere(self) -> None:
        self._coordinator = -1

    def own(self, partitions: frozenset[int]) -> None:
        self.world.observe(PartitionsOwned(self.group, self.generation, self.member_id, partitions))

    async def begin(self, partitions: frozenset[int]) -> dict[int, int] | None:
        """Where the group is in each of them; None when the coordinator does not say."""
        if not partitions:
            return {}
        topic = OffsetFetchRequestTopics(name=TOPIC, partition_indexes=sorted(partitions))
        asked = OffsetFetchRequestGroup(group_id=self.group, topics=[topic])
        if self.fetch_version >= 9:
            asked.member_id, asked.member_epoch = self.member_id, self.generation
        request = OffsetFetchRequest(groups=[asked], require_stable=True)
        answer = await self.call(await self.coordinator(), request, OffsetFetchResponse, self.fetch_version)
        if answer is None or answer.groups[0].error_code:
            return None
        positions = {}
        for found in answer.groups[0].topics[0].partitions:
            if found.error_code:
                return None
            self.world.observe(MemberBegan(self.group, self.generation, found.partition_index, found.committed_offset))
            positions[found.partition_index] = max(found.committed_offset, 0)
        return positions

    async def commit(self, positions: dict[int, int]) -> bool:
        """Goes on in one partition. Whether the group knows."""
        partition = self.world.random.choice(sorted(positions))
        offset = positions[partition] + self.world.random.randint(1, 3)
        asked = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        generation = self.generation
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=generation,
            member_id=self.member_id,
            topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[asked])],
        )
        answer = await self.call(await self.coordinator(), request, OffsetCommitResponse, self.commit_version)
        if answer is None or answer.topics[0].partitions[0].error_code:
            return False
        self.world.observe(MemberCommitted(self.group, generation, partition, offset))
        self.committed += 1
        positions[partition] = offset
        return True


class ClassicMember(GroupMember):
    """Joins, is given partitions by the member that leads the group, and joins again at every rebalance."""

    commit_version = 8
    fetch_version = 8
    _joins = 0

    async def take_part(self) -> None:
        partitions = await self._join()
        if partitions is None:
            return
        self.own(partitions)
        positions = await self.begin(partitions)
        while positions is not None and not self.is_stopping:
            await self.rest()
            if positions and not await self.commit(positions):
                self.look_elsewhere()
                return
            if not await self._beat():
                return
            if self.world.random.random() < LEAVES:
                break
        await self._leave()

    async def _join(self) -> frozenset[int] | None:
        # What it brings is new each time, or the group would not begin a new generation for it.
        self._joins += 1
        protocol = JoinGroupRequestProtocol(name="any", metadata=f"{self.process.host}:{self._joins}".encode())
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=GROUP_SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            protocol_type="simulated",
            protocols=[protocol],
        )
        timeout_s = 2 * REBALANCE_MS / 1000
        answer = await self.call(await self.coordinator(), request, JoinGroupResponse, 9, timeout_s)
        if answer is None or answer.error_code:
            self._refused(None if answer is None else answer.error_code)
            if answer is not None and answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = answer.member_id
            return None
        self.member_id, self.generation = answer.member_id, answer.generation_id
        members = sorted(member.member_id for member in answer.members)
        assigned = [
            SyncGroupRequestAssignment(
                member_id=member,
                assignment=bytes(p for p in range(self.cluster.partitions) if p % len(members) == place),
            )
            for place, member in enumerate(members)
        ]
        sync = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type="simulated",
            protocol_name=answer.protocol_name,
            assignments=assigned,
        )
        told = await self.call(await self.coordinator(), sync, SyncGroupResponse, 5, timeout_s)
        if told is None or told.error_code:
            self._refused(None if told is None else told.error_code)
            return None
        return frozenset(told.assignment)

    async def _beat(self) -> bool:
        """Whether the generation goes on."""
        request = HeartbeatRequest(group_id=self.group, generation_id=self.generation, member_id=self.member_id)
        answer = await self.call(await self.coordinator(), request, HeartbeatResponse, 4)
        if answer is not None and not answer.error_code:
            return True
        self._refused(None if answer is None else answer.error_code)
        return answer is None or answer.error_code in ELSEWHERE

    def _refused(self, code: int | None) -> None:
        if code is None or code in ELSEWHERE:
            self.look_elsewhere()
        elif code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.member_id = ""

    async def _leave(self) -> None:
        request = LeaveGroupRequest(group_id=self.group, members=[MemberIdentity(member_id=self.member_id)])
        await self.call(await self.coordinator(), request, LeaveGroupResponse, 5)
        self.member_id = ""


class ConsumerMember(GroupMember):
    """One heartbeat for everything: the coordinator assigns, and a partition is given up before another has it."""

    commit_version = 9
    fetch_version = 9
    _lives = 0
    _target: frozenset[int] = frozenset()
    _topic_id = b""

    async def take_part(self) -> None:
        self._lives += 1
        self.member_id, self.generation = f"{self.process.host}-{self._lives}", 0
        self._target = frozenset()
        positions: dict[int, int] = {}
        while not self.is_stopping and self.world.random.random() >= LEAVES:
            target = await self._beat(positions)
            if target is None:
                return
            for partition in [partition for partition in positions if partition not in target]:
                del positions[partition]
            begun = await self.begin(target - frozenset(positions))
            if begun is not None:
                positions |= begun
                if positions and not await self.commit(positions):
                    self.look_elsewhere()
                    break
            await self.rest()
        await self._leave()

    async def _beat(self, positions: dict[int, int]) -> frozenset[int] | None:
        """What this member is to own; None when it is a member no more."""
        owned = ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=self._topic_id, partitions=sorted(positions))
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.generation,
            rebalance_timeout_ms=REBALANCE_MS,
            subscribed_topic_names=[TOPIC],
            topic_partitions=[owned] if positions else [],
        )
        answer = await self.call(await self.coordinator(), request, ConsumerGroupHeartbeatResponse, 1)
        if answer is None or answer.error_code in ELSEWHERE:
            self.look_elsewhere()
            return self._target
        if answer.error_code:
            return None
        self.generation = answer.member_epoch
        if answer.assignment is not None:
            self._target = frozenset()
            for assigned in answer.assignment.topic_partitions:
                self._topic_id = assigned.topic_id
                self._target = frozenset(assigned.partitions)
            self.own(self._target)
        return self._target

    async def _leave(self) -> None:
        request = ConsumerGroupHeartbeatRequest(group_id=self.group, member_id=self.member_id, member_epoch=-1)
        await self.call(await self.coordinator(), request, ConsumerGroupHeartbeatResponse, 1)
