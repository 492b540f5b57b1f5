"""A whole transaction with every request in every version it has, each answered in its own form."""

from __future__ import annotations

import pytest
from tests.conformance.transactions.producer import WireProducer, committed_offset, fetch, new_group, read
from tests.servers.topics import create_topic
from tests.servers.wire import Connection

from tidelog.model.errors import ErrorCode as Code
from tidelog.protocol.generated.list_transactions import ListTransactionsRequest
from tidelog.protocol.generated.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)


@pytest.fixture
def topic(connection: Connection) -> str:
    return create_topic(connection, "txn")


@pytest.mark.parametrize("version", range(6))
def test_init_producer_id(connection: Connection, topic: str, version: int) -> None:
    producer = WireProducer(connection).started()
    epoch = producer.epoch
    assert producer.init(version=version) == 0
    assert producer.epoch == epoch + 1


@pytest.mark.parametrize("version", range(4))
def test_add_partitions_by_producers(connection: Connection, topic: str, version: int) -> None:
    producer = WireProducer(connection).started()
    assert producer.add(topic, 0, version=version) == [0]
    assert producer.produce(topic, b"x", version=3 + version) == 0
    assert producer.end(commit=True, version=version) == 0
    producer.wait_for("CompleteCommit")
    assert read(connection, topic) == [b"x"]


@pytest.mark.parametrize("version", [4, 5])
def test_add_partitions_by_nodes(connection: Connection, topic: str, version: int) -> None:
    producer = WireProducer(connection).started()
    assert producer.add_between_nodes(topic, 0, version=version) == [0]
    assert producer.end(commit=False, version=4) == 0


@pytest.mark.parametrize("version", range(6))
def test_offsets(connection: Connection, topic: str, version: int) -> None:
    producer = WireProducer(connection).started()
    group = new_group(connection)
    assert producer.add_offsets(group, version=min(version, 4)) == 0
    assert producer.commit_offset(group, topic, 3, version=version) == 0
    assert producer.end(commit=True, version=version) == 0
    producer.wait_for("CompleteCommit")
    assert committed_offset(connection, group, topic) == (0, 3)


def write_marker(producer: WireProducer, topic: str, epoch: int, transaction_version: int, version: int = 2) -> int:
    """Aborts by hand; the error code of the partition."""
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=epoch,
        transaction_result=False,
        coordinator_epoch=0,
        transaction_version=transaction_version,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
    )
    answer = producer.connection.call(WriteTxnMarkersRequest(markers=[marker]), version)
    [partition] = answer.markers[0].topics[0].partitions
    return int(partition.error_code)


@pytest.mark.parametrize("version", [1, 2])
def test_write_markers(connection: Connection, topic: str, version: int) -> None:
    producer = WireProducer(connection).started()
    assert producer.produce(topic, b"x", version=12) == 0
    epoch = producer.epoch + 1 if version == 2 else producer.epoch
    assert write_marker(producer, topic, epoch, 2 if version == 2 else 0, version) == 0
    assert read(connection, topic) == []
    assert read(connection, topic, committed=False) == [b"x"]


@pytest.mark.parametrize("transaction_version", range(4))
def test_the_epoch_of_a_marker(connection: Connection, topic: str, transaction_version: int) -> None:
    """From transaction version 2 on it must be above that of the open transaction; repeated, it finds none open."""
    producer = WireProducer(connection).started()
    assert write_marker(producer, topic, producer.epoch, transaction_version) == 0, "nothing is known of the producer"
    assert producer.produce(topic, b"x", version=12) == 0
    if transaction_version >= 2:
        assert write_marker(producer, topic, producer.epoch, transaction_version) == Code.INVALID_PRODUCER_EPOCH
        assert fetch(connection, topic, committed=True).last_stable_offset == 1, "the transaction is still open"
        assert write_marker(producer, topic, producer.epoch + 1, transaction_version) == 0
        assert write_marker(producer, topic, producer.epoch + 1, transaction_version) == 0
    else:
        assert write_marker(producer, topic, producer.epoch, transaction_version) == 0
        assert write_marker(producer, topic, producer.epoch, transaction_version) == 0
    assert fetch(connection, topic, committed=True).last_stable_offset > 1


@pytest.mark.parametrize("version", range(3))
def test_list_transactions(connection: Connection, topic: str, version: int) -> None:
    producer = WireProducer(connection).started()
    assert producer.produce(topic, b"x", version=12) == 0

    def names(**filters: object) -> set[str]:
        answer = connection.call(ListTransactionsRequest(**filters), version)  # type: ignore[arg-type]
        assert answer.error_code == 0
        return {state.transactional_id for state in answer.transaction_states}

    name = producer.transactional_id
    assert name in names()
    assert name in names(state_filters=["Ongoing", "Lost"])
    assert name not in names(state_filters=["Lost"])
    assert names(producer_id_filters=[producer.producer_id]) == {name}
    if version >= 1:
        assert name not in names(duration_filter=3_600_000)
    if version >= 2:
        assert names(transactional_id_pattern=name) == {name}
        assert name not in names(transactional_id_pattern=name[1:])
    unknown = connection.call(ListTransactionsRequest(state_filters=["Lost", "Ongoing"]), version)
    assert unknown.unknown_state_filters == ["Lost"]
