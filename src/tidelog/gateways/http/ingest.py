"""Records sent as lines of JSON, in a body of any length: each line has its line in the answer, in the same order.

Both go on at the same time, so a client has to read while it sends: when it does not take its answers, no more of its
body is read. Nothing grows with the length of the body.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from tidelog.gateways.batching import Batch, BatchingProducer, Writing
from tidelog.gateways.http.direct import ACKS
from tidelog.gateways.http.errors import status_of
from tidelog.gateways.http.messages import NDJSON, Answer, Request, Stream, encode_json
from tidelog.gateways.http.record_lines import WrongLine, decode_line
from tidelog.gateways.http.routes import BodyRule, Content, Outcome, Parameter, Route
from tidelog.gateways.http.schemas import TOPIC, errors
from tidelog.gateways.partitioner import partition_of_key
from tidelog.model import limits
from tidelog.model.errors import BrokerError
from tidelog.runtime.tasks import BackgroundTasks

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator

    from tidelog.gateways.access import LogAccess

LINES_PER_TURN: Final = 200
"""How many lines are read before others on the loop have their turn."""
_BLANK: Final = b" \t\r"


async def ingest(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
    topic = values["topic"]
    await access.ensure_topic(topic)
    answers = _Answers(access, request, topic, values["acks"], values["timeout"])
    return Stream(answers, content_type=NDJSON)


class LineSplitter:
    """Cuts what arrives into lines, and holds no more of a line than it may have."""

    __slots__ = ("_is_skipping", "_parts", "_size")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._is_skipping = False

    def feed(self, part: bytes) -> Iterator[bytes | None]:
        """The lines that end in this part, without blank ones; None for one that is too long."""
        begin = 0
        while (end := part.find(b"\n", begin)) >= 0:
            yield from self._complete(part[begin:end])
            begin = end + 1
        self._hold(part[begin:])

    def end(self) -> Iterator[bytes | None]:
        """The last line may come without its end."""
        yield from self._complete(b"")

    def _hold(self, rest: bytes) -> None:
        if rest and not self._is_skipping:
            self._parts.append(rest)
            self._size += len(rest)
            if self._size > limits.HTTP_LINE_BYTES_MAX:
                self._parts.clear()
                self._is_skipping = True

    def _complete(self, rest: bytes) -> Iterator[bytes | None]:
        self._hold(rest)
        line = None if self._is_skipping else b"".join(self._parts).strip(_BLANK)
        self._parts.clear()
        self._size = 0
        self._is_skipping = False
        if line is None or line:
            yield line


class _Answers:
    """What is written back, while lines still come. It has to be closed even if it was never begun."""

    def __init__(self, access: LogAccess, request: Request, topic: str, acks: str, timeout_ms: int) -> None:
        self._now_ms = access.now_ms
        self._body = request.body
        self._hides_offsets = acks == "0"
        self._producer = BatchingProducer(access, topic, Writing(ACKS[acks], timeout_ms), self._wake_up)
        self._unanswered: deque[tuple[Batch, int] | bytes] = deque()
        """Of every line its place in a batch, or what is wrong with it."""
        self._wake = asyncio.Event()
        """Something may be there to answer."""
        self._room = asyncio.Event()
        """More lines may be read."""
        self._tasks = BackgroundTasks()
        self._parts = self._write()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._parts)

    async def aclose(self) -> None:
        await self._parts.aclose()
        await self._tasks.close()
        await self._producer.close()

    def _wake_up(self) -> None:
        self._wake.set()

    # -- lines ---------------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        """Raises HttpError where the rest of the body does not come; what came before is written all the same."""
        splitter = LineSplitter()
        try:
            async for part in self._body.parts():
                await self._take(splitter.feed(part))
            await self._take(splitter.end())
        finally:
            self._producer.flush()
            self._wake.set()

    async def _take(self, lines: Iterator[bytes | None]) -> None:
        for number, line in enumerate(lines, 1):
            await self._take_line(line)
            if number % LINES_PER_TURN == 0 or self._is_full():
                await self._make_room()
        await self._make_room()

    async def _take_line(self, line: bytes | None) -> None:
        try:
            if line is None:
                raise WrongLine(f"The line has more than {limits.HTTP_LINE_BYTES_MAX} bytes.")
            partition, record = decode_line(line, self._now_ms())
            count = self._producer.partition_count
            if count == 0:
                raise WrongLine("The topic was deleted.")
            if partition is None:
                partition = None if record.key is None else await partition_of_key(record.key, count)
            elif partition >= count:
                raise WrongLine(f"There is no partition {partition}: the topic has {count}.")
        except WrongLine as wrong:
            self._unanswered.append(_error_line(400, str(wrong), None))
        else:
            self._unanswered.append(self._producer.add(partition, record))

    def _is_full(self) -> bool:
        return (
            len(self._unanswered) >= limits.HTTP_LINES_UNANSWERED_MAX
            or self._producer.unwritten_bytes >= limits.HTTP_LINES_UNWRITTEN_BYTES_MAX
        )

    async def _make_room(self) -> None:
        self._producer.flush()
        self._wake.set()
        while self._is_full():
            self._room.clear()
            await self._room.wait()
        await asyncio.sleep(0)

    # -- answers -------------------------------------------------------------------------------------------------------

    async def _write(self) -> AsyncGenerator[bytes, None]:
        reading = self._tasks.start(self._read(), "lines of a body", is_awaited=True)
        while not (reading.done() and not self._unanswered):
            self._wake.clear()
            part = self._collect()
            if part:
                yield part
            elif not reading.done() or self._unanswered:
                await self._wake.wait()
        await reading

    def _collect(self) -> bytes:
        """The answers that are next in the order of the lines, of those that are there."""
        lines: list[bytes] = []
        size = 0
        unanswered = self._unanswered
        while unanswered and size < limits.HTTP_STREAM_PART_BYTES:
            entry = unanswered[0]
            if isinstance(entry, bytes):
                line = entry
            else:
                batch, place = entry
                if place >= len(batch.outcomes):
                    break
                line = self._answer(batch.partition, batch.outcomes[place])
            unanswered.popleft()
            lines.append(line)
            size += len(line)
        if not self._is_full():
            self._room.set()
        return b"".join(lines)

    def _answer(self, partition: int, outcome: int | BrokerError) -> bytes:
        if isinstance(outcome, BrokerError):
            return _error_line(status_of(outcome), outcome.message, outcome.code.name)
        return b'{"partition":%d,"offset":%d}\n' % (partition, -1 if self._hides_offsets else outcome)


def _error_line(code: int, message: str, kafka_error: str | None) -> bytes:
    return encode_json({"error": {"code": code, "message": message, "kafkaError": kafka_error}}) + b"\n"


ROUTES: Final = (
    Route(
        "POST",
        "/topics/{topic}",
        ingest,
        "publishLines",
        "Appends a record for every line, and answers each with a line, in their order, while more come.",
        "streams",
        (
            Outcome(
                200,
                'For each line {"partition", "offset"} or {"error"}.',
                (Content(NDJSON, {"type": "string"}, '{"partition":0,"offset":42}\n'),),
            ),
            *errors(404, 415, 429, 504),
        ),
        (
            TOPIC,
            Parameter(
                "acks",
                "query",
                {"type": "string", "enum": list(ACKS), "default": "all"},
                "Required acknowledgements: all in-sync replicas, the leader (1), or none (0: offsets are -1).",
            ),
            Parameter(
                "timeout",
                "query",
                {"type": "integer", "minimum": 1, "maximum": 300_000, "default": 30_000},
                "How long the replicas may take for a batch, in milliseconds.",
            ),
        ),
        BodyRule(
            (
                Content(
                    NDJSON,
                    {"type": "string"},
                    '{"key":"customer-7","value":{"total":12},"headers":{"trace":"abc"}}\n{"value":{"base64":"AP8="}}\n',
                ),
            ),
            limits.BOUND_BY_FRAME,
            is_streamed=True,
        ),
        media_types=(NDJSON, "application/ndjson", "application/jsonl"),
    ),
)
