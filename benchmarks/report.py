"""The table for people and the files that are kept: raw values of every round, and what machine they come from."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.servers.apache_kafka import VERSION, java

from benchmarks.figures import Row, Samples, summarise

RESULTS = Path(__file__).parent / "results"
_CONGESTION_CONTROL = Path("/proc/sys/net/ipv4/tcp_congestion_control")
"""Clients and brokers talk over loopback, and some of these pace even that."""


def describe_machine() -> dict[str, str]:
    """Enough to judge the figures by; nothing that names the machine."""
    memory_kib = next(
        int(line.split()[1]) for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal")
    )
    models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    version = subprocess.run([java(), "-version"], capture_output=True, text=True, check=True).stderr.splitlines()[0]
    return {
        "cores": str(os.cpu_count()),
        "processor": models[0].partition(":")[2].strip() if models else platform.machine(),
        "memory": f"{memory_kib / 2**20:.0f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "java": version,
        "congestion control": _CONGESTION_CONTROL.read_text().strip() if _CONGESTION_CONTROL.exists() else "unknown",
        "kafka": f"Apache Kafka {VERSION}, 1 GiB heap (512 MiB for each of three nodes), stock settings",
    }


def format_value(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def table(rows: Sequence[Row]) -> str:
    lines = ["| figure | Tidelog | Kafka | ratio | target | |", "|---|---:|---:|---:|---|---|"]
    for row in rows:
        ratio = "-" if row.ratio is None else f"{row.ratio:.2f}"
        values = f"{format_value(row.tidelog)} | {format_value(row.kafka)}"
        title = f"{row.figure.title} ({row.figure.unit})"
        lines.append(f"| {title} | {values} | {ratio} | {row.figure.target} | {row.verdict.value} |")
    return "\n".join(lines)


def write_results(
    samples: Samples, options: Mapping[str, str], directory: Path = RESULTS, *, part: str | None = None
) -> Path:
    """Returns the path of the readable file; the raw values stand beside it. A part has files of its own."""
    directory.mkdir(parents=True, exist_ok=True)
    machine = describe_machine()
    name = f"{time.strftime('%Y-%m-%d')}-{machine['cores']}c"
    stem = directory / (name if part is None else f"{name}-{part}")
    rows = summarise(samples)
    raw = {"machine": machine, "options": dict(options), "rounds": samples}
    stem.with_suffix(".json").write_text(json.dumps(raw, indent=1) + "\n")
    facts = "\n".join(f"- {name}: {value}" for name, value in (machine | dict(options)).items())
    text = f"# Tidelog beside Apache Kafka\n\n{facts}\n\nMedians over the rounds.\n\n{table(rows)}\n"
    stem.with_suffix(".md").write_text(text)
    return stem.with_suffix(".md")
