"""The systemd unit: what it starts is a command of ours, and it stops in time."""

from __future__ import annotations

import shlex
import subprocess
import sys
from configparser import RawConfigParser
from pathlib import Path

import pytest
from tests.servers.tools import require_program

from tidelog.cli.errors import EXIT_REMOVED, EXIT_USAGE
from tidelog.cli.main import build_parser
from tidelog.cli.serve import STOP_SECONDS_MAX

UNIT = Path(__file__).parents[2] / "deploy" / "systemd" / "tidelog.service"
PROGRAM = "/opt/tidelog/bin/tidelog"


class Unit(RawConfigParser):
    """A key may be given several times; values are then lines of one."""

    def optionxform(self, optionstr: str) -> str:
        return optionstr


@pytest.fixture
def unit() -> Unit:
    found = Unit(strict=False, interpolation=None, comment_prefixes=("#",), delimiters=("=",))
    found.read(UNIT)
    return found


def commands(unit: Unit) -> list[list[str]]:
    return [shlex.split(value) for key, value in unit["Service"].items() if key.startswith("Exec")]


def test_every_command_is_one_of_ours(unit: Unit) -> None:
    found = commands(unit)
    assert found
    for program, noun, *arguments in found:
        assert program == PROGRAM
        build_parser(noun).parse_args([noun, *arguments])


def test_a_node_writes_where_it_may(unit: Unit) -> None:
    service = unit["Service"]
    [command] = commands(unit)
    args = build_parser("serve").parse_args(command[1:])
    assert service["ProtectSystem"] == "strict"
    assert args.data == f"/var/lib/{service['StateDirectory']}"
    assert args.config.startswith("/etc/tidelog/")
    assert service["User"] not in ("", "root")


def test_a_stop_has_the_time_it_takes(unit: Unit) -> None:
    service = unit["Service"]
    assert service["KillSignal"] == "SIGTERM"
    assert float(service["TimeoutStopSec"]) >= 2 * STOP_SECONDS_MAX
    assert service["Restart"] == "on-failure"
    assert {int(code) for code in service["RestartPreventExitStatus"].split()} == {EXIT_USAGE, EXIT_REMOVED}
    assert int(service["LimitNOFILE"]) >= 16_384


def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    verify = [require_program("systemd-analyze"), "verify"]
    copy = tmp_path / UNIT.name
    # It wants to see the program, which is somewhere else here.
    copy.write_text(UNIT.read_text().replace(PROGRAM, str(Path(sys.executable).with_name("tidelog"))))
    done = subprocess.run([*verify, str(copy)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    copy.write_text(copy.read_text().replace("LimitNOFILE", "LimitOpenFiles"))
    done = subprocess.run([*verify, str(copy)], capture_output=True, text=True, check=False)
    assert "LimitOpenFiles" in done.stderr, "a wrong key is not found, so that the check says nothing"
