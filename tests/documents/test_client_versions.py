"""docs/clients.md names and installs the versions of the clients that the conformance suites drive."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.documents.blocks import read_blocks
from tests.servers.apache_kafka import VERSION as KAFKA_VERSION

ROOT = Path(__file__).parents[2]
PAGE = Path("docs/clients.md")
ROW = re.compile(r"^\| \[(?P<client>[^]]+)\]\([^)]*\) \| [^|]+ \| (?P<version>[\d.]+) \|", re.MULTILINE)
NOT_PINNED = {"kcat", "kafka-go"}
"""kcat comes from the system; kafka-go is in no suite but in that of the documents."""


def pinned() -> dict[str, str]:
    lock = (ROOT / "requirements" / "dev.txt").read_text() + (ROOT / "requirements" / "spark.txt").read_text()
    python = dict(re.findall(r"^([\w-]+)==([\w.]+)", lock, re.MULTILINE))
    conformance = ROOT / "tests" / "conformance"
    franz_go = re.search(r"twmb/franz-go v([\d.]+)$", (conformance / "go" / "go.mod").read_text(), re.MULTILINE)
    assert franz_go is not None
    return {
        **{name: python[name] for name in ("confluent-kafka", "kafka-python", "aiokafka")},
        "Spark": python["pyspark"].rpartition(".")[0],
        "Kafka's own tools": KAFKA_VERSION,
        "kafka-clients": KAFKA_VERSION,
        "franz-go": franz_go[1],
        "kafkajs": json.loads((conformance / "javascript" / "package.json").read_text())["dependencies"]["kafkajs"],
    }


def in_the_table() -> dict[str, str]:
    return {found["client"]: found["version"] for found in ROW.finditer((ROOT / PAGE).read_text())}


def test_the_table_has_the_versions_that_are_tested() -> None:
    found = in_the_table()
    assert {client: version for client, version in found.items() if client not in NOT_PINNED} == pinned()
    assert set(found) >= NOT_PINNED


@pytest.mark.parametrize(
    ("client", "pattern"),
    [
        ("kafka-clients", r"<artifactId>kafka-clients</artifactId>\s*<version>([^<]+)<"),
        ("Kafka's own tools", r"<artifactId>kafka-tools</artifactId>\s*<version>(\d[^<]+)<"),
        ("franz-go", r"go get github.com/twmb/franz-go/\S*@v(\S+)"),
        ("kafka-go", r"go get github.com/segmentio/kafka-go@v(\S+)"),
        ("kafkajs", r"npm install kafkajs@(\S+)"),
    ],
)
def test_what_is_installed_is_what_the_table_says(client: str, pattern: str) -> None:
    text = "".join(block.text for block in read_blocks(ROOT, PAGE))
    assert re.findall(pattern, text) == [in_the_table()[client]]
