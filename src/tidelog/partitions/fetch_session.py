"""Incremental fetch sessions (KIP-227): a consumer of many partitions names only what changed since its last fetch.

Pure bookkeeping; `fetching.py` reads partitions and asks a session which of them the response must name. Sessions
belong to the node, not to a connection; the cache is bounded and gives up the longest unused one when it is full.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Final

from tidelog.model import limits
from tidelog.model.errors import BrokerError, ErrorCode

INITIAL_EPOCH: Final = 0
"""A full fetch that asks for a new session."""
FINAL_EPOCH: Final = -1
"""A full fetch that wants no session, and closes the one it names."""
EVICTION_MS: Final = 120_000
"""A session unused for this long may be evicted to make room."""

TopicKey = str | bytes
"""Name up to Fetch version 12, topic id from 13 on."""
PartitionKey = tuple[TopicKey, int]


class FetchTarget:
    """One partition of a fetch: where to read, and what its session last said about it."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "partition",
        "sent_high_watermark",
        "sent_log_start_offset",
        "topic_key",
    )

    def __init__(
        self,
        topic_key: TopicKey,
        partition: int,
        fetch_offset: int,
        max_bytes: int,
        current_leader_epoch: int,
        last_fetched_epoch: int,
        log_start_offset: int = -1,
    ) -> None:
        self.topic_key = topic_key
        self.partition = partition
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        """Where the log of the replica that fetches begins; -1 for a consumer."""
        self.sent_high_watermark = -1
        self.sent_log_start_offset = -1

    def must_include(self, *, has_records: bool, error_code: int, high_watermark: int, log_start_offset: int) -> bool:
        """Whether an incremental response must name this partition; remembers what it then says.

        Anything else than records that the response has for the client counts as records.
        """
        if error_code:
            # The first response after the error must name the partition again.
            self.sent_high_watermark = -1
            return True
        is_news = (
            has_records or high_watermark != self.sent_high_watermark or log_start_offset != self.sent_log_start_offset
        )
        self.sent_high_watermark = high_watermark
        self.sent_log_start_offset = log_start_offset
        return is_news


class FetchSession:
    __slots__ = ("epoch", "last_used_ms", "session_id", "targets", "uses_topic_ids")

    def __init__(self, session_id: int, targets: Iterable[FetchTarget], uses_topic_ids: bool, now_ms: int) -> None:
        self.session_id = session_id
        self.epoch = 1
        """The epoch the next request must carry."""
        self.targets: OrderedDict[PartitionKey, FetchTarget] = OrderedDict(
            ((target.topic_key, target.partition), target) for target in targets
        )
        self.uses_topic_ids = uses_topic_ids
        self.last_used_ms = now_ms

    def update(self, targets: Iterable[FetchTarget], forgotten: Iterable[PartitionKey]) -> None:
        for target in targets:
            key = (target.topic_key, target.partition)
            known = self.targets.get(key)
            if known is None:
                self.targets[key] = target
                continue
            known.fetch_offset = target.fetch_offset
            known.max_bytes = target.max_bytes
            known.current_leader_epoch = target.current_leader_epoch
            known.last_fetched_epoch = target.last_fetched_epoch
            known.log_start_offset = target.log_start_offset
        for key in forgotten:
            self.targets.pop(key, None)

    def move_to_end(self, target: FetchTarget) -> None:
        """A partition that just gave records is asked last next time, so that none starves behind a busy one."""
        self.targets.move_to_end((target.topic_key, target.partition))


class FetchSessionCache:
    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        """Longest unused first."""
        self._next_id = 1
        self.partition_count = 0
        """Targets of all sessions; bounded too, since a client can name partitions that do not exist."""

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[FetchSession]:
        return iter(self._sessions.values())

    def create(self, targets: list[FetchTarget], uses_topic_ids: bool, now_ms: int) -> FetchSession | None:
        """A new session, or None when others in recent use leave no room (the client then fetches without one)."""
        partitions_free = limits.FETCH_SESSION_PARTITIONS_MAX - len(targets)
        if partitions_free < 0:
            return None
        while len(self._sessions) >= self._slots or self.partition_count > partitions_free:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now_ms - oldest.last_used_ms < EVICTION_MS:
                return None
            self.close(oldest.session_id)
        session = FetchSession(self._unused_id(), targets, uses_topic_ids, now_ms)
        self._sessions[session.session_id] = session
        self.partition_count += len(session.targets)
        return session

    def update(self, session: FetchSession, targets: Iterable[FetchTarget], forgotten: Iterable[PartitionKey]) -> None:
        """What an incremental fetch changes. A session that no longer fits into the cache is given up: the client then
        opens another one, and fetches without one if it must."""
        before = len(session.targets)
        session.update(targets, forgotten)
        self.partition_count += len(session.targets) - before
        if self.partition_count > limits.FETCH_SESSION_PARTITIONS_MAX and len(session.targets) > before:
            self.close(session.session_id)
            raise BrokerError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)

    def close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.partition_count -= len(session.targets)

    def resume(self, session_id: int, epoch: int, uses_topic_ids: bool, now_ms: int) -> FetchSession:
        """The session a request continues. Raises BrokerError as Kafka answers."""
        session = self._sessions.get(session_id)
        if session is None:
            raise BrokerError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise BrokerError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            raise BrokerError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.epoch = 1 if epoch == 0x7FFFFFFF else epoch + 1
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session_id)
        return session

    def _unused_id(self) -> int:
        while self._next_id in self._sessions:
            self._next_id = 1 if self._next_id >= 0x7FFFFFFF else self._next_id + 1
        session_id = self._next_id
        self._next_id = 1 if session_id >= 0x7FFFFFFF else session_id + 1
        return session_id
