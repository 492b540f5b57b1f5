import json
import os
import re
import signal
import socket
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, ResourceType
from tests.embedding.clients import consume_values, end_offset, produce_values
from tests.embedding.serving import refusal, serving
from tests.servers.broker_process import free_port

from tidelog.version import __version__


def test_one_line_when_ready_and_a_clean_stop(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serving(data, "-o", "num.partitions=2") as server:
        ready = server.ready()
        assert ready["version"] == __version__
        assert (ready["node"], ready["data"], ready["partitions"]) == ("1", str(data), "0")
        produce_values(ready["address"], "orders", [b"a", b"b", b"c"])
        started = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        assert server.wait() == 0
        assert time.monotonic() - started < 15
        assert server.rest_of_output() == ""
    with serving(data) as server:
        assert server.ready()["partitions"] == "2"
        assert sum(end_offset(server.ready()["address"], "orders", partition) for partition in (0, 1)) == 3
        server.process.send_signal(signal.SIGINT)
        assert server.wait() == 0


@pytest.mark.parametrize("log_format", ["human", "json"])
def test_the_line_says_where_http_is(tmp_path: Path, log_format: str) -> None:
    with serving(tmp_path / "data", "--http", "127.0.0.1:0", "--log-format", log_format) as broker:
        address = broker.ready()["http"]
        with urllib.request.urlopen(f"http://{address}/topics/t/partitions/0", data=b"hello") as answer:
            assert json.loads(answer.read()) == {"offset": 0}
            assert answer.headers["X-Tidelog-Session"]


def test_records_outlive_a_clean_stop(tmp_path: Path) -> None:
    data = tmp_path / "data"
    values = [b"%d" % number for number in range(1000)]
    with serving(data) as server:
        produce_values(server.ready()["address"], "orders", values)
        server.process.terminate()
        assert server.wait() == 0
    with serving(data) as server:
        assert consume_values(server.ready()["address"], "orders", len(values)) == values


def test_a_stop_answers_clients_that_stay_connected(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as server, socket.create_connection(("127.0.0.1", server.port)) as idle:
        server.process.terminate()
        assert server.wait() == 0
        idle.settimeout(30)
        assert idle.recv(1) == b""


def test_settings_from_everywhere_and_the_last_wins(tmp_path: Path) -> None:
    file = tmp_path / "tidelog.yaml"
    file.write_text("broker:\n  node.id: 2\n  num.partitions: 2\nstorage:\n  segment.bytes: 2097152\n")
    environment = {"TIDELOG_NUM_PARTITIONS": "3", "TIDELOG_SERVICE_HOST": "10.0.0.1"}
    arguments = ("--config", str(file), "-o", "num.partitions=4", "--log-format", "json", "--log-level", "debug")
    with serving(tmp_path / "data", *arguments, environment=environment) as server:
        ready = server.ready()
        assert ready["node"] == "2"
        assert json.loads(server.ready_line)["event"] == "ready"
        produce_values(ready["address"], "orders", [b"v"])
        server.process.terminate()
        assert server.wait() == 0
        lines = [json.loads(line) for line in server.log().splitlines()]
    assert any(line.get("variable") == "TIDELOG_SERVICE_HOST" for line in lines)
    assert {"time", "level", "logger", "event"} <= set(lines[0])
    assert sorted(path.name for path in (tmp_path / "data").glob("orders-*")) == [f"orders-{n}" for n in range(4)]


def test_what_was_set_at_start_says_so(tmp_path: Path) -> None:
    file = tmp_path / "tidelog.yaml"
    file.write_text("storage:\n  segment.bytes: 2097152\n")
    port = free_port()
    listeners = ("--listen", f"127.0.0.1:{port}", "--advertise", f"localhost:{port}")
    arguments = ("--config", str(file), "-o", "num.partitions=4", *listeners)
    with serving(tmp_path / "data", *arguments, environment={"TIDELOG_LOG_RETENTION_MS": "60000"}) as server:
        configs = broker_configs(server.ready()["address"], "1")
    static = {name: value for name, (value, source) in configs.items() if source == ConfigSource.STATIC_BROKER_CONFIG}
    assert static == {
        "listeners": f"127.0.0.1:{port}",
        "advertised.listeners": f"localhost:{port}",
        "log.dirs": str(tmp_path / "data"),
        "log.segment.bytes": "2097152",
        "log.retention.ms": "60000",
        "num.partitions": "4",
    }
    with serving(tmp_path / "plain") as server:
        configs = broker_configs(server.ready()["address"], "1")
    # As Apache Kafka says it of a broker that advertises what it listens on.
    assert configs["advertised.listeners"] == (None, ConfigSource.DEFAULT_CONFIG)


def broker_configs(address: str, node_id: str) -> dict[str, tuple[str | None, ConfigSource]]:
    admin = AdminClient({"bootstrap.servers": address})
    [described] = admin.describe_configs([ConfigResource(ResourceType.BROKER, node_id)]).values()
    return {name: (entry.value, ConfigSource(entry.source)) for name, entry in described.result(30).items()}


def test_admin_port(tmp_path: Path) -> None:
    admin = free_port()
    with serving(tmp_path / "data", "--admin", f"127.0.0.1:{admin}") as server:
        produce_values(server.ready()["address"], "orders", [b"v"] * 7)
        assert json.loads(_get(admin, "/readyz")) == {"ready": True}
        assert json.loads(_get(admin, "/healthz"))["status"] == "ok"
        metrics = _get(admin, "/metrics").decode()
        assert 'tidelog_topic_records_in_total{topic="orders"} 7.0' in metrics
        assert 'tidelog_log_end_offset{partition="0",topic="orders"} 7.0' in metrics
        assert re.search(r'tidelog_request_duration_seconds_count\{api="Produce"\} [1-9]', metrics)
        assert re.search(r"tidelog_connections [0-9]", metrics)
        server.process.terminate()
        assert server.wait() == 0
        with pytest.raises(urllib.error.URLError):
            _get(admin, "/readyz")


def _get(port: int, path: str) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as response:
        return bytes(response.read())


def test_starts_that_fail_say_why_in_one_line(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"127.0.0.1:{port}" in refusal(data, "--listen", f"127.0.0.1:{port}")
        assert refusal(data, "--admin", f"127.0.0.1:{port}") == (
            f"admin.listen: cannot listen on 127.0.0.1:{port}: Address already in use"
        )
    assert "cordoned.log.dirs is set at run time" in refusal(data, "-o", "cordoned.log.dirs=x")
    assert refusal(data, "-o", "num.partitions=0").startswith("-o num.partitions: Invalid value 0 ")
    assert refusal(data, "--node-id", "x").startswith("--node-id: Invalid value x ")
    assert refusal(data, "--listen", "nowhere").startswith("--listen: Invalid value nowhere ")
    assert refusal(data, "--log-level", "loud").startswith("--log-level: Invalid value loud ")
    assert refusal(data, "--config", str(tmp_path / "no.yaml")) == (
        f"{tmp_path / 'no.yaml'}: cannot be read: No such file or directory"
    )
    assert refusal(data, environment={"TIDELOG_NODE_ID": "-1"}).startswith("environment variable TIDELOG_NODE_ID: ")
    (tmp_path / "file").write_text("")
    assert str(tmp_path / "file") in refusal(tmp_path / "file" / "data")
    assert not data.exists()


def test_a_start_that_fails_leaves_nothing_where_nothing_was(tmp_path: Path) -> None:
    made, found, foreign, used = tmp_path / "new" / "deep", tmp_path / "there", tmp_path / "foreign", tmp_path / "used"
    found.mkdir()
    (found / "notes.txt").write_text("mine")
    (foreign / "photos").mkdir(parents=True)
    with serving(used) as server:
        server.ready()
        server.process.terminate()
        assert server.wait() == 0
    held = {path: path.read_bytes() for path in used.rglob("*") if path.is_file() and path.name != ".lock"}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = ("--listen", f"127.0.0.1:{taken.getsockname()[1]}")
        for data in (made, found, used):
            assert "in use" in refusal(data, *listen)
    assert not (tmp_path / "new").exists()
    assert [path.name for path in found.iterdir()] == ["notes.txt"]
    assert {path: path.read_bytes() for path in held} == held
    assert "photos/" in refusal(foreign)
    assert [path.name for path in foreign.iterdir()] == ["photos"]
    with serving(found) as server:
        assert server.ready()["data"] == str(found)


def test_a_data_directory_belongs_to_one_process_and_one_node(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serving(data) as server:
        server.ready()
        message = refusal(data)
        assert str(data) in message
        assert "in use" in message
        server.process.terminate()
        assert server.wait() == 0
    assert re.search(r"node.*\b1\b", refusal(data, "--node-id", "2"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_data_directory_that_cannot_be_written(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o500)
    assert str(data) in refusal(data)


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as server:
        server.ready()
        # Both arrive before the loop runs again, so the second finds the stop under way.
        server.process.send_signal(signal.SIGSTOP)
        server.process.send_signal(signal.SIGTERM)
        server.process.send_signal(signal.SIGINT)
        server.process.send_signal(signal.SIGCONT)
        assert server.wait() in (128 + signal.SIGINT, 128 + signal.SIGTERM)
        assert "second signal" in server.log()


def test_a_closed_standard_output_does_not_hurt(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as server:
        assert server.process.stdout is not None
        server.process.stdout.close()
        server.wait_for_log("ready")
        server.process.terminate()
        assert server.wait() == 0
