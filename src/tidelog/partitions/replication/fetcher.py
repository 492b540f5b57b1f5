"""Copies from one leader: one connection, one fetch at a time for all partitions this node follows there.

What comes is appended byte for byte before the next fetch says so; with `tidelog.flush=ack` it is synced first. A
partition that cannot go on (its leader has moved, its disk is full) rests for a while, longer each time, and does not
hold up the others.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import NamedTuple

from tidelog.config.broker import BrokerConfig
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.net.client.errors import RpcError
from tidelog.net.client.pipelined import RpcClient
from tidelog.partitions.core.fetch_requests import FetchPlan, FetchPosition, FollowerSession, PartitionKey
from tidelog.partitions.core.follower import FollowerState
from tidelog.partitions.partition import Partition
from tidelog.protocol.generated.fetch import FetchResponse, PartitionData
from tidelog.protocol.generated.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tidelog.protocol.hot_replica_fetch import REPLICA_FETCH_VERSION, encode_replica_fetch
from tidelog.protocol.index import ApiKey
from tidelog.runtime.tasks import BackgroundTasks
from tidelog.storage.errors import StorageFailure
from tidelog.telemetry.logs import get_logger

logger = get_logger("tidelog.replication")

BACKOFF_FIRST_MS = 20
"""The first rest after an error: a leader that has not heard of its election yet will in a moment."""
ANSWER_MS_MAX = 20
"""A fetch that takes longer waits at the leader for something to send."""
THROTTLED_MS = 100
"""How long a partition rests when throttled replicas have fetched too much."""
LATEST, EARLIEST = -1, -2


class FetcherIdentity(NamedTuple):
    """The node that fetches."""

    node_id: int
    broker_epoch: Callable[[], int]
    cluster_id: str


class _Followed:
    """One partition that is being copied."""

    __slots__ = ("backoff_ms", "not_before_ms", "partition", "role")

    def __init__(self, partition: Partition, role: FollowerState) -> None:
        self.partition = partition
        self.role = role
        self.backoff_ms = 0
        self.not_before_ms = 0

    @property
    def is_current(self) -> bool:
        """Whether the partition still plays the part this was made for."""
        return self.partition.role is self.role and self.partition.failure is None

    def position(self) -> FetchPosition:
        log = self.partition.log
        return FetchPosition(
            log.log_end_offset, log.log_start_offset, self.role.leader_epoch, log.leader_epochs.latest_epoch
        )

    def rest(self, backoff_max_ms: int) -> None:
        self.backoff_ms = min(max(BACKOFF_FIRST_MS, 2 * self.backoff_ms), max(backoff_max_ms, BACKOFF_FIRST_MS))
        self.not_before_ms = self.partition.clock_ms() + self.backoff_ms


class LeaderFetcher:
    def __init__(
        self,
        leader_id: int,
        client: RpcClient,
        identity: FetcherIdentity,
        config: BrokerConfig,
        clock_ms: Callable[[], int],
    ) -> None:
        """`clock_ms` never goes back."""
        self._leader_id = leader_id
        self._client = client
        self._identity = identity
        self._clock_ms = clock_ms
        self._config = config
        self._session = FollowerSession()
        self._followed: dict[PartitionKey, _Followed] = {}
        self._news = asyncio.Event()
        """Partitions came or went, or were synced."""
        self._backoff_ms = 0
        self._sent_ms: int | None = None
        """When the fetch that is under way was sent."""
        self._is_interrupted = False
        self._tasks = BackgroundTasks()

    def __len__(self) -> int:
        return len(self._followed)

    def add(self, partition: Partition, role: FollowerState) -> None:
        self._followed[partition.topic_id, partition.index] = _Followed(partition, role)
        self._news.set()
        if self._sent_ms is not None and not self._is_interrupted:
            # Writes with acks=all may be waiting for this partition: a fetch that waits for others is given up.
            self._is_interrupted = True
            delay_ms = max(0, self._sent_ms + ANSWER_MS_MAX - self._clock_ms())
            asyncio.get_running_loop().call_later(delay_ms / 1000, self._interrupt, self._sent_ms)

    def _interrupt(self, sent_ms: int) -> None:
        if self._sent_ms == sent_ms:
            self._client.hang_up()

    def remove(self, partition: Partition) -> None:
        if self._followed.pop((partition.topic_id, partition.index), None) is not None:
            # The others may be waiting for a sync of this one.
            self._news.set()

    def wake(self) -> None:
        self._news.set()

    def start(self) -> None:
        if not self._tasks:
            self._tasks.start(self._run(), "fetcher")

    async def stop(self) -> None:
        await self._tasks.close()

    # -- the loop ------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            try:
                await self._round()
            except Exception:
                logger.exception_limited("a fetch from the leader failed", limit_by=("leader",), leader=self._leader_id)
                self._session.restart()
                await self._rest()

    async def _round(self) -> None:
        """One fetch and what follows from it."""
        self._news.clear()
        wanted = self._wanted()
        if not wanted:
            await self._wait_for_news()
            return
        plan = self._session.plan(wanted)
        request = self._encode(plan)
        self._sent_ms = self._clock_ms()
        try:
            frame, position = await self._client.call_encoded(
                ApiKey.FETCH, REPLICA_FETCH_VERSION, request, timeout_s=self._timeout_s
            )
            response, _ = FetchResponse.decode(frame, position, REPLICA_FETCH_VERSION)
        except (RpcError, BrokerError) as error:
            self._session.restart()
            if not self._is_interrupted:
                if not self._backoff_ms:
                    logger.warning("cannot fetch from the leader", leader=self._leader_id, reason=str(error))
                await self._rest()
            return
        finally:
            self._sent_ms = None
            self._is_interrupted = False
        if response.error_code:
            # Of the session as a whole: begin a new one.
            self._session.restart()
            if response.error_code not in (
                ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
            ):
                if not self._backoff_ms:
                    reason = ErrorCode(response.error_code).message
                    logger.warning("the leader refuses to be fetched from", leader=self._leader_id, reason=reason)
                await self._rest()
            return
        self._backoff_ms = 0
        self._session.answered(response.session_id)
        await self._take(response, wanted)

    @property
    def _timeout_s(self) -> float:
        config = self._config
        return (config.replica_socket_timeout_ms + config.replica_fetch_wait_max_ms) / 1000

    def _wanted(self) -> dict[PartitionKey, FetchPosition]:
        now_ms = self._clock_ms()
        wanted: dict[PartitionKey, FetchPosition] = {}
        for key, followed in self._followed.items():
            if followed.not_before_ms > now_ms or not followed.is_current or not followed.partition.is_synced:
                continue
            throttle = followed.partition.follower_throttle
            if throttle is not None and not followed.role.is_in_sync and throttle.is_exceeded(now_ms):
                followed.not_before_ms = now_ms + THROTTLED_MS
            else:
                wanted[key] = followed.position()
        return wanted

    async def _wait_for_news(self) -> None:
        """Until a partition comes or is synced, or the first rest is over."""
        resting = [
            followed.not_before_ms
            for followed in self._followed.values()
            if followed.is_current and followed.partition.is_synced
        ]
        timeout_s = max(1, min(resting) - self._clock_ms()) / 1000 if resting else None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._news.wait()

    async def _rest(self) -> None:
        """The leader cannot be reached, or did not understand."""
        backoff_max_ms = max(self._config.replica_fetch_backoff_ms, BACKOFF_FIRST_MS)
        self._backoff_ms = min(max(BACKOFF_FIRST_MS, 2 * self._backoff_ms), backoff_max_ms)
        await asyncio.sleep(self._backoff_ms / 1000)

    def _encode(self, plan: FetchPlan) -> bytes:
        config = self._config
        return encode_replica_fetch(
            node_id=self._identity.node_id,
            broker_epoch=self._identity.broker_epoch(),
            cluster_id=self._identity.cluster_id,
            max_wait_ms=config.replica_fetch_wait_max_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            partition_max_bytes=config.replica_fetch_max_bytes,
            session_id=plan.session_id,
            session_epoch=plan.session_epoch,
            named=plan.named,
            forgotten=plan.forgotten,
        )

    # -- what came -----------------------------------------------------------------------------------------------------

    async def _take(self, response: FetchResponse, asked: dict[PartitionKey, FetchPosition]) -> None:
        lost: list[_Followed] = []
        unsynced: list[_Followed] = []
        for topic in response.responses:
            for data in topic.partitions:
                key = (topic.topic_id, data.partition_index)
                followed = self._followed.get(key)
                if followed is None or not followed.is_current or asked.get(key) != followed.position():
                    continue
                if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    lost.append(followed)
                else:
                    self._take_partition(followed, data)
                    if not followed.partition.is_synced:
                        unsynced.append(followed)
        for followed in lost:
            await self._find_way_back(followed)
        while any(followed.is_current and not followed.partition.is_synced for followed in unsynced):
            self._news.clear()
            await self._news.wait()

    def _take_partition(self, followed: _Followed, data: PartitionData) -> None:
        partition, role = followed.partition, followed.role
        if data.error_code:
            self._refused(followed, data.error_code)
            return
        try:
            if data.diverging_epoch.epoch >= 0 or data.diverging_epoch.end_offset >= 0:
                self._truncate(followed, data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
            else:
                records = b"" if data.records is None else data.records
                partition.append_fetched(records, role, data.high_watermark, data.log_start_offset)
                if partition.follower_throttle is not None and not role.is_in_sync:
                    partition.follower_throttle.spend(len(records), self._clock_ms())
        except (BrokerError, StorageFailure) as error:
            if not followed.backoff_ms:
                logger.error("cannot append what was fetched", partition=str(partition), reason=error.message)
            followed.rest(self._config.replica_fetch_backoff_ms)
            return
        followed.backoff_ms = 0

    def _truncate(self, followed: _Followed, leader_epoch: int, leader_end_offset: int) -> None:
        partition = followed.partition
        end_before, committed = partition.log.log_end_offset, partition.high_watermark
        end = partition.truncate_diverging(followed.role, leader_epoch, leader_end_offset)
        if end < committed:
            logger.error(
                "the leader lacks committed records; they were cut", partition=str(partition), end=end, was=committed
            )
        elif end < end_before:
            logger.info("records the leader does not have were cut", partition=str(partition), end=end, was=end_before)

    def _refused(self, followed: _Followed, error_code: int) -> None:
        if not followed.backoff_ms:
            logger.info_limited(
                "the leader refuses a fetch",
                limit_by=("leader", "reason"),
                partition=str(followed.partition),
                leader=self._leader_id,
                reason=ErrorCode(error_code).name,
            )
        followed.rest(self._config.replica_fetch_backoff_ms)

    async def _find_way_back(self, followed: _Followed) -> None:
        """The leader has nothing at the end of this log: it was cut, or it begins later than this one ends."""
        partition, role = followed.partition, followed.role
        try:
            leader_end = await self._leader_offset(followed, LATEST)
            leader_start = await self._leader_offset(followed, EARLIEST)
            end = partition.log.log_end_offset
            if not followed.is_current:
                return
            if leader_end < end:
                partition.restart_at(role, leader_end, keep_below=True)
                logger.warning(
                    "the leader's log ends earlier; cut to it", partition=str(partition), end=leader_end, was=end
                )
            elif leader_start > end:
                partition.restart_at(role, leader_start, keep_below=False)
                logger.info(
                    "the leader's log begins later; starting again there", partition=str(partition), start=leader_start
                )
            else:
                followed.rest(self._config.replica_fetch_backoff_ms)
        except (RpcError, BrokerError) as error:
            logger.warning_limited(
                "cannot find where to go on", limit_by=("partition",), partition=str(partition), reason=str(error)
            )
            followed.rest(self._config.replica_fetch_backoff_ms)

    async def _leader_offset(self, followed: _Followed, timestamp: int) -> int:
        partition = followed.partition
        asked = ListOffsetsPartition(
            partition_index=partition.index,
            current_leader_epoch=followed.role.leader_epoch,
            timestamp=timestamp,
        )
        response = await self._client.call(
            ListOffsetsRequest(
                replica_id=self._identity.node_id,
                topics=[ListOffsetsTopic(name=partition.topic, partitions=[asked])],
            ),
            ListOffsetsResponse,
            timeout_s=self._timeout_s,
        )
        for topic in response.topics:
            for found in topic.partitions:
                if found.error_code:
                    raise BrokerError(ErrorCode(found.error_code))
                return found.offset
        raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, "The leader did not answer for the partition.")
