"""The text a Prometheus scrape gets, made from `NodeMetrics` when it is asked for.

`take_snapshot` runs in the node's loop and is cheap; `render` does the expensive part and may run in a thread.
prometheus_client is imported here and nowhere else, and this module only when the first scrape is near: the import
costs about as much as starting a node.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry

from tidelog.model.errors import ErrorCode
from tidelog.telemetry.metrics import (
    DURATION_BOUNDS_SECONDS,
    ApiMetrics,
    DurationHistogram,
    GroupSample,
    LagSample,
    NodeMetrics,
    NodeSample,
    PartitionSample,
    TopicMetrics,
)
from tidelog.version import __version__

if TYPE_CHECKING:
    from prometheus_client.core import Metric


class MetricsSnapshot(NamedTuple):
    """What must be read in the loop: tables that grow, and the partitions."""

    metrics: NodeMetrics
    node: NodeSample
    apis: list[ApiMetrics]
    topics: list[tuple[str, TopicMetrics]]
    partitions: list[PartitionSample]
    groups: list[GroupSample]
    lags: list[LagSample]
    transactions: dict[str, int]


def take_snapshot(metrics: NodeMetrics) -> MetricsSnapshot:
    return MetricsSnapshot(
        metrics=metrics,
        node=metrics.sample_node(),
        apis=list(metrics.apis.values()),
        topics=list(metrics.topics.items()),
        partitions=list(metrics.sample_partitions()),
        groups=list(metrics.sample_groups()),
        lags=list(metrics.sample_lag()),
        transactions=metrics.sample_transactions(),
    )


def render(snapshot: MetricsSnapshot, accept: str = "") -> tuple[bytes, str]:
    """The exposition and its content type: OpenMetrics if `accept` asks for it, Prometheus text otherwise."""
    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    registry.register(_SnapshotCollector(snapshot))
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


class _SnapshotCollector(Collector):
    def __init__(self, snapshot: MetricsSnapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        yield from _node(self._snapshot.metrics, self._snapshot.node)
        yield from _cluster(self._snapshot.node)
        yield from _apis(self._snapshot.apis)
        yield from _topics(self._snapshot.topics)
        yield from _partitions(self._snapshot.partitions)
        yield from _groups(self._snapshot.groups, self._snapshot.lags)
        yield from _transactions(self._snapshot.transactions)


def _node(metrics: NodeMetrics, sample: NodeSample) -> Iterator[Metric]:
    build = GaugeMetricFamily("tidelog_build_info", "Always 1; the version is the label.", labels=["version"])
    build.add_metric([__version__], 1)
    yield build
    gauges = (
        ("uptime_seconds", "Seconds since the node was started.", metrics.uptime_seconds),
        ("connections", "Open client connections.", metrics.connections_current),
        ("in_flight_bytes", "Bytes of requests read but not yet answered.", sample.in_flight_bytes),
        ("waiting_fetches", "Fetches waiting for data or their deadline.", metrics.waiting_fetches),
        ("waiting_produces", "Produces waiting for their flush or their replicas.", metrics.waiting_produces),
        ("fetch_sessions", "Incremental fetch sessions in the cache.", sample.fetch_sessions),
        ("partitions_offline", "Partitions whose disk failed or whose log is damaged.", sample.offline_partitions),
        ("transaction_oldest_seconds", "Age of the oldest open transaction.", sample.oldest_transaction_seconds),
        ("disk_free_bytes", "Free bytes of the data directory's file system.", sample.disk_free_bytes),
        ("disk_size_bytes", "Size of the data directory's file system.", sample.disk_size_bytes),
    )
    for name, text, value in gauges:
        if value is not None:
            yield GaugeMetricFamily(f"tidelog_{name}", text, value=value)
    counters = (
        ("network_received_bytes", "Bytes read from client sockets.", metrics.bytes_in),
        ("network_sent_bytes", "Bytes handed to client sockets.", metrics.bytes_out),
        ("connections_opened", "Connections accepted.", metrics.connections_total),
        ("reads_paused", "Times a socket was left unread because too much was in flight.", metrics.reads_paused),
        ("segments_deleted", "Segments removed by retention and delete-records.", metrics.segments_deleted),
        ("compactions", "Compaction runs of a partition.", metrics.compactions),
        ("compactions_seconds", "Time spent in compaction.", metrics.compactions_seconds),
    )
    for name, text, count in counters:
        yield CounterMetricFamily(f"tidelog_{name}", text, value=count)
    closed = CounterMetricFamily("tidelog_connections_closed", "Connections ended, by reason.", labels=["reason"])
    for reason, count in metrics.connections_closed.items():
        closed.add_metric([reason], count)
    yield closed
    durations = (
        ("fsync_duration_seconds", "Time of one fsync of a log segment.", metrics.fsync),
        ("event_loop_delay_seconds", "How late the event loop came to a timer.", metrics.loop_delay),
    )
    for name, text, histogram in durations:
        family = HistogramMetricFamily(f"tidelog_{name}", text)
        _add_histogram(family, [], histogram)
        yield family


def _cluster(sample: NodeSample) -> Iterator[Metric]:
    """The cluster as this node knows it."""
    nodes = GaugeMetricFamily("tidelog_cluster_nodes", "Registered nodes by state.", labels=["state"])
    nodes.add_metric(["alive"], sample.nodes_alive)
    nodes.add_metric(["fenced"], sample.nodes_fenced)
    yield nodes
    gauges = (
        ("controller_active", "1 on the node that decides for the cluster.", sample.is_controller),
        ("controller_known", "1 while this node knows a controller.", sample.has_controller),
        ("cluster_partitions_without_leader", "Partitions that no node leads.", sample.partitions_without_leader),
    )
    for name, text, value in gauges:
        yield GaugeMetricFamily(f"tidelog_{name}", text, value=value)


def _apis(apis: list[ApiMetrics]) -> Iterator[Metric]:
    duration = HistogramMetricFamily(
        "tidelog_request_duration_seconds", "From frame read to response handed to the socket.", labels=["api"]
    )
    errors = CounterMetricFamily(
        "tidelog_request_errors", "Error codes in responses, one per place that carries it.", labels=["api", "error"]
    )
    for api in apis:
        _add_histogram(duration, [api.name], api.duration)
        for code, count in list(api.errors.items()):
            errors.add_metric([api.name, _error_name(code)], count)
    yield duration
    yield errors


def _topics(topics: list[tuple[str, TopicMetrics]]) -> Iterator[Metric]:
    records_in = CounterMetricFamily("tidelog_topic_records_in", "Records appended.", labels=["topic"])
    batches_in = CounterMetricFamily("tidelog_topic_batches_in", "Batches appended.", labels=["topic"])
    bytes_in = CounterMetricFamily("tidelog_topic_in_bytes", "Bytes of batches appended.", labels=["topic"])
    bytes_out = CounterMetricFamily("tidelog_topic_out_bytes", "Bytes of record data fetched.", labels=["topic"])
    for name, topic in topics:
        labels = [name]
        records_in.add_metric(labels, topic.records_in)
        batches_in.add_metric(labels, topic.batches_in)
        bytes_in.add_metric(labels, topic.bytes_in)
        bytes_out.add_metric(labels, topic.bytes_out)
    yield from (records_in, batches_in, bytes_in, bytes_out)


def _partitions(samples: list[PartitionSample]) -> Iterator[Metric]:
    labels = ["topic", "partition"]
    start = GaugeMetricFamily("tidelog_log_start_offset", "First offset of the partition.", labels=labels)
    end = GaugeMetricFamily("tidelog_log_end_offset", "Offset the next record will get.", labels=labels)
    watermark = GaugeMetricFamily("tidelog_high_watermark", "First offset consumers may not read yet.", labels=labels)
    size = GaugeMetricFamily("tidelog_log_size_bytes", "Bytes of all segments.", labels=labels)
    segments = GaugeMetricFamily("tidelog_log_segments", "Segments of the partition.", labels=labels)
    for sample in samples:
        values = [sample.topic, str(sample.partition)]
        start.add_metric(values, sample.log_start_offset)
        end.add_metric(values, sample.log_end_offset)
        watermark.add_metric(values, sample.high_watermark)
        size.add_metric(values, sample.size_bytes)
        segments.add_metric(values, sample.segments)
    led = [sample for sample in samples if sample.is_leader]
    behind = sum(sample.in_sync_replicas < sample.replicas for sample in led)
    too_few = sum(not sample.has_enough_in_sync for sample in led)
    yield GaugeMetricFamily("tidelog_partitions", "Partitions this node hosts.", value=len(samples))
    yield GaugeMetricFamily("tidelog_partitions_led", "Partitions this node leads.", value=len(led))
    yield GaugeMetricFamily(
        "tidelog_partitions_under_replicated", "Partitions this node leads with replicas not in sync.", value=behind
    )
    yield GaugeMetricFamily(
        "tidelog_partitions_under_min_isr",
        "Partitions this node leads that refuse acks=all: fewer than min.insync.replicas are in sync.",
        value=too_few,
    )
    yield from (start, end, watermark, size, segments)


def _groups(groups: list[GroupSample], lags: list[LagSample]) -> Iterator[Metric]:
    states = GaugeMetricFamily("tidelog_group_state", "1 for the state the group is in.", labels=["group", "state"])
    members = GaugeMetricFamily("tidelog_group_members", "Members of the group.", labels=["group"])
    generation = GaugeMetricFamily(
        "tidelog_group_generation", "Generation or epoch; one more with every rebalance.", labels=["group"]
    )
    rebalances = CounterMetricFamily(
        "tidelog_group_rebalances", "Rebalances since this node coordinates the group.", labels=["group"]
    )
    for sample in groups:
        states.add_metric([sample.group, sample.state], 1)
        members.add_metric([sample.group], sample.members)
        generation.add_metric([sample.group], sample.generation)
        rebalances.add_metric([sample.group], sample.rebalances)
    labels = ["group", "topic", "partition"]
    committed = GaugeMetricFamily("tidelog_group_committed_offset", "Where the group goes on.", labels=labels)
    lag = GaugeMetricFamily("tidelog_group_lag", "Records up to the high watermark not yet committed.", labels=labels)
    for at in lags:
        values = [at.group, at.topic, str(at.partition)]
        committed.add_metric(values, at.committed_offset)
        lag.add_metric(values, at.lag)
    yield from (states, members, generation, rebalances, committed, lag)


def _transactions(counts: dict[str, int]) -> Iterator[Metric]:
    family = GaugeMetricFamily("tidelog_transactional_ids", "Transactional ids by state.", labels=["state"])
    for state, count in counts.items():
        family.add_metric([state], count)
    yield family


def _add_histogram(family: HistogramMetricFamily, labels: list[str], histogram: DurationHistogram) -> None:
    # Copied first: the loop may count on while this runs in a thread, and the buckets must agree with their total.
    counts = list(histogram.buckets)
    buckets: list[tuple[str, float]] = []
    total = 0
    for bound, count in zip((*map(str, DURATION_BOUNDS_SECONDS), "+Inf"), counts, strict=True):
        total += count
        buckets.append((bound, total))
    family.add_metric(labels, buckets, histogram.sum_seconds)


def _error_name(code: int) -> str:
    known = ErrorCode(code)
    return known.name if known == code else str(code)
