"""Topics come and go: creation, more partitions, deletion. Refusals are Kafka's, in its words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tidelog.config.broker import BrokerConfig
from tidelog.config.lowered import LOWERED
from tidelog.config.setting import ConfigError
from tidelog.config.topic import TopicConfig
from tidelog.controller.core.decision import RECORDS_PER_DECISION_MAX, Decision
from tidelog.controller.core.names import check_collision, check_topic_name
from tidelog.controller.core.placement import (
    check_assignment,
    check_not_cordoned,
    place_in_turn,
    place_on_least_loaded,
)
from tidelog.metadata.configs import RESOURCE_TOPIC
from tidelog.metadata.image import INTERNAL_TOPICS, METADATA_TOPIC, MetadataImage, TopicImage
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import ZERO_TOPIC_ID
from tidelog.protocol.generated.config_record import ConfigRecord
from tidelog.protocol.generated.partition_record import PartitionRecord
from tidelog.protocol.generated.remove_topic_record import RemoveTopicRecord
from tidelog.protocol.generated.topic_record import TopicRecord
from tidelog.protocol.message import Message

DEFAULT = -1


class NewTopic(NamedTuple):
    name: str
    partition_count: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    """Partition and its replicas; with these the two counts stay at their default."""
    configs: Sequence[tuple[str, str | None]] = ()


class TopicOutcome(NamedTuple):
    """What became of one topic of a request. Without an error the rest is set."""

    name: str | None
    topic_id: bytes = ZERO_TOPIC_ID
    error: BrokerError | None = None
    partition_count: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = {}


def decide_create_topics(
    image: MetadataImage,
    config: BrokerConfig,
    topics: Sequence[NewTopic],
    *,
    new_topic_id: Callable[[], bytes],
    validate_only: bool = False,
) -> Decision[list[TopicOutcome]]:
    """One outcome per name, in the order of the request; a name given twice is refused once."""
    records: list[Message] = []
    outcomes: dict[str, TopicOutcome] = {}
    named = Counter(topic.name for topic in topics)
    for topic in topics:
        name = topic.name
        if name in outcomes:
            continue
        try:
            if named[name] > 1:
                raise BrokerError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            created, made = _create_topic(image, config, topic, new_topic_id)
            check_collision(name, [other for other, outcome in outcomes.items() if outcome.error is None])
            if len(records) + len(made) > RECORDS_PER_DECISION_MAX:
                raise _too_many()
        except BrokerError as error:
            outcomes[name] = TopicOutcome(name, error=error)
            continue
        records += made
        outcomes[name] = created
    return Decision([] if validate_only else records, list(outcomes.values()))


def _create_topic(
    image: MetadataImage, config: BrokerConfig, topic: NewTopic, new_topic_id: Callable[[], bytes]
) -> tuple[TopicOutcome, list[Message]]:
    name = topic.name
    if name == METADATA_TOPIC:
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
    check_topic_name(name)
    if name in image.topics:
        raise BrokerError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    check_collision(name, image.topics)
    configs = _check_configs(config, topic.configs)
    if LOWERED in configs and name not in INTERNAL_TOPICS:
        raise BrokerError(ErrorCode.INVALID_CONFIG, f"{LOWERED} is set by the controller only.")
    placed = _place_new(image, config, topic)
    topic_id = new_topic_id()
    records: list[Message] = [TopicRecord(name=name, topic_id=topic_id)]
    records += (
        ConfigRecord(resource_type=RESOURCE_TOPIC, resource_name=name, name=key, value=value)
        for key, value in configs.items()
    )
    records += _partition_records(image, topic_id, 0, placed)
    return TopicOutcome(name, topic_id, None, len(placed), len(placed[0]), configs), records


def _check_configs(config: BrokerConfig, given: Sequence[tuple[str, str | None]]) -> dict[str, str]:
    configs: dict[str, str] = {}
    for key, value in given:
        if value is None:
            raise BrokerError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {key}")
        configs[key] = value
    check_topic_configs(configs, config)
    return configs


def check_topic_configs(configs: Mapping[str, str], config: BrokerConfig) -> None:
    try:
        TopicConfig.from_overrides(configs, config)
    except ConfigError as error:
        raise BrokerError(ErrorCode.INVALID_CONFIG, str(error)) from None


def _place_new(image: MetadataImage, config: BrokerConfig, topic: NewTopic) -> list[tuple[int, ...]]:
    if topic.assignments:
        if topic.replication_factor != DEFAULT:
            raise BrokerError(
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, but replication factor was not set to -1.",
            )
        if topic.partition_count != DEFAULT:
            raise BrokerError(
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, but numPartitions was not set to -1.",
            )
        return _check_assignments(image, topic.assignments)
    if topic.replication_factor < DEFAULT or topic.replication_factor == 0:
        raise BrokerError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.partition_count < DEFAULT or topic.partition_count == 0:
        raise BrokerError(
            ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
        )
    count = config.num_partitions if topic.partition_count == DEFAULT else topic.partition_count
    factor = config.default_replication_factor if topic.replication_factor == DEFAULT else topic.replication_factor
    if count > RECORDS_PER_DECISION_MAX:
        raise _too_many()
    return _place(image, config, count, factor)


def _place(image: MetadataImage, config: BrokerConfig, count: int, factor: int) -> list[tuple[int, ...]]:
    if config.tidelog_replica_placement == "least-loaded":
        return place_on_least_loaded(image, count, factor)
    return place_in_turn(image.open_brokers(), count, factor, image.partition_count)


def _check_assignments(image: MetadataImage, assignments: Sequence[tuple[int, Sequence[int]]]) -> list[tuple[int, ...]]:
    placed: dict[int, tuple[int, ...]] = {}
    factor: int | None = None
    for index, replicas in assignments:
        if index in placed:
            raise BrokerError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {index}",
            )
        check_assignment(replicas, image.brokers, factor)
        check_not_cordoned(image, replicas)
        factor = len(replicas)
        placed[index] = tuple(replicas)
    if sorted(placed) != list(range(len(placed))):
        raise BrokerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
        )
    if len(placed) > RECORDS_PER_DECISION_MAX:
        raise _too_many()
    return [placed[index] for index in range(len(placed))]


def _partition_records(
    image: MetadataImage, topic_id: bytes, first: int, placed: Sequence[tuple[int, ...]]
) -> list[Message]:
    """New partitions: every live replica is in sync, since there is nothing yet to lag behind."""
    directory_of = {node_id: broker.directories[0] for node_id, broker in image.brokers.items() if broker.directories}
    live = {broker.node_id for broker in image.active_brokers()}
    records: list[Message] = []
    for index, replicas in enumerate(placed, first):
        isr = [node_id for node_id in replicas if node_id in live]
        if not isr:
            raise BrokerError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"All brokers specified in the manual partition assignment for partition {index} are fenced.",
            )
        records.append(
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=list(replicas),
                isr=isr,
                leader=isr[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=[directory_of.get(node_id, ZERO_TOPIC_ID) for node_id in replicas],
            )
        )
    return records


class NewPartitions(NamedTuple):
    name: str
    total_count: int
    """How many the topic shall have in all."""
    assignments: Sequence[Sequence[int]] | None = None
    """Replicas of each partition that is added."""


def decide_create_partitions(
    image: MetadataImage, config: BrokerConfig, requests: Sequence[NewPartitions], *, validate_only: bool = False
) -> Decision[list[TopicOutcome]]:
    records: list[Message] = []
    outcomes: dict[str, TopicOutcome] = {}
    named = Counter(request.name for request in requests)
    for request in requests:
        if request.name in outcomes:
            continue
        try:
            if named[request.name] > 1:
                raise BrokerError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            made = _add_partitions(image, config, request)
            if len(records) + len(made) > RECORDS_PER_DECISION_MAX:
                raise _too_many()
        except BrokerError as error:
            outcomes[request.name] = TopicOutcome(request.name, error=error)
            continue
        records += made
        outcomes[request.name] = TopicOutcome(request.name)
    return Decision([] if validate_only else records, list(outcomes.values()))


def _add_partitions(image: MetadataImage, config: BrokerConfig, request: NewPartitions) -> list[Message]:
    topic = image.topics.get(request.name)
    if topic is None:
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    before = len(topic.partitions)
    if request.total_count == before:
        raise BrokerError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {before} partition(s).")
    if request.total_count < before:
        raise BrokerError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {before} partition(s); "
            f"{request.total_count} would not be an increase.",
        )
    added = request.total_count - before
    if added > RECORDS_PER_DECISION_MAX:
        raise _too_many()
    first = topic.partitions[0]
    factor = len(first.replicas) - len(first.adding_replicas)
    if request.assignments is None:
        placed = _place(image, config, added, factor)
    else:
        if len(request.assignments) != added:
            raise BrokerError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {added} additional partition(s), but only {len(request.assignments)} assignment(s) "
                "were specified.",
            )
        for replicas in request.assignments:
            check_assignment(replicas, image.brokers, factor)
            check_not_cordoned(image, replicas)
        placed = [tuple(replicas) for replicas in request.assignments]
    return _partition_records(image, topic.topic_id, before, placed)


def decide_delete_topics(
    image: MetadataImage, topics: Sequence[tuple[str | None, bytes]]
) -> Decision[list[TopicOutcome]]:
    """Topics by name, or by id when the name is None. Each is answered once."""
    records: list[Message] = []
    outcomes: list[TopicOutcome] = []
    named = Counter(name for name, _ in topics if name is not None)
    numbered = Counter(topic_id for name, topic_id in topics if name is None)
    seen: set[str | bytes] = set()
    gone: set[bytes] = set()
    for name, topic_id in topics:
        key: str | bytes = topic_id if name is None else name
        if key in seen and key != ZERO_TOPIC_ID:
            continue
        seen.add(key)
        try:
            if named[name] > 1 if name is not None else numbered[topic_id] > 1 and topic_id != ZERO_TOPIC_ID:
                what = "name" if name is not None else "id"
                raise BrokerError(ErrorCode.INVALID_REQUEST, f"Duplicate topic {what}.")
            topic = _find_for_deletion(image, name, topic_id)
            if topic.topic_id in gone:
                raise BrokerError(
                    ErrorCode.INVALID_REQUEST,
                    "The provided topic name maps to an ID that was already supplied.",
                )
        except BrokerError as error:
            outcomes.append(TopicOutcome(name, topic_id, error))
            continue
        gone.add(topic.topic_id)
        records.append(RemoveTopicRecord(topic_id=topic.topic_id))
        outcomes.append(TopicOutcome(topic.name, topic.topic_id))
    return Decision(records, outcomes)


def _find_for_deletion(image: MetadataImage, name: str | None, topic_id: bytes) -> TopicImage:
    if name is not None and topic_id != ZERO_TOPIC_ID:
        raise BrokerError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if name is None and topic_id == ZERO_TOPIC_ID:
        raise BrokerError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    topic = image.topic(name, topic_id)
    if topic is None:
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name is not None else ErrorCode.UNKNOWN_TOPIC_ID)
    return topic


def _too_many() -> BrokerError:
    return BrokerError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
