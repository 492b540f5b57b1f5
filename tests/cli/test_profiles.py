"""`tidelog profile` and the commands that use a profile, against a real broker."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.command import Command


@pytest.fixture
def tidelog(bootstrap: str, tmp_path: Path) -> Command:
    """The command of a user who has profiles and no TIDELOG_BOOTSTRAP."""
    command = Command(bootstrap)
    del command.environment["TIDELOG_BOOTSTRAP"]
    command.environment["XDG_CONFIG_HOME"] = str(tmp_path / "config")
    return command


@pytest.fixture
def closed() -> str:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"


def test_the_profile_in_use_finds_the_broker(tidelog: Command, new_topic: Callable[..., str], closed: str) -> None:
    topic = new_topic()
    added = tidelog("profile", "add", "here", "--bootstrap", tidelog.bootstrap)
    assert "`tidelog profile use here`" in added.err
    assert topic in tidelog("topics", "list", "--profile", "here").out
    tidelog("profile", "add", "away", "--bootstrap", closed, "-X", "sasl.password=hush")
    tidelog("profile", "use", "here")
    assert topic in tidelog("topics", "list").out
    listed = tidelog("profile", "list", "--json").json
    assert [(item["name"], item["used"]) for item in listed] == [("away", False), ("here", True)]
    lines = tidelog("profile", "list").out.splitlines()
    assert [line.split() for line in lines] == [
        ["name", "bootstrap", "settings", "used"],
        ["away", closed, "1", "-"],
        ["here", tidelog.bootstrap, "-", "yes"],
    ]
    for arguments in (["topics", "list"], ["transactions", "list"], ["cluster", "status"]):
        failed = tidelog(*arguments, "--profile", "away", fails=True).err
        assert f"no broker answers at {closed} (connection refused); the address is from profile away; " in failed
    assert topic in tidelog("topics", "list", "--profile", "away", "-b", tidelog.bootstrap).out
    tidelog.environment["TIDELOG_PROFILE"] = "away"
    assert "profile away" in tidelog("topics", "list", fails=True).err
    assert "wins over profile here" in tidelog("profile", "use", "here").err
    tidelog.environment["TIDELOG_BOOTSTRAP"] = tidelog.bootstrap
    assert topic in tidelog("topics", "list").out


def test_secrets_stay_in_the_file(tidelog: Command) -> None:
    settings = ["-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.username=me", "-X", "sasl.password=hush"]
    tidelog("profile", "add", "prod", "-b", "kafka:9092", *settings, "-X", "sasl.mechanism=PLAIN", "--use")
    for arguments in (["show"], ["show", "prod"], ["show", "prod", "--json"], ["list", "--json"]):
        shown = tidelog("profile", *arguments).out
        assert "SASL_PLAINTEXT" in shown
        assert "(hidden)" in shown
        assert "hush" not in shown


def test_what_is_wrong_is_one_line_and_changes_nothing(tidelog: Command) -> None:
    tidelog("profile", "add", "prod", "-b", "kafka:9092")
    for arguments, problem in [
        (["add", "prod", "-b", "other:1"], "there is a profile prod already; --replace changes it"),
        (["add", "a b", "-b", "other:1"], "'a b' is no name for a profile"),
        (["add", "c", "-b", "other:port"], "--bootstrap: an address is HOST:PORT"),
        (["add", "c", "-b", "other:1", "-X", "sasl"], "-X needs NAME=VALUE"),
        (["add", "c", "-b", "other:1", "-X", "sasl.user=me"], '-X: No such configuration property: "sasl.user"'),
        (["add", "c"], "the following arguments are required: -b/--bootstrap"),
        (["use", "prd"], "there is no profile prd; did you mean prod?"),
        (["use"], "name a profile to use, or give --none"),
        (["use", "prod", "--none"], "name a profile to use, or give --none"),
        (["show"], "no profile is used"),
        (["show", "c"], "there is no profile c"),
        (["remove", "c", "--yes"], "there is no profile c"),
        (["remove", "prod"], "give --yes"),
    ]:
        assert problem in tidelog("profile", *arguments, fails=True).err
    listed = tidelog("profile", "list", "--json").json
    assert listed == [{"name": "prod", "bootstrap": "kafka:9092", "client": {}, "used": False}]


def test_remove_asks_on_a_terminal(tidelog: Command) -> None:
    tidelog("profile", "add", "prod", "-b", "kafka:9092", "--use")
    kept = tidelog.answering(b"no\n", "profile", "remove", "prod")
    question = "remove profile prod (kafka:9092)? Commands use it now. [y/N] "
    assert (kept.code, kept.err) == (1, f"{question}tidelog: nothing removed\n")
    gone = tidelog.answering(b"y\n", "profile", "remove", "prod")
    assert (gone.code, gone.out) == (0, "removed profile prod; no profile is used now\n")
    assert "no profiles yet" in tidelog("profile", "list").err


def test_a_file_that_is_wrong(tidelog: Command) -> None:
    path = Path(tidelog.environment["XDG_CONFIG_HOME"]) / "tidelog" / "profiles.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("use: prod\nprofiles: {prod: {bootstrp: a:1}}\n")
    for arguments in (["topics", "list"], ["profile", "list"], ["groups", "list", "--profile", "prod"]):
        expected = f"tidelog: {path}: profiles.prod.bootstrp: is not known here; did you mean bootstrap?\n"
        assert tidelog(*arguments, fails=True).err == expected
    path.write_text("use: gone\nprofiles: {prod: {bootstrap: 'a:1'}}\n")
    assert "use: there is no profile gone" in tidelog("topics", "list", fails=True).err
    assert "a:1" in tidelog("profile", "list").out
    assert tidelog("profile", "use", "prod").out == "commands use profile prod now (a:1)\n"


def test_spark_commands_and_pipeline_files(tidelog: Command, tmp_path: Path, closed: str) -> None:
    pytest.importorskip("pyspark")
    tidelog("profile", "add", "away", "-b", closed, "--use")
    file = tmp_path / "shop.yaml"
    sources = "sources: {a: {topic: t, value: text}}\nsinks: {s: {from: a, console: true}}\n"
    table = str(tmp_path / "table")
    file.write_text(sources)
    for arguments in (["archive", "t", "--to", table], ["pipeline", "run", str(file)], ["pipeline", "plan", str(file)]):
        failed = tidelog(*arguments, fails=True).err
        assert f"no broker answers at {closed}: " in failed
        assert failed.endswith("(the address is from profile away)\n")
    # The file names a broker of its own, or asks for that of the profile.
    file.write_text(f"bootstrap: 127.0.0.1:1\n{sources}")
    assert "profile" not in tidelog("pipeline", "run", str(file), fails=True).err
    assert "profile away" in tidelog("pipeline", "run", str(file), "--profile", "away", fails=True).err
    file.write_text(f"bootstrap: ${{TIDELOG_BOOTSTRAP}}\n{sources}")
    assert tidelog("pipeline", "validate", str(file)).code == 0
    assert "profile away" in tidelog("pipeline", "run", str(file), fails=True).err
    tidelog("profile", "use", "--none")
    assert "environment variable TIDELOG_BOOTSTRAP is not set" in tidelog("pipeline", "run", str(file), fails=True).err
