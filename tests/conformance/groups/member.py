"""Members of groups made of bare requests: a test says what each sends and when, and sees every answer."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from tests.servers.topics import new_name
from tests.servers.wire import Connection
from tests.waiting import wait_until

from tidelog.model.errors import ErrorCode
from tidelog.protocol.generated.consumer_group_describe import ConsumerGroupDescribeRequest
from tidelog.protocol.generated.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from tidelog.protocol.generated.consumer_protocol_assignment import ConsumerProtocolAssignment
from tidelog.protocol.generated.consumer_protocol_subscription import ConsumerProtocolSubscription, TopicPartition
from tidelog.protocol.generated.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.protocol.generated.find_coordinator import FindCoordinatorRequest
from tidelog.protocol.generated.heartbeat import HeartbeatRequest
from tidelog.protocol.generated.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tidelog.protocol.generated.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.protocol.generated.list_groups import ListGroupsRequest
from tidelog.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.protocol.generated.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.protocol.generated.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tidelog.protocol.generated.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

SESSION_MS = 60_000
"""Nobody here is to be missed for as long as a test takes: members are silent while tools look at their group."""
REBALANCE_MS = 30_000
Owned = Sequence[tuple[bytes, Sequence[int]]]


class Groups:
    """One connection and the topics made through it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.topic_ids: dict[str, bytes] = {}

    def topic(self, partitions: int = 1, prefix: str = "groups") -> str:
        """A new topic that the coordinator knows as well."""
        name = new_name(prefix)
        request = CreateTopicsRequest(
            topics=[CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)]
        )
        created = self.connection.call(request, 7).topics[0]
        assert created.error_code == 0, created
        self.topic_ids[name] = created.topic_id
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
        wait_until(lambda: self.connection.call(asked, 12).topics[0].error_code == 0, "the topic has a leader")
        return name

    def group(self) -> str:
        """A new group id of which the coordinator is ready."""
        name = new_name("group")
        asked = FindCoordinatorRequest(coordinator_keys=[name])
        wait_until(lambda: self.connection.call(asked, 4).coordinators[0].error_code == 0, "there is a coordinator")
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=name, topics=[])])
        wait_until(lambda: self.connection.call(request, 9).groups[0].error_code == 0, "the coordinator is loaded")
        return name

    def describe(self, group: str) -> Any:
        return self.connection.call(ConsumerGroupDescribeRequest(group_ids=[group]), 1).groups[0]

    def listed(self, group: str) -> Any:
        found = [g for g in self.connection.call(ListGroupsRequest(), 5).groups if g.group_id == group]
        return found[0] if found else None

    def commit(
        self, group: str, topic: str, offset: int, *, member: str = "", epoch: int = -1, version: int = 9
    ) -> int:
        """Of partition 0; the error code."""
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topics = [OffsetCommitRequestTopic(name=topic, partitions=[partition])]
        request = OffsetCommitRequest(
            group_id=group, generation_id_or_member_epoch=epoch, member_id=member, topics=topics
        )
        code: int = self.connection.call(request, version).topics[0].partitions[0].error_code
        return code

    def fetch(self, group: str, topic: str, *, member: str | None = None, epoch: int = -1) -> tuple[int, int]:
        """Error code and committed offset of partition 0."""
        topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
        asked = OffsetFetchRequestGroup(group_id=group, topics=topics, member_id=member, member_epoch=epoch)
        answer = self.connection.call(OffsetFetchRequest(groups=[asked]), 9).groups[0]
        return answer.error_code, answer.topics[0].partitions[0].committed_offset if answer.topics else -1


class ConsumerMember:
    """Speaks the consumer protocol; `beat` sends what it is told and keeps what it learns."""

    def __init__(self, groups: Groups, group: str, *topics: str, instance: str | None = None, **joining: Any) -> None:
        self.groups = groups
        self.group = group
        self.topics = list(topics)
        self.instance = instance
        self.joining = joining
        self.member_id = str(uuid.uuid4())
        self.epoch = 0
        self.owned: dict[bytes, list[int]] = {}

    def send(self, *, version: int = 1, **fields: Any) -> Any:
        options: dict[str, Any] = {
            "group_id": self.group, "member_id": self.member_id, "member_epoch": self.epoch,
            "instance_id": self.instance, **fields,
        }  # fmt: skip
        return self.groups.connection.call(ConsumerGroupHeartbeatRequest(**options), version)

    def join(self, **fields: Any) -> Any:
        self.epoch = 0
        options: dict[str, Any] = {
            "rebalance_timeout_ms": REBALANCE_MS, "topic_partitions": [], **self.joining, **fields,
        }  # fmt: skip
        if "subscribed_topic_regex" not in options:
            options.setdefault("subscribed_topic_names", self.topics)
        return self.learn(self.send(**options))

    def beat(self, **fields: Any) -> Any:
        """Reports what it owns, as clients do when that has changed."""
        fields.setdefault("topic_partitions", as_owned(self.owned))
        return self.learn(self.send(**fields))

    def leave(self, epoch: int = -1) -> int:
        code: int = self.send(member_epoch=epoch).error_code
        return code

    def learn(self, answer: Any) -> Any:
        if answer.error_code == 0:
            self.member_id, self.epoch = answer.member_id, answer.member_epoch
            if answer.assignment is not None:
                self.owned = {t.topic_id: sorted(t.partitions) for t in answer.assignment.topic_partitions}
        return answer

    @property
    def count(self) -> int:
        return sum(len(partitions) for partitions in self.owned.values())


class ClassicMember:
    """Speaks the classic protocol with the consumer's embedded one."""

    def __init__(
        self, groups: Groups, group: str, *topics: str, instance: str | None = None, assignor: str = "range"
    ) -> None:
        self.groups = groups
        self.group = group
        self.topics = list(topics)
        self.instance = instance
        self.assignor = assignor
        self.member_id = ""
        self.generation = -1
        self.owned: dict[str, list[int]] = {}

    def join(self, *, reports: bool = False) -> Any:
        """Joins, with the id it is given if need be; `reports` what it owns, as a cooperative member does."""
        owned = [TopicPartition(topic=t, partitions=p) for t, p in self.owned.items()] if reports else []
        subscription = ConsumerProtocolSubscription(topics=self.topics, owned_partitions=owned)
        request = JoinGroupRequest(
            group_id=self.group,
            member_id=self.member_id,
            group_instance_id=self.instance,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=self.assignor, metadata=b"\0\1" + subscription.encode(1))],
        )
        answer = self.groups.connection.call(request, 9)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = request.member_id = answer.member_id
            answer = self.groups.connection.call(request, 9)
        if answer.error_code == 0:
            self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    def sync(self, assignment: dict[str, list[int]] | None = None, user_data: bytes | None = None) -> int:
        """Assigns itself `assignment` if it leads; the error code."""
        assignments = []
        if assignment is not None:
            partitions = [_assigned(topic, numbers) for topic, numbers in assignment.items()]
            assigned = ConsumerProtocolAssignment(assigned_partitions=partitions, user_data=user_data)
            body = b"\0\1" + assigned.encode(1)
            assignments = [SyncGroupRequestAssignment(member_id=self.member_id, assignment=body)]
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocol_name=self.assignor,
            assignments=assignments,
        )
        answer = self.groups.connection.call(request, 5)
        if answer.error_code == 0 and answer.assignment:
            decoded, _ = ConsumerProtocolAssignment.decode(bytes(answer.assignment), 2, 1)
            self.owned = {t.topic: sorted(t.partitions) for t in decoded.assigned_partitions}
        code: int = answer.error_code
        return code

    def heartbeat(self) -> int:
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
        )
        code: int = self.groups.connection.call(request, 4).error_code
        return code

    def leave(self) -> int:
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance)
        answer = self.groups.connection.call(LeaveGroupRequest(group_id=self.group, members=[identity]), 5)
        code: int = answer.error_code or answer.members[0].error_code
        return code


def _assigned(topic: str, partitions: list[int]) -> Any:
    from tidelog.protocol.generated.consumer_protocol_assignment import TopicPartition as Assigned

    return Assigned(topic=topic, partitions=partitions)


def as_owned(owned: dict[bytes, list[int]]) -> list[ConsumerGroupHeartbeatRequestTopicPartitions]:
    return [
        ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=list(partitions))
        for topic_id, partitions in owned.items()
    ]


def settle(*members: ConsumerMember, counts: Sequence[int]) -> None:
    """Lets everybody report until each has as many partitions as it should, in whatever order, at the same epoch."""

    def is_settled() -> bool:
        answers = [member.beat() for member in members]
        assert all(answer.error_code == 0 for answer in answers), answers
        has_news = any(answer.assignment is not None for answer in answers)
        is_done = not has_news and len({member.epoch for member in members}) == 1
        return is_done and sorted(member.count for member in members) == sorted(counts)

    wait_until(is_settled, f"the members have {counts} partitions")
