"""Appends what producers send: each batch is checked and written at once, and the answer waits only for acks=all.

Every way in ends here: the Kafka listener, other doors, and a transactional produce after its coordinator has answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import ZERO_TOPIC_ID, TopicPartition
from tidelog.net.later import Later
from tidelog.net.reply import CloseConnection
from tidelog.partitions.current_leaders import LEADER_IS_ELSEWHERE, leader_endpoints, leaders_elsewhere
from tidelog.partitions.delayed import DelayedProduce
from tidelog.partitions.partition import Partition
from tidelog.protocol.hot_produce import PartitionResult
from tidelog.protocol.index import ApiKey
from tidelog.records.batch import RejectedBatch
from tidelog.records.validation import RecordsRejected
from tidelog.telemetry.logs import get_logger

if TYPE_CHECKING:
    from tidelog.metadata.publisher import MetadataPublisher
    from tidelog.partitions.table import PartitionTable
    from tidelog.protocol.hot_produce import ProducedTopic, TopicResult
    from tidelog.protocol.wire import NodeEndpoint
    from tidelog.telemetry.metrics import NodeMetrics

logger = get_logger("tidelog.produce")

ADMIN_CLIENT_ID: Final = "__admin_client"
"""The one client id Kafka lets write to internal topics."""

ACKS_ALL: Final = -1
ACKS_NONE: Final = 0

_PRODUCE: Final = int(ApiKey.PRODUCE)

Refusals = Mapping[TopicPartition, BrokerError]
"""Partitions that may not be written to, and the error of each."""


class ProduceRequest:
    __slots__ = ("acks", "timeout_ms", "topics", "transactional_id")

    def __init__(self, transactional_id: str | None, acks: int, timeout_ms: int, topics: list[ProducedTopic]) -> None:
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topics = topics
        """By name, from version 13 on by topic id. Records may be slices of a buffer that is used again after the
        handler has returned: what is appended later is `detached` first."""

    def detached(self) -> ProduceRequest:
        """The same with records of its own."""
        topics: list[ProducedTopic] = [
            (name, topic_id, [(index, None if records is None else bytes(records)) for index, records in batches])
            for name, topic_id, batches in self.topics
        ]
        return ProduceRequest(self.transactional_id, self.acks, self.timeout_ms, topics)


class ProduceResponse:
    __slots__ = ("has_details", "node_endpoints", "topics")

    def __init__(
        self, topics: list[TopicResult], has_details: bool, node_endpoints: Sequence[NodeEndpoint] = ()
    ) -> None:
        self.topics = topics
        self.has_details = has_details
        """Whether there is more to tell than offsets and times."""
        self.node_endpoints = node_endpoints
        """Where the leaders are that the results name."""


class Producing:
    """The produce service of a node's partitions."""

    __slots__ = ("_metadata", "_metrics", "_now_ms", "_table")

    def __init__(
        self, table: PartitionTable, metadata: MetadataPublisher, metrics: NodeMetrics, now_ms: Callable[[], int]
    ) -> None:
        self._table = table
        self._metadata = metadata
        self._metrics = metrics
        self._now_ms = now_ms

    def append(
        self,
        request: ProduceRequest,
        refused: Refusals | None,
        version: int,
        client_id: str | None,
        listener_name: str,
    ) -> ProduceResponse | Later[ProduceResponse] | None:
        """`refused`: what a transaction or the authoriser does not allow. `version` of Produce is what the producer
        understands, `listener_name` the listener whose addresses it gets. None is returned for acks=0.

        Raises CloseConnection where a producer with acks=0 has to learn of an error.
        """
        table = self._table
        now_ms = self._now_ms()
        acks = request.acks
        has_error = False
        uncommitted: list[tuple[Partition, int, PartitionResult]] = []
        answer: list[TopicResult] = []
        for name, topic_id, batches in request.topics:
            partitions = table.find_topic(name, topic_id)
            results: list[PartitionResult] = []
            for index, records in batches:
                partition = None if partitions is None else partitions.get(index)
                try:
                    if partition is None:
                        if name is not None and refused and TopicPartition(name, index) in refused:
                            # Whether there is such a topic is not said.
                            raise refused[TopicPartition(name, index)]
                        raise table.missing(name if name is not None else topic_id or ZERO_TOPIC_ID, index)
                    if refused and partition.topic_partition in refused:
                        raise refused[partition.topic_partition]
                    if not -1 <= acks <= 1:
                        raise BrokerError(ErrorCode.INVALID_REQUIRED_ACKS)
                    if partition.is_internal and client_id != ADMIN_CLIENT_ID:
                        raise BrokerError(
                            ErrorCode.INVALID_TOPIC_EXCEPTION,
                            f"Clients may not write to the internal topic {partition.topic}.",
                        )
                    appended = partition.append(records, acks=acks, api_version=version, now_ms=now_ms)
                    result = PartitionResult(
                        index, 0, appended.base_offset, appended.log_append_time_ms, partition.log.log_start_offset
                    )
                    if acks == ACKS_ALL and partition.high_watermark <= appended.last_offset:
                        uncommitted.append((partition, appended.last_offset + 1, result))
                except BrokerError as error:
                    has_error = True
                    self._count(error.code)
                    result = _refusal(index, error, partition)
                results.append(result)
            answer.append((name, topic_id, results))
        if acks == ACKS_NONE:
            if has_error:
                raise _unanswerable()
            return None
        if uncommitted:
            return self._answer_when_committed(listener_name, answer, uncommitted, request.timeout_ms)
        if has_error:
            return self._with_leaders(listener_name, answer)
        return ProduceResponse(answer, False)

    def refuse(self, request: ProduceRequest, error: BrokerError) -> ProduceResponse:
        """Nothing is appended, not even where nothing is wrong."""
        self._count(error.code)
        if request.acks == ACKS_NONE:
            raise _unanswerable()
        answer: list[TopicResult] = [
            (name, topic_id, [_refusal(index, error, None) for index, _ in batches])
            for name, topic_id, batches in request.topics
        ]
        return ProduceResponse(answer, True)

    def _count(self, code: ErrorCode) -> None:
        self._metrics.api(_PRODUCE, "Produce").count_error(code)

    def _with_leaders(self, listener_name: str, answer: list[TopicResult]) -> ProduceResponse:
        """With the leaders of partitions that are led elsewhere: the producer need not ask for them."""
        elsewhere = {
            (name if name is not None else topic_id or ZERO_TOPIC_ID, result.index): result
            for name, topic_id, results in answer
            for result in results
            if result.error_code in LEADER_IS_ELSEWHERE
        }
        image = self._metadata.image
        leaders = leaders_elsewhere(image, elsewhere)
        for key, leader in leaders.items():
            elsewhere[key].current_leader = leader
        return ProduceResponse(answer, True, leader_endpoints(image, leaders, listener_name) if leaders else ())

    def _answer_when_committed(
        self,
        listener_name: str,
        answer: list[TopicResult],
        uncommitted: list[tuple[Partition, int, PartitionResult]],
        timeout_ms: int,
    ) -> Later[ProduceResponse]:
        """Answers when the high watermarks have passed what was appended, or the producer's patience has ended."""
        # The records are in the log already: later requests of the connection cannot change their order any more.
        later: Later[ProduceResponse] = Later(overlaps=True)
        metrics = self._metrics
        metrics.waiting_produces += 1
        waits: dict[Partition, int] = {}
        for partition, offset, _ in uncommitted:
            waits[partition] = max(waits.get(partition, 0), offset)

        def complete(failures: dict[Partition, BrokerError]) -> None:
            metrics.waiting_produces -= 1
            try:
                for partition, _, result in uncommitted:
                    error = failures.get(partition)
                    if error is not None:
                        result.error_code, result.error_message = error.code, error.message
                        result.base_offset = -1
                response = self._with_leaders(listener_name, answer) if failures else ProduceResponse(answer, False)
            except Exception as fault:
                later.fail(fault)
                return
            later.answer(response)

        DelayedProduce(waits, timeout_ms, complete, asyncio.get_running_loop())
        return later


def _unanswerable() -> CloseConnection:
    """The producer reads no answer: a closed connection is the only way to tell it of an error, and Kafka's."""
    return CloseConnection("error", "a produce with acks=0 could not be appended")


def _refusal(index: int, error: BrokerError, partition: Partition | None) -> PartitionResult:
    result = PartitionResult(index, error.code, error_message=error.message)
    if error.code == ErrorCode.KAFKA_STORAGE_ERROR:
        logger.warning_limited("a write failed", partition=str(partition), reason=error.message)
    if isinstance(error, RecordsRejected):
        result.record_errors = error.record_errors
    if partition is not None and isinstance(error, (RecordsRejected, RejectedBatch)):
        result.log_start_offset = partition.log.log_start_offset
    return result
