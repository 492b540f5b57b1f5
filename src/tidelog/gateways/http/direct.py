"""The small and direct routes: a record in, records out, and how a partition is."""

from __future__ import annotations

import asyncio
import binascii
from typing import TYPE_CHECKING, Any, Final

from tidelog.gateways.access import ACKS_ALL, EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, LeaderElsewhere
from tidelog.gateways.http.elsewhere import redirect
from tidelog.gateways.http.messages import JSON, Answer, HttpError, Request, Response, json_response
from tidelog.gateways.http.record_array import answer_records, describe_value, describe_whole
from tidelog.gateways.http.routes import BodyRule, Content, Outcome, Parameter, Route
from tidelog.gateways.http.schemas import (
    BASE64,
    ELSEWHERE,
    INTEGER,
    OFFSET,
    PARTITION,
    TOPIC,
    array,
    errors,
    nullable,
    struct,
)
from tidelog.gateways.http.session_token import SESSION, SESSION_HEADERS, open_session
from tidelog.gateways.http.waiting import Wanted, read_when_there
from tidelog.gateways.reading import RecordReader
from tidelog.model import limits
from tidelog.records.builder import NewRecord, build_batch, build_batch_of_values

if TYPE_CHECKING:
    from tidelog.gateways.access import Fetched, LogAccess
    from tidelog.gateways.http.session_token import Session
    from tidelog.records.record import Headers

BINARY: Final = "application/octet-stream"
ACKS: Final = {"all": ACKS_ALL, "-1": ACKS_ALL, "1": 1, "0": 1}
"""A request with acks=0 has an answer here as well, so its errors can be said: the leader is waited for."""
NO_OFFSET: Final = -1
"""Instead of an offset to a client that did not want to know it."""
HEADER_PREFIX: Final = "x-header-"

_TIMEOUT: Final = Parameter(
    "timeout",
    "query",
    {"type": "integer", "minimum": 1, "maximum": 300_000, "default": 30_000},
    "How long the replicas may take, in milliseconds.",
)
_ACKS: Final = Parameter(
    "acks",
    "query",
    {"type": "string", "enum": list(ACKS), "default": "all"},
    "Required acknowledgements: all in-sync replicas, the leader (1), or none (0: the offset is -1).",
)


# -- writing -----------------------------------------------------------------------------------------------------------


async def publish(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
    session = await open_session(access, request)
    key = values["X-Key"]
    record = NewRecord(
        None if key is None else key.encode("latin-1"), request.body.whole(), access.now_ms(), _headers_of(request)
    )
    offset, answer = await _append(access, session, request, values, build_batch([record]), 1)
    return answer or Response(b'{"offset":%d}' % offset, headers=session.headers())


async def publish_batch(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
    session = await open_session(access, request)
    records = _values_of(request.json())
    batch = build_batch_of_values(records, access.now_ms())
    offset, answer = await _append(access, session, request, values, batch, len(records))
    if answer is not None:
        return answer
    count = len(records)
    offsets = [offset] * count if offset < 0 else list(range(offset, offset + count))
    return json_response({"offsets": offsets}, headers=session.headers())


async def _append(
    access: LogAccess, session: Session, request: Request, values: dict[str, Any], batch: bytes, count: int
) -> tuple[int, Answer | None]:
    """The offset of the first record, or an answer that sends the client elsewhere."""
    topic, index = values["topic"], values["partition"]
    acks = values["acks"]
    await access.ensure_topic(topic)
    state = access.partition(topic, index)
    led_before = state is not None and state.leader == access.node_id
    try:
        appended = await access.produce(topic, index, batch, acks=ACKS[acks], timeout_ms=values["timeout"])
    except LeaderElsewhere as elsewhere:
        if led_before:
            raise _leader_changed(topic, index) from None
        answer = redirect(access, request, elsewhere)
        if answer is not None:
            return NO_OFFSET, answer
        try:
            appended = await access.produce(
                topic, index, batch, acks=ACKS[acks], timeout_ms=values["timeout"], at=elsewhere.leader
            )
        except LeaderElsewhere:
            raise _leader_changed(topic, index) from None
    if ACKS[acks] == ACKS_ALL:
        session.wrote(topic, index, appended.base_offset + count)
    return (NO_OFFSET if acks == "0" else appended.base_offset), None


def _leader_changed(topic: str, index: int) -> HttpError:
    """Perhaps they were written and are not committed yet: a client that is sent elsewhere would write them again."""
    return HttpError(
        504,
        f"The leader of {topic}-{index} changed while it wrote: the records may be in the log or not.",
        kafka_error="NOT_LEADER_OR_FOLLOWER",
    )


def _headers_of(request: Request) -> Headers:
    return tuple(
        (name[len(HEADER_PREFIX) :], value.encode("latin-1"))
        for name, value in request.headers.items()
        if name.startswith(HEADER_PREFIX)
    )


def _values_of(body: Any) -> list[bytes]:
    records = body.get("records") if isinstance(body, dict) else None
    if not isinstance(records, list) or not records:
        raise HttpError(400, 'The body must be {"records": ["<base64>", ...]} with at least one record.')
    if len(records) > limits.HTTP_BATCH_RECORDS_MAX:
        raise HttpError(413, f"A batch has at most {limits.HTTP_BATCH_RECORDS_MAX} records.")
    decode = binascii.a2b_base64
    values: list[bytes] = []
    try:
        for record in records:
            values.append(decode(record, strict_mode=True))  # noqa: PERF401  the number of the wrong one is told
    except (ValueError, TypeError):
        raise HttpError(400, f"records[{len(values)}] is not a base64 string.") from None
    return values


# -- reading -----------------------------------------------------------------------------------------------------------


async def fetch(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
    session = await open_session(access, request)
    offset = values["offset"]
    wanted = Wanted(
        topic=values["topic"],
        index=values["partition"],
        offset=offset,
        record=values["minOffset"] if values["minOffset"] is not None else values["X-Read-Min-Offset"],
        max_bytes=values["maxBytes"],
        wait_ms=values["wait"],
        isolation=READ_COMMITTED if values["isolation"] == "read_committed" else READ_UNCOMMITTED,
    )
    try:
        fetched = await _read(access, session, wanted)
    except LeaderElsewhere as elsewhere:
        answer = redirect(access, request, elsewhere)
        if answer is not None:
            return answer
        fetched = await _read(access, session, wanted, at=elsewhere.leader)

    def headers_after(reader: RecordReader) -> dict[str, str]:
        session.read(wanted.topic, wanted.index, reader, wanted.isolation)
        return session.headers()

    return answer_records(fetched, offset, describe_whole if values["full"] else describe_value, headers_after)


async def _read(access: LogAccess, session: Session, wanted: Wanted, at: int | None = None) -> Fetched:
    """What is wanted, of a log that has all that the session has seen."""
    topic, index = wanted.topic, wanted.index
    now_s = asyncio.get_running_loop().time
    began_s = now_s()
    await session.catch_up(topic, index, wait_ms=wanted.wait_ms, isolation=wanted.isolation, at=at)
    left_ms = max(0, wanted.wait_ms - int((now_s() - began_s) * 1000))
    before = access.partition(topic, index)
    fetched = await read_when_there(access, wanted.replace(wait_ms=left_ms), at)
    after = access.partition(topic, index)
    if before is not None and after is not None and after.leader_epoch != before.leader_epoch:
        # The new leader may have cut the log while this waited for records.
        await session.catch_up(topic, index, isolation=wanted.isolation, at=at)
    return fetched


async def describe_partition(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
    name, index = values["topic"], values["partition"]
    topic = await access.find_topic(name)
    partition = next((each for each in topic.partitions if each.partition_index == index), None)
    if partition is None:
        raise HttpError(
            404, f"There is no partition {index} of a topic {name}.", kafka_error="UNKNOWN_TOPIC_OR_PARTITION"
        )
    start = end = None
    if partition.leader_id >= 0:
        start = (await access.list_offset(name, index, EARLIEST, at=partition.leader_id)).offset
        end = (await access.list_offset(name, index, LATEST, at=partition.leader_id)).offset
    return json_response(
        {
            "topic": name,
            "partition": index,
            "leader": partition.leader_id if partition.leader_id >= 0 else None,
            "epoch": partition.leader_epoch,
            "replicas": partition.replica_nodes,
            "inSyncReplicas": partition.isr_nodes,
            "startOffset": start,
            "endOffset": end,
        }
    )


# -- routes ------------------------------------------------------------------------------------------------------------

_FULL_RECORD: Final = struct(
    {
        "offset": INTEGER,
        "timestamp": INTEGER,
        "key": nullable(BASE64),
        "value": nullable(BASE64),
        "headers": array(array(nullable(BASE64))),
    }
)

ROUTES: Final = (
    Route(
        "POST",
        "/topics/{topic}/partitions/{partition}",
        publish,
        "publishRecord",
        "Appends the body as one record.",
        "records",
        (
            Outcome(
                200,
                "The record is in the log.",
                (Content(JSON, struct({"offset": INTEGER}), {"offset": 42}),),
                SESSION_HEADERS,
            ),
            ELSEWHERE,
            *errors(404, 413, 429, 504),
        ),
        (
            TOPIC,
            PARTITION,
            _ACKS,
            _TIMEOUT,
            Parameter("X-Key", "header", {"type": "string"}, "The record's key. Each X-Header-NAME is a header of it."),
            SESSION,
        ),
        BodyRule((Content(BINARY, {"type": "string", "format": "binary"}),), limits.FRAME_BYTES_MAX, is_required=False),
    ),
    Route(
        "POST",
        "/topics/{topic}/partitions/{partition}/batch",
        publish_batch,
        "publishBatch",
        "Appends records together: all of them or none.",
        "records",
        (
            Outcome(
                200,
                "The records are in the log.",
                (Content(JSON, struct({"offsets": array(INTEGER)}), {"offsets": [42, 43]}),),
                SESSION_HEADERS,
            ),
            ELSEWHERE,
            *errors(404, 413, 429, 504),
        ),
        (TOPIC, PARTITION, _ACKS, _TIMEOUT, SESSION),
        BodyRule(
            (Content(JSON, struct({"records": array(BASE64, minItems=1)}), {"records": ["aGVsbG8=", "d29ybGQ="]}),),
            limits.HTTP_JSON_BYTES_MAX,
        ),
    ),
    Route(
        "GET",
        "/topics/{topic}/partitions/{partition}/fetch",
        fetch,
        "fetchRecords",
        "Reads records from an offset on. Any replica answers with what is committed.",
        "records",
        (
            Outcome(
                200,
                "Records, none if there are none yet.",
                (
                    Content(
                        JSON,
                        struct(
                            {
                                "fromOffset": INTEGER,
                                "toOffset": {"type": "integer", "description": "The offset to ask for next."},
                                "records": array({"anyOf": [nullable(BASE64), _FULL_RECORD]}),
                            }
                        ),
                        {"fromOffset": 0, "toOffset": 1, "records": ["aGVsbG8="]},
                    ),
                ),
                SESSION_HEADERS,
            ),
            ELSEWHERE,
            *errors(404, 410, 416, 429, 504),
        ),
        (
            TOPIC,
            PARTITION,
            Parameter("offset", "query", {**OFFSET, "default": 0}, "The first offset to read."),
            Parameter(
                "maxBytes",
                "query",
                {"type": "integer", "minimum": 1, "maximum": limits.HTTP_FETCH_BYTES_MAX, "default": 1 << 20},
                "About how much to read; one batch always fits.",
            ),
            Parameter("minOffset", "query", OFFSET, "Answer only when the record with this offset can be read."),
            Parameter("X-Read-Min-Offset", "header", OFFSET, "The same as minOffset."),
            Parameter(
                "wait",
                "query",
                {"type": "integer", "minimum": 0, "maximum": 60_000, "default": 0},
                "How long to wait for records, in milliseconds.",
            ),
            Parameter("full", "query", {"type": "boolean", "default": False}, "With offset, time, key and headers."),
            Parameter(
                "isolation",
                "query",
                {"type": "string", "enum": ["read_uncommitted", "read_committed"], "default": "read_uncommitted"},
                "Whether records of open and aborted transactions are left out.",
            ),
            SESSION,
        ),
    ),
    Route(
        "GET",
        "/cluster/topics/{topic}/partitions/{partition}",
        describe_partition,
        "describePartition",
        "Tells which nodes have a partition, and which offsets it has.",
        "cluster",
        (
            Outcome(
                200,
                "The partition.",
                (
                    Content(
                        JSON,
                        struct(
                            {
                                "topic": {"type": "string"},
                                "partition": INTEGER,
                                "leader": nullable(INTEGER),
                                "epoch": INTEGER,
                                "replicas": array(INTEGER),
                                "inSyncReplicas": array(INTEGER),
                                "startOffset": nullable(INTEGER),
                                "endOffset": nullable(INTEGER),
                            }
                        ),
                    ),
                ),
            ),
            *errors(404, 504),
        ),
        (TOPIC, PARTITION),
    ),
)
