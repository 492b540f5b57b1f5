"""v3: records into a topic, one JSON object each, any number of objects in a body."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.gateways.http.messages import JSON, Answer, HttpError, Request, Response, Stream, encode_json
from tidelog.gateways.http.proxy.appending import append, check_partition, find_topic_to_write
from tidelog.gateways.http.proxy.errors import ProxyError, respond_to_v3_fault
from tidelog.gateways.http.proxy.formats import decode_base64_value, decode_json_value
from tidelog.gateways.http.proxy.v3.record_objects import ObjectSplitter
from tidelog.gateways.http.proxy.v3.resources import STRING, V3Route, field_of, is_text, open_cluster, v3_answer
from tidelog.gateways.http.proxy.v3.topics import TOPIC
from tidelog.gateways.http.routes import BodyRule, Content
from tidelog.gateways.http.schemas import BASE64, INTEGER, PARTITION_INDEX, array, nullable, struct
from tidelog.gateways.partitioner import next_turn, partition_of_key
from tidelog.model import limits
from tidelog.model.errors import BrokerError
from tidelog.records.builder import NewRecord

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from tidelog.gateways.access import LogAccess
    from tidelog.gateways.http.proxy.appending import RecordOutcome
    from tidelog.metadata.topics import TopicImage
    from tidelog.records.record import Headers

TYPES: Final = ("BINARY", "JSON", "STRING")
_WRITTEN: Final = 200
_RECORDS_AT_ONCE: Final = 1000
"""Records of a stream that are appended together."""


class Asked(NamedTuple):
    """A record, and where it is to go."""

    record: NewRecord
    partition: int
    key_type: str | None
    value_type: str | None


async def produce(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
    """A body of a known length is answered when all of it is there: one object by its own status, several with a report
    for each. A body of any length has its reports while it still comes."""
    cluster = open_cluster(access, request, values)
    topic = await find_topic_to_write(access, values["topic_name"])
    appending = _Appending(access, topic, {"cluster_id": cluster.id, "topic_name": topic.name})
    if "content-length" in request.headers:
        return await _answer_whole(appending, request)
    return Stream(_stream_reports(appending, request), content_type=JSON)


async def _answer_whole(appending: _Appending, request: Request) -> Answer:
    splitter = ObjectSplitter(limits.HTTP_JSON_BYTES_MAX)
    objects: list[dict[str, Any] | HttpError] = []
    async for part in request.body.parts():
        if request.body.size > limits.HTTP_JSON_BYTES_MAX:
            raise HttpError(413, f"The body of this request has at most {limits.HTTP_JSON_BYTES_MAX} bytes.")
        objects += splitter.feed(part)
        if len(objects) > limits.HTTP_V3_RECORDS_MAX:
            raise HttpError(413, f"A body of a known length has at most {limits.HTTP_V3_RECORDS_MAX} records.")
    broken = splitter.finish()
    if broken is not None:
        objects.append(broken)
    if not objects:
        raise ProxyError(422, 'The body must be one record or several, such as {"value": {"type": "JSON", "data": 1}}.')
    reports = await appending.append(objects)
    if len(reports) == 1 and not isinstance(reports[0], bytes):
        raise reports[0]
    return Response(b"\r\n".join(map(_encode_report, reports)), content_type=JSON)


async def _stream_reports(appending: _Appending, request: Request) -> AsyncIterator[bytes]:
    splitter = ObjectSplitter(limits.HTTP_LINE_BYTES_MAX)
    async for part in request.body.parts():
        objects = splitter.feed(part)
        for start in range(0, len(objects), _RECORDS_AT_ONCE):
            reports = await appending.append(objects[start : start + _RECORDS_AT_ONCE])
            yield b"".join([_encode_report(report) + b"\r\n" for report in reports])
        if splitter.is_broken:
            return
    broken = splitter.finish()
    if broken is not None:
        yield _encode_report(broken) + b"\r\n"


class _Appending:
    """Records of one request on their way into a topic."""

    __slots__ = ("_access", "_place", "_topic")

    def __init__(self, access: LogAccess, topic: TopicImage, place: dict[str, str]) -> None:
        self._access = access
        self._topic = topic
        self._place = place

    async def append(self, objects: Sequence[dict[str, Any] | HttpError]) -> list[bytes | HttpError | BrokerError]:
        """A report for each, or why its record is not in the log, in their order."""
        asked = [each if isinstance(each, HttpError) else await self._read(each) for each in objects]
        by_partition: dict[int, list[NewRecord]] = {}
        for one in asked:
            if isinstance(one, Asked):
                by_partition.setdefault(one.partition, []).append(one.record)
        try:
            appended = await append(self._access, self._topic.name, by_partition)
        except BrokerError as error:
            return [one if isinstance(one, HttpError) else error for one in asked]
        outcomes = {index: iter(found) for index, found in appended.items()}
        return [
            one if isinstance(one, HttpError) else self._report(one, next(outcomes[one.partition])) for one in asked
        ]

    async def _read(self, said: dict[str, Any]) -> Asked | HttpError:
        try:
            return await _read_record(self._topic, said, self._access.now_ms())
        except HttpError as error:
            return error

    def _report(self, asked: Asked, outcome: RecordOutcome) -> bytes | BrokerError:
        if outcome.error is not None:
            return outcome.error
        record = asked.record
        time_ms = record.timestamp if outcome.append_time_ms < 0 else outcome.append_time_ms
        report: dict[str, Any] = {
            "error_code": _WRITTEN,
            **self._place,
            "partition_id": asked.partition,
            "offset": outcome.offset,
            "timestamp": datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds"),
        }
        for name, kind, data in (("key", asked.key_type, record.key), ("value", asked.value_type, record.value)):
            if kind is not None:
                report[name] = {"type": kind, "size": len(data or b"")}
        return encode_json(report)


def _encode_report(report: bytes | HttpError | BrokerError) -> bytes:
    return report if isinstance(report, bytes) else respond_to_v3_fault(report).body


# -- reading a record --------------------------------------------------------------------------------------------------


async def _read_record(topic: TopicImage, said: dict[str, Any], now_ms: int) -> Asked:
    key_type, key = _read_data(said, "key")
    value_type, value = _read_data(said, "value")
    timestamp = field_of(said, "timestamp", str)
    record = NewRecord(key, value, now_ms if timestamp is None else _read_time(timestamp), _read_headers(said))
    index = field_of(said, "partition_id", int)
    if index is not None:
        check_partition(topic, index)
    elif key is not None:
        index = await partition_of_key(key, len(topic.partitions))
    else:
        index = next_turn(len(topic.partitions))
    return Asked(record, index, key_type, value_type)


def _read_data(said: dict[str, Any], name: str) -> tuple[str | None, bytes | None]:
    field = field_of(said, name, dict)
    data = None if field is None else field.get("data")
    if field is None:
        return None, None
    kind = field_of(field, "type", str)
    if kind not in TYPES:
        raise ProxyError(400, f"{name}.type must be one of {', '.join(TYPES)}: this node knows no schemas.")
    try:
        if kind == "BINARY":
            return kind, decode_base64_value(data)
        if kind == "JSON":
            return kind, decode_json_value(data)
        if data is not None and (not isinstance(data, str) or not is_text(data)):
            raise ValueError("is not a string")
        return kind, None if data is None else data.encode()
    except ValueError as error:
        raise ProxyError(422, f"{name}.data {error}.") from None


def _read_headers(said: dict[str, Any]) -> Headers:
    headers = []
    for number, each in enumerate(field_of(said, "headers", list, [])):
        name = field_of(each, "name", str) if isinstance(each, dict) else None
        if name is None:
            raise ProxyError(422, f'headers[{number}] must be {{"name": ..., "value": <base64>}}.')
        try:
            headers.append((name, decode_base64_value(each.get("value"))))
        except ValueError as error:
            raise ProxyError(422, f"headers[{number}].value {error}.") from None
    return tuple(headers)


def _read_time(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        time_ms = round(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        time_ms = -1
    if time_ms < 0:
        raise ProxyError(422, "timestamp must be a date and time such as 2021-02-05T19:14:42Z.")
    return time_ms


# -- routes ------------------------------------------------------------------------------------------------------------

_DATA: Final = struct({"type": {"type": "string", "enum": list(TYPES)}, "data": {}}, ("type",))
_RECORD: Final = struct(
    {
        "partition_id": nullable(PARTITION_INDEX),
        "headers": array(struct({"name": STRING, "value": nullable(BASE64)}, ("name",))),
        "key": nullable(_DATA),
        "value": nullable(_DATA),
        "timestamp": {"type": ["string", "null"], "format": "date-time"},
    },
    (),
)
_SIZE: Final = struct({"type": STRING, "size": INTEGER})
_REPORT: Final = struct(
    {
        "error_code": INTEGER,
        "cluster_id": STRING,
        "topic_name": STRING,
        "partition_id": INTEGER,
        "offset": INTEGER,
        "timestamp": nullable(STRING),
        "key": _SIZE,
        "value": _SIZE,
    },
    ("error_code", "cluster_id", "topic_name", "partition_id", "offset"),
)
_EXAMPLE: Final = {"key": {"type": "STRING", "data": "alice"}, "value": {"type": "JSON", "data": {"clicks": 3}}}

_at_records: Final = V3Route("/topics/{topic_name}/records", TOPIC)

ROUTES: Final = (
    _at_records(
        "POST",
        produce,
        "v3ProduceRecords",
        "Appends a record. Further records may follow it in the body, and their reports follow in the answer.",
        v3_answer("The record is in the log; a body with several records has a report or an error for each.", _REPORT),
        BodyRule((Content(JSON, _RECORD, _EXAMPLE),), limits.HTTP_JSON_BYTES_MAX, is_streamed=True),
    ),
)
