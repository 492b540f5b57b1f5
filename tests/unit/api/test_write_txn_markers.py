"""WriteTxnMarkers: no marker waits for another, and no answer for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, cast

import pytest
from tests.unit.api.answering import ask, services_of
from tests.unit.partitions.small_cluster import SmallCluster
from tests.waiting import eventually

from tidelog.api.handlers import write_txn_markers
from tidelog.coordination.log import Marker
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.protocol.generated.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
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
        if partition.partition == STUCK:
            self.stuck = commit
        if partition.partition == LATE:
            asyncio.get_running_loop().call_soon(commit.set_result, None)
        elif partition.partition == LOST:
            asyncio.get_running_loop().call_soon(commit.set_exception, BrokerError(ErrorCode.KAFKA_STORAGE_ERROR))
        return commit


def request_for(*indexes: int) -> WriteTxnMarkersRequest:
    topic = WritableTxnMarkerTopic(name="t", partition_indexes=list(indexes))
    return WriteTxnMarkersRequest(markers=[WritableTxnMarker(producer_id=1, topics=[topic])])


async def test_each_partition_has_its_own_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_txn_markers, "COMMIT_SECONDS_MAX", 0.02)
    markers = Markers()
    response = await ask(services_of(markers=markers), request_for(STUCK, LATE, LOST, AT_ONCE, REFUSED), 1)
    assert markers.written == [STUCK, LATE, LOST, AT_ONCE]
    answers = {result.partition_index: result.error_code for result in response.markers[0].topics[0].partitions}
    assert answers == {
        STUCK: ErrorCode.REQUEST_TIMED_OUT,
        LATE: ErrorCode.NONE,
        LOST: ErrorCode.KAFKA_STORAGE_ERROR,
        AT_ONCE: ErrorCode.NONE,
        REFUSED: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }


async def test_a_request_that_waits_holds_up_no_other_of_its_connection(tmp_path: Path) -> None:
    async with SmallCluster(tmp_path) as cluster:
        await cluster.start(1)
        broker = cluster.brokers[1]
        markers = Markers()
        cast(Any, broker.dispatcher.services).markers = markers
        waiting = asyncio.ensure_future(broker.client.call(request_for(STUCK), WriteTxnMarkersResponse))
        await eventually(lambda: markers.written == [STUCK], "the first is under way")
        other = asyncio.ensure_future(broker.client.call(request_for(AT_ONCE), WriteTxnMarkersResponse))
        await eventually(lambda: markers.written == [STUCK, AT_ONCE], "the second is written all the same")
        markers.stuck.set_result(None)
        await asyncio.gather(waiting, other)
