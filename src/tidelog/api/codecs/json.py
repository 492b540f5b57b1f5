"""Private APIs whose bodies are JSON objects (`net/json_body.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidelog.api.codecs.codec import Codec
from tidelog.codec.buffers import Buffer
from tidelog.model.errors import BrokerError
from tidelog.net.json_body import decode_body, encode_body
from tidelog.net.reply import Buffers

if TYPE_CHECKING:
    from tidelog.api.context import RequestContext

Body = dict[str, Any]


class JsonCodec(Codec):
    def decode_request(self, context: RequestContext, frame: Buffer, position: int) -> Body:
        return decode_body(frame, position)

    def encode_response(self, context: RequestContext, response: Body) -> bytes | Buffers:
        return encode_body(response)

    def refuse(self, context: RequestContext, request: Body, error: BrokerError) -> Body:
        return {"error": error.message, "code": int(error.code)}

    def encode_request(self, context: RequestContext, request: Body) -> bytes:
        return encode_body(request)

    def decode_response(self, context: RequestContext, body: bytes) -> Body:
        return decode_body(body, 0)


CODEC = JsonCodec()
