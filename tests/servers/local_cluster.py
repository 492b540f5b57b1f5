"""Clusters of real processes for a test: started with settings, stopped in the end whatever happened to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.servers.broker_process import free_ports

from tidelog.cli.local_cluster import VOTERS_MAX, LocalCluster
from tidelog.cli.node_arguments import NodeArguments


@contextmanager
def run_local_cluster(
    data: Path,
    settings: Mapping[str, str],
    *,
    nodes: int = 3,
    voters_max: int = VOTERS_MAX,
    log_level: str = "warning",
) -> Iterator[LocalCluster]:
    """Every node is ready. The ports are none that clients are given, and stay free while nodes are away."""
    arguments = ["--log-level", log_level]
    for name, value in settings.items():
        arguments += ["-o", f"{name}={value}"]
    port = free_ports(nodes)[0]
    cluster = LocalCluster(
        nodes=nodes, data=data, host="127.0.0.1", port=port, arguments=NodeArguments(arguments), voters_max=voters_max
    )
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.stop()
