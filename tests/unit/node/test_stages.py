"""A start that fails at any of its stages closes what it had opened, and leaves room for the next start."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.servers.broker_process import free_port

from tidelog.config.broker import BrokerConfig
from tidelog.controller.lifecycle import BrokerLifecycle
from tidelog.node import node as module
from tidelog.node.closing import Closing, Step
from tidelog.node.node import Node
from tidelog.node.stages import Loaded, NotPlaced
from tidelog.partitions.table import PartitionTable
from tidelog.storage.log_directory import CLEAN_SHUTDOWN_FILE

BEGUN = {Step.THREADS}
WATCHED = BEGUN | {Step.ADMIN}
LOCKED = WATCHED | {Step.DIRECTORY}
PLACED = LOCKED | {Step.DOORS, Step.ANSWERS, Step.CONNECTIONS}
CONNECTED = PLACED | {Step.CLUSTER}
BUILT = CONNECTED | {Step.REPLICATION}
ANSWERING = BUILT | {Step.TRANSACTIONS, Step.GROUPS, Step.DISPATCHER}
REGISTERED = ANSWERING | {Step.LIFECYCLE}
KEPT = REGISTERED | {Step.MAINTENANCE}
"""What is open after each stage."""

FAILURES: tuple[tuple[object, str, set[Step]], ...] = (
    (module, "find_own_directory", BEGUN),
    (module, "open_directory", WATCHED),
    (module, "bind_doors", LOCKED),
    (module, "open_cluster", PLACED),
    (module, "build_services", BUILT),
    (module, "join_quorum", ANSWERING),
    (module, "new_lifecycle", ANSWERING),
    (BrokerLifecycle, "register_alone", REGISTERED),
    (PartitionTable, "load", REGISTERED),
    (module, "_follow_metadata", REGISTERED),
    (module, "offer_samples", KEPT),
    (module, "begin_work", KEPT),
)
"""What the start calls and finds broken, in its order, and what is open then."""


class RecordingClosing(Closing):
    """Tells which steps were gone through."""

    def __init__(self) -> None:
        super().__init__()
        self.closed: list[Step] = []

    def note(self, step: Step, close: Callable[[], Any]) -> None:
        def noticed() -> Any:
            self.closed.append(step)
            return close()

        super().note(step, noticed)


class Injected(Exception):
    pass


def config_of(path: Path, port: int, admin_port: int) -> BrokerConfig:
    return BrokerConfig.from_mapping(
        {
            "log.dirs": str(path / "data"),
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "admin.listen": f"127.0.0.1:{admin_port}",
        }
    )


def refuse(*_: object, **__: object) -> None:
    raise Injected


def files_of(path: Path) -> set[str]:
    return {str(found.relative_to(path)) for found in path.rglob("*") if found.is_file()}


@pytest.mark.plain
@pytest.mark.parametrize(("owner", "name", "expected"), FAILURES, ids=[name for _, name, _ in FAILURES])
async def test_a_start_that_fails_closes_what_was_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: object, name: str, expected: set[Step]
) -> None:
    closing = RecordingClosing()
    config = config_of(tmp_path, free_port(), free_port())
    threads_before, tasks_before = threading.active_count(), len(asyncio.all_tasks())
    with monkeypatch.context() as patch:
        patch.setattr(module, "Closing", lambda: closing)
        patch.setattr(owner, name, refuse)
        node = Node(config)
        with pytest.raises(Injected):
            await node.start()
    assert closing.closed == [step for step in Step if step in expected]
    assert not node.is_ready()
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == tasks_before
    # The one that waits for the threads of the node is the loop's own.
    assert threading.active_count() <= threads_before + 1
    is_loaded = isinstance(node.stage, Loaded)
    assert is_loaded == (name in ("_follow_metadata", "offer_samples", "begin_work"))
    assert ((tmp_path / "data" / CLEAN_SHUTDOWN_FILE).exists()) == is_loaded
    if isinstance(node.stage, NotPlaced):
        assert files_of(tmp_path) == set(), "no other node has heard of the directory"
    # Lock, ports and logs are free.
    again = Node(config)
    await again.start()
    await again.create_topic("t", partitions=1, configs={})
    await again.stop()


async def test_a_node_that_is_not_let_in_closes_its_doors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It binds them before it opens its data directory, to say where it can be reached."""
    closing, port = RecordingClosing(), free_port()
    monkeypatch.setattr(module, "Closing", lambda: closing)
    monkeypatch.setattr(module, "ask_to_be_let_in", refuse)
    member = f"127.0.0.1:{free_port()}"
    node = Node(
        BrokerConfig.from_mapping(
            {
                "log.dirs": str(tmp_path / "data"),
                "listeners": f"PLAINTEXT://127.0.0.1:{port}",
                "controller.quorum.bootstrap.servers": member,
            }
        )
    )
    with pytest.raises(Injected):
        await node.start()
    assert closing.closed == [Step.DOORS, Step.ANSWERS, Step.CONNECTIONS, Step.THREADS]
    with socket.create_server(("127.0.0.1", port)):
        assert not (tmp_path / "data").exists()


async def test_a_stop_goes_through_every_step_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closing = RecordingClosing()
    monkeypatch.setattr(module, "Closing", lambda: closing)
    node = Node(config_of(tmp_path, free_port(), free_port()))
    await node.start()
    assert node.is_ready()
    await node.stop()
    assert closing.closed == list(Step)
    await node.stop()
    assert closing.closed == list(Step), "a second stop finds nothing open"


async def test_a_start_that_is_cancelled_closes_what_was_open(tmp_path: Path) -> None:
    config = config_of(tmp_path, free_port(), free_port())
    for turns in (1, 5, 20, 60):
        node = Node(config)
        starting = asyncio.create_task(node.start())
        for _ in range(turns):
            await asyncio.sleep(0)
        starting.cancel()
        await asyncio.wait((starting,))
        if not starting.cancelled():
            await node.stop()
    node = Node(config)
    await node.start()
    await node.stop()


async def test_a_node_that_was_not_started_says_so(tmp_path: Path) -> None:
    node = Node(config_of(tmp_path, free_port(), free_port()))
    assert (node.partition_count, node.is_controller, node.is_ready()) == (0, False, False)
    for question in (lambda: node.port, lambda: node.address, lambda: node.metadata):
        with pytest.raises(RuntimeError, match="was not started"):
            question()
    await node.stop()
    assert not (tmp_path / "data").exists()
