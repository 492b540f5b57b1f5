"""The delta between two whole images is what the records between them would have said."""

from __future__ import annotations

from tests.unit.controller.test_topics import create
from tests.unit.metadata.images import broker, cluster, replayed

from tidelog.controller.core.topics import NewTopic
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.table import SUB_DELTAS
from tidelog.protocol.generated.broker_registration_change_record import BrokerRegistrationChangeRecord
from tidelog.protocol.generated.config_record import ConfigRecord
from tidelog.protocol.generated.feature_level_record import FeatureLevelRecord
from tidelog.protocol.generated.partition_change_record import PartitionChangeRecord
from tidelog.protocol.generated.producer_ids_record import ProducerIdsRecord
from tidelog.protocol.generated.remove_topic_record import RemoveTopicRecord
from tidelog.protocol.generated.topic_record import TopicRecord
from tidelog.protocol.private_records import SessionKeyRecord


def test_every_kind_of_change_is_named() -> None:
    before = create(cluster(broker(1), broker(2)), NewTopic("a", 2, 2), NewTopic("b"), NewTopic("c"))[0]
    ids = {name: topic.topic_id for name, topic in before.topics.items()}
    after, told = replayed(
        before,
        [
            PartitionChangeRecord(partition_id=1, topic_id=ids["a"], leader=1),
            RemoveTopicRecord(topic_id=ids["b"]),
            TopicRecord(name="b", topic_id=b"n" * 16),
            ConfigRecord(resource_type=2, resource_name="c", name="retention.ms", value="5"),
            ConfigRecord(resource_type=4, resource_name="", name="log.retention.ms", value="6"),
            ConfigRecord(resource_type=32, resource_name="g", name="consumer.session.timeout.ms", value="7"),
            BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=0, fenced=1),
            FeatureLevelRecord(name="group.version", feature_level=1),
            ProducerIdsRecord(broker_id=1, broker_epoch=0, next_producer_id=1000),
            SessionKeyRecord(key_id=1, key=b"k"),
        ],
    )
    found = MetadataDelta.between(before, after)
    for kind in SUB_DELTAS:
        names = [name for name in kind.__slots__ if not name.startswith("_")]
        part, expected = found.part(kind), told.part(kind)
        assert not part.is_empty, kind
        for name in names:
            assert getattr(part, name) == getattr(expected, name), (kind, name)
    assert MetadataDelta.between(after, after).is_empty
