"""The broker's half of `tidelog demo`: needs nothing, shows everything, and leaves data that a node can serve."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.cli.command import TIDELOG


def run(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TIDELOG_")}
    return subprocess.run(
        [*TIDELOG, "demo", "--broker-only", *arguments],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_the_demo_for_people(tmp_path: Path) -> None:
    done = run(tmp_path, "--records", "20000")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Everything written was read, once and in order" in done.stdout
    assert "20,000" in done.stdout
    assert "DIFFERENT" not in done.stdout
    assert (tmp_path / ".demo" / "data" / "orders-0").is_dir()


def test_the_demo_for_programs_and_again(tmp_path: Path) -> None:
    for _ in range(2):
        done = run(tmp_path, "--records", "3000", "--partitions", "3", "--json")
        assert (done.returncode, done.stderr) == (0, "")
        document = json.loads(done.stdout)
        assert document["ok"] is True
        assert document["records"] == 3000
        assert sum(partition["records"] for partition in document["partitions"]) == 3000


def test_a_directory_of_others_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    done = run(tmp_path, "--data", "mine")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "tidelog: mine holds something that is not from a demo; choose another with --data\n"


def test_a_loss_makes_the_demo_fail(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from tidelog.cli import demo_orders\n"
        "from tidelog.cli.main import main\n"
        "whole = demo_orders.Tally.of\n"
        "calls = []\n"
        "def lose_one(messages):\n"
        "    calls.append(1)\n"
        "    return whole(messages[:-1] if len(calls) == 3 else messages)\n"
        "demo_orders.Tally.of = lose_one\n"
        "sys.exit(main(['demo', '--broker-only', '--records', '1000']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert "the demo does not add up: reading after a restart gave 999 of 1,000 orders" in done.stderr
    assert "Everything written was read" not in done.stdout


def test_without_java_the_demo_says_what_is_missing(tmp_path: Path) -> None:
    environment = {**os.environ, "JAVA_HOME": str(tmp_path), "PATH": "/nowhere"}
    done = subprocess.run(
        [*TIDELOG, "demo", "--records", "1000"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "The pipeline on Spark was left out. " in done.stdout
    assert "install" in done.stdout.partition("The pipeline on Spark was left out. ")[2].partition("\n")[0]
    assert "Everything written was read, once and in order" in done.stdout
