"""Kafka's DumpLogSegments over the files of the broker under test: an oracle that nobody here wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conformance.confluent_kafka.client import produce
from tests.conformance.sample import CODECS, Sample
from tests.servers.broker_process import BrokerProcess
from tests.servers.java_tools import JavaTools
from tests.servers.topics import create_topic, produce_values
from tests.servers.wire import Connection

pytestmark = pytest.mark.java

Dump = Callable[..., str]

COMPLAINTS = re.compile(r"mismatch|corrupt|invalid|isvalid: false|Found|out of order|Unexpected", re.IGNORECASE)
"""What the tool prints when a file does not hold what it should."""


@pytest.fixture
def dump(java_tools: JavaTools) -> Dump:
    def run(path: Path, *options: str) -> str:
        output = java_tools.run("dump-log", "--files", str(path), *options)
        assert output.status == 0, output
        # What stands in the records is other tests' business: a topic may well be called invalid.
        told = re.sub(r"payload: .*$", "", output.stdout, flags=re.MULTILINE).replace("isvalid: true", "")
        assert COMPLAINTS.search(told) is None, output.stdout[-3000:]
        return output.stdout

    return run


def files(broker: BrokerProcess, topic: str, suffix: str, partition: int = 0) -> list[Path]:
    found = sorted((broker.data / f"{topic}-{partition}").glob(f"*{suffix}"))
    assert found, f"no {suffix} of {topic}"
    return found


@pytest.fixture(scope="module")
def rolled(broker: BrokerProcess) -> str:
    """A topic of several segments, written by an idempotent producer in every codec."""
    with Connection(broker.port) as connection:
        topic = create_topic(connection, "rolled", configs={"segment.bytes": "1048576"})
    for codec in CODECS:
        # Text that compresses badly, so that every codec fills its share of the segments.
        records = [Sample(f"key {n}", "".join(hex(hash((codec, n, i)))[3:] for i in range(50))) for n in range(1200)]
        produce(broker.bootstrap, topic, records, codec, **{"enable.idempotence": True, "batch.size": 20_000})
    return topic


def test_every_record_of_every_segment_is_read(broker: BrokerProcess, rolled: str, dump: Dump) -> None:
    paths = files(broker, rolled, ".log")
    assert len(paths) > 2
    offsets: list[int] = []
    codecs: set[str] = set()
    for path in paths:
        output = dump(path, "--deep-iteration", "--print-data-log")
        assert f"Log starting offset: {int(path.stem)}" in output
        offsets += [int(found) for found in re.findall(r"^\| offset: (\d+)", output, re.MULTILINE)]
        codecs |= set(re.findall(r"compresscodec: (\w+)", output))
        assert set(re.findall(r"isvalid: (\w+)", output)) == {"true"}
    assert offsets == list(range(1200 * len(CODECS)))
    assert codecs == set(CODECS)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_indexes_point_where_they_should(broker: BrokerProcess, rolled: str, dump: Dump, suffix: str) -> None:
    """The tool reads the log at every entry and complains where an entry is wrong."""
    for path in files(broker, rolled, suffix)[:-1]:
        output = dump(path)
        entries = re.findall(r"^(?:offset|timestamp): \d+", output, re.MULTILINE)
        assert len(entries) > 3, output


def test_producer_snapshots_name_the_producers(broker: BrokerProcess, rolled: str, dump: Dump) -> None:
    output = dump(files(broker, rolled, ".snapshot")[-1])
    producers = re.findall(r"producerId: (\d+) producerEpoch: 0", output)
    assert producers
    assert len(set(producers)) == len(producers)


def test_headers_null_keys_and_tombstones_are_printed(broker: BrokerProcess, dump: Dump) -> None:
    with Connection(broker.port) as connection:
        topic = create_topic(connection, "shapes")
    produce(
        broker.bootstrap,
        topic,
        [Sample(None, "no key"), Sample("gone", None), Sample("k", "v", (("name", "content"),))],
        "zstd",
    )
    output = dump(files(broker, topic, ".log")[0], "--deep-iteration", "--print-data-log")
    lines = [line for line in output.splitlines() if line.startswith("| ")]
    assert "keySize: -1" in lines[0]
    assert "valueSize: -1" in lines[1]
    assert "headerKeys: [name]" in lines[2]


def test_the_metadata_log_is_kafkas(broker: BrokerProcess, dump: Dump) -> None:
    with Connection(broker.port) as connection:
        topic = create_topic(connection, "in-metadata", partitions=2, configs={"retention.ms": "12345"})
        produce_values(connection, topic, b"x")
    path = files(broker, "__cluster_metadata", ".log")[-1]
    output = dump(path, "--cluster-metadata-decoder")
    records = [json.loads(found) for found in re.findall(r"payload: (\{.*\})$", output, re.MULTILINE)]
    topics = {record["data"]["topicId"]: record["data"] for record in records if record["type"] == "TOPIC_RECORD"}
    [topic_id] = [key for key, data in topics.items() if data["name"] == topic]
    partitions = [record["data"] for record in records if record["type"] == "PARTITION_RECORD"]
    mine = [partition for partition in partitions if partition["topicId"] == topic_id]
    assert sorted(partition["partitionId"] for partition in mine) == [0, 1]
    assert all(partition["leader"] == 1 and partition["isr"] == [1] for partition in mine)
    configs = [record["data"] for record in records if record["type"] == "CONFIG_RECORD"]
    assert {"resourceType": 2, "resourceName": topic, "name": "retention.ms", "value": "12345"} in configs
    voters = re.findall(r"KRaftVoters (\{.*\})$", output, re.MULTILINE)
    assert [voter["voterId"] for voter in json.loads(voters[-1])["voters"]] == [1]
    assert "LeaderChange: " in output
