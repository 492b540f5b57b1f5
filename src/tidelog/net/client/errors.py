"""How a request to another node or broker fails. The text of each error is one line for people."""

from __future__ import annotations


class RpcError(OSError):
    """There is no usable answer. The peer may have carried the request out all the same."""


class PeerUnreachable(RpcError):
    """The peer has no address, takes no connection, or closed it before it answered."""


class RpcTimedOut(RpcError, TimeoutError):
    """There was no answer in time. The connection is closed: a late answer would delay every answer behind it."""


class PeerBusy(RpcError):
    """Too many requests to this peer are under way already. This one was not sent."""


class BadAnswer(RpcError):
    """The peer answered with bytes that are not the response to this request."""


class UnsupportedByPeer(RpcError):
    """The peer does not serve this API in a version that both know. Nothing was sent."""
