"""Records as the JSON answer of a fetch: whole where it is small, else in parts, so that a slow client holds little."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING

from tidelog.gateways.http.messages import JSON, Answer, Response, Stream, encode_json
from tidelog.gateways.reading import RecordReader
from tidelog.model import limits

if TYPE_CHECKING:
    from tidelog.gateways.access import Fetched
    from tidelog.records.record import Record

Describe = Callable[["Record"], str]


def answer_records(
    fetched: Fetched, offset: int, describe: Describe, headers_after: Callable[[RecordReader], dict[str, str]]
) -> Answer:
    """`headers_after` gets a reader that has had all the records: what comes behind them is known before the answer
    begins."""
    reader = RecordReader(fetched, offset)
    records = iter(reader)
    lines, has_more = _take(records, describe)
    if not has_more:
        body = _head(offset, reader.next_offset) + ",".join(lines).encode() + b"]}"
        return Response(body, headers=headers_after(reader))
    measured = RecordReader(fetched, offset)
    measured.skip()
    head = _head(offset, measured.next_offset)
    return Stream(_parts(head, lines, records, describe), content_type=JSON, headers=headers_after(measured))


def _head(offset: int, next_offset: int) -> bytes:
    return b'{"fromOffset":%d,"toOffset":%d,"records":[' % (offset, next_offset)


def _take(records: Iterator[Record], describe: Describe) -> tuple[list[str], bool]:
    """As many as a part has, and whether there may be more."""
    lines: list[str] = []
    size = 0
    for record in records:
        line = describe(record)
        lines.append(line)
        size += len(line)
        if size >= limits.HTTP_PART_BYTES:
            return lines, True
    return lines, False


async def _parts(head: bytes, lines: list[str], records: Iterator[Record], describe: Describe) -> AsyncIterator[bytes]:
    yield head + _join(lines)
    has_more = True
    while has_more:
        lines, has_more = _take(records, describe)
        if lines:
            yield b"," + _join(lines)
    yield b"]}"


def _join(lines: list[str]) -> bytes:
    """Empties the list: while a client takes its time, nothing is held twice."""
    joined = ",".join(lines).encode()
    lines.clear()
    return joined


def describe_value(record: Record) -> str:
    value = record.value
    return "null" if value is None else f'"{b64encode(value).decode()}"'


def describe_whole(record: Record) -> str:
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
