"""A node that is drained takes no new replicas, whichever way they would come, and else plays its part as before."""

from __future__ import annotations

import pytest
from tests.unit.controller.test_topics import create, refusal
from tests.unit.metadata.images import broker, cluster, replayed

from tidelog.config.broker import BrokerConfig
from tidelog.controller.core.brokers import decide_unregister_broker
from tidelog.controller.core.configs import DELETE, SET, ConfigChange, ResourceChange, decide_alter_configs
from tidelog.controller.core.internal_topics import internal_topic
from tidelog.controller.core.reassignments import Reassignment, decide_reassign
from tidelog.controller.core.topics import NewPartitions, NewTopic, decide_create_partitions
from tidelog.metadata.configs import RESOURCE_BROKER
from tidelog.metadata.image import CORDONED, MetadataImage
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition

CONFIG = BrokerConfig(node_id=1)


def alter(
    image: MetadataImage, name: str, operation: int, value: str | None
) -> tuple[MetadataImage, BrokerError | None]:
    change = ResourceChange(RESOURCE_BROKER, name, [ConfigChange(CORDONED, operation, value)])
    decision = decide_alter_configs(image, CONFIG, [change])
    return replayed(image, decision.records)[0], decision.reply[0].error


def cordoned(image: MetadataImage, *node_ids: int) -> MetadataImage:
    for node_id in node_ids:
        image, error = alter(image, str(node_id), SET, "*")
        assert error is None
    return image


def four(*drained: int) -> MetadataImage:
    return cordoned(cluster(*(broker(node_id, rack=f"r{node_id % 2}") for node_id in (1, 2, 3, 4))), *drained)


def holders(image: MetadataImage, topic: str) -> set[int]:
    return {node_id for state in image.topics[topic].partitions.values() for node_id in state.replicas}


@pytest.mark.parametrize("placement", ["round-robin", "least-loaded"])
def test_new_topics_and_new_partitions_go_elsewhere(placement: str) -> None:
    config = BrokerConfig(node_id=1, tidelog_replica_placement=placement)
    image, _, [outcome] = create(four(3), NewTopic("t", 8, 3), config=config)
    assert outcome.error is None
    assert holders(image, "t") == {1, 2, 4}
    decision = decide_create_partitions(image, config, [NewPartitions("t", 16)])
    assert holders(replayed(image, decision.records)[0], "t") == {1, 2, 4}


def test_too_few_are_left() -> None:
    code, words = refusal(four(3, 4), NewTopic("t", 1, 3))
    assert code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert "only 2 broker(s)" in words


def test_the_nodes_own_topics_ask_for_no_more_than_there_is_room_for() -> None:
    topic = internal_topic("__consumer_offsets", CONFIG, four(2, 3))
    assert topic is not None
    assert topic.replication_factor == 2
    assert holders(create(four(2, 3), topic)[0], "__consumer_offsets") == {1, 4}


def test_who_names_it_is_refused() -> None:
    named = NewTopic("t", -1, -1, assignments=[(0, [1, 3])])
    assert refusal(four(3), named)[0] == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    image, _, _ = create(four(3), NewTopic("t", 1, 2))
    decision = decide_create_partitions(image, CONFIG, [NewPartitions("t", 2, assignments=[[3, 1]])])
    assert decision.records == []
    assert decision.reply[0].error is not None
    assert decision.reply[0].error.code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_reassignment_may_leave_what_is_there_and_bring_nothing() -> None:
    image, _, _ = create(four(), NewTopic("t", -1, -1, assignments=[(0, [1, 3])]))
    image = cordoned(image, 3, 4)
    partition = TopicPartition("t", 0)

    def reassign(*replicas: int) -> BrokerError | None:
        return decide_reassign(image, CONFIG, [Reassignment(partition, replicas)]).reply[0].error

    assert reassign(3, 2) is None, "node 3 has it already"
    assert reassign(1, 2) is None
    refused = reassign(1, 4)
    assert refused is not None
    assert refused.code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "4" in refused.message


def test_it_leads_and_is_in_sync_as_before() -> None:
    image, _, _ = create(four(), NewTopic("t", -1, -1, assignments=[(0, [3, 1])]))
    image = cordoned(image, 3)
    assert image.topics["t"].partitions[0].leader == 3
    assert image.is_active(3)
    assert {each.node_id for each in image.active_brokers()} == {1, 2, 3, 4}


def test_the_way_back() -> None:
    image, error = alter(four(3), "3", DELETE, None)
    assert error is None
    assert holders(create(image, NewTopic("t", 8, 3))[0], "t") == {1, 2, 3, 4}
    image, _ = alter(four(3), "3", SET, "")
    assert not image.is_cordoned(3), "an empty list names no directory"


def test_a_snapshot_keeps_it() -> None:
    again = replayed(MetadataImage(cluster_id="test"), four(3).records())[0]
    assert [node_id for node_id in again.brokers if again.is_cordoned(node_id)] == [3]


def test_it_is_a_matter_of_one_node() -> None:
    _, error = alter(four(), "", SET, "*")
    assert error is not None
    assert error.code == ErrorCode.INVALID_REQUEST


def test_it_does_not_outlive_the_node() -> None:
    image = four(3)
    image = replayed(image, decide_unregister_broker(image, CONFIG, 3).records)[0]
    assert 3 not in image.brokers
    assert not image.is_cordoned(3)
