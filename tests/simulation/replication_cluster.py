"""A cluster of simulated brokers under faults, then at peace: everything it does follows from the seed."""

from __future__ import annotations

from pathlib import Path

from tests.simulation.disk import DiskFaults
from tests.simulation.log_watch import read_log
from tests.simulation.network import Network, NetworkFaults
from tests.simulation.replication_broker import Mutations, SimulatedBroker
from tests.simulation.replication_controller import CONTROLLER, SESSION_MS, TOPIC, SimulatedController
from tests.simulation.replication_observations import Settled
from tests.simulation.replication_producer import SimulatedProducer
from tests.simulation.world import Violation, World

NODES = (1, 2, 3)
PARTITIONS = 2
PRODUCERS = 3
SETTLE_MS_MAX = 20_000.0
FAULTS = ("crash", "power", "disk", "cut", "cut from the controller", "one way", "move")
POWER_FAULTS = (*FAULTS, "power everywhere", "power everywhere", "power everywhere")
"""Where every acknowledgement waits for syncs."""


class ReplicationCluster:
    def __init__(self, world: World, path: Path, mutations: Mutations, syncs: bool | None) -> None:
        """`syncs`: the topic has `tidelog.flush=ack`; None leaves it to chance."""
        self.world = world
        random = world.random
        self.network = Network(
            world,
            NetworkFaults(
                loss=random.choice((0.0, 0.01, 0.1)),
                duplication=random.choice((0.0, 0.05)),
                straggler=random.choice((0.0, 0.02, 0.1)),
            ),
        )
        self.min_in_sync = random.choice((1, 2))
        drawn = random.random() < 0.4
        self.syncs = drawn if syncs is None else syncs
        self.disk_faults = DiskFaults(sync_max_ms=random.choice((1.0, 10.0, 60.0)), stall=random.choice((0.0, 0.02)))
        self.controller = SimulatedController(world)
        self.brokers = {node_id: SimulatedBroker(self, node_id, path / f"{node_id}", mutations) for node_id in NODES}

    def run(self, duration_ms: float) -> None:
        for broker in self.brokers.values():
            broker.start()
        is_up = self.world.run_until(
            lambda: all(self.controller.image.is_live(node_id) for node_id in NODES), SETTLE_MS_MAX
        )
        if not is_up:
            raise Violation("the brokers never came up")
        configs = {"min.insync.replicas": str(self.min_in_sync)}
        if self.syncs:
            configs["tidelog.flush"] = "ack"
        self.controller.create_topic(NODES, PARTITIONS, configs)
        self.producers = [SimulatedProducer(self, number, number % PARTITIONS) for number in range(PRODUCERS)]
        self._schedule_faults()
        self._read()
        end_ms = self.world.now_ms + duration_ms
        while self.world.now_ms < end_ms:
            self.world.run_for(100.0)
            for broker in self.brokers.values():
                broker.show_logs()
        self._settle()

    # -- faults --------------------------------------------------------------------------------------------------------

    def _schedule_faults(self) -> None:
        self.is_calm = False
        self.world.after(self.world.random.uniform(50.0, 400.0), self._fault)

    def _fault(self) -> None:
        if self.is_calm:
            return
        random = self.world.random
        node_id = random.choice(NODES)
        broker = self.brokers[node_id]
        kind = random.choice(POWER_FAULTS if self.syncs else FAULTS)
        pause_ms = random.uniform(100.0, 900.0)
        if kind == "power everywhere":
            for each in self.brokers.values():
                self._crash(each, loses_power=True)
        elif kind in ("crash", "power", "disk") and broker.is_up:
            is_safe = self._others_are_in_sync(node_id)
            loses_disk = kind == "disk" and is_safe
            self._crash(broker, loses_power=kind == "power" and (self.syncs or is_safe), loses_disk=loses_disk)
            if loses_disk or (kind == "power" and is_safe and not self.syncs):
                # Until the controller has put it out of the in-sync sets no other replica may leave them: what the last
                # one in sync loses is lost, unless it was synced before each acknowledgement and the disk is left.
                self.network.heal()
                pause_ms += 3 * SESSION_MS
        elif kind == "move":
            self.controller.move_leadership(random.randrange(PARTITIONS))
        elif kind.startswith("cut") or kind == "one way":
            others = [CONTROLLER] if kind == "cut from the controller" else [n for n in NODES if n != node_id]
            if kind == "cut" and random.random() < 0.5:
                others.append(CONTROLLER)
            self.world.note("network", f"{kind}: {node_id} from {others}")
            self.network.isolate([node_id], others, one_way=kind == "one way")
            self.world.after(random.uniform(50.0, 1500.0), self.network.heal)
        self.world.after(pause_ms, self._fault)

    def _crash(self, broker: SimulatedBroker, *, loses_power: bool, loses_disk: bool = False) -> None:
        if broker.is_up:
            broker.crash(loses_unsynced=loses_power)
            if loses_disk:
                broker.lose_disk()
            self.world.after(self.world.random.uniform(20.0, 1500.0), lambda: self._restart(broker))

    def _restart(self, broker: SimulatedBroker) -> None:
        if not broker.is_up:
            broker.start()

    def _others_are_in_sync(self, node_id: int) -> bool:
        """Whether each partition has another replica in sync that is alive beyond doubt."""
        alive = {
            other
            for other in NODES
            if other != node_id
            and self.brokers[other].is_up
            and self.controller.hears(other, self.brokers[other].epoch)
        }
        return all(alive & set(state.isr) for state in self.controller.image.topics[TOPIC].partitions.values())

    def _read(self) -> None:
        for broker in self.brokers.values():
            for index in range(PARTITIONS):
                broker.tell_high_watermark(index)
        self.world.after(20.0, self._read)

    # -- peace ---------------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        self.is_calm = True
        self.network.calm()
        for broker in self.brokers.values():
            self._restart(broker)
        for producer in self.producers:
            producer.is_stopping = True
        if not self.world.run_until(self._has_settled, SETTLE_MS_MAX):
            raise Violation(f"the cluster does not come to rest: {self._unsettled()}")
        for broker in self.brokers.values():
            broker.show_logs()
        for index in range(PARTITIONS):
            leader = self.brokers[self._state(index).leader].partition(index)
            assert leader is not None
            self.world.observe(Settled(index, {offset: value for offset, _, value in read_log(leader, 0)}))

    def _state(self, index: int):  # type: ignore[no-untyped-def]
        return self.controller.image.topics[TOPIC].partitions[index]

    def _has_settled(self) -> bool:
        return not self._unsettled()

    def _unsettled(self) -> str:
        for producer in self.producers:
            if not producer.is_done:
                return f"a producer waits for {producer._values}"
        for index in range(PARTITIONS):
            state = self._state(index)
            if set(state.isr) != set(NODES) or state.leader < 0:
                return f"partition {index} is {state}"
            replicas = [self.brokers[node_id].partition(index) for node_id in NODES]
            if any(replica is None for replica in replicas):
                return f"partition {index} is not open everywhere"
            ends = {(replica.log.log_end_offset, replica.high_watermark) for replica in replicas if replica}
            if len(ends) > 1 or any(end != high_watermark for end, high_watermark in ends):
                return f"partition {index} ends at {ends}"
        return ""
