"""Produce: each batch is checked and appended at once; the reply waits only when acks=all has to."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final

from tidelog.api.context import RequestContext
from tidelog.api.current_leaders import LEADER_IS_ELSEWHERE, leader_endpoints, leaders_elsewhere
from tidelog.api.transactional_writes import check_produce, has_transactional_batch
from tidelog.codec.buffers import Buffer
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import ZERO_TOPIC_ID
from tidelog.net.reply import Buffers, CloseConnection, PendingReply
from tidelog.partitions.delayed import DelayedProduce
from tidelog.partitions.partition import Partition
from tidelog.protocol.hot_produce import PartitionResult, decode_produce, encode_appended, encode_produce_response
from tidelog.records.batch import RejectedBatch
from tidelog.records.validation import RecordsRejected
from tidelog.telemetry.logs import get_logger

if TYPE_CHECKING:
    from tidelog.api.transactional_writes import Refusals
    from tidelog.protocol.hot_produce import ProducedTopic, TopicResult

logger = get_logger("tidelog.produce")

ADMIN_CLIENT_ID: Final = "__admin_client"
"""The one client id Kafka lets write to internal topics."""

_going_on: set[asyncio.Task[None]] = set()
"""Produces that wait for the transaction coordinator; the loop itself holds tasks only weakly."""


def handle_frame(context: RequestContext, frame: Buffer, position: int) -> bytes | Buffers | PendingReply | None:
    transactional_id, acks, timeout_ms, topics = decode_produce(frame, position, context.version)
    if transactional_id is None:
        if has_transactional_batch(topics):
            return _refuse_all(context, acks, topics, BrokerError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
        return _append(context, acks, timeout_ms, topics, None)
    refused = check_produce(context, transactional_id, topics)
    if isinstance(refused, Coroutine):
        return _append_when_added(context, bytes(frame[position:]), refused)
    return _append(context, acks, timeout_ms, topics, refused)


def _append(
    context: RequestContext, acks: int, timeout_ms: int, topics: Sequence[ProducedTopic], refused: Refusals | None
) -> bytes | Buffers | PendingReply | None:
    """`refused`: what a transaction does not allow; None outside of transactions."""
    version = context.version
    services = context.services
    now_ms = services.now_ms()
    table = services.partitions
    has_error = False
    uncommitted: list[tuple[Partition, int, PartitionResult]] = []
    answer: list[TopicResult] = []
    for name, topic_id, batches in topics:
        partitions = table.find_topic(name, topic_id)
        results: list[PartitionResult] = []
        for index, records in batches:
            partition = None if partitions is None else partitions.get(index)
            try:
                if partition is None:
                    raise table.missing(name if name is not None else topic_id or ZERO_TOPIC_ID, index)
                if not -1 <= acks <= 1:
                    raise BrokerError(ErrorCode.INVALID_REQUIRED_ACKS)
                if partition.is_internal and context.client_id != ADMIN_CLIENT_ID:
                    raise BrokerError(
                        ErrorCode.INVALID_TOPIC_EXCEPTION,
                        f"Clients may not write to the internal topic {partition.topic}.",
                    )
                if refused and partition.topic_partition in refused:
                    raise refused[partition.topic_partition]
                appended = partition.append(records, acks=acks, api_version=version, now_ms=now_ms)
                result = PartitionResult(
                    index, 0, appended.base_offset, appended.log_append_time_ms, partition.log.log_start_offset
                )
                if acks == -1 and partition.high_watermark <= appended.last_offset:
                    uncommitted.append((partition, appended.last_offset + 1, result))
            except BrokerError as error:
                has_error = True
                services.metrics.api(context.api_key, "Produce").count_error(error.code)
                result = _refusal(index, error, partition)
            results.append(result)
        answer.append((name, topic_id, results))
    if acks == 0:
        if has_error:
            raise _unanswerable()
        return None
    if uncommitted:
        return _reply_when_committed(context, answer, uncommitted, timeout_ms)
    if has_error:
        return [_encode_with_leaders(context, answer)]
    return encode_appended(version, answer)


def _encode_with_leaders(context: RequestContext, answer: list[TopicResult]) -> bytearray:
    """The response, with the leaders of partitions that are led elsewhere: the producer need not ask for them."""
    elsewhere = {
        (name if name is not None else topic_id or ZERO_TOPIC_ID, result.index): result
        for name, topic_id, results in answer
        for result in results
        if result.error_code in LEADER_IS_ELSEWHERE
    }
    leaders = leaders_elsewhere(context, elsewhere)
    for key, leader in leaders.items():
        elsewhere[key].current_leader = leader
    endpoints = leader_endpoints(context, leaders) if leaders else ()
    return encode_produce_response(context.version, answer, node_endpoints=endpoints)


def _refuse_all(context: RequestContext, acks: int, topics: Sequence[ProducedTopic], error: BrokerError) -> Buffers:
    """Nothing is appended, not even where nothing is wrong."""
    context.services.metrics.api(context.api_key, "Produce").count_error(error.code)
    if acks == 0:
        raise _unanswerable()
    answer: list[TopicResult] = [
        (name, topic_id, [_refusal(index, error, None) for index, _ in batches]) for name, topic_id, batches in topics
    ]
    return [encode_produce_response(context.version, answer)]


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


def _append_when_added(context: RequestContext, body: bytes, refused: Coroutine[Any, Any, Refusals]) -> PendingReply:
    """Appends when the transaction coordinator has answered; later requests of the connection wait so long."""
    reply = PendingReply()

    async def go_on() -> None:
        try:
            # From the coordinator's answer to the append nothing else runs: what it allows is still allowed.
            allowed = await refused
            _, acks, timeout_ms, topics = decode_produce(body, 0, context.version)
            result = _append(context, acks, timeout_ms, topics, allowed)
        except CloseConnection as close:
            assert context.connection is not None, "produce requests are not forwarded"
            context.connection.close(close.reason, close.detail)
            return
        if isinstance(result, PendingReply):
            result.on_done(lambda done: reply.complete(done.buffers))
        else:
            reply.complete([result] if isinstance(result, bytes) else result)

    task = asyncio.ensure_future(go_on())
    _going_on.add(task)
    task.add_done_callback(_going_on.discard)
    return reply


def _reply_when_committed(
    context: RequestContext,
    answer: list[TopicResult],
    uncommitted: list[tuple[Partition, int, PartitionResult]],
    timeout_ms: int,
) -> PendingReply:
    """Answers when the high watermarks have passed what was appended, or the producer's patience has ended."""
    reply = PendingReply(overlaps=True)
    metrics = context.services.metrics
    metrics.waiting_produces += 1
    waits: dict[Partition, int] = {}
    for partition, offset, _ in uncommitted:
        waits[partition] = max(waits.get(partition, 0), offset)

    def complete(failures: dict[Partition, BrokerError]) -> None:
        metrics.waiting_produces -= 1
        for partition, _, result in uncommitted:
            error = failures.get(partition)
            if error is not None:
                result.error_code, result.error_message = error.code, error.message
                result.base_offset = -1
        if failures:
            reply.complete([_encode_with_leaders(context, answer)])
        else:
            reply.complete([encode_produce_response(context.version, answer)])

    DelayedProduce(waits, timeout_ms, complete, asyncio.get_running_loop())
    return reply
