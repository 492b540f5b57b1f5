"""The way to the controller: to the one that leads now, whatever becomes of the one that was asked first."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from tests.unit.controller.quorums import Clock, MemoryCluster, memory_node, stop

from tidelog.config.broker import BrokerConfig
from tidelog.controller.channel import ControllerChannel
from tidelog.controller.service import ControllerService
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.net.client.errors import RpcTimedOut
from tidelog.net.client.pipelined import RpcClient
from tidelog.net.client.pool import RpcPool

NOT_LONG_S = 30.0


async def ask_node_3(cluster: MemoryCluster, answers: dict[int, str], timeout_s: float) -> str:
    """What node 3 hears; a node without an answer is silent for as long as it is waited for."""
    asked: list[int] = []
    nodes: list[ControllerService] = [
        await memory_node(cluster, BrokerConfig(node_id=node_id), Clock()) for node_id in (1, 2, 3)
    ]
    cluster.elect(1)

    class Pool:
        def client(self, node_id: int, purpose: str) -> int:
            return node_id

    async def there(client: RpcClient, left_s: float) -> str:
        node_id = cast("int", client)
        asked.append(node_id)
        if node_id not in answers:
            asyncio.get_running_loop().call_later(0.02, cluster.elect, 2 if 2 in answers else node_id)
            await asyncio.sleep(left_s)
            raise RpcTimedOut("no answer")
        return answers[node_id]

    async def here() -> str:
        raise AssertionError("node 3 does not lead")

    channel = ControllerChannel(nodes[2].quorum_controller, cast("RpcPool", Pool()))
    try:
        return await channel.reach(here, there, timeout_s=timeout_s)
    finally:
        for node in nodes:
            await stop(node)


def test_a_controller_that_falls_silent_is_not_waited_for_once_another_leads() -> None:
    async def run() -> None:
        async with asyncio.timeout(NOT_LONG_S):
            assert await ask_node_3(MemoryCluster(), {2: "done"}, timeout_s=60.0) == "done"

    asyncio.run(run())


def test_a_silent_controller_that_still_leads_is_waited_for() -> None:
    async def run() -> None:
        with pytest.raises(BrokerError) as failure:
            await ask_node_3(MemoryCluster(), {}, timeout_s=0.1)
        assert failure.value.code == ErrorCode.REQUEST_TIMED_OUT

    asyncio.run(run())
