"""franz-go in groups of both protocols; built from `main.go` beside this file."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.conformance.groups.member import Groups
from tests.conformance.groups.processes import MemberProcess, share_and_leave
from tests.servers.broker_process import BrokerProcess
from tests.servers.tools import missing, require_program
from tests.servers.wire import Connection

BUILD_S_MAX = 280


@pytest.fixture(scope="module")
def member(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The program; its modules come from the module proxy the first time."""
    go = require_program("go")
    source = Path(__file__).parent
    fetched = subprocess.run([go, "mod", "download"], cwd=source, capture_output=True, text=True, timeout=60)
    if fetched.returncode != 0:
        missing(f"franz-go (go mod download: {fetched.stderr.strip()[-200:]})")
    built = tmp_path_factory.mktemp("go") / "member"
    subprocess.run([go, "build", "-buildvcs=false", "-o", str(built), "."], cwd=source, check=True, timeout=BUILD_S_MAX)
    return str(built)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("protocol", ["range", "cooperative-sticky", "consumer"])
def test_two_members_and_one(broker: BrokerProcess, connection: Connection, member: str, protocol: str) -> None:
    groups = Groups(connection)
    topic, group = groups.topic(4), groups.group()

    def start() -> MemberProcess:
        return MemberProcess([member, broker.bootstrap, topic, group, protocol])

    share_and_leave(connection, topic, 4, start)
    assert groups.listed(group).group_type == ("consumer" if protocol == "consumer" else "classic")
