"""How this node is doing, in numbers that mean something to people; sent to the controller with the heartbeats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidelog.version import __version__

if TYPE_CHECKING:
    from tidelog.metadata.publisher import MetadataPublisher
    from tidelog.partitions.table import PartitionTable
    from tidelog.runtime.system import System, Usage
    from tidelog.telemetry.metrics import NodeMetrics


class NodeStatistics:
    """Rates are since the last time they were asked for."""

    def __init__(
        self, metrics: NodeMetrics, partitions: PartitionTable, metadata: MetadataPublisher, system: System
    ) -> None:
        self._metrics = metrics
        self._partitions = partitions
        self._metadata = metadata
        self._system = system
        self._started_s = system.monotonic_s()
        self._last = (self._started_s, *self._counters(system.measure_usage()))

    def _counters(self, usage: Usage) -> tuple[float, int, int, int]:
        metrics = self._metrics
        records_in = sum(topic.records_in for topic in metrics.topics.values())
        return usage.cpu_s, records_in, metrics.bytes_in, metrics.bytes_out

    def collect(self) -> dict[str, Any]:
        now_s, usage = self._system.monotonic_s(), self._system.measure_usage()
        before, self._last = self._last, (now_s, *self._counters(usage))
        elapsed_s = max(now_s - before[0], 0.001)
        cpu, records, bytes_in, bytes_out = (
            (now - then) / elapsed_s for now, then in zip(self._last[1:], before[1:], strict=True)
        )
        return {
            "version": __version__,
            "uptime_seconds": round(now_s - self._started_s, 1),
            "memory_bytes": usage.resident_bytes,
            "cpu_percent": round(cpu * 100, 1),
            "load_average": round(usage.load_average, 2),
            "partitions": len(self._partitions),
            "connections": self._metrics.connections_current,
            "records_in_per_second": round(records, 1),
            "bytes_in_per_second": round(bytes_in),
            "bytes_out_per_second": round(bytes_out),
            "metadata_offset": self._metadata.image.offset,
        }
