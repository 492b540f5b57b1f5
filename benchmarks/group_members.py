"""Light members of groups: what each sends is a generator, and one event loop drives hundreds of them.

A member costs the client some twenty microseconds per request, so that the broker is what is measured; hundreds of
real clients on two cores would only measure themselves. What a member sends again and again is encoded once, an answer
that is byte for byte the expected one is not looked at, and of others only what the member goes by is read
(`group_frames.py`). A member waits for nothing but answers: it rejoins and reports at once, where real clients would
wait for their next heartbeat, which costs every broker the same time.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from functools import partial
from struct import Struct
from typing import Any, NamedTuple, cast

from benchmarks.group_frames import (
    CLIENT_ID,
    CORRELATION_ID,
    REBALANCE_MS,
    Beat,
    Joined,
    join_frame,
    partition_count,
    range_assignment,
    read_beat,
    read_joined,
    read_synced,
    report_frame,
    sync_frame,
)
from tidelog.model.errors import ErrorCode
from tidelog.protocol.generated.api_versions import ApiVersionsRequest
from tidelog.protocol.generated.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tidelog.protocol.generated.consumer_protocol_subscription import ConsumerProtocolSubscription
from tidelog.protocol.generated.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.protocol.generated.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.protocol.headers import encode_request_header, encode_response_header
from tidelog.protocol.index import is_response_header_flexible, response_class
from tidelog.protocol.message import Message

PAUSE_S = 0.005
"""Between heartbeats of a member that has its assignment while others of its group do not: it learns of a new round by
them, so a longer pause would only be added to the time of every broker."""
QUIET_PAUSE_S = 0.2
CONNECTED = "connected"
ROUND = "round"
STABLE = "stable"
BEATEN = "beaten"
_SIZE = Struct(">i")


class Request(NamedTuple):
    message: Message
    version: int


class Call(NamedTuple):
    """A request as bytes, and how its answer is read; for the usual answer, which says nothing new, None is sent."""

    frame: bytes | bytearray
    read: Callable[[bytes], Any]
    usual_answer: bytes = b""


class Pause(NamedTuple):
    seconds: float


class Barrier(NamedTuple):
    """Goes on when every member has come this far."""

    name: str


Script = Generator[Request | Call | Pause | Barrier, Any, None]


def framed(request: Request) -> bytes:
    api_key = request.message.API_KEY
    assert api_key is not None
    header = encode_request_header(api_key, request.version, CORRELATION_ID, CLIENT_ID)
    body = header + request.message.encode(request.version)
    return _SIZE.pack(len(body)) + body


def decoded(request: Request, frame: bytes) -> Message:
    api_key = request.message.API_KEY
    assert api_key is not None
    start = 5 if is_response_header_flexible(api_key, request.version) else 4
    return response_class(api_key).decode(frame, start, request.version)[0]


def prepared(request: Request, usual_answer: Message) -> Call:
    """A request that is sent often."""
    api_key = request.message.API_KEY
    assert api_key is not None
    header = encode_response_header(CORRELATION_ID, is_response_header_flexible(api_key, request.version))
    return Call(framed(request), partial(decoded, request), header + usual_answer.encode(request.version))


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
        """Epochs and assignments that members have learned since they were last asked to go on."""
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
    member_id = ""
    join = Call(join_frame(group, member_id, subscription), read_joined)
    yield Barrier(CONNECTED)
    while group not in progress.stable_groups:
        joined: Joined = yield join
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            member_id = joined.member_id
            join = Call(join_frame(group, member_id, subscription), read_joined)
            continue
        assert joined.error_code == 0, joined
        generation = joined.generation
        assignments = _range(joined.members, subject)
        error_code, assignment = yield Call(sync_frame(group, member_id, generation, assignments), read_synced)
        if error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            continue
        assert error_code == 0, error_code
        assert assignment
        progress.note_synced(group, generation)
        heartbeat = HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id)
        while group not in progress.stable_groups:
            yield Pause(PAUSE_S)
            if group in progress.stable_groups:
                # While it slept: a heartbeat more would only be added to the time of every broker.
                break
            if (yield Request(heartbeat, 4)).error_code:
                break
    beat = prepared(Request(heartbeat, 4), HeartbeatResponse())
    yield Barrier(STABLE)
    for _ in range(progress.heartbeat_rounds):
        answer = yield beat
        assert answer is None, answer
    yield Barrier(BEATEN)
    yield Request(LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=member_id)]), 5)


def _range(members: Sequence[str], subject: Subject) -> list[tuple[str, bytes]]:
    """What the leader sends; nothing for the others, who see no members."""
    assignments = []
    for number, member_id in enumerate(members):
        first, end = (subject.partitions * n // len(members) for n in (number, number + 1))
        assignments.append((member_id, range_assignment(subject.topic, first, end)))
    return assignments


def consumer_member(group: str, subject: Subject, progress: Progress) -> Script:
    """Members report in rounds, so that every broker has the same work: no member is ahead of the slowest."""
    member_id = str(uuid.uuid4())
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member_id,
        rebalance_timeout_ms=REBALANCE_MS,
        subscribed_topic_names=[subject.topic],
        topic_partitions=[],
    )
    call = Call(framed(Request(request, 1)), read_beat)
    yield Barrier(CONNECTED)
    while True:
        answered: Beat = yield call
        assert answered.error_code == 0, answered
        if progress.epochs.get(member_id) != answered.epoch or answered.assignment is not None:
            progress.epochs[member_id] = answered.epoch
            progress.changes += 1
        if answered.assignment is not None:
            progress.owned[member_id] = partition_count(answered.assignment)
        call = Call(report_frame(group, member_id, answered.epoch, answered.assignment), read_beat)
        yield Barrier(ROUND)
        if progress.is_stable:
            break
        if not progress.has_news:
            # Some coordinators put off an assignment while members join; asking on and on would only cost them CPU.
            yield Pause(QUIET_PAUSE_S)
    beat = Call(report_frame(group, member_id, answered.epoch, None), _as_is)
    yield Barrier(STABLE)
    for _ in range(progress.heartbeat_rounds):
        answer: bytes | None = yield beat
        if answer is not None:
            # The first one; or a coordinator counts up the epoch later without a change for any member.
            answered = read_beat(answer)
            assert answered.error_code == 0, answered
            beat = Call(report_frame(group, member_id, answered.epoch, None), _as_is, answer)
    yield Barrier(BEATEN)
    yield Request(ConsumerGroupHeartbeatRequest(group_id=group, member_id=member_id, member_epoch=-1), 1)


def _as_is(answer: bytes) -> bytes:
    return answer


def _same(member: _MemberConnection) -> _MemberConnection:
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
            await loop.create_connection(partial(_same, member), "127.0.0.1", port)
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
        self._call: Call | None = None
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        if self._call is not None:
            self._driver.fail(error or ConnectionError(f"closed by the broker instead of an answer: {self._call}"))

    def data_received(self, data: bytes) -> None:
        if self._received or len(data) < 4 or _SIZE.unpack_from(data)[0] != len(data) - 4:
            self._received += data
            if len(self._received) < 4 or _SIZE.unpack_from(self._received)[0] > len(self._received) - 4:
                return
            data = bytes(self._received)
            self._received.clear()
        frame = data[4:]
        call, self._call = self._call, None
        assert call is not None
        self.advance(None if frame == call.usual_answer else call.read(frame))

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
        if isinstance(step, Call):
            self._send(step)
        elif isinstance(step, Request):
            self._send(Call(framed(step), partial(decoded, step)))
        elif isinstance(step, Pause):
            asyncio.get_running_loop().call_later(step.seconds, self.advance, None)
        else:
            self._driver.note_waiting(self, step.name)

    def _send(self, call: Call) -> None:
        self._call = call
        assert self._transport is not None
        self._transport.write(call.frame)
