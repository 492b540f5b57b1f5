"""A bare Kafka connection: one socket, requests and responses as the generated messages or as raw bytes.

For what no client library does: measuring the broker without a client's threads in between, asking in every old
version, and sending what no client would. Record batches are put together here by hand, so that what the broker's own
record code gets wrong does not cancel out.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

from fastcrc import crc32

from tidelog.protocol.headers import decode_response_header, encode_request_header
from tidelog.protocol.index import is_response_header_flexible, response_class
from tidelog.protocol.message import Message

TIMEOUT_S = 30.0


class ConnectionLost(Exception):
    """The broker closed the connection."""


class Connection:
    """One connection; requests are answered in order."""

    def __init__(self, port: int, *, timeout_s: float = TIMEOUT_S, client_id: str = "wire") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.client_id = client_id
        self._correlation_id = 0

    def send_bytes(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ConnectionLost(str(error)) from None

    def send_frame(self, frame: bytes) -> None:
        self.send_bytes(struct.pack(">i", len(frame)) + frame)

    def receive_frame(self) -> bytes:
        return self.receive_exactly(struct.unpack(">i", self.receive_exactly(4))[0])

    def receive_exactly(self, size: int) -> bytes:
        parts = []
        while size > 0:
            try:
                part = self.socket.recv(min(size, 1 << 20))
            except ConnectionResetError as error:
                raise ConnectionLost(str(error)) from None
            if not part:
                raise ConnectionLost("closed by the broker")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def frame(self, api_key: int, version: int, body: bytes) -> bytes:
        """A request with its header and the next correlation id, without the size before it."""
        self._correlation_id += 1
        return encode_request_header(api_key, version, self._correlation_id, self.client_id) + body

    def call_raw(self, api_key: int, version: int, body: bytes) -> bytes:
        """Send a body, return the body of the answer."""
        self.send_frame(self.frame(api_key, version, body))
        answer = self.receive_frame()
        correlation_id, position = decode_response_header(answer, is_response_header_flexible(api_key, version))
        if correlation_id != self._correlation_id:
            raise AssertionError(f"answer {correlation_id} to request {self._correlation_id}")
        return answer[position:]

    def call(self, request: Message, version: int) -> Any:
        """Send a request, return the response as its generated class; every byte of the answer must be used."""
        api_key = request.API_KEY
        assert api_key is not None
        body = self.call_raw(api_key, version, request.encode(version))
        response, end = response_class(api_key).decode(body, 0, version)
        if end != len(body):
            raise AssertionError(f"{len(body) - end} bytes left behind {type(response).__name__} version {version}")
        return response

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


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
