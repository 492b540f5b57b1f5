"""Fetch: reads what is there; when that is less than the client wants, waits for more until its deadline.

A fetch is tried at once, then again each time one of its partitions has news, and a last time when its wait is over.
Each try reads anew, so a response never carries anything older than the moment it is sent.
"""

from __future__ import annotations

import asyncio
from typing import Final

from tidelog.api.context import RequestContext
from tidelog.api.current_leaders import LEADER_IS_ELSEWHERE, leader_endpoints, leaders_elsewhere
from tidelog.codec.buffers import Buffer
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import ZERO_TOPIC_ID
from tidelog.net.reply import Buffers, PendingReply
from tidelog.partitions.delayed import DelayedFetch
from tidelog.partitions.fetch_session import FINAL_EPOCH, INITIAL_EPOCH, FetchSession, FetchTarget, TopicKey
from tidelog.partitions.partition import Partition
from tidelog.partitions.reading import (
    READ_COMMITTED,
    FetchingReplica,
    PartitionAnswer,
    read_for_follower,
    read_partition,
    refuse_partition,
)
from tidelog.partitions.replica_selection import preferred_read_replica
from tidelog.protocol.hot_fetch import FetchRequest, decode_fetch, encode_fetch_response
from tidelog.runtime.clock import monotonic_ms
from tidelog.telemetry.logs import get_logger

logger = get_logger("tidelog.replication")

TOPIC_IDS_FROM_VERSION: Final = 13
FOLLOWER_READS_FROM_VERSION: Final = 11
"""Consumers that say where they stand may read from a follower."""


def handle_frame(context: RequestContext, frame: Buffer, position: int) -> Buffers | PendingReply:
    request = decode_fetch(frame, position, context.version)
    try:
        fetch = _Fetch(context, request)
    except BrokerError as error:
        return encode_fetch_response(context.version, 0, error.code, 0, [])
    parts = fetch.try_once(is_last_chance=request.max_wait_ms <= 0)
    return parts if parts is not None else fetch.wait()


class _Fetch:
    """One fetch request on its way to a response."""

    __slots__ = (
        "_context",
        "_is_incremental",
        "_is_new",
        "_max_bytes",
        "_min_bytes",
        "_replica",
        "_reply",
        "_request",
        "_session",
        "_targets",
        "_uses_topic_ids",
    )

    def __init__(self, context: RequestContext, request: FetchRequest) -> None:
        """Raises BrokerError when the session the request names cannot be continued, or when it comes in the name of a
        replica that it is not from."""
        self._context = context
        self._request = request
        self._replica = _known_replica(context, request) if request.replica_id >= 0 else None
        """None for a consumer."""
        self._uses_topic_ids = context.version >= TOPIC_IDS_FROM_VERSION
        self._max_bytes = min(request.max_bytes, context.services.config.fetch_max_bytes)
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        """More than the response may carry is never waited for."""
        self._session: FetchSession | None = None
        self._is_incremental = False
        self._targets = self._open_session(_targets_of(request))
        self._reply = PendingReply()
        self._is_new = True

    def _open_session(self, asked: list[FetchTarget]) -> list[FetchTarget]:
        """Everything this fetch is to read: what it names, and in an incremental fetch what its session remembers."""
        request = self._request
        sessions = self._context.services.fetch_sessions
        now_ms = self._context.services.now_ms()
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if request.session_id:
                sessions.close(request.session_id)
            if request.session_epoch == INITIAL_EPOCH and asked:
                self._session = sessions.create(asked, self._uses_topic_ids, now_ms)
            return asked
        self._session = sessions.resume(request.session_id, request.session_epoch, self._uses_topic_ids, now_ms)
        self._is_incremental = True
        forgotten: list[tuple[TopicKey, int]] = [
            (_topic_key(name, topic_id), index) for name, topic_id, indexes in request.forgotten for index in indexes
        ]
        sessions.update(self._session, asked, forgotten)
        return list(self._session.targets.values())

    # -- trying ----------------------------------------------------------------------------------------------------

    def try_once(self, is_last_chance: bool) -> Buffers | None:
        """The response, or None when the client would rather wait."""
        answers: list[tuple[FetchTarget, PartitionAnswer]] = []
        left_bytes = self._max_bytes
        found_bytes = 0
        must_answer = is_last_chance or not self._targets
        partitions = self._context.services.partitions
        find = partitions.find_partition
        isolation_level = self._request.isolation_level
        replica = self._replica
        first_read_ms = monotonic_ms() if replica is not None and self._is_new else None
        self._is_new = False
        for target in self._targets:
            partition = find(target.topic_key, target.partition)
            if partition is None:
                answer = refuse_partition(partitions.missing(target.topic_key, target.partition))
            elif replica is not None:
                answer = read_for_follower(partition, target, replica, left_bytes, found_bytes == 0, first_read_ms)
            elif partition.has_followers:
                answer = self._read_replicated(partition, target, left_bytes, found_bytes == 0)
            else:
                answer = read_partition(partition, target, isolation_level, left_bytes, found_bytes == 0)
            if answer.error_code or answer.diverging_epoch is not None or answer.preferred_read_replica >= 0:
                must_answer = True
            elif answer.region is not None:
                size = answer.region.size
                found_bytes += size
                left_bytes = max(0, left_bytes - size)
            answers.append((target, answer))
        if not must_answer and found_bytes < self._min_bytes and not (found_bytes and self._is_enough(answers)):
            return None
        for _, answer in answers:
            if answer.region is not None:
                answer.count_bytes_out()
        return self._respond(answers)

    def _is_enough(self, answers: list[tuple[FetchTarget, PartitionAnswer]]) -> bool:
        """Whether waiting could not bring what is missing, though less was found than the client wants.

        As in Kafka: what was cut short by a limit counts as if it had filled it (reads end at whole batches where they
        can), and what lies in an older segment grows no more."""
        is_committed_only = self._request.isolation_level == READ_COMMITTED
        available_bytes = 0
        for target, answer in answers:
            region = answer.region
            if region is None:
                end_offset = answer.last_stable_offset if is_committed_only else answer.high_watermark
                if self._replica is None and target.fetch_offset < end_offset:
                    available_bytes += min(target.max_bytes, self._max_bytes)
            elif region.is_cut:
                available_bytes += max(region.size, min(target.max_bytes, self._max_bytes))
            else:
                partition = answer.partition
                if partition is not None and region.segment_base_offset < partition.log.active_segment.base_offset:
                    return True
                available_bytes += region.size
        return available_bytes >= self._min_bytes

    def _read_replicated(
        self, partition: Partition, target: FetchTarget, max_bytes: int, min_one_batch: bool
    ) -> PartitionAnswer:
        """A consumer's read of a partition with several replicas: perhaps another one is nearer."""
        request, services = self._request, self._context.services
        if not partition.is_leader and self._context.version < FOLLOWER_READS_FROM_VERSION:
            return refuse_partition(BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        if request.rack_id:
            nearest = preferred_read_replica(
                partition, request.rack_id, target.fetch_offset, services.config, services.metadata.image
            )
            if nearest is not None:
                answer = read_partition(partition, target, request.isolation_level, 0, False)
                answer.preferred_read_replica = nearest if not answer.error_code else -1
                return answer
        return read_partition(partition, target, request.isolation_level, max_bytes, min_one_batch)

    def _respond(self, answers: list[tuple[FetchTarget, PartitionAnswer]]) -> Buffers:
        session = self._session
        by_topic: dict[TopicKey, list[tuple[int, PartitionAnswer]]] = {}
        has_error = False
        preferred: dict[tuple[TopicKey, int], int] | None = None
        for target, answer in answers:
            has_records = answer.region is not None
            if answer.error_code:
                has_error = True
            if answer.preferred_read_replica >= 0:
                preferred = preferred or {}
                preferred[target.topic_key, target.partition] = answer.preferred_read_replica
            if session is not None:
                is_news = target.must_tell(
                    has_records=has_records or answer.diverging_epoch is not None or answer.preferred_read_replica >= 0,
                    error_code=answer.error_code,
                    high_watermark=answer.high_watermark,
                    log_start_offset=answer.log_start_offset,
                )
                if self._is_incremental and not is_news:
                    continue
                if has_records:
                    session.move_to_end(target)
            by_topic.setdefault(target.topic_key, []).append((target.partition, answer))
        leaders = self._leaders_elsewhere(answers) if has_error else {}
        return encode_fetch_response(
            self._context.version,
            0,
            0,
            session.session_id if session is not None else 0,
            list(by_topic.items()),
            current_leaders=leaders or None,
            preferred_read_replicas=preferred,
            node_endpoints=leader_endpoints(self._context, leaders) if leaders else (),
        )

    def _leaders_elsewhere(
        self, answers: list[tuple[FetchTarget, PartitionAnswer]]
    ) -> dict[tuple[TopicKey, int], tuple[int, int]]:
        """Who leads the partitions that this node does not, so that the client need not ask."""
        self._count_errors(answers)
        return leaders_elsewhere(
            self._context,
            (
                (target.topic_key, target.partition)
                for target, answer in answers
                if answer.error_code in LEADER_IS_ELSEWHERE
            ),
        )

    def _count_errors(self, answers: list[tuple[FetchTarget, PartitionAnswer]]) -> None:
        api = self._context.services.metrics.api(self._context.api_key, "Fetch")
        for _, answer in answers:
            if answer.error_code:
                api.count_error(answer.error_code)

    # -- waiting ---------------------------------------------------------------------------------------------------

    def wait(self) -> PendingReply:
        services = self._context.services
        services.metrics.waiting_fetches += 1
        found = (services.partitions.find_partition(t.topic_key, t.partition) for t in self._targets)
        partitions: list[Partition] = [partition for partition in found if partition is not None]
        delayed = DelayedFetch(
            partitions,
            self._request.max_wait_ms,
            self._try_later,
            asyncio.get_running_loop(),
            is_follower=self._replica is not None,
        )

        def abandon() -> None:
            delayed.cancel()
            services.metrics.waiting_fetches -= 1

        self._reply.on_abandoned = abandon
        return self._reply

    def _try_later(self, is_last_chance: bool) -> bool:
        parts = self.try_once(is_last_chance)
        if parts is None:
            return False
        self._context.services.metrics.waiting_fetches -= 1
        self._reply.complete(parts)
        return True


def _known_replica(context: RequestContext, request: FetchRequest) -> FetchingReplica:
    """What a replica fetches counts as being on its disk: only the incarnation that is registered may say so."""
    node_id, epoch = request.replica_id, request.replica_epoch
    services = context.services
    broker = services.metadata.image.brokers.get(node_id)
    if request.cluster_id is not None and request.cluster_id != services.cluster_id:
        error = BrokerError(
            ErrorCode.INCONSISTENT_CLUSTER_ID, f"it is of cluster {request.cluster_id}, this is {services.cluster_id}"
        )
    elif broker is None:
        error = BrokerError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"no node {node_id} is registered")
    elif broker.epoch != epoch:
        error = BrokerError(
            ErrorCode.STALE_BROKER_EPOCH, f"it comes with broker epoch {epoch}, registered is {broker.epoch}"
        )
    else:
        return FetchingReplica(node_id, epoch)
    logger.warning_limited(
        "a replica's fetch is refused",
        limit_by=("peer",),
        node=node_id,
        peer=context.peer_host,
        reason=error.message,
    )
    raise error


def _targets_of(request: FetchRequest) -> list[FetchTarget]:
    return [
        FetchTarget(
            _topic_key(name, topic_id), index, offset, max_bytes, leader_epoch, last_fetched_epoch, log_start_offset
        )
        for name, topic_id, partitions in request.topics
        for index, leader_epoch, offset, last_fetched_epoch, log_start_offset, max_bytes in partitions
    ]


def _topic_key(name: str | None, topic_id: bytes | None) -> TopicKey:
    return name if name is not None else topic_id or ZERO_TOPIC_ID
