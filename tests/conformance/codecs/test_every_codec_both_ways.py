"""Every client writes with every codec, and every client reads what all of them wrote.

One topic per codec holds the records of all writers, so each reader meets the batches of each writer: their framing of
snappy, their lz4 blocks, their gzip headers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from tests.conformance.aiokafka import client as aiokafka
from tests.conformance.confluent_kafka import client as confluent_kafka
from tests.conformance.java import client as java
from tests.conformance.kafka_python import client as kafka_python
from tests.conformance.kcat import client as kcat
from tests.conformance.sample import CODECS, Sample, samples
from tests.servers.broker_process import BrokerProcess
from tests.servers.java_tools import JavaTools
from tests.servers.topics import create_topic
from tests.servers.wire import Connection

CLIENTS = ("confluent_kafka", "kafka_python", "aiokafka", "kcat", "java")
PYTHON_CLIENTS = {"confluent_kafka": confluent_kafka, "kafka_python": kafka_python, "aiokafka": aiokafka}

# lz4 as kcat writes and reads it is that of its librdkafka; nothing is known not to work.


def writer(name: str, request: pytest.FixtureRequest) -> Callable[..., None]:
    if name == "java":
        return partial(java.produce, request.getfixturevalue("java_tools"))
    return kcat.produce if name == "kcat" else PYTHON_CLIENTS[name].produce


def reader(name: str, request: pytest.FixtureRequest) -> Callable[..., list[Sample]]:
    if name == "java":
        tools: JavaTools = request.getfixturevalue("java_tools")
        return partial(java.consume, tools)
    return kcat.consume if name == "kcat" else PYTHON_CLIENTS[name].consume


@pytest.fixture(scope="module")
def topics(broker: BrokerProcess) -> dict[tuple[str, str], str]:
    """(writer, codec) -> topic; filled by the first test that asks."""
    return {}


def written(
    topics: dict[tuple[str, str], str], broker: BrokerProcess, name: str, codec: str, request: pytest.FixtureRequest
) -> str:
    if (name, codec) not in topics:
        with Connection(broker.port) as connection:
            topic = create_topic(connection, f"{codec}-by-{name}")
        writer(name, request)(broker.bootstrap, topic, samples(f"{name} {codec}"), codec)
        topics[name, codec] = topic
    return topics[name, codec]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    "read_by", [pytest.param(name, marks=pytest.mark.java) if name == "java" else name for name in CLIENTS]
)
@pytest.mark.parametrize(
    "written_by", [pytest.param(name, marks=pytest.mark.java) if name == "java" else name for name in CLIENTS]
)
def test_what_one_client_writes_another_reads(
    topics: dict[tuple[str, str], str],
    broker: BrokerProcess,
    request: pytest.FixtureRequest,
    written_by: str,
    read_by: str,
    codec: str,
) -> None:
    expected = samples(f"{written_by} {codec}")
    topic = written(topics, broker, written_by, codec, request)
    assert reader(read_by, request)(broker.bootstrap, topic, len(expected)) == expected
