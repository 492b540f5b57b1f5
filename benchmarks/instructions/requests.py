"""The requests whose instructions are counted, one at a time on one connection, each in the newest version."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.servers.group_requests import wait_until_loaded
from tests.servers.wire import Connection, NewRecord, build_batch

from benchmarks.group_members import Request
from benchmarks.start_case import create_topic, write_to_each
from tidelog.model.errors import ErrorCode
from tidelog.protocol.generated.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tidelog.protocol.generated.consumer_protocol_subscription import ConsumerProtocolSubscription
from tidelog.protocol.generated.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.protocol.generated.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.protocol.generated.heartbeat import HeartbeatRequest
from tidelog.protocol.generated.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tidelog.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.protocol.generated.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.protocol.generated.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

PRODUCE, FETCH, METADATA, CREATE_TOPICS = 13, 17, 13, 7
JOIN_GROUP, SYNC_GROUP, HEARTBEAT, CONSUMER_GROUP_HEARTBEAT = 9, 5, 4, 1
"""Versions."""
RECORD_BYTES = 100
TIMESTAMP_MS = 1_700_000_000_000
"""Always the same, and so is the checksum: numbers from 2**30 on take Python longer."""
FETCH_BYTES_MAX = 1 << 20
SESSION_TIMEOUT_MS = 1_800_000
"""No member is lost while others are counted."""
REBALANCE_TIMEOUT_MS = 60_000
NEW_SESSION, NO_SESSION = 0, -1
LEAVING = -1

Make = Callable[[int], Request]


class CountedRequest(NamedTuple):
    name: str
    per_round: int
    """So many are sent in one round: enough to count ten million instructions."""
    prepare: Callable[[Connection], Make]
    """Makes what the requests are about; what it returns makes the request of a number. Numbers are used in order,
    from 0 on, and once."""
    check: Callable[[Any], bool]
    """Whether a response is what this request is sent for."""
    undo: Make | None = None
    """Makes the request that takes back the one of the same number, after they were counted."""


def require_topic(connection: Connection, name: str) -> bytes:
    """The id of a topic with one partition and one record."""
    create_topic(connection, name, 1)
    write_to_each(connection, name, [0])
    [described] = connection.call(_metadata_request(name), METADATA).topics
    return bytes(described.topic_id)


def prepare_produce(connection: Connection) -> Make:
    topic_id = require_topic(connection, "produced")
    batch = build_batch([NewRecord(b"v" * RECORD_BYTES)], timestamp_ms=TIMESTAMP_MS)
    topic = TopicProduceData(topic_id=topic_id, partition_data=[PartitionProduceData(index=0, records=batch)])
    request = Request(ProduceRequest(acks=1, timeout_ms=10_000, topic_data=[topic]), PRODUCE)
    return lambda number: request


def is_produced(response: Any) -> bool:
    [answer] = response.responses[0].partition_responses
    return bool(answer.error_code == 0 and answer.base_offset > 0)


def _fetch_request(topics: list[FetchTopic], *, session_id: int = 0, session_epoch: int, max_wait_ms: int) -> Request:
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=FETCH_BYTES_MAX,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=topics,
    )
    return Request(request, FETCH)


def _fetch_topic(topic_id: bytes, offset: int) -> FetchTopic:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=FETCH_BYTES_MAX)
    return FetchTopic(topic_id=topic_id, partitions=[partition])


def prepare_fetch(connection: Connection) -> Make:
    topic_id = require_topic(connection, "fetched")
    request = _fetch_request([_fetch_topic(topic_id, 0)], session_epoch=NO_SESSION, max_wait_ms=500)
    return lambda number: request


def is_fetched(response: Any) -> bool:
    if response.error_code:
        return False
    [answer] = response.responses[0].partitions
    return answer.error_code == 0 and len(answer.records) > RECORD_BYTES


def prepare_incremental_fetch(connection: Connection) -> Make:
    """A session that has read everything. Its fetches do not wait, since a fetch that waits is mostly a timer."""
    topic_id = require_topic(connection, "read")
    opening = _fetch_request([_fetch_topic(topic_id, 1)], session_epoch=NEW_SESSION, max_wait_ms=0)
    session_id = connection.call(*opening).session_id
    assert session_id, "the node gave no session"
    return lambda number: _fetch_request([], session_id=session_id, session_epoch=number + 1, max_wait_ms=0)


def is_nothing_new(response: Any) -> bool:
    return response.error_code == 0 and response.session_id != 0 and not response.responses


def prepare_heartbeat(connection: Connection) -> Make:
    """The only member of a stable group."""
    group = "beating"
    wait_until_loaded(connection, [group])
    subscription = b"\0\1" + ConsumerProtocolSubscription(topics=["beaten"]).encode(1)
    join = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
    )
    joined = connection.call(join, JOIN_GROUP)
    assert joined.error_code == ErrorCode.MEMBER_ID_REQUIRED, joined
    join.member_id = member_id = joined.member_id
    joined = connection.call(join, JOIN_GROUP)
    assert joined.error_code == 0, joined
    sync = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=member_id, assignment=b"")],
    )
    synced = connection.call(sync, SYNC_GROUP)
    assert synced.error_code == 0, synced
    beat = HeartbeatRequest(group_id=group, generation_id=joined.generation_id, member_id=member_id)
    return lambda number: Request(beat, HEARTBEAT)


def is_without_error(response: Any) -> bool:
    return bool(response.error_code == 0)


def _member(number: int) -> str:
    return str(uuid.UUID(int=number))


def _joined_group(number: int) -> str:
    return f"joined-{number}"


def prepare_join(connection: Connection) -> Make:
    """Each member comes into a group of its own, and is given the one partition."""
    topic = "subscribed"
    require_topic(connection, topic)
    wait_until_loaded(connection, [_joined_group(number) for number in range(100)])

    def make(number: int) -> Request:
        request = ConsumerGroupHeartbeatRequest(
            group_id=_joined_group(number),
            member_id=_member(number),
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            subscribed_topic_names=[topic],
            topic_partitions=[],
        )
        return Request(request, CONSUMER_GROUP_HEARTBEAT)

    return make


def is_joined(response: Any) -> bool:
    return response.error_code == 0 and response.member_epoch > 0 and response.assignment is not None


def leave(number: int) -> Request:
    request = ConsumerGroupHeartbeatRequest(
        group_id=_joined_group(number), member_id=_member(number), member_epoch=LEAVING
    )
    return Request(request, CONSUMER_GROUP_HEARTBEAT)


def _metadata_request(topic: str) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)


def prepare_metadata(connection: Connection) -> Make:
    require_topic(connection, "described")
    request = Request(_metadata_request("described"), METADATA)
    return lambda number: request


def is_described(response: Any) -> bool:
    [topic] = response.topics
    return topic.error_code == 0 and len(topic.partitions) == 1


def prepare_create(connection: Connection) -> Make:
    del connection

    def make(number: int) -> Request:
        topic = CreatableTopic(name=f"created-{number}", num_partitions=1, replication_factor=1)
        return Request(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), CREATE_TOPICS)

    return make


def is_created(response: Any) -> bool:
    [topic] = response.topics
    return bool(topic.error_code == 0)


COUNTED_REQUESTS = (
    CountedRequest("produce", 500, prepare_produce, is_produced),
    CountedRequest("fetch", 500, prepare_fetch, is_fetched),
    CountedRequest("fetch-nothing-new", 500, prepare_incremental_fetch, is_nothing_new),
    CountedRequest("heartbeat", 500, prepare_heartbeat, is_without_error),
    CountedRequest("join", 400, prepare_join, is_joined, leave),
    CountedRequest("metadata", 400, prepare_metadata, is_described),
    CountedRequest("create-topics", 40, prepare_create, is_created),
)
