"""The codecs of the often called APIs: both ends agree, and the throttle time is in the response."""

from __future__ import annotations

from typing import Any, cast

import pytest
from tests.unit.api.answering import context_of, services_of

from tidelog.api.messages import OffsetCommit
from tidelog.api.table import APIS, BY_KEY
from tidelog.groups.core.consumer.messages import ConsumerHeartbeat, HeartbeatReply
from tidelog.groups.core.messages import Heartbeat, Join, Joined, Sync, Synced
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.partitions.fetching import FetchResponse
from tidelog.partitions.producing import ProduceRequest, ProduceResponse
from tidelog.partitions.reading import PartitionAnswer
from tidelog.protocol.generated import fetch as generated_fetch
from tidelog.protocol.hot_fetch import FetchRequest, decode_fetch
from tidelog.protocol.hot_produce import PartitionResult
from tidelog.protocol.index import ApiKey, response_class

TOPIC_ID = b"t" * 16


def fetch_request(version: int) -> FetchRequest:
    by_id = version >= 13
    topic = generated_fetch.FetchTopic(
        topic="" if by_id else "t",
        topic_id=TOPIC_ID if by_id else bytes(16),
        partitions=[generated_fetch.FetchPartition(partition=3, fetch_offset=5, partition_max_bytes=1000)],
    )
    message = generated_fetch.FetchRequest(max_wait_ms=7, min_bytes=1, max_bytes=2000, topics=[topic], rack_id="r1")
    return decode_fetch(message.encode(version), 0, version)


def fetch_response(version: int) -> FetchResponse:
    answer = PartitionAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    answer.high_watermark = 9
    key: Any = TOPIC_ID if version >= 13 else "t"
    response = FetchResponse(0, 12, [(key, [(3, answer)])])
    response.current_leaders = {(key, 3): (2, 4)}
    response.node_endpoints = [(2, "b2", 9092, None)]
    return response


def produce_response(version: int) -> ProduceResponse:
    result = PartitionResult(3, ErrorCode.NOT_LEADER_OR_FOLLOWER, error_message="elsewhere", current_leader=(2, 4))
    response = ProduceResponse([(None, TOPIC_ID, [result])] if version >= 13 else [("t", None, [result])], True)
    response.node_endpoints = [(2, "b2", 9092, None)]
    return response


def produce_request(version: int) -> ProduceRequest:
    batches = [(0, b"abc"), (1, None)]
    return ProduceRequest("id", -1, 500, [(None, TOPIC_ID, batches)] if version >= 13 else [("t", None, batches)])


def named(version: int) -> tuple[str, bytes]:
    """How OffsetCommit names the topic."""
    return ("", TOPIC_ID) if version >= 10 else ("t", bytes(16))


EXAMPLES: dict[int, tuple[Any, Any]] = {
    ApiKey.PRODUCE: (produce_request, produce_response),
    ApiKey.FETCH: (fetch_request, fetch_response),
    ApiKey.OFFSET_COMMIT: (
        lambda version: OffsetCommit(
            "g", 4, "m", "i", -1, [(*named(version), [(0, 5, 1, "x")])]
        ),
        lambda version: [(*named(version), [(0, 3)])],
    ),
    ApiKey.JOIN_GROUP: (
        lambda _: Join(
            "g", "m", "i", "consumer", (("range", b"x"),), 6000, 7000, "client", "/10.0.0.1", "", True, True
        ),
        lambda version: Joined(
            ErrorCode.NONE, "m", 2, "consumer", "range", "m", [("m", "i", b"x")], version >= 9
        ),
    ),
    ApiKey.SYNC_GROUP: (
        lambda _: Sync("g", "m", "i", 2, "consumer", "range", [("m", b"a")]),
        lambda _: Synced(ErrorCode.NONE, "consumer", "range", b"a"),
    ),
    ApiKey.HEARTBEAT: (lambda _: Heartbeat("g", "m", "i", 2), lambda _: ErrorCode.REBALANCE_IN_PROGRESS),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (
        lambda _: ConsumerHeartbeat(
            "g", "m", 3, "i", "r", 60_000, ["t"], "t.*", "range", {TOPIC_ID: (0, 1)}, "client", "/10.0.0.1"
        ),
        lambda _: HeartbeatReply("m", 4, 5000, {TOPIC_ID: (0, 1)}),
    ),
}  # fmt: skip


def fields(value: Any) -> Any:
    """What a value says, without its identity."""
    if isinstance(value, BrokerError):
        return value.code, value.message
    if isinstance(value, (list, tuple)):
        return [fields(each) for each in value]
    if isinstance(value, dict):
        return {key: fields(each) for key, each in value.items()}
    slots = getattr(type(value), "__slots__", None)
    if slots is None or isinstance(value, (str, bytes, int)):
        return value
    hidden = {"partition", "preferred_read_replica"}
    return {name: fields(getattr(value, name)) for name in slots if name not in hidden and hasattr(value, name)}


def newest(api_key: int) -> Any:
    return context_of(services_of(), api_key, BY_KEY[api_key].max_version)


def codec_of(context: Any) -> Any:
    return context.dispatcher.find_route(context.api_key).codec


@pytest.mark.parametrize("api_key", EXAMPLES)
def test_a_request_that_is_sent_on_arrives_as_it_was(api_key: int) -> None:
    context = newest(api_key)
    request = EXAMPLES[api_key][0](context.version)
    sent = codec_of(context).encode_request(context, request)
    assert fields(codec_of(context).decode_request(context, sent, 0)) == fields(request)


@pytest.mark.parametrize("api_key", EXAMPLES)
def test_a_response_comes_back_as_it_was(api_key: int) -> None:
    context = newest(api_key)
    response = EXAMPLES[api_key][1](context.version)
    body = codec_of(context).encode_response(context, response)
    body = body if isinstance(body, bytes) else b"".join(cast("list[bytes]", body))
    again = codec_of(context).decode_response(context, body)
    assert fields(again) == fields(response)


def test_a_refused_heartbeat_comes_back_as_it_was() -> None:
    context = newest(ApiKey.CONSUMER_GROUP_HEARTBEAT)
    codec = codec_of(context)
    body = codec.encode_response(context, BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, "gone"))
    assert fields(codec.decode_response(context, body)) == (ErrorCode.GROUP_ID_NOT_FOUND, "gone")


def throttled_versions() -> list[tuple[int, int]]:
    return [
        (api_key, version)
        for api_key in EXAMPLES
        for version in range(BY_KEY[api_key].min_version, BY_KEY[api_key].max_version + 1)
        if response_class(api_key)(throttle_time_ms=1).encode(version) != response_class(api_key)().encode(version)
    ]


@pytest.mark.parametrize(("api_key", "version"), throttled_versions())
def test_the_throttle_time_is_told(api_key: int, version: int) -> None:
    context = context_of(services_of(), api_key, version)
    context.throttle_ms = 1234
    body = codec_of(context).encode_response(context, EXAMPLES[api_key][1](version))
    body = body if isinstance(body, bytes) else b"".join(cast("list[bytes]", body))
    told, end = response_class(api_key).decode(body, 0, version)
    assert (cast(Any, told).throttle_time_ms, end) == (1234, len(body))


def test_the_generated_classes_tell_it_too() -> None:
    context = newest(ApiKey.LIST_GROUPS)
    context.throttle_ms = 1234
    response = response_class(ApiKey.LIST_GROUPS)()
    body = codec_of(context).encode_response(context, response)
    assert cast(Any, type(response).decode(body, 0, context.version)[0]).throttle_time_ms == 1234


def test_every_api_names_a_permission_and_has_a_codec() -> None:
    for api in APIS:
        context = context_of(services_of(), api.key, api.max_version)
        assert codec_of(context) is not None
        assert api.permission.operation is not None
