"""A small client for the HTTP door of Tidelog: a session reads its own writes, whichever node answers.

    with Session(["127.0.0.1:8080", "127.0.0.1:8081"]) as session:
        offset = session.publish("orders", 0, b"one").offset
        assert session.fetch("orders", 0, offset).records[0].value == b"one"

Standard library only, and nothing else of Tidelog. `AsyncSession` is the same with `await`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidelog.client.async_session import AsyncSession
    from tidelog.client.errors import RequestFailed
    from tidelog.client.exchange import Patience
    from tidelog.client.results import BatchPublished, Fetched, Published, Record, StreamedRecord
    from tidelog.client.session import Session

__all__ = [
    "AsyncSession",
    "BatchPublished",
    "Fetched",
    "Patience",
    "Published",
    "Record",
    "RequestFailed",
    "Session",
    "StreamedRecord",
]

_HOMES = {
    "AsyncSession": "async_session",
    "BatchPublished": "results",
    "Fetched": "results",
    "Patience": "exchange",
    "Published": "results",
    "Record": "results",
    "RequestFailed": "errors",
    "Session": "session",
    "StreamedRecord": "results",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'tidelog.client' has no attribute {name!r}")
    found = getattr(import_module(f"tidelog.client.{home}"), name)
    globals()[name] = found
    return found
