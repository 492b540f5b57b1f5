"""Decisions about topics, with the errors and words Apache Kafka 4.3.1 gave to the same requests."""

from collections.abc import Callable
from itertools import count

import pytest
from tests.unit.metadata.images import broker, cluster, directory_id, replayed

from tidelog.config.broker import BrokerConfig
from tidelog.controller.core.decision import RECORDS_PER_DECISION_MAX
from tidelog.controller.core.topics import (
    NewPartitions,
    NewTopic,
    TopicOutcome,
    decide_create_partitions,
    decide_create_topics,
    decide_delete_topics,
)
from tidelog.metadata.image import MetadataImage
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_TOPIC_ID
from tidelog.protocol.message import Message


def new_ids() -> Callable[[], bytes]:
    numbers = count(1)
    return lambda: next(numbers).to_bytes(16, "big")


def create(
    image: MetadataImage, *topics: NewTopic, validate_only: bool = False, config: BrokerConfig | None = None
) -> tuple[MetadataImage, list[Message], list[TopicOutcome]]:
    decision = decide_create_topics(
        image, config or BrokerConfig(), topics, new_topic_id=new_ids(), validate_only=validate_only
    )
    return replayed(image, decision.records)[0], decision.records, decision.reply


def refusal(image: MetadataImage, topic: NewTopic) -> tuple[ErrorCode, str]:
    _, records, [outcome] = create(image, topic)
    assert records == []
    assert outcome.error is not None
    return outcome.error.code, outcome.error.message


def test_a_topic_with_the_brokers_defaults() -> None:
    config = BrokerConfig(num_partitions=3)
    image, records, [outcome] = create(cluster(), NewTopic("t"), config=config)
    assert outcome.error is None
    assert (outcome.partition_count, outcome.replication_factor) == (3, 1)
    topic = image.topics["t"]
    assert topic.topic_id == outcome.topic_id != ZERO_TOPIC_ID
    assert [(state.leader, state.leader_epoch, state.isr) for state in topic.partitions.values()] == [(1, 0, (1,))] * 3
    assert topic.partitions[0].directories == (directory_id(1),)
    assert len(records) == 4


def test_settings_are_kept_with_the_topic() -> None:
    image, _, [outcome] = create(cluster(), NewTopic("t", 1, 1, configs=[("retention.ms", "5"), ("retention.ms", "6")]))
    assert image.topics["t"].config == outcome.configs == {"retention.ms": "6"}


def test_nothing_is_written_when_it_is_only_validated() -> None:
    _, records, [outcome] = create(cluster(), NewTopic("t", 5, 1), validate_only=True)
    assert records == []
    assert (outcome.error, outcome.partition_count) == (None, 5)


def test_one_bad_topic_does_not_stop_the_others() -> None:
    image, _, outcomes = create(cluster(), NewTopic("a"), NewTopic("a b"), NewTopic("c"))
    assert [outcome.name for outcome in outcomes] == ["a", "a b", "c"]
    assert [outcome.error is None for outcome in outcomes] == [True, False, True]
    assert set(image.topics) == {"a", "c"}


def test_a_name_given_twice_is_refused_once() -> None:
    image, _, outcomes = create(cluster(), NewTopic("a"), NewTopic("a"), NewTopic("b"))
    assert [(o.name, o.error and o.error.code) for o in outcomes] == [("a", ErrorCode.INVALID_REQUEST), ("b", None)]
    assert outcomes[0].error is not None
    assert outcomes[0].error.message == "Duplicate topic name."
    assert set(image.topics) == {"b"}


def test_colliding_names_in_one_request() -> None:
    image, _, outcomes = create(cluster(), NewTopic("a.b"), NewTopic("a_b"))
    assert [o.error and o.error.code for o in outcomes] == [None, ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert set(image.topics) == {"a.b"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "Topic name is invalid: the empty string is not allowed"),
        (".", "Topic name is invalid: '.' is not allowed"),
        ("..", "Topic name is invalid: '..' is not allowed"),
        ("a" * 250, f"Topic name is invalid: the length of '{'a' * 250}' is longer than the max allowed length 249"),
        *(
            (
                name,
                f"Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, "
                "'.', '_' and '-'",
            )
            for name in ("a b", "a/b", "../x", "ü", "a\x00", "a\n")
        ),
    ],
)
def test_names_no_topic_can_have(name: str, message: str) -> None:
    assert refusal(cluster(), NewTopic(name)) == (ErrorCode.INVALID_TOPIC_EXCEPTION, message)


def test_names_that_are_taken() -> None:
    image, _, _ = create(cluster(), NewTopic("ok.name"), NewTopic("a" * 249))
    assert len(image.topics) == 2
    assert refusal(image, NewTopic("ok.name")) == (
        ErrorCode.TOPIC_ALREADY_EXISTS,
        "Topic 'ok.name' already exists.",
    )
    assert refusal(image, NewTopic("ok_name")) == (
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        "Topic 'ok_name' collides with existing topic: ok.name",
    )
    assert refusal(image, NewTopic("__cluster_metadata")) == (
        ErrorCode.INVALID_REQUEST,
        "Creation of internal topic __cluster_metadata is prohibited.",
    )


@pytest.mark.parametrize("partition_count", [0, -2])
def test_wrong_partition_counts(partition_count: int) -> None:
    assert refusal(cluster(), NewTopic("t", partition_count, 1)) == (
        ErrorCode.INVALID_PARTITIONS,
        "Number of partitions was set to an invalid non-positive value.",
    )


@pytest.mark.parametrize("factor", [0, -2])
def test_wrong_replication_factors(factor: int) -> None:
    assert refusal(cluster(), NewTopic("t", 1, factor)) == (
        ErrorCode.INVALID_REPLICATION_FACTOR,
        "Replication factor must be larger than 0, or -1 to use the default value.",
    )


def test_more_replicas_than_brokers() -> None:
    code, message = refusal(cluster(), NewTopic("t", 1, 2))
    assert code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert message.startswith(
        "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be reached because "
        "only 1 broker(s) are registered"
    )
    fenced = cluster(broker(1), broker(2, fenced=True))
    assert refusal(fenced, NewTopic("t", 1, 2))[0] == ErrorCode.INVALID_REPLICATION_FACTOR


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        ([(1, [1])], "partitions should be a consecutive 0-based integer sequence"),
        ([(0, [9])], "The manual partition assignment includes broker 9, but no such broker is registered."),
        ([(0, [-1])], "The manual partition assignment includes broker -1, but no such broker is registered."),
        ([(0, [1, 1])], "The manual partition assignment includes the broker 1 more than once."),
        ([(0, [])], "The manual partition assignment includes an empty replica list."),
        ([(0, [1]), (0, [1])], "Found multiple manual partition assignments for partition 0"),
        (
            [(0, [1, 2]), (1, [1])],
            "The manual partition assignment includes a partition with 1 replica(s), but this is not consistent with "
            "previous partitions, which have 2 replica(s).",
        ),
    ],
)
def test_manual_assignments_that_cannot_be(assignments: list[tuple[int, list[int]]], message: str) -> None:
    image = cluster(broker(1), broker(2))
    assert refusal(image, NewTopic("t", assignments=assignments)) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def test_a_manual_assignment() -> None:
    image = cluster(broker(1), broker(2), broker(3, fenced=True))
    image, _, [outcome] = create(image, NewTopic("t", assignments=[(1, [3, 1]), (0, [2, 1])]))
    assert (outcome.partition_count, outcome.replication_factor) == (2, 2)
    partitions = image.topics["t"].partitions
    assert (partitions[0].replicas, partitions[0].leader, partitions[0].isr) == ((2, 1), 2, (2, 1))
    # A fenced broker is given its replica but cannot lead yet.
    assert (partitions[1].replicas, partitions[1].leader, partitions[1].isr) == ((3, 1), 1, (1,))


def test_assignments_and_counts_exclude_each_other() -> None:
    assert refusal(cluster(), NewTopic("t", 1, -1, [(0, [1])]))[1] == (
        "A manual partition assignment was specified, but numPartitions was not set to -1."
    )
    assert refusal(cluster(), NewTopic("t", -1, 1, [(0, [1])]))[1] == (
        "A manual partition assignment was specified, but replication factor was not set to -1."
    )


def test_wrong_settings() -> None:
    assert refusal(cluster(), NewTopic("t", configs=[("foo", "1")])) == (
        ErrorCode.INVALID_CONFIG,
        "Unknown topic config name: foo",
    )
    assert refusal(cluster(), NewTopic("t", configs=[("retention.ms", None)])) == (
        ErrorCode.INVALID_CONFIG,
        "Null value not supported for topic configs: retention.ms",
    )


def test_a_decision_has_a_bound() -> None:
    too_many = (ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    assert refusal(cluster(), NewTopic("t", RECORDS_PER_DECISION_MAX, 1)) == too_many
    assert refusal(cluster(), NewTopic("t", 2_000_000_000, 1)) == too_many
    _, records, outcomes = create(cluster(), NewTopic("a", 6000, 1), NewTopic("b", 6000, 1), NewTopic("c", 10, 1))
    assert [o.error and o.error.code for o in outcomes] == [None, ErrorCode.POLICY_VIOLATION, None]
    assert len(records) == 6012
    assert create(cluster(), NewTopic("t", RECORDS_PER_DECISION_MAX - 1, 1))[2][0].error is None


def with_topic(partition_count: int = 2) -> MetadataImage:
    return create(cluster(broker(1), broker(2)), NewTopic("t", partition_count, 1))[0]


def grow(image: MetadataImage, *requests: NewPartitions) -> tuple[MetadataImage, list[TopicOutcome]]:
    decision = decide_create_partitions(image, BrokerConfig(), requests)
    return replayed(image, decision.records)[0], decision.reply


def test_partitions_are_added() -> None:
    image, [outcome] = grow(with_topic(), NewPartitions("t", 5))
    assert outcome.error is None
    assert list(image.topics["t"].partitions) == [0, 1, 2, 3, 4]
    image, [outcome] = grow(image, NewPartitions("t", 7, [[2], [1]]))
    assert [image.topics["t"].partitions[index].replicas for index in (5, 6)] == [(2,), (1,)]
    assert decide_create_partitions(image, BrokerConfig(), [NewPartitions("t", 9)], validate_only=True).records == []


@pytest.mark.parametrize(
    ("request_", "code", "message"),
    [
        (NewPartitions("t", 2), ErrorCode.INVALID_PARTITIONS, "Topic already has 2 partition(s)."),
        (
            NewPartitions("t", 0),
            ErrorCode.INVALID_PARTITIONS,
            "The topic t currently has 2 partition(s); 0 would not be an increase.",
        ),
        (
            NewPartitions("t", 4, [[1]]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            NewPartitions("t", 3, [[9]]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (
            NewPartitions("t", 20_000),
            ErrorCode.POLICY_VIOLATION,
            "Excessively large number of partitions per request.",
        ),
        (NewPartitions("x", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.message),
    ],
)
def test_partitions_that_cannot_be_added(request_: NewPartitions, code: ErrorCode, message: str) -> None:
    image = with_topic()
    decision = decide_create_partitions(image, BrokerConfig(), [request_])
    assert decision.records == []
    [outcome] = decision.reply
    assert outcome.error is not None
    assert (outcome.error.code, outcome.error.message) == (code, message)


def test_growing_a_topic_twice_in_one_request() -> None:
    _, [outcome] = grow(with_topic(), NewPartitions("t", 3), NewPartitions("t", 4))
    assert outcome.error is not None
    assert outcome.error.message == "Duplicate topic name."


def test_topics_are_deleted_by_name_and_by_id() -> None:
    image, _, (a, _b, _c) = create(cluster(), NewTopic("a"), NewTopic("b"), NewTopic("c"))
    decision = decide_delete_topics(image, [(None, a.topic_id), ("b", ZERO_TOPIC_ID)])
    assert [(o.name, o.error) for o in decision.reply] == [("a", None), ("b", None)]
    assert set(replayed(image, decision.records)[0].topics) == {"c"}


def test_deletions_that_cannot_be() -> None:
    image, _, [t] = create(cluster(), NewTopic("t"))
    unknown = b"\x01" * 16
    cases: list[tuple[list[tuple[str | None, bytes]], list[tuple[ErrorCode | None, str | None]]]] = [
        ([("x", ZERO_TOPIC_ID)], [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)]),
        ([(None, unknown)], [(ErrorCode.UNKNOWN_TOPIC_ID, None)]),
        ([("t", unknown)], [(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")]),
        ([(None, ZERO_TOPIC_ID)], [(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")]),
        ([("t", ZERO_TOPIC_ID)] * 2, [(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")]),
        ([(None, t.topic_id)] * 2, [(ErrorCode.INVALID_REQUEST, "Duplicate topic id.")]),
        (
            [(None, t.topic_id), ("t", ZERO_TOPIC_ID)],
            [
                (None, None),
                (ErrorCode.INVALID_REQUEST, "The provided topic name maps to an ID that was already supplied."),
            ],
        ),
    ]
    for asked, expected in cases:
        outcomes = decide_delete_topics(image, asked).reply
        assert [o.error and o.error.code for o in outcomes] == [code for code, _ in expected], asked
        for outcome, (_, message) in zip(outcomes, expected, strict=True):
            if message is not None:
                assert outcome.error is not None
                assert outcome.error.message == message
