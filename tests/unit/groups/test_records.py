"""The hand-written record codecs against the generated ones, byte for byte, and against damage."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.groups.core.records import (
    CommittedOffset,
    GroupMetadataRecord,
    OffsetCommitRecord,
    StoredGroup,
    StoredMember,
    decode_record,
    encode_record,
    encode_records,
)
from tidelog.protocol.generated.group_metadata_key import GroupMetadataKey
from tidelog.protocol.generated.group_metadata_value import GroupMetadataValue, MemberMetadata
from tidelog.protocol.generated.offset_commit_key import OffsetCommitKey
from tidelog.protocol.generated.offset_commit_value import OffsetCommitValue

texts = st.text(max_size=20)
names = st.text(min_size=1, max_size=20)
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
blobs = st.binary(max_size=40)
committed_offsets = st.builds(
    CommittedOffset,
    int64s,
    int32s,
    st.text(max_size=300),
    int64s,
    st.just(-1),
    st.one_of(st.just(bytes(16)), st.binary(min_size=16, max_size=16)),
)
members = st.builds(
    StoredMember, texts, st.none() | texts, texts, texts, st.integers(0, 2**31 - 1), int32s, blobs, blobs
)
stored_groups = st.builds(
    StoredGroup, texts, int32s, st.none() | texts, st.none() | texts, int64s, st.lists(members, max_size=5)
)


@given(names, names, int32s, committed_offsets)
def test_offsets_are_written_as_kafka_writes_them(
    group: str, topic: str, partition: int, committed: CommittedOffset
) -> None:
    record = OffsetCommitRecord(group, topic, partition, committed)
    key, value = encode_record(record)
    assert key == b"\x00\x01" + OffsetCommitKey(group=group, topic=topic, partition=partition).encode(0)
    expected = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
        topic_id=committed.topic_id,
    )
    assert value == b"\x00\x04" + expected.encode(4)
    assert decode_record(key, value) == record


offset_records = st.builds(
    OffsetCommitRecord,
    st.sampled_from(["", "g", "group"]),
    st.sampled_from(["", "t", "topic"]),
    int32s,
    st.none() | committed_offsets,
)
group_records = st.builds(GroupMetadataRecord, st.sampled_from(["g", "group"]), st.none() | stored_groups)


@given(st.lists(offset_records | group_records, max_size=8))
def test_records_of_one_decision_are_written_as_each_alone(records: list[OffsetCommitRecord]) -> None:
    assert encode_records(records) == [encode_record(record) for record in records]


@given(int64s, texts, int64s, st.integers(0, 2**63 - 1))
def test_offsets_with_an_expiry_of_their_own(offset: int, metadata: str, commit_ms: int, expire_ms: int) -> None:
    record = OffsetCommitRecord("g", "t", 0, CommittedOffset(offset, -1, metadata, commit_ms, expire_ms))
    key, value = encode_record(record)
    expected = OffsetCommitValue(
        offset=offset, metadata=metadata, commit_timestamp=commit_ms, expire_timestamp=expire_ms
    )
    assert value == b"\x00\x01" + expected.encode(1)
    assert decode_record(key, value) == record


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_offsets_of_every_version_are_read(version: int) -> None:
    key = b"\x00\x00" + OffsetCommitKey(group="g", topic="t", partition=1).encode(0)
    value = OffsetCommitValue(offset=5, metadata="m", commit_timestamp=7)
    record = decode_record(key, version.to_bytes(2, "big") + value.encode(version))
    assert record == OffsetCommitRecord("g", "t", 1, CommittedOffset(5, -1, "m", 7))


def generated(stored: StoredGroup) -> GroupMetadataValue:
    return GroupMetadataValue(
        protocol_type=stored.protocol_type,
        generation=stored.generation,
        protocol=stored.protocol,
        leader=stored.leader,
        current_state_timestamp=stored.state_timestamp_ms,
        members=[
            MemberMetadata(
                member_id=m.member_id,
                group_instance_id=m.instance_id,
                client_id=m.client_id,
                client_host=m.client_host,
                rebalance_timeout=m.rebalance_timeout_ms,
                session_timeout=m.session_timeout_ms,
                subscription=m.subscription,
                assignment=m.assignment,
            )
            for m in stored.members
        ],
    )


@given(names, stored_groups)
def test_groups_are_written_as_kafka_writes_them(group: str, stored: StoredGroup) -> None:
    record = GroupMetadataRecord(group, stored)
    key, value = encode_record(record)
    assert key == b"\x00\x02" + GroupMetadataKey(group=group).encode(0)
    assert value == b"\x00\x03" + generated(stored).encode(3)
    assert decode_record(key, value) == record


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_groups_of_every_version_are_read(version: int) -> None:
    member = StoredMember("m", "i" if version >= 3 else None, "c", "/h", 20 if version >= 1 else 10, 10, b"s", b"a")
    stored = StoredGroup("consumer", 3, "range", None, 99 if version >= 2 else -1, [member])
    key, _ = encode_record(GroupMetadataRecord("g", None))
    value = version.to_bytes(2, "big") + generated(stored).encode(version)
    assert decode_record(key, value) == GroupMetadataRecord("g", stored)


def test_tombstones() -> None:
    for record in (OffsetCommitRecord("g", "t", 1, None), GroupMetadataRecord("g", None)):
        key, value = encode_record(record)
        assert value is None
        assert decode_record(key, None) == record


def test_kinds_of_records_that_are_not_known_yet() -> None:
    assert decode_record(b"\x00\x0b\x00\x01g", b"\x00\x00\x00\x00\x00\x01") is None


@given(blobs, st.none() | blobs)
def test_random_bytes_raise_nothing_but_value_error(key: bytes, value: bytes | None) -> None:
    with contextlib.suppress(ValueError):
        decode_record(key, value)


@given(stored_groups, committed_offsets, st.data())
def test_damaged_records_raise_nothing_but_value_error(
    stored: StoredGroup, committed: CommittedOffset, data: st.DataObject
) -> None:
    record = data.draw(st.sampled_from([GroupMetadataRecord("g", stored), OffsetCommitRecord("g", "t", 0, committed)]))
    key, value = encode_record(record)
    assert value is not None
    damaged = bytearray(value[: data.draw(st.integers(0, len(value)))])
    if damaged:
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ValueError):
        decode_record(key, bytes(damaged))
