"""A node takes from its environment what it does not have itself."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from timeit import timeit
from typing import Any

from tests.unit.storage.faulty_disk import FaultyDisk

from tidelog.config.broker import BrokerConfig
from tidelog.net.network import Network
from tidelog.node.environment import ENVIRONMENT, Environment
from tidelog.node.node import Node
from tidelog.runtime.clock import wall_clock_ms
from tidelog.runtime.system import System

LONG_AGO_MS = 1_000_000_000_000


def config_of(path: Path) -> BrokerConfig:
    return BrokerConfig.from_mapping({"log.dirs": str(path), "listeners": "PLAINTEXT://127.0.0.1:0"})


async def test_a_node_runs_on_the_machine_that_it_is_given(tmp_path: Path) -> None:
    disk, synced = FaultyDisk(), []
    sync = disk.fsync

    def note_sync(fd: int) -> None:
        synced.append(fd)
        sync(fd)

    disk.fsync = disk.fdatasync = note_sync
    offset_ms = wall_clock_ms() - LONG_AGO_MS
    system = System(
        wall_clock_ms=lambda: wall_clock_ms() - offset_ms, random_bytes=lambda size: b"\x21" * size, disk=disk.disk
    )
    accepted: list[Any] = []

    def new_acceptor(new_connection: Any, backlog: int) -> Any:
        accepted.append(ENVIRONMENT.network.new_acceptor(new_connection, backlog))
        return accepted[-1]

    node = Node(config_of(tmp_path), Environment(system, Network(new_acceptor=new_acceptor)))
    await node.start()
    try:
        assert node.metadata.cluster_id == base64.urlsafe_b64encode(b"\x21" * 16).decode().rstrip("=")
        await node.create_topic("t", partitions=1, configs={})
        [topic] = [topic for topic in node.metadata.topics.values() if topic.name == "t"]
        assert topic.topic_id == bytes(b"\x21" * 6 + b"\x41" + b"\x21" + b"\xa1" + b"\x21" * 7)
        assert len(accepted) == 1
        assert synced
    finally:
        await node.stop()


def test_an_environment_is_a_value_and_costs_nothing() -> None:
    other = ENVIRONMENT.replace(system=System(random_bytes=bytes))
    assert ENVIRONMENT.system.random_bytes is os.urandom
    assert other != ENVIRONMENT
    assert Environment() == ENVIRONMENT
    assert min(timeit(Environment, number=100) for _ in range(5)) / 100 < 50e-6
