"""Tidelog for tests: `Broker` and `AsyncBroker` in the test process, `Cluster` as real processes, a pytest plugin.

    with tidelog.testing.Cluster(nodes=3) as cluster:
        cluster.leader_of("orders").kill()

The names are imported when they are first used: pytest loads the plugin in every run of every project.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidelog.testing.broker import AsyncBroker, Broker
    from tidelog.testing.cluster import Cluster
    from tidelog.testing.cluster_node import ClusterNode
    from tidelog.testing.embedded_cluster import EmbeddedCluster

__all__ = ["AsyncBroker", "Broker", "Cluster", "ClusterNode", "EmbeddedCluster"]

_HOMES = {
    "AsyncBroker": "broker",
    "Broker": "broker",
    "Cluster": "cluster",
    "ClusterNode": "cluster_node",
    "EmbeddedCluster": "embedded_cluster",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'tidelog.testing' has no attribute {name!r}")
    found = getattr(import_module(f"tidelog.testing.{home}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
