"""Appending the batches of `tidelog.v1`: to one partition, or record by record to the partitions of their keys."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from tidelog.gateways.access import ACKS_ALL, ANSWER_SECONDS_SPARE
from tidelog.gateways.grpc.appending import ACKS_LEADER, BY_KEY, append, encode_batch, partition_count, partition_for
from tidelog.gateways.grpc.generated import tidelog_pb2
from tidelog.gateways.grpc.generated.tidelog_pb2 import Appended, ProduceResponse
from tidelog.gateways.grpc.log.batches import new_records
from tidelog.gateways.grpc.reaching import at_leader
from tidelog.gateways.grpc.status import invalid
from tidelog.gateways.grpc.typed_requests import ProduceRequest as LogProduceRequest
from tidelog.gateways.partitioner import partition_of_key
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import KAFKA_PRODUCER_ID_MAX
from tidelog.protocol.index import ApiKey
from tidelog.records.builder import build_batch

if TYPE_CHECKING:
    from tidelog.gateways.access import LogAccess
    from tidelog.gateways.grpc.generated.tidelog_pb2 import ProduceRequest
    from tidelog.gateways.grpc.typed_requests import ProduceResponse as LogProduceResponse
    from tidelog.records.builder import NewRecord

TIMEOUT_MS: Final = 30_000
TIMEOUT_MS_MAX: Final = 300_000
PRODUCE_BY_NAME: Final = 12
"""The last version that names topics. It adds the partition to the transaction by itself."""
CONCURRENT_PAUSES_S: Final = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
"""The transaction before is being ended."""


async def produce(access: LogAccess, request: ProduceRequest, now_ms: int) -> ProduceResponse:
    if not request.records:
        raise invalid("A batch must have at least one record.")
    if not 0 <= request.timeout_ms <= TIMEOUT_MS_MAX:
        raise invalid(f"timeout_ms is between 0 and {TIMEOUT_MS_MAX}.")
    timeout_ms = request.timeout_ms or TIMEOUT_MS
    acks = ACKS_LEADER if request.acks == tidelog_pb2.LEADER else ACKS_ALL
    topic = request.topic
    records = new_records(request.records, now_ms)
    if not request.HasField("partition"):
        if request.HasField("producer"):
            raise invalid("A batch of a producer names its partition: its sequence numbers are those of the partition.")
        return await _produce_by_key(access, request, records, acks, timeout_ms)
    partition = await partition_for(access, topic, request.partition, None)
    if partition == BY_KEY or request.partition < 0:
        raise invalid("A partition is not negative. Without one, each record goes to the partition of its key.")
    if request.HasField("producer"):
        appended = await _append_of_producer(access, request, records, acks, timeout_ms)
    else:
        found = await append(access, topic, partition, encode_batch(records), acks, timeout_ms)
        appended = Appended(
            partition=partition, base_offset=found.base_offset, log_append_time=found.log_append_time_ms
        )
    return ProduceResponse(number=request.number, appended=[appended])


async def _produce_by_key(
    access: LogAccess, request: ProduceRequest, records: list[NewRecord], acks: int, timeout_ms: int
) -> ProduceResponse:
    """The partitions are independent of each other: the first that refuses its part fails the call, and what others
    have appended stays."""
    topic = request.topic
    without_key = await partition_for(access, topic, BY_KEY, None)
    count = partition_count(access, topic)
    parts: dict[int, list[int]] = {}
    for place, record in enumerate(records):
        partition = without_key if record.key is None else await partition_of_key(record.key, count)
        parts.setdefault(partition, []).append(place)

    async def append_part(partition: int, places: list[int]) -> Appended:
        batch = encode_batch([records[place] for place in places])
        found = await append(access, topic, partition, batch, acks, timeout_ms)
        return Appended(
            partition=partition,
            base_offset=found.base_offset,
            log_append_time=found.log_append_time_ms,
            records=() if len(parts) == 1 else places,
        )

    answers = await asyncio.gather(
        *(append_part(partition, places) for partition, places in sorted(parts.items())), return_exceptions=True
    )
    appended = []
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
        appended.append(answer)
    return ProduceResponse(number=request.number, appended=appended)


async def _append_of_producer(
    access: LogAccess, request: ProduceRequest, records: list[NewRecord], acks: int, timeout_ms: int
) -> Any:
    producer = request.producer
    if (
        not 0 <= producer.producer_id <= KAFKA_PRODUCER_ID_MAX
        or not 0 <= producer.producer_epoch <= 32767
        or producer.sequence < 0
    ):
        raise invalid("A producer has the id and epoch that InitProducer gave it, and a sequence that is not negative.")
    transactional_id = producer.transactional_id or None
    batch = build_batch(
        records,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=producer.sequence,
        transactional=transactional_id is not None,
    )
    places = [(request.topic, None, [(request.partition, batch)])]

    async def ask(at: int | None) -> Appended:
        sent = LogProduceRequest(transactional_id, ACKS_ALL if transactional_id else acks, timeout_ms, places)  # type: ignore[arg-type]
        response: LogProduceResponse = await access.ask(
            int(ApiKey.PRODUCE),
            sent,
            version=PRODUCE_BY_NAME,
            timeout_s=timeout_ms / 1000 + ANSWER_SECONDS_SPARE,
            at=at,
        )
        result = response.topics[0][2][0]
        if result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            raise access.leader_elsewhere(request.topic, request.partition)
        if result.error_code:
            raise BrokerError(ErrorCode(result.error_code), result.error_message)
        return Appended(
            partition=request.partition, base_offset=result.base_offset, log_append_time=result.log_append_time_ms
        )

    pauses = iter(CONCURRENT_PAUSES_S)
    while True:
        try:
            # The sequence number tells a repetition from a new batch.
            return await at_leader(access, ask)
        except BrokerError as error:
            pause_s = next(pauses, None)
            if error.code != ErrorCode.CONCURRENT_TRANSACTIONS or pause_s is None:
                raise
        await asyncio.sleep(pause_s)
