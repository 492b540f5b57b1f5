"""The pytest plugin: a real broker in the test process, and a real cluster beside it.

pytest loads this module in every run of every project that has Tidelog installed, so it imports nothing but pytest;
the broker is imported by the first test that asks for a fixture.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tidelog.testing.broker import Broker
    from tidelog.testing.cluster import Cluster

_topic_numbers = count(1)


@pytest.fixture(scope="session")
def tidelog_config() -> Mapping[str, Any]:
    """Settings of the session's broker, by Kafka's names. Override it in conftest.py to change them."""
    return {}


@pytest.fixture(scope="session")
def tidelog_broker(tidelog_config: Mapping[str, Any]) -> Iterator[Broker]:
    """One broker for the whole run, on a free port, with temporary data."""
    from tidelog.testing.broker import Broker

    with Broker(tidelog_config) as broker:
        yield broker


@pytest.fixture(scope="session")
def tidelog_bootstrap_servers(tidelog_broker: Broker) -> str:
    """What clients call `bootstrap.servers`."""
    return tidelog_broker.bootstrap_servers


@pytest.fixture
def tidelog_create_topic(tidelog_broker: Broker, request: pytest.FixtureRequest) -> Callable[..., str]:
    """Makes topics no other test has: `tidelog_create_topic(partitions=3, configs={"cleanup.policy": "compact"})`."""

    def create(partitions: int = 1, configs: Mapping[str, Any] | None = None) -> str:
        return tidelog_broker.create_topic(_fresh_name(request), partitions, configs)

    return create


@pytest.fixture
def tidelog_topic(tidelog_create_topic: Callable[..., str]) -> str:
    """The name of a topic with one partition that only this test has."""
    return tidelog_create_topic()


@pytest.fixture
def tidelog_broker_factory() -> Iterator[Callable[..., Broker]]:
    """Starts brokers of the test's own, for tests that stop or restart them; arguments as for `tidelog.Broker`."""
    from tidelog.testing.broker import Broker

    started: list[Broker] = []

    def start(config: Mapping[str, Any] | None = None, **options: Any) -> Broker:
        broker = Broker(config, **options)
        started.append(broker.start())
        return broker

    yield start
    for broker in reversed(started):
        broker.stop()


@pytest.fixture(scope="session")
def tidelog_cluster_config() -> Mapping[str, Any]:
    """Settings of the nodes of the session's cluster, by Kafka's names. Override it in conftest.py to change them."""
    return {}


@pytest.fixture(scope="session")
def tidelog_cluster_nodes() -> int:
    """How many nodes the session's cluster has. Override it in conftest.py to change that."""
    return 3


@pytest.fixture(scope="session")
def _tidelog_session_cluster(
    tidelog_cluster_config: Mapping[str, Any], tidelog_cluster_nodes: int
) -> Iterator[Cluster]:
    from tidelog.testing.cluster import Cluster

    with Cluster(tidelog_cluster_nodes, tidelog_cluster_config) as cluster:
        yield cluster


@pytest.fixture
def tidelog_cluster(_tidelog_session_cluster: Cluster) -> Cluster:
    """One cluster of real processes for the whole run. Every test gets it whole, whatever the last one did to it."""
    _tidelog_session_cluster.restore()
    return _tidelog_session_cluster


@pytest.fixture
def tidelog_cluster_topic(tidelog_cluster: Cluster, request: pytest.FixtureRequest) -> str:
    """The name of a replicated topic with one partition that only this test has."""
    return tidelog_cluster.create_topic(_fresh_name(request), 1)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """A test with a cluster that fails is shown with the last lines of every node's log."""
    outcome = yield
    report = outcome.get_result()
    cluster = getattr(item, "funcargs", {}).get("_tidelog_session_cluster")
    if cluster is not None and report.failed:
        report.sections.append(("Nodes of tidelog_cluster", cluster.describe_logs()))


def _fresh_name(request: pytest.FixtureRequest) -> str:
    words = re.sub(r"[^a-zA-Z0-9._-]+", "-", request.node.name).strip("-")[:100]
    return f"{words}-{next(_topic_numbers)}"
