"""`tidelog log dump --records` of internal topics: fields for people and programs, and bytes where there are none."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.unit.storage.partition_log import NOW, append, end_transaction, open_log

from tidelog.cli import internal_records
from tidelog.cli.main import main
from tidelog.groups.core.consumer.records import Subscription, SubscriptionRecord
from tidelog.groups.core.records import (
    CommittedOffset,
    GroupMetadataRecord,
    OffsetCommitRecord,
    StoredGroup,
    StoredMember,
)
from tidelog.groups.core.records import encode_record as encode_group_record
from tidelog.metadata.framing import encode_metadata_record
from tidelog.model.ids import TopicPartition, encode_topic_id
from tidelog.protocol.generated.consumer_protocol_subscription import ConsumerProtocolSubscription
from tidelog.protocol.generated.partition_record import PartitionRecord
from tidelog.protocol.generated.topic_record import TopicRecord
from tidelog.raft.core.members import Member, MemberSet
from tidelog.raft.core.messages import SnapshotId
from tidelog.raft.snapshot_file import encode_snapshot, snapshot_file_name
from tidelog.transactions.core.metadata import TransactionMetadata
from tidelog.transactions.core.records import TransactionRecord
from tidelog.transactions.core.records import encode_record as encode_transaction_record
from tidelog.transactions.core.state import TransactionState

TOPIC_ID = bytes(range(16))
Pairs = Sequence[tuple[bytes | None, bytes | None]]
OFFSET_COMMIT = OffsetCommitRecord("shop", "orders", 3, CommittedOffset(42, 5, "half way", NOW, topic_id=TOPIC_ID))


def write(directory: Path, topic: str, records: Pairs, *, with_marker: bool = False) -> Path:
    log = open_log(directory)
    if with_marker:
        append(log, records, producer_id=4, producer_epoch=1, base_sequence=0, transactional=True)
        end_transaction(log, 4, commit=True, epoch=1)
    else:
        append(log, records)
    log.close()
    return (directory / "topic-0").rename(directory / f"{topic}-0")


def dump(partition: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The records for programs, without what every record has."""
    assert main(["log", "dump", str(partition), "--records", "--json"]) == 0
    batches = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    records = [record for batch in batches for record in batch["records"]]
    return [{name: record[name] for name in record if name not in ("offset", "timestamp")} for record in records]


def dump_for_people(partition: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert main(["log", "dump", str(partition), "--records"]) == 0
    return [line.strip() for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]


def test_committed_offsets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gone = OffsetCommitRecord("shop", "orders", 4, None)
    records = [encode_group_record(OFFSET_COMMIT), encode_group_record(gone)]
    partition = write(tmp_path, "__consumer_offsets", records, with_marker=True)
    committed, tombstone, marker = dump(partition, capsys)
    assert committed == {
        "type": "OffsetCommit",
        "version": 4,
        "key": {"group": "shop", "topic": "orders", "partition": 3},
        "value": {
            "offset": 42,
            "leader_epoch": 5,
            "metadata": "half way",
            "commit_timestamp": NOW,
            "expire_timestamp": -1,
            "topic_id": encode_topic_id(TOPIC_ID),
        },
    }
    assert tombstone == {
        "type": "OffsetCommit",
        "key": {"group": "shop", "topic": "orders", "partition": 4},
        "value": None,
    }
    assert marker["control"] == "commit"
    assert marker["value"] == {"coordinator_epoch": 0}
    lines = dump_for_people(partition, capsys)
    assert lines[0].startswith(
        f"offset=0 timestamp={NOW} type=OffsetCommit version=4 key.group=shop key.topic=orders key.partition=3 "
        'value.offset=42 value.leader_epoch=5 value.metadata="half way"'
    )
    assert lines[1].endswith("key.group=shop key.topic=orders key.partition=4 value=null")
    assert lines[2].endswith("value.coordinator_epoch=0")


def test_groups_with_what_their_members_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    subscription = b"\x00\x01" + ConsumerProtocolSubscription(topics=["orders"]).encode(1)

    def group(name: str, protocol_type: str) -> tuple[bytes, bytes | None]:
        member = StoredMember("m-1", None, "client", "/127.0.0.1", 1000, 2000, subscription, b"\xff")
        return encode_group_record(
            GroupMetadataRecord(name, StoredGroup(protocol_type, 7, "range", "m-1", NOW, [member]))
        )

    member = encode_group_record(SubscriptionRecord("new", "m-2", Subscription(client_id="c", topics=("orders",))))
    partition = write(tmp_path, "__consumer_offsets", [group("shop", "consumer"), group("workers", "connect"), member])
    classic, connect, consumer = dump(partition, capsys)
    assert classic["type"] == "GroupMetadata"
    assert classic["key"] == {"group": "shop"}
    assert classic["value"]["generation"] == 7
    [described] = classic["value"]["members"]
    assert described["member_id"] == "m-1"
    assert described["subscription"]["topics"] == ["orders"]
    # What is not in the form of consumers stays bytes, alone or because the group is none of consumers.
    assert (described["assignment"], described["assignment_encoding"]) == ("/w==", "base64")
    [described] = connect["value"]["members"]
    assert base64.b64decode(described["subscription"]) == subscription
    assert consumer["type"] == "ConsumerGroupMemberMetadata"
    assert consumer["key"] == {"group_id": "new", "member_id": "m-2"}
    assert consumer["value"]["subscribed_topic_names"] == ["orders"]


def test_transactions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    metadata = TransactionMetadata(
        producer_id=9,
        producer_epoch=1,
        timeout_ms=60_000,
        state=TransactionState.PREPARE_COMMIT,
        partitions=frozenset({TopicPartition("orders", 0), TopicPartition("orders", 2)}),
        start_timestamp_ms=NOW,
        update_timestamp_ms=NOW + 1,
    )
    partition = write(
        tmp_path, "__transaction_state", [encode_transaction_record(TransactionRecord("till-1", metadata))]
    )
    [record] = dump(partition, capsys)
    assert record["key"] == {"transactional_id": "till-1"}
    assert record["value"]["transaction_status"] == "PrepareCommit"
    assert record["value"]["transaction_partitions"] == [{"topic": "orders", "partition_ids": [0, 2]}]
    [line] = dump_for_people(partition, capsys)
    assert "key.transactional_id=till-1" in line
    assert "value.transaction_status=PrepareCommit" in line
    assert 'value.transaction_partitions=[{"topic": "orders", "partition_ids": [0, 2]}]' in line


def test_metadata_and_its_snapshots(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory_id = bytes(range(1, 17))
    values = [
        encode_metadata_record(TopicRecord(name="orders", topic_id=TOPIC_ID)),
        encode_metadata_record(PartitionRecord(topic_id=TOPIC_ID, replicas=[1], isr=[1], directories=[directory_id])),
    ]
    partition = write(tmp_path, "__cluster_metadata", [(None, value) for value in values])
    topic, replicas = dump(partition, capsys)
    assert topic == {
        "type": "TopicRecord",
        "version": 0,
        "key": None,
        "value": {"name": "orders", "topic_id": encode_topic_id(TOPIC_ID)},
    }
    assert replicas["type"] == "PartitionRecord"
    assert replicas["version"] == 1
    assert replicas["value"]["directories"] == [encode_topic_id(directory_id)]

    snapshot = SnapshotId(end_offset=2, term=1)
    member = Member(node_id=1, directory_id=directory_id, host="127.0.0.1", port=9092)
    file = partition / snapshot_file_name(snapshot)
    file.write_bytes(b"".join(encode_snapshot(values, MemberSet(voters=(member,), learners=()), snapshot, NOW)))
    header, voters, learners, *content, footer = dump(file, capsys)
    assert (header["control"], header["type"]) == ("snapshot_header", "SnapshotHeaderRecord")
    assert voters["value"]["voters"][0]["voter_directory_id"] == encode_topic_id(directory_id)
    assert (learners["control"], learners["value"]["voters"]) == ("learners", [])
    assert content == [topic, replicas]
    assert footer["control"] == "snapshot_footer"


KEY, VALUE = encode_group_record(OFFSET_COMMIT)
assert VALUE is not None


@pytest.mark.parametrize(
    ("topic", "key", "value"),
    [
        ("__consumer_offsets", None, b"\xff"),
        ("__consumer_offsets", b"\x00", b"\xff"),
        ("__consumer_offsets", b"\x7f\xff" + KEY[2:], VALUE),
        ("__consumer_offsets", KEY[:-1], VALUE),
        ("__consumer_offsets", KEY, VALUE[:-1]),
        ("__consumer_offsets", KEY, b"\x00\x63" + VALUE[2:]),
        ("__consumer_offsets", KEY, b""),
        ("__transaction_state", b"\x00\x01\xff", b"\xff"),
        ("__transaction_state", b"\x00\x00\x00\x01i", b"\x00\x01\xff"),
        ("__cluster_metadata", None, None),
        ("__cluster_metadata", None, b""),
        ("__cluster_metadata", None, b"\x01\xff\xff\xff\xff\xff\xff"),
        ("__cluster_metadata", None, b"\x01\x02\x00\xff"),
        ("orders", KEY, VALUE),
    ],
)
def test_what_makes_no_sense_stays_as_it_is(
    tmp_path: Path, topic: str, key: bytes | None, value: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    partition = write(tmp_path, topic, [(key, value), encode_group_record(OFFSET_COMMIT)])
    record = dump(partition, capsys)[0]
    assert "type" not in record
    for name, content in (("key", key), ("value", value)):
        shown = record[name]
        if record.get(f"{name}_encoding") == "base64":
            assert base64.b64decode(shown) == content
        else:
            assert (shown.encode() if shown is not None else None) == content
    assert len(dump_for_people(partition, capsys)) == 2


def test_names_of_clients_cannot_steer_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "a\x1b[2J\x7f\x9b"
    record = OffsetCommitRecord(name, "orders", 0, CommittedOffset(1, -1, "", NOW))
    partition = write(tmp_path, "__consumer_offsets", [encode_group_record(record)])
    [line] = dump_for_people(partition, capsys)
    assert line.isprintable()
    assert r'key.group="a\u001b[2J\u007f\u009b"' in line
    assert dump(partition, capsys)[0]["key"]["group"] == name


def test_the_types_are_those_of_the_generated_messages() -> None:
    for number, name in (*internal_records.GROUP_TYPES.items(), *internal_records.TRANSACTION_TYPES.items()):
        for part in ("Key", "Value"):
            # Type 0 is the oldest form of an offset's key, and has the same fields.
            expected = 1 if name == "OffsetCommit" else number
            assert expected == internal_records.load_message(name + part).API_KEY
    for name in internal_records.CONTROL_TYPES.values():
        assert internal_records.load_message(name).__name__ == name
    generated = Path(str(import_module("tidelog.protocol.generated").__file__)).parent
    known = {internal_records.module_of(f"{name}Key") for name in internal_records.GROUP_TYPES.values()}
    written = {path.stem for path in generated.glob("*group*_key.py")} | {"offset_commit_key"}
    assert known == written
