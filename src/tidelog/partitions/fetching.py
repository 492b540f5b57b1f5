"""Reads what consumers and followers fetch; when that is less than they want, waits for more until their deadline.

A fetch is tried at once, then again each time one of its partitions has news, and a last time when its wait is over.
Each try reads again, so a response never carries anything older than the moment it is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import ZERO_TOPIC_ID
from tidelog.net.later import Later
from tidelog.partitions.current_leaders import LEADER_IS_ELSEWHERE, leader_endpoints, leaders_elsewhere
from tidelog.partitions.delayed import DelayedFetch
from tidelog.partitions.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    FetchSession,
    FetchSessionCache,
    FetchTarget,
    TopicKey,
)
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
from tidelog.protocol.hot_fetch import FetchRequest
from tidelog.protocol.index import ApiKey
from tidelog.telemetry.logs import get_logger

if TYPE_CHECKING:
    from tidelog.config.broker import BrokerConfig
    from tidelog.metadata.publisher import MetadataPublisher
    from tidelog.partitions.table import PartitionTable
    from tidelog.protocol.hot_fetch import FetchedPartition
    from tidelog.protocol.wire import NodeEndpoint
    from tidelog.telemetry.metrics import NodeMetrics

logger = get_logger("tidelog.replication")

TOPIC_IDS_FROM_VERSION: Final = 13
FOLLOWER_READS_FROM_VERSION: Final = 11
"""Consumers that say where they stand may read from a follower."""

_FETCH: Final = int(ApiKey.FETCH)


class FetchResponse:
    __slots__ = ("current_leaders", "error_code", "node_endpoints", "preferred_read_replicas", "session_id", "topics")

    def __init__(
        self,
        error_code: int,
        session_id: int,
        topics: Sequence[tuple[TopicKey, Sequence[tuple[int, FetchedPartition]]]],
        current_leaders: Mapping[tuple[TopicKey, int], tuple[int, int]] | None = None,
        preferred_read_replicas: Mapping[tuple[TopicKey, int], int] | None = None,
        node_endpoints: Sequence[NodeEndpoint] = (),
    ) -> None:
        self.error_code = error_code
        self.session_id = session_id
        self.topics = topics
        self.current_leaders = current_leaders
        """Leader and epoch of partitions that are led elsewhere."""
        self.preferred_read_replicas = preferred_read_replicas
        self.node_endpoints = node_endpoints
        """Where the leaders are that are named."""


class Fetcher:
    """What the partitions have to know of the consumer or follower that fetches."""

    __slots__ = ("allows", "listener_name", "peer_host", "version")

    def __init__(
        self, version: int, peer_host: str, listener_name: str, allows: Callable[[TopicKey], bool] | None = None
    ) -> None:
        self.version = version
        """Of Fetch: what it understands."""
        self.peer_host = peer_host
        self.listener_name = listener_name
        self.allows = allows
        """Whether it may read the topic. None: it may read all of them."""


class Fetching:
    """The fetch service of a node's partitions."""

    __slots__ = ("clock_ms", "config", "metadata", "metrics", "now_ms", "sessions", "table")

    def __init__(
        self,
        table: PartitionTable,
        config: BrokerConfig,
        metadata: MetadataPublisher,
        metrics: NodeMetrics,
        now_ms: Callable[[], int],
        clock_ms: Callable[[], int],
    ) -> None:
        """`now_ms` is the time of day, `clock_ms` only moves forward."""
        self.table: Final = table
        self.config: Final = config
        self.metadata: Final = metadata
        self.metrics: Final = metrics
        self.now_ms: Final = now_ms
        self.clock_ms: Final = clock_ms
        self.sessions: Final = FetchSessionCache(config.max_incremental_fetch_session_cache_slots)

    def fetch(self, fetcher: Fetcher, request: FetchRequest) -> FetchResponse | Later[FetchResponse]:
        """Raises BrokerError when the session that the request names cannot be continued, or when it comes in the name
        of a replica that it is not from."""
        fetch = _Fetch(self, fetcher, request)
        response = fetch.try_once(is_last_chance=request.max_wait_ms <= 0)
        return response if response is not None else fetch.wait()


class _Fetch:
    """One fetch request on its way to a response."""

    __slots__ = (
        "_fetcher",
        "_is_incremental",
        "_is_new",
        "_later",
        "_max_bytes",
        "_min_bytes",
        "_replica",
        "_request",
        "_service",
        "_session",
        "_targets",
        "_uses_topic_ids",
    )

    def __init__(self, service: Fetching, fetcher: Fetcher, request: FetchRequest) -> None:
        self._service = service
        self._fetcher = fetcher
        self._request = request
        self._replica = _known_replica(service, fetcher, request) if request.replica_id >= 0 else None
        """None for a consumer."""
        self._uses_topic_ids = fetcher.version >= TOPIC_IDS_FROM_VERSION
        self._max_bytes = min(request.max_bytes, service.config.fetch_max_bytes)
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        """More than the response may carry is never waited for."""
        self._session: FetchSession | None = None
        self._is_incremental = False
        self._targets = self._open_session(_targets_of(request))
        self._later: Later[FetchResponse] | None = None
        """Made when the fetch has to wait."""
        self._is_new = True

    def _open_session(self, asked: list[FetchTarget]) -> list[FetchTarget]:
        """Everything this fetch is to read: what it names, and in an incremental fetch what its session remembers."""
        request = self._request
        sessions = self._service.sessions
        now_ms = self._service.now_ms()
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

    def try_once(self, is_last_chance: bool) -> FetchResponse | None:
        """The response, or None when the client would rather wait."""
        answers: list[tuple[FetchTarget, PartitionAnswer]] = []
        left_bytes = self._max_bytes
        found_bytes = 0
        must_answer = is_last_chance or not self._targets
        partitions = self._service.table
        find = partitions.find_partition
        isolation_level = self._request.isolation_level
        replica = self._replica
        allows = self._fetcher.allows
        first_read_ms = self._service.clock_ms() if replica is not None and self._is_new else None
        self._is_new = False
        for target in self._targets:
            partition = find(target.topic_key, target.partition)
            if allows is not None and not allows(target.topic_key):
                answer = refuse_partition(BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            elif partition is None:
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
        request, service = self._request, self._service
        if not partition.is_leader and self._fetcher.version < FOLLOWER_READS_FROM_VERSION:
            return refuse_partition(BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        if request.rack_id:
            nearest = preferred_read_replica(
                partition, request.rack_id, target.fetch_offset, service.config, service.metadata.image
            )
            if nearest is not None:
                answer = read_partition(partition, target, request.isolation_level, 0, False)
                answer.preferred_read_replica = nearest if not answer.error_code else -1
                return answer
        return read_partition(partition, target, request.isolation_level, max_bytes, min_one_batch)

    def _respond(self, answers: list[tuple[FetchTarget, PartitionAnswer]]) -> FetchResponse:
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
                is_news = target.must_include(
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
        session_id = session.session_id if session is not None else 0
        topics = list(by_topic.items())
        leaders = self._leaders_elsewhere(answers) if has_error else None
        if not leaders:
            return FetchResponse(0, session_id, topics, None, preferred)
        endpoints = leader_endpoints(self._service.metadata.image, leaders, self._fetcher.listener_name)
        return FetchResponse(0, session_id, topics, leaders, preferred, endpoints)

    def _leaders_elsewhere(
        self, answers: list[tuple[FetchTarget, PartitionAnswer]]
    ) -> dict[tuple[TopicKey, int], tuple[int, int]]:
        """The leaders of the partitions that this node does not lead, so that the client need not ask."""
        self._count_errors(answers)
        return leaders_elsewhere(
            self._service.metadata.image,
            (
                (target.topic_key, target.partition)
                for target, answer in answers
                if answer.error_code in LEADER_IS_ELSEWHERE
            ),
        )

    def _count_errors(self, answers: list[tuple[FetchTarget, PartitionAnswer]]) -> None:
        api = self._service.metrics.api(_FETCH, "Fetch")
        for _, answer in answers:
            if answer.error_code:
                api.count_error(answer.error_code)

    # -- waiting ---------------------------------------------------------------------------------------------------

    def wait(self) -> Later[FetchResponse]:
        metrics = self._service.metrics
        metrics.waiting_fetches += 1
        table = self._service.table
        found = (table.find_partition(t.topic_key, t.partition) for t in self._targets)
        partitions: list[Partition] = [partition for partition in found if partition is not None]
        later: Later[FetchResponse] = Later()
        self._later = later
        delayed = DelayedFetch(
            partitions,
            self._request.max_wait_ms,
            self._try_later,
            asyncio.get_running_loop(),
            is_follower=self._replica is not None,
        )

        def abandon() -> None:
            delayed.cancel()
            metrics.waiting_fetches -= 1

        later.on_abandoned = abandon
        return later

    def _try_later(self, is_last_chance: bool) -> bool:
        """Whether the fetch is over, with a response or with a fault of this node."""
        later = self._later
        assert later is not None, "only a fetch that waits is tried later"
        try:
            response = self.try_once(is_last_chance)
        except Exception as fault:
            self._service.metrics.waiting_fetches -= 1
            later.fail(fault)
            return True
        if response is None:
            return False
        self._service.metrics.waiting_fetches -= 1
        later.answer(response)
        return True


def _known_replica(service: Fetching, fetcher: Fetcher, request: FetchRequest) -> FetchingReplica:
    """What a replica fetches counts as being on its disk: only the incarnation that is registered may say so."""
    node_id, epoch = request.replica_id, request.replica_epoch
    image = service.metadata.image
    broker = image.brokers.get(node_id)
    if request.cluster_id is not None and request.cluster_id != image.cluster_id:
        error = BrokerError(
            ErrorCode.INCONSISTENT_CLUSTER_ID, f"it is of cluster {request.cluster_id}, this is {image.cluster_id}"
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
        peer=fetcher.peer_host,
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
