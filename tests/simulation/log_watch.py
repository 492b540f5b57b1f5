"""What the logs of a node hold, shown to checkers: what is newly committed, and whole logs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.simulation.replication_observations import Committed, LogSeen
from tests.simulation.world import World

from tidelog.partitions.partition import Partition
from tidelog.records.batch import iterate_headers
from tidelog.records.record import iterate_records


class LogWatch:
    """Of one incarnation of a node."""

    def __init__(self, world: World, node_id: int) -> None:
        self._world = world
        self._node_id = node_id
        self._seen_committed: dict[int, int] = {}

    def look(self, partitions: Iterable[Partition]) -> None:
        """Tells the checkers what this node has newly committed."""
        for partition in partitions:
            seen = self._seen_committed.get(partition.index, 0)
            if partition.high_watermark > seen:
                self._seen_committed[partition.index] = partition.high_watermark
                for offset, _, value in read_log(partition, seen):
                    if seen <= offset < partition.high_watermark:
                        self._world.observe(Committed(self._node_id, partition.index, offset, value))

    def show_logs(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            records = read_log(partition, 0)
            self._world.observe(LogSeen(self._node_id, partition.index, partition.leader_epoch, records))


def read_log(partition: Partition, start: int) -> list[tuple[int, int, bytes]]:
    """Offset, leader epoch and value of every record from the batch that holds `start` on."""
    log = partition.log
    if start >= log.log_end_offset:
        return []
    region: Any = log.reader.read(start, 1 << 30, upper_offset=log.log_end_offset, min_one_batch=True)
    return read_records(region.load())


def read_records(data: bytes) -> list[tuple[int, int, bytes]]:
    """The same of batches; markers of transactions are no records."""
    found = []
    for position, header in iterate_headers(data):
        batch = data[position : position + header.size_in_bytes]
        if not header.is_control and len(batch) == header.size_in_bytes:
            for record in iterate_records(batch):
                found.append((record.offset, header.partition_leader_epoch, bytes(record.value or b"")))
    return found
