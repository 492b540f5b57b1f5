"""A machine under test: events in, effects out, with a disk that syncs when the test says so."""

from __future__ import annotations

from random import Random
from typing import TypeVar

from tidelog.raft.core.configurations import BOOTSTRAP_OFFSET, Configuration, Configurations
from tidelog.raft.core.effects import Effect, HardState, Persist, Reply, Role, Send, SendAppend
from tidelog.raft.core.events import Event, Persisted, Receive, Tick
from tidelog.raft.core.log_index import LogIndex
from tidelog.raft.core.machine import RaftMachine, Recovered
from tidelog.raft.core.members import ANY_DIRECTORY, Member, MemberSet
from tidelog.raft.core.messages import (
    AppendRequest,
    AppendResponse,
    Entry,
    EntryKind,
    Message,
    Response,
    SnapshotId,
    VoteRequest,
    VoteResponse,
)
from tidelog.raft.core.settings import MachineSettings

E = TypeVar("E")
TIMEOUT_MS = 1000
HEARTBEAT_MS = 200


def directory(node_id: int) -> bytes:
    return bytes([node_id]) * 16


def member(node_id: int) -> Member:
    return Member(node_id, directory(node_id), f"host{node_id}", 9092)


def voters(*node_ids: int) -> MemberSet:
    return MemberSet(tuple(member(node_id) for node_id in node_ids))


def entry(base: int, end: int, term: int, data: bytes = b"x") -> Entry:
    return Entry(base, end, term, EntryKind.RECORDS, data)


class Driver:
    def __init__(
        self,
        node_id: int = 1,
        members: MemberSet | None = None,
        *,
        entries: tuple[Entry, ...] = (),
        hard_state: HardState | None = None,
        start: SnapshotId | None = None,
        syncs: bool = True,
        **settings: int,
    ) -> None:
        members = voters(1, 2, 3) if members is None else members
        log = LogIndex() if start is None else LogIndex(*start)
        first = Configuration(BOOTSTRAP_OFFSET if start is None else start.end_offset, members)
        configurations = Configurations(first)
        for each in entries:
            log.append(each.end_offset, each.term, len(each.data))
            if each.members is not None:
                configurations.append(each.end_offset, each.members)
        term = log.last_term
        self.now_ms = 0
        self.syncs = syncs
        """Whether every write is on disk at once."""
        self.writes: list[Persist] = []
        self.machine = RaftMachine(
            MachineSettings(
                node_id=node_id,
                directory_id=directory(node_id),
                election_timeout_ms=TIMEOUT_MS,
                heartbeat_interval_ms=HEARTBEAT_MS,
                request_timeout_ms=2 * TIMEOUT_MS,
                **settings,
            ),
            Recovered(
                hard_state=hard_state or HardState(term, -1, ANY_DIRECTORY),
                log=log,
                configurations=configurations,
                snapshot=start,
            ),
            Random(1),
            0,
        )

    def step(self, event: Event) -> list[Effect]:
        """The effects, with those that a sync releases when the disk syncs by itself."""
        effects = self.machine.step(event, self.now_ms)
        self.writes += of(effects, Persist)
        if self.syncs and of(effects, Persist):
            effects += self.sync()
        return effects

    def sync(self) -> list[Effect]:
        effects = self.machine.step(Persisted(self.writes[-1].write_id), self.now_ms)
        written = of(effects, Persist)
        self.writes += written
        return effects + (self.sync() if written and self.syncs else [])

    def wait(self, milliseconds: int) -> list[Effect]:
        """Time passes; the ticks that are due in it come."""
        end_ms = self.now_ms + milliseconds
        effects: list[Effect] = []
        while self.machine.deadline_ms() <= end_ms:
            self.now_ms = max(self.now_ms, self.machine.deadline_ms())
            effects += self.step(Tick())
        self.now_ms = end_ms
        return effects

    def receive(self, source: int, message: Message, *, source_directory: bytes | None = None) -> list[Effect]:
        return self.step(
            Receive(
                source_id=source,
                source_directory=directory(source) if source_directory is None else source_directory,
                destination_directory=directory(self.machine.node_id),
                message=message,
                reply_to="reply",
            )
        )

    # -- short ways ------------------------------------------------------------------------------------------------

    def become_leader(self) -> list[Effect]:
        """By the pre-votes and votes of all other voters, each as it is asked."""
        effects = self.wait(2 * TIMEOUT_MS)
        while self.machine.role is not Role.LEADER:
            asked = of(effects, Send)
            effects = []
            for sent in asked:
                if isinstance(sent.request, VoteRequest):
                    effects += self.receive(sent.destination.node_id, grant(sent.request))
        return effects

    def acknowledge(self, source: int, match_offset: int, *, request_id: int = 0, number: int = 0) -> list[Effect]:
        return self.receive(
            source,
            AppendResponse(
                term=self.machine.term,
                request_id=request_id,
                success=True,
                match_offset=match_offset,
                match_term=self.machine.log.term_before(match_offset),
                round=number,
            ),
        )

    def append(self, source: int, term: int, prev: tuple[int, int], *entries: Entry, commit: int = 0) -> list[Effect]:
        """`prev` is (offset, term)."""
        return self.receive(
            source,
            AppendRequest(
                term=term,
                request_id=7,
                prev_offset=prev[0],
                prev_term=prev[1],
                entries=entries,
                commit_offset=commit,
                round=0,
            ),
        )


def grant(request: VoteRequest) -> VoteResponse:
    return VoteResponse(term=request.term, request_id=request.request_id, is_pre_vote=request.is_pre_vote, granted=True)


def of(effects: list[Effect], kind: type[E]) -> list[E]:
    return [effect for effect in effects if isinstance(effect, kind)]


def replies(effects: list[Effect]) -> list[Response]:
    return [effect.response for effect in of(effects, Reply)]


def appends_to(effects: list[Effect], node_id: int) -> list[SendAppend]:
    return [effect for effect in of(effects, SendAppend) if effect.destination.node_id == node_id]
