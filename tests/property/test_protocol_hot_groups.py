"""The hand-tuned paths of groups against the generated ones: the same bytes out, the same verdict on bytes."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.hot_readers import mutate, verdict
from tests.property.test_protocol_messages import values
from tests.unit.protocol.reference import BY_NAME

from tidelog.protocol.errors import UnencodableValue, UnsupportedVersion
from tidelog.protocol.generated import consumer_group_heartbeat, heartbeat, join_group, offset_commit, sync_group
from tidelog.protocol.hot_groups import (
    decode_consumer_heartbeat,
    decode_heartbeat,
    decode_join,
    decode_sync,
    encode_consumer_heartbeat_response,
    encode_heartbeat_response,
    encode_join_response,
    encode_sync_response,
)
from tidelog.protocol.hot_offset_commit import decode_offset_commit, encode_offset_commit_response

int16 = st.integers(-(2**15), 2**15 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
names = st.text(max_size=150)
maybe_names = st.none() | names
uuids = st.binary(min_size=16, max_size=16)
fields = st.binary(max_size=300)
counts = st.sampled_from([0, 1, 2, 125, 126, 127, 128, 300])


def flat_commit(frame: Any, version: int) -> Any:
    """What the generated codec reads, in the shape of the hand-tuned one; so for the others."""
    request = offset_commit.OffsetCommitRequest.decode(frame, 0, version)[0]
    member = (request.group_id, request.generation_id_or_member_epoch, request.member_id, request.group_instance_id)
    topics = [
        (
            topic.name,
            topic.topic_id,
            [
                (each.partition_index, each.committed_offset, each.committed_leader_epoch, each.committed_metadata)
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return (*member, request.retention_time_ms, topics)


def flat_heartbeat(frame: Any, version: int) -> Any:
    request = heartbeat.HeartbeatRequest.decode(frame, 0, version)[0]
    return request.group_id, request.generation_id, request.member_id, request.group_instance_id


def flat_join(frame: Any, version: int) -> Any:
    request = join_group.JoinGroupRequest.decode(frame, 0, version)[0]
    timeouts = (request.session_timeout_ms, request.rebalance_timeout_ms)
    member = (request.member_id, request.group_instance_id)
    protocols = [(each.name, bytes(each.metadata)) for each in request.protocols]
    return (request.group_id, *timeouts, *member, request.protocol_type, protocols)


def flat_sync(frame: Any, version: int) -> Any:
    request = sync_group.SyncGroupRequest.decode(frame, 0, version)[0]
    member = (request.generation_id, request.member_id, request.group_instance_id)
    assignments = [(each.member_id, bytes(each.assignment)) for each in request.assignments]
    return (request.group_id, *member, request.protocol_type, request.protocol_name, assignments)


def flat_consumer(frame: Any, version: int) -> Any:
    request = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest.decode(frame, 0, version)[0]
    member = (request.group_id, request.member_id, request.member_epoch, request.instance_id, request.rack_id)
    wanted = (request.subscribed_topic_names, request.subscribed_topic_regex, request.server_assignor)
    owned = None
    if request.topic_partitions is not None:
        owned = {topic.topic_id: tuple(topic.partitions) for topic in request.topic_partitions}
    return (*member, request.rebalance_timeout_ms, *wanted, owned)


READERS: dict[str, tuple[Any, Any]] = {
    "OffsetCommitRequest": (lambda frame, version: decode_offset_commit(frame, 0, version), flat_commit),
    "HeartbeatRequest": (lambda frame, version: decode_heartbeat(frame, 0, version), flat_heartbeat),
    "JoinGroupRequest": (lambda frame, version: decode_join(frame, 0, version), flat_join),
    "SyncGroupRequest": (lambda frame, version: decode_sync(frame, 0, version), flat_sync),
    "ConsumerGroupHeartbeatRequest": (
        lambda frame, version: decode_consumer_heartbeat(frame, 0, version),
        flat_consumer,
    ),
}


@st.composite
def frames(draw: st.DrawFn) -> tuple[str, int, bytes]:
    name = draw(st.sampled_from(sorted(READERS)))
    schema = BY_NAME[name]
    version = draw(st.sampled_from(schema.versions))
    return name, version, schema.encode(draw(values(schema, version, name)), version)


@settings(max_examples=200, deadline=None)
@given(frames(), st.randoms(use_true_random=False))
def test_protocol_hot_groups_requests_read_as_generated(case: tuple[str, int, bytes], chance: random.Random) -> None:
    name, version, frame = case
    hot, generated = READERS[name]
    expected = generated(frame, version)
    assert hot(frame, version) == expected
    assert hot(bytearray(frame), version) == expected
    assert hot(memoryview(frame), version) == expected
    for _ in range(12):
        mutant = mutate(frame, chance)
        assert verdict(hot, mutant, version) == verdict(generated, mutant, version)


@pytest.mark.parametrize("name", sorted(READERS))
def test_protocol_hot_groups_requests_read_as_generated_in_every_version(name: str) -> None:
    schema = BY_NAME[name]
    hot, generated = READERS[name]
    chance = random.Random(name)
    for version in schema.versions:
        for _ in range(30):
            frame = schema.encode(schema.random_values(chance, version), version)
            assert hot(frame, version) == generated(frame, version)
            for cut in chance.sample(range(len(frame)), min(15, len(frame))):
                assert verdict(hot, frame[:cut], version) == verdict(generated, frame[:cut], version) == "malformed"
            if version >= schema.flexible_from:
                unknown_tag = frame[:-1] + b"\x01\x63\x02ab"
                assert verdict(hot, unknown_tag, version) == verdict(generated, unknown_tag, version)
    for version in (schema.versions[0] - 1, schema.versions[-1] + 1):
        with pytest.raises(UnsupportedVersion):
            hot(b"", version)


def test_protocol_hot_groups_members_without_news() -> None:
    request = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=7)
    for version in (0, 1):
        frame = request.encode(version)
        expected = ("g", "m", 7, None, None, -1, None, None, None, None)
        assert flat_consumer(frame, version) == decode_consumer_heartbeat(frame, 0, version) == expected
        assert decode_consumer_heartbeat(b"head" + frame, 4, version) == expected


def test_protocol_hot_groups_requests_read_sizes_written_longer_than_need_be() -> None:
    """0x80 0x00 is zero in two bytes: null as 0x00 is, and never a step back."""
    usual = heartbeat.HeartbeatRequest(group_id="g", member_id="m").encode(4)
    assert usual.endswith(b"m\0\0")
    longer = usual[:-2] + b"\x80\x00" + b"\x80\x00"
    assert decode_heartbeat(longer, 0, 4) == flat_heartbeat(longer, 4) == ("g", 0, "m", None)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(BY_NAME["OffsetCommitResponse"].versions),
    st.lists(st.tuples(names, uuids, counts, int32, int16), max_size=3),
)
def test_protocol_hot_groups_commit_responses_are_as_generated(version: int, topics: list[Any]) -> None:
    response = offset_commit.OffsetCommitResponse()
    flat = []
    for name, topic_id, count, index, code in topics:
        flat.append((name, topic_id, [(index, code)] * count))
        partition = offset_commit.OffsetCommitResponsePartition(partition_index=index, error_code=code)
        response.topics.append(
            offset_commit.OffsetCommitResponseTopic(name=name, topic_id=topic_id, partitions=[partition] * count)
        )
    assert encode_offset_commit_response(version, flat) == response.encode(version)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(range(6, 10)),
    st.tuples(int16, int32, names, names, names, names, st.booleans()),
    st.lists(st.tuples(names, maybe_names, fields), max_size=3),
    counts,
)
def test_protocol_hot_groups_join_and_sync_responses_are_as_generated(
    version: int, told: tuple[int, int, str, str, str, str, bool], members: list[Any], repeated: int
) -> None:
    error, generation, kind, protocol, leader, member_id, skips = told
    members = members * repeated
    joined = join_group.JoinGroupResponse(
        error_code=error,
        generation_id=generation,
        protocol_type=kind if version >= 7 else None,
        protocol_name=protocol,
        leader=leader,
        skip_assignment=skips and version >= 9,
        member_id=member_id,
        members=[
            join_group.JoinGroupResponseMember(member_id=each, group_instance_id=instance, metadata=metadata)
            for each, instance, metadata in members
        ],
    )
    written = encode_join_response(version, error, generation, kind, protocol, leader, member_id, skips, members)
    assert written == joined.encode(version)
    for sync_version in (4, 5):
        synced = sync_group.SyncGroupResponse(error_code=error, assignment=bytes(repeated))
        if sync_version >= 5:
            synced.protocol_type, synced.protocol_name = kind, None
        written = encode_sync_response(sync_version, error, kind, None, bytes(repeated))
        assert written == synced.encode(sync_version)


@settings(max_examples=100, deadline=None)
@given(names, int32, int32, st.none() | st.dictionaries(uuids, st.lists(int32, max_size=200), max_size=3), int16)
def test_protocol_hot_groups_heartbeat_responses_are_as_generated(
    member_id: str, epoch: int, interval_ms: int, assignment: dict[bytes, list[int]] | None, error: int
) -> None:
    response = consumer_group_heartbeat.ConsumerGroupHeartbeatResponse(
        member_id=member_id, member_epoch=epoch, heartbeat_interval_ms=interval_ms
    )
    if assignment is not None:
        response.assignment = consumer_group_heartbeat.Assignment(
            topic_partitions=[
                consumer_group_heartbeat.ConsumerGroupHeartbeatResponseTopicPartitions(
                    topic_id=topic_id, partitions=partitions
                )
                for topic_id, partitions in assignment.items()
            ]
        )
    written = encode_consumer_heartbeat_response(member_id, epoch, interval_ms, assignment)
    for version in (0, 1):
        assert written == response.encode(version)
    for version in range(5):
        assert encode_heartbeat_response(version, error) == heartbeat.HeartbeatResponse(error_code=error).encode(
            version
        )


def test_protocol_hot_groups_responses_refuse_what_does_not_fit() -> None:
    for version in (2, 8, 10):
        with pytest.raises(UnencodableValue):
            encode_offset_commit_response(version, [("t", bytes(16), [(2**31, 0)])])
