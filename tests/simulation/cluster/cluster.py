"""A whole cluster in one process under faults, then at peace: everything it does follows from the seed.

Every node is the real one (quorum, controller, replication, coordinators, the API over its listener), and so are the
protocol and the logs; time, chance, network, disks and the death of processes are the world's.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

from tests.simulation.cluster.ambush import Ambush
from tests.simulation.cluster.clients import TOPIC, Client, IdempotentProducer, Reader, TopicMaker
from tests.simulation.cluster.coordinated import Auditor, OffsetCommitter, TransactionalProducer
from tests.simulation.cluster.environment import environment_of
from tests.simulation.cluster.members import ClassicMember, ConsumerMember, GroupMember
from tests.simulation.cluster.node import FOUNDER, VOTERS, SimulatedNode
from tests.simulation.cluster.older_transactions import OlderTransactionalProducer
from tests.simulation.cluster.operator import Operator
from tests.simulation.cluster.process import Process
from tests.simulation.cluster.profile import ClusterProfile
from tests.simulation.cluster.sockets import Sockets
from tests.simulation.disk_observations import PeaceCame
from tests.simulation.log_watch import read_log
from tests.simulation.network import Network, NetworkFaults
from tests.simulation.replication_observations import Settled
from tests.simulation.world import Violation, World

from tidelog.coordination.partitioning import OFFSETS_TOPIC
from tidelog.metadata.image import MetadataImage, PartitionState
from tidelog.node.environment import Environment
from tidelog.node.stages import NotPlaced
from tidelog.partitions.partition import Partition

LOOK_MS = 20.0
LOOKS_PER_SHOW = 10
"""Every so often whole logs are shown."""
START_MS_MAX = 20_000.0
CALM_MS_MAX = 3000.0
"""How long faults wait for everyone to be in sync."""


class SimulatedCluster:
    partitions = 2

    def __init__(self, world: World, path: Path, profile: ClusterProfile) -> None:
        self.world = world
        self.profile = profile
        self.network = Network(world, profile.network)
        self.sockets = Sockets(world, self.network, self._is_host_up)
        self.chance = Random(world.random.getrandbits(64))
        """What nodes and clients draw themselves."""
        self.graveyard: list[object] = []
        """Nodes of processes that ended: what is collected may act once more, at a time that is not in the seed."""
        ids = range(1, profile.nodes + 1)
        self.nodes = {node_id: SimulatedNode(self, node_id, path / str(node_id)) for node_id in ids}
        self.producers = [IdempotentProducer(self, number, number % self.partitions) for number in range(3)]
        readers = [Reader(self, 10 + index, index) for index in range(self.partitions)]
        self.operator = Operator(self, 90)
        producer = OlderTransactionalProducer if profile.has_older_transactions else TransactionalProducer
        self.transactions = producer(self, 20)
        self.offsets = OffsetCommitter(self, 30)
        self.members = self._make_members() if profile.has_members else []
        self.clients: list[Client] = [
            *self.producers,
            *readers,
            self.operator,
            self.transactions,
            self.offsets,
            *self.members,
        ]
        self.is_calm = False
        self._looks = 0

    def _make_members(self) -> list[GroupMember]:
        """More than there are partitions, so that some wait for what others give up."""
        classic = [ClassicMember(self, 50 + number, "classic") for number in range(self.partitions + 1)]
        return [*classic, *(ConsumerMember(self, 60 + number, "consumer") for number in range(self.partitions + 1))]

    def _is_host_up(self, host: int) -> bool:
        return host not in self.nodes or self.nodes[host].has_power

    # -- what happens --------------------------------------------------------------------------------------------------

    def run(self, duration_ms: float, patience_ms: float) -> None:
        """`patience_ms`: how long the cluster has to come to rest once faults are over."""
        for node in self.nodes.values():
            node.start()
        maker = TopicMaker(self, 99)
        maker.start()
        if not self.world.run_until(lambda: maker.is_done and self._live() == set(self.nodes), START_MS_MAX):
            raise Violation("the cluster never came up")
        for client in self.clients:
            client.start()
        self._look()
        if self.profile.ambush is not None:
            self.world.checkers.append(Ambush(self, self.profile.ambush))
        self.world.after(self.profile.pause_ms, self._fault)
        self.world.run_for(duration_ms)
        self._settle(patience_ms)

    def environment_of(self, process: Process) -> Environment:
        """For a node that runs in the process."""
        return environment_of(process, self.sockets, self.chance, self.profile.append_bytes_max)

    def _live(self) -> set[int]:
        image = self.newest_image()
        return set() if image is None else {broker.node_id for broker in image.live_brokers()}

    def running(self) -> Iterator[SimulatedNode]:
        return (node for node in self.nodes.values() if node.is_up)

    def controller(self) -> SimulatedNode | None:
        """The node that takes itself for the controller, in the highest term."""
        active = [
            (node.cluster.quorum.term, node.node_id)
            for node in self.running()
            if node.node is not None and node.node.is_controller
        ]
        return self.nodes[max(active)[1]] if active else None

    def newest_image(self) -> MetadataImage | None:
        running = [node for node in self.running() if not isinstance(node.stage, NotPlaced)]
        images = [node.cluster.controller.newest_image for node in running]
        return max(images, key=lambda image: image.offset, default=None)

    def states(self) -> Iterator[tuple[str, int, PartitionState]]:
        image = self.newest_image()
        for topic in () if image is None else image.topics.values():
            for index, state in topic.partitions.items():
                yield topic.name, index, state

    def _look(self) -> None:
        self._looks += 1
        for node in self.running():
            node.look(with_logs=self._looks % LOOKS_PER_SHOW == 0)
        self.world.after(LOOK_MS, self._look)

    # -- faults --------------------------------------------------------------------------------------------------------

    def _fault(self) -> None:
        if self.is_calm:
            return
        random = self.world.random
        node = self._victim()
        kind = random.choice(self.profile.faults)
        if kind == "disk" and self.profile.joins and node.node_id == FOUNDER:
            # With an empty disk it would found another cluster.
            kind = "power"
        if kind == "disk" or (kind == "power" and not self.profile.syncs):
            self._lose_alone(node, loses_disk=kind == "disk")
            return
        if kind == "power":
            everyone = random.random() < 0.4
            for each in list(self.nodes.values()) if everyone else [node]:
                self._crash(each, loses_power=True)
        elif kind == "crash":
            self._crash(node, loses_power=False)
        elif kind == "stop" and node.is_up:
            node.stop_for(random.uniform(50.0, 2.0 * self.profile.session_ms))
        elif kind in ("cut", "one way", "cut a few"):
            self._cut(node.node_id, kind)
        elif kind == "shut down":
            node.shut_down()
        elif kind == "move":
            self._move()
        elif kind == "resign":
            self._resign()
        elif kind == "full disk":
            self._fill_disk(node)
        self._fault_later()

    def _fault_later(self) -> None:
        self.world.after(self.world.random.expovariate(1.0 / self.profile.pause_ms), self._fault)

    def _victim(self) -> SimulatedNode:
        random = self.world.random
        chance = random.random()
        controller = self.controller()
        if controller is not None and chance < self.profile.aims_at_controller:
            return controller
        aims = (TOPIC, OFFSETS_TOPIC) if self.members else (TOPIC,)
        leaders = [state.leader for topic, _, state in self.states() if topic in aims and state.leader >= 0]
        if leaders and chance < 0.8:
            return self.nodes[random.choice(leaders)]
        return self.nodes[random.choice(list(self.nodes))]

    def _crash(self, node: SimulatedNode, *, loses_power: bool) -> None:
        if node.is_up:
            node.crash(loses_power=loses_power)
            node.start_later(self.world.random.choice((1.0, 50.0, 300.0, 1000.0)))

    def _lose_alone(self, node: SimulatedNode, *, loses_disk: bool) -> None:
        """The loss of a disk, or of power where nothing is synced, is survived as long as others in sync stay: it comes
        when all are in sync, and nothing else happens until the controller has put this node out of the sets."""
        self.network.heal()
        self.network.faults = NetworkFaults()
        give_up_ms = self.world.now_ms + CALM_MS_MAX

        def wait() -> None:
            if self.is_calm:
                return
            if self._are_all_in_sync():
                self._crash(node, loses_power=True)
                if loses_disk:
                    node.lose_disk()
                self.world.after(50.0, lambda: self._go_on_without(node))
            elif self.world.now_ms < give_up_ms:
                self.world.after(50.0, wait)
            else:
                self._go_on_without(node)

        wait()

    def _are_all_in_sync(self) -> bool:
        controller = self.controller()
        if controller is None or len(controller.cluster.quorum.members.voters) < len(VOTERS):
            # A node that lost its disk before does not vote yet: without another one, no majority would be left to add
            # it.
            return False
        for node in self.nodes.values():
            if not node.is_working or node.process is None or node.process.is_stopped:
                return False
            if any(partition.is_leader and partition.leader.pending_in_sync for partition in node.table or ()):
                return False
        return all(set(state.isr) == set(state.replicas) for _, _, state in self.states())

    def _go_on_without(self, node: SimulatedNode) -> None:
        if self.is_calm:
            return
        if not node.is_working and any(node.node_id in state.isr for _, _, state in self.states()):
            self.world.after(50.0, lambda: self._go_on_without(node))
            return
        self.network.faults = self.profile.network
        self._fault_later()

    def _cut(self, node_id: int, kind: str) -> None:
        random = self.world.random
        others = [other for other in self.nodes if other != node_id]
        if kind == "cut a few":
            others = random.sample(others, random.randint(1, len(others) - 1))
        one_way = kind == "one way" or random.random() < 0.2
        self.world.note("network", f"{node_id} {'cannot reach' if one_way else 'and'} {others}")
        if one_way and random.random() < 0.5:
            self.network.isolate(others, [node_id], one_way=True)
        else:
            self.network.isolate([node_id], others, one_way=one_way)
        self.world.after(random.uniform(50.0, 2500.0), self._heal)

    def _heal(self) -> None:
        self.world.note("network", "heals")
        self.network.heal()

    def _move(self) -> None:
        """An operator asks for the preferred leaders, or for another order of preference."""
        self.operator.move()

    def _resign(self) -> None:
        controller = self.controller()
        if controller is not None and controller.node is not None and controller.process is not None:
            self.world.note(controller, "hands over control")
            controller.resign()

    def _fill_disk(self, node: SimulatedNode) -> None:
        random = self.world.random
        node.fill_disk(random.choice((0, 300, 5000)))
        self.world.after(random.uniform(200.0, 4000.0), node.empty_disk)

    def bury(self) -> None:
        """The world is over."""
        for node in self.nodes.values():
            if node.is_up:
                node.end()

    # -- peace ---------------------------------------------------------------------------------------------------------

    def _settle(self, patience_ms: float) -> None:
        self.is_calm = True
        self.network.calm()
        self.world.note("network", "calms down")
        for node in self.nodes.values():
            node.empty_disk()
            if not node.is_up:
                node.start()
        for client in self.clients:
            client.is_stopping = True
        is_at_rest = self.world.run_until(lambda: not self._unsettled(), patience_ms)
        self.world.observe(PeaceCame(self._whole()))
        if not is_at_rest:
            # Perhaps a client waits for something that is missing: that is the better thing to report.
            self._show_what_leaders_have()
            raise Violation(f"the cluster does not come to rest: {self._unsettled()}")
        for node in self.running():
            node.look(with_logs=True)
        auditor = Auditor(self, 40, self.offsets.groups, sorted({member.group for member in self.members}))
        auditor.start()
        if not self.world.run_until(lambda: auditor.is_done, START_MS_MAX):
            raise Violation(
                "what is committed cannot be read: a transaction stays open, or a coordinator does not answer"
            )
        for index in range(self.partitions):
            values = {offset: value for offset, _, value in read_log(self._replicas(TOPIC, index)[0], 0)}
            self.world.observe(Settled(index, values))

    def _show_what_leaders_have(self) -> None:
        for topic, index, state in self.states():
            leader = self.nodes[state.leader].find_partition(topic, index) if state.leader >= 0 else None
            if topic == TOPIC and leader is not None:
                self.world.observe(Settled(index, {offset: value for offset, _, value in read_log(leader, 0)}))

    def _whole(self) -> frozenset[int]:
        """Nodes that are alive and in sync wherever they have a replica."""
        behind = {node_id for _, _, state in self.states() for node_id in state.replicas if node_id not in state.isr}
        return frozenset(self._live() - behind)

    def _replicas(self, topic: str, index: int) -> list[Partition]:
        found = [node.find_partition(topic, index) for node in self.running()]
        return [partition for partition in found if partition is not None]

    def _unsettled(self) -> str:
        if self._live() != set(self.nodes):
            return f"only {self._live()} are live"
        for client in self.clients:
            if not client.is_done:
                return f"{client.process} is not done: {client.waits_for!r}"
        for topic, index, state in self.states():
            if set(state.isr) != set(state.replicas) or state.leader < 0:
                return f"{topic}-{index} is {state}"
            replicas = self._replicas(topic, index)
            if len(replicas) != len(state.replicas):
                return f"{topic}-{index} is not open everywhere"
            ends = {(replica.log.log_end_offset, replica.high_watermark) for replica in replicas}
            if len(ends) > 1 or any(end != high_watermark for end, high_watermark in ends):
                return f"{topic}-{index} ends at {ends}"
        return ""
