"""A real node and the real command: every test here runs `tidelog` as a process against a broker.

TIDELOG_TEST_BOOTSTRAP names a broker to use instead of a node of our own, such as an Apache Kafka: the command line
must work with both.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator

import pytest
from tests.cli.command import TIDELOG, Command

READY = re.compile(r"ready on (\S+?),")


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    given = os.environ.get("TIDELOG_TEST_BOOTSTRAP")
    if given:
        yield given
        return
    directory = tmp_path_factory.mktemp("node")
    command = [*TIDELOG, "serve", "--listen", "127.0.0.1:0", "--data", str(directory / "data")]
    with open(directory / "log", "wb") as log:
        node = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert node.stdout is not None
        line = node.stdout.readline()
        ready = READY.search(line)
        assert ready, f"no ready line: {line!r} {(directory / 'log').read_text()}"
        yield ready[1]
    finally:
        node.send_signal(signal.SIGTERM)
        try:
            assert node.wait(timeout=10) == 0
        finally:
            node.kill()
            node.wait()
            if node.stdout is not None:
                node.stdout.close()


@pytest.fixture
def tidelog(bootstrap: str) -> Command:
    return Command(bootstrap)


@pytest.fixture
def new_name(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Names for topics and groups that no other test, and no earlier run on the same broker, has used."""
    base = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:60]

    def make() -> str:
        return f"{base}-{os.urandom(4).hex()}"

    return make


@pytest.fixture
def new_topic(tidelog: Command, new_name: Callable[[], str]) -> Iterator[Callable[..., str]]:
    """Makes topics that are deleted after the test."""
    made: list[str] = []

    def make(partitions: int = 1, *arguments: str) -> str:
        name = new_name()
        tidelog("topics", "create", name, "--partitions", str(partitions), *arguments)
        made.append(name)
        return name

    yield make
    if made:
        tidelog("topics", "delete", "--yes", *made)
