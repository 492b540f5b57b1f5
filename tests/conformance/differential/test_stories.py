"""Groups live through the same random stories on Apache Kafka and on Tidelog, and clients are told the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.conformance.differential.group_story import SETTINGS, TOPICS, GroupStory
from tests.conformance.differential.story import Parted, Side, Story
from tests.conformance.protocol.world import make_topic, topic_ids_of, wait_for_coordinators
from tests.servers.apache_kafka import start_kafka
from tests.servers.broker_process import BrokerProcess
from tests.servers.tidelog_node import start_tidelog
from tests.servers.tools import require_kafka
from tests.servers.wire import Connection

pytestmark = pytest.mark.java

STEPS = 40


class Stage:
    """Both brokers, with the topics that the stories speak about."""

    def __init__(self, *brokers: BrokerProcess) -> None:
        self._ports = [broker.port for broker in brokers]
        self._topic_ids = [_prepare(port) for port in self._ports]

    def play(self, seed: int) -> None:
        sides = [
            Side(kind, port, topic_ids)
            for kind, port, topic_ids in zip(("Kafka", "Tidelog"), self._ports, self._topic_ids, strict=True)
        ]
        try:
            with suppress(Parted):
                GroupStory(Story(*sides), seed).run(STEPS)
        finally:
            for side in sides:
                side.close()


def _prepare(port: int) -> dict[str, bytes]:
    with Connection(port) as connection:
        for name, partitions in TOPICS.items():
            make_topic(connection, name, partitions)
        wait_for_coordinators(connection)
        return topic_ids_of(connection, *TOPICS)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    require_kafka()
    directory: Path = tmp_path_factory.mktemp("stories")
    with (
        start_kafka(directory / "kafka", settings=SETTINGS) as kafka,
        start_tidelog(directory / "tidelog", settings=SETTINGS) as tidelog,
    ):
        yield Stage(kafka, tidelog)


@pytest.mark.parametrize("seed", range(12))
def test_members_are_told_the_same(stage: Stage, seed: int) -> None:
    stage.play(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 1300))
def test_members_are_told_the_same_in_many_stories(stage: Stage, seed: int) -> None:
    stage.play(seed)
