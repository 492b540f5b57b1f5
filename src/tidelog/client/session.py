"""`Session`: the client for programs without an event loop."""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Self

from tidelog.client import calls
from tidelog.client.bounds import PARALLEL_MAX, SILENT_SECONDS_MAX
from tidelog.client.calls import Answer, Request
from tidelog.client.connections import Connections
from tidelog.client.exchange import PATIENCE, Patience, Result, Send, Tokens, Unreachable, exchange
from tidelog.client.nodes import Nodes
from tidelog.client.results import BatchPublished, Fetched, Published, StreamedRecord
from tidelog.client.streaming import StreamReader, StreamTarget


class Session:
    """Reads its own writes and never goes back in time, whichever node answers.

    Several threads may share one; at most four requests of it run side by side, the others wait for their turn.
    """

    def __init__(
        self,
        nodes: Sequence[str],
        *,
        session_id: str | None = None,
        token: str | None = None,
        patience: Patience = PATIENCE,
        isolation: str = "read_uncommitted",
    ) -> None:
        """`nodes`: addresses of HTTP doors, `host:port`. Sessions with the same id read from the same node as long as
        it answers. `token`: of a session to continue. `isolation`: or read_committed, for fetches."""
        self.session_id = session_id or uuid.uuid4().hex
        self._nodes = Nodes(self.session_id, nodes)
        self._tokens = Tokens(token)
        self._patience = patience
        self._isolation = isolation
        self._connections = Connections()
        self._places = threading.BoundedSemaphore(PARALLEL_MAX)
        self._deciding = threading.Lock()
        """Tokens and known leaders change under it; nothing waits for a node."""

    @property
    def token(self) -> str | None:
        """What another process continues this session with; None before the first answer."""
        return str(self._tokens) or None

    def close(self) -> None:
        self._connections.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def publish(
        self,
        topic: str,
        partition: int,
        value: bytes,
        *,
        key: bytes | None = None,
        headers: Iterable[tuple[str, bytes]] = (),
        acks: str = "all",
    ) -> Published:
        """Raises RequestFailed; its `may_be_written` says whether a repetition may write the record twice.

        Key and header values go as HTTP headers: no control characters. Only acks="all" is part of the session.
        """
        request = calls.publish(topic, partition, value, key, headers, acks)
        return calls.published(topic, partition, self._ask(request))

    def publish_batch(
        self, topic: str, partition: int, values: Sequence[bytes], *, acks: str = "all"
    ) -> BatchPublished:
        """All of them or none."""
        return calls.batch_published(topic, partition, self._ask(calls.publish_batch(topic, partition, values, acks)))

    def fetch(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        max_bytes: int = 1 << 20,
        min_offset: int | None = None,
        wait_ms: int = 0,
    ) -> Fetched:
        """Records from `offset` on; none where there are none after `wait_ms`. With `min_offset` that record must be
        readable first. Raises RequestFailed: 410 when an election has lost what the session has seen."""
        parameters = {
            "offset": offset,
            "maxBytes": max_bytes,
            "minOffset": min_offset,
            "wait": wait_ms,
            "isolation": self._isolation,
        }
        return calls.fetched(self._ask(calls.fetch(topic, partition, parameters)))

    def stream(
        self,
        topic: str,
        *,
        partition: int | None = None,
        offset: int | str | None = None,
        timestamp: int | None = None,
        group: str | None = None,
        position: str | None = None,
    ) -> Iterator[StreamedRecord]:
        """Records as they come, without an end; after a lost connection it goes on behind the last one.

        From an offset, "earliest", "latest" (the default), a time in milliseconds, or as a member of a group. To go on
        with an earlier stream: `position` of its last record, and the same beginning, which counts for partitions of
        which nothing was read.
        What a stream has shown is not part of the session.
        """
        target = StreamTarget(topic, partition, offset, timestamp, group, self._isolation)
        reader = StreamReader(target, position, self._patience.timeout_s)
        while True:
            address, request = reader.next_request(self._nodes, self._tokens)
            opened = self._connections.stream(address, request, SILENT_SECONDS_MAX)
            if not isinstance(opened, Unreachable):
                with opened:
                    if reader.opened(opened.answer):
                        for part in opened:
                            yield from reader.feed(part)
            time.sleep(reader.pause_s(opened if isinstance(opened, Unreachable) else None, time.monotonic()))

    # -- inside --------------------------------------------------------------------------------------------------------

    def _ask(self, request: Request) -> Answer:
        with self._places:
            steps = exchange(request, self._nodes, self._tokens, self._patience, time.monotonic, random.random)
            result: Result = None
            while True:
                try:
                    with self._deciding:
                        step = steps.send(result)
                except StopIteration as end:
                    answer: Answer = end.value
                    return answer
                if isinstance(step, Send):
                    result = self._connections.send(step.address, step.request, step.timeout_s)
                else:
                    result = None
                    time.sleep(step.seconds)
