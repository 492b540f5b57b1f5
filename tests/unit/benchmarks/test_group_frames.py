"""What the light members of the benchmark send and read, against the generated codecs."""

from __future__ import annotations

from benchmarks import group_frames as frames

from tidelog.protocol.generated import consumer_group_heartbeat, join_group, sync_group
from tidelog.protocol.headers import decode_request_header, encode_response_header
from tidelog.protocol.index import request_class
from tidelog.protocol.message import Message


def sent(frame: bytes) -> Message:
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header = decode_request_header(frame, 4)
    message, end = request_class(header.api_key).decode(frame, header.body_position, header.api_version)
    assert end == len(frame)
    return message


def answer(message: Message, version: int) -> bytes:
    return encode_response_header(frames.CORRELATION_ID, True) + message.encode(version)


def test_group_frames_of_classic_members() -> None:
    assert sent(frames.join_frame("g", "m", b"topics")) == join_group.JoinGroupRequest(
        group_id="g",
        session_timeout_ms=frames.SESSION_MS,
        rebalance_timeout_ms=frames.REBALANCE_MS,
        member_id="m",
        protocol_type="consumer",
        protocols=[join_group.JoinGroupRequestProtocol(name="range", metadata=b"topics")],
    )
    assignments = [("m", bytes(200)), ("n" * 200, b"x")]
    assert sent(frames.sync_frame("g", "m", 7, assignments)) == sync_group.SyncGroupRequest(
        group_id="g",
        generation_id=7,
        member_id="m",
        protocol_type="consumer",
        protocol_name="range",
        assignments=[
            sync_group.SyncGroupRequestAssignment(member_id=member, assignment=assignment)
            for member, assignment in assignments
        ],
    )


def test_group_frames_read_what_classic_members_are_told() -> None:
    members = [f"member-{number}" for number in range(300)]
    joined = join_group.JoinGroupResponse(
        generation_id=7,
        protocol_type="consumer",
        protocol_name="range",
        leader=members[0],
        member_id=members[0],
        members=[
            join_group.JoinGroupResponseMember(member_id=member, metadata=bytes(number))
            for number, member in enumerate(members)
        ],
    )
    assert frames.read_joined(answer(joined, 9)) == (0, 7, members[0], members)
    refused = join_group.JoinGroupResponse(error_code=79, protocol_name=None, member_id="m")
    assert frames.read_joined(answer(refused, 9)) == (79, -1, "m", [])
    synced = sync_group.SyncGroupResponse(protocol_type="consumer", protocol_name="range", assignment=bytes(300))
    assert frames.read_synced(answer(synced, 5)) == (0, bytes(300))


def test_group_frames_of_consumer_members() -> None:
    quiet = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=3)
    assert sent(frames.report_frame("g", "m", 3, None)) == quiet
    partitions = {b"a" * 16: list(range(500)), b"b" * 16: [3]}
    told = consumer_group_heartbeat.ConsumerGroupHeartbeatResponse(
        member_id="m",
        member_epoch=4,
        heartbeat_interval_ms=5000,
        assignment=consumer_group_heartbeat.Assignment(
            topic_partitions=[
                consumer_group_heartbeat.ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=key, partitions=value)
                for key, value in partitions.items()
            ]
        ),
    )
    beat = frames.read_beat(answer(told, 1))
    assert (beat.error_code, beat.epoch) == (0, 4)
    assert beat.assignment is not None
    assert frames.partition_count(beat.assignment) == 501
    quiet.member_epoch = 4
    quiet.topic_partitions = [
        consumer_group_heartbeat.ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=key, partitions=value)
        for key, value in partitions.items()
    ]
    assert sent(frames.report_frame("g", "m", 4, beat.assignment)) == quiet
    told.assignment = None
    assert frames.read_beat(answer(told, 1)) == (0, 4, None)
