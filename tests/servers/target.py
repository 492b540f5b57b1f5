"""The broker under test: `tidelog serve`, or a real Apache Kafka when TIDELOG_TEST_TARGET=kafka.

Apache Kafka is the specification. The conformance suites must pass on it too; what fails there is wrong in the suite.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from benchmarks.apache_kafka import start_kafka
from benchmarks.broker_process import BrokerProcess
from benchmarks.tidelog_node import start_tidelog


def target_kind() -> str:
    kind = os.environ.get("TIDELOG_TEST_TARGET", "tidelog")
    if kind not in ("kafka", "tidelog"):
        raise ValueError(f"TIDELOG_TEST_TARGET={kind}: kafka or tidelog")
    return kind


def start_target(directory: Path, settings: Mapping[str, str] | None = None) -> BrokerProcess:
    if target_kind() == "kafka":
        return start_kafka(directory, settings=settings)
    return start_tidelog(directory, settings=settings)
