"""kcat: metadata, records and offset queries."""

from __future__ import annotations

import json

from tests.conformance.kcat.client import consume, produce, run
from tests.conformance.sample import samples
from tests.servers.broker_process import BrokerProcess
from tests.servers.topics import create_topic, produce_values
from tests.servers.wire import Connection


def test_metadata_lists_the_broker_and_the_topic(broker: BrokerProcess, connection: Connection) -> None:
    topic = create_topic(connection, partitions=3)
    metadata = json.loads(run(broker.bootstrap, "-L", "-J"))
    assert [entry["name"] for entry in metadata["brokers"]] == [broker.bootstrap]
    [described] = [entry for entry in metadata["topics"] if entry["topic"] == topic]
    assert [partition["partition"] for partition in described["partitions"]] == [0, 1, 2]


def test_records_come_back(broker: BrokerProcess, connection: Connection) -> None:
    topic = create_topic(connection)
    records = samples("kcat")
    produce(broker.bootstrap, topic, records)
    assert consume(broker.bootstrap, topic, len(records)) == records


def test_the_last_records_and_the_end_of_the_partition(broker: BrokerProcess, connection: Connection) -> None:
    topic = create_topic(connection)
    produce_values(connection, topic, b"a", b"b", b"c", b"d")
    arguments = ("-C", "-t", topic, "-p", "0", "-o", "-2", "-e", "-q")
    assert run(broker.bootstrap, *arguments).splitlines() == ["c", "d"]


def test_offsets_are_found_by_time(broker: BrokerProcess, connection: Connection) -> None:
    topic = create_topic(connection)
    produce_values(connection, topic, b"a", b"b", b"c")
    assert run(broker.bootstrap, "-Q", "-t", f"{topic}:0:0").split() == [topic, "[0]", "offset", "0"]
    assert run(broker.bootstrap, "-Q", "-t", f"{topic}:0:-1").split() == [topic, "[0]", "offset", "3"]
