"""The `tidelog` command: finds the noun, imports its module and nothing else, and turns every failure into one line.

A noun is a module of this package with `add_parser(subparsers)`, which sets `run=`, and `run(args) -> exit code`.
The table below carries each noun's help, so that `tidelog --help` imports none of them.
Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted. TIDELOG_DEBUG=1 shows tracebacks.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from tidelog.cli.errors import EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_USAGE, CommandError

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
    "configs": ("tidelog.cli.configs", "show and change settings of topics, brokers and groups at run time"),
    "config": ("tidelog.cli.config", "explain the settings of a node and of topics"),
    "log": ("tidelog.cli.log", "dump and verify log segments offline"),
    "bench": ("tidelog.cli.bench", "measure a broker: throughput and latency"),
    "pipeline": ("tidelog.cli.pipeline", "run pipelines of SQL and Python steps on Spark"),
    "archive": ("tidelog.cli.archive", "write topics to a table (Parquet, Delta, Iceberg)"),
    "replay": ("tidelog.cli.replay", "write an archive back to a topic"),
    "audit": ("tidelog.cli.audit", "compare a topic with its archive"),
    "compact": ("tidelog.cli.compact", "merge the small files of a table"),
    "demo": ("tidelog.cli.demo", "a node, a topic and a pipeline on Spark, counted and shown"),
}
"""Noun -> the module that implements it and its line in `tidelog --help`."""


class CommandParser(argparse.ArgumentParser):
    """An argument parser whose errors are one line; subparsers inherit the class."""

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_USAGE, f"tidelog: {message} (see `{self.prog} --help`)\n")


def build_parser(noun: str | None = None) -> argparse.ArgumentParser:
    """The parser with `noun` in full; the other nouns are only named."""
    parser = CommandParser(
        prog="tidelog",
        description="A durable, partitioned event log that speaks Kafka's wire protocol.",
        epilog="`tidelog COMMAND --help` explains one. Clients find a broker by --bootstrap or TIDELOG_BOOTSTRAP.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and end")
    subparsers = parser.add_subparsers(dest="noun", metavar="COMMAND", title="commands")
    for name, (module_name, help_line) in NOUNS.items():
        if name == noun:
            _import(module_name).add_parser(subparsers)
        else:
            subparsers.add_parser(name, help=help_line, add_help=False)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line and returns its exit code; the entry point of the `tidelog` script."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _replace_closed_streams()
    try:
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
        return _fail(str(error), error.exit_code)
    except Exception as error:
        if _is_lost_interrupt(error):
            _abandon_output()
            return EXIT_INTERRUPTED
        if os.environ.get("TIDELOG_DEBUG"):
            raise
        return _fail(_explain(error), EXIT_FAILURE)


def _run(arguments: list[str]) -> int:
    noun = arguments[0] if arguments else None
    if noun is not None and not noun.startswith("-") and noun not in NOUNS:
        import difflib

        near = difflib.get_close_matches(noun, NOUNS, n=1)
        meant = f", did you mean `{near[0]}`?" if near else " (see `tidelog --help`)"
        return _fail(f"unknown command {noun}{meant}", EXIT_USAGE)
    parser = build_parser(noun)
    args, unknown = parser.parse_known_args(arguments)
    if unknown:
        asked = " ".join(["tidelog", *(getattr(args, level, None) or "" for level in ("noun", "verb"))]).strip()
        return _fail(f"unrecognized arguments: {' '.join(unknown)} (see `{asked} --help`)", EXIT_USAGE)
    if args.version:
        from tidelog.compiled import describe
        from tidelog.version import __version__

        print(f"tidelog {__version__}, data path: {describe()}")
        return 0
    if args.noun is None:
        parser.print_help(sys.stderr)
        return EXIT_USAGE
    code = args.run(args)
    # A full pipe or disk must be noticed here, where it can still be reported.
    sys.stdout.flush()
    return int(code)


def _replace_closed_streams() -> None:
    """Commands may read and write whatever the caller closed (`>&-`): then there is no input, and nobody to read."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - as long as the process lives


def _import(module_name: str) -> ModuleType:
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
