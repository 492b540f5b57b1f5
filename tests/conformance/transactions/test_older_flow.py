"""The flow before transaction version 2: partitions are announced, the epoch stays; error by error as Kafka answers."""

from __future__ import annotations

import pytest
from tests.conformance.transactions.producer import WireProducer, committed_offset, fetch, new_group, read
from tests.servers.topics import create_topic, new_name
from tests.servers.wire import Connection

from tidelog.model.errors import ErrorCode as Code


@pytest.fixture
def topic(connection: Connection) -> str:
    return create_topic(connection, "txn", partitions=2)


@pytest.fixture
def producer(connection: Connection) -> WireProducer:
    return WireProducer(connection).started()


def test_committed_records_are_read_and_aborted_ones_are_not(
    connection: Connection, producer: WireProducer, topic: str
) -> None:
    for number, commit in enumerate((True, False, True)):
        assert producer.add(topic, 0, 1) == [0, 0]
        for partition in (0, 1):
            assert producer.produce(topic, b"%d" % number, b"more", partition=partition) == 0
        assert producer.end(commit=commit) == 0
        producer.wait_for("CompleteCommit" if commit else "CompleteAbort")
    for partition in (0, 1):
        assert read(connection, topic, partition=partition) == [b"0", b"more", b"2", b"more"]
        everything = read(connection, topic, partition=partition, committed=False)
        assert everything == [b"0", b"more", b"1", b"more", b"2", b"more"]


def test_open_transactions_hold_back_readers_of_committed_data(
    connection: Connection, producer: WireProducer, topic: str
) -> None:
    other = WireProducer(connection).started()
    assert producer.add(topic) == [0]
    assert producer.produce(topic, b"first") == 0
    assert other.add(topic) == [0]
    assert other.produce(topic, b"second") == 0
    assert other.end(commit=True) == 0
    other.wait_for("CompleteCommit")
    assert read(connection, topic) == []
    assert fetch(connection, topic, committed=True).last_stable_offset == 0
    assert read(connection, topic, committed=False) == [b"first", b"second"]
    assert producer.end(commit=False) == 0
    producer.wait_for("CompleteAbort")
    assert read(connection, topic) == [b"second"]


def test_a_partition_that_was_not_added_is_refused(connection: Connection, producer: WireProducer, topic: str) -> None:
    assert producer.produce(topic, b"x", version=11) == Code.TRANSACTION_ABORTABLE
    assert producer.produce(topic, b"x", version=10, base_sequence=0) == Code.INVALID_TXN_STATE
    assert producer.add(topic, 1) == [0]
    assert producer.produce(topic, b"x", version=11, base_sequence=0) == Code.TRANSACTION_ABORTABLE
    assert producer.produce(topic, b"x", partition=1) == 0
    assert read(connection, topic, committed=False) == []


def test_a_transactional_batch_needs_a_transactional_id(producer: WireProducer, topic: str) -> None:
    assert producer.add(topic) == [0]
    refused = producer.produce(topic, b"x", transactional_id=None, base_sequence=0)
    assert refused == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_bytes_that_are_no_batch_are_refused_as_elsewhere(producer: WireProducer, topic: str) -> None:
    assert producer.add(topic) == [0]
    assert producer.produce(topic, b"x", magic=9, base_sequence=0) in (Code.CORRUPT_MESSAGE, Code.INVALID_RECORD)
    assert producer.produce(topic, b"x", crc_error=1, base_sequence=0) == Code.CORRUPT_MESSAGE
    assert producer.produce(topic, b"x", producer_id=77, base_sequence=0) == Code.INVALID_PRODUCER_ID_MAPPING
    assert producer.produce(topic, b"good", base_sequence=0) == 0


def test_a_batch_outside_the_transaction_is_refused_while_one_is_open(producer: WireProducer, topic: str) -> None:
    assert producer.add(topic) == [0]
    assert producer.produce(topic, b"x") == 0
    assert producer.produce(topic, b"y", attributes=0) == Code.INVALID_TXN_STATE


@pytest.mark.parametrize("commit", [False, True])
def test_a_sequence_of_a_transaction_that_has_ended_is_not_used_again(
    connection: Connection, producer: WireProducer, topic: str, commit: bool
) -> None:
    """Apache Kafka answers with success and the old offset here, and the second record is lost."""
    assert producer.add(topic) == [0]
    assert producer.produce(topic, b"first") == 0
    assert producer.produce(topic, b"first", base_sequence=0) == 0, "a retry within the transaction"
    assert producer.end(commit=commit) == 0
    producer.wait_for("CompleteCommit" if commit else "CompleteAbort")
    assert producer.add(topic) == [0]
    assert producer.produce(topic, b"second", base_sequence=0) == Code.UNKNOWN_PRODUCER_ID
    assert producer.end(commit=False) == 0
    producer.wait_for("CompleteAbort")
    assert producer.init(expects=True) == 0, "as clients recover: the next epoch begins at 0"
    assert producer.add(topic) == [0]
    assert producer.produce(topic, b"second") == 0
    assert producer.end(commit=True) == 0
    producer.wait_for("CompleteCommit")
    assert read(connection, topic) == ([b"first", b"second"] if commit else [b"second"])


def test_a_second_producer_of_the_id_fences_the_first(connection: Connection, topic: str) -> None:
    first = WireProducer(connection).started()
    assert first.add(topic) == [0]
    assert first.produce(topic, b"zombie") == 0
    second = WireProducer(connection, first.transactional_id).started()
    assert second.producer_id == first.producer_id
    assert second.epoch > first.epoch
    assert read(connection, topic) == []
    assert first.add(topic, version=1) == [Code.INVALID_PRODUCER_EPOCH]
    assert first.add(topic, version=2) == [Code.PRODUCER_FENCED]
    assert first.add_offsets("g", version=1) == Code.INVALID_PRODUCER_EPOCH
    assert first.add_offsets("g", version=2) == Code.PRODUCER_FENCED
    assert first.end(commit=True, version=1) == Code.INVALID_PRODUCER_EPOCH
    assert first.end(commit=True, version=2) == Code.PRODUCER_FENCED
    assert first.init(version=3, expects=True) == Code.INVALID_PRODUCER_EPOCH
    assert first.init(version=4, expects=True) == Code.PRODUCER_FENCED
    assert first.produce(topic, b"zombie") == Code.INVALID_PRODUCER_EPOCH
    assert second.add(topic) == [0]
    assert second.produce(topic, b"alive") == 0
    assert second.end(commit=True) == 0
    second.wait_for("CompleteCommit")
    assert read(connection, topic) == [b"alive"]


def test_a_producer_goes_on_after_an_error_with_its_next_epoch(producer: WireProducer) -> None:
    held = (producer.producer_id, producer.epoch)
    assert producer.init(expects=True) == 0
    assert (producer.producer_id, producer.epoch) == (held[0], held[1] + 1)
    producer.epoch -= 1
    assert producer.init(expects=True) == 0, "a repeated request whose answer was lost"
    assert producer.epoch == held[1] + 1
    producer.epoch += 5
    assert producer.init(expects=True) == Code.PRODUCER_FENCED
    producer.producer_id += 100_000
    assert producer.init(expects=True) == Code.PRODUCER_FENCED


def test_what_init_refuses(connection: Connection, producer: WireProducer) -> None:
    other = WireProducer(connection)
    assert other.init(timeout_ms=0) == Code.INVALID_TRANSACTION_TIMEOUT
    assert other.init(timeout_ms=900_001) == Code.INVALID_TRANSACTION_TIMEOUT
    other.producer_id = 7
    assert other.init(expects=True) == Code.INVALID_REQUEST
    other.transactional_id = ""
    assert other.init() == Code.INVALID_REQUEST


def test_ends_that_are_refused_and_ends_that_are_repeated(producer: WireProducer, topic: str) -> None:
    assert producer.end(commit=True) == Code.INVALID_TXN_STATE
    assert producer.end(commit=False) == Code.INVALID_TXN_STATE
    assert producer.add(topic) == [0]
    assert producer.end(commit=True) == 0
    producer.wait_for("CompleteCommit")
    assert producer.end(commit=True) == 0
    assert producer.end(commit=False) == Code.INVALID_TXN_STATE
    producer.producer_id += 100_000
    assert producer.end(commit=True) == Code.INVALID_PRODUCER_ID_MAPPING
    assert producer.add(topic) == [Code.INVALID_PRODUCER_ID_MAPPING]
    producer.transactional_id = new_name("nobody")
    assert producer.end(commit=True) == Code.INVALID_PRODUCER_ID_MAPPING
    assert producer.add(topic) == [Code.INVALID_PRODUCER_ID_MAPPING]
    producer.transactional_id = ""
    assert producer.end(commit=True) == Code.INVALID_REQUEST


def test_unknown_partitions_keep_the_known_ones_out(producer: WireProducer, topic: str) -> None:
    assert producer.add(topic, 0, 7) == [Code.OPERATION_NOT_ATTEMPTED, Code.UNKNOWN_TOPIC_OR_PARTITION]
    assert producer.describe().transaction_state == "Empty"


def test_offsets_count_when_the_transaction_commits(connection: Connection, producer: WireProducer, topic: str) -> None:
    group = new_group(connection)
    assert committed_offset(connection, group, topic) == (0, -1)
    assert producer.add_offsets(group) == 0
    assert producer.commit_offset(group, topic, 5) == 0
    assert committed_offset(connection, group, topic) == (0, -1)
    assert committed_offset(connection, group, topic, stable=True) == (Code.UNSTABLE_OFFSET_COMMIT, -1)
    assert producer.end(commit=True) == 0
    producer.wait_for("CompleteCommit")
    assert committed_offset(connection, group, topic, stable=True) == (0, 5)
    assert producer.add_offsets(group) == 0
    assert producer.commit_offset(group, topic, 9) == 0
    assert producer.end(commit=False) == 0
    producer.wait_for("CompleteAbort")
    assert committed_offset(connection, group, topic, stable=True) == (0, 5)


def test_offsets_of_a_partition_that_was_not_added_are_refused(
    connection: Connection, producer: WireProducer, topic: str
) -> None:
    group = new_group(connection)
    committed_offset(connection, group, topic)
    assert producer.commit_offset(group, topic, 5, version=3) == Code.INVALID_TXN_STATE
    assert producer.commit_offset(group, topic, 5, version=4) == Code.TRANSACTION_ABORTABLE
    assert producer.add_offsets(group) == 0
    assert producer.commit_offset(group, new_name("missing"), 5) == Code.UNKNOWN_TOPIC_OR_PARTITION
    wrong = {"generation_id": 3, "member_id": "nobody"}
    assert producer.commit_offset(group, topic, 5, **wrong) == Code.ILLEGAL_GENERATION
    producer.epoch -= 1
    assert producer.commit_offset(group, topic, 5) == Code.INVALID_PRODUCER_EPOCH


def test_a_transaction_that_takes_too_long_is_aborted(connection: Connection, topic: str) -> None:
    producer = WireProducer(connection).started(timeout_ms=1000)
    assert producer.add(topic) == [0]
    assert producer.produce(topic, b"late") == 0
    producer.wait_for("CompleteAbort")
    assert producer.describe().producer_epoch == producer.epoch + 1
    assert producer.produce(topic, b"later") == Code.INVALID_PRODUCER_EPOCH
    assert producer.end(commit=True) == Code.PRODUCER_FENCED
    assert read(connection, topic) == []


def test_clients_add_no_internal_topics(producer: WireProducer) -> None:
    assert producer.add("__consumer_offsets", 0) == [Code.TOPIC_AUTHORIZATION_FAILED]
    assert producer.add("__transaction_state", 0) == [Code.TOPIC_AUTHORIZATION_FAILED]
