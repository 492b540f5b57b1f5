"""One partition's share of a fetch: what may be read, and what must be said besides the bytes.

A consumer reads what is committed, of the leader or of a follower near to it; a follower reads all there is, of the
leader only, and by asking for what follows tells what it has.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.partitions.fetch_session import FetchTarget
from tidelog.partitions.partition import Partition
from tidelog.storage.region import LogRegion

READ_COMMITTED: Final = 1

AbortedTransaction = tuple[int, int]
"""Producer id and first offset."""


class PartitionAnswer:
    """What a fetch response says about one partition."""

    __slots__ = (
        "aborted_transactions",
        "diverging_epoch",
        "error_code",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "partition",
        "preferred_read_replica",
        "region",
    )

    def __init__(self, error_code: int = 0, partition: Partition | None = None) -> None:
        self.error_code = error_code
        self.partition = partition
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.aborted_transactions: list[AbortedTransaction] | None = None
        """None unless the fetch is read_committed."""
        self.diverging_epoch: tuple[int, int] | None = None
        self.preferred_read_replica = -1
        """Where the consumer had better read; -1 for here."""
        self.region: LogRegion | None = None

    def count_bytes_out(self) -> None:
        """Called once the answer is really given: a fetch that waits reads several times."""
        if self.partition is not None and self.region is not None:
            self.partition.metrics.bytes_out += self.region.size


def refuse_partition(error: BrokerError) -> PartitionAnswer:
    """The answer for a partition this node does not hold."""
    answer = PartitionAnswer(error.code)
    answer.aborted_transactions = []
    return answer


def read_partition(
    partition: Partition, target: FetchTarget, isolation_level: int, max_bytes: int, min_one_batch: bool
) -> PartitionAnswer:
    """Never raises for what the peer asked: the error is part of the answer."""
    answer = PartitionAnswer(partition=partition)
    try:
        if partition.failure is not None:
            raise partition.failure
        partition.check_leader_epoch(target.current_leader_epoch)
        log = partition.log
        answer.high_watermark = partition.high_watermark
        answer.last_stable_offset = upper_offset = partition.last_stable_offset
        answer.log_start_offset = log.log_start_offset
        if isolation_level == READ_COMMITTED:
            answer.aborted_transactions = []
        else:
            upper_offset = answer.high_watermark
        if target.last_fetched_epoch >= 0:
            answer.diverging_epoch = _diverging_epoch(partition, target)
            if answer.diverging_epoch is not None:
                return answer
        region = partition.read(
            target.fetch_offset,
            min(max_bytes, target.max_bytes),
            upper_offset=upper_offset,
            min_one_batch=min_one_batch,
        )
        if region is not None and region.size:
            answer.region = region
            if isolation_level == READ_COMMITTED:
                answer.aborted_transactions = [
                    (aborted.producer_id, aborted.first_offset)
                    for aborted in log.reader.aborted_transactions(
                        target.fetch_offset, log.reader.upper_bound_offset(region)
                    )
                ]
    except BrokerError as error:
        answer.error_code = error.code
        answer.high_watermark = answer.last_stable_offset = answer.log_start_offset = -1
    return answer


class FetchingReplica(NamedTuple):
    """The follower that sends a fetch."""

    node_id: int
    broker_epoch: int


def read_for_follower(
    partition: Partition,
    target: FetchTarget,
    replica: FetchingReplica,
    max_bytes: int,
    min_one_batch: bool,
    now_ms: int | None,
) -> PartitionAnswer:
    """The same for another replica. `now_ms` (of a clock that never goes back) when the request was just read: where it
    fetches is noted then, and not again when a request that waited is tried once more."""
    answer = PartitionAnswer(partition=partition)
    try:
        if partition.failure is not None:
            raise partition.failure
        partition.check_leader_epoch(target.current_leader_epoch)
        leader = partition.leader
        log = partition.log
        if target.last_fetched_epoch >= 0:
            answer.diverging_epoch = _diverging_epoch(partition, target)
        if answer.diverging_epoch is None:
            throttle = None if replica.node_id in leader.in_sync else partition.leader_throttle
            if throttle is not None and throttle.is_exceeded(partition.clock_ms()):
                max_bytes, min_one_batch = 0, False
            region = partition.read(
                target.fetch_offset,
                min(max_bytes, target.max_bytes),
                upper_offset=log.log_end_offset,
                min_one_batch=min_one_batch,
            )
            if region is not None and region.size:
                answer.region = region
                if throttle is not None:
                    throttle.spend(region.size, partition.clock_ms())
            if now_ms is not None:
                partition.follower_fetched(
                    replica.node_id, replica.broker_epoch, target.fetch_offset, target.log_start_offset, now_ms
                )
        answer.high_watermark = leader.high_watermark
        answer.last_stable_offset = -1
        answer.log_start_offset = log.log_start_offset
    except BrokerError as error:
        answer.error_code = error.code
        answer.region = None
    return answer


def _diverging_epoch(partition: Partition, target: FetchTarget) -> tuple[int, int] | None:
    """Where the fetcher's log parts from this one: set when the epoch it last read ends before its fetch offset."""
    found = partition.log.reader.end_offset_for_epoch(target.last_fetched_epoch)
    if found is None:
        raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE)
    epoch, end_offset = found
    if epoch < target.last_fetched_epoch or end_offset < target.fetch_offset:
        return epoch, end_offset
    return None
