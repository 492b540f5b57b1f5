"""A cluster of three processes for all tests here; each test gets it whole."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tidelog.testing import Cluster


@pytest.fixture(scope="session")
def running_cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3) as running:
        yield running


@pytest.fixture
def cluster(running_cluster: Cluster) -> Cluster:
    running_cluster.restore()
    return running_cluster
