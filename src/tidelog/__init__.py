"""Tidelog: a durable, partitioned event log that speaks Kafka's wire protocol.

    with tidelog.Broker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

The names are imported when they are first used: the command line and the pytest plugin import this package too.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tidelog.compiled import install as _use_compiled_modules
from tidelog.version import __version__

if TYPE_CHECKING:
    from tidelog.config.setting import ConfigError
    from tidelog.model.errors import BrokerError
    from tidelog.node.errors import NodeStartError
    from tidelog.testing.broker import AsyncBroker, Broker

_use_compiled_modules()

__all__ = ["AsyncBroker", "Broker", "BrokerError", "ConfigError", "NodeStartError", "__version__"]

_HOMES = {
    "AsyncBroker": "tidelog.testing.broker",
    "Broker": "tidelog.testing.broker",
    "BrokerError": "tidelog.model.errors",
    "ConfigError": "tidelog.config.setting",
    "NodeStartError": "tidelog.node.errors",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'tidelog' has no attribute {name!r}")
    found = getattr(import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
