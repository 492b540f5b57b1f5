"""Fixtures of the suites that drive real processes; one broker serves all tests of a worker."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tidelog import compiled

if os.environ.get(compiled.VARIABLE) != "1":
    # Tests in this process put their own parts in place of real ones, which only plain Python allows. Brokers in
    # processes of their own are what a user starts: compiled where that is possible.
    compiled.disable()

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what it runs in the background so, and children inherit it: the commands could not be interrupted.
    signal.signal(signal.SIGINT, signal.default_int_handler)

from tests.servers.broker_process import BrokerProcess
from tests.servers.java_tools import JavaTools
from tests.servers.target import start_target, target_kind
from tests.servers.tools import require_kafka
from tests.servers.wire import Connection

from tidelog.telemetry import logs

# How fast an example runs depends on what else the machine does; a test that hangs has the time-out of all tests. On CI
# the same commit gets the same answer; new examples are looked for where somebody is there to look at them.
settings.register_profile(
    "tidelog",
    deadline=None,
    derandomize=os.environ.get("CI") == "true",
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("tidelog")


LONG_FILES = (
    *("/faults/", "/simulation/", "/conformance/streams/", "/conformance/java"),
    *("/documents/", "/pipelines/test_", "kills"),
)
"""Parts of the paths of files whose few tests take long."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # The order is random but for this: begun first, long files do not keep one worker busy when all others are done.
    items.sort(key=lambda item: not any(part in str(item.path) for part in LONG_FILES))
    if compiled.is_compiled():
        for item in items:
            if item.get_closest_marker("plain"):
                item.add_marker(pytest.mark.skip(reason="plain Python only"))


@pytest.fixture(autouse=True)
def lines_are_not_limited_by_earlier_tests() -> None:
    """The limiter of log lines belongs to the process: what one test logged would hold back lines of the next."""
    logs.limited_lines = logs.LimitedLines()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """The broker under test, with its stock settings."""
    if target_kind() == "kafka":
        require_kafka()
    with start_target(tmp_path_factory.mktemp("broker")) as process:
        yield process
        assert process.alive(), f"the broker ended while it was tested: {process.log_text()[-2000:]}"


@pytest.fixture(scope="session")
def java_tools() -> Iterator[JavaTools]:
    """Kafka's own command line tools."""
    require_kafka()
    with JavaTools() as tools:
        yield tools


@pytest.fixture
def connection(broker: BrokerProcess) -> Iterator[Connection]:
    """A bare connection to the broker under test."""
    with Connection(broker.port) as opened:
        yield opened
