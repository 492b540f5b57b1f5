"""APIs whose handlers take and return the generated message classes: nearly all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from tidelog.api.codecs.codec import Codec
from tidelog.codec.buffers import Buffer
from tidelog.model.errors import BrokerError
from tidelog.net.reply import Buffers
from tidelog.protocol.index import field_names, request_class, response_class

if TYPE_CHECKING:
    from tidelog.api.context import RequestContext


class GeneratedCodec(Codec):
    def __init__(self, api_key: int) -> None:
        self._api_key = api_key
        self._request: Any = request_class(api_key)
        self._response: Any = response_class(api_key)
        fields = field_names(self._response)
        self._is_throttled = "throttle_time_ms" in fields
        self._has_error_code = "error_code" in fields
        self._has_error_message = "error_message" in fields

    def decode_request(self, context: RequestContext, frame: Buffer, position: int) -> Any:
        return self._request.decode(frame, position, context.version)[0]

    def encode_response(self, context: RequestContext, response: Any) -> bytes | Buffers:
        if context.throttle_ms and self._is_throttled:
            response.throttle_time_ms = context.throttle_ms
        return cast("bytes", response.encode(context.version))

    def refuse(self, context: RequestContext, request: Any, error: BrokerError) -> Any:
        # Refusals are rare: what makes those of single partitions is imported for the first of them.
        from tidelog.api.refusals import REFUSALS

        refuse_partitions = REFUSALS.get(self._api_key)
        if refuse_partitions is not None:
            return refuse_partitions(request, error, context.version)
        if not self._has_error_code:
            raise error
        if self._has_error_message:
            return self._response(error_code=error.code, error_message=error.message)
        return self._response(error_code=error.code)

    def encode_request(self, context: RequestContext, request: Any) -> bytes:
        return cast("bytes", request.encode(context.version))

    def decode_response(self, context: RequestContext, body: bytes) -> Any:
        return self._response.decode(body, 0, context.version)[0]
