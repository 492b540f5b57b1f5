"""Each alert fires when it should, and a healthy cluster has none; Prometheus itself decides."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "deploy" / "monitoring" / "alerts.yaml"
AT = 'cluster="main", instance="a", job="tidelog"'
PRODUCE = f'tidelog_request_duration_seconds_bucket{{{AT}, api="Produce", le='
LOOP = f"tidelog_event_loop_delay_seconds_bucket{{{AT}, le="
PIPELINE = 'cluster="main", pipeline="p", query="q"'
MINUTES = 420

FIRES: dict[str, dict[str, str]] = {
    "TidelogDown": {f"up{{{AT}}}": "0x420"},
    "TidelogNoController": {f"tidelog_controller_known{{{AT}}}": "0x420"},
    "TidelogSeveralControllers": {
        f"tidelog_controller_active{{{AT}}}": "1x420",
        'tidelog_controller_active{cluster="main", instance="b"}': "1x420",
    },
    "TidelogNodeFenced": {f'tidelog_cluster_nodes{{{AT}, state="fenced"}}': "1x420"},
    "TidelogPartitionsWithoutLeader": {f"tidelog_cluster_partitions_without_leader{{{AT}}}": "1x420"},
    "TidelogPartitionsOffline": {f"tidelog_partitions_offline{{{AT}}}": "1x420"},
    "TidelogPartitionsUnderMinIsr": {f"tidelog_partitions_under_min_isr{{{AT}}}": "1x420"},
    "TidelogPartitionsUnderReplicated": {f"tidelog_partitions_under_replicated{{{AT}}}": "1x420"},
    "TidelogDiskNearlyFull": {
        f"tidelog_disk_free_bytes{{{AT}}}": "5x420",
        f"tidelog_disk_size_bytes{{{AT}}}": "100x420",
    },
    "TidelogDiskFillsUp": {f"tidelog_disk_free_bytes{{{AT}}}": "100000-100x420"},
    "TidelogStorageErrors": {
        f'tidelog_request_errors_total{{{AT}, api="Produce", error="KAFKA_STORAGE_ERROR"}}': "0+1x420"
    },
    "TidelogProduceSlow": {
        f'{PRODUCE}"1.0"}}': "0+1x420",
        f'{PRODUCE}"5.0"}}': "0+100x420",
        f'{PRODUCE}"+Inf"}}': "0+100x420",
    },
    "TidelogEventLoopHeldUp": {
        f'{LOOP}"0.1"}}': "0+1x420",
        f'{LOOP}"0.5"}}': "0+100x420",
        f'{LOOP}"+Inf"}}': "0+100x420",
    },
    "TidelogFileDescriptors": {f"process_open_fds{{{AT}}}": "90x420", f"process_max_fds{{{AT}}}": "100x420"},
    "TidelogRestarts": {f"process_start_time_seconds{{{AT}}}": "1+1x420"},
    "TidelogGroupLagGrows": {f'tidelog_group_lag{{{AT}, group="g", topic="t", partition="0"}}': "200000+1000x420"},
    "TidelogTransactionHangs": {f"tidelog_transaction_oldest_seconds{{{AT}}}": "0+60x420"},
    "TidelogConnectionsRefused": {f'tidelog_connections_closed_total{{{AT}, reason="limit"}}': "0+10x420"},
    "TidelogPipelineStopped": {f"tidelog_pipeline_up{{{PIPELINE}}}": "0x420"},
    "TidelogPipelineBehind": {f"tidelog_pipeline_lag_seconds{{{PIPELINE}}}": "400x420"},
    "TidelogPipelineDeadLetters": {f'tidelog_pipeline_dead_letters_total{{{PIPELINE}, topic="letters"}}': "0+1x420"},
}
"""Alert -> series, a value a minute, with which it fires."""

HEALTHY = {
    f"up{{{AT}}}": "1x420",
    f"tidelog_controller_known{{{AT}}}": "1x420",
    f"tidelog_controller_active{{{AT}}}": "1x420",
    'tidelog_controller_active{cluster="other", instance="c"}': "1x420",
    f'tidelog_cluster_nodes{{{AT}, state="fenced"}}': "0x420",
    f'tidelog_cluster_nodes{{{AT}, state="alive"}}': "3x420",
    f"tidelog_cluster_partitions_without_leader{{{AT}}}": "0x420",
    f"tidelog_partitions_offline{{{AT}}}": "0x420",
    f"tidelog_partitions_under_min_isr{{{AT}}}": "0x420",
    f"tidelog_partitions_under_replicated{{{AT}}}": "0x420",
    f"tidelog_disk_free_bytes{{{AT}}}": "60x420",
    f"tidelog_disk_size_bytes{{{AT}}}": "100x420",
    f'tidelog_request_errors_total{{{AT}, api="Fetch", error="OFFSET_OUT_OF_RANGE"}}': "0+1x420",
    f'{PRODUCE}"1.0"}}': "0+100x420",
    f'{PRODUCE}"+Inf"}}': "0+100x420",
    f'{LOOP}"0.001"}}': "0+600x420",
    f'{LOOP}"+Inf"}}': "0+600x420",
    f"process_open_fds{{{AT}}}": "10x420",
    f"process_max_fds{{{AT}}}": "100x420",
    f"process_start_time_seconds{{{AT}}}": "1x420",
    # Far behind, and catching up.
    f'tidelog_group_lag{{{AT}, group="g", topic="t", partition="0"}}': "2000000-1000x420",
    f"tidelog_transaction_oldest_seconds{{{AT}}}": "2x420",
    f'tidelog_connections_closed_total{{{AT}, reason="limit"}}': "0x420",
    f"tidelog_pipeline_up{{{PIPELINE}}}": "1x420",
    f"tidelog_pipeline_lag_seconds{{{PIPELINE}}}": "3x420",
    f'tidelog_pipeline_dead_letters_total{{{PIPELINE}, topic="letters"}}': "7x420",
}


def test_every_alert_has_a_case() -> None:
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    assert {rule["alert"] for rule in rules} == FIRES.keys()


def case(series: dict[str, str], expression: str, expected: list[Any]) -> dict[str, Any]:
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [{"expr": expression, "eval_time": f"{MINUTES}m", "exp_samples": expected}],
    }


def test_alerts_fire_when_they_should(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("missing: promtool (not on PATH)")
    cases = [
        case(series, f'count(ALERTS{{alertname="{alert}", alertstate="firing"}})', [{"labels": "{}", "value": 1}])
        for alert, series in FIRES.items()
    ]
    cases.append(case(HEALTHY, "ALERTS", []))
    document = tmp_path / "tests.yaml"
    document.write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": cases}))
    done = subprocess.run([promtool, "test", "rules", str(document)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
