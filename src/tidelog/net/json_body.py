"""Bodies of the private APIs that are JSON: small, rare, and free to grow."""

from __future__ import annotations

import json
from typing import Any

from tidelog.protocol.errors import MalformedMessage

BODY_BYTES_MAX = 1024 * 1024


def decode_body(frame: bytes | bytearray | memoryview, position: int) -> dict[str, Any]:
    """A JSON object; MalformedMessage for anything else."""
    raw = bytes(memoryview(frame)[position:])
    if len(raw) > BODY_BYTES_MAX:
        raise MalformedMessage(f"a body of {len(raw)} bytes")
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise MalformedMessage(f"not JSON: {error}") from None
    if not isinstance(body, dict):
        raise MalformedMessage("not a JSON object")
    return body


def encode_body(body: dict[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()
