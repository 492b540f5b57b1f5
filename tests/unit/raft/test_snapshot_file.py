"""Snapshots: the image and the members come back as they were, and a damaged file is seen as such."""

from __future__ import annotations

import pytest
from tests.unit.metadata.images import broker, cluster, replayed
from tests.unit.metadata.test_replay import topic_records
from tests.unit.raft.driver import member, voters

from tidelog.metadata.framing import decode_metadata_record, encode_metadata_record
from tidelog.metadata.image import MetadataImage
from tidelog.protocol.generated.config_record import ConfigRecord
from tidelog.protocol.generated.feature_level_record import FeatureLevelRecord
from tidelog.protocol.generated.partition_change_record import PartitionChangeRecord
from tidelog.protocol.generated.producer_ids_record import ProducerIdsRecord
from tidelog.raft.core.members import MemberSet
from tidelog.raft.core.messages import SnapshotId
from tidelog.raft.snapshot_file import (
    DamagedSnapshot,
    decode_snapshot,
    encode_snapshot,
    parse_snapshot_name,
    snapshot_file_name,
)

EMPTY = MetadataImage(cluster_id="test", controller_id=1)
MEMBERS = MemberSet(voters(1, 2, 3).voters, (member(4),))


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


def encoded(image: MetadataImage) -> bytes:
    values = map(encode_metadata_record, image.records())
    return b"".join(encode_snapshot(values, MEMBERS, SnapshotId(image.next_offset, image.epoch), 5))


def test_an_image_and_the_members_come_back() -> None:
    image = full_image()
    content = decode_snapshot(encoded(image))
    again = replayed(EMPTY, [decode_metadata_record(value) for value in content.values])[0]
    assert again.topics["t"].partitions == image.topics["t"].partitions
    assert again.topics["t"].config == image.topics["t"].config
    for part in ("brokers", "broker_configs", "group_configs", "features", "next_producer_id"):
        assert getattr(again, part) == getattr(image, part), part
    assert again.partition_count == 1500
    assert content.members == MEMBERS


def test_every_cut_and_a_flipped_bit_are_seen() -> None:
    data = encoded(cluster())
    content = decode_snapshot(data)
    for size in range(len(data)):
        with pytest.raises(DamagedSnapshot):
            decode_snapshot(data[:size])
    for position in range(0, len(data), 7):
        damaged = bytearray(data)
        damaged[position] ^= 0x10
        try:
            again = decode_snapshot(bytes(damaged))
        except DamagedSnapshot:
            continue
        # What the checksum does not cover (base offsets, leader epochs) reaches neither records nor members.
        assert again == content


def test_names() -> None:
    snapshot = SnapshotId(22028, 2)
    name = snapshot_file_name(snapshot)
    assert name == "00000000000000022028-0000000002.checkpoint"
    assert parse_snapshot_name(name) == snapshot
    for other in ("leader-epoch-checkpoint", "00000000000000000000.log", "1-2.checkpoint", name + ".part"):
        assert parse_snapshot_name(other) is None
