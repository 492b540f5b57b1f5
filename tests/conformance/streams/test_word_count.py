"""Kafka Streams with exactly_once_v2, killed with SIGKILL while input goes on: every word is counted exactly once."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conformance.streams.word_count import Input, Instance, Output, compile_program
from tests.servers.apache_kafka import MissingTool
from tests.servers.broker_process import BrokerProcess
from tests.servers.tools import missing, require_kafka
from tests.servers.topics import create_topic, new_name
from tests.servers.wire import Connection

pytestmark = pytest.mark.java

PARTITIONS = 3
PROGRESS = 300
"""Counts that must come out between two kills."""
PROGRESS_TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> str:
    require_kafka()
    try:
        return compile_program(tmp_path_factory.mktemp("classes"))
    except MissingTool as error:
        missing(str(error))
        raise


class Application:
    """Topics, instances, input and output of one run."""

    def __init__(self, classes: str, broker: BrokerProcess, connection: Connection, place: Path, count: int) -> None:
        source = create_topic(connection, "lines", partitions=PARTITIONS)
        sink = create_topic(connection, "counts", partitions=PARTITIONS)
        name = new_name("word-count")
        self.place = place
        self.instances = [
            Instance(classes, broker.bootstrap, name, (source, sink), place / str(number)) for number in range(count)
        ]
        self.output = Output(broker.bootstrap, sink)
        self.input = Input(broker.port, source, PARTITIONS, seed=random.randrange(1 << 32))
        self.input.start()

    def wait_progress(self, timeout_s: float = PROGRESS_TIMEOUT_S) -> None:
        self.output.wait_total(self.output.total + PROGRESS, self.instances, timeout_s)

    def finish(self) -> None:
        """Ends the input and waits until all of it is counted."""
        expected = self.input.finish()
        self.output.wait_total(expected.total(), self.instances, PROGRESS_TIMEOUT_S)
        for instance in self.instances:
            assert instance.close() == 0, instance.log_text()[-3000:]
        # Whatever would have been written twice is there by now.
        self.output.poll(1.0)
        self.output.check(expected)

    def end(self) -> None:
        for instance in self.instances:
            instance.end()
        self.input.finish()
        self.output.close()


@pytest.fixture
def application(
    classes: str, broker: BrokerProcess, connection: Connection, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Application]:
    running = Application(classes, broker, connection, tmp_path, getattr(request, "param", 1))
    yield running
    running.end()


@pytest.mark.timeout(180)
def test_counts_are_exact_after_kills(application: Application) -> None:
    [instance] = application.instances
    instance.start()
    application.wait_progress()
    instance.kill()
    instance.start()
    application.wait_progress()
    instance.kill()
    # Without its local state it is another process to the group, and rebuilds its counts from the changelog.
    shutil.rmtree(application.place / "0" / "state")
    instance.start()
    application.wait_progress()
    application.finish()


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("application", [2], indirect=True)
def test_counts_are_exact_with_two_instances_killed_in_turn(application: Application) -> None:
    for instance in application.instances:
        instance.start()
    for round_number in range(12):
        application.wait_progress()
        instance = application.instances[round_number % 2]
        if round_number % 3 == 2:
            assert instance.close() == 0, instance.log_text()[-3000:]
        else:
            instance.kill()
        instance.start()
    application.finish()
