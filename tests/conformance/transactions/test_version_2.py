"""Transaction version 2 (KIP-890): writes add their partitions, and every end moves the epoch."""

from __future__ import annotations

import pytest
from tests.conformance.transactions.producer import WireProducer, committed_offset, new_group, read
from tests.servers.topics import create_topic
from tests.servers.wire import Connection

from tidelog.model.errors import ErrorCode as Code
from tidelog.protocol.generated.api_versions import ApiVersionsRequest


@pytest.fixture
def topic(connection: Connection) -> str:
    return create_topic(connection, "txn", partitions=2)


@pytest.fixture
def producer(connection: Connection) -> WireProducer:
    return WireProducer(connection).started()


def test_it_is_announced(connection: Connection) -> None:
    answer = connection.call(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 4)
    assert {f.name: f.max_version_level for f in answer.finalized_features}["transaction.version"] == 2
    assert {f.name: (f.min_version, f.max_version) for f in answer.supported_features}["transaction.version"] == (0, 2)


@pytest.mark.parametrize("version", [12, 13])
def test_the_first_write_adds_its_partition_and_the_end_moves_the_epoch(
    connection: Connection, producer: WireProducer, topic: str, version: int
) -> None:
    epoch = producer.epoch
    for number, commit in enumerate((True, False, True)):
        for partition in (0, 1):
            assert producer.produce(topic, b"%d" % number, partition=partition, version=version) == 0
            assert producer.produce(topic, b"again", partition=partition, version=version) == 0
        assert sorted(producer.describe().topics[0].partitions) == [0, 1]
        assert producer.end_settled(commit=commit, version=5) == 0
        assert producer.epoch == epoch + number + 1
        producer.wait_for("CompleteCommit" if commit else "CompleteAbort")
    for partition in (0, 1):
        assert read(connection, topic, partition=partition) == [b"0", b"again", b"2", b"again"]


def test_a_late_end_cannot_touch_the_next_transaction(
    connection: Connection, producer: WireProducer, topic: str
) -> None:
    late = WireProducer(connection, producer.transactional_id)
    late.producer_id, late.epoch = producer.producer_id, producer.epoch
    assert producer.produce(topic, b"one", version=12) == 0
    assert producer.end(commit=True, version=5) == 0
    producer.wait_for("CompleteCommit")
    assert producer.produce(topic, b"two", version=12) == 0
    assert late.end(commit=False, version=5) == Code.PRODUCER_FENCED
    late.epoch = producer.epoch - 1
    assert late.end(commit=True, version=5) == Code.PRODUCER_FENCED
    assert late.produce(topic, b"late", version=12, base_sequence=1) == Code.INVALID_PRODUCER_EPOCH
    assert producer.describe().transaction_state == "Ongoing"
    assert producer.end(commit=True, version=5) == 0
    producer.wait_for("CompleteCommit")
    assert read(connection, topic) == [b"one", b"two"]


def test_a_repeated_end_is_answered_like_the_first(connection: Connection, producer: WireProducer, topic: str) -> None:
    assert producer.produce(topic, b"one", version=12) == 0
    repeated = WireProducer(connection, producer.transactional_id)
    repeated.producer_id, repeated.epoch = producer.producer_id, producer.epoch
    assert producer.end(commit=True, version=5) == 0
    producer.wait_for("CompleteCommit")
    assert repeated.end(commit=True, version=5) == 0
    assert repeated.epoch == producer.epoch
    repeated.epoch -= 1
    assert repeated.end(commit=False, version=5) == Code.INVALID_TXN_STATE


def test_an_empty_transaction_can_be_aborted_and_not_committed(producer: WireProducer, topic: str) -> None:
    epoch = producer.epoch
    assert producer.end(commit=True, version=5) == Code.INVALID_TXN_STATE
    assert producer.end(commit=False, version=5) == 0
    assert producer.epoch == epoch + 1
    producer.wait_for("CompleteAbort")
    assert producer.end(commit=True, version=5) == Code.INVALID_TXN_STATE
    assert producer.end_settled(commit=False, version=5) == 0
    assert producer.epoch == epoch + 2
    producer.wait_for("CompleteAbort")
    assert producer.produce(topic, b"x", version=12) == 0
    assert producer.end(commit=True, version=5) == 0
    assert producer.epoch == epoch + 3


def test_offsets_add_their_partition(connection: Connection, producer: WireProducer, topic: str) -> None:
    group = new_group(connection)
    assert producer.commit_offset(group, topic, 5, version=5) == 0
    assert committed_offset(connection, group, topic, stable=True) == (Code.UNSTABLE_OFFSET_COMMIT, -1)
    assert producer.end(commit=True, version=5) == 0
    producer.wait_for("CompleteCommit")
    assert committed_offset(connection, group, topic, stable=True) == (0, 5)


def test_a_timed_out_producer_is_fenced(connection: Connection, topic: str) -> None:
    producer = WireProducer(connection).started(timeout_ms=1000)
    assert producer.produce(topic, b"late", version=12) == 0
    producer.wait_for("CompleteAbort")
    assert producer.produce(topic, b"later", version=12) == Code.INVALID_PRODUCER_EPOCH
    assert read(connection, topic) == []


@pytest.mark.parametrize("asks", ["init", "end"])
def test_a_timed_out_producer_may_ask_for_the_next_epoch(connection: Connection, topic: str, asks: str) -> None:
    producer = WireProducer(connection).started(timeout_ms=1000)
    assert producer.produce(topic, b"late", version=12) == 0
    producer.wait_for("CompleteAbort")
    code = producer.init(expects=True) if asks == "init" else producer.end_settled(commit=False, version=5)
    assert (code, producer.epoch) == (0, 1)
    assert producer.produce(topic, b"again", version=12) == 0


def test_going_on_aborts_what_is_open(producer: WireProducer, topic: str) -> None:
    assert producer.produce(topic, b"gone", version=12) == 0
    assert (producer.init(expects=True), producer.epoch) == (0, 1)
    assert read(producer.connection, topic) == []


def test_a_producer_that_is_not_known_begins_at_0(producer: WireProducer, topic: str) -> None:
    assert producer.produce(topic, b"second", version=12, base_sequence=1) == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producer.produce(topic, b"first", version=12, base_sequence=0) == 0
    assert producer.produce(topic, b"second", version=12, base_sequence=1) == 0


def test_nodes_add_and_verify_for_several_transactions(producer: WireProducer, topic: str) -> None:
    assert producer.add_between_nodes(topic, 0, verify_only=True) == [Code.TRANSACTION_ABORTABLE]
    assert producer.describe().transaction_state == "Empty"
    assert producer.add_between_nodes(topic, 0) == [0]
    assert producer.add_between_nodes(topic, 0, 1, verify_only=True) == [0, Code.TRANSACTION_ABORTABLE]
    producer.epoch += 1
    assert producer.add_between_nodes(topic, 0, verify_only=True) == [Code.PRODUCER_FENCED]
    assert producer.add_between_nodes(topic, 0) == [Code.PRODUCER_FENCED]
