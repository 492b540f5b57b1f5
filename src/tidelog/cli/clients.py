"""The Kafka clients behind the commands: confluent-kafka, configured and connected in one place.

confluent-kafka is imported inside functions: it takes longer to load than most commands take to run. Whether a broker
listens is found out by a plain connection first, so that a wrong address fails at once and with its real reason.
"""

from __future__ import annotations

import argparse
import os
import socket
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tidelog.cli.errors import NO_CONTROLLER, CommandError, UsageError
from tidelog.model.errors import ErrorCode

if TYPE_CHECKING:
    from concurrent.futures import Future

    from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
    from confluent_kafka.admin import AdminClient, ClusterMetadata

PORT_DEFAULT = 9092
CONNECT_SECONDS_MAX = 3.0
METADATA_SECONDS_MAX = 5.0
"""How long a broker has for its first answer; what is silent for longer is not a broker."""

ANSWER_SECONDS_MAX = 10.0
"""How long an admin request may take before the command gives up."""

RETRY_SECONDS = 0.05

CLIENT_ID = "tidelog-cli"


def parse_pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """['a=1', 'b=x=y'] -> {'a': '1', 'b': 'x=y'}."""
    pairs = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise UsageError(f"{option} needs NAME=VALUE, got {text!r}")
        pairs[name] = value
    return pairs


def client_config(args: argparse.Namespace) -> dict[str, Any]:
    """What every client has; librdkafka keeps its log lines to itself, errors reach the user as one line."""
    config: dict[str, Any] = {
        "bootstrap.servers": args.bootstrap,
        "client.id": CLIENT_ID,
        "socket.connection.setup.timeout.ms": 5000,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 500,
        "error_cb": _ignore_error,
    }
    if not os.environ.get("TIDELOG_DEBUG"):
        config["log_level"] = 0
    config.update(parse_pairs(args.client_settings, "-X"))
    return config


def _ignore_error(error: KafkaError) -> None:
    """Connection trouble is reported by the call that it makes fail; nothing is printed from here."""


def require_reachable(args: argparse.Namespace) -> None:
    """`check_reachable` for the address of a command, which may be from a profile."""
    check_reachable(args.bootstrap, getattr(args, "profile", None))


def check_reachable(bootstrap: str, profile: str | None = None) -> None:
    """Raises CommandError unless one of the addresses accepts a connection."""
    reasons = []
    for address in bootstrap.split(","):
        host, port = split_address(address.strip())
        try:
            socket.create_connection((host, port), timeout=CONNECT_SECONDS_MAX).close()
            return
        except OSError as error:
            reasons.append((error.strerror or str(error) or "no answer").lower())
    raise CommandError(_nobody_answers(bootstrap, reasons[0], profile))


def split_address(address: str) -> tuple[str, int]:
    """'PLAINTEXT://[::1]:9092' -> ('::1', 9092)."""
    bare = address.rpartition("://")[2]
    host, separator, port_text = bare.rpartition(":")
    if not separator or bare.endswith("]"):
        host, port_text = bare, str(PORT_DEFAULT)
    if not host or not port_text.isdigit() or not 0 < int(port_text) < 65536:
        raise UsageError(f"--bootstrap needs HOST:PORT, got {address!r}")
    return host.strip("[]"), int(port_text)


def _nobody_answers(bootstrap: str, reason: str, profile: str | None) -> str:
    if profile is not None:
        return f"no broker answers at {bootstrap} ({reason}); {name_profile(profile)}"
    return (
        f"no broker answers at {bootstrap} ({reason}); "
        f"start one with `tidelog serve --listen {bootstrap.split(',')[0]}` or name another with --bootstrap"
    )


def name_profile(profile: str) -> str:
    """Where an address comes from that does not answer, and how to use another."""
    return f"the address is from profile {profile}; name another with --profile or --bootstrap"


def connect_admin(args: argparse.Namespace) -> AdminClient:
    """An admin client of a broker that was seen to answer."""
    require_reachable(args)
    from confluent_kafka.admin import AdminClient

    admin = AdminClient(client_config(args))
    cluster_metadata(admin, args)
    return admin


def connect_producer(args: argparse.Namespace, settings: Mapping[str, Any]) -> Producer:
    require_reachable(args)
    from confluent_kafka import Producer

    return Producer({**client_config(args), **settings, **parse_pairs(args.client_settings, "-X")})


def connect_consumer(args: argparse.Namespace, settings: Mapping[str, Any]) -> Consumer:
    require_reachable(args)
    from confluent_kafka import Consumer

    return Consumer({**client_config(args), **settings, **parse_pairs(args.client_settings, "-X")})


def cluster_metadata(
    client: AdminClient | Producer | Consumer, args: argparse.Namespace, topic: str | None = None
) -> ClusterMetadata:
    """Metadata of the cluster or of one topic; CommandError when what listens there is no broker, or no node can be
    reached where it advertises itself."""
    from confluent_kafka import KafkaError, KafkaException

    try:
        if topic is None:
            metadata = client.list_topics(timeout=METADATA_SECONDS_MAX)
        else:
            metadata = client.list_topics(topic, timeout=METADATA_SECONDS_MAX)
        _check_advertised(metadata, args.bootstrap)
        return metadata
    except KafkaException as error:
        if error.args[0].code() in (KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN):
            reason = f"connected, but no Kafka answer within {METADATA_SECONDS_MAX:.0f} s"
            raise CommandError(_nobody_answers(args.bootstrap, reason, getattr(args, "profile", None))) from None
        raise


def _check_advertised(metadata: ClusterMetadata, bootstrap: str) -> None:
    """Clients use --bootstrap for their first question only, and would wait for the other addresses in silence."""
    asked = {split_address(address.strip()) for address in bootstrap.split(",")}
    refusals = []
    for number, broker in sorted(metadata.brokers.items()):
        address = str(broker.host), int(broker.port)
        if address in asked:
            return
        try:
            socket.create_connection(address, timeout=CONNECT_SECONDS_MAX).close()
            return
        except OSError as error:
            reason = (error.strerror or str(error) or "no answer").lower()
            refusals.append(f"node {number} at {broker.host}:{broker.port} ({reason})")
    if refusals:
        raise CommandError(
            f"{bootstrap} answers, but no node can be reached where it advertises itself: {', '.join(refusals)}; "
            "start nodes with --advertise and an address that clients can reach"
        )


def partition_ids(client: Producer | Consumer | AdminClient, args: argparse.Namespace, topic: str) -> list[int]:
    """The partitions of an existing topic, in order."""
    # All topics are asked for: to ask for one by its name would make a broker create it.
    found = cluster_metadata(client, args).topics.get(topic)
    if found is None:
        raise CommandError(unknown_topic(topic))
    if found.error is not None:
        raise CommandError(f"topic {topic}: {describe_error(found.error)}")
    return sorted(found.partitions)


def existing_partitions(
    admin: AdminClient, args: argparse.Namespace, pairs: Iterable[tuple[str, int]]
) -> list[tuple[str, int]]:
    """The partitions that exist: committed offsets outlive the topics they belong to."""
    topics = cluster_metadata(admin, args).topics
    return [(topic, number) for topic, number in pairs if topic in topics and number in topics[topic].partitions]


def unknown_topic(topic: str) -> str:
    return f"topic {topic} does not exist; make it with `tidelog topics create {topic}`"


def no_such(kind: str, name: str) -> str:
    """For what was to be changed or removed: to make it is not what the user wants."""
    return f"there is no {kind} {name}; `tidelog {kind}s list` names all"


def result_of(future: Future[Any], subject: str, *, missing: str | None = None) -> Any:
    """What an admin request gave; a broker's refusal becomes one line about `subject`.

    `missing` is the whole line for a topic or group that is not there.
    """
    from confluent_kafka import KafkaError, KafkaException

    try:
        return future.result(timeout=ANSWER_SECONDS_MAX * 3)
    except KafkaException as error:
        if missing and error.args[0].code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.GROUP_ID_NOT_FOUND):
            raise CommandError(missing) from None
        raise CommandError(f"{subject}: {describe_error(error.args[0])}") from None
    except TimeoutError:
        raise CommandError(f"{subject}: the broker did not answer in time; try again") from None
    except (ValueError, TypeError) as error:
        raise CommandError(f"{subject}: {error}") from None


def describe_error(error: KafkaError) -> str:
    """What a broker or librdkafka says, without its decoration, with Kafka's name of the error for searching."""
    if error.code() == ErrorCode.NOT_CONTROLLER:
        return NO_CONTROLLER
    text = error.str().removeprefix("Local: ").removeprefix("Broker: ").rstrip(".")
    name = error.name()
    if not name.startswith("_") and ErrorCode(error.code()) == error.code():
        # librdkafka has names of its own, some of them cut short (UNKNOWN_TOPIC_OR_PART).
        name = ErrorCode(error.code()).name
    return text if name.startswith("_") or name in text else f"{text} ({name})"


def explain_kafka_error(error: BaseException) -> str | None:
    """One line for an error of the client library; None for any other."""
    from confluent_kafka import KafkaError, KafkaException

    if not isinstance(error, KafkaException) or not error.args:
        return None
    cause = error.args[0]
    return describe_error(cause) if isinstance(cause, KafkaError) else str(cause)


def query_offsets(
    admin: AdminClient, partitions: Iterable[TopicPartition], spec: Any, *, read_committed: bool = False
) -> dict[tuple[str, int], int]:
    """Offsets by `OffsetSpec`; for a time after the last record, -1 as the broker answers.

    A leader that was just elected does not know them yet, and one that was just replaced not any more: they are asked
    again for a while.
    """
    from confluent_kafka import IsolationLevel, KafkaError, KafkaException

    passing = {KafkaError.OFFSET_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE}
    isolation = IsolationLevel.READ_COMMITTED if read_committed else IsolationLevel.READ_UNCOMMITTED
    deadline_s = time.monotonic() + ANSWER_SECONDS_MAX
    found: dict[tuple[str, int], int] = {}
    asked = dict.fromkeys(partitions, spec)
    while asked:
        futures = admin.list_offsets(asked, isolation_level=isolation, request_timeout=ANSWER_SECONDS_MAX)
        asked = {}
        for partition, future in futures.items():
            error = future.exception(timeout=ANSWER_SECONDS_MAX * 3)
            is_passing = isinstance(error, KafkaException) and error.args[0].code() in passing
            if is_passing and time.monotonic() < deadline_s:
                asked[partition] = spec
            else:
                subject = f"{partition.topic}-{partition.partition}"
                found[partition.topic, partition.partition] = result_of(future, subject).offset
        if asked:
            time.sleep(RETRY_SECONDS)
    return found


def query_bounds(
    admin: AdminClient, partitions: Iterable[tuple[str, int]], *, read_committed: bool = False
) -> dict[tuple[str, int], tuple[int, int]]:
    """The first offset and the one after the last, of each partition."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import OffsetSpec

    asked = list(partitions)
    first = query_offsets(admin, [TopicPartition(*pair) for pair in asked], OffsetSpec.earliest())
    end = query_offsets(
        admin, [TopicPartition(*pair) for pair in asked], OffsetSpec.latest(), read_committed=read_committed
    )
    return {pair: (first[pair], end[pair]) for pair in asked}
