"""Metadata in every version, as Apache Kafka 4.3.1 answered; only a topic that is created is answered sooner."""

from pathlib import Path

import pytest
from tests.unit.api.controller_requests import Asker, answered

from tidelog.api.authorized_operations import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS
from tidelog.controller.core.topics import NewTopic
from tidelog.model.errors import ErrorCode
from tidelog.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

UNKNOWN_ID = b"\x01" * 16


def named(*names: str, create: bool = False) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=create)


def told(response: MetadataResponse) -> dict[str | None, int]:
    return {topic.name: topic.error_code for topic in response.topics}


@pytest.mark.parametrize("version", range(14))
def test_every_version_describes_brokers_and_topics(tmp_path: Path, version: int) -> None:
    async def use(asker: Asker) -> None:
        await asker.controller.create_topics([NewTopic("t", 3)])
        request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
        response = await asker.ask(request, version)
        [broker] = response.brokers
        assert (broker.node_id, broker.host, broker.port) == (1, "127.0.0.1", 9092)
        [topic] = response.topics
        assert (topic.error_code, topic.name, topic.is_internal) == (0, "t", False)
        assert [p.partition_index for p in topic.partitions] == [0, 1, 2]
        assert {(p.leader_id, *p.replica_nodes, *p.isr_nodes) for p in topic.partitions} == {(1, 1, 1)}
        assert response.controller_id == (1 if version >= 1 else -1)
        assert response.cluster_id == ("cluster" if version >= 2 else None)
        assert topic.partitions[0].leader_epoch == (0 if version >= 7 else -1)
        known = asker.controller.image.topics["t"].topic_id
        assert topic.topic_id == (known if version >= 10 else bytes(16))

    answered(tmp_path, use)


def test_all_topics_is_an_empty_list_in_version_0_and_null_later(tmp_path: Path) -> None:
    async def use(asker: Asker) -> None:
        await asker.controller.create_topics([NewTopic("a"), NewTopic("b")])
        everything = {"a": 0, "b": 0}
        assert told(await asker.ask(MetadataRequest(topics=[]), 0)) == everything
        assert told(await asker.ask(MetadataRequest(topics=[]), 1)) == {}
        for version in (1, 4, 9, 13):
            assert told(await asker.ask(MetadataRequest(topics=None), version)) == everything

    answered(tmp_path, use)


def test_topics_that_are_not_there(tmp_path: Path) -> None:
    async def use(asker: Asker) -> None:
        assert told(await asker.ask(named("x", "a b", "", "x"), 9)) == {
            "x": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "a b": ErrorCode.INVALID_TOPIC_EXCEPTION,
            "": ErrorCode.INVALID_TOPIC_EXCEPTION,
        }
        assert asker.controller.image.topics == {}

    answered(tmp_path, use)


def test_topics_by_id(tmp_path: Path) -> None:
    async def use(asker: Asker) -> None:
        await asker.controller.create_topics([NewTopic("t")])
        topic_id = asker.controller.image.topics["t"].topic_id

        def by_id(*ids: bytes) -> MetadataRequest:
            return MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=i) for i in ids])

        response = await asker.ask(by_id(topic_id, UNKNOWN_ID), 12)
        assert [(t.name, t.error_code) for t in response.topics] == [("t", 0), (None, ErrorCode.UNKNOWN_TOPIC_ID)]
        response = await asker.ask(by_id(UNKNOWN_ID), 10)
        assert [(t.name, t.error_code) for t in response.topics] == [("", ErrorCode.INVALID_REQUEST)]

    answered(tmp_path, use)


def test_a_topic_is_created_when_client_and_broker_allow_it(tmp_path: Path) -> None:
    async def use(asker: Asker) -> None:
        assert told(await asker.ask(named("t", "a b", create=True), 9)) == {
            "t": 0,
            "a b": ErrorCode.INVALID_TOPIC_EXCEPTION,
        }
        assert len(asker.controller.image.topics["t"].partitions) == 4
        assert told(await asker.ask(named("u", create=True), 1)) == {"u": 0}
        assert told(await asker.ask(named("v"), 4)) == {"v": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        response = await asker.ask(named("__consumer_offsets", create=True))
        assert [(t.is_internal, len(t.partitions)) for t in response.topics] == [(True, 50)]

    answered(tmp_path, use, num_partitions=4)


def test_no_topic_is_created_when_the_broker_forbids_it(tmp_path: Path) -> None:
    async def use(asker: Asker) -> None:
        assert told(await asker.ask(named("t", create=True))) == {"t": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

    answered(tmp_path, use, auto_create_topics_enable=False)


def test_a_topic_that_cannot_be_created_says_why(tmp_path: Path) -> None:
    async def use(asker: Asker) -> None:
        response = await asker.ask(named("t", create=True))
        assert told(response) == {"t": ErrorCode.INVALID_REPLICATION_FACTOR}

    answered(tmp_path, use, default_replication_factor=3)


def test_authorized_operations_only_when_asked_for(tmp_path: Path) -> None:
    async def use(asker: Asker) -> None:
        await asker.controller.create_topics([NewTopic("t")])
        request = named("t")
        response = await asker.ask(request, 8)
        assert (response.cluster_authorized_operations, response.topics[0].topic_authorized_operations) == (
            NOT_ASKED,
            NOT_ASKED,
        )
        request.include_cluster_authorized_operations = request.include_topic_authorized_operations = True
        response = await asker.ask(request, 8)
        assert (response.cluster_authorized_operations, response.topics[0].topic_authorized_operations) == (
            CLUSTER_OPERATIONS,
            TOPIC_OPERATIONS,
        )

    assert (CLUSTER_OPERATIONS, TOPIC_OPERATIONS) == (8096, 3576)  # what Kafka without an authorizer sends
    answered(tmp_path, use)
