"""The requests of the client and what their answers say. Pure."""

from __future__ import annotations

import json
import re
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

from tidelog.client.errors import RequestFailed
from tidelog.client.results import BatchPublished, Fetched, Published, Record, StreamedRecord

ACKS: Final = ("all", "1", "0")
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE: Final = re.compile(rb"(?:[\x21-\x7e\x80-\xff](?:[\t \x21-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?")
"""What survives the way in a header: no control characters, no blanks at the ends."""


class Request(NamedTuple):
    method: str
    path: str
    """With its query."""
    headers: Mapping[str, str] = {}
    body: bytes = b""
    writes_to: tuple[str, int] | None = None
    """Topic and partition of a publish."""
    wait_s: float = 0.0
    """How long the node is asked to wait before it answers."""


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    """By name in lower case."""
    body: bytes


def publish(
    topic: str, partition: int, value: bytes, key: bytes | None, headers: Iterable[tuple[str, bytes]], acks: str
) -> Request:
    sent = {"Content-Type": "application/octet-stream"}
    if key is not None:
        sent["X-Key"] = _header_value("the key", key)
    for name, content in headers:
        if not _TOKEN.fullmatch(name):
            raise ValueError(f"{name!r} cannot be the name of an HTTP header")
        sent[f"X-Header-{name}"] = _header_value(f"the header {name}", content)
    return Request("POST", f"{_partition(topic, partition)}?acks={_acks(acks)}", sent, value, (topic, partition))


def publish_batch(topic: str, partition: int, values: Sequence[bytes], acks: str) -> Request:
    if not values:
        raise ValueError("a batch has at least one record")
    encoded = [b2a_base64(value, newline=False).decode("ascii") for value in values]
    body = json.dumps({"records": encoded}, separators=(",", ":")).encode()
    path = f"{_partition(topic, partition)}/batch?acks={_acks(acks)}"
    return Request("POST", path, {"Content-Type": "application/json"}, body, (topic, partition))


def fetch(topic: str, partition: int, parameters: Mapping[str, int | str | None]) -> Request:
    """`parameters` by their names in the query, where they are not None."""
    query = urlencode({"full": 1, **{name: value for name, value in parameters.items() if value is not None}})
    wait_ms = parameters.get("wait") or 0
    return Request("GET", f"{_partition(topic, partition)}/fetch?{query}", wait_s=int(wait_ms) / 1000)


def stream(topic: str, parameters: Mapping[str, int | str | None], position: str | None) -> Request:
    query = urlencode(
        {"encoding": "base64", **{name: value for name, value in parameters.items() if value is not None}}
    )
    headers = {"Accept": "text/event-stream"}
    if position is not None:
        headers["Last-Event-ID"] = position
    return Request("GET", f"/topics/{quote(topic, safe='')}/stream?{query}", headers)


def _partition(topic: str, partition: int) -> str:
    return f"/topics/{quote(topic, safe='')}/partitions/{int(partition)}"


def _acks(acks: str) -> str:
    if acks not in ACKS:
        raise ValueError(f"acks is one of {', '.join(ACKS)}, not {acks!r}")
    return acks


def _header_value(what: str, content: bytes) -> str:
    if not _HEADER_VALUE.fullmatch(content):
        raise ValueError(f"{what} has control characters or blanks at its ends: HTTP headers cannot carry those")
    return content.decode("latin-1")


# -- answers -----------------------------------------------------------------------------------------------------------


def published(topic: str, partition: int, answer: Answer) -> Published:
    return Published(topic, partition, _read(answer)["offset"])


def batch_published(topic: str, partition: int, answer: Answer) -> BatchPublished:
    return BatchPublished(topic, partition, tuple(_read(answer)["offsets"]))


def fetched(answer: Answer) -> Fetched:
    found = _read(answer)
    records = (
        Record(each["offset"], each["timestamp"], _bytes(each["key"]), _bytes(each["value"]), _headers(each))
        for each in found["records"]
    )
    return Fetched(tuple(records), found["toOffset"])


def streamed(data: str, position: str) -> StreamedRecord:
    """Raises RequestFailed for the line with which a node ends a stream that cannot go on."""
    line = json.loads(data)
    if "error" in line:
        error = line["error"]
        raise RequestFailed(error["code"], error["message"], kafka_error=error["kafkaError"])
    return StreamedRecord(
        line["topic"],
        line["partition"],
        line["offset"],
        line["timestamp"],
        _bytes(line["key"]),
        _bytes(line["value"]),
        _headers(line),
        position,
    )


def failure(request: Request, answer: Answer) -> RequestFailed:
    """What an answer with another status than 2xx says."""
    message, kafka_error = f"{request.method} {request.path.partition('?')[0]} was refused", None
    try:
        said = json.loads(answer.body)
        message, kafka_error = str(said["message"]), said.get("kafkaError")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass
    # After these the log may have the records, and may come to have them later.
    unknown = answer.status in (500, 502, 504) or kafka_error == "KAFKA_STORAGE_ERROR"
    may_be_written = request.writes_to is not None and unknown
    return RequestFailed(answer.status, message, kafka_error=kafka_error, may_be_written=may_be_written)


def _read(answer: Answer) -> Any:
    try:
        return json.loads(answer.body)
    except (ValueError, RecursionError):
        raise RequestFailed(answer.status, "The answer is not JSON: is this the HTTP door of a node?") from None


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else a2b_base64(text)


def _headers(line: Mapping[str, Any]) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((name, _bytes(content)) for name, content in line["headers"])
