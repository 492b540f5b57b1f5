"""A simulated node: the whole real one, from its listener to its disk, in a process that crashes and returns."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from tests.simulation.clock import DriftingClock
from tests.simulation.cluster.clients import TOPIC
from tests.simulation.cluster.files import SyncedFiles
from tests.simulation.cluster.process import Process
from tests.simulation.cluster.sockets import PORT_BASE
from tests.simulation.disk_observations import DiskFilled
from tests.simulation.log_watch import LogWatch
from tests.simulation.world import Violation

from tidelog.config.broker import BrokerConfig
from tidelog.model.errors import BrokerError
from tidelog.node.cluster import Cluster
from tidelog.node.errors import NodeStartError
from tidelog.node.node import Node
from tidelog.node.stages import Loaded, NotPlaced, Stage
from tidelog.partitions.partition import Partition
from tidelog.partitions.table import PartitionTable

if TYPE_CHECKING:
    from tests.simulation.cluster.cluster import SimulatedCluster

FOUNDER = 1
VOTERS = (1, 2, 3)
GROUP_SESSION_MS = 1200
RESTART_MS = 200.0
"""How soon a node is started again that ended by itself."""


class SimulatedNode:
    def __init__(self, cluster: SimulatedCluster, node_id: int, path: Path) -> None:
        self.node_id = node_id
        self.files = SyncedFiles(cluster.world, path, cluster.profile.disk)
        self.process: Process | None = None
        self.node: Node | None = None
        self.has_power = False
        self._cluster = cluster
        self._world = cluster.world
        self._clock = DriftingClock(cluster.world, cluster.profile.clock_drift)
        self._watch = LogWatch(cluster.world, node_id)

    def __str__(self) -> str:
        return f"node {self.node_id}"

    @property
    def is_up(self) -> bool:
        return self.process is not None

    @property
    def is_working(self) -> bool:
        """The cluster has let this incarnation in."""
        return self.node is not None and self.node.is_ready()

    @property
    def stage(self) -> Stage:
        """How far this incarnation has come."""
        return NotPlaced() if self.node is None else self.node.stage

    @property
    def cluster(self) -> Cluster:
        """The node's own part in it, once it has come so far."""
        stage = self.stage
        assert not isinstance(stage, NotPlaced), "it has started"
        return stage.cluster

    @property
    def table(self) -> PartitionTable | None:
        return self.stage.table if isinstance(self.stage, Loaded) else None

    # -- life ----------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        assert self.process is None, "it is down"
        self.has_power = True
        self.process = process = Process(self._world, self.node_id, self._clock, self)
        self._watch = LogWatch(self._world, self.node_id)
        self._world.note(self, "starts")
        process.run(lambda: self._live(process))

    def start_later(self, delay_ms: float) -> None:
        self._world.after(delay_ms, lambda: None if self.is_up else self.start())

    async def _live(self, process: Process) -> None:
        self.node = node = Node(self._config(), self._cluster.environment_of(process))
        try:
            await node.start()
            self._world.note(self, "works")
            await node.stopped_by_cluster.wait()
            self._world.note(self, f"gives up: {node.given_up}")
        except NodeStartError as error:
            self._world.note(self, f"does not start: {error}")
        except Exception as error:
            self._world.failure = Violation(f"{self} ends: {error!r}")
            raise
        # Out of this task, which belongs to the process that ends here.
        self._world.after(0.0, lambda: self._ended(process))

    def _ended(self, process: Process) -> None:
        if self.process is process:
            self.crash(loses_power=False)
            self.start_later(RESTART_MS)

    def crash(self, *, loses_power: bool) -> None:
        """The process ends here and now; with the power gone, what was not synced may be too."""
        assert self.process is not None, "it is up"
        self._world.note(self, "loses power" if loses_power else "crashes")
        self.process.kill(tells_peers=not loses_power)
        self.has_power = not loses_power
        self.files.crash(loses_power=loses_power)
        self._cluster.graveyard.append(self.node)
        self.end()

    def lose_disk(self) -> None:
        """The next start finds an empty one in its place."""
        self._world.note(self, "loses its disk")
        self.files.wipe()

    def fill_disk(self, room_bytes: int) -> None:
        """Its disk takes so much more and nothing else, until `empty_disk`."""
        self._world.note(self, f"has a full disk, but for {room_bytes} bytes")
        self._world.observe(DiskFilled(self.node_id))
        self.files.room_bytes = room_bytes

    def empty_disk(self) -> None:
        """What filled it is gone."""
        if self.files.room_bytes is not None:
            self._world.note(self, "has room on its disk again")
            self.files.room_bytes = None

    def end(self) -> None:
        """Nothing of the process is left."""
        assert self.process is not None, "it is up"
        self.process.is_alive = False
        self._close_files()
        self.process = self.node = None

    def _close_files(self) -> None:
        """A process that ended holds nothing open, as the kernel would see to; what it writes now is not read again."""
        if isinstance(self.stage, NotPlaced):
            return
        self.stage.site.directory.close(clean=False)
        if self.cluster.quorum._store.is_open:
            self.cluster.quorum._store.close(clean=False)

    def shut_down(self) -> None:
        """As SIGTERM does: it hands over, closes its logs in good order, and is started again."""
        if self.node is not None and self.process is not None and self.is_working:
            process, node = self.process, self.node

            async def stop() -> None:
                await node.stop()
                self._world.after(0.0, lambda: self._ended(process))

            self._world.note(self, "is asked to stop")
            process.run(stop)

    def resign(self) -> None:
        """Hands the quorum's leadership to another voter."""
        assert self.process is not None, "it is up"
        quorum = self.cluster.quorum

        async def transfer() -> None:
            with contextlib.suppress(BrokerError):
                await quorum.commands.transfer_leadership(timeout_s=1.0)

        self.process.run(transfer)

    # -- looking -------------------------------------------------------------------------------------------------------

    def find_partition(self, topic: str, index: int) -> Partition | None:
        return None if self.table is None else self.table.find_partition(topic, index)

    def look(self, *, with_logs: bool) -> None:
        """Shows the checkers what is new; `with_logs`: whole logs too."""
        partitions = [partition for partition in self.table or () if partition.topic == TOPIC]
        self._watch.look(partitions)
        if with_logs:
            self._watch.show_logs(partitions)

    def stop_for(self, duration_ms: float) -> None:
        assert self.process is not None, "it is up"
        self._world.note(self, f"is stopped for {duration_ms:.0f} ms")
        self.process.stop_for(duration_ms)

    def _way_in(self) -> dict[str, str]:
        """How the node comes to its cluster."""
        addresses = {node_id: f"127.0.0.1:{PORT_BASE + node_id}" for node_id in self._cluster.nodes}
        if not self._cluster.profile.joins:
            named = [f"{node_id}@{addresses[node_id]}" for node_id in VOTERS]
            return {"controller.quorum.voters": ",".join(named)}
        if self.node_id == FOUNDER:
            return {}
        others = [address for node_id, address in addresses.items() if node_id != self.node_id]
        return {"controller.quorum.bootstrap.servers": ",".join(others)}

    def _config(self) -> BrokerConfig:
        profile = self._cluster.profile
        return BrokerConfig.from_mapping(
            {
                "node.id": str(self.node_id),
                "log.dirs": str(self.files.directory),
                "listeners": f"PLAINTEXT://127.0.0.1:{PORT_BASE + self.node_id}",
                **self._way_in(),
                "controller.quorum.election.timeout.ms": str(profile.election_timeout_ms),
                "controller.quorum.request.timeout.ms": str(2 * profile.election_timeout_ms),
                "broker.heartbeat.interval.ms": str(profile.session_ms // 4),
                "broker.session.timeout.ms": str(profile.session_ms),
                "replica.lag.time.max.ms": str(profile.lag_ms),
                "replica.fetch.wait.max.ms": "100",
                "replica.fetch.backoff.ms": "50",
                "replica.socket.timeout.ms": "600",
                "replica.high.watermark.checkpoint.interval.ms": "300",
                "metadata.log.max.record.bytes.between.snapshots": str(profile.snapshot_bytes),
                "leader.imbalance.check.interval.seconds": "2",
                "offsets.topic.num.partitions": "2",
                "transaction.state.log.num.partitions": "2",
                "transaction.state.log.min.isr": "2",
                "min.insync.replicas": str(profile.min_in_sync),
                "default.replication.factor": "3",
                "group.initial.rebalance.delay.ms": "50",
                "group.min.session.timeout.ms": str(GROUP_SESSION_MS),
                "group.consumer.min.session.timeout.ms": str(GROUP_SESSION_MS),
                "group.consumer.session.timeout.ms": str(GROUP_SESSION_MS),
                "group.consumer.min.heartbeat.interval.ms": "50",
                "group.consumer.heartbeat.interval.ms": "100",
                "tidelog.flush": "ack" if profile.syncs else "os",
                "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
            }
        )
