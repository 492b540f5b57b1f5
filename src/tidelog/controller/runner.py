"""The controller at work: takes decisions one after the other, makes them durable, and only then lets them be seen.

`submit` calls a decide function with the current image, appends what it decides as one batch, syncs it (in a worker
thread: the loop goes on), replays it into the next image, publishes that, and returns the reply. So an acknowledged
change survives kill -9 and power loss, and whoever gets a reply finds it in the image.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tidelog.config.broker import BrokerConfig
from tidelog.controller.core.brokers import Registration, decide_new_leader_epochs, decide_register_broker
from tidelog.controller.core.configs import ResourceChange, ResourceOutcome, decide_alter_configs
from tidelog.controller.core.decision import Decision
from tidelog.controller.core.elections import ElectionOutcome, decide_elect_leaders
from tidelog.controller.core.internal_topics import internal_topic
from tidelog.controller.core.producer_ids import ProducerIdBlock, decide_producer_id_block
from tidelog.controller.core.topics import (
    NewPartitions,
    NewTopic,
    TopicOutcome,
    decide_create_partitions,
    decide_create_topics,
    decide_delete_topics,
)
from tidelog.controller.metadata_log import MetadataLog
from tidelog.metadata.image import Endpoint, MetadataImage, TopicImage
from tidelog.metadata.publisher import MetadataPublisher
from tidelog.metadata.replay import ImageBuilder
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.storage.errors import StorageFailure
from tidelog.telemetry.logs import get_logger

R = TypeVar("R")

RECORDS_FOR_SNAPSHOT_AT_STOP = 64
"""Fewer records behind the last snapshot are replayed faster than a snapshot is written."""

logger = get_logger("tidelog.controller")


class Controller:
    """`start` before anything else. All methods belong to the event loop."""

    def __init__(
        self,
        data_directory: Path,
        config: BrokerConfig,
        *,
        cluster_id: str,
        now_ms: Callable[[], int],
        executor: Executor | None = None,
    ) -> None:
        """`config` as the node was started with it. `executor` runs what waits for the disk; None is the loop's own."""
        self._config = config
        self._executor = executor
        self._now_ms = now_ms
        self._log = MetadataLog(data_directory, segment_bytes=config.metadata_log_segment_bytes, now_ms=now_ms)
        self.metadata = MetadataPublisher(MetadataImage(cluster_id=cluster_id, controller_id=config.node_id))
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._snapshot_task: asyncio.Task[None] | None = None
        self._snapshot_offset = -1
        self._snapshot_ms = 0
        self._epoch = 0
        self._refusal: BrokerError | None = BrokerError(ErrorCode.NOT_CONTROLLER, "The controller is not started.")

    @property
    def image(self) -> MetadataImage:
        return self.metadata.image

    # -- life --------------------------------------------------------------------------------------------------------

    async def start(self) -> MetadataImage:
        """Loads the metadata; DirectoryRefused when it cannot be read. Subscribers are not called: take the image."""
        node_id = self._config.node_id
        image = self._log.load(self.image.cluster_id, node_id)
        self._epoch = image.epoch + 1
        self._snapshot_offset = self._log.snapshots[-1].end_offset if self._log.snapshots else 0
        self._snapshot_ms = self._now_ms()
        self.metadata.image = image
        self._refusal = None
        return image

    async def stop(self) -> None:
        """Finishes what is being decided, leaves a snapshot when it pays, and closes the log."""
        if not self._log.is_open:
            return
        self._refusal = BrokerError(ErrorCode.NOT_CONTROLLER, "The controller is stopping.")
        async with self._turn:
            if self._snapshot_task is not None:
                await self._snapshot_task
            try:
                if self.image.next_offset - self._snapshot_offset >= RECORDS_FOR_SNAPSHOT_AT_STOP:
                    self._log.begin_snapshot()
                    await self._write_snapshot(self.image)
                self._log.close()
            except (OSError, BrokerError) as error:
                logger.warning("metadata was not closed cleanly", reason=str(error))

    # -- deciding ----------------------------------------------------------------------------------------------------

    async def submit(self, decide: Callable[[MetadataImage], Decision[R]]) -> R:
        """Runs one decision to its end even if the caller goes away; raises BrokerError with nothing changed."""
        task = asyncio.ensure_future(self._run(decide))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def _run(self, decide: Callable[[MetadataImage], Decision[R]]) -> R:
        async with self._turn:
            if self._refusal is not None:
                raise self._refusal
            image = self.image
            decision = decide(image)
            if decision.records:
                # Replay first: a decision that cannot be replayed must not reach the log.
                builder = ImageBuilder(image)
                for record in decision.records:
                    builder.replay(record)
                end_offset = self._log.append(decision.records, self._epoch)
                await self._sync(image.next_offset)
                image, delta = builder.finish(end_offset - 1, self._epoch)
                await self.metadata.prepare(image, delta)
                self.metadata.publish(image, delta)
                self._maybe_snapshot()
            return decision.reply

    async def _sync(self, previous_end: int) -> None:
        """The batch just appended is on disk after this, or it is cut off again and StorageFailure raised."""
        log = self._log.log
        flush = log.begin_flush()
        try:
            await self._in_worker(flush.sync)
        except StorageFailure as error:
            logger.error("metadata cannot be synced", reason=error.message)
            try:
                # Everything below was synced before, so the log is whole again without the batch nobody was told of.
                log.truncate_to(previous_end)
            except (OSError, BrokerError) as second:
                self._refusal = BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, f"The metadata log failed: {second}")
            raise
        log.finish_flush(flush)

    def _in_worker(self, function: Callable[[], R]) -> asyncio.Future[R]:
        return asyncio.get_running_loop().run_in_executor(self._executor, function)

    # -- snapshots ---------------------------------------------------------------------------------------------------

    def _maybe_snapshot(self) -> None:
        config = self._config
        interval_ms = config.metadata_log_max_snapshot_interval_ms
        is_due = self._log.bytes_since_snapshot >= config.metadata_log_max_record_bytes_between_snapshots or (
            interval_ms > 0 and self._now_ms() - self._snapshot_ms >= interval_ms
        )
        if is_due and self._snapshot_task is None:
            self._log.begin_snapshot()
            self._snapshot_task = asyncio.ensure_future(self._snapshot_beside(self.image))

    async def _snapshot_beside(self, image: MetadataImage) -> None:
        """The image does not change, so decisions go on while it is written."""
        try:
            await self._write_snapshot(image)
        except (OSError, BrokerError) as error:
            logger.warning("metadata snapshot failed", reason=str(error))
        finally:
            self._snapshot_task = None
            self._snapshot_ms = self._now_ms()

    async def _write_snapshot(self, image: MetadataImage) -> None:
        bytes_before = self._log.bytes_since_snapshot
        snapshot = await self._in_worker(partial(self._log.write_snapshot, image))
        self._log.adopt_snapshot(snapshot, self._log.bytes_since_snapshot - bytes_before)
        self._snapshot_offset = snapshot.end_offset
        logger.info("metadata snapshot", offset=snapshot.end_offset, topics=len(image.topics))

    # -- what others ask for -----------------------------------------------------------------------------------------

    async def register_broker(self, endpoints: Sequence[Endpoint], *, directory_id: bytes, after_crash: bool) -> int:
        """Makes the node known under these addresses; the reply is its broker epoch.

        After a crash the partitions it leads begin a new leader epoch.
        """
        config = self._config
        epoch = await self.submit(
            lambda image: decide_register_broker(
                image,
                config,
                Registration(
                    config.node_id, os.urandom(16), tuple(endpoints), (directory_id,), rack=config.broker_rack
                ),
                fenced=False,
            )
        )
        position = 0 if after_crash else -1
        while position >= 0:
            position = await self.submit(partial(_new_leader_epochs, config.node_id, position))
        return epoch

    def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> Coroutine[Any, Any, list[TopicOutcome]]:
        return self.submit(
            lambda image: decide_create_topics(
                image,
                image.broker_config(self._config),
                topics,
                new_topic_id=new_topic_id,
                validate_only=validate_only,
            )
        )

    def create_partitions(
        self, requests: Sequence[NewPartitions], *, validate_only: bool = False
    ) -> Coroutine[Any, Any, list[TopicOutcome]]:
        return self.submit(
            lambda image: decide_create_partitions(
                image, image.broker_config(self._config), requests, validate_only=validate_only
            )
        )

    def delete_topics(self, topics: Sequence[tuple[str | None, bytes]]) -> Coroutine[Any, Any, list[TopicOutcome]]:
        return self.submit(lambda image: decide_delete_topics(image, topics))

    def alter_configs(
        self, resources: Sequence[ResourceChange], *, validate_only: bool = False
    ) -> Coroutine[Any, Any, list[ResourceOutcome]]:
        return self.submit(
            lambda image: decide_alter_configs(image, self._config, resources, validate_only=validate_only)
        )

    def elect_leaders(
        self, election_type: int, partitions: Sequence[TopicPartition] | None
    ) -> Coroutine[Any, Any, list[ElectionOutcome]]:
        return self.submit(lambda image: decide_elect_leaders(image, election_type, partitions))

    def allocate_producer_ids(self) -> Coroutine[Any, Any, ProducerIdBlock]:
        return self.submit(lambda image: decide_producer_id_block(image, self._config.node_id))

    async def ensure_topics(self, names: Sequence[str]) -> dict[str, BrokerError]:
        """Creates those that are not there with the broker's defaults; which could not be, and why."""
        missing = [name for name in names if name not in self.image.topics]
        if not missing:
            return {}
        topics = [internal_topic(name, self._config, self.image) or NewTopic(name) for name in missing]
        outcomes = await self.create_topics(topics)
        topics_now = self.image.topics
        return {o.name: o.error for o in outcomes if o.name is not None and o.error and o.name not in topics_now}

    async def ensure_topic(self, name: str) -> TopicImage:
        """The topic, created when it is not there; BrokerError when it cannot be."""
        errors = await self.ensure_topics([name])
        topic = self.image.topics.get(name)
        if topic is None:
            raise errors.get(name) or BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic


def _new_leader_epochs(node_id: int, skip: int, image: MetadataImage) -> Decision[int]:
    return decide_new_leader_epochs(image, node_id, skip)


def new_topic_id() -> bytes:
    """Random; never one of the ids Kafka keeps for itself, and never with a dash in front when it is printed."""
    while True:
        topic_id = bytearray(os.urandom(16))
        topic_id[6] = topic_id[6] & 0x0F | 0x40
        topic_id[8] = topic_id[8] & 0x3F | 0x80
        if topic_id[0] >> 2 != 62:
            return bytes(topic_id)
