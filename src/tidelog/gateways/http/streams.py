"""Streams: the records of a topic as they come, as Server-Sent Events or as lines of JSON, until the client ends it.

The client sets the pace: the next records are read when it has taken the last. An idle stream is one fetch that waits,
for as long as the time between two heartbeats.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING, Any, Final

from tidelog.gateways.access import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from tidelog.gateways.consuming import Reading, find_offset
from tidelog.gateways.http.errors import UNEXPECTED, status_of
from tidelog.gateways.http.messages import NDJSON, Answer, HttpError, Request, Stream
from tidelog.gateways.http.record_lines import Encoding, LineFormat, decode_event_id
from tidelog.gateways.http.routes import Content, Outcome, Parameter, Route
from tidelog.gateways.http.schemas import OFFSET, PARTITION_INDEX, TOPIC, errors
from tidelog.gateways.http.stream_sources import ChosenPartitions, Reset, Source, new_group_source
from tidelog.gateways.reading import RecordReader
from tidelog.model import limits
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.model.value import Value
from tidelog.telemetry.logs import get_logger

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.gateways.access import LogAccess
    from tidelog.gateways.consuming import ReadPartition

logger = get_logger("tidelog.http")

SSE: Final = "text/event-stream"
HEARTBEAT_MS: Final = 15_000
_NDJSON_TYPES: Final = frozenset({NDJSON, "application/ndjson", "application/jsonl", "application/json"})
_WORDS: Final = {"earliest": EARLIEST, "latest": LATEST}
_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""Nothing between the node and the client may keep lines back."""


async def stream(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
    topic = values["topic"]
    wanted = _read_wanted(values)
    is_sse = _is_sse(request, values["format"])
    indexes = await _find_partitions(access, topic, values["partition"])
    reading = Reading(
        isolation=READ_COMMITTED if values["isolation"] == "read_committed" else READ_UNCOMMITTED,
        reset=Reset(values["reset"] or ("latest" if values["group"] is not None else "none")),
        skips_missing=values["group"] is not None,
    )
    read: dict[int, int] = {}
    source: Source
    if values["group"] is not None:
        source = await new_group_source(access, topic, values["group"], reading)
    else:
        begun = await _find_positions(access, topic, indexes, wanted, reading)
        read = wanted.read_so_far(begun)
        source = ChosenPartitions(access, topic, reading, begun, follows_topic=values["partition"] is None)
    lines = LineFormat(topic, Encoding(values["encoding"]), is_sse=is_sse)
    parts = _Parts(source, lines, read, values["heartbeat"] / 1000)
    try:
        await parts.look()
    except BaseException:
        await parts.aclose()
        raise
    return Stream(parts, content_type=SSE if is_sse else NDJSON, headers=_HEADERS)


# -- where it begins ---------------------------------------------------------------------------------------------------


class _Wanted(Value):
    """Where a client wants a stream to begin."""

    offset: int | None
    """Of every partition; may be EARLIEST or LATEST. None: the timestamp says it."""
    timestamp: int | None
    read: dict[int, int]
    """Partitions that the client has read before, each with its last offset."""

    def read_so_far(self, begun: dict[int, int]) -> dict[int, int]:
        """What the ids of events say before there is a record. A stream of what comes next has to name every partition:
        its beginning is found only once."""
        if self.offset == LATEST:
            return {index: offset - 1 for index, offset in begun.items()}
        return {index: begun[index] - 1 for index in self.read if index in begun}


def _read_wanted(values: dict[str, Any]) -> _Wanted:
    said = [name for name in ("offset", "timestamp", "group") if values[name] is not None]
    if len(said) > 1:
        raise HttpError(400, f"{' and '.join(said)} cannot go together: name one place to begin.")
    if values["group"] is not None:
        if values["partition"] is not None:
            raise HttpError(400, "partition and group cannot go together: the group assigns partitions.")
        if not values["group"]:
            raise HttpError(400, "group must not be empty.", kafka_error=ErrorCode.INVALID_GROUP_ID.name)
    last_event_id = values["Last-Event-ID"]
    try:
        read = decode_event_id(last_event_id) if last_event_id else {}
    except ValueError as error:
        raise HttpError(400, f"Last-Event-ID must be partition:offset, comma-separated; {error} is not.") from None
    if values["timestamp"] is not None:
        return _Wanted(None, values["timestamp"], read)
    said_offset = values["offset"]
    if said_offset is None:
        return _Wanted(LATEST, None, read)
    if said_offset in _WORDS:
        return _Wanted(_WORDS[said_offset], None, read)
    if not (said_offset.isascii() and said_offset.isdigit()) or len(said_offset) > 19 or int(said_offset) >= 2**63:
        raise HttpError(400, f"offset must be a number, earliest or latest, not {said_offset[:40]!r}.")
    return _Wanted(int(said_offset), None, read)


def _is_sse(request: Request, asked: str | None) -> bool:
    if asked is not None:
        return asked == "sse"
    for each in request.headers.get("accept", "").split(","):
        accepted = each.partition(";")[0].strip().lower()
        if accepted == SSE:
            return True
        if accepted in _NDJSON_TYPES:
            return False
    return True


async def _find_partitions(access: LogAccess, topic: str, index: int | None) -> list[int]:
    """Raises BrokerError for a topic that is not there: reading never creates one."""
    try:
        found = await access.find_topic(topic)
    except BrokerError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        raise BrokerError(error.code, f"There is no topic {topic}, and reading does not create it.") from None
    indexes = sorted(each.partition_index for each in found.partitions)
    if index is None:
        if len(indexes) > limits.HTTP_STREAM_PARTITIONS_MAX:
            raise HttpError(
                400,
                f"{topic} has {len(indexes)} partitions, and one stream at most {limits.HTTP_STREAM_PARTITIONS_MAX}: "
                "name one with partition=, or share them in a group.",
            )
        return indexes
    if index not in indexes:
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {index} of a topic {topic}.")
    return [index]


async def _find_positions(
    access: LogAccess, topic: str, indexes: list[int], wanted: _Wanted, reading: Reading
) -> dict[int, int]:
    """Raises HttpError for an offset that the log does not have."""
    positions: dict[int, int] = {}
    for index in indexes:
        partition = TopicPartition(topic, index)
        offset = wanted.offset
        if index in wanted.read:
            offset = wanted.read[index] + 1
        if offset is None or offset < 0:
            asked = wanted.timestamp if offset is None else offset
            assert asked is not None, "a stream begins at an offset or at a time"
            positions[index] = await find_offset(access, partition, asked)
            continue
        start = await find_offset(access, partition, EARLIEST)
        end = await find_offset(access, partition, LATEST)
        if not start <= offset <= end:
            if reading.reset is Reset.NONE:
                raise HttpError(
                    416,
                    f"{partition} has the offsets from {start} to {end}; a stream cannot begin at {offset}. "
                    "Say reset=earliest or reset=latest to begin there instead.",
                    kafka_error=ErrorCode.OFFSET_OUT_OF_RANGE.name,
                )
            offset = start if reading.reset is Reset.EARLIEST else end
        positions[index] = offset
    return positions


# -- the stream --------------------------------------------------------------------------------------------------------


class _Parts:
    """What is written of one stream. It has to be closed even if it was never begun: its source may be a member."""

    __slots__ = ("_found", "_heartbeat_s", "_lines", "_parts", "_read", "_source")

    def __init__(self, source: Source, lines: LineFormat, read: dict[int, int], heartbeat_s: float) -> None:
        self._source = source
        self._lines = lines
        self._read = read
        self._heartbeat_s = heartbeat_s
        self._found: list[ReadPartition] = []
        """What was read and not written yet."""
        self._parts = self._write()

    async def look(self) -> None:
        """Reads what is there, so that a stream that cannot be read is refused before it begins."""
        self._found = await self._source.read(0)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._parts)

    async def aclose(self) -> None:
        try:
            await self._parts.aclose()
        finally:
            await self._source.close()

    async def _write(self) -> AsyncGenerator[bytes, None]:
        now_s = asyncio.get_running_loop().time
        beat_at_s = now_s() + self._heartbeat_s
        yield self._lines.begin(self._read)
        try:
            while True:
                found, self._found = self._found, []
                for part, positions in self._format(found):
                    if part:
                        yield part
                        beat_at_s = now_s() + self._heartbeat_s
                    for partition, next_offset in positions.items():
                        self._source.taken(partition, next_offset)
                    # A client that takes everything at once must not keep the others waiting.
                    await asyncio.sleep(0)
                left_s = beat_at_s - now_s()
                if left_s <= 0:
                    yield self._lines.heartbeat
                    beat_at_s = now_s() + self._heartbeat_s
                    continue
                self._found = await self._source.read(int(left_s * 1000) + 1)
        except (HttpError, BrokerError) as error:
            yield self._fail(error)
        except asyncio.CancelledError:
            raise
        except Exception:
            logger.exception_limited("a stream failed", limit_by=())
            yield self._fail(UNEXPECTED)

    def _format(self, found: list[ReadPartition]) -> Iterator[tuple[bytes, dict[TopicPartition, int]]]:
        """Parts of about the same size, each with where its partitions are read on once the client has it."""
        lines: list[bytes] = []
        size = 0
        positions: dict[TopicPartition, int] = {}
        for partition, offset, fetched in found:
            reader = RecordReader(fetched, offset)
            records = iter(reader)
            while self._source.has(partition):
                room = limits.HTTP_STREAM_PART_BYTES - size
                written = self._lines.write(partition.partition, records, self._read, room)
                lines += written
                size += sum(map(len, written))
                if size < limits.HTTP_STREAM_PART_BYTES:
                    positions[partition] = reader.next_offset
                    break
                positions[partition] = self._read[partition.partition] + 1
                yield b"".join(lines), positions
                lines, size, positions = [], 0, {}
        if positions:
            yield b"".join(lines), positions

    def _fail(self, error: HttpError | BrokerError) -> bytes:
        if isinstance(error, HttpError):
            return self._lines.fail({"code": error.status, "message": error.message, "kafkaError": error.kafka_error})
        return self._lines.fail({"code": status_of(error), "message": error.message, "kafkaError": error.code.name})


# -- routes ------------------------------------------------------------------------------------------------------------

ROUTES: Final = (
    Route(
        "GET",
        "/topics/{topic}/stream",
        stream,
        "streamRecords",
        "Sends the records of a topic as they come.",
        "streams",
        (
            Outcome(
                200,
                "Records until the client ends the connection.",
                (
                    Content(SSE, {"type": "string"}),
                    Content(NDJSON, {"type": "string"}),
                ),
            ),
            *errors(404, 409, 416, 504),
        ),
        (
            TOPIC,
            Parameter("partition", "query", PARTITION_INDEX, "Only this partition; else all of the topic."),
            Parameter(
                "offset",
                "query",
                {"type": "string", "pattern": "^([0-9]{1,19}|earliest|latest)$"},
                "Where to begin: an offset, earliest or latest (the default).",
            ),
            Parameter("timestamp", "query", OFFSET, "Where to begin: the first record at or after this time, in ms."),
            Parameter("group", "query", {"type": "string"}, "Read as a member of this group, which commits."),
            Parameter(
                "encoding",
                "query",
                {"type": "string", "enum": [each.value for each in Encoding], "default": Encoding.BASE64.value},
                "How keys, values and header values are written.",
            ),
            Parameter(
                "format", "query", {"type": "string", "enum": ["sse", "ndjson"]}, "Instead of the header Accept."
            ),
            Parameter(
                "heartbeat",
                "query",
                {"type": "integer", "minimum": 100, "maximum": 300_000, "default": HEARTBEAT_MS},
                "After how many milliseconds without a record to send a sign of life.",
            ),
            Parameter(
                "isolation",
                "query",
                {"type": "string", "enum": ["read_uncommitted", "read_committed"], "default": "read_uncommitted"},
                "Whether records of open and aborted transactions are left out.",
            ),
            Parameter(
                "reset",
                "query",
                {"type": "string", "enum": [each.value for each in Reset]},
                "Where to go on when the offset is not in the log, or a group has committed none; none is an error. "
                "With a group the default is latest, else none.",
            ),
            Parameter("Last-Event-ID", "header", {"type": "string"}, "The id of the last event that the client has."),
        ),
        ends_with_client=True,
    ),
)
