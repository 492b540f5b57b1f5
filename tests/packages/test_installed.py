"""Every package installed into a fresh environment and used there: the library, the pytest plugin, the commands."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.packages.conftest import Packages
from tests.packages.environments import PYTHONS, RUNNING, Environment, find_python, run, user_environment
from tests.servers.broker_process import free_port, port_answers
from tests.waiting import wait_until

import tidelog

PROJECT = """
import pytest
from confluent_kafka import Consumer, Producer

import tidelog


def round_trip(servers, topic, codec):
    producer = Producer({"bootstrap.servers": servers, "compression.type": codec, "message.timeout.ms": 30000})
    producer.produce(topic, b"hello " * 100)
    assert producer.flush(60) == 0
    consumer = Consumer({"bootstrap.servers": servers, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        message = consumer.poll(60)
        assert message is not None and message.error() is None
        return message.value()
    finally:
        consumer.close()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_the_plugin_and_every_codec(tidelog_bootstrap_servers, tidelog_create_topic, codec):
    # The producer sends it in one codec, and the broker has to write it in another.
    stored = "zstd" if codec == "none" else "uncompressed" if codec == "zstd" else "lz4"
    topic = tidelog_create_topic(configs={"compression.type": stored})
    assert round_trip(tidelog_bootstrap_servers, topic, codec) == b"hello " * 100


def test_the_library():
    with tidelog.Broker() as broker:
        broker.create_topic("orders")
        assert round_trip(broker.bootstrap_servers, "orders", "none") == b"hello " * 100
"""

BASE = {"tidelog", "confluent-kafka", "cramjam", "fastcrc", "google-re2", "librt", "pyyaml", "uvloop"}


def check(environment: Environment, *, is_compiled: bool) -> None:
    where = run(environment.python, "-c", "import tidelog; print(tidelog.__file__)", cwd=environment.project).stdout
    assert Path(where.strip()).is_relative_to(environment.python.parents[1])
    check_version(environment, is_compiled)
    assert environment.installed() & {*BASE, "rich", "starlette", "uvicorn", "prometheus-client", "anyio"} == BASE
    check_project(environment)
    check_commands(environment)
    admin = ("--data", "admin-data", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
    check_missing_extra(environment, "admin", "serve", *admin)


def check_version(environment: Environment, is_compiled: bool) -> None:
    shown = environment.tidelog("--version")
    path = "compiled data path" if is_compiled else "plain Python data path: it was not compiled"
    assert shown.startswith(f"tidelog {tidelog.__version__} (Python {environment.version}.")
    assert shown.endswith(f", {path})\n")
    assert "produce" in environment.tidelog("--help")


def check_project(environment: Environment) -> None:
    (environment.project / "test_orders.py").write_text(PROJECT)
    done = run(environment.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=environment.project)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 passed" in done.stdout


def check_commands(environment: Environment) -> None:
    with serving(environment) as bootstrap:
        commands = {"TIDELOG_BOOTSTRAP": bootstrap}
        environment.tidelog("topics", "create", "orders", "--partitions", "2", **commands)
        assert "orders" in environment.tidelog("topics", "list", **commands)
        environment.tidelog("produce", "orders", "--key", "customer-7", stdin='{"id": 1}\n', **commands)
        read = environment.tidelog("consume", "orders", "--offset", "earliest", "--max", "1", **commands)
        assert '{"id": 1}' in read
        assert "windows" in environment.tidelog("examples", "list")
        loaded = environment.tidelog("examples", "load", "sessions", **commands)
        assert loaded.splitlines()[-1] == "tidelog pipeline run tidelog-examples/sessions/sessions.yaml"
        assert "clicks" in environment.tidelog("topics", "list", **commands)
        assert (environment.project / "tidelog-examples" / "sessions" / "visits.py").is_file()
        check_missing_extra(environment, "spark", "examples", "load", "stream_table_join", **commands)
        check_missing_extra(environment, "spark", "archive", "orders", "--to", "table", **commands)


def check_missing_extra(environment: Environment, extra: str, *arguments: str, **variables: str) -> None:
    """What is an extra and not there is one line that names the extra."""
    done = run(environment.command, *arguments, cwd=environment.project, **variables)
    assert done.returncode == 1
    assert done.stderr.startswith("tidelog: ")
    assert done.stderr.count("\n") == 1
    assert f"pip install 'tidelog[{extra}]'" in done.stderr


@contextmanager
def serving(environment: Environment) -> Iterator[str]:
    port = free_port()
    bootstrap = f"127.0.0.1:{port}"
    with (environment.project / "node.log").open("w") as log:
        node = subprocess.Popen(
            [environment.command, "serve", "--listen", bootstrap, "--data", "data"],
            cwd=environment.project,
            env=user_environment(),
            stdout=log,
            stderr=log,
        )
    try:
        wait_until(lambda: port_answers(port) or node.poll() is not None, "the installed node")
        assert node.poll() is None, (environment.project / "node.log").read_text()
        yield bootstrap
    finally:
        node.terminate()
        assert node.wait(timeout=60) == 0


def require_python(version: str) -> str:
    found = find_python(version)
    if found is None:
        pytest.skip(f"Python {version} is not installed")
    return found


@pytest.mark.parametrize("kind", ["sdist", "plain_wheel", "compiled_wheel"])
def test_each_package_on_this_python(packages: Packages, tmp_path: Path, kind: str) -> None:
    environment = Environment(tmp_path, RUNNING, packages.named(kind))
    check(environment, is_compiled=kind == "compiled_wheel")


@pytest.mark.parametrize("version", [version for version in PYTHONS if version != RUNNING])
def test_the_plain_wheel_on_other_pythons(packages: Packages, tmp_path: Path, version: str) -> None:
    require_python(version)
    check(Environment(tmp_path, version, packages.plain_wheel), is_compiled=False)


@pytest.mark.long
@pytest.mark.parametrize("version", [version for version in PYTHONS if version != RUNNING])
def test_the_sdist_on_other_pythons(packages: Packages, tmp_path: Path, version: str) -> None:
    require_python(version)
    check(Environment(tmp_path, version, packages.sdist), is_compiled=False)


@pytest.mark.long
@pytest.mark.parametrize("version", PYTHONS)
def test_a_compiled_wheel_that_pip_builds_from_the_sdist(packages: Packages, tmp_path: Path, version: str) -> None:
    packages.named("compiled_wheel")
    pip = [require_python(version), "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps"]
    done = subprocess.run(
        [*pip, "--wheel-dir", tmp_path / "built", packages.sdist],
        cwd=tmp_path,
        env=user_environment(TIDELOG_COMPILE_WHEEL="1"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    [wheel] = (tmp_path / "built").iterdir()
    check(Environment(tmp_path, version, wheel), is_compiled=True)
