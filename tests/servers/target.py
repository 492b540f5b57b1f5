"""The broker under test: `tidelog serve`, or a real Apache Kafka when TIDELOG_TEST_TARGET=kafka.

Apache Kafka is the specification. The conformance suites must pass on it too; what fails there is wrong in the suite.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from tests.servers.apache_kafka import start_kafka
from tests.servers.broker_process import BrokerProcess
from tests.servers.tidelog_node import start_tidelog

# Tests write records with timestamps of years ago, which the first check of the retention would delete: it comes five
# minutes after the start, in the middle of whatever test runs then.
OLD_RECORDS_STAY = {"log.retention.check.interval.ms": "86400000"}


def target_kind() -> str:
    kind = os.environ.get("TIDELOG_TEST_TARGET", "tidelog")
    if kind not in ("kafka", "tidelog"):
        raise ValueError(f"TIDELOG_TEST_TARGET={kind}: kafka or tidelog")
    return kind


def start_target(directory: Path, settings: Mapping[str, str] | None = None) -> BrokerProcess:
    start = start_kafka if target_kind() == "kafka" else start_tidelog
    return start(directory, settings={**OLD_RECORDS_STAY, **(settings or {})})
