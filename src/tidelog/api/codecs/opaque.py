"""Messages of the metadata quorum: bytes whose meaning is the quorum's own business."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.api.codecs.codec import Codec
from tidelog.codec.buffers import Buffer
from tidelog.net.reply import Buffers

if TYPE_CHECKING:
    from tidelog.api.context import RequestContext


class OpaqueCodec(Codec):
    def decode_request(self, context: RequestContext, frame: Buffer, position: int) -> bytes:
        return bytes(memoryview(frame)[position:])

    def encode_response(self, context: RequestContext, response: bytes) -> bytes | Buffers:
        return response

    def encode_request(self, context: RequestContext, request: bytes) -> bytes:
        return request

    def decode_response(self, context: RequestContext, body: bytes) -> bytes:
        return body


CODEC = OpaqueCodec()
