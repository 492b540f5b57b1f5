"""A pipeline on an Apache Kafka that wants a password over TLS: both clients in it log in with what the file says."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.pipelines.topics import Record, produce, read_all
from tests.servers.apache_kafka import start_kafka
from tests.servers.broker_process import free_port
from tests.servers.tools import missing, require_kafka

from tidelog.pipelines.run.runner import PipelineRun
from tidelog.pipelines.spec.read import read_pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PASSWORD = 'a"b;c'
PIPELINE = """\
client:
  security.protocol: SASL_SSL
  sasl.mechanism: PLAIN
  sasl.username: ann
  sasl.password: {password}
  ssl.ca.location: {directory}/cert.pem
sources: {{numbers: {{topic: in, schema: id BIGINT}}}}
steps: {{flat: {{sql: SELECT value.id FROM numbers}}}}
sinks:
  once: {{from: flat, topic: once, key: id}}
  plain: {{from: flat, topic: plain, key: id, delivery: at-least-once}}
"""


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The addresses of a Kafka: open, and behind TLS and a password."""
    require_kafka()
    if shutil.which("openssl") is None:
        missing("openssl")
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "cert.pem")]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names, *files]
    subprocess.run(command, check=True, capture_output=True)
    (tmp_path / "own.pem").write_text((tmp_path / "key.pem").read_text() + (tmp_path / "cert.pem").read_text())
    ports = {"PLAINTEXT": free_port(), "CONTROLLER": free_port(), "SASL_SSL": free_port()}
    listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    user = 'user_ann="' + PASSWORD.replace('"', '\\\\"') + '"'
    settings = {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{ports['CONTROLLER']}",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {user};"
        ),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(tmp_path / "own.pem"),
    }
    with start_kafka(tmp_path / "kafka", port=ports["PLAINTEXT"], settings=settings) as kafka:
        yield kafka.bootstrap, f"127.0.0.1:{ports['SASL_SSL']}"


@pytest.mark.long
@pytest.mark.java
@pytest.mark.timeout(600)
def test_both_clients_log_in(spark: SparkSession, secure: tuple[str, str], tmp_path: Path) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    plain, guarded = secure
    admin = AdminClient({"bootstrap.servers": plain})
    for future in admin.create_topics([NewTopic(name, 2, 1) for name in ("in", "once", "plain")]).values():
        future.result()
    produce(plain, "in", [Record(value=json.dumps({"id": number}).encode()) for number in range(20)])
    produce(plain, "in", [Record(value=b"broken")])
    path = tmp_path / "pipeline.yaml"
    path.write_text(PIPELINE.format(directory=tmp_path, password=json.dumps(PASSWORD)))
    lines: list[str] = []
    run = PipelineRun(
        read_pipeline(path), bootstrap=guarded, report=lines.append, show_rows=lambda *_: None, spark=spark
    )
    assert run.run(), lines
    for topic in ("once", "plain"):
        assert sorted(json.loads(record.value or b"")["id"] for record in read_all(plain, topic)) == list(range(20))
    assert [record.value for record in read_all(plain, "in.dead-letters")] == [b"broken"]
