"""The requests that are sent, as bytes that are ready, and where their answers end."""

from __future__ import annotations

import base64
import json
from typing import Final

from tests.servers.wire import NewRecord, build_batch

TOPIC: Final = "doors"
VALUE: Final = b"x" * 100
BATCH_RECORDS: Final = 100


def _http(method: str, path: str, body: bytes = b"") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def _kafka(records: int) -> bytes:
    from tidelog.protocol.generated.produce import PartitionProduceData, ProduceRequest, TopicProduceData
    from tidelog.protocol.headers import encode_request_header

    batch = build_batch([NewRecord(None, VALUE) for _ in range(records)])
    request = ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=batch)])],
    )
    frame = encode_request_header(0, 9, 1, "bench") + request.encode(9)
    return len(frame).to_bytes(4, "big") + frame


_BATCH: Final = json.dumps({"records": [base64.b64encode(VALUE).decode()] * BATCH_RECORDS}).encode()

REQUESTS: Final = {
    "http-empty": _http("GET", "/empty"),
    "http-publish": _http("POST", f"/topics/{TOPIC}/partitions/0", VALUE),
    "http-batch": _http("POST", f"/topics/{TOPIC}/partitions/0/batch", _BATCH),
    "kafka-one": _kafka(1),
    "kafka-batch": _kafka(BATCH_RECORDS),
}
"""By name. `http-empty` is answered by `empty_server.py` only."""


def is_whole_frame(received: bytearray) -> bool:
    return len(received) >= 4 and len(received) >= 4 + int.from_bytes(received[:4], "big")


def is_whole_http(received: bytearray) -> bool:
    end = received.find(b"\r\n\r\n")
    if end < 0:
        return False
    if not received.startswith(b"HTTP/1.1 200 "):
        raise RuntimeError(bytes(received[:500]).decode("latin-1"))
    at = received.find(b"Content-Length: ") + 16
    return len(received) >= end + 4 + int(received[at : received.find(b"\r", at)])
