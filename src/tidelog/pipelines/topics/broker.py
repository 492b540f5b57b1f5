"""What the driver asks a broker before a query starts: does a topic exist, how many partitions has it.

Asked over the wire with confluent-kafka; a broker that does not answer, or a topic that does not exist, is one clear
line instead of a query that fails later.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidelog.pipelines.errors import PipelineError, Unreachable
from tidelog.pipelines.topics.client_dialects import java_settings, librdkafka_settings

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

ANSWER_TIMEOUT_S = 15.0
CONNECT_TIMEOUT_S = 2.0
LARGE_RECORDS = {"message.max.bytes": str(100 << 20)}
"""How large a record is, the topic decides. librdkafka refuses more than 1,000,000 bytes by itself, which is less than
a topic takes by default; this is as much as a broker takes in one request by default."""
_PREFIX = "kafka."
_SHARED = ("security.", "sasl.", "ssl.", "client.", "enable.ssl.")


def client_settings(bootstrap: str, options: Mapping[str, str] | None = None) -> dict[str, Any]:
    """librdkafka settings of any client here. `options` may hold security settings, in either client's words."""
    return {"bootstrap.servers": bootstrap, "log_level": 2, **librdkafka_settings(options or {})}


def librdkafka_options(options: Mapping[str, str] | None) -> dict[str, str]:
    """The connector's `kafka.*` options by librdkafka's names, as far as the two share them (security settings)."""
    named = {name.removeprefix(_PREFIX): value for name, value in (options or {}).items() if name.startswith(_PREFIX)}
    return librdkafka_settings({name: value for name, value in named.items() if name.startswith(_SHARED)})


def connector_options(options: Mapping[str, str] | None) -> dict[str, str]:
    """The connector's options with those that begin with `kafka.` by the Java client's names."""
    given = options or {}
    named = {name.removeprefix(_PREFIX): value for name, value in given.items() if name.startswith(_PREFIX)}
    own = {name: value for name, value in given.items() if not name.startswith(_PREFIX)}
    return own | {f"{_PREFIX}{name}": value for name, value in java_settings(named).items()}


def is_reachable(bootstrap: str, timeout_seconds: float = CONNECT_TIMEOUT_S) -> bool:
    """Whether one of the brokers accepts a connection."""
    return not _why_unreachable(bootstrap, timeout_seconds)


def require_reachable(bootstrap: str) -> None:
    """Raises Unreachable unless a broker accepts a connection: clients try for long before they say that none does."""
    reason = _why_unreachable(bootstrap, CONNECT_TIMEOUT_S)
    if reason:
        advice = "start one with `tidelog serve`, or name another with --bootstrap"
        raise Unreachable(f"no broker answers at {bootstrap}", f"{reason}; {advice}")


def _why_unreachable(bootstrap: str, timeout_seconds: float) -> str:
    """Empty when a broker accepts a connection, else why the first one does not."""
    reasons = []
    for address in bootstrap.split(","):
        host, _, port = address.strip().rpartition("://")[2].rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            reasons.append("write it as HOST:PORT")
            continue
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=timeout_seconds).close()
            return ""
        except (OSError, UnicodeError) as error:
            reasons.append((getattr(error, "strerror", None) or str(error) or "no answer").lower())
    return reasons[0]


def partition_counts(bootstrap: str, topics: Sequence[str], options: Mapping[str, str] | None = None) -> dict[str, int]:
    """Partitions per topic. Raises PipelineError for a topic that is not there, Unreachable if no broker answers."""
    from confluent_kafka import KafkaException

    require_reachable(bootstrap)
    admin = _admin(bootstrap, options)
    try:
        listed = admin.list_topics(timeout=ANSWER_TIMEOUT_S).topics
    except KafkaException as error:
        raise Unreachable(f"no broker answers at {bootstrap}", error.args[0].str()) from None
    absent = [topic for topic in topics if topic not in listed]
    if absent:
        names = ", ".join(absent)
        raise PipelineError(f"topic {names} does not exist on {bootstrap}; `tidelog topics create` makes one")
    return {topic: len(listed[topic].partitions) for topic in topics}


def ensure_topic(bootstrap: str, topic: str, partitions: int, options: Mapping[str, str] | None = None) -> None:
    """Makes a topic with the broker's default settings if it is not there yet."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import NewTopic

    admin = _admin(bootstrap, options)
    try:
        admin.create_topics([NewTopic(topic, partitions)], request_timeout=ANSWER_TIMEOUT_S)[topic].result()
    except KafkaException as error:
        reason = error.args[0]
        if reason.code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return
        if reason.retriable() or reason.code() in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT):
            raise Unreachable(f"topic {topic} cannot be made on {bootstrap}", reason.str()) from None
        raise PipelineError(f"topic {topic} cannot be made on {bootstrap}: {reason.str()}") from None


def _admin(bootstrap: str, options: Mapping[str, str] | None) -> AdminClient:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    try:
        return AdminClient(client_settings(bootstrap, options))
    except KafkaException as error:
        raise PipelineError(f"the client settings do not fit: {error.args[0].str()}") from None
