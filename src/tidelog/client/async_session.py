"""`AsyncSession`: the client for programs with an event loop; see `Session`, whose methods it has."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import AsyncIterator, Iterable, Sequence
from types import TracebackType
from typing import Self

from tidelog.client import calls
from tidelog.client.async_connections import AsyncConnections
from tidelog.client.bounds import PARALLEL_MAX, SILENT_SECONDS_MAX
from tidelog.client.calls import Answer, Request
from tidelog.client.exchange import PATIENCE, Patience, Result, Send, Tokens, Unreachable, exchange
from tidelog.client.nodes import Nodes
from tidelog.client.results import BatchPublished, Fetched, Published, StreamedRecord
from tidelog.client.streaming import StreamReader, StreamTarget


class AsyncSession:
    """Belongs to one event loop. At most four requests of it run side by side, the others wait for their turn."""

    def __init__(
        self,
        nodes: Sequence[str],
        *,
        session_id: str | None = None,
        token: str | None = None,
        patience: Patience = PATIENCE,
        isolation: str = "read_uncommitted",
    ) -> None:
        self.session_id = session_id or uuid.uuid4().hex
        self._nodes = Nodes(self.session_id, nodes)
        self._tokens = Tokens(token)
        self._patience = patience
        self._isolation = isolation
        self._connections = AsyncConnections()
        self._places = asyncio.Semaphore(PARALLEL_MAX)

    @property
    def token(self) -> str | None:
        return str(self._tokens) or None

    async def close(self) -> None:
        self._connections.close()
        # A transport is closed in the next turn of the loop.
        await asyncio.sleep(0)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def publish(
        self,
        topic: str,
        partition: int,
        value: bytes,
        *,
        key: bytes | None = None,
        headers: Iterable[tuple[str, bytes]] = (),
        acks: str = "all",
    ) -> Published:
        request = calls.publish(topic, partition, value, key, headers, acks)
        return calls.published(topic, partition, await self._ask(request))

    async def publish_batch(
        self, topic: str, partition: int, values: Sequence[bytes], *, acks: str = "all"
    ) -> BatchPublished:
        request = calls.publish_batch(topic, partition, values, acks)
        return calls.batch_published(topic, partition, await self._ask(request))

    async def fetch(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        max_bytes: int = 1 << 20,
        min_offset: int | None = None,
        wait_ms: int = 0,
    ) -> Fetched:
        parameters = {
            "offset": offset,
            "maxBytes": max_bytes,
            "minOffset": min_offset,
            "wait": wait_ms,
            "isolation": self._isolation,
        }
        return calls.fetched(await self._ask(calls.fetch(topic, partition, parameters)))

    async def stream(
        self,
        topic: str,
        *,
        partition: int | None = None,
        offset: int | str | None = None,
        timestamp: int | None = None,
        group: str | None = None,
        position: str | None = None,
    ) -> AsyncIterator[StreamedRecord]:
        target = StreamTarget(topic, partition, offset, timestamp, group, self._isolation)
        reader = StreamReader(target, position, self._patience.timeout_s)
        while True:
            address, request = reader.next_request(self._nodes, self._tokens)
            opened = await self._connections.stream(address, request, SILENT_SECONDS_MAX)
            if not isinstance(opened, Unreachable):
                with opened:
                    if reader.opened(opened.answer):
                        async for part in opened:
                            for record in reader.feed(part):
                                yield record
            await asyncio.sleep(reader.pause_s(opened if isinstance(opened, Unreachable) else None, time.monotonic()))

    async def _ask(self, request: Request) -> Answer:
        async with self._places:
            steps = exchange(request, self._nodes, self._tokens, self._patience, time.monotonic, random.random)
            result: Result = None
            while True:
                try:
                    step = steps.send(result)
                except StopIteration as end:
                    answer: Answer = end.value
                    return answer
                if isinstance(step, Send):
                    result = await self._connections.send(step.address, step.request, step.timeout_s)
                else:
                    result = None
                    await asyncio.sleep(step.seconds)
