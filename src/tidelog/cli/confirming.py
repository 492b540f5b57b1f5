"""Commands that take something away: asked for on a terminal, done for each name, reported for all of them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from tidelog.cli.clients import no_such, result_of
from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_json


def confirm(question: str) -> bool:
    """Asks on the terminal, where anything but yes is no. Without one, --yes has to say it."""
    if not sys.stdin.isatty():
        raise CommandError(f"{question} There is no terminal to ask on: give --yes to do it")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def delete_named(
    args: argparse.Namespace,
    names: list[str],
    kind: str,
    loses: str,
    delete: Callable[[list[str]], Mapping[str, Future[None]]],
) -> int:
    """Deletes things of one kind; what could be deleted is reported even when others could not."""
    if not args.yes and names and not confirm(f"delete {', '.join(names)} with {loses}?"):
        raise CommandError("nothing deleted")
    futures = delete(names) if names else {}
    deleted, problems = [], []
    for name in names:
        try:
            result_of(futures[name], f"cannot delete {kind} {name}", missing=no_such(kind, name))
            deleted.append(name)
        except CommandError as error:
            problems.append(str(error))
    if args.json:
        print_json({"deleted": deleted})
    else:
        for name in deleted:
            print(f"deleted {kind} {name}")
    if problems:
        raise CommandError("; ".join(problems))
    return 0
