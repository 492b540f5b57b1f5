"""A real node and the real command: every test here runs `tidelog` as a process against a broker.

It is the `broker` of all suites; TIDELOG_TEST_BOOTSTRAP names one that runs already. The command line must work with
an Apache Kafka too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from tests.cli.command import Command, Topics, make_name


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest) -> str:
    given = os.environ.get("TIDELOG_TEST_BOOTSTRAP")
    return given or f"127.0.0.1:{request.getfixturevalue('broker').port}"


@pytest.fixture
def tidelog(bootstrap: str) -> Command:
    return Command(bootstrap)


@pytest.fixture(scope="session")
def topics(bootstrap: str) -> Topics:
    return Topics(bootstrap)


@pytest.fixture
def new_name(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Names for topics and groups that no other test, and no earlier run on the same broker, has used."""
    return lambda: make_name(request.node.name)


@pytest.fixture
def new_topic(topics: Topics, new_name: Callable[[], str]) -> Iterator[Callable[..., str]]:
    """Makes topics that are deleted after the test."""
    made: list[str] = []

    def make(partitions: int = 1, **configs: str) -> str:
        made.append(new_name())
        topics.create(made[-1], partitions, {name.replace("_", "."): value for name, value in configs.items()})
        return made[-1]

    yield make
    topics.delete(made)
