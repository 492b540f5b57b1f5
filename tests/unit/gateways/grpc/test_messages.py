"""Names and numbers of `mq` and `api`: programs exist that use them, so they are spelled out here once more."""

from __future__ import annotations

from typing import Any

import pytest

from tidelog.gateways.grpc.generated import api_pb2, mq_pb2, tidelog_pb2

MQ = """
Message: key=1 value=2 headers=3 timestamp=4 offset=5 partition=6 topic=7
ProduceRequest: topic=1 key=2 value=3 headers=4 acks=5 partition=6
ProduceResponse: offset=1 partition=2 timestamp=3
ConsumeRequest: topic=1 partition=2 offset=3 max_bytes=4
ConsumeResponse: messages=1 high_watermark=2
SubscribeRequest: group_id=1 topic=2 partition=3 start_offset=4
CommitOffsetRequest: group_id=1 topic=2 partition=3 offset=4
CommitOffsetResponse: success=1
SeekRequest: topic=1 partition=2 offset=3
SeekResponse: offset=1
CreateTopicRequest: topic=1 partitions=2 replication_factor=3
CreateTopicResponse: success=1 error=2
DeleteTopicRequest: topic=1
DeleteTopicResponse: success=1 error=2
ListTopicsRequest:
ListTopicsResponse: topics=1
DescribeTopicRequest: topic=1
DescribeTopicResponse: topic=1 partitions=2 partition_info=3
PartitionInfo: partition_id=1 high_water_mark=2 log_end_offset=3 leader=4 replicas=5 isr=6
DescribeClusterRequest:
DescribeClusterResponse: broker_id=1 cluster_id=2 brokers=3
BrokerInfo: id=1 host=2 port=3
JoinGroupRequest: group_id=1 member_id=2 topics=3
JoinGroupResponse: member_id=1 generation_id=2 leader_id=3 members=4
SyncGroupRequest: group_id=1 member_id=2 generation_id=3 assignment=4
PartitionAssignments: partitions=1
SyncGroupResponse: success=1 assignment=2
HeartbeatRequest: group_id=1 member_id=2 generation_id=3
HeartbeatResponse: success=1
LeaveGroupRequest: group_id=1 member_id=2
LeaveGroupResponse: success=1
"""
API = """
Record: value=1 offset=2
ProduceRequest: topic=1 partition=2 value=3 ack=4 producer_id=5 sequence_number=6
ProduceResponse: offset=1 error_code=2 leader_addr=3
ConsumeRequest: topic=1 partition=2 offset=3
ConsumeResponse: record=1
CommitOffsetRequest: consumer_group_id=1 topic=2 partition=3 offset=4
CommitOffsetResponse:
FetchOffsetRequest: consumer_group_id=1 topic=2 partition=3
FetchOffsetResponse: offset=1
JoinRequest: node_id=1 raft_addr=2 grpc_addr=3
JoinResponse:
JoinGroupRequest: group_id=1 consumer_id=2 topic=3
TopicMetadata:
JoinGroupResponse: error_code=1 leader_id=2 is_leader=3 members=4 partitions=5
PartitionAssignment: partitions=1
SyncGroupRequest: group_id=1 consumer_id=2 assignments=3
SyncGroupResponse: error_code=1 assignment=2
HeartbeatRequest: group_id=1 consumer_id=2
HeartbeatResponse: error_code=1
CreateTopicRequest: topic=1 partitions=2
CreateTopicResponse: error_code=1
"""


@pytest.mark.parametrize(("module", "table"), [(mq_pb2, MQ), (api_pb2, API)])
def test_field_numbers(module: Any, table: str) -> None:
    messages = module.DESCRIPTOR.message_types_by_name
    shown = {
        f"{name}: {' '.join(f'{field.name}={field.number}' for field in message.fields)}".strip()
        for name, message in messages.items()
    }
    assert shown == set(table.strip().splitlines())


def test_field_types() -> None:
    """One value of each kind of field that a reader of other types would read otherwise."""
    message = mq_pb2.Message(key=b"k", headers={"a": "b"}, timestamp=-1, offset=300, partition=-1, topic="t")
    assert message.SerializeToString() == (
        b"\x0a\x01k"
        b"\x1a\x06\x0a\x01a\x12\x01b"
        b"\x20" + b"\xff" * 9 + b"\x01\x28\xac\x02\x30" + b"\xff" * 9 + b"\x01"
        b"\x3a\x01t"
    )
    asked = api_pb2.ProduceRequest(partition=2**32 - 1, ack=1, producer_id=2**64 - 1, sequence_number=-1)
    assert asked.SerializeToString() == (
        b"\x10\xff\xff\xff\xff\x0f\x20\x01\x28" + b"\xff" * 9 + b"\x01\x30" + b"\xff" * 9 + b"\x01"
    )


def test_enums() -> None:
    assert dict(api_pb2.ErrorCode.items()) == {
        "OK": 0,
        "NOT_LEADER": 1,
        "REBALANCE_IN_PROGRESS": 2,
        "UNKNOWN_MEMBER_ID": 3,
        "TOPIC_ALREADY_EXISTS": 4,
    }
    assert dict(api_pb2.AckLevel.items()) == {"NONE": 0, "ALL": 1}


@pytest.mark.parametrize(
    ("module", "service", "kinds"),
    [
        (mq_pb2, "MessageQueue", {"ProduceStream": (True, False), "Subscribe": (False, True)}),
        (api_pb2, "Kafka", {}),
        (tidelog_pb2, "Log", {"ProduceStream": (True, True), "Subscribe": (False, True)}),
    ],
)
def test_which_methods_are_streams(module: Any, service: str, kinds: dict[str, tuple[bool, bool]]) -> None:
    methods = module.DESCRIPTOR.services_by_name[service].methods
    found = {method.name: (method.client_streaming, method.server_streaming) for method in methods}
    assert {name: kind for name, kind in found.items() if kind != (False, False)} == kinds
