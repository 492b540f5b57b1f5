"""Producers whose next sequence was used in a transaction that has ended: each finds out and goes on by itself.

That is where a client is that purged a batch which had been written, and then aborted. Here the batch is written for it
by a bare connection, inside the transaction that it aborts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import KafkaException, Producer
from tests.conformance.kafka_python.client import KafkaProducer, kafka_errors
from tests.conformance.transactions.producer import WireProducer, read
from tests.servers.broker_process import BrokerProcess
from tests.servers.target import target_kind
from tests.servers.topics import create_topic, new_name
from tests.servers.wire import Connection
from tests.waiting import wait_until

WAIT_S = 30
ATTEMPTS_MAX = 5
"""One that fails for the sequence, one or two for the new epoch."""

Inject = Callable[[], None]
Client = Callable[[str, str, str, Inject], int]


def with_confluent_kafka(bootstrap: str, topic: str, name: str, inject: Inject) -> int:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce(topic, b"aborted", partition=0)
    assert producer.flush(WAIT_S) == 0
    inject()
    producer.abort_transaction(WAIT_S)
    for attempt in range(1, ATTEMPTS_MAX):
        producer.begin_transaction()
        producer.produce(topic, b"second", partition=0)
        try:
            producer.commit_transaction(WAIT_S)
        except KafkaException as failure:
            if not failure.args[0].txn_requires_abort():
                raise
            producer.abort_transaction(WAIT_S)
        else:
            return attempt
    raise AssertionError("it never recovered")


def with_kafka_python(bootstrap: str, topic: str, name: str, inject: Inject) -> int:
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
    try:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"aborted", partition=0).get(WAIT_S)
        inject()
        producer.abort_transaction()
        for attempt in range(1, ATTEMPTS_MAX):
            wait_until(lambda: _has_begun(producer), "the producer has its next epoch")
            try:
                producer.send(topic, b"second", partition=0).get(WAIT_S)
                producer.commit_transaction()
            except kafka_errors.KafkaError:
                # It goes on by itself; the next epoch aborts what is open.
                continue
            return attempt
        raise AssertionError("it never recovered")
    finally:
        producer.close(timeout=5)


def _has_begun(producer: KafkaProducer) -> bool:
    try:
        producer.begin_transaction()
    except kafka_errors.KafkaError:
        return False
    return True


def with_aiokafka(bootstrap: str, topic: str, name: str, inject: Inject) -> int:
    async def run() -> int:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
        await producer.start()
        try:
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"aborted", partition=0)
            await asyncio.to_thread(inject)
            await producer.abort_transaction()
            for attempt in range(1, ATTEMPTS_MAX):
                await producer.begin_transaction()
                try:
                    await producer.send_and_wait(topic, b"second", partition=0)
                    await producer.commit_transaction()
                except AioKafkaError:
                    await producer.abort_transaction()
                else:
                    return attempt
            raise AssertionError("it never recovered")
        finally:
            await producer.stop()

    return asyncio.run(run())


@pytest.mark.skipif(target_kind() == "kafka", reason="Apache Kafka answers with success, and the record is lost")
@pytest.mark.parametrize("client", [with_confluent_kafka, with_kafka_python, with_aiokafka])
def test_the_producer_recovers_and_nothing_is_lost(broker: BrokerProcess, connection: Connection, client: Any) -> None:
    topic, name = create_topic(connection), new_name("txn")

    def inject() -> None:
        intruder = WireProducer(connection, name)
        described = intruder.describe()
        intruder.producer_id, intruder.epoch = described.producer_id, described.producer_epoch
        assert intruder.produce(topic, b"not acknowledged", base_sequence=1) == 0

    attempts = client(broker.bootstrap, topic, name, inject)
    assert attempts > 1, "the first was refused"
    assert read(connection, topic) == [b"second"]
