"""Snapshots: the image comes back as it was, and a damaged file is seen as such."""

import pytest
from tests.unit.metadata.images import broker, cluster, replayed
from tests.unit.metadata.test_replay import topic_records

from tidelog.metadata.framing import UnreadableMetadata
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.snapshot import SnapshotId, decode_snapshot, encode_snapshot, parse_snapshot_name
from tidelog.protocol.generated.config_record import ConfigRecord
from tidelog.protocol.generated.feature_level_record import FeatureLevelRecord
from tidelog.protocol.generated.partition_change_record import PartitionChangeRecord
from tidelog.protocol.generated.producer_ids_record import ProducerIdsRecord

EMPTY = MetadataImage(cluster_id="test", controller_id=1)


def full_image() -> MetadataImage:
    return replayed(
        cluster(broker(1, rack="a"), broker(2, fenced=True, epoch=1)),
        [
            *topic_records(count=1500),
            PartitionChangeRecord(partition_id=7, topic_id=b"i" * 16, leader=2, isr=[2]),
            ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="5"),
            ConfigRecord(resource_type=4, resource_name="", name="log.retention.ms", value="6"),
            ConfigRecord(resource_type=32, resource_name="g", name="x", value="7"),
            FeatureLevelRecord(name="metadata.version", feature_level=30),
            ProducerIdsRecord(next_producer_id=4000),
        ],
    )[0]


def test_an_image_comes_back() -> None:
    image = full_image()
    snapshot = SnapshotId(image.next_offset, image.epoch)
    again, delta = decode_snapshot(encode_snapshot(image, 5), snapshot, EMPTY)
    assert again.topics["t"].partitions == image.topics["t"].partitions
    assert again.topics["t"].config == image.topics["t"].config
    for part in ("brokers", "broker_configs", "group_configs", "features", "next_producer_id", "offset", "epoch"):
        assert getattr(again, part) == getattr(image, part), part
    assert again.partition_count == 1500
    assert delta.topics_created == [again.topics["t"]]


def test_every_cut_and_a_flipped_bit_are_seen() -> None:
    data = encode_snapshot(cluster(), 5)
    snapshot = SnapshotId(1, 1)
    decode_snapshot(data, snapshot, EMPTY)
    for size in range(len(data)):
        with pytest.raises(UnreadableMetadata):
            decode_snapshot(data[:size], snapshot, EMPTY)
    for position in range(0, len(data), 7):
        damaged = bytearray(data)
        damaged[position] ^= 0x10
        try:
            again, _ = decode_snapshot(bytes(damaged), snapshot, EMPTY)
        except UnreadableMetadata:
            continue
        # What the checksum does not cover (base offsets, leader epochs) does not reach the image.
        assert again.brokers == cluster().brokers


def test_names() -> None:
    snapshot = SnapshotId(22028, 2)
    assert snapshot.file_name == "00000000000000022028-0000000002.checkpoint"
    assert parse_snapshot_name(snapshot.file_name) == snapshot
    for name in ("leader-epoch-checkpoint", "00000000000000000000.log", "1-2.checkpoint", snapshot.file_name + ".part"):
        assert parse_snapshot_name(name) is None
