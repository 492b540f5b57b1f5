"""Spark Connect: a real server from the PySpark package, and a client that has no JVM."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.pipelines.messages import order_file, write_descriptor
from tests.pipelines.processes import HERE, RUN_TIMEOUT_S, kill
from tests.pipelines.topics import Record, produce, read_all
from tests.servers.broker_process import end_with_parent, free_port, port_answers
from tests.waiting import wait_until

from tidelog.pipelines.spark.jars import jar_paths, pinned_jars

MakeTopic = Callable[..., str]


@contextmanager
def connect_server(directory: Path) -> Iterator[str]:
    """The URL of a server with the connector on its class path and this package in its Python."""
    import pyspark

    home = Path(pyspark.__file__).parent
    port = free_port()
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.jars": ",".join(str(path) for path in jar_paths(pinned_jars())),
    }
    options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    server = ("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--master", "local[2]")
    with (directory / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [str(home / "bin" / "spark-submit"), *server, *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable},
            start_new_session=True,
            preexec_fn=end_with_parent,
        )
    try:
        wait_until(lambda: port_answers(port) or process.poll() is not None, "the Connect server answers", 120)
        assert process.poll() is None, (directory / "server.log").read_text()[-3000:]
        yield f"sc://127.0.0.1:{port}"
    finally:
        kill(process)


def python(*arguments: str) -> str:
    """The last line that a client printed."""
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=RUN_TIMEOUT_S
    )
    if done.returncode != 0:
        # No verdict of ours: a server on a busy machine gives its Python workers ten seconds to start.
        raise RuntimeError((done.stdout + done.stderr)[-3000:])
    return done.stdout.splitlines()[-1]


@pytest.mark.timeout(900)
def test_topics_and_tables_over_spark_connect(
    requirements: None, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, sink, piped = make_topic(partitions=2), make_topic(partitions=3), make_topic()
    values = [json.dumps({"id": number}).encode() for number in range(100)]
    produce(bootstrap, source, [Record(key=b"k%d" % (n % 7), value=value) for n, value in enumerate(values)])
    path = tmp_path / "pipeline.yaml"
    path.write_text(
        f"sources: {{numbers: {{topic: {source}, schema: id BIGINT}}}}\n"
        "steps: {even: {sql: SELECT value.id FROM numbers WHERE value.id % 2 = 0}}\n"
        f"sinks: {{out: {{from: even, topic: {piped}}}}}\n"
    )
    command = ["-m", "tidelog.cli.main", "pipeline", "run", str(path), "-b", bootstrap, "--json"]
    with connect_server(tmp_path) as server:
        places = (source, sink, make_topic(), write_descriptor(tmp_path / "orders.desc", order_file()), str(tmp_path))
        found = json.loads(python(str(HERE / "connect_client.py"), bootstrap, server, *places))
        end = json.loads(python(*command, "--master", server))
    everything = list(range(100))
    assert found.pop("diverted") == 98
    first = {record.value for record in read_all(bootstrap, source) if record.offset == 0}
    assert {letter.value for letter in read_all(bootstrap, f"{source}.first")} == first
    assert found.pop("messages") == list(range(5))
    assert found.pop("compact").startswith("compact works on parquet files through Spark's JVM")
    assert found == {
        "shuffles": "2",
        "kind": "pyspark.sql.connect.session",
        "read": everything,
        "rows": everything,
        "batch": 5,
    }
    written = [json.loads(record.value or b"") for record in read_all(bootstrap, sink)]
    assert sorted(value["id"] for value in written if isinstance(value, dict)) == everything
    query = end["queries"][0]
    assert (end["ok"], query["state"]) == (True, "done")
    assert sorted(json.loads(record.value or b"")["id"] for record in read_all(bootstrap, piped)) == everything[::2]
