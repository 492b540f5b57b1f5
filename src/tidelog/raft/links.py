"""Requests on their way to the other members, bounded in number, each ending in a response or in silence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tidelog.protocol.private_apis import RAFT_API_KEY
from tidelog.raft.codec import RAFT_VERSION
from tidelog.raft.core.members import Member
from tidelog.raft.transport import Transport
from tidelog.runtime.tasks import BackgroundTasks

REQUESTS_PER_PEER_MAX = 64


class Links:
    def __init__(
        self, transport: Transport, answered: Callable[[int, bytes], None], unreachable: Callable[[int], None]
    ) -> None:
        self._transport = transport
        self._answered = answered
        self._unreachable = unreachable
        self._under_way: Counter[int] = Counter()
        self._looking: set[int] = set()
        self._tasks = BackgroundTasks()

    def send(self, destination: Member, body: bytes) -> None:
        """A request too many is dropped, as a network would."""
        node_id = destination.node_id
        if self._under_way[node_id] >= REQUESTS_PER_PEER_MAX:
            return
        self._under_way[node_id] += 1
        self._tasks.start(self._request(node_id, body), "raft request")

    async def _request(self, node_id: int, body: bytes) -> None:
        try:
            answer = await self._transport.request(node_id, RAFT_API_KEY, RAFT_VERSION, body)
        except (OSError, TimeoutError):
            self._unreachable(node_id)
        else:
            self._answered(node_id, answer)
        finally:
            self._under_way[node_id] -= 1

    def look_for(self, node_id: int, gone: Callable[[int], None]) -> None:
        """`gone` is called if the member's port is closed."""
        if node_id not in self._looking:
            self._looking.add(node_id)
            self._tasks.start(self._look_for(node_id, gone), "probe of a silent member")

    async def _look_for(self, node_id: int, gone: Callable[[int], None]) -> None:
        try:
            if await self._transport.is_gone(node_id):
                gone(node_id)
        finally:
            self._looking.discard(node_id)

    async def close(self) -> None:
        await self._tasks.close()
