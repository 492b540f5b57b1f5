"""The group handlers in every version they serve: each request is encoded, decoded, answered, and the answer encoded.

What the answers must be was asked of Apache Kafka 4.3.1.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.unit.api.answering import ask, services_of
from tests.unit.coordination.memory_log import MemoryLog

from tidelog.config.broker import BrokerConfig
from tidelog.coordination.partitioning import OFFSETS_TOPIC
from tidelog.groups.coordinator import GroupCoordinator
from tidelog.metadata.brokers import BrokersImage
from tidelog.metadata.features import GROUP_VERSION, FeaturesImage
from tidelog.metadata.image import BrokerImage, Endpoint, MetadataImage, PartitionState, TopicImage
from tidelog.metadata.publisher import MetadataPublisher
from tidelog.metadata.topics import TopicsImage
from tidelog.model.errors import ErrorCode
from tidelog.protocol.generated.delete_groups import DeleteGroupsRequest
from tidelog.protocol.generated.describe_groups import DescribeGroupsRequest
from tidelog.protocol.generated.find_coordinator import FindCoordinatorRequest
from tidelog.protocol.generated.heartbeat import HeartbeatRequest
from tidelog.protocol.generated.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tidelog.protocol.generated.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.protocol.generated.list_groups import ListGroupsRequest
from tidelog.protocol.generated.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.protocol.generated.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tidelog.protocol.generated.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tidelog.protocol.generated.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tidelog.protocol.message import Message

pytestmark = pytest.mark.anyio

TOPIC_ID, OTHER_ID = b"t" * 16, b"o" * 16


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Caller:
    """What a connection does with a request, without the connection."""

    def __init__(self, *, commits_at_once: bool = True) -> None:
        self.image = MetadataImage(
            TopicsImage.of([topic("t", TOPIC_ID, 3)]),
            FeaturesImage({GROUP_VERSION: 1}),
            BrokersImage(
                {1: BrokerImage(1, 0, bytes(16), (Endpoint("PLAINTEXT", "broker", 9092),), None, False, False, (), ())}
            ),
        )
        self.logs = [MemoryLog(commits_at_once=commits_at_once) for _ in range(2)]
        metadata = MetadataPublisher(self.image)

        async def create() -> None:
            self.image.topics[OFFSETS_TOPIC] = topic(OFFSETS_TOPIC, OTHER_ID, 2)

        self.groups = GroupCoordinator(
            BrokerConfig(group_initial_rebalance_delay_ms=0),
            image=self.image,
            open_log=lambda partition: self.logs[partition],
            create_topic=create,
        )
        self.services = services_of(groups=self.groups, metadata=metadata)

    async def call(self, request: Message, version: int) -> Any:
        async with asyncio.timeout(30):
            return await ask(self.services, request, version)


def topic(name: str, topic_id: bytes, partitions: int) -> TopicImage:
    return TopicImage(name, topic_id, {p: PartitionState(1, 0, 0, (1,), (1,)) for p in range(partitions)}, {})


@pytest.fixture
async def caller() -> AsyncIterator[Caller]:
    caller = Caller()
    await caller.call(FindCoordinatorRequest(key="g"), 0)
    yield caller
    await caller.groups.stop()


def versions(request: type[Message]) -> list[int]:
    return list(range(request.MIN_VERSION, request.MAX_VERSION + 1))


def join_request(version: int, member_id: str = "", group: str = "g", instance: str | None = None) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000 if version >= 1 else -1,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"meta")],
    )


async def join(caller: Caller, version: int = 9, group: str = "g") -> Any:
    reply = await caller.call(join_request(version, group=group), version)
    if version >= 4:
        assert reply.error_code == ErrorCode.MEMBER_ID_REQUIRED
        reply = await caller.call(join_request(version, reply.member_id, group), version)
    assert reply.error_code == 0
    return reply


def commit_request(version: int, *partitions: int, name: str = "t", topic_id: bytes = TOPIC_ID) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequestTopic(
                name=name if version < 10 else "",
                topic_id=topic_id if version >= 10 else bytes(16),
                partitions=[
                    OffsetCommitRequestPartition(partition_index=p, committed_offset=p + 10, committed_metadata="m")
                    for p in partitions
                ],
            )
        ],
    )


@pytest.mark.parametrize("version", versions(FindCoordinatorRequest))
async def test_find_coordinator(version: int) -> None:
    caller = Caller()
    if version < 4:
        answer = await caller.call(FindCoordinatorRequest(key="g"), version)
        assert (answer.error_code, answer.node_id, answer.host, answer.port) == (0, 1, "broker", 9092)
        if version >= 1:
            assert answer.error_message == "NONE"
    else:
        answer = await caller.call(FindCoordinatorRequest(coordinator_keys=["g", "", "h"]), version)
        assert [(c.key, c.error_code, c.node_id, c.port) for c in answer.coordinators] == [
            ("g", 0, 1, 9092), ("", 0, 1, 9092), ("h", 0, 1, 9092)
        ]  # fmt: skip
        for key_type in (2, 3, -1):
            answer = await caller.call(FindCoordinatorRequest(coordinator_keys=["x"], key_type=key_type), version)
            assert answer.coordinators[0].error_code == ErrorCode.INVALID_REQUEST
    await caller.groups.stop()


async def test_find_coordinator_when_its_node_is_gone(caller: Caller) -> None:
    caller.image.brokers.clear()
    answer = await caller.call(FindCoordinatorRequest(coordinator_keys=["g"]), 6)
    assert answer.coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("version", versions(JoinGroupRequest))
async def test_join_group(caller: Caller, version: int) -> None:
    reply = await join(caller, version)
    assert (reply.generation_id, reply.leader, reply.protocol_name) == (1, reply.member_id, "range")
    assert [(m.member_id, bytes(m.metadata)) for m in reply.members] == [(reply.member_id, b"meta")]
    assert reply.protocol_type == ("consumer" if version >= 7 else None)
    stored = caller.groups.shard_of("g").core.groups["g"].members[reply.member_id]
    assert stored.rebalance_timeout_ms == (60_000 if version >= 1 else 10_000)
    assert (stored.client_id, stored.client_host) == ("client", "/10.0.0.1")
    refused = await caller.call(join_request(version, group=""), version)
    assert refused.error_code == ErrorCode.INVALID_GROUP_ID
    refused = await caller.call(join_request(version, "nobody"), version)
    assert (refused.error_code, refused.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "nobody")


@pytest.mark.parametrize("version", versions(SyncGroupRequest))
async def test_sync_group(caller: Caller, version: int) -> None:
    joined = await join(caller)
    request = SyncGroupRequest(
        group_id="g",
        generation_id=1,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"A")],
    )
    synced = await caller.call(request, version)
    assert (synced.error_code, bytes(synced.assignment)) == (0, b"A")
    assert synced.protocol_name == ("range" if version >= 5 else None)
    request.generation_id = 9
    assert (await caller.call(request, version)).error_code == ErrorCode.ILLEGAL_GENERATION
    request.protocol_name = None
    expected = ErrorCode.INCONSISTENT_GROUP_PROTOCOL if version >= 5 else ErrorCode.ILLEGAL_GENERATION
    assert (await caller.call(request, version)).error_code == expected
    request = SyncGroupRequest(group_id="", member_id="m", protocol_type="consumer", protocol_name="range")
    assert (await caller.call(request, version)).error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", versions(HeartbeatRequest))
async def test_heartbeat(caller: Caller, version: int) -> None:
    joined = await join(caller)
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=joined.member_id)
    assert (await caller.call(beat, version)).error_code == 0
    beat.generation_id = 2
    assert (await caller.call(beat, version)).error_code == ErrorCode.ILLEGAL_GENERATION
    beat.group_id = ""
    assert (await caller.call(beat, version)).error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", versions(LeaveGroupRequest))
async def test_leave_group(caller: Caller, version: int) -> None:
    joined = await join(caller)
    for expected in (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID):
        if version < 3:
            answer = await caller.call(LeaveGroupRequest(group_id="g", member_id=joined.member_id), version)
            assert answer.error_code == expected
        else:
            members = [MemberIdentity(member_id=joined.member_id)]
            answer = await caller.call(LeaveGroupRequest(group_id="g", members=members), version)
            assert answer.error_code == 0
            assert [(m.member_id, m.error_code) for m in answer.members] == [(joined.member_id, expected)]
    assert (await caller.call(LeaveGroupRequest(group_id=""), version)).error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", versions(OffsetCommitRequest))
async def test_offset_commit(caller: Caller, version: int) -> None:
    answer = await caller.call(commit_request(version, 0, 9, 1), version)
    (answered,) = answer.topics
    assert (answered.name, answered.topic_id) == (("t", bytes(16)) if version < 10 else ("", TOPIC_ID))
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [(p.partition_index, p.error_code) for p in answered.partitions] == [(9, missing), (0, 0), (1, 0)]
    answer = await caller.call(commit_request(version, 0, name="nope", topic_id=OTHER_ID), version)
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [p.error_code for p in answer.topics[0].partitions] == [unknown]
    stale = commit_request(version, 0, 1)
    stale.group_id, stale.member_id, stale.generation_id_or_member_epoch = "nobody", "m", 3
    answer = await caller.call(stale, version)
    refused = ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION
    assert [p.error_code for p in answer.topics[0].partitions] == [refused] * 2
    assert (await caller.call(OffsetCommitRequest(group_id="g"), version)).topics == []


@pytest.mark.parametrize("version", [v for v in versions(OffsetFetchRequest) if v < 8])
async def test_offset_fetch_of_one_group(caller: Caller, version: int) -> None:
    await caller.call(commit_request(9, 0, 1), 9)
    topics = [
        OffsetFetchRequestTopic(name="t", partition_indexes=[0, 2]),
        OffsetFetchRequestTopic(name="nope", partition_indexes=[0]),
    ]
    answer = await caller.call(OffsetFetchRequest(group_id="g", topics=topics), version)
    assert [[(p.partition_index, p.committed_offset, p.metadata) for p in t.partitions] for t in answer.topics] == [
        [(0, 10, "m"), (2, -1, "")],
        [(0, -1, "")],
    ]
    if version >= 2:
        answer = await caller.call(OffsetFetchRequest(group_id="g", topics=None), version)
        assert [(t.name, len(t.partitions)) for t in answer.topics] == [("t", 2)]
    await caller.groups.stop()
    caller.image.topics.pop(OFFSETS_TOPIC)
    answer = await caller.call(OffsetFetchRequest(group_id="g", topics=topics), version)
    if version >= 2:
        assert answer.error_code == ErrorCode.NOT_COORDINATOR
    else:
        codes = {p.error_code for t in answer.topics for p in t.partitions}
        assert codes == {ErrorCode.NOT_COORDINATOR}


@pytest.mark.parametrize("version", [8, 9, 10])
async def test_offset_fetch_of_several_groups(caller: Caller, version: int) -> None:
    await caller.call(commit_request(9, 0, 1), 9)
    uses_ids = version >= 10

    def asked(name: str, topic_id: bytes, *partitions: int) -> OffsetFetchRequestTopics:
        return OffsetFetchRequestTopics(
            name="" if uses_ids else name,
            topic_id=topic_id if uses_ids else bytes(16),
            partition_indexes=list(partitions),
        )

    topics = [asked("t", TOPIC_ID, 0, 2), asked("nope", OTHER_ID, 0)]
    groups = [
        OffsetFetchRequestGroup(group_id="g", topics=topics),
        OffsetFetchRequestGroup(group_id="nobody", topics=topics),
        OffsetFetchRequestGroup(group_id="g", topics=None),
        OffsetFetchRequestGroup(group_id="nobody", topics=None),
    ]
    answer = await caller.call(OffsetFetchRequest(groups=groups, require_stable=True), version)
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if uses_ids else ErrorCode.NONE
    found = [
        [[(p.partition_index, p.committed_offset, p.error_code) for p in t.partitions] for t in group.topics]
        for group in answer.groups
    ]
    assert found == [
        [[(0, 10, 0), (2, -1, 0)], [(0, -1, unknown)]],
        [[(0, -1, 0), (2, -1, 0)], [(0, -1, unknown)]],
        [[(0, 10, 0), (1, 11, 0)]],
        [],
    ]
    names = [(t.name, t.topic_id) for t in answer.groups[2].topics]
    assert names == [("", TOPIC_ID) if uses_ids else ("t", bytes(16))]


async def test_offset_delete(caller: Caller) -> None:
    await caller.call(commit_request(9, 0, 1), 9)
    topics = [
        OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=p) for p in (0, 77)]
        )
        for name in ("t", "nope")
    ]
    answer = await caller.call(OffsetDeleteRequest(group_id="g", topics=topics), 0)
    assert [[(p.partition_index, p.error_code) for p in t.partitions] for t in answer.topics] == [
        [(77, 3), (0, 0)],
        [(0, 3), (77, 3)],
    ]
    answer = await caller.call(OffsetDeleteRequest(group_id="nobody", topics=topics), 0)
    assert (answer.error_code, answer.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])


@pytest.mark.parametrize("version", versions(DescribeGroupsRequest))
async def test_describe_groups(caller: Caller, version: int) -> None:
    joined = await join(caller)
    request = DescribeGroupsRequest(groups=["g", "nobody"], include_authorized_operations=version >= 3)
    answer = await caller.call(request, version)
    known, unknown = answer.groups
    assert (known.group_state, known.protocol_type, known.protocol_data) == ("CompletingRebalance", "consumer", "")
    assert [(m.member_id, m.client_host) for m in known.members] == [(joined.member_id, "/10.0.0.1")]
    assert known.authorized_operations == (3400 if version >= 3 else -(2**31))
    assert unknown.group_state == "Dead"
    assert unknown.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)
    assert unknown.error_message == ("Group nobody not found." if version >= 6 else None)


@pytest.mark.parametrize("version", versions(ListGroupsRequest))
async def test_list_groups(caller: Caller, version: int) -> None:
    await caller.call(commit_request(9, 0), 9)
    await join(caller, group="h")
    answer = await caller.call(ListGroupsRequest(states_filter=["empty"] if version >= 4 else []), version)
    assert {g.group_id for g in answer.groups} == ({"g"} if version >= 4 else {"g", "h"})
    if version >= 5:
        assert answer.groups[0].group_type == "classic"
        answer = await caller.call(ListGroupsRequest(types_filter=["consumer"]), version)
        assert answer.groups == []


@pytest.mark.parametrize("version", versions(DeleteGroupsRequest))
async def test_delete_groups(caller: Caller, version: int) -> None:
    await caller.call(commit_request(9, 0), 9)
    answer = await caller.call(DeleteGroupsRequest(groups_names=["g", "nobody", "g"]), version)
    assert [(r.group_id, r.error_code) for r in answer.results] == [
        ("g", 0),
        ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
    ]


async def test_answers_wait_for_the_commit() -> None:
    caller = Caller(commits_at_once=False)
    await caller.call(FindCoordinatorRequest(key="g"), 0)
    asking = [
        asyncio.ensure_future(caller.call(commit_request(9, 0), 9)),
        asyncio.ensure_future(
            caller.call(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]), 9)
        ),
        asyncio.ensure_future(caller.call(HeartbeatRequest(group_id="g", member_id="m", generation_id=1), 4)),
    ]
    for _ in range(5):
        await asyncio.sleep(0)
    assert not any(task.done() for task in asking)
    for log in caller.logs:
        log.commit()
    committed, fetched, beaten = await asyncio.gather(*asking)
    assert committed.topics[0].partitions[0].error_code == 0
    assert fetched.groups[0].topics[0].partitions[0].committed_offset == 10
    assert beaten.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    await caller.groups.stop()
