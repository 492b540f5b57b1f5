"""Waits until every replica that is alive has given up what was deleted at the leader."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tidelog.model.errors import BrokerError, ErrorCode

if TYPE_CHECKING:
    from tidelog.partitions.partition import Partition


def low_watermark(partition: Partition) -> int:
    """BrokerError when this node does not lead the partition any more."""
    if partition.failure is not None:
        raise partition.failure
    return partition.leader.low_watermark(partition.log.log_start_offset)


async def wait_for_low_watermark(partition: Partition, offset: int, timeout_s: float) -> int:
    """The low watermark once it has reached the offset; REQUEST_TIMED_OUT when it does not in time."""
    try:
        async with asyncio.timeout(timeout_s):
            while (reached := low_watermark(partition)) < offset:
                reported = asyncio.Event()
                partition.when_reported(reported.set)
                await reported.wait()
    except TimeoutError:
        raise BrokerError(ErrorCode.REQUEST_TIMED_OUT) from None
    return reached
