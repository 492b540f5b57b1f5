"""Drives a TransactionShard without a host: requests in, records and replies out, time and crashes by the test."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, TypeVar

from tidelog.coordination.decision import Decision, Moment
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.transactions.core.messages import AddPartitions, End, Ended, Init, Initialised
from tidelog.transactions.core.metadata import TransactionMetadata
from tidelog.transactions.core.records import TransactionRecord, decode_record, encode_record
from tidelog.transactions.core.settings import TransactionSettings
from tidelog.transactions.core.shard import TransactionShard
from tidelog.transactions.core.state import TransactionState

R = TypeVar("R")
START_WALL_MS = 1_700_000_000_000
TIMEOUT_MS = 60_000
ID = "orders"


def partitions(*indexes: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition("t", index) for index in indexes)


def without_volatile(metadata: TransactionMetadata) -> TransactionMetadata:
    """What the log remembers."""
    return metadata._replace(last_producer_epoch=-1)


class ShardDriver:
    def __init__(self, **settings: Any) -> None:
        self.settings = TransactionSettings(**settings)
        self.now_ms = 0
        self.log: list[tuple[bytes, bytes | None]] = []
        self.refuses = False
        self._fresh_ids = itertools.count(1000)
        self.shard = TransactionShard(self.settings)

    @property
    def now(self) -> Moment:
        return Moment(self.now_ms, START_WALL_MS + self.now_ms)

    def perform(self, decision: Decision[R]) -> R:
        """What a host does."""
        if decision.records and self.refuses:
            raise BrokerError(ErrorCode.NOT_COORDINATOR)
        for record in decision.records:
            key, value = encode_record(record)
            decoded = decode_record(key, value)
            assert decoded is not None
            expected = record.metadata and without_volatile(record.metadata)
            assert decoded == TransactionRecord(record.transactional_id, expected), "the log gives back what was put in"
            self.log.append((key, value))
            self.shard.replay(record, len(self.log) - 1, -1)
        return decision.reply

    def replayed(self, *, compacted: bool = False) -> TransactionShard:
        shard = TransactionShard(self.settings)
        latest = {key: offset for offset, (key, _) in enumerate(self.log)}
        for offset, (key, value) in enumerate(self.log):
            if not compacted or latest[key] == offset:
                record = decode_record(key, value)
                assert record is not None
                shard.replay(record, offset, -1)
        return shard

    def crash(self) -> None:
        self.shard = self.replayed()

    def check_replay(self) -> None:
        live = {name: without_volatile(metadata) for name, metadata in self.shard.transactions.items()}
        assert self.replayed().transactions == live
        assert self.replayed(compacted=True).transactions == live
        ongoing = [name for name, metadata in live.items() if metadata.state is TransactionState.ONGOING]
        assert sorted(self.shard.ongoing_ids()) == sorted(self.replayed().ongoing_ids()) == sorted(ongoing)

    # -- requests -----------------------------------------------------------------------------------------------------

    def _with_id(self, decide: Callable[[Any, Moment], Decision[Any]], request: Any) -> Any:
        reply = self.perform(decide(request, self.now))
        if reply.needs_producer_id:
            reply = self.perform(decide(request._replace(fresh_producer_id=next(self._fresh_ids)), self.now))
            assert not reply.needs_producer_id
        return reply

    def init(self, name: str = ID, producer_id: int = -1, epoch: int = -1, timeout_ms: int = TIMEOUT_MS) -> Initialised:
        reply = self._with_id(self.shard.decide_init, Init(name, timeout_ms, producer_id, epoch))
        assert isinstance(reply, Initialised)
        return reply

    def add(self, producer: Initialised | Ended, *indexes: int, name: str = ID) -> ErrorCode:
        request = AddPartitions(name, producer.producer_id, producer.producer_epoch, partitions(*indexes or (0,)))
        return self.perform(self.shard.decide_add_partitions(request, self.now))

    def verify(self, producer: Initialised | Ended, *indexes: int, name: str = ID) -> list[ErrorCode]:
        request = AddPartitions(name, producer.producer_id, producer.producer_epoch, partitions(*indexes))
        answer = self.shard.verify_partitions(request)
        return [answer[TopicPartition("t", index)] for index in indexes]

    def end(self, producer: Initialised | Ended, *, commit: bool, moves_epoch: bool = False, name: str = ID) -> Ended:
        request = End(name, producer.producer_id, producer.producer_epoch, commit, moves_epoch)
        reply = self._with_id(self.shard.decide_end, request)
        assert isinstance(reply, Ended)
        return reply

    def complete(self, name: str = ID) -> bool:
        """All markers are written."""
        metadata = self.shard.transactions[name]
        request = (name, metadata.producer_id, metadata.producer_epoch)
        return self.perform(self.shard.decide_complete(request, self.now))

    def abort_timed_out(self) -> list[str]:
        ids = self.shard.ongoing_ids()
        swept = self.perform(self.shard.decide_abort_timed_out(ids, self.now))
        assert swept.looked_at == len(ids)
        return swept.ended

    def expire_ids(self) -> list[str]:
        ids = list(self.shard.transactions)
        swept = self.perform(self.shard.decide_expire_ids(ids, self.now))
        assert swept.looked_at == len(ids)
        return swept.ended

    def set(self, name: str = ID, **changes: Any) -> None:
        """Puts an id into a state that would take long to reach."""
        metadata = self.shard.transactions[name]._replace(**changes)
        decision: Decision[None] = Decision(None)
        decision.records.append(TransactionRecord(name, metadata))
        self.perform(decision)

    @property
    def metadata(self) -> TransactionMetadata:
        return self.shard.transactions[ID]
