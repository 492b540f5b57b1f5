"""Drives a GroupShard without a host: requests in, records and replies out, time and crashes in the test's hands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from tidelog.coordination.decision import Decision, Moment
from tidelog.groups.core.messages import (
    Commit,
    FetchedOffset,
    FetchOffsets,
    Heartbeat,
    Join,
    Joined,
    Leave,
    LeavingMember,
    Left,
    OffsetsToFetch,
    OffsetToCommit,
    Sync,
    Synced,
)
from tidelog.groups.core.records import GroupRecord, decode_record, encode_record
from tidelog.groups.core.settings import GroupSettings
from tidelog.groups.core.shard import GroupShard
from tidelog.model.errors import BrokerError, ErrorCode

R = TypeVar("R")
START_WALL_MS = 1_700_000_000_000
SESSION_MS = 10_000
REBALANCE_MS = 60_000
BATCH_BYTES_MAX = 1 << 20
"""What a log takes at once."""


def subscription(*topics: str) -> bytes:
    """A consumer's subscription to `topics`, version 0, without user data."""
    parts = [b"\x00\x00", len(topics).to_bytes(4, "big")]
    for topic in topics:
        parts += [len(topic).to_bytes(2, "big"), topic.encode()]
    return b"".join([*parts, b"\xff\xff\xff\xff"])


class ShardDriver:
    def __init__(self, settings: GroupSettings | None = None) -> None:
        self.settings = settings or GroupSettings(initial_rebalance_delay_ms=1)
        self.ticks_ms = 0
        self.log: list[tuple[bytes, bytes | None]] = []
        self.batches: list[list[GroupRecord]] = []
        """Every batch written, as records."""
        self.replies: dict[int, Any] = {}
        """Answers to requests that were parked, by token."""
        self.append_error: ErrorCode | None = None
        self.refused_group: str | None = None
        """Batches with a record of it are refused."""
        self._token = 0
        self._fresh = 0
        self.shard = GroupShard(self.settings)
        self.perform(self.shard.decide_loaded(self.now))

    @property
    def now(self) -> Moment:
        return Moment(self.ticks_ms, START_WALL_MS + self.ticks_ms)

    # -- what a host does ---------------------------------------------------------------------------------------------

    def perform(self, decision: Decision[R]) -> R:
        if decision.records:
            error = self._append_error(decision)
            if error is not None:
                decision.records.clear()
                if not decision.failures:
                    raise BrokerError(error)
                for put_right in decision.failures:
                    put_right(decision, error, self.now)
                assert not decision.records
            else:
                self.batches.append(list(decision.records))
                for record in decision.records:
                    key, value = encode_record(record)
                    decoded = decode_record(key, value)
                    assert decoded is not None
                    assert decoded == record, "the log must give back what was put in"
                    self.log.append((key, value))
                    self.shard.replay(record, len(self.log) - 1, -1)
        for token, reply in decision.released:
            assert token not in self.replies, "answered twice"
            self.replies[token] = reply
        return decision.reply

    def _append_error(self, decision: Decision[Any]) -> ErrorCode | None:
        size = sum(len(key) + len(value or b"") for key, value in map(encode_record, decision.records))
        is_refused = any(record.group_id == self.refused_group for record in decision.records)
        return ErrorCode.UNKNOWN_SERVER_ERROR if is_refused or size > BATCH_BYTES_MAX else self.append_error

    def advance(self, by_ms: int) -> None:
        """Lets time pass, stopping at every deadline on the way."""
        until_ms = self.ticks_ms + by_ms
        for _ in range(10_000):
            deadline_ms = self.shard.deadline_ms()
            if deadline_ms is None or deadline_ms > until_ms:
                break
            self.ticks_ms = max(deadline_ms, self.ticks_ms)
            decision = self.shard.decide_deadlines(self.now)
            with suppress(BrokerError):
                self.perform(decision)
        else:
            raise AssertionError("a deadline that never passes")
        self.ticks_ms = until_ms

    def replayed(self, *, compacted: bool = False) -> GroupShard:
        """A shard that knows nothing but the log, or what compaction would leave of it."""
        shard = GroupShard(self.settings)
        latest = {key: offset for offset, (key, _) in enumerate(self.log)}
        for offset, (key, value) in enumerate(self.log):
            if compacted and latest[key] != offset:
                continue
            record = decode_record(key, value)
            assert record is not None
            shard.replay(record, offset, -1)
        shard.forget_traceless()
        return shard

    def crash(self) -> None:
        """Everything but the log is lost; parked requests are never answered."""
        self.shard = self.replayed()
        self.replies.clear()
        self.perform(self.shard.decide_loaded(self.now))

    def _parking(self, decide: Callable[[Any, int, Moment], Decision[R | None]], request: Any) -> tuple[int, R | None]:
        self._token += 1
        token = self._token
        return token, self.perform(decide(request, token, self.now))

    # -- requests -----------------------------------------------------------------------------------------------------

    def send_join(
        self,
        member_id: str = "",
        *,
        group: str = "g",
        instance: str | None = None,
        protocols: Sequence[tuple[str, bytes]] = (("range", b""),),
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        version: int = 9,
        client: str = "client",
    ) -> tuple[int, Joined | None]:
        """Token and reply; no reply when the join is parked."""
        self._fresh += 1
        request = Join(
            group,
            member_id,
            instance,
            protocol_type,
            tuple(protocols),
            session_ms,
            rebalance_ms,
            client,
            "/127.0.0.1",
            f"{self._fresh:04}",
            version >= 4,
            version >= 9,
        )
        return self._parking(self.shard.decide_join, request)

    def send_sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str = "g",
        instance: str | None = None,
        protocol_type: str | None = None,
        protocol: str | None = None,
    ) -> tuple[int, Synced | None]:
        given = tuple((assignments or {}).items())
        request = Sync(group, member_id, instance, generation, protocol_type, protocol, given)
        return self._parking(self.shard.decide_sync, request)

    def heartbeat(self, member_id: str, generation: int, *, group: str = "g", instance: str | None = None) -> ErrorCode:
        return self.perform(self.shard.decide_heartbeat(Heartbeat(group, member_id, instance, generation), self.now))

    def leave(self, *members: str | tuple[str, str | None], group: str = "g") -> Left:
        leaving = [LeavingMember(m, None) if isinstance(m, str) else LeavingMember(*m) for m in members]
        return self.perform(self.shard.decide_leave(Leave(group, leaving), self.now))

    def commit(
        self,
        *offsets: OffsetToCommit,
        member_id: str = "",
        generation: int = -1,
        group: str = "g",
        instance: str | None = None,
        retention_ms: int = -1,
        version: int = 9,
    ) -> Sequence[ErrorCode]:
        request = Commit(group, member_id, instance, generation, offsets, retention_ms, version >= 9)
        return self.perform(self.shard.decide_commit(request, self.now))

    def fetch(self, topic: str, partition: int, *, group: str = "g", topic_id: bytes = bytes(16)) -> FetchedOffset:
        request = FetchOffsets(group, [OffsetsToFetch(topic, [partition], topic_id)])
        return self.perform(self.shard.fetch_offsets(request, self.now))[0][2][0]

    # -- whole stories ------------------------------------------------------------------------------------------------

    def join_known(self, **options: Any) -> tuple[str, int]:
        """Asks for a member id and joins with it; returns the id and the token of the parked join."""
        _, reply = self.send_join(**options)
        assert reply is not None
        assert reply.error is ErrorCode.MEMBER_ID_REQUIRED
        token, parked = self.send_join(reply.member_id, **options)
        assert parked is None
        return reply.member_id, token

    def form_group(self, *, members: int = 1, group: str = "g", **options: Any) -> list[str]:
        """A stable group of dynamic members with assignment b"a0", b"a1", ...; the first id is the leader's."""
        joins = [self.join_known(group=group, **options) for _ in range(members)]
        self.advance(self.settings.initial_rebalance_delay_ms * (members + 1))
        ids = [member_id for member_id, _ in joins]
        joined = [self.replies[token] for _, token in joins]
        assert all(reply.error is ErrorCode.NONE for reply in joined)
        leader = joined[0].leader
        generation = joined[0].generation
        assignment = {member_id: b"a%d" % at for at, member_id in enumerate(ids)}
        tokens = [self.send_sync(member_id, generation, group=group)[0] for member_id in ids if member_id != leader]
        tokens.append(self.send_sync(leader, generation, assignment, group=group)[0])
        assert all(self.replies[token].error is ErrorCode.NONE for token in tokens)
        return [leader, *(member_id for member_id in ids if member_id != leader)]

    def generation(self, group: str = "g") -> int:
        return self.shard.groups[group].generation

    def state(self, group: str = "g") -> str:
        found = self.shard.groups.get(group)
        return "missing" if found is None else found.state.value


def durable_view(shard: GroupShard) -> dict[str, Any]:
    """What the log must remember: settled groups and every offset."""
    groups = {}
    for group in shard.groups.values():
        if group.state.value not in ("Stable", "Empty"):
            continue
        groups[group.group_id] = (
            group.state.value,
            group.generation,
            group.protocol_type if group.is_recorded else None,
            group.protocol,
            group.leader,
            sorted(
                (m.member_id, m.instance_id or "", m.session_timeout_ms, m.metadata(group.protocol), m.assignment)
                for m in group.members.values()
            ),
        )
    offsets = {group_id: shard.offsets.of_group(group_id) for group_id in shard.offsets.group_ids()}
    return {"groups": groups, "offsets": offsets}
