"""Appends the records of one request to their partitions, and says for each record how it went."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.gateways.access import LeaderElsewhere
from tidelog.gateways.http.proxy.errors import PARTITION_NOT_FOUND, ProxyError
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.records.builder import build_batch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tidelog.gateways.access import Appended, LogAccess
    from tidelog.metadata.topics import TopicImage
    from tidelog.records.builder import NewRecord

BATCH_BYTES: Final = 256 * 1024
"""About how much of keys and values goes into one batch; a topic that takes less gets less."""

_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
_ABOUT_ALL: Final = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
"""Errors that are the same for every record."""


class RecordOutcome(NamedTuple):
    offset: int
    """-1 where the record is not in the log."""
    error: BrokerError | None = None
    append_time_ms: int = -1
    """-1 where the record keeps the time of its producer."""


async def find_topic_to_write(access: LogAccess, name: str) -> TopicImage:
    """Creates the topic where it is missing and the cluster allows it. Raises BrokerError where there is none."""
    await access.ensure_topic(name)
    topic = access.image.topics.get(name)
    if topic is None:
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {name[:300]}.")
    return topic


def check_partition(topic: TopicImage, index: int) -> None:
    if index not in topic.partitions:
        raise ProxyError(
            PARTITION_NOT_FOUND, f"There is no partition {index} of {topic.name}: it has {len(topic.partitions)}."
        )


async def append(
    access: LogAccess, topic: str, by_partition: Mapping[int, Sequence[NewRecord]]
) -> dict[int, list[RecordOutcome]]:
    """Outcomes by partition, in the order of the records. Raises BrokerError for what is the same for all of them."""
    answers = await asyncio.gather(
        *(_append_to_partition(access, topic, index, records) for index, records in by_partition.items())
    )
    outcomes = dict(zip(by_partition, answers, strict=True))
    for of_partition in outcomes.values():
        error = of_partition[0].error
        if error is not None and error.code in _ABOUT_ALL:
            raise error
    return outcomes


async def _append_to_partition(
    access: LogAccess, topic: str, index: int, records: Sequence[NewRecord]
) -> list[RecordOutcome]:
    """In their order: behind a record that the partition could not take now, none is appended. One that it will never
    take, because it is too large, keeps no other back."""
    waiting = deque(_portions(records))
    outcomes: list[RecordOutcome] = []
    while waiting:
        portion = waiting.popleft()
        try:
            appended = await _append_batch(access, topic, index, portion)
        except BrokerError as error:
            if error.code in _TOO_LARGE and len(portion) > 1:
                middle = len(portion) // 2
                waiting.extendleft((portion[middle:], portion[:middle]))
                continue
            refused = portion if error.code in _TOO_LARGE else [*portion, *(r for rest in waiting for r in rest)]
            outcomes += [RecordOutcome(-1, error)] * len(refused)
            if refused is not portion:
                break
        else:
            outcomes += [
                RecordOutcome(appended.base_offset + number, None, appended.log_append_time_ms)
                for number in range(len(portion))
            ]
    return outcomes


async def _append_batch(access: LogAccess, topic: str, index: int, records: Sequence[NewRecord]) -> Appended:
    batch = build_batch(records)
    try:
        return await access.produce(topic, index, batch)
    except LeaderElsewhere as elsewhere:
        # Clients of the proxy do not expect to be sent elsewhere.
        if elsewhere.leader is None:
            raise
        return await access.produce(topic, index, batch, at=elsewhere.leader)


def _portions(records: Sequence[NewRecord]) -> Iterator[Sequence[NewRecord]]:
    start = size = 0
    for position, record in enumerate(records):
        size += len(record.key or b"") + len(record.value or b"")
        if size > BATCH_BYTES and position > start:
            yield records[start:position]
            start, size = position, len(record.key or b"") + len(record.value or b"")
    yield records[start:]
