"""Sequence numbers of idempotent producers, by bare requests: duplicates, gaps and epochs."""

from __future__ import annotations

import pytest
from tests.servers.topics import create_topic, list_offset, produce_batch
from tests.servers.wire import Connection, NewRecord, build_batch

from tidelog.protocol.generated.init_producer_id import InitProducerIdRequest

OUT_OF_ORDER_SEQUENCE_NUMBER = 45
INVALID_PRODUCER_EPOCH = 47


class IdempotentProducer:
    def __init__(self, connection: Connection, topic: str) -> None:
        self.connection = connection
        self.topic = topic
        answer = connection.call(InitProducerIdRequest(transactional_id=None), 4)
        assert answer.error_code == 0, answer
        self.producer_id: int = answer.producer_id

    def send(self, sequence: int, count: int = 1, epoch: int = 0) -> tuple[int, int]:
        """Error code and base offset."""
        batch = build_batch(
            [NewRecord(b"v")] * count, producer_id=self.producer_id, producer_epoch=epoch, base_sequence=sequence
        )
        answer = produce_batch(self.connection, self.topic, batch)
        return answer.error_code, answer.base_offset


@pytest.fixture
def producer(connection: Connection) -> IdempotentProducer:
    return IdempotentProducer(connection, create_topic(connection, "idempotent"))


def end_offset(producer: IdempotentProducer) -> int:
    return list_offset(producer.connection, producer.topic, 0, -1)[2]


def test_producer_ids_are_never_given_twice(connection: Connection) -> None:
    ids = {connection.call(InitProducerIdRequest(transactional_id=None), 4).producer_id for _ in range(50)}
    assert len(ids) == 50


def test_a_duplicate_is_answered_with_the_first_offset_and_stored_once(producer: IdempotentProducer) -> None:
    assert producer.send(0, 3) == (0, 0)
    assert producer.send(3, 2) == (0, 3)
    assert producer.send(0, 3) == (0, 0)
    assert producer.send(3, 2) == (0, 3)
    assert end_offset(producer) == 5


def test_only_the_last_five_batches_are_remembered(producer: IdempotentProducer) -> None:
    for sequence in range(6):
        assert producer.send(sequence) == (0, sequence)
    assert producer.send(1) == (0, 1)
    assert producer.send(0)[0] == OUT_OF_ORDER_SEQUENCE_NUMBER
    assert end_offset(producer) == 6


def test_a_gap_is_refused_and_filled_later(producer: IdempotentProducer) -> None:
    assert producer.send(0) == (0, 0)
    assert producer.send(2)[0] == OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producer.send(1) == (0, 1)
    assert producer.send(2) == (0, 2)


def test_a_batch_that_overlaps_an_earlier_one_is_refused(producer: IdempotentProducer) -> None:
    assert producer.send(0, 4) == (0, 0)
    assert producer.send(2, 4)[0] == OUT_OF_ORDER_SEQUENCE_NUMBER
    assert end_offset(producer) == 4


def test_a_new_epoch_starts_at_zero_and_fences_the_old_one(producer: IdempotentProducer) -> None:
    assert producer.send(0) == (0, 0)
    assert producer.send(5, epoch=1)[0] == OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producer.send(0, epoch=1) == (0, 1)
    assert producer.send(1, epoch=0)[0] == INVALID_PRODUCER_EPOCH
    assert producer.send(1, epoch=1) == (0, 2)


def test_sequences_wrap_around(producer: IdempotentProducer) -> None:
    last = 2**31 - 1
    assert producer.send(last - 1, 2) == (0, 0)
    assert producer.send(0) == (0, 2)
    assert producer.send(last)[0] == OUT_OF_ORDER_SEQUENCE_NUMBER


def test_partitions_count_for_themselves(connection: Connection) -> None:
    topic = create_topic(connection, "idempotent", partitions=2)
    producer = IdempotentProducer(connection, topic)
    assert producer.send(0) == (0, 0)
    batch = build_batch([NewRecord(b"v")], producer_id=producer.producer_id, producer_epoch=0, base_sequence=0)
    assert produce_batch(connection, topic, batch, partition=1).error_code == 0
