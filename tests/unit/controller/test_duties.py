"""Controllers of several nodes on one log in memory: only the leader decides, all see the same, silence is noticed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.unit.controller.quorums import Clock, MemoryCluster, memory_node, registration, stop

from tidelog.config.broker import BrokerConfig
from tidelog.controller.channel import ControllerChannel
from tidelog.controller.cluster_membership import ClusterMembership
from tidelog.controller.core.topics import NewTopic
from tidelog.controller.duties import BrokerDuties
from tidelog.controller.service import ControllerService
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.net.client.pool import RpcPool
from tidelog.raft.core.members import Member

DEADLINE_S = 10.0


class World:
    """Three nodes; node 1 leads, all three are registered and work."""

    def __init__(self) -> None:
        self.cluster = MemoryCluster()
        self.clock = Clock()
        self.nodes: dict[int, ControllerService] = {}
        self.epochs: dict[int, int] = {}
        self.gone: set[int] = set()
        """Nodes whose ports are closed."""

    async def begin(self) -> None:
        for node_id in (1, 2, 3):
            self.nodes[node_id] = await memory_node(
                self.cluster, BrokerConfig(node_id=node_id), self.clock, gone=self.gone
            )
        self.cluster.elect(1)
        for node_id in (1, 2, 3):
            duties = self.nodes[1].duties
            self.epochs[node_id] = await duties.register(registration(node_id), is_own=node_id == 1)
            await self.beat(node_id)

    async def beat(self, node_id: int, *, shut_down: bool = False) -> bool:
        controller = self.nodes[self.cluster.leader_id]
        reply = await controller.duties.heartbeat(
            node_id,
            self.epochs[node_id],
            metadata_offset=controller.image.offset,
            want_fence=False,
            want_shut_down=shut_down,
        )
        return reply.should_shut_down

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                await asyncio.sleep(0.001)


def with_world(use: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        world = World()
        await world.begin()
        try:
            await use(world)
        finally:
            for service in world.nodes.values():
                await stop(service)

    asyncio.run(run())


def test_only_the_leader_decides_and_all_see_the_same() -> None:
    async def use(world: World) -> None:
        await world.nodes[1].create_topics([NewTopic("t", 6, 3)])
        await world.until(lambda: all("t" in node.image.topics for node in world.nodes.values()))
        assert {node.image.controller_id for node in world.nodes.values()} == {1}
        states = [node.image.topics["t"].partitions for node in world.nodes.values()]
        assert states[0] == states[1] == states[2]
        with pytest.raises(BrokerError) as refused:
            await world.nodes[2].create_topics([NewTopic("u")])
        assert refused.value.code == ErrorCode.NOT_CONTROLLER
        world.cluster.elect(2)
        await world.nodes[2].create_topics([NewTopic("u")])
        with pytest.raises(BrokerError):
            await world.nodes[1].create_topics([NewTopic("v")])

    with_world(use)


def test_a_decision_that_loses_its_leader_is_not_answered_as_done() -> None:
    async def use(world: World) -> None:
        world.cluster.is_stalled = True
        deciding = asyncio.ensure_future(world.nodes[1].create_topics([NewTopic("t")]))
        await asyncio.sleep(0.01)
        world.cluster.elect(3)
        with pytest.raises(BrokerError) as refused:
            await deciding
        assert refused.value.code == ErrorCode.NOT_CONTROLLER
        world.cluster.is_stalled = False
        assert "t" not in world.nodes[1].image.topics

    with_world(use)


def test_a_silent_node_is_fenced_and_heard_again_it_works() -> None:
    async def use(world: World) -> None:
        await world.nodes[1].create_topics([NewTopic("t", 6, 3)])
        world.clock.now_s += 1.5
        await world.beat(3)
        world.clock.now_s += 1.0
        world.nodes[1].duties.wake.set()
        await world.until(lambda: world.nodes[1].image.brokers[2].fenced)
        image = world.nodes[1].image
        assert not image.brokers[3].fenced
        assert not image.brokers[1].fenced
        assert all(2 not in state.isr for state in image.topics["t"].partitions.values())
        await world.beat(2)
        await world.until(lambda: not world.nodes[3].image.brokers[2].fenced)

    with_world(use)


def test_a_node_that_is_heard_while_others_are_fenced_stays() -> None:
    async def use(world: World) -> None:
        controller = world.nodes[1]
        world.clock.now_s += 2.5
        world.cluster.is_stalled = True
        controller.duties.wake.set()
        await world.until(controller.quorum_controller.turn.locked)
        await asyncio.wait_for(world.beat(3), DEADLINE_S)
        world.cluster.is_stalled = False
        await world.until(lambda: controller.image.brokers[2].fenced)
        # What is decided next comes after whatever was to be done about node 3.
        await controller.create_topics([NewTopic("t")])
        assert not controller.image.brokers[3].fenced

    with_world(use)


def test_a_fault_in_one_duty_does_not_end_the_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    async def use(world: World) -> None:
        failed: list[None] = []

        def fail(duties: BrokerDuties) -> None:
            failed.append(None)
            raise RuntimeError("on purpose")

        monkeypatch.setattr(BrokerDuties, "_maybe_add_voter", fail)
        world.nodes[1].duties.wake.set()
        await world.until(lambda: bool(failed))
        world.clock.now_s += 3.0
        world.nodes[1].duties.wake.set()
        await world.until(lambda: world.nodes[1].image.brokers[2].fenced)

    with_world(use)


def test_a_broken_connection_shortens_the_wait() -> None:
    async def use(world: World) -> None:
        world.nodes[1].duties.connection_lost(2)
        world.clock.now_s += 0.8
        world.nodes[1].duties.wake.set()
        await world.until(lambda: world.nodes[1].image.brokers[2].fenced)
        assert not world.nodes[1].image.brokers[3].fenced

    with_world(use)


def test_a_node_whose_process_ended_is_hardly_waited_for() -> None:
    async def use(world: World) -> None:
        world.gone.add(2)
        for node_id in (2, 3):
            world.nodes[1].duties.connection_lost(node_id)
        await world.until(lambda: not world.nodes[1].duties.looking)
        world.clock.now_s += 0.15
        world.nodes[1].duties.wake.set()
        await world.until(lambda: world.nodes[1].image.brokers[2].fenced)
        assert not world.nodes[1].image.brokers[3].fenced, "the connection of node 3 broke, and it listens"

    with_world(use)


def test_who_is_heard_after_all_stays() -> None:
    async def use(world: World) -> None:
        world.gone.add(2)
        world.nodes[1].duties.connection_lost(2)
        await world.until(lambda: not world.nodes[1].duties.looking)
        await world.beat(2)
        world.clock.now_s += 1.0
        await world.beat(3)
        world.nodes[1].duties.wake.set()
        await world.until(lambda: not world.nodes[1].duties.wake.is_set())
        assert not world.nodes[1].image.brokers[2].fenced

    with_world(use)


def test_a_new_controller_notices_who_ended_while_there_was_none() -> None:
    async def use(world: World) -> None:
        world.gone.update((1, 3))
        world.cluster.elect(2)
        await world.until(lambda: not world.nodes[2].duties.looking)
        world.clock.now_s += 0.15
        world.nodes[2].duties.wake.set()
        await world.until(lambda: all(world.nodes[2].image.brokers[node_id].fenced for node_id in (1, 3)))

    with_world(use)


def test_a_new_controller_does_not_wait_long_for_the_one_before() -> None:
    async def use(world: World) -> None:
        await world.nodes[1].create_topics([NewTopic("t", 3, 3)])
        await world.until(lambda: "t" in world.nodes[2].image.topics)
        world.cluster.elect(2)
        world.clock.now_s += 0.8
        await world.beat(3)
        world.nodes[2].duties.wake.set()
        await world.until(lambda: world.nodes[2].image.brokers[1].fenced)
        leaders = {state.leader for state in world.nodes[2].image.topics["t"].partitions.values()}
        assert leaders <= {2, 3}

    with_world(use)


def test_a_second_node_with_the_id_of_a_living_one_is_refused() -> None:
    async def use(world: World) -> None:
        for node_id in (1, 2):
            with pytest.raises(BrokerError) as refused:
                await world.nodes[1].duties.register(registration(node_id, incarnation=b"o" * 16))
            assert refused.value.code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
        world.clock.now_s += 3.0
        epoch = await world.nodes[1].duties.register(registration(2, incarnation=b"o" * 16))
        assert epoch > world.epochs[2]

    with_world(use)


def test_a_controlled_shutdown_ends_with_permission_and_no_session() -> None:
    async def use(world: World) -> None:
        await world.nodes[1].create_topics([NewTopic("t", 6, 3)])
        assert not await world.beat(2, shut_down=True)
        assert await world.beat(2, shut_down=True)
        image = world.nodes[1].image
        assert image.brokers[2].fenced
        assert all(state.leader != 2 for state in image.topics["t"].partitions.values())
        # It may come back at once.
        await world.nodes[1].duties.register(registration(2, incarnation=b"n" * 16))

    with_world(use)


def test_learners_become_voters_in_pairs() -> None:
    async def use(world: World) -> None:
        quorum = world.nodes[1].quorum
        await quorum.commands.add_voter(Member(1))
        await quorum.commands.add_learner(Member(2))
        world.nodes[1].duties.wake.set()
        await asyncio.sleep(0.01)
        assert quorum.members.voter_ids == (1,)
        await quorum.commands.add_learner(Member(3))
        world.nodes[1].duties.wake.set()
        await world.until(lambda: quorum.members.voter_ids == (1, 2, 3))
        await quorum.commands.add_learner(Member(4))
        world.nodes[1].duties.wake.set()
        await asyncio.sleep(0.01)
        assert quorum.members.voter_ids == (1, 2, 3)

    with_world(use)


def test_a_preparer_or_subscriber_that_fails_holds_nobody_up() -> None:
    async def use(world: World) -> None:
        async def refuse(image: object, delta: object) -> None:
            raise OSError("no threads")

        def fail(image: object, delta: object) -> None:
            raise RuntimeError("a fault of its own")

        heard: list[int] = []
        metadata = world.nodes[1].metadata
        metadata.prepare_with(refuse)
        metadata.subscribe(fail)
        metadata.subscribe(lambda image, delta: heard.append(image.offset))
        await world.nodes[1].create_topics([NewTopic("t")])
        assert heard == [world.nodes[1].image.offset]

    with_world(use)


# -- joining -----------------------------------------------------------------------------------------------------------


def join_request(**given: object) -> dict[str, object]:
    return {"directory_id": (b"x" * 16).hex(), "host": "h", "port": 1, "is_new": True, **given}


def membership(service: ControllerService) -> ClusterMembership:
    pool = RpcPool(lambda _: None, client_id="test")
    return ClusterMembership(service, ControllerChannel(service.quorum_controller, pool))


def test_a_node_that_joins_gets_a_number_of_its_own() -> None:
    async def use(world: World) -> None:
        members = membership(world.nodes[1])
        first, second = await asyncio.gather(
            members.take_in(join_request()), members.take_in(join_request(directory_id=(b"y" * 16).hex()))
        )
        assert {first["node_id"], second["node_id"]} == {4, 5}
        assert first["cluster_id"] == "cluster"
        assert world.cluster.members.is_learner(4)
        again = await members.take_in(join_request(node_id=first["node_id"], is_new=False))
        assert again["node_id"] == first["node_id"]

    with_world(use)


def test_a_node_that_asks_twice_has_one_number() -> None:
    """The answer to the first request may be lost; the two may also overlap."""

    async def use(world: World) -> None:
        members = membership(world.nodes[1])
        answers = await asyncio.gather(*(members.take_in(join_request()) for _ in range(2)))
        answers.append(await members.take_in(join_request()))
        assert [answer["node_id"] for answer in answers] == [4, 4, 4]
        assert [member.node_id for member in world.cluster.members.learners] == [4]

    with_world(use)


def test_a_removal_that_was_cut_short_can_be_finished() -> None:
    async def use(world: World) -> None:
        members = membership(world.nodes[1])
        quorum = world.nodes[1].quorum
        await quorum.commands.add_voter(Member(3))
        # A leader that is replaced comes so far.
        await world.nodes[1].unregister_broker(3)
        await members.unregister(3)
        assert quorum.members.find(3) is None
        with pytest.raises(BrokerError) as refused:
            await members.unregister(3)
        assert refused.value.code == ErrorCode.BROKER_ID_NOT_REGISTERED

    with_world(use)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"cluster_id": "other"}, "This is cluster cluster, the request is for cluster other."),
        ({"node_id": 2}, "another node with id 2 is alive at 127.0.0.1:9092"),
        ({"node_id": 9, "is_new": False}, "node 9 was removed from the cluster"),
        ({"directory_id": "zz"}, "cannot be read"),
        ({"directory_id": "00" * 16}, "a data directory has an id of 16 bytes"),
        ({"directory_id": "ff"}, "a data directory has an id of 16 bytes"),
    ],
)
def test_who_may_not_join(given: dict[str, object], words: str) -> None:
    async def use(world: World) -> None:
        with pytest.raises(BrokerError) as refused:
            await membership(world.nodes[1]).take_in(join_request(**given))
        assert words in refused.value.message

    with_world(use)


def test_statistics_are_kept_by_the_controller_and_only_of_known_nodes() -> None:
    async def use(world: World) -> None:
        duties = world.nodes[1].duties
        duties.report(2, world.epochs[2], {"memory_bytes": 5})
        assert duties.report(3, world.epochs[3], {"memory_bytes": 7}) == {
            2: {"memory_bytes": 5},
            3: {"memory_bytes": 7},
        }
        with pytest.raises(BrokerError):
            duties.report(9, 0, {})

    with_world(use)
