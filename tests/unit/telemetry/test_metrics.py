import threading

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from tidelog.telemetry.exposition import render, take_snapshot
from tidelog.telemetry.metrics import CLOSE_REASONS, DURATION_BOUNDS_SECONDS, NodeMetrics, NodeSample, PartitionSample


def samples(metrics: NodeMetrics, accept: str = "") -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    body, _ = render(take_snapshot(metrics), accept)
    parse = parse_openmetrics if "openmetrics" in accept else parse_text
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in parse(body.decode())
        for sample in family.samples
    }


def test_histogram_counts_a_bound_into_its_own_bucket() -> None:
    metrics = NodeMetrics()
    produce = metrics.api(0, "Produce")
    produce.duration.observe(DURATION_BOUNDS_SECONDS[0])
    produce.duration.observe(DURATION_BOUNDS_SECONDS[0] * 1.01)
    produce.duration.observe(DURATION_BOUNDS_SECONDS[-1] + 1)
    assert produce.requests == 3
    found = samples(metrics)
    name = "tidelog_request_duration_seconds"
    bucket = {
        dict(labels)["le"]: value
        for (metric, labels), value in found.items()
        if metric == f"{name}_bucket" and ("api", "Produce") in labels
    }
    assert bucket["0.0001"] == 1
    assert bucket["0.00025"] == 2
    assert bucket["5.0"] == 2
    assert bucket["+Inf"] == 3
    assert found[(f"{name}_count", (("api", "Produce"),))] == 3
    assert found[(f"{name}_sum", (("api", "Produce"),))] == pytest.approx(6.000201)


@pytest.mark.parametrize("accept", ["", "text/plain", "application/openmetrics-text; version=1.0.0"])
def test_everything_counted_is_exposed(accept: str) -> None:
    metrics = NodeMetrics()
    metrics.bytes_in = 11
    metrics.bytes_out = 12
    metrics.connections_total = 3
    metrics.connections_current = 3
    metrics.count_closed("idle")
    metrics.count_closed("a reason that is not in the list")
    metrics.reads_paused = 8
    metrics.sample_node = lambda: NodeSample(in_flight_bytes=99, fetch_sessions=6, offline_partitions=2)
    metrics.waiting_fetches = 4
    metrics.api(1, "Fetch").count_error(1)
    metrics.api(1, "Fetch").count_error(1)
    metrics.api(1, "Fetch").count_error(9999)
    topic = metrics.topic('odd"name\\')
    topic.records_in += 5
    metrics.fsync.observe(0.002)
    metrics.loop_delay.observe(0.3)
    metrics.sample_partitions = lambda: [
        PartitionSample("t", 7, 10, 30, 29, 4096, 2),
        PartitionSample("t", 8, 0, 1, 1, 100, 1, replicas=3, in_sync_replicas=2, has_enough_in_sync=False),
        PartitionSample("t", 9, 0, 1, 1, 100, 1, is_leader=False),
    ]

    found = samples(metrics, accept)
    assert found[("tidelog_network_received_bytes_total", ())] == 11
    assert found[("tidelog_network_sent_bytes_total", ())] == 12
    assert found[("tidelog_connections", ())] == 1
    assert found[("tidelog_connections_closed_total", (("reason", "idle"),))] == 1
    assert found[("tidelog_connections_closed_total", (("reason", "error"),))] == 1
    assert found[("tidelog_in_flight_bytes", ())] == 99
    assert found[("tidelog_fetch_sessions", ())] == 6
    assert found[("tidelog_partitions_offline", ())] == 2
    assert found[("tidelog_reads_paused_total", ())] == 8
    assert found[("tidelog_waiting_fetches", ())] == 4
    assert found[("tidelog_partitions", ())] == 3
    assert found[("tidelog_partitions_led", ())] == 2
    assert found[("tidelog_partitions_under_replicated", ())] == 1
    assert found[("tidelog_partitions_under_min_isr", ())] == 1
    assert found[("tidelog_event_loop_delay_seconds_sum", ())] == pytest.approx(0.3)
    assert found[("tidelog_request_errors_total", (("api", "Fetch"), ("error", "OFFSET_OUT_OF_RANGE")))] == 2
    assert found[("tidelog_request_errors_total", (("api", "Fetch"), ("error", "9999")))] == 1
    assert found[("tidelog_topic_records_in_total", (("topic", 'odd"name\\'),))] == 5
    assert found[("tidelog_fsync_duration_seconds_count", ())] == 1
    labels = (("partition", "7"), ("topic", "t"))
    assert found[("tidelog_log_start_offset", labels)] == 10
    assert found[("tidelog_log_end_offset", labels)] == 30
    assert found[("tidelog_high_watermark", labels)] == 29
    assert found[("tidelog_log_size_bytes", labels)] == 4096
    assert found[("tidelog_uptime_seconds", ())] >= 0
    assert found[("process_resident_memory_bytes", ())] > 1_000_000
    assert found[("process_open_fds", ())] > 0


def test_the_cluster_and_the_disk_are_shown_as_the_node_knows_them() -> None:
    metrics = NodeMetrics()
    metrics.sample_node = lambda: NodeSample(
        is_controller=True,
        nodes_alive=2,
        nodes_fenced=1,
        partitions_without_leader=5,
        oldest_transaction_seconds=2.5,
        disk_free_bytes=70,
        disk_size_bytes=100,
    )
    found = samples(metrics)
    assert found[("tidelog_controller_active", ())] == 1
    assert found[("tidelog_controller_known", ())] == 0
    assert found[("tidelog_cluster_nodes", (("state", "alive"),))] == 2
    assert found[("tidelog_cluster_nodes", (("state", "fenced"),))] == 1
    assert found[("tidelog_cluster_partitions_without_leader", ())] == 5
    assert found[("tidelog_transaction_oldest_seconds", ())] == 2.5
    assert found[("tidelog_disk_free_bytes", ())] == 70
    assert found[("tidelog_disk_size_bytes", ())] == 100
    metrics.sample_node = NodeSample
    assert ("tidelog_disk_free_bytes", ()) not in samples(metrics), "a disk that cannot be asked has no figure"


def test_every_close_reason_is_there_from_the_start() -> None:
    found = samples(NodeMetrics())
    for reason in CLOSE_REASONS:
        assert found[("tidelog_connections_closed_total", (("reason", reason),))] == 0


def test_content_type_follows_the_accept_header() -> None:
    snapshot = take_snapshot(NodeMetrics())
    body, content_type = render(snapshot, "application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")
    body, content_type = render(snapshot, "*/*")
    assert content_type.startswith("text/plain")
    assert b"# EOF" not in body


def test_a_forgotten_topic_is_gone() -> None:
    metrics = NodeMetrics()
    metrics.topic("t").records_in += 1
    metrics.forget_topic("t")
    metrics.forget_topic("t")
    assert ("tidelog_topic_records_in_total", (("topic", "t"),)) not in samples(metrics)


def test_rendering_in_a_thread_while_the_loop_counts_on() -> None:
    metrics = NodeMetrics()
    results: list[bytes] = []
    snapshot = take_snapshot(metrics)
    thread = threading.Thread(target=lambda: results.extend(render(snapshot)[0] for _ in range(20)))
    thread.start()
    key = 0
    while thread.is_alive():
        key += 1
        metrics.api(key % 5000, f"api{key}").count_error(key % 100)
        metrics.topic(f"t{key % 5000}").records_in += 1
    thread.join()
    assert len(results) == 20
