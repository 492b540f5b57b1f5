"""The coordinator around the core: outcomes are seen through, whatever the logs and the partitions say first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable

import pytest
from tests.unit.coordination.memory_log import MemoryLog
from tests.unit.transactions.driver import ID, TIMEOUT_MS, partitions
from tests.waiting import eventually

from tidelog.config.broker import BrokerConfig
from tidelog.coordination.log import Marker
from tidelog.coordination.partitioning import TRANSACTIONS_TOPIC
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import MetadataImage, PartitionState, TopicImage
from tidelog.metadata.topics import TopicsImage
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.transactions.coordinator import TransactionCoordinator
from tidelog.transactions.core.messages import AddPartitions, End, Ended, Filters, Init, Initialised
from tidelog.transactions.core.state import TransactionState

pytestmark = pytest.mark.anyio
S = TransactionState
NODE_ID, OTHER_NODE = 1, 2


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Markers:
    """Where markers go: written, refused or waiting, as the test wants it."""

    def __init__(self) -> None:
        self.written: list[tuple[TopicPartition, Marker]] = []
        self.refusals: dict[TopicPartition, ErrorCode] = {}
        self.waits: dict[TopicPartition, asyncio.Future[None]] = {}

    def write(self, marker: Marker, partition: TopicPartition) -> Awaitable[None] | None:
        if partition in self.refusals:
            raise BrokerError(self.refusals[partition])
        self.written.append((partition, marker))
        return self.waits.pop(partition, None)


class World:
    def __init__(self) -> None:
        self.logs = [MemoryLog(), MemoryLog()]
        self.markers = Markers()
        self.ids_given = 0
        self.coordinator = self.new_coordinator()

    def image(self, leader: int, leader_epoch: int = 0) -> MetadataImage:
        state = PartitionState(leader, leader_epoch, 0, (leader,), (leader,))
        topic = TopicImage(TRANSACTIONS_TOPIC, bytes(16), dict.fromkeys(range(len(self.logs)), state), {})
        return MetadataImage(TopicsImage.of([topic]))

    def new_coordinator(self, node_id: int = NODE_ID, **settings: int) -> TransactionCoordinator:
        async def create() -> None:
            raise AssertionError("the topic is there")

        async def next_id() -> int:
            self.ids_given += 1
            return 999 + self.ids_given

        return TransactionCoordinator(
            BrokerConfig(node_id=node_id, **settings),
            image=self.image(leader=node_id),
            open_log=self.logs.__getitem__,
            create_topic=create,
            coordinator_epoch=lambda _: 4,
            next_producer_id=next_id,
            markers=self.markers,
        )

    def change_leader(self, leader: int, leader_epoch: int) -> None:
        delta = MetadataDelta(MetadataImage())
        delta.topics.partitions_changed[TRANSACTIONS_TOPIC] = set(range(len(self.logs)))
        self.coordinator.metadata_changed(self.image(leader, leader_epoch), delta)

    async def restart(self, **settings: int) -> None:
        await self.coordinator.stop()
        self.coordinator = self.new_coordinator(**settings)
        self.coordinator.start()
        await self.coordinator.loaded()

    async def begin(self, *indexes: int) -> Initialised:
        producer = await self.coordinator.init(Init(ID, TIMEOUT_MS))
        assert producer.error is ErrorCode.NONE
        assert await self.add(producer, *indexes) is ErrorCode.NONE
        return producer

    async def add(self, producer: Initialised | Ended, *indexes: int) -> ErrorCode:
        request = AddPartitions(ID, producer.producer_id, producer.producer_epoch, partitions(*indexes))
        return await self.coordinator.add_partitions(request)

    async def end(self, producer: Initialised, *, commit: bool = True, moves_epoch: bool = False) -> Ended:
        return await self.coordinator.end(
            End(ID, producer.producer_id, producer.producer_epoch, commit, moves_epoch=moves_epoch)
        )

    async def state(self) -> TransactionState:
        metadata = await self.coordinator.describe(ID)
        assert metadata is not None
        return metadata.state

    @property
    def log(self) -> MemoryLog:
        return next(log for log in self.logs if log.end_offset)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    world.coordinator.start()
    yield world
    await world.coordinator.stop()


async def wait_until_is(world: World, state: S) -> None:
    await eventually(lambda: is_in(world, state), f"the transaction is {state.name}")


async def test_all_is_done_before_the_answer_where_nothing_has_to_wait(world: World) -> None:
    producer = await world.begin(0, 1)
    assert (await world.end(producer)).error is ErrorCode.NONE
    assert await world.state() is S.COMPLETE_COMMIT
    marker = Marker(1000, 0, commit=True, coordinator_epoch=4)
    assert world.markers.written == [(TopicPartition("t", 0), marker), (TopicPartition("t", 1), marker)]
    assert world.ids_given == 1


async def test_a_partition_that_is_away_gets_its_marker_later(world: World) -> None:
    producer = await world.begin(0, 1)
    world.markers.refusals[TopicPartition("t", 1)] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (await world.end(producer, commit=False)).error is ErrorCode.NONE
    assert await world.state() is S.PREPARE_ABORT
    assert (await world.end(producer, commit=False)).error is ErrorCode.CONCURRENT_TRANSACTIONS
    next_transaction = asyncio.ensure_future(world.add(producer, 0))
    await asyncio.sleep(0)
    world.markers.refusals.clear()
    assert await next_transaction is ErrorCode.NONE, "it waited for the one before"
    assert sorted(partition for partition, _ in world.markers.written) == sorted(partitions(0, 1))
    assert await world.state() is S.ONGOING


async def test_a_request_does_not_wait_for_ever(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.transactions.coordinator.SETTLE_SECONDS_MAX", 0.02)
    producer = await world.begin(0)
    world.markers.refusals[TopicPartition("t", 0)] = ErrorCode.NOT_ENOUGH_REPLICAS
    assert (await world.end(producer)).error is ErrorCode.NONE
    assert await world.add(producer, 0) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert (await world.coordinator.init(Init(ID, TIMEOUT_MS))).error is ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    ],
)
async def test_what_no_repetition_changes_is_not_repeated(world: World, code: ErrorCode) -> None:
    producer = await world.begin(0, 1)
    world.markers.refusals[TopicPartition("t", 0)] = code
    assert (await world.end(producer)).error is ErrorCode.NONE
    assert await world.state() is S.COMPLETE_COMMIT


async def test_nor_when_it_is_another_node_that_says_so(world: World) -> None:
    producer = await world.begin(0, 1)
    waiting = world.markers.waits[TopicPartition("t", 0)] = asyncio.get_running_loop().create_future()
    assert (await world.end(producer)).error is ErrorCode.NONE
    waiting.set_exception(BrokerError(ErrorCode.INVALID_PRODUCER_EPOCH))
    await wait_until_is(world, S.COMPLETE_COMMIT)
    assert [partition.partition for partition, _ in world.markers.written] == [0, 1]


async def test_markers_wait_for_their_commit(world: World) -> None:
    producer = await world.begin(0, 1)
    waiting = world.markers.waits[TopicPartition("t", 0)] = asyncio.get_running_loop().create_future()
    assert (await world.end(producer)).error is ErrorCode.NONE
    assert await world.state() is S.PREPARE_COMMIT
    waiting.set_exception(BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    await wait_until_is(world, S.COMPLETE_COMMIT)
    assert [partition.partition for partition, _ in world.markers.written] == [0, 1, 0], "written again, and only that"


async def is_in(world: World, state: TransactionState) -> bool:
    return await world.state() is state


async def test_no_marker_before_the_outcome_is_committed(world: World) -> None:
    producer = await world.begin(0)
    world.log.commits_at_once = False
    ending = asyncio.ensure_future(world.end(producer))
    await asyncio.sleep(0.01)
    assert not ending.done()
    assert world.markers.written == []
    world.log.commit()
    assert (await ending).error is ErrorCode.NONE
    assert len(world.markers.written) == 1


async def test_an_outcome_that_is_committed_too_late_for_its_answer_is_seen_through(world: World) -> None:
    world.coordinator.shards.commit_timeout_ms = 20
    await world.coordinator.shards.stop()
    producer = await world.begin(0)
    world.log.commits_at_once = False
    with pytest.raises(BrokerError) as refused:
        await world.end(producer)
    assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.markers.written == []
    world.log.commits_at_once = True
    world.log.commit()
    await wait_until_is(world, S.COMPLETE_COMMIT)
    assert len(world.markers.written) == 1


async def test_a_log_that_refuses_changes_nothing(world: World) -> None:
    producer = await world.begin(0)
    world.log.refusal = BrokerError(ErrorCode.KAFKA_STORAGE_ERROR)
    for ask in (world.end(producer), world.add(producer, 1), world.coordinator.init(Init(ID, TIMEOUT_MS))):
        with pytest.raises(BrokerError) as refused:
            await ask
        assert refused.value.code is ErrorCode.NOT_COORDINATOR
    world.log.refusal = None
    assert await world.state() is S.ONGOING
    assert world.markers.written == []
    assert (await world.end(producer)).error is ErrorCode.NONE


async def test_a_record_of_completion_that_fails_is_tried_again(world: World) -> None:
    producer = await world.begin(0)
    log, write = world.log, world.markers.write

    def refuse_then_write(marker: Marker, partition: TopicPartition) -> Awaitable[None] | None:
        log.refusal = BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS)
        return write(marker, partition)

    world.markers.write = refuse_then_write  # type: ignore[method-assign]
    assert (await world.end(producer)).error is ErrorCode.NONE
    assert await world.state() is S.PREPARE_COMMIT
    log.refusal = None
    await wait_until_is(world, S.COMPLETE_COMMIT)


async def test_after_a_restart_prepared_outcomes_are_completed(world: World) -> None:
    producer = await world.begin(0, 1)
    world.markers.refusals[TopicPartition("t", 1)] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    await world.end(producer)
    await world.restart()
    assert await world.state() is S.PREPARE_COMMIT
    world.markers.refusals.clear()
    await wait_until_is(world, S.COMPLETE_COMMIT)
    assert {partition.partition for partition, _ in world.markers.written} == {0, 1}
    assert all(marker.commit for _, marker in world.markers.written)
    assert await world.add(producer, 0) is ErrorCode.NONE


async def test_a_new_producer_aborts_what_was_open_and_gets_its_epoch_at_once(world: World) -> None:
    await world.begin(0)
    second = await world.coordinator.init(Init(ID, TIMEOUT_MS))
    assert second == Initialised(ErrorCode.NONE, 1000, 2)
    abort = Marker(1000, 1, commit=False, coordinator_epoch=4, transaction_version=2)
    assert world.markers.written == [(TopicPartition("t", 0), abort)]
    assert world.ids_given == 1


async def test_a_producer_that_goes_on_aborts_what_was_open_and_keeps_its_id(world: World) -> None:
    await world.begin(0)
    assert await world.coordinator.init(Init(ID, TIMEOUT_MS, 1000, 0)) == Initialised(ErrorCode.NONE, 1000, 1)


async def test_transactions_that_take_too_long_are_aborted(world: World) -> None:
    producer = await world.coordinator.init(Init(ID, 1))
    await world.add(producer, 0)
    await asyncio.sleep(0.005)
    await world.coordinator.abort_timed_out()
    assert await world.state() is S.COMPLETE_ABORT
    assert world.coordinator.count_states() == {"CompleteAbort": 1}


async def test_an_abort_that_is_committed_late_is_seen_through(world: World) -> None:
    world.coordinator.shards.commit_timeout_ms = 20
    await world.coordinator.shards.stop()
    producer = await world.coordinator.init(Init(ID, 1))
    await world.add(producer, 0)
    await asyncio.sleep(0.005)
    world.log.commits_at_once = False
    await world.coordinator.abort_timed_out()
    assert world.markers.written == []
    world.log.commits_at_once = True
    world.log.commit()
    await wait_until_is(world, S.COMPLETE_ABORT)
    assert [marker.commit for _, marker in world.markers.written] == [False]


async def test_more_time_outs_than_a_batch_holds(world: World) -> None:
    many = frozenset(TopicPartition(f"topic-{number}".ljust(200, "x"), 0) for number in range(500))
    names = [f"id-{number}" for number in range(40)]
    for name in names:
        producer = await world.coordinator.init(Init(name, 1))
        request = AddPartitions(name, producer.producer_id, producer.producer_epoch, many)
        assert await world.coordinator.add_partitions(request) is ErrorCode.NONE
    await asyncio.sleep(0.005)
    await world.coordinator.abort_timed_out()
    assert world.coordinator.count_states() == {"CompleteAbort": len(names)}


async def test_more_ids_to_expire_than_a_batch_holds(world: World) -> None:
    for number in range(80):
        await world.coordinator.init(Init(f"{number}-".ljust(30_000, "x"), TIMEOUT_MS))
    await world.restart(transactional_id_expiration_ms=1)
    await asyncio.sleep(0.002)
    await world.coordinator.expire_ids()
    assert world.coordinator.count_states() == {}


async def test_a_round_that_fails_is_logged_and_not_the_last(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = 0

    async def fail_once() -> None:
        nonlocal rounds
        rounds += 1
        if rounds == 1:
            raise RuntimeError("out of luck")

    coordinator = world.new_coordinator(transaction_abort_timed_out_transaction_cleanup_interval_ms=1)
    monkeypatch.setattr(coordinator, "abort_timed_out", fail_once)
    coordinator.start()
    await eventually(lambda: rounds >= 3, "three rounds")
    await coordinator.stop()
    assert "out of luck" in caplog.text


async def test_the_quick_check_of_a_write(world: World) -> None:
    producer = await world.begin(0)
    target = TopicPartition("t", 0)

    def allowed(**changes: int) -> bool:
        held = producer._replace(**changes)
        return world.coordinator.is_in_transaction(ID, held.producer_id, held.producer_epoch, target)

    assert allowed()
    assert not allowed(producer_id=7)
    assert not allowed(producer_epoch=7)
    assert not world.coordinator.is_in_transaction(ID, 1000, 0, TopicPartition("t", 1))
    assert not world.coordinator.is_in_transaction("nobody", 1000, 0, target)
    world.log.commits_at_once = False
    adding = asyncio.ensure_future(world.add(producer, 5))
    await asyncio.sleep(0)
    assert not allowed(), "something is not committed yet"
    world.log.commit()
    await adding
    assert allowed()
    world.log.commits_at_once = True
    await world.end(producer)
    assert not allowed()


async def test_a_shard_that_is_closed_verifies_nothing(world: World) -> None:
    """What cannot be loaded is closed and stays until its partition has another leader."""
    producer = await world.begin(0)
    request = AddPartitions(ID, producer.producer_id, producer.producer_epoch, frozenset({TopicPartition("t", 0)}))
    assert set(world.coordinator.verify_partitions(request).values()) == {ErrorCode.NONE}
    world.coordinator.shards.find(ID)[1].unload()
    with pytest.raises(BrokerError) as caught:
        world.coordinator.verify_partitions(request)
    assert caught.value.code is ErrorCode.NOT_COORDINATOR


async def test_listing_all_shards(world: World) -> None:
    for name in ("a", "b", "c", "d"):
        await world.coordinator.init(Init(name, TIMEOUT_MS))
    assert all(log.end_offset for log in world.logs)
    listed = await world.coordinator.list_transactions(Filters())
    assert {found.transactional_id for found in listed} == {"a", "b", "c", "d"}


async def test_a_shard_that_is_loaded_anew_starts_its_own_completions(world: World) -> None:
    """As when leadership goes and comes back while a marker is repeated."""
    producer = await world.begin(0)
    world.markers.refusals[TopicPartition("t", 0)] = ErrorCode.NOT_ENOUGH_REPLICAS
    await world.end(producer)
    world.change_leader(OTHER_NODE, 1)
    with pytest.raises(BrokerError) as caught:
        await world.state()
    assert caught.value.code is ErrorCode.NOT_COORDINATOR
    world.change_leader(NODE_ID, 2)
    with pytest.raises(BrokerError) as caught:
        await world.state()
    assert caught.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await world.coordinator.loaded()
    world.markers.refusals.clear()
    await wait_until_is(world, S.COMPLETE_COMMIT)


async def test_an_outcome_committed_as_leadership_goes_is_left_to_the_next_coordinator(world: World) -> None:
    producer = await world.begin(0)
    world.log.commits_at_once = False
    ending = asyncio.ensure_future(world.end(producer))
    await asyncio.sleep(0)
    world.log.commit()
    world.change_leader(OTHER_NODE, 1)
    assert (await ending).error is ErrorCode.NONE
    assert world.markers.written == []


async def test_ids_of_partitions_led_elsewhere_are_not_coordinated_here(world: World) -> None:
    world.change_leader(OTHER_NODE, 1)
    with pytest.raises(BrokerError) as caught:
        await world.coordinator.init(Init(ID, TIMEOUT_MS))
    assert caught.value.code is ErrorCode.NOT_COORDINATOR
    assert await world.coordinator.list_transactions(Filters()) == []
