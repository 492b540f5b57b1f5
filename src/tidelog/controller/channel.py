"""The way to the active controller, wherever it is: another node over the network, or this one without it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar, cast

from tidelog.controller.quorum_controller import QuorumController
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.net.client.errors import PeerUnreachable, RpcError, UnsupportedByPeer
from tidelog.net.client.pipelined import RpcClient
from tidelog.net.client.pool import RpcPool
from tidelog.protocol.index import schema_versions

if TYPE_CHECKING:
    from tidelog.protocol.message import Message

M = TypeVar("M", bound="Message")
T = TypeVar("T")

CONTROL = "control"
FORWARD = "forward"
HEARTBEAT = "heartbeat"
"""The purposes of the connections: a heartbeat does not wait behind a decision."""

ANSWER_SECONDS_MAX = 5.0
RETRY_SECONDS = 0.05

AnswerHere = Callable[["Message", int], Awaitable["Message"]]
"""Answers a request in a version on this node, as if it had come over the network."""


class ControllerChannel:
    def __init__(self, controller: QuorumController, pool: RpcPool, answer_here: AnswerHere) -> None:
        self._controller = controller
        self._node_id = controller.config.node_id
        self.pool = pool
        """The connections to all other nodes."""
        self._answer_here = answer_here

    async def call(
        self,
        request: Message,
        answer: type[M],
        *,
        timeout_s: float = ANSWER_SECONDS_MAX,
        purpose: str = CONTROL,
    ) -> M:
        """The response of the active controller. Waits for an election, and retries when the node asked was not active.

        A retry may carry the request out twice, so send only requests that allow this. Raises BrokerError on time-out.
        """
        assert request.API_KEY is not None, "only requests can be sent"
        version = schema_versions(request.API_KEY)[1]

        async def here() -> M:
            return cast("M", await self._answer_here(request, version))

        async def there(client: RpcClient, left_s: float) -> M:
            return await client.call(request, answer, timeout_s=left_s)

        return await self.reach(here, there, is_refused=_is_not_controller, timeout_s=timeout_s, purpose=purpose)

    async def reach(
        self,
        here: Callable[[], Awaitable[T]],
        there: Callable[[RpcClient, float], Awaitable[T]],
        *,
        is_refused: Callable[[T], bool],
        timeout_s: float = ANSWER_SECONDS_MAX,
        purpose: str = CONTROL,
    ) -> T:
        """Calls `here` when this node is the active controller, else `there`; retries until the request is taken."""
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
                    response = await here()
                else:
                    client = self.pool.client(leader_id, purpose)
                    response = await self._while_it_leads(leader_id, there(client, left_s), left_s)
                if not is_refused(response):
                    return response
                failure = f"node {leader_id} is not the active controller"
            except PeerUnreachable as error:
                failure = str(error)
            except UnsupportedByPeer as error:
                raise BrokerError(ErrorCode.UNSUPPORTED_VERSION, str(error)) from None
            except RpcError as error:
                raise BrokerError(ErrorCode.REQUEST_TIMED_OUT, f"The controller did not answer: {error}") from None
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


def _is_not_controller(response: Message) -> bool:
    codes = {getattr(response, "error_code", 0)}
    codes.update(getattr(topic, "error_code", 0) for topic in getattr(response, "topics", None) or ())
    return ErrorCode.NOT_CONTROLLER in codes
