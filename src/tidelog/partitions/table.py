"""All partitions this node holds, by name and by topic id; follows the metadata image.

The table is the only place where logs are opened, created and deleted, so what is on disk and what the image says
cannot drift apart: each change of the image is carried out here before anyone is told that it happened.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import ZERO_TOPIC_ID
from tidelog.partitions.partition import Partition, RequestFlush
from tidelog.telemetry.logs import get_logger
from tidelog.telemetry.metrics import NodeMetrics, PartitionSample

if TYPE_CHECKING:
    from tidelog.config.broker import BrokerConfig
    from tidelog.storage.log_directory import LogDirectory

logger = get_logger("tidelog.partitions")

TopicKey = str | bytes
"""A topic's name or its id; both lead to the same partitions."""


class PartitionTable:
    def __init__(
        self,
        *,
        node_id: int,
        directory: LogDirectory,
        config: BrokerConfig,
        metrics: NodeMetrics,
        request_flush: RequestFlush,
    ) -> None:
        self._node_id = node_id
        self._directory = directory
        self._config = config
        self._metrics = metrics
        self._request_flush = request_flush
        self._by_topic: dict[TopicKey, dict[int, Partition]] = {}
        """Every topic twice: under its name and under its id."""

    @property
    def directory_path(self) -> Path:
        return self._directory.path

    # -- finding ---------------------------------------------------------------------------------------------------

    def find_topic(self, name: str | None, topic_id: bytes | None) -> dict[int, Partition] | None:
        """The partitions of a topic named one way or the other."""
        return self._by_topic.get(name if name is not None else topic_id or ZERO_TOPIC_ID)

    def find_partition(self, topic_key: TopicKey, index: int) -> Partition | None:
        partitions = self._by_topic.get(topic_key)
        return None if partitions is None else partitions.get(index)

    def knows(self, topic_key: TopicKey) -> bool:
        return topic_key in self._by_topic

    def get(self, topic: str, index: int) -> Partition | None:
        return self.find_partition(topic, index)

    def require(self, topic: str, index: int) -> Partition:
        partition = self.find_partition(topic, index)
        if partition is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if partition.failure is not None:
            raise partition.failure
        return partition

    def __iter__(self) -> Iterator[Partition]:
        for key, partitions in self._by_topic.items():
            if isinstance(key, str):
                yield from partitions.values()

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def sample(self) -> Iterator[PartitionSample]:
        for partition in self:
            log = partition.log
            yield PartitionSample(
                topic=partition.topic,
                partition=partition.index,
                log_start_offset=log.log_start_offset,
                log_end_offset=log.log_end_offset,
                high_watermark=partition.high_watermark,
                size_bytes=log.size_bytes,
                segments=len(log.segments),
            )
