"""A consume-transform-produce worker, to be killed at any moment: reads numbers, writes them on, exactly once.

Run as a process: bootstrap, source topic, target topic, group, transactional id, and the group's protocol if it is to
share the source with others of the group; without, partition 0 is its own. Prints one line per committed transaction;
ends by itself never.
"""

from __future__ import annotations

import sys
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

WAIT_S = 30
FAST = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 20,
    # When its only broker goes away, librdkafka (2.11 to 2.16) by default forgets it and starts from the bootstrap
    # servers. A group's coordinator stays remembered as the forgotten broker, and `send_offsets_to_transaction` waits
    # for that one without end (librdkafka issues 5511 and 5456; against Apache Kafka too).
    "metadata.recovery.strategy": "none",
    "log_level": 0,
}


SESSION_MS = 6000
SHARED_SESSION_MS = 1500
"""Of members of a group: the node allows it, so that those who die are soon replaced."""
THINKING_S = 0.05
"""Of members of a group, in every transaction: most that are stopped are stopped in one, and find out in it."""


def consumer_settings(bootstrap: str, group: str, protocol: str) -> dict[str, str | int | bool]:
    settings: dict[str, str | int | bool] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        **FAST,
    }
    if protocol == "consumer":
        return {**settings, "group.protocol": protocol}
    if protocol == "classic":
        return {**settings, "session.timeout.ms": SHARED_SESSION_MS, "heartbeat.interval.ms": 200}
    return {**settings, "session.timeout.ms": SESSION_MS}


def run(bootstrap: str, source: str, target: str, group: str, transactional_id: str, protocol: str = "") -> None:
    while True:
        consumer = Consumer(consumer_settings(bootstrap, group, protocol))
        # Nobody reads what comes after an open transaction: whoever dies in one must not hold the others up for long.
        limit = {"transaction.timeout.ms": 3000} if protocol else {}
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id, **FAST, **limit})
        try:
            producer.init_transactions(WAIT_S)
            if protocol:
                consumer.subscribe([source])
            else:
                # The partition is this worker's own: the group only keeps the offsets.
                partition = TopicPartition(source, 0)
                [committed] = consumer.committed([partition], WAIT_S)
                consumer.assign([TopicPartition(source, 0, max(committed.offset, 0))])
            work(consumer, producer, source, target, THINKING_S if protocol else 0)
        except KafkaException as error:
            print("again", error, flush=True)
        finally:
            consumer.close()


def work(consumer: Consumer, producer: Producer, source: str, target: str, thinking_s: float) -> None:
    wait_s = thinking_s / 5 or 0.5
    while True:
        batch = [message for message in consumer.consume(50, wait_s) if message.error() is None]
        if not batch:
            continue
        # As what it read this: once it knows that it was replaced it could commit as nobody in particular.
        member = consumer.consumer_group_metadata()
        producer.begin_transaction()
        positions: dict[int, int] = {}
        for message in batch:
            number = int(message.value())
            producer.produce(target, b"%d" % number, partition=number % 2)
            positions[message.partition()] = message.offset() + 1
        time.sleep(thinking_s)
        offsets = [TopicPartition(source, *position) for position in positions.items()]
        producer.send_offsets_to_transaction(offsets, member, WAIT_S)
        producer.commit_transaction(WAIT_S)
        print("committed", positions, flush=True)


if __name__ == "__main__":
    run(*sys.argv[1:])
