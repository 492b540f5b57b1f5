"""All partitions this node holds, by name and by topic id; follows the metadata image.

The table is the only place where logs are opened, created and deleted, so what is on disk and what the image says
cannot drift apart: each change of the image is carried out here before any other subscriber sees it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

from tidelog.config.topic import TopicConfig
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import ZERO_TOPIC_ID, TopicPartition
from tidelog.partitions.core.follower import FollowerState
from tidelog.partitions.core.leader import LeaderState
from tidelog.partitions.core.replica import ReplicaState
from tidelog.partitions.core.throttle import ReplicationThrottle, is_throttled
from tidelog.partitions.flushing import TimedExecutor
from tidelog.partitions.partition import Partition
from tidelog.runtime.clock import monotonic_ms
from tidelog.storage.errors import StorageFailure
from tidelog.storage.partition_metadata import read_partition_metadata
from tidelog.telemetry.logs import get_logger
from tidelog.telemetry.metrics import NodeMetrics, PartitionSample

if TYPE_CHECKING:
    from tidelog.config.broker import BrokerConfig
    from tidelog.metadata.delta import MetadataDelta
    from tidelog.metadata.image import MetadataImage, PartitionState, TopicImage
    from tidelog.partitions.partition import ReplicaShell
    from tidelog.storage.log import Log
    from tidelog.storage.log_directory import LogDirectory

logger = get_logger("tidelog.partitions")

PARTITIONS_BESIDE_MIN = 8
"""From this many new partitions on, their files are made in threads."""

TopicKey = str | bytes
"""A topic's name or its id; both lead to the same partitions."""


class PartitionTable:
    def __init__(
        self,
        *,
        config: BrokerConfig,
        directory: LogDirectory,
        metrics: NodeMetrics,
        workers: Executor,
        replication: ReplicaShell,
        clock_ms: Callable[[], int] = monotonic_ms,
    ) -> None:
        """`config` as the node was started with it; settings changed at run time come with the image. `clock_ms` never
        goes back."""
        self._config = config
        self._node_id = config.node_id
        self._directory = directory
        self._metrics = metrics
        self._workers = workers
        self._replication = replication
        self._clock_ms = clock_ms
        self._image: MetadataImage | None = None
        self._live_brokers: dict[int, int] = {}
        """Broker epoch of each node that may be in sync; every leader here looks at this one dictionary."""
        self._leader_throttle = ReplicationThrottle()
        self._follower_throttle = ReplicationThrottle()
        self._flush_executor = TimedExecutor(workers, asyncio.get_running_loop(), metrics.fsync)
        self._by_topic: dict[TopicKey, dict[int, Partition]] = {}
        """Every topic twice: under its name and under its id."""
        self._offline: dict[tuple[TopicKey, int], BrokerError] = {}
        """Partitions whose log could not be opened, and why; under name and id alike."""
        self._is_opening_beside = False
        """Threads work on the files of logs, of any partition."""

    @property
    def directory(self) -> LogDirectory:
        return self._directory

    # -- following the metadata ------------------------------------------------------------------------------------

    async def load(self, image: MetadataImage) -> None:
        """Opens the log of every replica the image gives this node."""
        self._image = image
        self._follow_brokers(image)
        config = image.broker_config(self._config)
        self._limit_rates(config)
        if not self._directory.clean_shutdown:
            # Every log has to be read and checked, which threads can do side by side.
            await self._open_logs_beside(
                [(topic, index) for topic in image.topics.values() for index in topic.partitions], config
            )
        for topic in image.topics.values():
            self._open_topic(topic, topic.partitions, config)
        strays = [found for found in self._directory.list_partitions() if found not in self._directory.logs]
        if len(strays) > 1:
            # One of them is the metadata log itself. Never deleted: they may hold data of a user.
            logger.warning("logs on disk that belong to no topic are left alone", count=len(strays) - 1)

    async def prepare(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Makes the files of many new partitions off the event loop, so that other clients need not wait for them."""
        added = [(topic, index) for topic in delta.topics.created.values() for index in topic.partitions]
        for name, indexes in delta.topics.partitions_changed.items():
            known = self._by_topic.get(name, {})
            added += [(image.topics[name], index) for index in indexes if index not in known]
        if len(added) >= PARTITIONS_BESIDE_MIN:
            await self._open_logs_beside(added, image.broker_config(self._config))

    async def _open_logs_beside(self, wanted: list[tuple[TopicImage, int]], config: BrokerConfig) -> None:
        """Opens logs in the worker threads; the table then finds them open. What fails, or lies under a name that had
        another topic, is left to its turn. The directory belongs to the loop: threads touch only the files."""
        openers: list[tuple[str, bytes, Callable[[], Log]]] = []
        configs: dict[str, TopicConfig] = {}
        for topic, index in wanted:
            if topic.name not in configs:
                configs[topic.name] = topic.effective_config(config)
            topic_partition = TopicPartition(topic.name, index)
            if self._node_id in topic.partitions[index].replicas and topic_partition not in self._directory.logs:
                opener = self._directory.opener(
                    topic_partition,
                    configs[topic.name],
                    topic_id=topic.topic_id,
                    producer_id_expiration_ms=self._config.producer_id_expiration_ms,
                )
                openers.append((str(self._directory.partition_path(topic_partition)), topic.topic_id, opener))

        def open_logs(share: list[tuple[str, bytes, Callable[[], Log]]]) -> list[Log]:
            opened = []
            for path, topic_id, opener in share:
                with contextlib.suppress(BrokerError, OSError):
                    if read_partition_metadata(path) in (None, topic_id):
                        opened.append(opener())
            return opened

        loop = asyncio.get_running_loop()
        threads = self._config.num_recovery_threads_per_data_dir
        shares = [openers[number::threads] for number in range(threads)]
        self._is_opening_beside = True
        try:
            opening = (loop.run_in_executor(self._workers, open_logs, each) for each in shares)
            for opened in await asyncio.gather(*opening):
                for log in opened:
                    self._directory.adopt(log)
        finally:
            self._is_opening_beside = False

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        self._image = image
        if delta.brokers.changed:
            self._follow_brokers(image)
        config = image.broker_config(self._config)
        for topic in delta.topics.deleted:
            self._delete_topic(topic)
        for topic in delta.topics.created.values():
            self._open_topic(topic, topic.partitions, config)
        for name, indexes in delta.topics.partitions_changed.items():
            changed = image.topics[name]
            self._open_topic(changed, {index: changed.partitions[index] for index in indexes}, config)
        if delta.configs.brokers_changed:
            self._limit_rates(config)
        reconfigured = image.topics if delta.configs.brokers_changed else delta.topics.configs_changed
        for name in reconfigured:
            topic_config = image.topics[name].effective_config(config)
            for partition in self._by_topic.get(name, {}).values():
                partition.config = topic_config
                self._throttle(partition)

    def _limit_rates(self, config: BrokerConfig) -> None:
        now_ms = self._clock_ms()
        self._leader_throttle.limit(config.leader_replication_throttled_rate, now_ms)
        self._follower_throttle.limit(config.follower_replication_throttled_rate, now_ms)

    def _throttle(self, partition: Partition) -> None:
        """Which of the two throttles hold for the partition on this node."""
        config, here = partition.config, (partition.index, self._node_id)
        sends = is_throttled(config.leader_replication_throttled_replicas, *here)
        fetches = is_throttled(config.follower_replication_throttled_replicas, *here)
        partition.leader_throttle = self._leader_throttle if sends else None
        partition.follower_throttle = self._follower_throttle if fetches else None

    def _follow_brokers(self, image: MetadataImage) -> None:
        """Nodes came, went, or were fenced: each leader decides which replicas the high watermark waits for."""
        live = {broker.node_id: broker.epoch for broker in image.active_brokers()}
        if live == self._live_brokers:
            return
        self._live_brokers.clear()
        self._live_brokers.update(live)
        now_ms = self._clock_ms()
        for partition in self:
            partition.recount(now_ms)

    def _open_topic(self, topic: TopicImage, states: dict[int, PartitionState], config: BrokerConfig) -> None:
        topic_config = topic.effective_config(config)
        for index, state in states.items():
            if self._node_id not in state.replicas:
                self._set_online(topic, index)
                self._leave(topic, index)
                continue
            try:
                self._become_replica(topic, index, state, topic_config)
            except (BrokerError, OSError) as error:
                failure = error if isinstance(error, BrokerError) else StorageFailure(str(error))
                failure.__cause__ = error.__cause__ if failure is error else error
                self._set_offline(topic, index, failure)
            else:
                self._set_online(topic, index)

    def _set_offline(self, topic: TopicImage, index: int, failure: BrokerError) -> None:
        if (topic.topic_id, index) not in self._offline:
            logger.error("partition is offline", partition=f"{topic.name}-{index}", reason=failure.message)
        self._offline[topic.name, index] = self._offline[topic.topic_id, index] = failure

    def _set_online(self, topic: TopicImage, index: int) -> None:
        if self._offline:
            for key in (topic.name, topic.topic_id):
                self._offline.pop((key, index), None)

    def open_refused(self) -> None:
        """Opens the logs for which there was no room: no later delta may name their partitions. Damaged logs stay
        offline."""
        image = self._image
        if not self._offline or image is None or self._is_opening_beside:
            return
        refused = [key for key, failure in self._offline.items() if _is_for_want_of_room(failure)]
        for name, index in refused:
            topic = image.topics.get(name) if isinstance(name, str) else None
            if topic is not None and index in topic.partitions:
                self._open_topic(topic, {index: topic.partitions[index]}, image.broker_config(self._config))

    def _become_replica(self, topic: TopicImage, index: int, state: PartitionState, config: TopicConfig) -> None:
        """Takes on a partition or a new role in one this node holds already."""
        by_index = self._by_topic.setdefault(topic.name, {})
        self._by_topic[topic.topic_id] = by_index
        known = by_index.get(index)
        if known is not None:
            self._change_role(known, state)
            return
        log = self._open_log(topic, index, config)
        checkpointed = self._directory.high_watermarks.get(log.topic_partition, log.log_start_offset)
        high_watermark = min(max(checkpointed, log.log_start_offset), log.log_end_offset)
        # What a restart finds in the log survived it: the node counts as holding all of it, unless all means synced.
        local_end = log.recovery_point if config.tidelog_flush == "ack" else log.log_end_offset
        by_index[index] = partition = Partition(
            topic=topic.name,
            index=index,
            topic_id=topic.topic_id,
            log=log,
            role=self._new_role(state, log, high_watermark, config, local_end),
            config=config,
            metrics=self._metrics.topic(topic.name),
            executor=self._flush_executor,
            shell=self._replication,
            clock_ms=self._clock_ms,
        )
        self._throttle(partition)
        if len(state.replicas) > 1:
            partition.take_role()
            self._replication.role_changed(partition)

    def _change_role(self, partition: Partition, state: PartitionState) -> None:
        role = partition.role
        if state.partition_epoch < role.partition_epoch:
            return
        is_same_leader = state.leader == role.leader_id and state.leader_epoch == role.leader_epoch
        if is_same_leader and partition.is_leader:
            partition.in_sync_changed(state.isr, state.partition_epoch, state.replicas, self._clock_ms())
        elif is_same_leader and isinstance(role, FollowerState):
            role.partition_epoch = state.partition_epoch
            role.is_in_sync = self._node_id in state.isr
        else:
            local_end = partition.log.log_end_offset if partition.is_synced else partition.log.recovery_point
            partition.change_role(
                self._new_role(state, partition.log, role.high_watermark, partition.config, local_end)
            )
            self._replication.role_changed(partition)

    def _new_role(
        self, state: PartitionState, log: Log, high_watermark: int, config: TopicConfig, local_end: int
    ) -> ReplicaState:
        if state.leader != self._node_id:
            return FollowerState(
                leader_id=state.leader,
                leader_epoch=state.leader_epoch,
                partition_epoch=state.partition_epoch,
                high_watermark=high_watermark,
                is_in_sync=self._node_id in state.isr,
            )
        return LeaderState(
            node_id=self._node_id,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            replicas=state.replicas,
            in_sync=state.isr,
            high_watermark=high_watermark,
            log_end_offset=log.log_end_offset,
            local_end_offset=local_end,
            live_brokers=self._live_brokers,
            min_in_sync=config.min_insync_replicas,
            lag_time_max_ms=self._config.replica_lag_time_max_ms,
            now_ms=self._clock_ms(),
        )

    def _leave(self, topic: TopicImage, index: int) -> None:
        """The partition was moved to other nodes: what is here goes."""
        partition = self._by_topic.get(topic.topic_id, {}).pop(index, None)
        if partition is None:
            return
        self._replication.partition_removed(partition)
        partition.retire(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._directory.delete_log(partition.topic_partition)
        logger.info("partition was moved to other nodes", partition=str(partition))

    def _open_log(self, topic: TopicImage, index: int, config: TopicConfig) -> Log:
        topic_partition = TopicPartition(topic.name, index)
        path = self._directory.partition_path(topic_partition)
        found_id = read_partition_metadata(str(path))
        if found_id is not None and found_id != topic.topic_id:
            # A topic of this name was deleted, and a crash came before its directory went.
            logger.warning("removing the log of a deleted topic of the same name", partition=topic_partition)
            self._directory.delete_log(topic_partition)
        return self._directory.open_log(
            topic_partition,
            config,
            topic_id=topic.topic_id,
            producer_id_expiration_ms=self._config.producer_id_expiration_ms,
        )

    def _delete_topic(self, topic: TopicImage) -> None:
        partitions = self._by_topic.pop(topic.topic_id, {})
        if self._by_topic.get(topic.name) is partitions:
            del self._by_topic[topic.name]
        for partition in partitions.values():
            self._replication.partition_removed(partition)
            partition.retire()
        self._offline = {
            key: error for key, error in self._offline.items() if key[0] not in (topic.name, topic.topic_id)
        }
        self._directory.delete_logs([TopicPartition(topic.name, index) for index in topic.partitions])
        self._metrics.forget_topic(topic.name)

    # -- finding ---------------------------------------------------------------------------------------------------

    def find_topic(self, name: str | None, topic_id: bytes | None) -> dict[int, Partition] | None:
        """The partitions of a topic named one way or the other."""
        return self._by_topic.get(name if name is not None else topic_id or ZERO_TOPIC_ID)

    def find_partition(self, topic_key: TopicKey, index: int) -> Partition | None:
        partitions = self._by_topic.get(topic_key)
        return None if partitions is None else partitions.get(index)

    def missing(self, topic_key: TopicKey, index: int) -> BrokerError:
        """Why `find_partition` found nothing."""
        failure = self._offline.get((topic_key, index))
        if failure is not None:
            return failure
        topics: Mapping[Any, TopicImage] = {}
        if self._image is not None:
            topics = self._image.topics if isinstance(topic_key, str) else self._image.topics_by_id
        topic = topics.get(topic_key)
        if topic is not None and index in topic.partitions:
            return BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if topic is None and isinstance(topic_key, bytes):
            return BrokerError(ErrorCode.UNKNOWN_TOPIC_ID)
        return BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def require(self, topic: str, index: int) -> Partition:
        """The partition, led by this node and fit to be used; BrokerError otherwise."""
        partition = self.find_partition(topic, index)
        if partition is None:
            raise self.missing(topic, index)
        if partition.failure is not None:
            raise partition.failure
        if not partition.is_leader:
            raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return partition

    def __iter__(self) -> Iterator[Partition]:
        for key, partitions in self._by_topic.items():
            if isinstance(key, str):
                yield from partitions.values()

    def __len__(self) -> int:
        return sum(len(partitions) for key, partitions in self._by_topic.items() if isinstance(key, str))

    @property
    def offline_count(self) -> int:
        """Partitions that cannot be served because their disk failed or their log is damaged."""
        unopened = sum(1 for key, _ in self._offline if isinstance(key, str))
        return unopened + sum(1 for partition in self if partition.failure is not None)

    # -- keeping ---------------------------------------------------------------------------------------------------

    def delete_records(self, partition: Partition, before_offset: int) -> int:
        """Moves the start of a log forward, so that it stays there after a crash; returns where it is now.

        StorageFailure when the disk has no room even for that: then segments below the new start go at once,
        and a second attempt finds room."""
        log = partition.log
        log.rearranger.delete_records_before(before_offset)
        try:
            self._directory.write_log_starts()
        except OSError as error:
            if log.log_start_offset == log.log_end_offset:
                with contextlib.suppress(StorageFailure):
                    log.writer.roll()
            log.rearranger.delete_old_segments(lambda _: True, log.log_start_offset)
            raise StorageFailure(f"the log of {partition} cannot note its new start: {error}") from error
        return log.log_start_offset

    def high_watermarks(self) -> dict[TopicPartition, int]:
        return {partition.topic_partition: partition.high_watermark for partition in self}

    def sample(self) -> Iterator[PartitionSample]:
        for partition in self:
            log = partition.log
            leader = partition.leader if partition.is_leader else None
            yield PartitionSample(
                topic=partition.topic,
                partition=partition.index,
                log_start_offset=log.log_start_offset,
                log_end_offset=log.log_end_offset,
                high_watermark=partition.high_watermark,
                size_bytes=log.size_bytes,
                segments=len(log.segments),
                is_leader=leader is not None,
                replicas=1 if leader is None else len(leader.replicas),
                in_sync_replicas=1 if leader is None else len(leader.in_sync),
                has_enough_in_sync=leader is None or leader.has_enough_in_sync,
            )


def _is_for_want_of_room(failure: BrokerError) -> bool:
    return isinstance(failure.__cause__, OSError) and failure.__cause__.errno in (errno.ENOSPC, errno.EDQUOT)
