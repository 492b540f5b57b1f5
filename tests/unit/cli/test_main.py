"""The entry point: one line per failure, exit codes, and no import that was not asked for."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import types
from platform import python_version

import pytest

from tidelog.cli import main as entry
from tidelog.cli.errors import CommandError, UsageError
from tidelog.compiled import describe
from tidelog.version import __version__


def run_with(monkeypatch: pytest.MonkeyPatch, failure: BaseException | int) -> int:
    """Runs a noun whose `run` raises or returns `failure`."""

    def run(_args: argparse.Namespace) -> int:
        if isinstance(failure, int):
            return failure
        raise failure

    def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
        subparsers.add_parser("topics").set_defaults(run=run)

    monkeypatch.delenv("TIDELOG_DEBUG", raising=False)
    monkeypatch.setattr(entry, "import_noun", lambda name: types.SimpleNamespace(add_parser=add_parser))
    return entry.main(["topics"])


@pytest.mark.parametrize("code", [0, 3])
def test_the_exit_code_is_that_of_the_noun(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    assert run_with(monkeypatch, code) == code


@pytest.mark.parametrize(
    ("failure", "code", "line"),
    [
        (CommandError("no such topic;\n make it"), 1, "tidelog: no such topic; make it\n"),
        (UsageError("give one"), 2, "tidelog: give one\n"),
        (ValueError("odd"), 1, "tidelog: ValueError: odd (TIDELOG_DEBUG=1 shows where)\n"),
        (
            UnicodeEncodeError("utf-8", "t\udcff", 1, 2, "surrogates"),
            1,
            "tidelog: 't\\udcff' is not UTF-8, as names must be\n",
        ),
        (FileNotFoundError(2, "No such file", "x"), 1, "tidelog: [Errno 2] No such file: 'x'\n"),
    ],
)
def test_a_failure_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], failure: Exception, code: int, line: str
) -> None:
    assert run_with(monkeypatch, failure) == code
    assert capsys.readouterr().err == line


def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def set_debug(name: str) -> types.SimpleNamespace:
        monkeypatch.setenv("TIDELOG_DEBUG", "1")

        def fail(_args: argparse.Namespace) -> int:
            raise ValueError("odd")

        return types.SimpleNamespace(add_parser=lambda subparsers: subparsers.add_parser("log").set_defaults(run=fail))

    monkeypatch.setattr(entry, "import_noun", set_debug)
    with pytest.raises(ValueError, match="odd"):
        entry.main(["log"])


def test_an_interrupt_is_quiet(capfd: pytest.CaptureFixture[str]) -> None:
    script = (
        "import sys, types, tidelog.cli.main as m\n"
        "def run(args): raise KeyboardInterrupt\n"
        "log = types.SimpleNamespace(add_parser=lambda s: s.add_parser('log').set_defaults(run=run))\n"
        "m.import_noun = lambda name: log\n"
        "sys.exit(m.main(['log']))\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 130
    assert capfd.readouterr() == ("", "")


def test_a_reader_that_goes_away_is_no_error() -> None:
    script = (
        "import sys, types, tidelog.cli.main as m\n"
        "def run(args):\n"
        "    for n in range(200_000): print(n)\n"
        "    return 0\n"
        "log = types.SimpleNamespace(add_parser=lambda s: s.add_parser('log').set_defaults(run=run))\n"
        "m.import_noun = lambda name: log\n"
        "sys.exit(m.main(['log']))\n"
    )
    read, write = os.pipe()
    process = subprocess.Popen([sys.executable, "-c", script], stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    os.read(read, 10)
    os.close(read)
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (0, b"")


@pytest.mark.parametrize(("word", "hint"), [("topic", "did you mean `topics`?"), ("zzz", "(see `tidelog --help`)")])
def test_an_unknown_command_is_wrong_usage(capsys: pytest.CaptureFixture[str], word: str, hint: str) -> None:
    assert entry.main([word]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"tidelog: unknown command {word}")
    assert captured.err.count("\n") == 1
    assert hint in captured.err


def test_an_option_before_the_command_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["--profile", "prod", "topics", "list"]) == 2
    expected = "tidelog: unknown option --profile; those of a command come after it (see `tidelog --help`)\n"
    assert capsys.readouterr().err == expected


def test_wrong_arguments_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["topics", "create"]) == 2
    error = capsys.readouterr().err
    assert error == "tidelog: the following arguments are required: NAME (see `tidelog topics create --help`)\n"


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main([]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert all(noun in captured.err for noun in entry.NOUNS)


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["--version"]) == 0
    assert capsys.readouterr().out == f"tidelog {__version__} (Python {python_version()}, {describe()})\n"


@pytest.mark.parametrize("noun", ["topics", "produce", "consume", "groups", "config", "bench", "demo"])
def test_every_noun_explains_itself(capsys: pytest.CaptureFixture[str], noun: str) -> None:
    assert entry.main([noun, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"usage: tidelog {noun}")


@pytest.mark.parametrize("noun", ["topics", "produce", "consume", "groups", "config", "bench", "demo"])
def test_the_table_and_the_noun_say_the_same(capsys: pytest.CaptureFixture[str], noun: str) -> None:
    full = entry.build_parser(noun).format_help()
    assert entry.NOUNS[noun][1] in " ".join(full.split())


@pytest.mark.parametrize("arguments", [["--help"], ["topics", "create", "--help"], ["demo", "--help"]])
def test_only_what_is_needed_is_imported(arguments: list[str]) -> None:
    script = (
        "import sys\n"
        "from tidelog.cli.main import main\n"
        "main(sys.argv[1:])\n"
        "print(','.join(sys.modules), file=sys.stderr)\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True, env=environment
    )
    loaded = set(done.stderr.strip().split(","))
    assert "tidelog.cli.main" in loaded
    heavy = {"confluent_kafka", "rich", "asyncio", "yaml", "uvloop", "tidelog.node.node", "tidelog.cli.serve"}
    assert not loaded & heavy
    nouns = {module for module, _ in entry.NOUNS.values()}
    wanted = {entry.NOUNS[arguments[0]][0]} if arguments[0] in entry.NOUNS else set()
    assert loaded & nouns == wanted


def test_an_interrupt_that_the_client_library_lost(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(entry, "_abandon_output", lambda: None)
    lost = SystemError("<method 'poll' of 'cimpl.Producer' objects> returned NULL without setting an exception")
    assert run_with(monkeypatch, lost) == 130
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("failure", [CommandError("the JVM is gone"), ConnectionError("refused")])
def test_what_goes_wrong_after_a_signal_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], failure: Exception
) -> None:
    monkeypatch.setattr(entry, "_abandon_output", lambda: None)
    monkeypatch.setattr(entry, "received_signal", lambda: 15)
    assert run_with(monkeypatch, failure) == 143
    assert capsys.readouterr().err == ""


def test_help_shows_percent_signs_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["consume", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "%t topic" in shown
    assert "%%" not in shown
