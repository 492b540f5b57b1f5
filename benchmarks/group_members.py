"""Light members of groups: what each sends is a generator, and one event loop drives hundreds of them.

A member costs the client some twenty microseconds per request, so that the broker is what is measured; hundreds of
real clients on two cores would only measure themselves. What a member sends again and again is encoded once, and an
answer that is byte for byte the expected one is not decoded. A member waits for nothing but answers: it rejoins and
reports at once, where real clients would wait for their next heartbeat, which costs every broker the same time.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from functools import partial
from struct import Struct
from typing import Any, NamedTuple, cast

from tidelog.model.errors import ErrorCode
from tidelog.protocol.generated.api_versions import ApiVersionsRequest
from tidelog.protocol.generated.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from tidelog.protocol.generated.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from tidelog.protocol.generated.consumer_protocol_subscription import ConsumerProtocolSubscription
from tidelog.protocol.generated.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.protocol.generated.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tidelog.protocol.generated.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.protocol.generated.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tidelog.protocol.headers import encode_request_header, encode_response_header
from tidelog.protocol.index import is_response_header_flexible, response_class
from tidelog.protocol.message import Message

SESSION_MS = 45_000
REBALANCE_MS = 120_000
PAUSE_S = 0.1
"""Between heartbeats of a member that has its assignment while others of its group do not."""
QUIET_PAUSE_S = 0.2
CONNECTED = "connected"
CORRELATION_ID = 1
ROUND = "round"
STABLE = "stable"
BEATEN = "beaten"
_SIZE = Struct(">i")


class Request(NamedTuple):
    message: Message
    version: int


class Prepared(NamedTuple):
    """A request that was encoded before, and the answer that says nothing new: for that the script is sent None."""

    request: Request
    frame: bytes | bytearray
    usual_answer: bytes


class Pause(NamedTuple):
    seconds: float


class Barrier(NamedTuple):
    """Goes on when every member has come this far."""

    name: str


Script = Generator[Request | Prepared | Pause | Barrier, Any, None]


def framed(request: Request) -> bytes:
    api_key = request.message.API_KEY
    assert api_key is not None
    body = encode_request_header(api_key, request.version, CORRELATION_ID, "member") + request.message.encode(
        request.version
    )
    return _SIZE.pack(len(body)) + body


def prepared(request: Request, usual_answer: Message | None = None) -> Prepared:
    """Without a usual answer every answer is decoded."""
    if usual_answer is None:
        return Prepared(request, framed(request), b"")
    api_key = request.message.API_KEY
    assert api_key is not None
    header = encode_response_header(CORRELATION_ID, is_response_header_flexible(api_key, request.version))
    return Prepared(request, framed(request), header + usual_answer.encode(request.version))


class Subject(NamedTuple):
    """What the members of one run subscribe to."""

    topic: str
    topic_id: bytes
    partitions: int


class Progress:
    """Of all groups of a run, each with so many members."""

    def __init__(self, groups: int, members: int, partitions: int) -> None:
        self.groups = groups
        self.members = members
        self.partitions = partitions
        self.synced: Counter[tuple[str, int]] = Counter()
        self.stable_groups: set[str] = set()
        """Of the classic protocol."""
        self.is_stable = False
        """All groups of the new protocol."""
        self.owned: dict[str, int] = {}
        self.epochs: dict[str, int] = {}
        self.has_news = False
        self.changes = 0
        """Epochs and assignments that members have learned since everybody was last told to go on."""
        self.heartbeat_rounds = 0

    def note_synced(self, group: str, generation: int) -> None:
        """A classic member has the assignment of this generation; with the last of them the group is stable."""
        self.synced[group, generation] += 1
        if self.synced[group, generation] == self.members:
            self.stable_groups.add(group)

    def note_round(self) -> None:
        """All members of the new protocol have reported: is everything shared evenly at one epoch, without news?"""
        owned = self.owned.values()
        share = -(-self.partitions // self.members)
        is_even = len(owned) == self.groups * self.members and max(owned) == share
        is_complete = is_even and sum(owned) == self.partitions * self.groups
        self.has_news = self.changes > 0
        self.is_stable = is_complete and not self.has_news and len(set(self.epochs.values())) == 1
        self.changes = 0


def greeted(script: Script) -> Script:
    """As every client begins; a broker may take connections later than the kernel does."""
    yield Request(ApiVersionsRequest(), 4)
    yield from script


def classic_member(group: str, subject: Subject, progress: Progress) -> Script:
    subscription = b"\0\1" + ConsumerProtocolSubscription(topics=[subject.topic]).encode(1)
    join = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=REBALANCE_MS,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
    )
    first_join = prepared(Request(join, 9))
    yield Barrier(CONNECTED)
    while group not in progress.stable_groups:
        joined = yield Request(join, 9) if join.member_id else first_join
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            join.member_id = joined.member_id
            continue
        assert joined.error_code == 0, joined
        assignments = _range([member.member_id for member in joined.members], subject)
        sync = SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=join.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        )
        synced = yield Request(sync, 5)
        if synced.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            continue
        assert synced.error_code == 0, synced
        assert synced.assignment
        progress.note_synced(group, joined.generation_id)
        heartbeat = HeartbeatRequest(group_id=group, generation_id=joined.generation_id, member_id=join.member_id)
        while group not in progress.stable_groups:
            yield Pause(PAUSE_S)
            if (yield Request(heartbeat, 4)).error_code:
                break
    yield Barrier(STABLE)
    beat = prepared(Request(heartbeat, 4), HeartbeatResponse())
    for _ in range(progress.heartbeat_rounds):
        answer = yield beat
        assert answer is None, answer
    yield Barrier(BEATEN)
    yield Request(LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=join.member_id)]), 5)


def _range(members: Sequence[str], subject: Subject) -> list[SyncGroupRequestAssignment]:
    """What the leader sends; nothing for the others, who see no members."""
    assignments = []
    for number, member_id in enumerate(members):
        first, end = (subject.partitions * n // len(members) for n in (number, number + 1))
        topics = [TopicPartition(topic=subject.topic, partitions=list(range(first, end)))]
        body = b"\0\1" + ConsumerProtocolAssignment(assigned_partitions=topics).encode(1)
        assignments.append(SyncGroupRequestAssignment(member_id=member_id, assignment=body))
    return assignments


def consumer_member(group: str, subject: Subject, progress: Progress) -> Script:
    """Members report in rounds, so that every broker has the same work: nobody is ahead of the slowest."""
    member_id = str(uuid.uuid4())
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member_id,
        rebalance_timeout_ms=REBALANCE_MS,
        subscribed_topic_names=[subject.topic],
        topic_partitions=[],
    )
    first = prepared(Request(request, 1))
    yield Barrier(CONNECTED)
    while True:
        answer = yield Request(request, 1) if request.member_epoch else first
        assert answer.error_code == 0, answer
        if progress.epochs.get(member_id) != answer.member_epoch or answer.assignment is not None:
            progress.epochs[member_id] = answer.member_epoch
            progress.changes += 1
        request = ConsumerGroupHeartbeatRequest(group_id=group, member_id=member_id, member_epoch=answer.member_epoch)
        if answer.assignment is not None:
            assigned = answer.assignment.topic_partitions
            progress.owned[member_id] = sum(len(topic.partitions) for topic in assigned)
            request.topic_partitions = [
                ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic.topic_id, partitions=topic.partitions)
                for topic in assigned
            ]
        yield Barrier(ROUND)
        if progress.is_stable:
            break
        if not progress.has_news:
            # Some coordinators put off an assignment while members join; asking on and on would only cost them CPU.
            yield Pause(QUIET_PAUSE_S)
    yield Barrier(STABLE)
    request.topic_partitions = None
    beat = prepared(Request(request, 1), answer)
    for _ in range(progress.heartbeat_rounds):
        answer = yield beat
        if answer is not None:
            # A coordinator may count up the epoch later without a change for anybody.
            assert answer.error_code == 0, answer
            request.member_epoch = answer.member_epoch
            beat = prepared(Request(request, 1), answer)
    yield Barrier(BEATEN)
    yield Request(ConsumerGroupHeartbeatRequest(group_id=group, member_id=member_id, member_epoch=-1), 1)


def _as_is(member: _MemberConnection) -> _MemberConnection:
    return member


class Driver:
    """Runs scripts, each on a connection of its own; `on_barrier` is called when all have come to one."""

    def __init__(self, on_barrier: Callable[[str], None]) -> None:
        self._on_barrier = on_barrier
        self._members: list[_MemberConnection] = []
        self._waiting: list[_MemberConnection] = []
        self._running = 0
        self._barrier = ""
        self.ended: asyncio.Future[None] | None = None

    async def connect(self, port: int, scripts: Sequence[Script]) -> None:
        loop = asyncio.get_running_loop()
        self._ended = loop.create_future()
        for script in scripts:
            member = _MemberConnection(self, greeted(script))
            await loop.create_connection(partial(_as_is, member), "127.0.0.1", port)
            self._members.append(member)

    async def run(self) -> None:
        """Every script to its end."""
        assert self._ended is not None
        self._running = len(self._members)
        for member in self._members:
            member.advance(None)
        await self._ended

    def fail(self, error: BaseException) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_exception(error)

    def note_waiting(self, member: _MemberConnection, barrier: str) -> None:
        self._barrier = barrier
        self._waiting.append(member)
        self._maybe_release()

    def note_end(self) -> None:
        self._running -= 1
        if self._running == 0 and self._ended is not None and not self._ended.done():
            self._ended.set_result(None)
        self._maybe_release()

    def _maybe_release(self) -> None:
        if self._waiting and len(self._waiting) == self._running:
            released, self._waiting = self._waiting, []
            self._on_barrier(self._barrier)
            # Not from inside the last one's step: each would run inside the other.
            loop = asyncio.get_running_loop()
            for member in released:
                loop.call_soon(member.advance, None)


class _MemberConnection(asyncio.Protocol):
    def __init__(self, driver: Driver, script: Script) -> None:
        self._driver = driver
        self._script = script
        self._received = bytearray()
        self._request: Request | None = None
        self._usual_answer: bytes | None = None
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        if self._request is not None:
            self._driver.fail(error or ConnectionError(f"closed by the broker instead of an answer: {self._request}"))

    def data_received(self, data: bytes) -> None:
        if self._received or len(data) < 4 or _SIZE.unpack_from(data)[0] != len(data) - 4:
            self._received += data
            if len(self._received) < 4 or _SIZE.unpack_from(self._received)[0] > len(self._received) - 4:
                return
            data = bytes(self._received)
            self._received.clear()
        frame = data[4:]
        request, self._request = self._request, None
        if frame == self._usual_answer:
            self.advance(None)
            return
        assert request is not None
        api_key = request.message.API_KEY
        assert api_key is not None
        start = 5 if is_response_header_flexible(api_key, request.version) else 4
        self.advance(response_class(api_key).decode(frame, start, request.version)[0])

    def advance(self, answer: Any) -> None:
        try:
            step = self._script.send(answer)
        except StopIteration:
            assert self._transport is not None
            self._transport.close()
            self._driver.note_end()
            return
        except Exception as error:
            self._driver.fail(error)
            return
        if isinstance(step, Prepared):
            self._send(step.request, step.frame, step.usual_answer)
        elif isinstance(step, Request):
            self._send(step, framed(step), None)
        elif isinstance(step, Pause):
            asyncio.get_running_loop().call_later(step.seconds, self.advance, None)
        else:
            self._driver.note_waiting(self, step.name)

    def _send(self, request: Request, frame: bytes | bytearray, usual_answer: bytes | None) -> None:
        self._request, self._usual_answer = request, usual_answer
        assert self._transport is not None
        self._transport.write(frame)
