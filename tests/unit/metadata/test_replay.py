"""Replay: each record does what it says, the image before it stays as it was, and the delta names what changed."""

import pytest
from tests.unit.metadata.images import broker, cluster, replayed

from tidelog.metadata.features import FeaturesDelta
from tidelog.metadata.framing import UnreadableMetadata
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.producer_ids import ProducerIdsDelta
from tidelog.protocol.generated.access_control_entry_record import AccessControlEntryRecord
from tidelog.protocol.generated.broker_registration_change_record import BrokerRegistrationChangeRecord
from tidelog.protocol.generated.config_record import ConfigRecord
from tidelog.protocol.generated.feature_level_record import FeatureLevelRecord
from tidelog.protocol.generated.no_op_record import NoOpRecord
from tidelog.protocol.generated.partition_change_record import PartitionChangeRecord
from tidelog.protocol.generated.partition_record import PartitionRecord
from tidelog.protocol.generated.producer_ids_record import ProducerIdsRecord
from tidelog.protocol.generated.remove_topic_record import RemoveTopicRecord
from tidelog.protocol.generated.topic_record import TopicRecord
from tidelog.protocol.generated.unregister_broker_record import UnregisterBrokerRecord
from tidelog.protocol.message import Message

ID = b"i" * 16
OTHER_ID = b"j" * 16


def topic_records(name: str = "t", topic_id: bytes = ID, count: int = 2) -> list[Message]:
    return [
        TopicRecord(name=name, topic_id=topic_id),
        *(
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=[1, 2],
                isr=[1, 2],
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
            )
            for index in range(count)
        ),
    ]


def with_topic() -> MetadataImage:
    return replayed(cluster(broker(1), broker(2)), topic_records())[0]


def test_a_topic_is_created() -> None:
    before = cluster(broker(1), broker(2))
    image, delta = replayed(before, topic_records())
    topic = image.topics["t"]
    assert image.topics_by_id[ID] is topic
    assert topic.partitions[1].replicas == (1, 2)
    assert topic.partitions[1].leader_epoch == 0
    assert image.partition_count == 2
    assert delta.topics.created == {ID: topic}
    assert not delta.topics.partitions_changed
    assert before.topics == {}
    assert image.offset == before.offset + 3


def test_partitions_are_added_to_a_copy() -> None:
    before = with_topic()
    image, delta = replayed(before, [PartitionRecord(partition_id=2, topic_id=ID, replicas=[1], isr=[1], leader=1)])
    assert list(image.topics["t"].partitions) == [0, 1, 2]
    assert list(before.topics["t"].partitions) == [0, 1]
    assert image.topics_by_id[ID] is image.topics["t"]
    assert delta.topics.partitions_changed == {"t": {2}}
    assert not delta.topics.created
    assert image.partition_count == 3


def test_a_new_leader_is_a_new_epoch_and_other_changes_are_not() -> None:
    before = with_topic()
    image, delta = replayed(before, [PartitionChangeRecord(partition_id=0, topic_id=ID, isr=[1])])
    state = image.topics["t"].partitions[0]
    assert (state.leader, state.leader_epoch, state.partition_epoch, state.isr) == (1, 0, 1, (1,))
    image, _ = replayed(image, [PartitionChangeRecord(partition_id=0, topic_id=ID, leader=2)])
    state = image.topics["t"].partitions[0]
    assert (state.leader, state.leader_epoch, state.partition_epoch, state.isr) == (2, 1, 2, (1,))
    assert before.topics["t"].partitions[0].partition_epoch == 0
    assert delta.topics.partitions_changed == {"t": {0}}


def test_a_topic_is_removed() -> None:
    before = with_topic()
    image, delta = replayed(before, [RemoveTopicRecord(topic_id=ID)])
    assert image.topics == image.topics_by_id == {}
    assert image.partition_count == 0
    assert delta.topics.deleted == [before.topics["t"]]


def test_removed_and_created_again_in_one_batch() -> None:
    before = with_topic()
    image, delta = replayed(before, [RemoveTopicRecord(topic_id=ID), *topic_records(topic_id=OTHER_ID, count=1)])
    assert image.topics["t"].topic_id == OTHER_ID
    assert [topic.topic_id for topic in delta.topics.deleted] == [ID]
    assert list(delta.topics.created) == [OTHER_ID]


def test_created_and_removed_in_one_batch_leaves_no_trace() -> None:
    image, delta = replayed(cluster(), [*topic_records(), RemoveTopicRecord(topic_id=ID)])
    assert image.topics == {}
    assert image.partition_count == 0
    assert delta.is_empty


def test_settings_are_set_and_taken_back() -> None:
    def setting(value: str | None, kind: int = 2, name: str = "t") -> ConfigRecord:
        return ConfigRecord(resource_type=kind, resource_name=name, name="retention.ms", value=value)

    before = with_topic()
    image, delta = replayed(before, [setting("5"), setting("6", 4, ""), setting("7", 4, "1")])
    assert image.topics["t"].config == {"retention.ms": "5"}
    assert image.broker_configs == {"": {"retention.ms": "6"}, "1": {"retention.ms": "7"}}
    assert delta.topics.configs_changed == {"t"}
    assert delta.configs.brokers_changed == {"", "1"}
    assert before.topics["t"].config == {}
    image, _ = replayed(image, [setting(None), setting(None, 4, "1")])
    assert image.topics["t"].config == {}
    assert image.broker_configs == {"": {"retention.ms": "6"}}


def test_brokers_come_change_and_go() -> None:
    before = cluster(broker(1, epoch=3))
    image, delta = replayed(before, [BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=3, fenced=1)])
    assert before.is_live(1)
    assert not image.is_live(1)
    assert delta.brokers.changed == {1}
    image, _ = replayed(image, [BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=3, fenced=-1)])
    assert image.is_live(1)
    image, _ = replayed(image, [UnregisterBrokerRecord(broker_id=1, broker_epoch=3)])
    assert image.brokers == {}


def test_features_and_producer_ids() -> None:
    image, delta = replayed(
        cluster(),
        [FeatureLevelRecord(name="x", feature_level=2), ProducerIdsRecord(next_producer_id=1000), NoOpRecord()],
    )
    assert image.features == {"x": 2}
    assert image.next_producer_id == 1000
    assert delta.part(FeaturesDelta).changed == {"x"}
    assert delta.part(ProducerIdsDelta).next_producer_id == 1000
    assert replayed(image, [FeatureLevelRecord(name="x", feature_level=0)])[0].features == {}


@pytest.mark.parametrize(("name", "level"), [("tidelog.version", 3), ("metadata.version", 31)])
def test_a_level_whose_records_this_version_may_not_know_is_refused(name: str, level: int) -> None:
    image = replayed(cluster(), [FeatureLevelRecord(name=name, feature_level=level - 1)])[0]
    assert image.features == {name: level - 1}
    with pytest.raises(UnreadableMetadata, match=f"at {name} {level} and this node supports at most {level - 1}"):
        replayed(image, [FeatureLevelRecord(name=name, feature_level=level)])


@pytest.mark.parametrize(
    "record",
    [
        PartitionRecord(partition_id=0, topic_id=ID),
        RemoveTopicRecord(topic_id=ID),
        ConfigRecord(resource_type=2, resource_name="nope", name="a", value="b"),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=99, fenced=1),
        AccessControlEntryRecord(),
    ],
)
def test_records_that_fit_nothing_are_refused(record: Message) -> None:
    with pytest.raises(UnreadableMetadata):
        replayed(cluster(), [record])
