"""The image and the compose files where there is a Docker daemon: built, run, written to and stopped."""

from __future__ import annotations

import shutil
import subprocess
import urllib.request
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.deploy.containers import DOCKER, ROOT
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(1200)
BUILD_SECONDS_MAX = 900
DEADLINE_S = 60.0


def docker(*arguments: str, seconds_max: float = 120) -> str:
    done = subprocess.run(
        ["docker", *arguments], cwd=ROOT, capture_output=True, text=True, check=False, timeout=seconds_max
    )
    assert done.returncode == 0, f"docker {' '.join(arguments)}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout.strip()


def can(*arguments: str) -> bool:
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", *arguments], capture_output=True, check=False, timeout=60).returncode == 0


@pytest.fixture(scope="module")
def image() -> str:
    if not can("info"):
        pytest.skip("missing: a Docker daemon (`docker info` fails)")
    docker("build", "--file", str(DOCKER / "Dockerfile"), "--tag", "tidelog", ".", seconds_max=BUILD_SECONDS_MAX)
    return "tidelog"


def write_and_read(bootstrap: str, replicas: int) -> None:
    topic = f"t-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 3, replicas)])[topic].result(DEADLINE_S)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(30):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(DEADLINE_S) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: set[bytes] = set()

    def read() -> bool:
        found.update(message.value() for message in consumer.consume(30, 0.5) if not message.error())
        return len(found) >= 30

    try:
        wait_until(read, "30 records", DEADLINE_S)
    finally:
        consumer.close()
    assert found == {b"%d" % number for number in range(30)}


@pytest.fixture
def container(image: str) -> Iterator[str]:
    name = f"tidelog-test-{uuid.uuid4().hex[:8]}"
    volume = f"{name}-data"
    try:
        docker("run", "--detach", "--name", name, "--volume", f"{volume}:/var/lib/tidelog", image)
        yield name
    finally:
        subprocess.run(["docker", "rm", "--force", "--volumes", name], capture_output=True, check=False)
        subprocess.run(["docker", "volume", "rm", volume], capture_output=True, check=False)


def wait_until_healthy(name: str) -> None:
    wait_until(
        lambda: docker("inspect", "--format", "{{.State.Health.Status}}", name) == "healthy",
        lambda: f"a healthy container; its log:\n{docker('logs', name)}",
        DEADLINE_S,
        interval_s=0.2,
    )


def test_a_node_becomes_healthy_without_root_and_stops_cleanly_at_sigterm(container: str) -> None:
    wait_until_healthy(container)
    assert docker("exec", container, "id", "--user") == "10001"
    assert "compiled" in docker("logs", container)
    docker("exec", container, "tidelog", "topics", "create", "kept")
    docker("stop", "--time", "15", container)
    assert docker("inspect", "--format", "{{.State.ExitCode}}", container) == "0"
    docker("start", container)
    wait_until_healthy(container)
    assert "kept" in docker("exec", container, "tidelog", "topics", "list")


@pytest.mark.parametrize(
    ("file", "bootstrap", "replicas", "admin_ports"),
    [
        ("compose.yaml", "localhost:9092", 1, [9644]),
        ("compose-cluster.yaml", "localhost:9092,localhost:9093,localhost:9094", 3, [9644, 9645, 9646]),
    ],
)
def test_compose(image: str, file: str, bootstrap: str, replicas: int, admin_ports: list[int]) -> None:
    if not can("compose", "version"):
        pytest.skip("missing: docker compose")
    compose = ("compose", "--file", str(DOCKER / file), "--project-name", f"tidelog-test-{uuid.uuid4().hex[:8]}")
    try:
        docker(*compose, "up", "--detach", "--wait", seconds_max=BUILD_SECONDS_MAX)
        write_and_read(bootstrap, replicas)
        for port in admin_ports:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                assert b"tidelog_uptime_seconds" in answer.read()
        docker(*compose, "stop")
        for name in docker(*compose, "ps", "--all", "--quiet").split():
            assert docker("inspect", "--format", "{{.State.ExitCode}}", name) == "0"
    finally:
        subprocess.run(["docker", *compose, "down", "--volumes"], cwd=ROOT, capture_output=True, check=False)
