"""The small and direct routes: a record in, records out, and how a partition is."""

from __future__ import annotations

import binascii
from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final

from tidelog.gateways.access import ACKS_ALL, EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, LeaderElsewhere
from tidelog.gateways.http.elsewhere import redirect
from tidelog.gateways.http.messages import JSON, Answer, HttpError, Request, Response, encode_json, json_response
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
from tidelog.gateways.http.waiting import Wanted, read_when_there
from tidelog.gateways.reading import read_records
from tidelog.model import limits
from tidelog.records.builder import NewRecord, build_batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.gateways.access import LogAccess
    from tidelog.records.record import Headers, Record

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
    key = values["X-Key"]
    record = NewRecord(
        None if key is None else key.encode("latin-1"), request.body.whole(), access.now_ms(), _headers_of(request)
    )
    offset, answer = await _append(access, request, values, [record])
    return answer or Response(b'{"offset":%d}' % offset)


async def publish_batch(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
    now_ms = access.now_ms()
    records = [NewRecord(None, value, now_ms) for value in _values_of(request.json())]
    offset, answer = await _append(access, request, values, records)
    if answer is not None:
        return answer
    count = len(records)
    return json_response({"offsets": [offset] * count if offset < 0 else list(range(offset, offset + count))})


async def _append(
    access: LogAccess, request: Request, values: dict[str, Any], records: Sequence[NewRecord]
) -> tuple[int, Answer | None]:
    """The offset of the first record, or an answer that sends the client elsewhere."""
    topic, index = values["topic"], values["partition"]
    acks = values["acks"]
    await access.ensure_topic(topic)
    batch = build_batch(records)
    try:
        appended = await access.produce(topic, index, batch, acks=ACKS[acks], timeout_ms=values["timeout"])
    except LeaderElsewhere as elsewhere:
        answer = redirect(access, request, elsewhere)
        if answer is not None:
            return NO_OFFSET, answer
        appended = await access.produce(
            topic, index, batch, acks=ACKS[acks], timeout_ms=values["timeout"], at=elsewhere.leader
        )
    return (NO_OFFSET if acks == "0" else appended.base_offset), None


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
    values = []
    for position, record in enumerate(records):
        try:
            if not isinstance(record, str):
                raise ValueError
            values.append(binascii.a2b_base64(record, strict_mode=True))
        except ValueError:
            raise HttpError(400, f"records[{position}] is not a base64 string.") from None
    return values


# -- reading -----------------------------------------------------------------------------------------------------------


async def fetch(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
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
        fetched = await read_when_there(access, wanted)
    except LeaderElsewhere as elsewhere:
        answer = redirect(access, request, elsewhere)
        if answer is not None:
            return answer
        fetched = await read_when_there(access, wanted, at=elsewhere.leader)
    records, next_offset = read_records(fetched, offset)
    describe = _describe_full if values["full"] else _describe
    return Response(
        b'{"fromOffset":%d,"toOffset":%d,"records":[%b]}'
        % (offset, next_offset, ",".join([describe(record) for record in records]).encode())
    )


def _describe(record: Record) -> str:
    value = record.value
    return "null" if value is None else f'"{b64encode(value).decode()}"'


def _describe_full(record: Record) -> str:
    headers = [[name, None if value is None else b64encode(value).decode()] for name, value in record.headers]
    return encode_json(
        {
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": None if record.key is None else b64encode(record.key).decode(),
            "value": None if record.value is None else b64encode(record.value).decode(),
            "headers": headers,
        }
    ).decode()


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
            Outcome(200, "The record is in the log.", (Content(JSON, struct({"offset": INTEGER}), {"offset": 42}),)),
            ELSEWHERE,
            *errors(404, 413, 429, 504),
        ),
        (
            TOPIC,
            PARTITION,
            _ACKS,
            _TIMEOUT,
            Parameter("X-Key", "header", {"type": "string"}, "The record's key. Each X-Header-NAME is a header of it."),
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
            ),
            ELSEWHERE,
            *errors(404, 413, 429, 504),
        ),
        (TOPIC, PARTITION, _ACKS, _TIMEOUT),
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
            ),
            ELSEWHERE,
            *errors(404, 416, 429, 504),
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
