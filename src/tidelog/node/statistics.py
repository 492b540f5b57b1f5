"""How this node is doing, in numbers that mean something to people; told to the cluster with the heartbeats."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tidelog.runtime.clock import monotonic_s
from tidelog.version import __version__

if TYPE_CHECKING:
    from tidelog.metadata.publisher import MetadataPublisher
    from tidelog.partitions.table import PartitionTable
    from tidelog.telemetry.metrics import NodeMetrics


class NodeStatistics:
    """Rates are since the last time they were asked for."""

    def __init__(self, metrics: NodeMetrics, partitions: PartitionTable, metadata: MetadataPublisher) -> None:
        self._metrics = metrics
        self._partitions = partitions
        self._metadata = metadata
        self._started_s = monotonic_s()
        self._last = (self._started_s, *self._counters())

    def _counters(self) -> tuple[float, int, int, int]:
        metrics = self._metrics
        times = os.times()
        records_in = sum(topic.records_in for topic in metrics.topics.values())
        return times.user + times.system, records_in, metrics.bytes_in, metrics.bytes_out

    def collect(self) -> dict[str, Any]:
        now_s = monotonic_s()
        before, self._last = self._last, (now_s, *self._counters())
        elapsed_s = max(now_s - before[0], 0.001)
        cpu, records, bytes_in, bytes_out = (
            (now - then) / elapsed_s for now, then in zip(self._last[1:], before[1:], strict=True)
        )
        return {
            "version": __version__,
            "uptime_seconds": round(now_s - self._started_s, 1),
            "memory_bytes": _resident_bytes(),
            "cpu_percent": round(cpu * 100, 1),
            "load_average": round(os.getloadavg()[0], 2),
            "partitions": len(self._partitions),
            "connections": self._metrics.connections_current,
            "records_in_per_second": round(records, 1),
            "bytes_in_per_second": round(bytes_in),
            "bytes_out_per_second": round(bytes_out),
            "metadata_offset": self._metadata.image.offset,
        }


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
