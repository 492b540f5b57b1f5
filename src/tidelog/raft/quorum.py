"""The quorum as the rest of the node sees it: propose records, get what is committed, know the leader.

The shell around `core.machine`: it feeds events, carries out effects in their order, and has no rules of its own. A
quorum of one is the same thing: it elects itself while it starts and commits by its own fsync.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path

from tidelog.metadata.batch import build_metadata_batch
from tidelog.metadata.framing import encode_metadata_record
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.limits import RAFT_ENTRY_BYTES_MAX
from tidelog.protocol.message import Message
from tidelog.raft.applying import Applier, Proposal
from tidelog.raft.codec import encode_append, encode_message, encode_snapshot_part
from tidelog.raft.commands import Commands
from tidelog.raft.core.effects import (
    Committed,
    Done,
    Effect,
    FoundersMissing,
    HardState,
    InstallSnapshot,
    MembersChanged,
    Persist,
    Proposed,
    Refused,
    RefusedPeer,
    Reply,
    RoleChanged,
    Send,
    SendAppend,
    SendSnapshot,
    StoreSnapshotPart,
)
from tidelog.raft.core.events import (
    Event,
    LeaderGone,
    Persisted,
    Propose,
    Receive,
    Tick,
    Unreachable,
)
from tidelog.raft.core.machine import RaftMachine
from tidelog.raft.core.members import MemberSet
from tidelog.raft.core.replication import DivergedLog
from tidelog.raft.core.settings import NOBODY, MachineSettings
from tidelog.raft.errors import LeadershipLost, NotLeader, QuorumBusy
from tidelog.raft.links import Links
from tidelog.raft.peering import Peering
from tidelog.raft.settings import QuorumSettings
from tidelog.raft.snapshotting import Snapshotter
from tidelog.raft.state_machine import StateMachine
from tidelog.raft.status import QuorumStatus, describe
from tidelog.raft.store import QuorumStore
from tidelog.raft.syncing import Syncer
from tidelog.raft.transport import Address, Transport
from tidelog.runtime.system import SYSTEM, System
from tidelog.storage.errors import StorageFailure
from tidelog.storage.log_directory_identity import DirectoryRefused
from tidelog.telemetry.logs import get_logger

RETRY_AFTER_FAILURE_S = 1.0
"""How long a member whose disk refused waits before it takes part again."""

logger = get_logger("tidelog.raft")


class _Randomness:
    """Without the `random` module, which a node would have to import for this alone."""

    def __init__(self, random_bytes: Callable[[int], bytes]) -> None:
        self._random_bytes = random_bytes

    def randrange(self, stop: int) -> int:
        return int.from_bytes(self._random_bytes(8), "big") % stop


class Quorum:
    """All methods belong to the event loop. `start` comes first."""

    def __init__(
        self,
        data_directory: Path,
        settings: QuorumSettings,
        *,
        state_machine: StateMachine,
        transport: Transport,
        system: System = SYSTEM,
        executor: Executor | None = None,
        failed: Callable[[str], None] = lambda _reason: None,
    ) -> None:
        """`executor` runs what waits for the disk; `failed` is called with the reason when this member takes part no
        more, for good."""
        self._settings = settings
        self._state_machine = state_machine
        self._transport = transport
        self._tell_failed = failed
        self._system = system
        self._store = QuorumStore(data_directory, segment_bytes=settings.segment_bytes, system=system)
        self._syncer = Syncer(self._store, executor, self._persisted, self._storage_failed)
        self._applier = Applier(
            self._store, state_machine, executor, term_of=self._term_of, applied=self._state_has_moved
        )
        self._snapshotter = Snapshotter(
            settings,
            self._store,
            self._applier,
            machine=self._get_machine,
            step=self._step,
            failed=self._storage_failed,
            now_ms=self._now_ms,
        )
        self._peering = Peering(settings, self._step)
        self._links = Links(transport, self._peering.answered, lambda node_id: self._step(Unreachable(node_id)))
        self._machine: RaftMachine | None = None
        self._outage: BrokerError | None = NotLeader(NOBODY, "The quorum is not started.")
        """Why this member takes no part at the moment."""
        self._events: deque[Event] = deque()
        self._is_stepping = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self.commands = Commands(self._step, lambda: self.leader_id, lambda: self._outage)
        self._reported: tuple[int, int, bool] = (NOBODY, 0, False)
        """Leader, term, active: as last reported to the state machine."""
        self._members = settings.bootstrap
        self._is_stopping = False
        self._changed = asyncio.Event()
        """Set when this member first leads, or fails to."""

    # -- life ----------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Opens `__cluster_metadata-0` and begins to take part; DirectoryRefused when what is there cannot be read.

        The state machine gets the newest snapshot before this returns. A sole voter has elected itself, committed and
        applied its whole log when this returns; others apply the log as they hear from their leader.
        """
        machine = self._load(None)
        if machine.members.voter_ids == (self._settings.node_id,) and machine.is_voter:
            await self._changed.wait()
            if self._applier.failure is not None:
                raise DirectoryRefused(f"the metadata cannot be read: {self._applier.failure.message}")
            if self._outage is not None:
                raise DirectoryRefused(f"the metadata cannot be written: {self._outage.message}")

    def _load(self, remembered: HardState | None) -> RaftMachine:
        """What is on disk becomes a machine. `remembered`: a newer term and vote than the disk took so far."""
        settings = self._settings
        loaded = self._store.open(settings.bootstrap)
        recovered = loaded.recovered
        if remembered is not None and remembered.term >= recovered.hard_state.term:
            # Before any message leaves: what was promised in this term must outlive the next crash too.
            self._store.write_hard_state(remembered)
            recovered = recovered.replace(hard_state=remembered)
        if recovered.snapshot is not None and recovered.snapshot.end_offset > self._applier.offset:
            assert loaded.content is not None, "a snapshot has content"
            try:
                self._applier.load_snapshot(recovered.snapshot, self._applier.decode(loaded.content))
            except BrokerError as error:
                raise DirectoryRefused(f"the metadata in {self._store.path} cannot be read: {error.message}") from error
        machine_settings = MachineSettings(
            node_id=settings.node_id,
            directory_id=settings.directory_id,
            election_timeout_ms=settings.election_timeout_ms,
            heartbeat_interval_ms=max(1, min(settings.heartbeat_interval_ms, settings.election_timeout_ms // 5)),
            request_timeout_ms=2 * settings.election_timeout_ms,
            append_bytes_max=settings.append_bytes_max,
        )
        randomness = _Randomness(self._system.random_bytes)
        self._machine = machine = RaftMachine(machine_settings, recovered, randomness, self._now_ms())
        self._outage = None
        self._use_members(machine.members)
        known = machine.members.find(settings.node_id)
        if known is not None and not known.is_same_node(settings.node_id, settings.directory_id):
            logger.error(
                "the quorum knows this node with another data directory; remove it there and let it join again",
                node=settings.node_id,
            )
        self._step(Tick())
        return machine

    async def stop(self) -> None:
        """Hands over leadership if another voter can have it, leaves a snapshot when it pays, closes the log."""
        if self._is_stopping:
            return
        if self._machine is None:
            # The start was refused: what is on disk stays as it was found.
            self._is_stopping = True
            self._store.close(clean=False)
            return
        machine = self._machine
        if machine is not None and self._outage is None and machine.is_leader and len(machine.members.voters) > 1:
            try:
                await self.commands.transfer_leadership(timeout_s=1.0)
            except BrokerError as error:
                logger.info("leadership was not handed over", reason=error.message)
        self._is_stopping = True
        self._outage = NotLeader(NOBODY, "The quorum is stopping.")
        self._fail_proposals(self._outage)
        if self._timer is not None:
            self._timer.cancel()
        await self._links.close()
        await self._syncer.drain()
        await self._applier.stop()
        try:
            await self._snapshotter.stop(is_open=self._store.is_open)
            self._store.close()
        except (OSError, BrokerError) as error:
            logger.warning("metadata was not closed cleanly", reason=str(error))

    # -- what is known -------------------------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        """Whether this node leads and has applied all that was committed before: whether it may decide."""
        return self._reported[2] and self._outage is None

    @property
    def leader_id(self) -> int:
        """The leader as far as this node knows; -1 for none."""
        return self._reported[0]

    @property
    def term(self) -> int:
        return 0 if self._machine is None else self._machine.term

    @property
    def members(self) -> MemberSet:
        """In force on this node, possibly not committed yet."""
        return self._members

    @property
    def applied_offset(self) -> int:
        """Everything below has gone into the state machine."""
        return self._applier.offset

    @property
    def syncs(self) -> int:
        """Syncs of the disk so far."""
        return self._syncer.syncs

    def status(self) -> QuorumStatus:
        assert self._machine is not None, "the quorum was started"
        return describe(self._machine, self._now_ms())

    # -- proposing -----------------------------------------------------------------------------------------------------

    async def propose(self, records: Sequence[Message]) -> int:
        """Appends the records as one batch; returns the offset after them when they are committed and applied.

        Proposals made without waiting for one another keep their order and share syncs and messages. Raises NotLeader
        (nothing written), LeadershipLost (fate unknown), QuorumBusy, StorageFailure.
        """
        if self._outage is not None:
            raise self._outage
        if not self.is_leader:
            raise NotLeader(self.leader_id)
        data = build_metadata_batch(map(encode_metadata_record, records), self._system.wall_clock_ms())
        if len(data) > RAFT_ENTRY_BYTES_MAX:
            raise BrokerError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"A change of {len(data)} bytes is too large; {RAFT_ENTRY_BYTES_MAX} at a time.",
            )
        if self._members.voter_ids == (self._settings.node_id,) and not self._store.has_room(len(data)):
            # With other voters a leader whose disk is full is better replaced; alone it leads on, and only says no,
            # but not to what frees space.
            from tidelog.protocol.generated.remove_topic_record import RemoveTopicRecord

            if all(isinstance(record, RemoveTopicRecord) for record in records):
                self._store.give_up_reserve()
            if not self._store.has_room(len(data)):
                raise StorageFailure(f"There is no room left for metadata in {self._store.directory}.")
        proposal = Proposal(records, asyncio.get_running_loop().create_future())
        self._step(Propose(proposal, data, len(records)))
        return await proposal.done

    def _fail_proposals(self, error: BrokerError) -> None:
        proposals, self._applier.proposals = self._applier.proposals, {}
        for proposal in proposals.values():
            if not proposal.done.done():
                proposal.done.set_exception(error)

    # -- the machine ---------------------------------------------------------------------------------------------------

    def _now_ms(self) -> int:
        return int(self._system.monotonic_s() * 1000)

    def _get_machine(self) -> RaftMachine:
        assert self._machine is not None, "the quorum was started"
        return self._machine

    def _term_of(self, offset: int) -> int:
        return max(self._get_machine().log.term_before(offset), 0)

    def _step(self, event: Event) -> None:
        """Feeds the machine and does what it wants done. What happens meanwhile waits its turn."""
        self._events.append(event)
        if self._is_stepping:
            return
        self._is_stepping = True
        try:
            while self._events:
                self._run(self._events.popleft())
        finally:
            self._is_stepping = False
        self._schedule()

    def _run(self, event: Event) -> None:
        if self._outage is not None and not self._is_stopping:
            self._settle_unheard(event)
            return
        assert self._machine is not None, "the quorum was started"
        try:
            effects = self._machine.step(event, self._now_ms())
        except DivergedLog as error:
            assert isinstance(event, Receive), "only others can contradict this node"
            logger.error("a member contradicts this node's metadata", peer=event.source_id, reason=str(error))
            self._settle_unheard(event)
            return
        try:
            for effect in effects:
                self._perform(effect)
        except StorageFailure as error:
            self._storage_failed(error)
            # The effects of this event that are left are dropped, and with them the answer that its sender waits for.
            self._settle_unheard(event)

    def _settle_unheard(self, event: Event) -> None:
        """The machine will not answer this event: its sender must not wait for ever."""
        if isinstance(event, Receive) and isinstance(event.reply_to, asyncio.Future) and not event.reply_to.done():
            event.reply_to.set_exception(ConnectionError("the quorum takes no part at the moment"))
        if isinstance(event, Propose) and isinstance(event.token, Proposal) and not event.token.done.done():
            event.token.done.set_exception(self._outage or NotLeader(NOBODY))

    def _schedule(self) -> None:
        if self._machine is None or self._is_stopping or self._outage is not None:
            # During an outage the machine hears nothing, so a deadline that has passed would only pass again at once.
            return
        deadline_ms = self._machine.deadline_ms()
        if self._timer is not None:
            if self._timer_ms <= deadline_ms:
                # A tick too early does no harm, and setting the timer again for every message would cost more.
                return
            self._timer.cancel()
        self._timer_ms = deadline_ms
        delay_s = max(0.0, deadline_ms / 1000 - self._system.monotonic_s())
        self._timer = asyncio.get_running_loop().call_later(min(delay_s, 3600.0), self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._step(Tick())

    def _persisted(self, write_id: int) -> None:
        self._step(Persisted(write_id))

    # -- effects -------------------------------------------------------------------------------------------------------

    def _perform(self, effect: Effect) -> None:
        assert self._machine is not None, "the quorum was started"
        match effect:
            case Persist():
                self._store.write(effect, self._machine.members, self._settings.node_id)
                self._syncer.request(effect.write_id)
            case SendAppend():
                batches = self._store.read_bytes(effect.prev_offset, effect.end_offset)
                self._links.send(
                    effect.destination, encode_append(self._peering.envelope_to(effect.destination), effect, batches)
                )
            case Send(destination, request):
                self._links.send(destination, encode_message(self._peering.envelope_to(destination), request))
            case Reply(reply_to, response):
                assert isinstance(reply_to, asyncio.Future), "made by receive"
                if not reply_to.done():
                    reply_to.set_result(response)
            case Committed(offset):
                self._applier.advance(offset)
            case Proposed(token, end_offset):
                self._register(token, end_offset)
            case Refused(Proposal() as proposal, code, text):
                busy = QuorumBusy(text) if code != ErrorCode.NOT_CONTROLLER else NotLeader(self.leader_id, text)
                proposal.done.set_exception(busy)
            case Done() | Refused():
                self.commands.settle(effect)
            case RoleChanged():
                if not self._machine.is_leader:
                    self._fail_proposals(LeadershipLost(effect.leader_id))
                self._notify_leader()
            case MembersChanged(members):
                self._use_members(members)
            case SendSnapshot():
                self._send_snapshot(effect)
            case StoreSnapshotPart(snapshot, position, data):
                self._store.store_snapshot_part(snapshot, position, data)
            case InstallSnapshot(snapshot):
                self._snapshotter.install(snapshot)
            case FoundersMissing(node_ids):
                self._peering.note_founders_missing(node_ids)
            case RefusedPeer(node_id, reason):
                self._peering.note_refusal(node_id, reason)

    def _register(self, token: object, end_offset: int) -> None:
        assert isinstance(token, Proposal), "made by propose"
        token.end_offset = end_offset
        token.base_offset = end_offset - len(token.records)
        self._applier.proposals[token.base_offset] = token

    def _state_has_moved(self) -> None:
        """A chunk was applied, or cannot be."""
        failure = self._applier.failure
        if failure is not None:
            # A node that does not know the state may neither decide nor write a snapshot of it, and no other node can
            # help.
            self._drop_out(failure)
            self._tell_failed(f"the metadata after offset {self._applier.offset} cannot be applied: {failure.message}")
            return
        self._notify_leader()
        self._snapshotter.maybe_take()

    def _notify_leader(self) -> None:
        machine = self._machine
        assert machine is not None, "the quorum was started"
        if self._applier.failure is not None:
            return
        is_active = machine.is_active_leader and self._applier.offset >= machine.term_start_offset
        now, last = (machine.leader_id, machine.term, is_active), self._reported
        if now != last and (now[0] != last[0] or now[2] != last[2] or now[0] != NOBODY):
            self._reported = now
            logger.debug("quorum", leader=now[0], term=now[1], active=is_active)
            self._state_machine.leader_changed(now[0], now[1], is_active=is_active)
            if is_active:
                self._changed.set()

    def _use_members(self, members: MemberSet) -> None:
        self._members = members
        others = (member for member in members if member.node_id != self._settings.node_id)
        self._transport.update_peers({member.node_id: Address(member.host, member.port) for member in others})

    def _storage_failed(self, error: StorageFailure) -> None:
        """What was not synced is given up, and this member with it; it comes back as after a crash."""
        if self._outage is None and not self._is_stopping:
            logger.error("metadata cannot be written", reason=error.message)
            self._drop_out(error)
            asyncio.get_running_loop().call_later(RETRY_AFTER_FAILURE_S, self._come_back)

    def _drop_out(self, error: BrokerError) -> None:
        """Takes no part from now on."""
        self._outage = error
        self._changed.set()
        self._fail_proposals(error)
        self.commands.fail(error)
        self._reported = (NOBODY, self.term, False)
        self._state_machine.leader_changed(NOBODY, self.term, is_active=False)

    def _come_back(self) -> None:
        if self._is_stopping or self._machine is None or self._applier.failure is not None:
            return
        if self._syncer.is_running:
            asyncio.get_running_loop().call_later(RETRY_AFTER_FAILURE_S, self._come_back)
            return
        machine = self._machine
        remembered = HardState(machine.term, machine.voted_for, machine.voted_directory)
        self._applier.forget_commits()
        try:
            self._store.forget_unsynced()
            self._load(remembered)
        except (DirectoryRefused, StorageFailure, OSError) as error:
            logger.error("metadata cannot be read again", reason=str(error))
            asyncio.get_running_loop().call_later(RETRY_AFTER_FAILURE_S, self._come_back)

    def _send_snapshot(self, effect: SendSnapshot) -> None:
        part = self._store.read_snapshot_part(effect.snapshot, effect.position)
        if part is not None:
            data, is_last = part
            body = encode_snapshot_part(self._peering.envelope_to(effect.destination), effect, data, is_last=is_last)
            self._links.send(effect.destination, body)

    # -- the other members ---------------------------------------------------------------------------------------------

    async def receive(self, body: bytes) -> bytes:
        """Answers a request of another member (API key `RAFT_API_KEY`): `body` is what Transport.request was given.

        Raises MalformedMessage for bytes that are none, ConnectionError while there can be no answer. Requests of one
        peer may overlap: call it for the next before the last has answered, in the order they came.
        """
        if self._outage is not None or self._is_stopping:
            raise ConnectionError("the quorum takes no part at the moment")
        return await self._peering.receive(body)

    def sender_of(self, body: bytes) -> int:
        """The sender that the message names; NOBODY when it cannot be read."""
        return self._peering.sender_of(body)

    def connection_lost(self, node_id: int) -> None:
        """The member's connection to this node broke, as it does at once when a process ends. If it was the leader
        and its port is closed, the election does not wait for its timeout."""
        if self._machine is not None and self._outage is None and self._machine.leader_id == node_id:
            self._links.look_for(node_id, lambda gone_id: self._step(LeaderGone(gone_id)))
