"""WriteTxnMarkers: no marker waits for another, and no answer for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidelog.api.context import RequestContext
from tidelog.api.handlers import write_txn_markers
from tidelog.coordination.log import Marker
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.protocol.generated.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

pytestmark = pytest.mark.anyio

STUCK, LATE, LOST, AT_ONCE, REFUSED = range(5)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Markers:
    """Partitions that take their markers in different ways."""

    def __init__(self) -> None:
        self.written: list[int] = []

    def write(self, _: Marker, partition: TopicPartition) -> Awaitable[None] | None:
        if partition.partition == REFUSED:
            raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.written.append(partition.partition)
        if partition.partition == AT_ONCE:
            return None
        commit: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if partition.partition == LATE:
            asyncio.get_running_loop().call_soon(commit.set_result, None)
        elif partition.partition == LOST:
            asyncio.get_running_loop().call_soon(commit.set_exception, BrokerError(ErrorCode.KAFKA_STORAGE_ERROR))
        return commit


async def test_each_partition_has_its_own_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_txn_markers, "COMMIT_SECONDS_MAX", 0.02)
    markers = Markers()
    services = cast(Any, SimpleNamespace(markers=markers))
    context = RequestContext(services, 27, 1, 1, "node", "10.0.0.1", "PLAINTEXT", None)
    topic = WritableTxnMarkerTopic(name="t", partition_indexes=[STUCK, LATE, LOST, AT_ONCE, REFUSED])
    request = WriteTxnMarkersRequest(markers=[WritableTxnMarker(producer_id=1, topics=[topic])])
    response = await write_txn_markers.handle(context, request)
    assert markers.written == [STUCK, LATE, LOST, AT_ONCE]
    answers = {result.partition_index: result.error_code for result in response.markers[0].topics[0].partitions}
    assert answers == {
        STUCK: ErrorCode.REQUEST_TIMED_OUT,
        LATE: ErrorCode.NONE,
        LOST: ErrorCode.KAFKA_STORAGE_ERROR,
        AT_ONCE: ErrorCode.NONE,
        REFUSED: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
