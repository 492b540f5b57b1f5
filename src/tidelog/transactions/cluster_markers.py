"""Markers for partitions wherever their leaders are: this node's own at once, those of others over the network.

What goes to one node in one turn of the loop goes in one request. A marker that cannot be delivered fails, and the
completion of its transaction tries again, by then perhaps with another leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from tidelog.coordination.log import Marker
from tidelog.metadata.image import NO_LEADER
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.net.client.errors import RpcError
from tidelog.net.client.pool import RpcPool
from tidelog.protocol.generated.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tidelog.runtime.tasks import BackgroundTasks

if TYPE_CHECKING:
    from tidelog.metadata.image import MetadataImage
    from tidelog.transactions.markers import MarkerWriter

MARKERS = "markers"
"""The purpose of the connections."""

ANSWER_SECONDS_MAX = 10.0


class _Delivery(NamedTuple):
    marker: Marker
    partition: TopicPartition
    done: asyncio.Future[None]


class ClusterMarkers:
    def __init__(self, local: MarkerWriter, node_id: int, image: Callable[[], MetadataImage], pool: RpcPool) -> None:
        self._local = local
        self._node_id = node_id
        self._image = image
        self._pool = pool
        self._waiting: dict[int, list[_Delivery]] = {}
        """By the node they go to; sent at the end of this turn of the loop."""
        self._tasks = BackgroundTasks()

    def write(self, marker: Marker, partition: TopicPartition) -> Awaitable[None] | None:
        topic = self._image().topics.get(partition.topic)
        state = None if topic is None else topic.partitions.get(partition.partition)
        if state is None or state.leader == self._node_id:
            return self._local.write(marker, partition)
        if state.leader == NO_LEADER:
            raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(state.leader, [])
        waiting.append(_Delivery(marker, partition, done))
        if len(waiting) == 1:
            self._tasks.start(self._send(state.leader), "transaction markers")
        return done

    async def _send(self, node_id: int) -> None:
        deliveries = self._waiting.pop(node_id)
        codes: dict[tuple[Marker, TopicPartition], int] = {}
        failure = ErrorCode.NETWORK_EXCEPTION
        try:
            codes = await self._deliver(node_id, deliveries)
            failure = ErrorCode.NOT_LEADER_OR_FOLLOWER
        except RpcError:
            pass
        finally:
            # After a fault too: a completion that waits for its markers tries again.
            _settle(deliveries, codes, failure)

    async def _deliver(self, node_id: int, deliveries: list[_Delivery]) -> dict[tuple[Marker, TopicPartition], int]:
        """The error codes that the other node answers; RpcError when it does not."""
        by_marker: dict[Marker, dict[str, list[int]]] = {}
        for marker, partition, _ in deliveries:
            by_marker.setdefault(marker, {}).setdefault(partition.topic, []).append(partition.partition)
        request = WriteTxnMarkersRequest(markers=[_encode(marker, topics) for marker, topics in by_marker.items()])
        response = await self._pool.client(node_id, MARKERS).call(
            request, WriteTxnMarkersResponse, timeout_s=ANSWER_SECONDS_MAX
        )
        codes: dict[tuple[Marker, TopicPartition], int] = {}
        for marker, answered in zip(by_marker, response.markers, strict=False):
            for topic in answered.topics:
                for found in topic.partitions:
                    codes[marker, TopicPartition(topic.name, found.partition_index)] = found.error_code
        return codes


def _settle(deliveries: list[_Delivery], codes: dict[tuple[Marker, TopicPartition], int], failure: ErrorCode) -> None:
    """`failure` goes to every delivery that has no code."""
    for marker, partition, done in deliveries:
        if done.done():
            continue
        code = ErrorCode(codes.get((marker, partition), failure))
        if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            # The other node has not heard of the topic yet; if it is deleted, this node will.
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if code is ErrorCode.NONE:
            done.set_result(None)
        else:
            done.set_exception(BrokerError(code))


def _encode(marker: Marker, topics: dict[str, list[int]]) -> WritableTxnMarker:
    return WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.commit,
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()],
    )
