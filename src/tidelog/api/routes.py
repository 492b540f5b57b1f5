"""A line of the table with its handler and its codec, imported when the first request for it arrives."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from inspect import iscoroutinefunction
from typing import Any

from tidelog.api.codecs.codec import Codec
from tidelog.api.table import Api
from tidelog.protocol.index import api_name, is_flexible
from tidelog.telemetry.metrics import NodeMetrics

Handle = Callable[..., Any]
"""Takes a context and a request. Returns the response, a `Later` of it, or None where no answer is owed; a coroutine
function returns the response."""


class Route:
    __slots__ = (
        "api",
        "bytes_max",
        "codec",
        "duration",
        "flexible_from",
        "handle",
        "is_coroutine",
        "is_forwarded",
        "is_on_cluster",
        "max_version",
        "min_version",
    )

    def __init__(self, api: Api, metrics: NodeMetrics) -> None:
        self.api = api
        self.min_version = api.min_version
        self.max_version = api.max_version
        self.bytes_max = api.bytes_max
        self.is_forwarded = api.forwarded
        flexible = (version for version in range(api.min_version, api.max_version + 1) if is_flexible(api.key, version))
        self.flexible_from = next(flexible, api.max_version + 1)
        self.codec = load_codec(api)
        self.handle: Handle = import_module(f"tidelog.api.handlers.{api.handler}").handle
        self.is_coroutine = iscoroutinefunction(self.handle)
        self.is_on_cluster = api.permission.is_on_cluster
        """Whether the caller needs the permission on the cluster, which is asked before the handler is called."""
        self.duration = metrics.api(api.key, api_name(api.key)).duration


def load_codec(api: Api) -> Codec:
    if api.codec is None:
        from tidelog.api.codecs.generated import GeneratedCodec

        return GeneratedCodec(api.key)
    codec: Codec = import_module(f"tidelog.api.codecs.{api.codec}").CODEC
    return codec
