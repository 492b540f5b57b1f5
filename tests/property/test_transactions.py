"""Transactions under random producers, zombies, time, half-written markers, failing writes, crashes and replays.

The coordinator's core decides, real logs hold the records, a group's core holds the offsets. What must hold: a reader
of committed data never sees a record of an aborted or undecided transaction; when all markers are written, it sees a
committed transaction whole; offsets move with their transaction; and the logs alone give the live state back.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule
from tests.unit.storage.partition_log import append, config, end_transaction
from tests.unit.transactions.driver import START_WALL_MS, ShardDriver, without_volatile

from tidelog.groups.core.messages import Commit, OffsetToCommit, TransactionalCommit
from tidelog.groups.core.settings import GroupSettings
from tidelog.groups.core.shard import GroupShard
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.records.batch import iterate_whole_headers
from tidelog.records.record import iterate_records
from tidelog.runtime.system import System
from tidelog.storage.log import Log
from tidelog.transactions.core.messages import AddPartitions, Ended, Initialised
from tidelog.transactions.core.state import TransactionState
from tidelog.transactions.markers import MOVES_EPOCH_FROM

NAMES = ("a", "b")
PARTITIONS = 3
OFFSETS = TopicPartition("__consumer_offsets", 0)
EPOCH_LAST = 32766


class Client:
    """A producer as it sees itself; a zombie once a newer one of its name has started."""

    def __init__(self, name: str, held: Initialised, *, moves_epoch: bool) -> None:
        self.name = name
        self.held: Initialised | Ended = held
        self.moves_epoch = moves_epoch
        self.sequences: dict[tuple[int, int, int], int] = {}


class Transaction:
    """What the test knows of one: what went into it and how it ends."""

    def __init__(self) -> None:
        self.values: set[tuple[int, bytes]] = set()
        self.offset_commits: list[int] = []
        """Positions in the offsets log."""
        self.commit: bool | None = None


class OffsetsLog:
    """A group's core and the log it lives on."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, list[object] | bool]] = []
        """Producer id, and records or the outcome a marker tells."""
        self.values: dict[int, int] = {}
        """Position -> offset that was committed there."""
        self.shard = GroupShard(GroupSettings())

    def write(self, producer_id: int, content: list[object] | bool) -> int:
        self.entries.append((producer_id, content))
        self._apply(self.shard, len(self.entries) - 1)
        return len(self.entries) - 1

    def _apply(self, shard: GroupShard, position: int) -> None:
        producer_id, content = self.entries[position]
        if isinstance(content, bool):
            shard.replay_end_transaction(producer_id, content)
        else:
            for record in content:
                shard.replay(record, position, producer_id)  # type: ignore[arg-type]

    def replayed(self) -> GroupShard:
        shard = GroupShard(GroupSettings())
        for position in range(len(self.entries)):
            self._apply(shard, position)
        return shard


class Transactions(RuleBasedStateMachine):
    clients = Bundle("clients")

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="transactions-"))
        self.driver = ShardDriver()
        self.logs = [self._open(index, clean=True) for index in range(PARTITIONS)]
        self.offsets = OffsetsLog()
        self.ongoing: dict[str, Transaction] = {}
        self.over: list[Transaction] = []
        self.marked: dict[str, set[TopicPartition]] = {}
        """Partitions that have the marker of a prepared outcome, as far as this run of the coordinator knows."""
        self.shut_out: set[tuple[str, int, int]] = set()
        """Name, id and epoch of producers that were fenced because another one started."""
        self.timed_out: set[tuple[str, int, int]] = set()
        """The same of those fenced by a time-out: they may ask for the next epoch until another one starts."""
        self.counter = 0

    def teardown(self) -> None:
        try:
            self._settle()
        finally:
            for log in self.logs:
                log.close(clean=False)
            shutil.rmtree(self.directory)

    def _open(self, index: int, *, clean: bool) -> Log:
        return Log.open(
            self.directory / f"t-{index}",
            TopicPartition("t", index),
            config(segment_bytes=2000, index_interval_bytes=100),
            system=System(lambda: START_WALL_MS),
            clean_shutdown=clean,
        )

    # -- rules --------------------------------------------------------------------------------------------------------

    @initialize(target=clients, moves_epoch=st.booleans())
    def first_client(self, moves_epoch: bool) -> Client:
        return Client("a", self.driver.init("a"), moves_epoch=moves_epoch)

    @rule(target=clients, name=st.sampled_from(NAMES), moves_epoch=st.booleans())
    def start(self, name: str, moves_epoch: bool) -> Client:
        self._shut_out(name)
        reply = self.driver.init(name)
        self._note_end(name)
        if reply.error is ErrorCode.CONCURRENT_TRANSACTIONS:
            self._complete(name)
            reply = self.driver.init(name)
        assert reply.error is ErrorCode.NONE
        return Client(name, reply, moves_epoch=moves_epoch)

    @rule(client=clients)
    def go_on(self, client: Client) -> None:
        """KIP-360: the producer asks for its next epoch by itself."""
        reply = self.driver.init(client.name, client.held.producer_id, client.held.producer_epoch)
        self._note_end(client.name)
        if reply.error is ErrorCode.NONE:
            assert (client.name, client.held.producer_id, client.held.producer_epoch) not in self.shut_out
            client.held = reply

    def _shut_out(self, name: str) -> None:
        metadata = self.driver.shard.transactions.get(name)
        if metadata is not None:
            self.shut_out.add((name, metadata.producer_id, metadata.producer_epoch))
        self.shut_out |= {producer for producer in self.timed_out if producer[0] == name}

    @rule(client=clients, index=st.integers(0, PARTITIONS - 1), size=st.integers(1, 3))
    def write(self, client: Client, index: int, size: int) -> None:
        target = TopicPartition("t", index)
        producer_id, epoch = client.held.producer_id, client.held.producer_epoch
        if not self._let_in(client, target):
            return
        key = (index, producer_id, epoch)
        values = [b"%d" % (self.counter + number) for number in range(size)]
        try:
            append(
                self.logs[index],
                [(None, value) for value in values],
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=client.sequences.get(key, 0),
                transactional=True,
            )
        except BrokerError as error:
            if error.code not in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
                raise
            return
        self.counter += size
        client.sequences[key] = client.sequences.get(key, 0) + size
        self.ongoing[client.name].values |= {(index, value) for value in values}

    @rule(client=clients)
    def commit_offset(self, client: Client) -> None:
        if not self._let_in(client, OFFSETS):
            return
        self.counter += 1
        commit = Commit("g", "", None, -1, [OffsetToCommit("t", 0, self.counter)])
        request = TransactionalCommit(client.held.producer_id, client.held.producer_epoch, commit)
        decision = self.offsets.shard.decide_transactional_commit(request, self.driver.now)
        assert list(decision.reply) == [ErrorCode.NONE]
        position = self.offsets.write(decision.producer[0], decision.records)
        self.offsets.values[position] = self.counter
        self.ongoing[client.name].offset_commits.append(position)

    def _let_in(self, client: Client, target: TopicPartition) -> bool:
        """As the API does it: the older flow announces the partition first, then both verify."""
        request = AddPartitions(client.name, client.held.producer_id, client.held.producer_epoch, frozenset({target}))
        error = self.driver.perform(self.driver.shard.decide_add_partitions(request, self.driver.now))
        if error is not ErrorCode.NONE:
            return False
        producer = (client.name, client.held.producer_id, client.held.producer_epoch)
        assert producer not in self.shut_out
        assert producer not in self.timed_out
        self.ongoing.setdefault(client.name, Transaction())
        assert self.driver.shard.verify_partitions(request) == {target: ErrorCode.NONE}
        return True

    @rule(client=clients, commit=st.booleans())
    def end(self, client: Client, commit: bool) -> None:
        before = self.driver.shard.transactions.get(client.name)
        reply = self.driver.end(client.held, commit=commit, moves_epoch=client.moves_epoch, name=client.name)
        if before is not None and before.state is TransactionState.ONGOING and client.held != before[:2]:
            current = (client.held.producer_id, client.held.producer_epoch) == before[:2]
            assert current or not reply.prepared, "only the current producer ends its transaction"
        self._note_end(client.name)
        if reply.error is ErrorCode.NONE and client.moves_epoch:
            client.held = reply

    @rule(name=st.sampled_from(NAMES), count=st.integers(1, 4))
    def write_some_markers(self, name: str, count: int) -> None:
        metadata = self.driver.shard.transactions.get(name)
        if metadata is None or not metadata.state.is_prepared:
            return
        marked = self.marked.setdefault(name, set())
        for target in sorted(metadata.partitions - marked)[:count]:
            self._mark(name, target)
        if metadata.partitions <= marked:
            self._complete(name)

    def _mark(self, name: str, target: TopicPartition) -> None:
        metadata = self.driver.shard.transactions[name]
        commit = metadata.state is TransactionState.PREPARE_COMMIT
        if target == OFFSETS:
            self.offsets.write(metadata.producer_id, commit)
        else:
            log = self.logs[target.partition]
            if metadata.client_version >= MOVES_EPOCH_FROM:
                log.producer_state.check_end_epoch(metadata.producer_id, metadata.producer_epoch)
            end_transaction(log, metadata.producer_id, commit=commit, epoch=metadata.producer_epoch)
        self.marked.setdefault(name, set()).add(target)

    def _complete(self, name: str) -> None:
        metadata = self.driver.shard.transactions[name]
        for target in sorted(metadata.partitions - self.marked.get(name, set())):
            self._mark(name, target)
        assert self.driver.complete(name)
        self.marked.pop(name, None)

    @rule(by_ms=st.sampled_from([1, 1000, 61_000]))
    def time_passes(self, by_ms: int) -> None:
        self.driver.now_ms += by_ms
        for name, metadata in self.driver.shard.transactions.items():
            waited_ms = self.driver.now.wall_ms - metadata.start_timestamp_ms
            if metadata.state is TransactionState.ONGOING and waited_ms > metadata.timeout_ms:
                self.timed_out.add((name, metadata.producer_id, metadata.producer_epoch))
        for name in self.driver.abort_timed_out():
            self._note_end(name)

    @rule(name=st.sampled_from(NAMES))
    def epochs_are_nearly_used_up(self, name: str) -> None:
        metadata = self.driver.shard.transactions.get(name)
        if metadata is not None and metadata.state.can_expire and metadata.producer_epoch < EPOCH_LAST - 2:
            self.driver.set(name, producer_epoch=EPOCH_LAST - 2)

    @rule()
    def the_coordinator_crashes(self) -> None:
        """It does not know any more which markers are written, and writes them again."""
        self.driver.crash()
        self.marked.clear()

    @rule()
    def the_node_crashes(self) -> None:
        self.the_coordinator_crashes()
        for index, log in enumerate(self.logs):
            log.close(clean=False)
            self.logs[index] = self._open(index, clean=False)
        self.offsets.shard = self.offsets.replayed()

    def _note_end(self, name: str) -> None:
        """An outcome was decided: from here on it stands."""
        metadata = self.driver.shard.transactions.get(name)
        if metadata is not None and metadata.state.is_prepared and name in self.ongoing:
            transaction = self.ongoing.pop(name)
            transaction.commit = metadata.state is TransactionState.PREPARE_COMMIT
            self.over.append(transaction)

    # -- what must hold -----------------------------------------------------------------------------------------------

    def _read_committed(self, index: int) -> set[bytes]:
        log = self.logs[index]
        stable = log.reader.last_stable_offset(log.log_end_offset)
        if stable == 0:
            return set()
        data = log.reader.read(0, 1 << 24, upper_offset=stable, min_one_batch=True).load()
        offset, values, in_abort = 0, set(), set()
        while data:
            aborted = sorted((a.first_offset, a.producer_id) for a in log.reader.aborted_transactions(offset, stable))
            in_abort.clear()
            for position, header in iterate_whole_headers(data):
                while aborted and aborted[0][0] <= header.last_offset:
                    in_abort.add(aborted.pop(0)[1])
                offset = header.next_offset
                if header.is_control:
                    in_abort.discard(header.producer_id)
                elif header.producer_id not in in_abort:
                    batch = data[position : position + header.size_in_bytes]
                    values |= {record.value or b"" for record in iterate_records(batch)}
            data = (
                b""
                if offset >= stable
                else log.reader.read(offset, 1 << 24, upper_offset=stable, min_one_batch=True).load()
            )
        return values

    @invariant()
    def readers_see_committed_data_only(self) -> None:
        for index in range(PARTITIONS):
            visible = self._read_committed(index)
            for transaction in (*self.over, *self.ongoing.values()):
                if not transaction.commit:
                    own = {value for at, value in transaction.values if at == index}
                    assert not own & visible

    @invariant()
    def the_log_alone_gives_the_state_back(self) -> None:
        self.driver.check_replay()
        live, replayed = self.offsets.shard.offsets, self.offsets.replayed().offsets
        assert live.of_group("g") == replayed.of_group("g")
        assert live.pending.snapshot() == replayed.pending.snapshot()

    def _settle(self) -> None:
        self.driver.now_ms += 10_000_000
        for name in self.driver.abort_timed_out():
            self._note_end(name)
        for name in self.driver.shard.prepared_ids():
            self._complete(name)
        assert not self.ongoing
        self.readers_see_committed_data_only()
        for index, log in enumerate(self.logs):
            assert log.reader.last_stable_offset(log.log_end_offset) == log.log_end_offset, "nothing hangs"
            committed = {v for t in self.over if t.commit for at, v in t.values if at == index}
            assert self._read_committed(index) == committed
        last = max((p for t in self.over if t.commit for p in t.offset_commits), default=None)
        found = self.offsets.shard.offsets.get("g", "t", 0)
        assert (None if found is None else found.offset) == (None if last is None else self.offsets.values[last])
        assert not self.offsets.shard.offsets.pending


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(
    max_examples=200, derandomize=True, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


class ManyTransactions(Transactions):
    pass


TestManyTransactions = pytest.mark.timeout(3600)(pytest.mark.long(ManyTransactions.TestCase))
TestManyTransactions.settings = settings(
    max_examples=3000, stateful_step_count=80, deadline=None, suppress_health_check=list(HealthCheck)
)


def test_volatile_fields_are_the_only_ones_left_out() -> None:
    driver = ShardDriver()
    driver.init()
    driver.init(producer_id=1000, epoch=0)
    assert driver.metadata.last_producer_epoch == 0
    assert without_volatile(driver.metadata) == driver.replayed().transactions["orders"]
