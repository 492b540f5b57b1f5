"""A small cluster inside a Python process: real nodes that talk over real sockets, each in a thread of its own.

    with tidelog.testing.cluster.EmbeddedCluster(nodes=3) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})

For tests of what a client does when a node goes away: `cluster.brokers[1].stop()` stops one in good order, `start()`
brings it back on its port and data.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tidelog.testing.broker import Broker

REPLICAS_MAX = 3


class EmbeddedCluster:
    def __init__(self, nodes: int = 3, config: Mapping[str, Any] | None = None) -> None:
        """`config` holds for every node, by Kafka's names."""
        if nodes < 1:
            raise ValueError("a cluster has at least one node")
        self._count = nodes
        replicas = str(min(nodes, REPLICAS_MAX))
        self._config: dict[str, Any] = {
            "default.replication.factor": replicas,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            **(config or {}),
        }
        self._directory: Path | None = None
        self.brokers: list[Broker] = []
        """In the order of their node ids, which count from 1."""

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.bootstrap_servers for broker in self.brokers)

    @property
    def controller(self) -> Broker:
        """The node that leads the metadata quorum; RuntimeError while none does."""
        for broker in self.brokers:
            if broker.is_running and broker.node.is_controller:
                return broker
        raise RuntimeError("no node is the controller at the moment")

    def start(self) -> Self:
        """Returns when every node works: the first founds the cluster, the others join it."""
        self._directory = Path(tempfile.mkdtemp(prefix="tidelog-cluster-"))
        try:
            first = Broker({**self._config, "node.id": 1}, data=self._directory / "1").start()
            self.brokers = [first]
            joining = {**self._config, "controller.quorum.bootstrap.servers": first.bootstrap_servers}
            self.brokers += [
                Broker({**joining, "node.id": number}, data=self._directory / str(number))
                for number in range(2, self._count + 1)
            ]
            if self._count > 1:
                with ThreadPoolExecutor(self._count - 1) as threads:
                    list(threads.map(Broker.start, self.brokers[1:]))
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        # The last one has no node to hand over to: the others go first, the founder at the end.
        for broker in reversed(self.brokers):
            broker.stop()
        directory, self._directory = self._directory, None
        if directory is not None:
            shutil.rmtree(directory, ignore_errors=True)

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, Any] | None = None) -> str:
        """Makes a topic with the cluster's replication and returns its name."""
        return self.controller.create_topic(name, partitions, configs)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
