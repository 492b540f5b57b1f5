"""What the driver asks a broker before a query starts: does a topic exist, how many partitions has it.

Asked over the wire with confluent-kafka; a broker that does not answer, or a topic nobody made, is one clear line
instead of a query that fails later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidelog.pipelines.errors import PipelineError

ANSWER_TIMEOUT_S = 15.0


def client_settings(bootstrap: str, options: Mapping[str, str] | None = None) -> dict[str, Any]:
    """librdkafka settings of any client here. `options` may hold security settings, by librdkafka's names."""
    return {"bootstrap.servers": bootstrap, "log_level": 2, **(options or {})}


def librdkafka_options(options: Mapping[str, str] | None) -> dict[str, str]:
    """The connector's `kafka.*` options by librdkafka's names, as far as the two share them (security settings)."""
    shared = ("security.", "sasl.", "ssl.", "client.")
    named = {name.removeprefix("kafka."): value for name, value in (options or {}).items() if name.startswith("kafka.")}
    return {name: value for name, value in named.items() if name.startswith(shared) and name != "sasl.jaas.config"}


def partition_counts(bootstrap: str, topics: Sequence[str], options: Mapping[str, str] | None = None) -> dict[str, int]:
    """Partitions per topic. Raises PipelineError for a topic that is not there, or a broker that does not answer."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    admin = AdminClient(client_settings(bootstrap, options))
    try:
        listed = admin.list_topics(timeout=ANSWER_TIMEOUT_S).topics
    except KafkaException as error:
        raise PipelineError(f"no broker answers at {bootstrap}: {error.args[0].str()}") from None
    absent = [topic for topic in topics if topic not in listed]
    if absent:
        names = ", ".join(absent)
        raise PipelineError(f"topic {names} does not exist on {bootstrap}; `tidelog topics create` makes one")
    return {topic: len(listed[topic].partitions) for topic in topics}


def ensure_topic(bootstrap: str, topic: str, partitions: int, options: Mapping[str, str] | None = None) -> None:
    """Makes a topic with the broker's default settings if it is not there yet."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient(client_settings(bootstrap, options))
    try:
        admin.create_topics([NewTopic(topic, partitions)], request_timeout=ANSWER_TIMEOUT_S)[topic].result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise PipelineError(f"topic {topic} cannot be made on {bootstrap}: {error.args[0].str()}") from None
