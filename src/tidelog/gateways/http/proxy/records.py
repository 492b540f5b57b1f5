"""v2: records of a partition from an offset on, without a consumer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from tidelog.gateways.access import LeaderElsewhere, Read
from tidelog.gateways.http.messages import Answer, Request, Response
from tidelog.gateways.http.proxy.errors import respond_to_v2_fault
from tidelog.gateways.http.proxy.formats import (
    BINARY_FORMAT,
    FORMATS,
    accepted_format,
    encode_records,
    records_schema,
    size_of,
)
from tidelog.gateways.http.proxy.schemas import v2_errors
from tidelog.gateways.http.proxy.topics import find_partition
from tidelog.gateways.http.routes import Content, Outcome, Parameter, Route
from tidelog.gateways.http.schemas import OFFSET, PARTITION, TOPIC
from tidelog.gateways.patience import fetch_patiently
from tidelog.gateways.reading import read_records
from tidelog.model import limits
from tidelog.model.errors import BrokerError, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.gateways.access import LogAccess
    from tidelog.gateways.reading import ReadRecords
    from tidelog.records.record import Record

TIMEOUT: Final = Parameter(
    "timeout",
    "query",
    {"type": "integer", "minimum": 0, "maximum": 60_000, "default": 1_000},
    "How long to wait for records, in milliseconds.",
)
MAX_BYTES: Final = Parameter(
    "max_bytes",
    "query",
    {"type": "integer", "minimum": 1, "maximum": limits.HTTP_FETCH_BYTES_MAX, "default": 1 << 20},
    "How much of keys and values the answer has at most; one record always fits.",
)


async def fetch_records(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
    form = accepted_format(request) or BINARY_FORMAT
    topic, index = values["topic"], values["partition"]
    await find_partition(access, topic, index)
    deadline_s = _now_s() + values["timeout"] / 1000
    offset, max_bytes = values["offset"], values["max_bytes"]
    while True:
        wait_ms = max(0, int((deadline_s - _now_s()) * 1000))
        wanted = Read(topic, index, offset, max_bytes, wait_ms)
        found = await _read_at_leader(access, wanted)
        if found.records or (found.next_offset == offset and _now_s() >= deadline_s):
            break
        # What was read were markers of transactions only: a client could not know where to go on.
        offset = found.next_offset
    records = first_records(found.records, max_bytes)
    body = encode_records(form, ((topic, index, record) for record in records))
    return Response(body, content_type=form.media_type)


async def _read_at_leader(access: LogAccess, wanted: Read) -> ReadRecords:
    """Only the leader knows whether an offset is there."""
    leader = access.leader_elsewhere(wanted.topic, wanted.index).leader
    if leader is None:
        raise LeaderElsewhere(wanted.topic, wanted.index, None)
    try:
        fetched = await fetch_patiently(access, wanted, leader)
    except BrokerError as error:
        if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
            raise
        raise BrokerError(error.code, f"{wanted.topic}-{wanted.index} does not have offset {wanted.offset}.") from None
    return read_records(fetched, wanted.offset)


def first_records(records: Sequence[Record], bytes_max: int) -> Sequence[Record]:
    """As many as fit, and at least one if there is any."""
    size = 0
    for count, record in enumerate(records):
        size += size_of(record)
        if size > bytes_max and count:
            return records[:count]
    return records


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def records_outcome(text: str) -> Outcome:
    return Outcome(200, text, tuple(Content(each.media_type, records_schema(each)) for each in FORMATS.values()))


ROUTES: Final = (
    Route(
        "GET",
        "/topics/{topic}/partitions/{partition}/records",
        fetch_records,
        "v2GetRecords",
        "Records of a partition from an offset on. Accept says their format.",
        "v2",
        (records_outcome("Records, none if none came in time."), *v2_errors(404, 406)),
        (
            TOPIC,
            PARTITION,
            Parameter("offset", "query", OFFSET, "The offset of the first record.", is_required=True),
            TIMEOUT,
            MAX_BYTES,
        ),
        respond_to_fault=respond_to_v2_fault,
    ),
)
