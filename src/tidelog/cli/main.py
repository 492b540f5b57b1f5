"""The `tidelog` command: finds the noun, imports its module and nothing else, and turns every failure into one line.

A noun is a module of this package with `add_parser(subparsers)`, which sets `run=`, and `run(args) -> exit code`.
The table below carries each noun's help, so that `tidelog --help` imports none of them.
Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted, 143 terminated. TIDELOG_DEBUG=1 shows tracebacks.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from tidelog.cli.errors import EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_USAGE, CommandError
from tidelog.cli.signals import interrupt_at_sigint, received_signal, watch_signals

if TYPE_CHECKING:
    from types import ModuleType

NOUNS: dict[str, tuple[str, str]] = {
    "serve": ("tidelog.cli.serve", "run a node"),
    "cluster": ("tidelog.cli.cluster", "start, watch and change a cluster"),
    "topics": ("tidelog.cli.topics", "create, list, describe, alter, move and delete topics"),
    "produce": ("tidelog.cli.produce", "write records to a topic"),
    "consume": ("tidelog.cli.consume", "read records of a topic"),
    "groups": ("tidelog.cli.groups", "list, describe, reset and delete consumer groups"),
    "transactions": ("tidelog.cli.transactions", "list, describe and abort transactions"),
    "config": ("tidelog.cli.config", "explain settings; show and change those of a running cluster"),
    "log": ("tidelog.cli.log", "dump and verify log segments offline"),
    "bench": ("tidelog.cli.bench", "measure a broker: throughput and latency"),
    "pipeline": ("tidelog.cli.pipeline", "run pipelines of SQL and Python steps on Spark"),
    "examples": ("tidelog.cli.examples", "pipelines to start from, with their data"),
    "archive": ("tidelog.cli.archive", "write topics to a table (Parquet, Delta, Iceberg)"),
    "replay": ("tidelog.cli.replay", "write an archive back to a topic"),
    "audit": ("tidelog.cli.audit", "compare a topic with its archive"),
    "compact": ("tidelog.cli.compact", "merge the small files of a table"),
    "profile": ("tidelog.cli.profile", "keep addresses and client settings of clusters by name"),
    "completion": ("tidelog.cli.completion", "completion of commands in bash, zsh and fish"),
    "demo": ("tidelog.cli.demo", "a node, a topic and a pipeline on Spark, counted and shown"),
}
"""Noun -> the module that implements it and its line in `tidelog --help`."""
EXAMPLES_TITLE = "examples:"
CONFIG_VERBS = ("explain", "list", "describe", "set", "unset")
_RUN_NODES = ("serve", "cluster")
"""Nouns that stop nodes in good order at a signal, in their own time."""


class CommandHelp(argparse.HelpFormatter):
    """Fills paragraphs to the width of the terminal, and leaves text that has lines as it is: examples, for one."""

    def add_argument(self, action: argparse.Action) -> None:
        """argparse does not count how far commands are indented, and would give the longest one two lines."""
        super().add_argument(action)
        if isinstance(action, argparse._SubParsersAction):
            longest = max(map(len, action.choices), default=0)
            self._action_max_length = max(self._action_max_length, self._current_indent + 2 + longest)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text else super()._fill_text(text, width, indent)


class CommandParser(argparse.ArgumentParser):
    """An argument parser whose errors are one line; subparsers inherit the class."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"formatter_class": CommandHelp, **options})

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_USAGE, f"tidelog: {message} (see `{self.prog} --help`)\n")


def build_parser(noun: str | None = None) -> argparse.ArgumentParser:
    """The parser with `noun` in full; the other nouns are only named."""
    parser = CommandParser(
        prog="tidelog",
        description="A durable, partitioned event log that speaks Kafka's wire protocol.",
        epilog="`tidelog COMMAND --help` explains one, `tidelog profile --help` how a command finds its broker.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and end")
    subparsers = parser.add_subparsers(dest="noun", metavar="COMMAND", title="commands")
    for name, (module_name, help_line) in NOUNS.items():
        if name == noun:
            import_noun(module_name).add_parser(subparsers)
            _add_examples(name, subparsers.choices[name])
        else:
            subparsers.add_parser(name, help=help_line, add_help=False)
    return parser


def _add_examples(path: str, parser: argparse.ArgumentParser) -> None:
    """Below the help of every command that has no commands below it."""
    from tidelog.cli.usage_examples import EXAMPLES

    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not below and path in EXAMPLES:
        lines = "".join(f"\n  {line}" for line in EXAMPLES[path])
        parser.epilog = f"{EXAMPLES_TITLE}{lines}"
    for action in below:
        for name, verb in action.choices.items():
            _add_examples(f"{path} {name}", verb)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line and returns its exit code; without `argv` that of this process, whose signals are its own."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _replace_closed_streams()
    code = _run_to_code(arguments, takes_signals=argv is None)
    # However a command took it: one that was ended by a signal says so.
    return 128 + received_signal() if received_signal() else code


def _run_to_code(arguments: list[str], *, takes_signals: bool) -> int:
    try:
        if takes_signals and arguments:
            if arguments[0] in _RUN_NODES:
                interrupt_at_sigint()
            else:
                watch_signals()
        return _run(arguments)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else EXIT_FAILURE
    except KeyboardInterrupt:
        _abandon_output()
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output went away (`tidelog consume t | head`): not an error, nothing left to say.
        _abandon_output()
        return 0
    except CommandError as error:
        if received_signal():
            # Ctrl-C reaches the JVM too: what goes wrong after it is not worth a line.
            return EXIT_INTERRUPTED
        return _fail(str(error), error.exit_code)
    except Exception as error:
        if received_signal() or _is_lost_interrupt(error):
            _abandon_output()
            return EXIT_INTERRUPTED
        if os.environ.get("TIDELOG_DEBUG"):
            raise
        return _fail(_explain(error), EXIT_FAILURE)


def _from_older_spelling(arguments: list[str]) -> list[str]:
    """`configs VERB` was a command of its own, and `config NAME` what is `config explain NAME` now."""
    if arguments[:1] == ["configs"]:
        return ["config", *arguments[1:]]
    if arguments[:1] == ["config"] and not {*arguments[1:2]} & {*CONFIG_VERBS, "-h", "--help"}:
        return ["config", "explain", *arguments[1:]]
    return arguments


def _run(arguments: list[str]) -> int:
    if arguments[:2] == ["completion", "--for"]:
        from tidelog.cli.completion import answer

        return answer(arguments[2:], build_parser)
    arguments = _from_older_spelling(arguments)
    noun = arguments[0] if arguments else None
    if noun is not None and not noun.startswith("-") and noun not in NOUNS:
        import difflib

        near = difflib.get_close_matches(noun, NOUNS, n=1)
        meant = f", did you mean `{near[0]}`?" if near else " (see `tidelog --help`)"
        return _fail(f"unknown command {noun}{meant}", EXIT_USAGE)
    if noun is not None and noun.startswith("--") and noun not in ("--help", "--version"):
        return _fail(f"unknown option {noun}; those of a command come after it (see `tidelog --help`)", EXIT_USAGE)
    parser = build_parser(noun)
    args, unknown = parser.parse_known_args(arguments)
    if unknown:
        asked = " ".join(["tidelog", *(getattr(args, level, None) or "" for level in ("noun", "verb"))]).strip()
        return _fail(f"unrecognized arguments: {' '.join(unknown)} (see `{asked} --help`)", EXIT_USAGE)
    if args.version:
        import platform

        from tidelog.compiled import describe
        from tidelog.version import __version__

        print(f"tidelog {__version__} (Python {platform.python_version()}, {describe()})")
        return 0
    if args.noun is None:
        parser.print_help(sys.stderr)
        return EXIT_USAGE
    if prepare := getattr(args, "prepare", None):
        prepare(args)
    code = args.run(args)
    # A full pipe or disk must be noticed here, where it can still be reported.
    sys.stdout.flush()
    return int(code)


def _replace_closed_streams() -> None:
    """Commands may read and write streams that the caller closed (`>&-`): then there is no input, and no reader."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - as long as the process lives


def import_noun(module_name: str) -> ModuleType:
    import importlib

    return importlib.import_module(module_name)


def _is_lost_interrupt(error: Exception) -> bool:
    """Ctrl-C while confluent-kafka calls back: it drops the KeyboardInterrupt, and Python finds an error missing."""
    return isinstance(error, SystemError) and "cimpl" in str(error) and "without setting an exception" in str(error)


def _explain(error: Exception) -> str:
    """One line for an error no command expected; broker errors say what the broker said."""
    if "confluent_kafka" in sys.modules:
        from tidelog.cli.clients import explain_kafka_error

        explained = explain_kafka_error(error)
        if explained:
            return explained
    if isinstance(error, UnicodeEncodeError):
        return f"{error.object!r} is not UTF-8, as names must be"
    text = " ".join(str(error).split()) or "no details"
    if isinstance(error, OSError):
        return text
    return f"{type(error).__name__}: {text} (TIDELOG_DEBUG=1 shows where)"


def _fail(message: str, exit_code: int) -> int:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _abandon_output()
    print(f"tidelog: {' '.join(message.split())}", file=sys.stderr)
    if os.environ.get("TIDELOG_DEBUG") and sys.exc_info()[0] is not None:
        import traceback

        traceback.print_exc()
    return exit_code


def _abandon_output() -> None:
    """Points standard output at nothing, so that the interpreter's last flush cannot fail."""
    try:
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
        os.close(devnull)
    except (OSError, ValueError):
        return


if __name__ == "__main__":
    sys.exit(main())
