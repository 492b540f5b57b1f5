"""Tidelog: a durable, partitioned event log that speaks Kafka's wire protocol.

    with tidelog.Broker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

The names are imported when they are first used: the command line and the pytest plugin import this package too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidelog.compiled import install as _use_compiled_modules
from tidelog.version import __version__

if TYPE_CHECKING:
    from tidelog.testing.broker import AsyncBroker, Broker

_use_compiled_modules()

__all__ = ["AsyncBroker", "Broker", "__version__"]


def __getattr__(name: str) -> Any:
    if name not in ("AsyncBroker", "Broker"):
        raise AttributeError(f"module 'tidelog' has no attribute {name!r}")
    from tidelog.testing import broker

    found = getattr(broker, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
