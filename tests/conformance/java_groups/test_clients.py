"""Java's consumer in groups of both protocols: console consumer, VerifiableProducer and VerifiableConsumer."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from tests.conformance.groups.member import Groups
from tests.conformance.groups.processes import MemberProcess, share_and_leave
from tests.conformance.transactions.producer import WireProducer
from tests.servers.apache_kafka import tool_command
from tests.servers.broker_process import BrokerProcess
from tests.servers.java_tools import TOOLS, JavaTools
from tests.servers.tools import require_kafka
from tests.servers.topics import create_topic, list_offset, produce_values
from tests.servers.wire import Connection

pytestmark = pytest.mark.java

PROTOCOLS = ("classic", "consumer")
RECORDS = 2000


def verifiable(name: str, *arguments: str) -> list[dict[str, Any]]:
    """What a verifiable client printed, one JSON object a line. It ends in a shutdown hook, so it has its own JVM."""
    require_kafka()
    done = subprocess.run(
        tool_command(TOOLS[name], *arguments), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_console_consumer_goes_on_where_its_group_was(
    java_tools: JavaTools, broker: BrokerProcess, connection: Connection, protocol: str
) -> None:
    topic, group = create_topic(connection), Groups(connection).group()
    produce_values(connection, topic, *[b"value-%d" % number for number in range(10)])

    def consume(count: int) -> list[str]:
        output = java_tools.run(
            "console-consumer",
            *("--bootstrap-server", broker.bootstrap, "--topic", topic, "--group", group, "--from-beginning"),
            *("--max-messages", str(count), "--timeout-ms", "30000"),
            *("--command-property", f"group.protocol={protocol}"),
        )
        return output.check().split()

    assert consume(4) == [f"value-{number}" for number in range(4)]
    assert consume(6) == [f"value-{number}" for number in range(4, 10)]
    assert Groups(connection).fetch(group, topic) == (0, 10)


@pytest.mark.timeout(180)
def test_verifiable_clients(broker: BrokerProcess, connection: Connection) -> None:
    topic = create_topic(connection, partitions=3)
    common = ("--bootstrap-server", broker.bootstrap, "--topic", topic)
    produced = verifiable("verifiable-producer", *common, "--max-messages", str(RECORDS), "--throughput", "-1")
    acknowledged = [event for event in produced if event["name"] == "producer_send_success"]
    assert [event for event in produced if event["name"] == "producer_send_error"] == []
    assert sorted(int(event["value"]) for event in acknowledged) == list(range(RECORDS))
    ends = [list_offset(connection, topic, partition, -1)[2] for partition in range(3)]
    assert sum(ends) == RECORDS
    for protocol in PROTOCOLS:
        group = Groups(connection).group()
        options = ("--max-messages", str(RECORDS), "--group-id", group, "--group-protocol", protocol)
        events = verifiable("verifiable-consumer", *common, *options, "--reset-policy", "earliest", "--verbose")
        names = [event["name"] for event in events]
        assert names[0] == "startup_complete"
        assert "shutdown_complete" in names
        [assigned] = [event["partitions"] for event in events if event["name"] == "partitions_assigned"]
        assert sorted(entry["partition"] for entry in assigned) == [0, 1, 2]
        read = [(event["partition"], event["offset"]) for event in events if event["name"] == "record_data"]
        assert sorted(read) == [(partition, offset) for partition in range(3) for offset in range(ends[partition])]
        commits = [event for event in events if event["name"] == "offsets_committed"]
        assert all(event["success"] for event in commits)
        # The producer may have chosen to write nothing to the one that is asked for.
        assert Groups(connection).fetch(group, topic) == (0, ends[0] or -1)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_two_verifiable_consumers_and_one(broker: BrokerProcess, connection: Connection, protocol: str) -> None:
    require_kafka()
    topic, group = create_topic(connection, partitions=4), Groups(connection).group()
    where = ("--bootstrap-server", broker.bootstrap, "--topic", topic, "--reset-policy", "earliest")
    how = ("--group-id", group, "--group-protocol", protocol, "--verbose")

    def start() -> MemberProcess:
        return MemberProcess(tool_command(TOOLS["verifiable-consumer"], *where, *how))

    share_and_leave(connection, topic, 4, start)
    assert Groups(connection).listed(group).group_type == protocol


def test_no_transaction_hangs_that_its_coordinator_knows(
    java_tools: JavaTools, broker: BrokerProcess, connection: Connection
) -> None:
    topic = create_topic(connection)
    producer = WireProducer(connection).started()
    assert producer.produce(topic, b"open", version=12) == 0
    arguments = ("find-hanging", "--broker-id", "1", "--topic", topic, "--max-transaction-timeout", "0")
    output = java_tools.run("transactions", "--bootstrap-server", broker.bootstrap, *arguments).check()
    assert output.split()[:2] == ["Topic", "Partition"]
    assert topic not in output
    assert producer.end_settled(commit=False, version=5) == 0
