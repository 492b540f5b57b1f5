"""A consume-transform-produce worker, to be killed at any moment: reads numbers, writes them on, exactly once.

Run as a process: bootstrap, source topic, target topic, group, transactional id. Prints one line per committed
transaction; ends by itself never.
"""

from __future__ import annotations

import sys

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


def run(bootstrap: str, source: str, target: str, group: str, transactional_id: str) -> None:
    while True:
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 6000,
                **FAST,
            }
        )
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id, **FAST})
        try:
            producer.init_transactions(WAIT_S)
            # The partition is this worker's own: the group only keeps the offsets.
            partition = TopicPartition(source, 0)
            [committed] = consumer.committed([partition], WAIT_S)
            position = max(committed.offset, 0)
            consumer.assign([TopicPartition(source, 0, position)])
            work(consumer, producer, source, target)
        except KafkaException as error:
            print("again", error, flush=True)
        finally:
            consumer.close()


def work(consumer: Consumer, producer: Producer, source: str, target: str) -> None:
    while True:
        batch = [message for message in consumer.consume(50, 0.5) if message.error() is None]
        if not batch:
            continue
        producer.begin_transaction()
        for message in batch:
            number = int(message.value())
            producer.produce(target, b"%d" % number, partition=number % 2)
        position = TopicPartition(source, 0, batch[-1].offset() + 1)
        producer.send_offsets_to_transaction([position], consumer.consumer_group_metadata(), WAIT_S)
        producer.commit_transaction(WAIT_S)
        print("committed", batch[-1].offset(), flush=True)


if __name__ == "__main__":
    run(*sys.argv[1:6])
