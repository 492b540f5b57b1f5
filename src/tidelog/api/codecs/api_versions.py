"""ApiVersions: every connection begins with it, and its response is long, so its bytes are kept until it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidelog.api.codecs.generated import GeneratedCodec
from tidelog.net.reply import Buffers
from tidelog.protocol.index import ApiKey

if TYPE_CHECKING:
    from tidelog.api.context import RequestContext

RESPONSES_MAX = 16
"""How many are kept: a few versions, for clients and for nodes."""


class ApiVersionsCodec(GeneratedCodec):
    def __init__(self) -> None:
        super().__init__(ApiKey.API_VERSIONS)
        self._encoded: dict[tuple[int, int], tuple[Any, bytes]] = {}
        """By the identity of the response and the version. The response is held, so that its identity stays its own."""

    def encode_response(self, context: RequestContext, response: Any) -> bytes | Buffers:
        if context.throttle_ms:
            return super().encode_response(context, response)
        key = id(response), context.version
        known = self._encoded.get(key)
        if known is not None:
            return known[1]
        body: bytes = response.encode(context.version)
        if len(self._encoded) >= RESPONSES_MAX:
            self._encoded.clear()
        self._encoded[key] = response, body
        return body


CODEC = ApiVersionsCodec()
