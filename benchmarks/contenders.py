"""The brokers that are measured beside each other: Kafka and Tidelog, or Tidelog of two checkouts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.servers.apache_kafka import prepare_kafka, spawn_kafka, start_kafka
from tests.servers.broker_process import BrokerProcess, free_port
from tests.servers.tidelog_node import Program, spawn_tidelog, start_tidelog

from benchmarks.cluster_processes import ClusterProcesses, Spawn, start_kafka_cluster, start_tidelog_cluster


class Contender(NamedTuple):
    name: str
    is_kafka: bool = False
    program: Program | None = None
    """Of another Tidelog than the installed one."""

    def start(self, directory: Path, settings: Mapping[str, str]) -> BrokerProcess:
        """Returns when it is ready."""
        if self.is_kafka:
            return start_kafka(directory, settings=settings)
        return start_tidelog(directory, settings=settings, program=self.program)

    def prepare(self, directory: Path) -> Spawn:
        """Everything that a start needs is done here, outside the time that is measured."""
        if self.is_kafka:
            port = prepare_kafka(directory)
            return lambda: spawn_kafka(directory, port)
        port = free_port()
        return lambda: spawn_tidelog(directory, port, program=self.program)

    def start_cluster(self, directory: Path) -> ClusterProcesses:
        """Three nodes; returns when each of them knows all."""
        if self.is_kafka:
            return start_kafka_cluster(directory)
        return start_tidelog_cluster(directory, self.program)


KAFKA, TIDELOG = Contender("kafka", is_kafka=True), Contender("tidelog")
