"""The way to the active controller, wherever it is: another node over the network, or this one by a call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tidelog.controller.quorum_controller import QuorumController
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.net.client.errors import PeerUnreachable, RpcError, UnsupportedByPeer
from tidelog.net.client.pipelined import RpcClient
from tidelog.net.client.pool import RpcPool

T = TypeVar("T")

CONTROL = "control"
FORWARD = "forward"
HEARTBEAT = "heartbeat"
"""The purposes of the connections: a heartbeat does not wait behind a decision."""

ANSWER_SECONDS_MAX = 5.0
RETRY_SECONDS = 0.05


class ControllerChannel:
    def __init__(self, controller: QuorumController, pool: RpcPool) -> None:
        self._controller = controller
        self._node_id = controller.config.node_id
        self.pool = pool
        """The connections to all other nodes."""

    async def reach(
        self,
        here: Callable[[], Awaitable[T]],
        there: Callable[[RpcClient, float], Awaitable[T]],
        *,
        timeout_s: float = ANSWER_SECONDS_MAX,
        purpose: str = CONTROL,
    ) -> T:
        """Calls `here` when this node is the active controller, else `there` with its client and the time that is left.

        Waits for an election. Both raise BrokerError with NOT_CONTROLLER when the node asked is not active, and are
        then tried again; this may carry a request out twice, so send only requests that allow it. Raises BrokerError
        on time-out.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        failure = "no controller is known"
        while (left_s := deadline_s - loop.time()) > 0:
            leader_id = await self._controller.wait_for_leader(left_s)
            if leader_id < 0:
                break
            left_s = max(0.01, deadline_s - loop.time())
            try:
                if leader_id == self._node_id:
                    return await here()
                client = self.pool.client(leader_id, purpose)
                return await self._while_it_leads(leader_id, there(client, left_s), left_s)
            except PeerUnreachable as error:
                failure = str(error)
            except UnsupportedByPeer as error:
                raise BrokerError(ErrorCode.UNSUPPORTED_VERSION, str(error)) from None
            except RpcError as error:
                raise BrokerError(ErrorCode.REQUEST_TIMED_OUT, f"The controller did not answer: {error}") from None
            except BrokerError as error:
                if error.code is not ErrorCode.NOT_CONTROLLER:
                    raise
                failure = f"node {leader_id} is not the active controller"
            await asyncio.sleep(RETRY_SECONDS)
        raise BrokerError(ErrorCode.NOT_CONTROLLER, f"The controller cannot be reached: {failure}")

    async def _while_it_leads(self, leader_id: int, call: Awaitable[T], timeout_s: float) -> T:
        """Stops waiting for a controller that does not answer, such as one cut off, as soon as another one leads."""
        answering = asyncio.ensure_future(call)
        deposed = asyncio.ensure_future(self._controller.wait_for_other_leader(timeout_s, than=leader_id))
        try:
            await asyncio.wait((answering, deposed), return_when=asyncio.FIRST_COMPLETED)
            if answering.done() or self._controller.leader_id == leader_id:
                return await answering
            raise PeerUnreachable(f"node {leader_id} was replaced before it answered")
        finally:
            answering.cancel()
            deposed.cancel()
