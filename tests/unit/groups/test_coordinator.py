"""The coordinator: which shard, which error, and what a start and a stop do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from tests.unit.coordination.memory_log import MemoryLog
from tests.waiting import eventually

from tidelog.config.broker import BrokerConfig
from tidelog.coordination.log import Marker
from tidelog.coordination.partitioning import OFFSETS_TOPIC, coordinator_partition, java_string_hash
from tidelog.groups.coordinator import GroupCoordinator
from tidelog.groups.core.consumer.messages import ConsumerHeartbeat
from tidelog.groups.core.messages import (
    Commit,
    FetchOffsets,
    Heartbeat,
    Join,
    Joined,
    Leave,
    LeavingMember,
    OffsetsToFetch,
    OffsetToCommit,
    Sync,
    Synced,
    TransactionalCommit,
)
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.features import GROUP_VERSION, FeaturesImage
from tidelog.metadata.image import MetadataImage, PartitionState, TopicImage
from tidelog.metadata.topics import TopicsImage
from tidelog.model.errors import BrokerError, ErrorCode

pytestmark = pytest.mark.anyio
R = TypeVar("R")
NONE = ErrorCode.NONE
NODE_ID, OTHER_NODE = 1, 2
TWO_GROUPS_OF_DIFFERENT_PARTITIONS = ("b", "c")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class OffsetsTopic:
    """The partitions of the offsets topic as a node would have them, and the metadata that tells of them."""

    def __init__(self, partitions: int = 0, *, leader: int = NODE_ID) -> None:
        self.logs = [MemoryLog() for _ in range(partitions)]
        self.leader = leader
        self.leader_epoch = 0
        self.group_version = 1
        self.created = 0
        self.followers: list[GroupCoordinator] = []

    def image(self) -> MetadataImage:
        state = PartitionState(self.leader, self.leader_epoch, 0, (self.leader,), (self.leader,))
        topic = TopicImage(OFFSETS_TOPIC, bytes(16), dict.fromkeys(range(len(self.logs)), state), {})
        features = {GROUP_VERSION: self.group_version} if self.group_version else {}
        return MetadataImage(TopicsImage.of([topic] if self.logs else []), FeaturesImage(features))

    def changed(self) -> None:
        """The metadata tells of the topic as it is now."""
        delta = MetadataDelta(MetadataImage())
        delta.topics.partitions_changed[OFFSETS_TOPIC] = set(range(len(self.logs)))
        for coordinator in self.followers:
            coordinator.metadata_changed(self.image(), delta)

    def lead(self, leader: int) -> None:
        self.leader = leader
        self.leader_epoch += 1
        self.changed()

    async def create(self) -> None:
        self.created += 1
        await asyncio.sleep(0)
        self.logs = [MemoryLog() for _ in range(4)]
        self.changed()

    def coordinator(self, config: BrokerConfig | None = None) -> GroupCoordinator:
        coordinator = GroupCoordinator(
            config or BrokerConfig(node_id=NODE_ID, group_initial_rebalance_delay_ms=0),
            image=self.image(),
            open_log=self.logs_at,
            create_topic=self.create,
        )
        self.followers.append(coordinator)
        return coordinator

    def logs_at(self, partition: int) -> MemoryLog:
        """This node has a replica of every partition, whichever node leads it."""
        return self.logs[partition]


def join_request(group: str = "g", member_id: str = "", session_ms: int = 10_000) -> Join:
    return Join(
        group, member_id, None, "consumer", (("range", b""),), session_ms, 60_000, "c", "/h", "1", True, True
    )  # fmt: skip


def commit_request(group: str, offset: int) -> Commit:
    return Commit(group, "", None, -1, [OffsetToCommit("t", 0, offset)])


def offset_of(coordinator: GroupCoordinator, group: str) -> int:
    topics, commit = coordinator.fetch_offsets(FetchOffsets(group, [OffsetsToFetch("t", [0])]))
    assert commit is None
    return topics[0][2][0].offset


async def answer(submitted: tuple[R, None] | tuple[None, Awaitable[R]]) -> R:
    reply, later = submitted
    if reply is not None:
        return reply
    assert later is not None
    return await later


async def code_of(call: Awaitable[object] | Callable[[], object]) -> ErrorCode:
    try:
        if isinstance(call, Awaitable):
            await call
        else:
            call()
    except BrokerError as error:
        return error.code
    return NONE


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("group", 98629247),
        ("my-group", -1906497762),
        ("zażółć", -701064989),
        ("\U0001f600", 1772899),
    ],
)
def test_hashes_are_javas(text: str, value: int) -> None:
    assert java_string_hash(text) == value


def test_the_smallest_hash_has_no_absolute_value_in_java() -> None:
    assert java_string_hash("polygenelubricants") == -(2**31)
    assert coordinator_partition("polygenelubricants", 50) == 0
    assert coordinator_partition("group", 50) == 98629247 % 50


async def test_the_topic_is_created_for_the_first_group_and_once() -> None:
    topic = OffsetsTopic()
    coordinator = topic.coordinator()
    coordinator.start()
    assert await code_of(lambda: coordinator.join(join_request())) is ErrorCode.NOT_COORDINATOR
    found = await asyncio.gather(*(coordinator.partition_of(group) for group in ("a", "b", "a")))
    assert found == [coordinator_partition(group, 4) for group in ("a", "b", "a")]
    assert topic.created == 1
    assert coordinator.commit_offsets(commit_request("a", 3)) == ([NONE], None)
    await coordinator.stop()


async def test_a_topic_that_cannot_be_created_is_tried_again() -> None:
    topic = OffsetsTopic()

    async def fail() -> None:
        raise BrokerError(ErrorCode.INVALID_REPLICATION_FACTOR)

    topic.create = fail  # type: ignore[method-assign]
    coordinator = topic.coordinator()
    for _ in range(2):
        assert await code_of(coordinator.partition_of("g")) is ErrorCode.INVALID_REPLICATION_FACTOR
    await coordinator.stop()


async def test_a_group_can_be_formed_and_committed_to() -> None:
    coordinator = OffsetsTopic(4).coordinator()
    coordinator.start()
    reply = await answer(coordinator.join(join_request()))
    assert reply == Joined(ErrorCode.MEMBER_ID_REQUIRED, "c-1")
    async with asyncio.timeout(30):
        reply = await answer(coordinator.join(join_request(member_id="c-1")))
    assert (reply.error, reply.generation, reply.leader) == (NONE, 1, "c-1")
    synced = await answer(coordinator.sync(Sync("g", "c-1", None, 1, None, None, [("c-1", b"A")])))
    assert synced == Synced(NONE, "consumer", "range", b"A")
    assert coordinator.heartbeat(Heartbeat("g", "c-1", None, 1)) == (NONE, None)
    [sample] = coordinator.sample_groups()
    assert (sample.state, sample.members, sample.generation, sample.rebalances) == ("Stable", 1, 1, 1)
    left = await coordinator.leave(Leave("g", [LeavingMember("c-1", None)]))
    assert left.members[0].error is NONE
    assert [group.state for group in await coordinator.list_groups([], [])] == ["Empty"]
    await coordinator.stop()


async def test_a_restart_loads_every_shard() -> None:
    topic = OffsetsTopic(4)
    coordinator = topic.coordinator()
    coordinator.start()
    for group in map(str, range(20)):
        coordinator.commit_offsets(commit_request(group, int(group)))
    await coordinator.stop()

    coordinator = topic.coordinator()
    coordinator.start()
    assert await code_of(lambda: coordinator.join(join_request("1"))) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert await code_of(lambda: offset_of(coordinator, "1")) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert coordinator.heartbeat(Heartbeat("1", "m", None, 1)) == (NONE, None), "nobody is sent away while loading"
    await coordinator.loaded()
    assert [offset_of(coordinator, str(group)) for group in range(20)] == list(range(20))
    await coordinator.stop()


async def test_a_partition_led_elsewhere_is_not_coordinated_here() -> None:
    topic = OffsetsTopic(4, leader=OTHER_NODE)
    coordinator = topic.coordinator()
    coordinator.start()
    assert await code_of(lambda: coordinator.commit_offsets(commit_request("g", 1))) is ErrorCode.NOT_COORDINATOR
    assert await code_of(lambda: coordinator.end_transaction(0, Marker(1, 1, True, 0))) is ErrorCode.NOT_COORDINATOR
    assert await coordinator.list_groups([], []) == []
    topic.lead(NODE_ID)
    assert coordinator.commit_offsets(commit_request("g", 1)) == ([NONE], None)
    await coordinator.stop()


async def test_a_group_moves_with_the_leadership_and_is_the_same_after_it() -> None:
    topic = OffsetsTopic(4)
    here = topic.coordinator(BrokerConfig(node_id=NODE_ID, group_initial_rebalance_delay_ms=60_000))
    there = topic.coordinator(BrokerConfig(node_id=OTHER_NODE, group_initial_rebalance_delay_ms=0))
    here.start()
    there.start()
    here.commit_offsets(commit_request("g", 7))
    joining = join_request()
    joining.requires_known_member_id = False
    parked = asyncio.ensure_future(answer(here.join(joining)))
    await asyncio.sleep(0)
    topic.lead(OTHER_NODE)
    assert await code_of(lambda: offset_of(here, "g")) is ErrorCode.NOT_COORDINATOR
    assert await code_of(lambda: offset_of(there, "g")) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert await code_of(there.list_groups([], [])) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert (await parked).error is ErrorCode.NOT_COORDINATOR
    await there.loaded()
    assert offset_of(there, "g") == 7
    there.commit_offsets(commit_request("g", 8))
    topic.lead(NODE_ID)
    await here.loaded()
    assert offset_of(here, "g") == 8
    assert await there.list_groups([], []) == []
    await here.stop()
    await there.stop()


async def test_a_new_term_of_the_same_leader_loads_again() -> None:
    """Between two terms another node may have led, and written."""
    topic = OffsetsTopic(1)
    coordinator = topic.coordinator()
    coordinator.start()
    coordinator.commit_offsets(commit_request("g", 7))
    other = topic.coordinator(BrokerConfig(node_id=OTHER_NODE))
    topic.followers.remove(coordinator)
    topic.lead(OTHER_NODE)
    await other.loaded()
    other.commit_offsets(commit_request("g", 8))
    topic.followers.append(coordinator)
    topic.lead(NODE_ID)
    await coordinator.loaded()
    assert offset_of(coordinator, "g") == 8
    topic.changed()
    assert offset_of(coordinator, "g") == 8, "a change of something else does not load again"
    await coordinator.stop()
    await other.stop()


async def test_requests_that_are_wrong_whatever_the_group() -> None:
    coordinator = OffsetsTopic(4).coordinator()
    coordinator.start()
    assert await code_of(lambda: coordinator.join(join_request(""))) is ErrorCode.INVALID_GROUP_ID
    for session_ms in (5999, 1_800_001):
        with pytest.raises(BrokerError) as caught:
            coordinator.join(join_request(session_ms=session_ms))
        assert caught.value.code is ErrorCode.INVALID_SESSION_TIMEOUT
    assert await code_of(lambda: coordinator.sync(Sync("", "m", None, 1, None, None, []))) is ErrorCode.INVALID_GROUP_ID
    assert await code_of(coordinator.leave(Leave("", []))) is ErrorCode.INVALID_GROUP_ID
    assert coordinator.commit_offsets(commit_request("", 5)) == ([NONE], None), "clients of old have no group id"
    assert offset_of(coordinator, "") == 5
    assert [group.state for group in await coordinator.describe_groups([""])] == ["Empty"]
    assert await coordinator.delete_groups([""]) == [("", NONE)]
    await coordinator.stop()


async def test_groups_are_described_and_deleted_across_shards() -> None:
    topic = OffsetsTopic(4)
    coordinator = topic.coordinator()
    coordinator.start()
    for group in TWO_GROUPS_OF_DIFFERENT_PARTITIONS:
        coordinator.commit_offsets(commit_request(group, 1))
    assert len([log for log in topic.logs if not log.is_empty]) == 2
    described = await coordinator.describe_groups(["b", "c", "nobody"])
    assert [(group.group_id, group.state) for group in described] == [
        ("b", "Empty"),
        ("c", "Empty"),
        ("nobody", "Dead"),
    ]
    assert await coordinator.delete_groups(["b", "b", "nobody"]) == [
        ("b", NONE),
        ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert [group.group_id for group in await coordinator.list_groups([], [])] == ["c"]
    await coordinator.stop()


LARGE_GROUP = "g" * 1000


def commit_more_than_a_batch_holds(coordinator: GroupCoordinator) -> None:
    """Their tombstones are some 2 MiB."""
    for start in range(0, 2000, 500):
        offsets = [OffsetToCommit("t", partition, 1) for partition in range(start, start + 500)]
        coordinator.commit_offsets(Commit(LARGE_GROUP, "", None, -1, offsets))


async def test_a_group_is_deleted_whose_offsets_do_not_fit_one_batch() -> None:
    topic = OffsetsTopic(1)
    coordinator = topic.coordinator()
    coordinator.start()
    commit_more_than_a_batch_holds(coordinator)
    assert await coordinator.delete_groups([LARGE_GROUP]) == [(LARGE_GROUP, NONE)]
    assert await coordinator.list_groups([], []) == []
    await coordinator.stop()
    again = topic.coordinator()
    again.start()
    await again.loaded()
    assert await again.list_groups([], []) == []
    assert list(again.committed_offsets()) == []
    await again.stop()


async def test_a_deletion_that_a_crash_interrupts_leaves_the_group_and_is_ended_by_the_next() -> None:
    topic = OffsetsTopic(1)
    coordinator = topic.coordinator()
    coordinator.start()
    commit_more_than_a_batch_holds(coordinator)
    (log,) = topic.logs
    committed = len(log.batches_written)
    await coordinator.delete_groups([LARGE_GROUP])
    await coordinator.stop()
    written = log.batches_written
    assert len(written) - committed > 2
    for kept in range(committed + 1, len(written)):
        topic.logs = [MemoryLog()]
        for batch in written[:kept]:
            topic.logs[0].append(batch, 0)
        after = topic.coordinator()
        after.start()
        await after.loaded()
        assert [group.state for group in await after.list_groups([], [])] == ["Empty"]
        assert 0 < len(list(after.committed_offsets())) < 2000
        assert await after.delete_groups([LARGE_GROUP]) == [(LARGE_GROUP, NONE)]
        assert await after.list_groups([], []) == []
        await after.stop()


async def test_more_offsets_of_an_open_transaction_than_a_batch_holds_go_with_their_group() -> None:
    topic = OffsetsTopic(1)
    coordinator = topic.coordinator()
    coordinator.start()
    coordinator.commit_offsets(Commit(LARGE_GROUP, "", None, -1, [OffsetToCommit("other", 0, 1)]))
    for start in range(0, 2000, 500):
        offsets = [OffsetToCommit("t", partition, 1) for partition in range(start, start + 500)]
        commit = Commit(LARGE_GROUP, "", None, -1, offsets)
        coordinator.commit_transactional(TransactionalCommit(7, 0, commit))
    assert await coordinator.delete_groups([LARGE_GROUP]) == [(LARGE_GROUP, NONE)]
    coordinator.end_transaction(0, Marker(7, 0, commit=True, coordinator_epoch=0))
    assert list(coordinator.committed_offsets()) == []
    assert await coordinator.list_groups([], []) == []
    await coordinator.stop()


async def test_a_deletion_that_the_log_refuses_midway_says_so_and_the_group_stays() -> None:
    topic = OffsetsTopic(1)
    coordinator = topic.coordinator()
    coordinator.start()
    commit_more_than_a_batch_holds(coordinator)
    (log,) = topic.logs
    log.refuse_after(len(log.batches_written) + 2)
    assert await coordinator.delete_groups([LARGE_GROUP]) == [(LARGE_GROUP, ErrorCode.NOT_COORDINATOR)]
    assert [group.state for group in await coordinator.list_groups([], [])] == ["Empty"]
    log.refuse_after(None)
    assert await coordinator.delete_groups([LARGE_GROUP]) == [(LARGE_GROUP, NONE)]
    await coordinator.stop()


async def test_what_the_metadata_says_is_followed() -> None:
    topic = OffsetsTopic()
    coordinator = topic.coordinator()
    coordinator.start()
    topic.logs = [MemoryLog() for _ in range(4)]
    created = MetadataDelta(MetadataImage())
    created.topics.created[bytes(16)] = TopicImage(OFFSETS_TOPIC, bytes(16), {}, {})
    coordinator.metadata_changed(topic.image(), created)
    coordinator.commit_offsets(commit_request("g", 1))
    assert len(await coordinator.list_groups([], [])) == 1

    deleted = MetadataDelta(MetadataImage())
    deleted.topics.deleted.append(TopicImage("t", bytes(16), {}, {}))
    coordinator.metadata_changed(topic.image(), deleted)
    await eventually(lambda: offset_of(coordinator, "g") == -1, "the offset of a deleted topic is gone", interval_s=0)

    topic.logs = []
    gone = MetadataDelta(MetadataImage())
    gone.topics.deleted.append(TopicImage(OFFSETS_TOPIC, bytes(16), {}, {}))
    coordinator.metadata_changed(topic.image(), gone)
    assert await code_of(lambda: coordinator.commit_offsets(commit_request("g", 1))) is ErrorCode.NOT_COORDINATOR
    assert await coordinator.list_groups([], []) == []
    await coordinator.stop()


async def test_the_consumer_protocol_can_be_switched_off_for_the_cluster() -> None:
    topic = OffsetsTopic(1)
    coordinator = topic.coordinator()
    coordinator.start()
    beat = ConsumerHeartbeat("g", "m", 0, topics=("t",), owned={}, rebalance_timeout_ms=1)
    assert coordinator.consumer_heartbeat(beat)[0].member_epoch > 0
    topic.group_version = 0
    topic.changed()
    assert await code_of(lambda: coordinator.consumer_heartbeat(beat)) is ErrorCode.UNSUPPORTED_VERSION
    [described] = await coordinator.describe_consumer_groups(["g"])
    assert described.error is ErrorCode.UNSUPPORTED_VERSION
    topic.group_version = 1
    topic.changed()
    assert coordinator.consumer_heartbeat(beat)[0].member_epoch > 0
    await coordinator.stop()


async def test_a_topic_made_anew_under_the_name_begins_empty() -> None:
    topic = OffsetsTopic(1)
    coordinator = topic.coordinator()
    coordinator.start()
    coordinator.commit_offsets(commit_request("g", 7))
    topic.logs = [MemoryLog()]
    image = topic.image()
    image.topics[OFFSETS_TOPIC].topic_id = b"another topic id"
    again = MetadataDelta(MetadataImage())
    again.topics.created[b"another topic id"] = image.topics[OFFSETS_TOPIC]
    coordinator.metadata_changed(image, again)
    assert offset_of(coordinator, "g") == -1
    await coordinator.stop()


async def test_a_log_that_cannot_be_read_is_not_served_as_empty() -> None:
    topic = OffsetsTopic(1)
    topic.logs[0].append([(b"x", b"y")], 0)

    def explode() -> object:
        raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR)

    topic.logs[0].batches = explode  # type: ignore[method-assign, assignment]
    coordinator = topic.coordinator()
    coordinator.start()
    await coordinator.loaded()
    assert await code_of(lambda: offset_of(coordinator, "g")) is ErrorCode.NOT_COORDINATOR
    await coordinator.stop()


async def test_the_consumer_protocol_can_be_turned_off() -> None:
    config = BrokerConfig(group_coordinator_rebalance_protocols=("classic",))
    groups = OffsetsTopic(1).coordinator(config)
    with pytest.raises(BrokerError) as caught:
        groups.consumer_heartbeat(ConsumerHeartbeat("g", "m", 0, rebalance_timeout_ms=1, topics=("t",), owned={}))
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
    assert [group.error for group in await groups.describe_consumer_groups(["g"])] == [ErrorCode.UNSUPPORTED_VERSION]
