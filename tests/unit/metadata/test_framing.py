"""Metadata records in their frames: bytes that Apache Kafka 4.3.1 wrote are read, and written back the same."""

import pytest

from tidelog.metadata.framing import UnreadableMetadata, decode_metadata_record, encode_metadata_record
from tidelog.protocol.generated.config_record import ConfigRecord
from tidelog.protocol.generated.feature_level_record import FeatureLevelRecord
from tidelog.protocol.generated.partition_record import PartitionRecord
from tidelog.protocol.generated.topic_record import TopicRecord

TOPIC_ID = bytes.fromhex("4f99fc606543423d8cf104276ce9b2ef")
DIRECTORY_ID = bytes.fromhex("bb8e022301fb4a569ebb14eaf37ef5f8")


@pytest.mark.parametrize(
    ("raw", "record"),
    [
        (
            "010c00116d657461646174612e76657273696f6e001e00",
            FeatureLevelRecord(name="metadata.version", feature_level=30),
        ),
        (
            "0104000401146d696e2e696e73796e632e7265706c69636173023100",
            ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="1"),
        ),
        ("0102000374314f99fc606543423d8cf104276ce9b2ef00", TopicRecord(name="t1", topic_id=TOPIC_ID)),
    ],
)
def test_kafkas_bytes(raw: str, record: TopicRecord) -> None:
    assert decode_metadata_record(bytes.fromhex(raw)) == record
    assert encode_metadata_record(record).hex() == raw


def test_a_partition_as_kafka_writes_it() -> None:
    raw = (
        "010302000000004f99fc606543423d8cf104276ce9b2ef020000000102000000010101000000010000000000000000"
        "02bb8e022301fb4a569ebb14eaf37ef5f800"
    )
    assert decode_metadata_record(bytes.fromhex(raw)) == PartitionRecord(
        partition_id=0,
        topic_id=TOPIC_ID,
        replicas=[1],
        isr=[1],
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=[DIRECTORY_ID],
    )


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"\x02\x0c\x00", "frame version 2"),
        (b"\x01\x7f\x00", "unknown type 127"),
        (b"\x01\x02\x63", "TopicRecord in version 99"),
        (b"\x01\x80\x01\x00", "unknown type 128"),
    ],
)
def test_what_is_not_a_record_is_refused(raw: bytes, message: str) -> None:
    with pytest.raises(UnreadableMetadata, match=message):
        decode_metadata_record(raw)
