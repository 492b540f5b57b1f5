"""What runs in a task of the exactly-once topic sink: one lane's rows and its batch marker in one transaction.

A lane is written by one task at a time, under a transactional id of its own. A task that has no producer for its lane
makes one: `init_transactions` fences the last holder of the id and settles what it left open, so the marker read
after it is final. The marker is an offset that the lane's group has committed for a partition of the topic: the first
batch that is not written yet. A producer stays open in its Python worker; until another producer takes the id, only it
can move the marker. Lanes hop between workers, so the marker is sent first: an id taken elsewhere shows before any
row was consumed.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.pipelines.delivery.partitioners import partition_of

LANES_OPEN_MAX = 64
"""Producers kept open in a Python worker; the one used longest ago is closed for a new one."""
INIT_TIMEOUT_S = 120.0
MARKER_TIMEOUT_S = 60.0
PROBE_TIMEOUT_S = 15.0
"""How long a producer that was kept open may take to show that it can still write."""
TOPIC_TIMEOUT_S = 10.0
"""How long a topic may be unknown to a broker: one that was just made is, for a moment."""
MARKER_RETRY_S = 0.1
_UNSETTLED = (14, 15, 16)
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR: librdkafka leaves it to us to ask again."""
_SILENT = logging.getLogger("tidelog.pipelines.delivery.lane_writer")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False
RESULT = "lane INT, rows BIGINT, skipped BOOLEAN"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneTarget:
    """Where the tasks of one batch write."""

    topic: str
    sink_id: str
    batch: int
    partitions: int
    """Of the topic, as pinned for this batch; a producer that was opened for fewer does not know the others."""
    partitioner: str
    source_lanes: tuple[str, ...] | None = None
    """The source partition that each task reads, where that is its lane; else lanes are target partitions."""
    settings: Mapping[str, Any]
    """librdkafka settings of the producers."""
    transaction_timeout_s: float

    def transactional_id(self, lane: int) -> str:
        return f"{self.sink_id}-{lane if self.source_lanes is None else self.source_lanes[lane]}"

    def marker_place(self, lane: int) -> tuple[str, int]:
        """Group and partition of the marker: a broker takes offsets of partitions that exist only, and there may be
        more source partitions than those."""
        return (self.sink_id, lane) if self.source_lanes is None else (self.transactional_id(lane), 0)


class _Lane:
    """An open producer of one transactional id, and the marker as it last left it."""

    def __init__(self, target: LaneTarget, lane: int) -> None:
        from confluent_kafka import Consumer, Producer

        self.target = target
        identity = target.transactional_id(lane)
        group, self._marker_partition = target.marker_place(lane)
        # An id that was taken elsewhere is everyday here, and no reason for librdkafka to print that it is fatal.
        self.producer = Producer({**target.settings, "transactional.id": identity}, logger=_SILENT)
        # librdkafka looks for the coordinator once and then only every half second, and until its second metadata
        # answer it may have no connection to ask on.
        self.producer.list_topics(target.topic, INIT_TIMEOUT_S)
        self._find_partitions()
        self.producer.init_transactions(INIT_TIMEOUT_S)
        shared = {
            name: value
            for name, value in target.settings.items()
            if name.startswith(("bootstrap.", "security.", "sasl.", "ssl.", "enable.ssl.", "client.", "log_level"))
        }
        # Never subscribes: it reads the marker and lends its group. Read uncommitted, the marker may be one that is
        # being taken back.
        self.consumer = Consumer(
            {
                **shared,
                "group.id": group,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "retry.backoff.ms": 2,
            },
            logger=_SILENT,
        )
        self.marker = self._read_marker()

    def _find_partitions(self) -> None:
        """Fails when the topic is gone: librdkafka would wait for it for as long as a transaction may take."""
        topic, deadline = self.target.topic, time.monotonic() + TOPIC_TIMEOUT_S
        while True:
            found = self.producer.list_topics(topic, INIT_TIMEOUT_S).topics.get(topic)
            count = 0 if found is None or found.error is not None else len(found.partitions)
            if count >= self.target.partitions:
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"topic {topic} has {count} of its {self.target.partitions} partitions")
            time.sleep(MARKER_RETRY_S)

    def _read_marker(self) -> int:
        from confluent_kafka import KafkaException, TopicPartition

        place = TopicPartition(self.target.topic, self._marker_partition)
        deadline = time.monotonic() + MARKER_TIMEOUT_S
        while True:
            try:
                [committed] = self.consumer.committed([place], timeout=max(1.0, deadline - time.monotonic()))
                break
            except KafkaException as error:
                # A coordinator that was just elected, or whose topic was just made, does not know its groups yet.
                if error.args[0].code() not in _UNSETTLED or time.monotonic() > deadline:
                    raise
                time.sleep(MARKER_RETRY_S)
        if committed.error is not None:
            raise RuntimeError(f"batch marker of {self.target.topic}: {committed.error.str()}")
        return max(0, int(committed.offset))

    def begin(self, batch: int, timeout_s: float) -> None:
        """Opens the transaction with the marker of the batch; fails if another producer took the id meanwhile."""
        from confluent_kafka import TopicPartition

        self.producer.begin_transaction()
        marker = TopicPartition(self.target.topic, self._marker_partition, batch + 1)
        self.producer.send_offsets_to_transaction([marker], self.consumer.consumer_group_metadata(), timeout_s)

    def produce(self, rows: pa.RecordBatch) -> None:
        """Queues rows in their order; the transaction's commit waits for them and fails if one was not written."""
        partitions = _partitions(self.target, rows)
        columns = [partitions, *(rows.column(index).to_pylist() for index in range(1, rows.num_columns))]
        extra = rows.schema.names[3:]
        topic, produce = self.target.topic, self.producer.produce
        for partition, key, value, *more in zip(*columns, strict=True):
            arguments = _arguments(extra, more) if extra else {}
            while True:
                try:
                    produce(topic, value, key, partition, **arguments)
                    break
                except BufferError:
                    self.producer.poll(0.05)

    def commit(self, batch: int) -> None:
        """Rows and marker become visible together, or an exception says that they may not have."""
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + self.target.transaction_timeout_s
        while True:
            try:
                self.producer.commit_transaction(max(1.0, deadline - time.monotonic()))
                break
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise
        self.marker = batch + 1

    def close(self) -> None:
        """Lets go without settling: the next producer of the lane does that."""
        with contextlib.suppress(Exception):
            self.producer.purge()
            self.consumer.close()
            self.producer.close()


_open: dict[str, _Lane] = {}


def write_lane(target: LaneTarget, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: the rows of a lane (partition, key, value[, headers, timestamp]) to one row of RESULT."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "runs in a task"
    lane = context.partitionId()
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    if first is None:
        return
    writer = _begin(target, lane)
    rows = first.num_rows
    if writer is None:
        rows += sum(batch.num_rows for batch in filled)
    else:
        try:
            writer.produce(first)
            for batch in filled:
                writer.produce(batch)
                rows += batch.num_rows
            writer.commit(target.batch)
        except BaseException:
            writer.close()
            raise
        _keep(target.transactional_id(lane), writer)
    columns = [pa.array([lane], pa.int32()), pa.array([rows], pa.int64()), pa.array([writer is None])]
    yield pa.RecordBatch.from_arrays(columns, ["lane", "rows", "skipped"])


def _begin(target: LaneTarget, lane: int) -> _Lane | None:
    """An open transaction for the batch, or None if the batch is there already."""
    from confluent_kafka import KafkaException

    identity = target.transactional_id(lane)
    kept = _open.pop(identity, None)
    if kept is not None and kept.target.partitions != target.partitions:
        kept.close()
        kept = None
    if kept is not None:
        if kept.marker > target.batch:
            _keep(identity, kept)
            return None
        try:
            kept.begin(target.batch, PROBE_TIMEOUT_S)
            return kept
        except KafkaException:
            # Another worker or run took the id, or the connection is gone: a new producer finds out what holds.
            kept.close()
    fresh = _Lane(target, lane)
    try:
        if fresh.marker > target.batch:
            _keep(identity, fresh)
            return None
        fresh.begin(target.batch, MARKER_TIMEOUT_S)
    except BaseException:
        fresh.close()
        raise
    return fresh


def _keep(identity: str, lane: _Lane) -> None:
    _open[identity] = lane
    while len(_open) > LANES_OPEN_MAX:
        _open.pop(next(iter(_open))).close()


def _partitions(target: LaneTarget, rows: pa.RecordBatch) -> list[int]:
    """Where each row goes: its first column says so, and where that is null the hash of its key."""
    named, keys = rows.column(0), rows.column(1)
    if named.null_count:
        named = pc.coalesce(named, partition_of(keys, target.partitioner, target.partitions))
    places: list[int] = named.to_pylist()
    return places


def _arguments(names: list[str], values: list[Any]) -> dict[str, Any]:
    given = dict(zip(names, values, strict=True))
    arguments: dict[str, Any] = {}
    if given.get("timestamp") is not None:
        arguments["timestamp"] = given["timestamp"]
    if given.get("headers"):
        arguments["headers"] = [(header["key"], header["value"]) for header in given["headers"]]
    return arguments
