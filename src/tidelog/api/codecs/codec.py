"""What stands between the bytes of an API and its handler.

`decode_request` and `encode_response` are what the node that answers does. `encode_request` and `decode_response` are
the other end, for requests that one node sends on to another; they are rare, so they may be slow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidelog.codec.buffers import Buffer
from tidelog.model.errors import BrokerError
from tidelog.net.reply import Buffers

if TYPE_CHECKING:
    from tidelog.api.context import RequestContext


class Codec:
    """Stateless: one for all requests of an API."""

    holds_frame: bool = False
    """Whether requests hold slices of their frame: then they are not kept until an answer that comes later."""

    def decode_request(self, context: RequestContext, frame: Buffer, position: int) -> Any:
        """The typed request, from a body that begins at `position`. Raises nothing but MalformedMessage and
        UnsupportedVersion. Records in it may be slices of the frame."""
        raise NotImplementedError

    def encode_response(self, context: RequestContext, response: Any) -> bytes | Buffers:
        """The body of a response, with the throttle time of the context."""
        raise NotImplementedError

    def refuse(self, context: RequestContext, request: Any, error: BrokerError) -> Any:
        """The response that says of the whole request that it failed. Raises the error where the API has no such."""
        raise error

    def encode_request(self, context: RequestContext, request: Any) -> bytes:
        raise NotImplementedError

    def decode_response(self, context: RequestContext, body: bytes) -> Any:
        """Raises nothing but MalformedMessage and UnsupportedVersion."""
        raise NotImplementedError
