"""kafkajs: administration, records, groups and transactions of a client in pure JavaScript."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.servers.broker_process import BrokerProcess
from tests.servers.tools import missing, require_program
from tests.servers.topics import create_topic, new_name
from tests.servers.wire import Connection

HERE = Path(__file__).parent
INSTALL_SECONDS_MAX = 100
RUN_SECONDS_MAX = 60


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program with its one dependency installed."""
    require_program("node")
    npm = require_program("npm")
    place = tmp_path_factory.mktemp("kafkajs")
    for name in ("package.json", "client.js"):
        shutil.copy(HERE / name, place)
    command = [npm, "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=INSTALL_SECONDS_MAX, check=False)
    if done.returncode != 0:
        missing(f"kafkajs (npm install: {done.stderr.strip()[-300:]})")
    return place / "client.js"


def run(client: Path, scenario: str, broker: BrokerProcess, topic: str) -> Any:
    node = require_program("node")
    done = subprocess.run(
        [node, str(client), scenario, broker.bootstrap, topic],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        env={**os.environ, "KAFKAJS_NO_PARTITIONER_WARNING": "1"},
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"kafkajs failed: {done.stderr[-3000:]}")
    return json.loads(done.stdout)


def test_administration(client: Path, broker: BrokerProcess) -> None:
    found = run(client, "administration", broker, new_name())
    assert found == {"partitions": 4, "retention": "60000", "isGone": True}


def test_records_come_back_whole(client: Path, broker: BrokerProcess, connection: Connection) -> None:
    records = run(client, "records", broker, create_topic(connection))
    assert [(r["offset"], r["key"], r["value"], r["headers"]) for r in records] == [
        ("0", "a", "one", [["origin", "javascript"]]),
        ("1", "b", None, []),
        ("2", None, "three", []),
    ]


def test_a_group_goes_on_where_it_committed(client: Path, broker: BrokerProcess, connection: Connection) -> None:
    found = run(client, "committedOffsets", broker, create_topic(connection))
    assert (found["first"], found["second"]) == (["1", "2", "3"], ["4", "5"])
    assert found["sum"] == 5
    assert found["state"] == "Empty"


def test_only_committed_transactions_are_seen(client: Path, broker: BrokerProcess, connection: Connection) -> None:
    found = run(client, "transactions", broker, create_topic(connection))
    assert found == {"seen": ["kept"], "offset": "7"}
