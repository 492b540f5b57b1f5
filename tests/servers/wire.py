"""A bare Kafka connection: one socket, requests and responses as the generated messages or as raw bytes.

For what no client library does: measuring the broker without a client's threads in between, asking in every old
version, and sending what no client would. Record batches are put together here by hand, so that what the broker's own
record code gets wrong does not cancel out.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from fastcrc import crc32

from tidelog.net.client.blocking import BlockingClient
from tidelog.net.client.conversation import expected_answer
from tidelog.net.client.errors import PeerUnreachable
from tidelog.protocol.message import Message

TIMEOUT_S = 30.0

ConnectionLost = PeerUnreachable
"""The broker closed the connection."""


class Connection(BlockingClient):
    """To a broker on this machine. Besides whole requests it sends and receives raw bytes."""

    def __init__(self, port: int, *, timeout_s: float = TIMEOUT_S, client_id: str = "wire") -> None:
        super().__init__("127.0.0.1", port, client_id=client_id, timeout_s=timeout_s, answer_bytes_max=(1 << 31) - 1)

    @property
    def last_correlation_id(self) -> int:
        return self.conversation.last_correlation_id

    def send_bytes(self, data: bytes) -> None:
        self.send(data)

    def send_frame(self, frame: bytes) -> None:
        self.send(struct.pack(">i", len(frame)) + frame)

    def frame(self, api_key: int, version: int, body: bytes) -> bytes:
        """A request with its header and the next correlation id, without the size before it."""
        return self.conversation.encode_unmatched(api_key, version, body)

    def call_raw(self, api_key: int, version: int, body: bytes) -> bytes:
        """Send a body, return the body of the answer."""
        answer, position = self.call_encoded(api_key, version, body)
        return bytes(answer[position:])

    def call(self, request: Message, version: int) -> Any:
        """Send a request, return the response as its generated class; every byte of the answer must be used."""
        assert request.API_KEY is not None
        body = self.call_raw(request.API_KEY, version, request.encode(version))
        response, end = expected_answer(request).decode(body, 0, version)
        if end != len(body):
            raise AssertionError(f"{len(body) - end} bytes left behind {type(response).__name__} version {version}")
        return response


def connect_when_listening(port: int, timeout_s: float = TIMEOUT_S, interval_s: float = 0.002) -> Connection:
    """For a broker that is only starting: the first connection it takes."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return Connection(port, timeout_s=timeout_s)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(interval_s)


class NewRecord(NamedTuple):
    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp_delta: int = 0


def encode_varint(value: int) -> bytes:
    """Zigzag varint, as in records."""
    remaining = (value << 1) ^ (value >> 63)
    out = bytearray()
    while remaining > 0x7F:
        out.append(remaining & 0x7F | 0x80)
        remaining >>= 7
    out.append(remaining)
    return bytes(out)


def _sized(data: bytes | None) -> bytes:
    return encode_varint(-1) if data is None else encode_varint(len(data)) + data


def encode_records(records: Sequence[NewRecord]) -> bytes:
    out = []
    for index, record in enumerate(records):
        headers = b"".join(_sized(name.encode()) + _sized(value) for name, value in record.headers)
        body = b"".join(
            (
                b"\0",
                encode_varint(record.timestamp_delta),
                encode_varint(index),
                _sized(record.key),
                _sized(record.value),
                encode_varint(len(record.headers)),
                headers,
            )
        )
        out.append(encode_varint(len(body)) + body)
    return b"".join(out)


def build_batch(
    records: Sequence[NewRecord],
    *,
    timestamp_ms: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    attributes: int = 0,
    magic: int = 2,
    payload: bytes | None = None,
    record_count: int | None = None,
    last_offset_delta: int | None = None,
    base_offset: int = 0,
    length_error: int = 0,
    crc_error: int = 0,
) -> bytes:
    """A record batch; the arguments from `payload` on make it lie."""
    now_ms = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
    count = len(records) if record_count is None else record_count
    checked = struct.pack(
        ">hiqqqhii",
        attributes,
        len(records) - 1 if last_offset_delta is None else last_offset_delta,
        now_ms,
        now_ms + max((record.timestamp_delta for record in records), default=0),
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    ) + (encode_records(records) if payload is None else payload)
    crc = crc32.iscsi(checked) ^ crc_error
    return struct.pack(">qiibI", base_offset, len(checked) + 9 + length_error, 0, magic, crc) + checked
