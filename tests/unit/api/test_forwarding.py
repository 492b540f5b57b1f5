"""Any typed request, sent on by one node and answered by another in the name of its caller."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.api.answering import caller_of, context_of, services_of
from tests.unit.partitions.small_cluster import TOPIC_ID, SmallBroker, SmallCluster

from tidelog.api.context import Caller, Origin, RequestContext
from tidelog.api.forwarding import (
    FORWARD_SECONDS_MAX,
    Sender,
    answer_envelope,
    decode_sender,
    encode_sender,
    forward,
)
from tidelog.groups.core.messages import Heartbeat
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.principal import Principal
from tidelog.net.later import Later
from tidelog.partitions.fetching import FetchResponse
from tidelog.partitions.producing import ProduceRequest, ProduceResponse
from tidelog.protocol.errors import MalformedMessage
from tidelog.protocol.generated.envelope import EnvelopeRequest, EnvelopeResponse
from tidelog.protocol.generated.fetch import FetchPartition, FetchTopic
from tidelog.protocol.generated.fetch import FetchRequest as GeneratedFetchRequest
from tidelog.protocol.headers import encode_request_header
from tidelog.protocol.hot_fetch import decode_fetch
from tidelog.protocol.index import ApiKey
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.record import iterate_records

pytestmark = pytest.mark.anyio

ALICE = Principal("User", "alice")
ENVELOPE, HEARTBEAT, PRODUCE, FETCH = (
    int(key) for key in (ApiKey.ENVELOPE, ApiKey.HEARTBEAT, ApiKey.PRODUCE, ApiKey.FETCH)
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class OtherNode:
    """The node at the other end, which keeps what its handler was called with."""

    def __init__(self, *, is_active: bool = True) -> None:
        self.contexts: list[RequestContext] = []
        controller = SimpleNamespace(is_active=is_active)
        metadata = SimpleNamespace(image=SimpleNamespace(offset=41))
        config = SimpleNamespace(inter_node_listener_name="NODES")
        self.context = context_of(services_of(controller=controller, metadata=metadata, config=config), ENVELOPE, 0)
        route = self.context.dispatcher.find_route(HEARTBEAT)
        assert route is not None
        route.handle = self._handle

    def _handle(self, context: RequestContext, request: Heartbeat) -> ErrorCode:
        self.contexts.append(context)
        if request.group_id == "wrong":
            raise BrokerError(ErrorCode.NOT_COORDINATOR)
        return ErrorCode.REBALANCE_IN_PROGRESS

    async def call(self, request: EnvelopeRequest, answer: object, *, timeout_s: float) -> EnvelopeResponse:
        """As a client that is connected to it."""
        sent, _ = EnvelopeRequest.decode(request.encode(0), 0, 0)
        return await answer_envelope(self.context, sent)


def sender_of(other: Any, caught_up: list[int] | None = None) -> Any:
    """Services of a node that knows the other one."""

    async def published(end_offset: int) -> None:
        if caught_up is not None:
            caught_up.append(end_offset)

    controller = SimpleNamespace(is_active=False, published=published)
    pool = SimpleNamespace(client=lambda node_id, purpose: other)
    return services_of(controller=controller, channel=SimpleNamespace(pool=pool))


async def test_a_request_is_answered_in_the_name_of_its_caller() -> None:
    other, caught_up = OtherNode(), list[int]()
    caller = Caller(Origin.GATEWAY, "10.9.9.9", "CLIENTS", ALICE)
    context = context_of(sender_of(other, caught_up), HEARTBEAT, 4, caller)
    context.deadline_s = asyncio.get_running_loop().time() + 3.0
    answered = await forward(context, Heartbeat("g", "m", None, 1), 2)
    assert answered is ErrorCode.REBALANCE_IN_PROGRESS
    [seen] = other.contexts
    assert (seen.caller.origin, seen.caller.connection) == (Origin.NODE, None)
    assert (seen.caller.principal, seen.caller.peer_host, seen.caller.listener_name) == (ALICE, "10.9.9.9", "CLIENTS")
    assert (seen.client_id, seen.version) == ("client", 4)
    assert seen.deadline_s is not None
    assert seen.deadline_s <= context.deadline_s + 0.1
    assert caught_up == [42], "the answer waits for the metadata that it may rest on"


async def test_a_refusal_comes_back_as_the_response_of_its_api() -> None:
    context = context_of(sender_of(OtherNode()), HEARTBEAT, 4)
    assert await forward(context, Heartbeat("wrong", "m", None, 1), 2) is ErrorCode.NOT_COORDINATOR


async def answer(other: OtherNode, api_key: int, version: int, sender: Sender | None) -> EnvelopeResponse:
    header = encode_request_header(api_key, version, 0, "client")
    body = b"\2g\0\0\0\1\2m\0\0" if api_key == HEARTBEAT else b""
    principal = None if sender is None else encode_sender(sender)
    return await answer_envelope(
        other.context,
        EnvelopeRequest(request_data=header + body, request_principal=principal, client_host_address=b"10.0.0.2"),
    )


async def test_older_nodes_send_requests_for_the_controller_without_a_caller() -> None:
    other = OtherNode()
    assert (await answer(other, HEARTBEAT, 4, None)).error_code == 0
    assert str(other.contexts[0].caller.principal) == "User:ANONYMOUS"
    assert other.contexts[0].caller.listener_name == "NODES"
    inactive = OtherNode(is_active=False)
    assert (await answer(inactive, HEARTBEAT, 4, None)).error_code == ErrorCode.NOT_CONTROLLER
    assert inactive.contexts == []


async def test_what_is_for_any_node_needs_no_controller() -> None:
    inactive = OtherNode(is_active=False)
    for_node = Sender(ALICE, "CLIENTS", 1.0, False)
    assert (await answer(inactive, HEARTBEAT, 4, for_node)).error_code == 0
    for_controller = Sender(ALICE, "CLIENTS", 1.0, True)
    assert (await answer(inactive, HEARTBEAT, 4, for_controller)).error_code == ErrorCode.NOT_CONTROLLER


@pytest.mark.parametrize(
    ("api_key", "version"),
    [(HEARTBEAT, 99), (12_345, 0), (int(ApiKey.ALTER_PARTITION), 2), (ENVELOPE, 0)],
    ids=["unknown version", "unknown API", "between nodes", "an envelope in an envelope"],
)
async def test_what_may_not_be_sent_on_is_refused(api_key: int, version: int) -> None:
    other = OtherNode()
    sender = Sender(ALICE, "CLIENTS", 1.0, False)
    assert (await answer(other, api_key, version, sender)).error_code == ErrorCode.INVALID_REQUEST


def test_the_sender_is_read_as_it_was_written() -> None:
    sender = Sender(ALICE, "CLIENTS", 1.5, False)
    assert decode_sender(encode_sender(sender)) == sender
    assert decode_sender(encode_sender(sender._replace(left_s=1e9))).left_s == FORWARD_SECONDS_MAX


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b'{"principal":["User"]}', b"\xff", b"[" * 100_000])
def test_a_sender_that_cannot_be_read_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode_sender(data)


async def test_a_node_that_does_not_answer_is_an_error_of_the_request() -> None:
    from tidelog.net.client.errors import PeerUnreachable

    class Gone:
        async def call(self, *_: object, **__: object) -> None:
            raise PeerUnreachable("node 2: nothing listens there")

    with pytest.raises(BrokerError) as refused:
        await forward(context_of(sender_of(Gone()), HEARTBEAT, 4), Heartbeat("g", "m", None, 1), 2)
    assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT


async def test_a_leader_that_is_not_active_yet_does_not_send_requests_to_itself() -> None:
    asked: list[str] = []

    class Channel:
        async def reach(self, here: Any, there: Any, **_: Any) -> Any:
            while len(asked) < 3:
                asked.append("here")
                with contextlib.suppress(BrokerError):
                    return await here()
            raise BrokerError(ErrorCode.NOT_CONTROLLER)

    services = services_of(controller=SimpleNamespace(is_active=False), channel=Channel())
    context = context_of(services, int(ApiKey.UNREGISTER_BROKER), 0)
    route = context.dispatcher.find_route(context.api_key)
    assert route is not None

    async def refuse(context: RequestContext, request: object) -> str:
        return "not the controller"

    route.handle = refuse
    async with asyncio.timeout(20):
        assert await context.dispatcher.complete(route, context, object()) == "not the controller"
    assert asked == ["here"] * 3


# -- records -----------------------------------------------------------------------------------------------------------


async def send_on(broker: SmallBroker, api_key: int, version: int, request: Any, to: int) -> Any:
    """As a door of this node that knows the leader."""

    async def published(_: int) -> None:
        pass

    services = cast(Any, broker.dispatcher.services)
    services.channel = SimpleNamespace(pool=broker.pool)
    services.controller = SimpleNamespace(is_active=False, published=published)
    context = RequestContext(broker.dispatcher, api_key, version, "door", caller_of(origin=Origin.GATEWAY))
    return await forward(context, request, to)


async def test_records_are_written_and_read_through_another_node(tmp_path: Path) -> None:
    async with SmallCluster(tmp_path) as cluster:
        await cluster.start(2)
        leader = cluster.leader
        [follower] = [broker for broker in cluster.brokers.values() if broker is not leader]
        batch = build_batch([NewRecord(b"k", b"through another node", 0)])
        request = ProduceRequest(None, -1, 10_000, [(None, TOPIC_ID, [(0, batch)])])
        produced: ProduceResponse = await send_on(follower, PRODUCE, 13, request, leader.node_id)
        [(_, topic_id, [result])] = produced.topics
        assert (topic_id, result.error_code, result.base_offset) == (TOPIC_ID, 0, 0)

        asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        topic = FetchTopic(topic_id=TOPIC_ID, partitions=[asked])
        message = GeneratedFetchRequest(max_wait_ms=5_000, min_bytes=1, max_bytes=1 << 20, topics=[topic])
        fetch = decode_fetch(message.encode(17), 0, 17)
        fetched: FetchResponse = await send_on(follower, FETCH, 17, fetch, leader.node_id)
        [(_, [(_, answered)])] = fetched.topics
        assert isinstance(answered.region, bytes)
        assert [record.value for record in iterate_records(answered.region)] == [b"through another node"]


async def test_a_fetch_that_finds_less_than_it_wants_is_answered_at_its_end(tmp_path: Path) -> None:
    async with SmallCluster(tmp_path) as cluster:
        await cluster.start(1)
        broker = cluster.leader
        asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        message = GeneratedFetchRequest(
            max_wait_ms=50, min_bytes=1, max_bytes=1 << 20, topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[asked])]
        )
        request = decode_fetch(message.encode(17), 0, 17)
        context = RequestContext(broker.dispatcher, FETCH, 17, "door", caller_of())
        route = broker.dispatcher.find_route(FETCH)
        assert route is not None
        assert isinstance(broker.dispatcher.answer(route, context, request), Later)
        response = await broker.dispatcher.complete(route, context, request)
        assert response.topics[0][1][0][1].region is None
