"""Completion in real shells: keys are typed on a terminal, and what the line becomes is read from it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import shutil
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cli.command import Command

SECONDS_MAX = 30.0
START = {
    "bash": (["bash", "--noprofile", "--norc", "-i"], "source <(tidelog completion bash)"),
    "zsh": (
        ["zsh", "-f", "-i"],
        "autoload -Uz compinit && compinit -u -D && unset zle_bracketed_paste && source <(tidelog completion zsh)",
    ),
}
_ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|[=>]|\][^\x07]*\x07)|\r|\x07")

_TAKEN_BACK = re.compile(r"[^\b]?\x08")


@pytest.fixture
def environment(tidelog: Command, tmp_path: Path) -> dict[str, str]:
    """That of a user who has `tidelog` on the path."""
    program = tmp_path / "bin" / "tidelog"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m tidelog.cli.main "$@"\n')
    program.chmod(0o755)
    return {
        **tidelog.environment,
        "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "ZDOTDIR": str(tmp_path),
        "TERM": "dumb",
    }


class Typing:
    """A shell on a terminal."""

    def __init__(self, shell: str, environment: dict[str, str], directory: Path) -> None:
        command, load = START[shell]
        if shutil.which(shell) is None:
            pytest.skip(f"{shell} is not on this machine")
        self._ours, theirs = pty.openpty()
        # Wide enough for every line: shells scroll longer ones.
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 200, 0, 0))
        self._process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=directory, start_new_session=True
        )
        os.close(theirs)
        self._shown = ""
        # The answer is not in what is typed.
        self.type(f"{load} && echo load''ed\n", "loaded\n")

    def type(self, keys: str, expected: str) -> None:
        """Types, and waits until the terminal shows the text."""
        self._shown = ""
        os.write(self._ours, keys.encode())
        deadline_s = time.monotonic() + SECONDS_MAX
        while expected not in self._shown:
            ready, _, _ = select.select([self._ours], [], [], max(0.0, deadline_s - time.monotonic()))
            assert ready, f"no {expected!r} in {self._shown!r}"
            self._shown = _ESCAPES.sub("", self._shown + os.read(self._ours, 65536).decode())
            while "\b" in self._shown:
                self._shown = _TAKEN_BACK.sub("", self._shown)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._ours)


@pytest.fixture(params=sorted(START))
def typing(request: pytest.FixtureRequest, environment: dict[str, str], tmp_path: Path) -> Iterator[Typing]:
    opened = Typing(request.param, environment, tmp_path)
    yield opened
    opened.close()


CLEAR = "\x15"


def test_a_line_is_completed(typing: Typing, new_topic: Callable[..., str], tmp_path: Path) -> None:
    topic = new_topic()
    typing.type("tidelog top\t", "tidelog topics ")
    typing.type("crea\t--par\t", "create --partitions ")
    typing.type(f"{CLEAR}tidelog topics describe {topic[:-4]}\t", f"{topic} ")
    typing.type(f"{CLEAR}tidelog bench --acks=al\t", "--acks=all ")
    # The word goes on after the name of a setting.
    typing.type(f"{CLEAR}tidelog topics create t -c cleanup.pol\tcom\t", "cleanup.policy=compact ")
    (tmp_path / "shop.yaml").touch()
    (tmp_path / "data-here").mkdir()
    typing.type(f"{CLEAR}tidelog pipeline run sho\t", "shop.yaml ")
    typing.type(f"{CLEAR}tidelog serve --data dat\t", "data-here/")


def fish(line: str, environment: dict[str, str], directory: Path) -> list[list[str]]:
    """What fish offers for a line: text and description."""
    if shutil.which("fish") is None:
        pytest.skip("fish is not on this machine")
    script = 'tidelog completion fish | source; complete -C "$argv[1]"'
    done = subprocess.run(
        ["fish", "--no-config", "-c", script, line],
        capture_output=True,
        text=True,
        env=environment,
        cwd=directory,
        timeout=SECONDS_MAX,
        check=True,
    )
    assert done.stderr == ""
    return [offered.split("\t") for offered in done.stdout.splitlines()]


def test_fish(environment: dict[str, str], new_topic: Callable[..., str], tmp_path: Path) -> None:
    topic = new_topic()
    assert fish("tidelog top", environment, tmp_path) == [
        ["topics", "create, list, describe, alter, move and delete topics"]
    ]
    [[option, description]] = fish("tidelog topics create --par", environment, tmp_path)
    assert (option, description) == ("--partitions", "number of partitions (default: the broker's)")
    assert fish(f"tidelog topics describe {topic[:-4]}", environment, tmp_path) == [[topic]]
    assert fish("tidelog bench --acks=al", environment, tmp_path) == [["--acks=all"]]
    (tmp_path / "shop.yaml").touch()
    (tmp_path / "data-here").mkdir()
    assert fish("tidelog pipeline run sho", environment, tmp_path)[0][0] == "shop.yaml"
    assert fish("tidelog serve --data dat", environment, tmp_path)[0][0] == "data-here/"


def answer(tidelog: Command, *words: str) -> list[str]:
    return tidelog("completion", "--for", "fish", "--", *words).out.splitlines()


def test_what_a_broker_knows(tidelog: Command, new_topic: Callable[..., str], new_name: Callable[[], str]) -> None:
    topic, other, group = new_topic(), new_topic(), new_name()
    tidelog("produce", topic, "--value", "v")
    tidelog("consume", topic, "--group", group)
    offered = answer(tidelog, "topics", "delete", topic, "")
    assert other in offered
    assert topic not in offered
    assert answer(tidelog, "groups", "describe", group[:-3]) == ["values", group]
    assert answer(tidelog, "config", "describe", "group", group[:-3]) == ["values", group]
    assert answer(tidelog, "cluster", "drain", "")[1].partition("\t")[0] == "1"
    elsewhere = Command("127.0.0.1:1")
    assert answer(elsewhere, "consume", topic[:-3]) == ["values"]
    assert answer(elsewhere, "consume", "-b", tidelog.bootstrap, topic[:-3]) == ["values", topic]


def test_transactional_ids(tidelog: Command, new_topic: Callable[..., str], new_name: Callable[[], str]) -> None:
    from confluent_kafka import Producer

    topic, name = new_topic(), new_name()
    producer = Producer({"bootstrap.servers": tidelog.bootstrap, "transactional.id": name})
    producer.init_transactions(SECONDS_MAX)
    producer.begin_transaction()
    producer.produce(topic, b"v")
    producer.commit_transaction(SECONDS_MAX)
    [_, offered] = answer(tidelog, "transactions", "describe", name[:-3])
    assert offered.partition("\t")[0] == name


def test_a_broker_that_says_nothing_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        tidelog = Command(f"127.0.0.1:{server.getsockname()[1]}")
        started_s = time.monotonic()
        assert answer(tidelog, "consume", "") == ["values"]
        assert time.monotonic() - started_s < 5


@pytest.mark.parametrize("arguments", [[], ["bash"], ["bash", "tidelog t"], ["tcsh", "--", "t"], ["zsh"]])
def test_a_script_of_another_version_gets_no_message(tidelog: Command, arguments: list[str]) -> None:
    done = tidelog("completion", "--for", *arguments)
    assert (done.code, done.err) == (0, "")


def test_the_scripts_are_taken_by_their_shells(tidelog: Command, tmp_path: Path) -> None:
    for shell in ("bash", "zsh", "fish"):
        script = tmp_path / shell
        script.write_text(tidelog("completion", shell).out)
        with contextlib.suppress(FileNotFoundError):
            subprocess.run([shell, "-n", str(script)], check=True, timeout=SECONDS_MAX)
