"""Clients read internal topics, but only coordinators write them."""

from confluent_kafka import KafkaError, Producer

import tidelog


def test_clients_may_not_write_to_internal_topics() -> None:
    with tidelog.Broker() as broker:
        broker.create_topic("__consumer_offsets")
        refused: list[KafkaError] = []
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        producer.produce("__consumer_offsets", b"x", on_delivery=lambda error, _: refused.append(error))
        assert producer.flush(30) == 0
        assert refused[0].code() == KafkaError.TOPIC_EXCEPTION
