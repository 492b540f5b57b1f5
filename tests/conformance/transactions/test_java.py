"""Java's transactional producer (transaction version 2) and Kafka's tools for transactions."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from tests.conformance.transactions.producer import WireProducer, fetch, read
from tests.servers.broker_process import BrokerProcess
from tests.servers.java_tools import JavaTools, ToolResult
from tests.servers.target import target_kind
from tests.servers.topics import create_topic, new_name
from tests.servers.wire import Connection

from tidelog.records.batch import iterate_headers

pytestmark = pytest.mark.java

Tool = Callable[..., ToolResult]


@pytest.fixture
def tool(java_tools: JavaTools, broker: BrokerProcess) -> Tool:
    def run(name: str, *arguments: str) -> ToolResult:
        return java_tools.run(name, "--bootstrap-server", broker.bootstrap, *arguments)

    return run


def test_javas_producer_moves_its_epoch_with_every_transaction(
    java_tools: JavaTools, broker: BrokerProcess, connection: Connection
) -> None:
    topic = create_topic(connection)
    name = new_name("perf")
    java_tools.run(
        "producer-perf-test",
        # For two seconds: records that a busy machine held up at the start are sent at once, in one transaction.
        *("--topic", topic, "--num-records", "1000", "--record-size", "10", "--throughput", "500"),
        *("--transactional-id", name, "--transaction-duration-ms", "40"),
        *("--command-property", f"bootstrap.servers={broker.bootstrap}"),
    ).check()
    assert len(read(connection, topic)) == 1000
    data = bytes(fetch(connection, topic, committed=True).records)
    markers = [header.producer_epoch for _, header in iterate_headers(data) if header.is_control]
    assert len(markers) >= 3
    assert markers == list(range(1, len(markers) + 1)), "one epoch per transaction"


def test_console_consumer_reads_committed_records(tool: Tool, connection: Connection) -> None:
    topic = create_topic(connection)
    for number, commit in enumerate((True, False, True)):
        producer = WireProducer(connection).started()
        assert producer.produce(topic, b"value-%d" % number, version=12) == 0
        assert producer.end_settled(commit=commit, version=5) == 0
        producer.wait_for("CompleteCommit" if commit else "CompleteAbort")
    arguments = ("--topic", topic, "--from-beginning", "--max-messages")
    committed = tool("console-consumer", *arguments, "2", "--isolation-level", "read_committed")
    assert committed.check().split() == ["value-0", "value-2"]
    everything = tool("console-consumer", *arguments, "3", "--isolation-level", "read_uncommitted")
    assert everything.check().split() == ["value-0", "value-1", "value-2"]


def test_kafka_transactions_lists_describes_and_aborts(tool: Tool, connection: Connection) -> None:
    topic = create_topic(connection)
    producer = WireProducer(connection).started()
    assert producer.produce(topic, b"hangs", version=12) == 0
    name, producer_id = producer.transactional_id, producer.producer_id
    listed = tool("transactions", "list").check()
    assert re.search(rf"^{name}\s+\d+\s+{producer_id}\s+Ongoing", listed, re.MULTILINE), listed
    matching = tool("transactions", "list", "--transactional-id-pattern", f"{name[:-1]}.*").check()
    assert name in matching
    assert name not in tool("transactions", "list", "--transactional-id-pattern", "nobody").check()
    assert name not in tool("transactions", "list", "--duration-filter", "3600000").check()
    described = tool("transactions", "describe", "--transactional-id", name).check()
    assert re.search(rf"{producer_id}\s+{producer.epoch}\s+Ongoing\s+60000\s", described), described
    assert f"{topic}-0" in described
    producers = tool("transactions", "describe-producers", "--topic", topic, "--partition", "0").check()
    assert re.search(rf"^{producer_id}\s+{producer.epoch}\s", producers, re.MULTILINE), producers
    tool("transactions", "abort", "--topic", topic, "--partition", "0", "--start-offset", "0").check()
    assert fetch(connection, topic, committed=True).last_stable_offset == 2, "the partition does not hang any more"
    assert read(connection, topic) == []


def test_kafka_prints_the_transaction_log(java_tools: JavaTools, broker: BrokerProcess, connection: Connection) -> None:
    if target_kind() == "kafka":
        pytest.skip("the files of the node under test are read")
    topic = create_topic(connection)
    producer = WireProducer(connection).started()
    assert producer.produce(topic, b"x", version=12) == 0
    assert producer.end_settled(commit=True, version=5) == 0
    producer.wait_for("CompleteCommit")
    files = [str(path) for path in sorted(broker.data.glob("__transaction_state-*/*.log")) if path.stat().st_size]
    dumped = java_tools.run("dump-log", "--transaction-log-decoder", "--files", ",".join(files)).check()
    own = [line for line in dumped.splitlines() if producer.transactional_id in line]
    states = [match.group(1) for line in own if (match := re.search(r'"transactionStatus":(\d)', line))]
    assert states == ["0", "1", "2", "4"], own
