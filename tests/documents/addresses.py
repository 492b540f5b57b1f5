"""Where a command of a document would listen, found out with the commands' own parsers."""

from __future__ import annotations

import argparse
import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from tests.documents.terminals import Shell

from tidelog.cli.main import build_parser
from tidelog.cli.serve import collect_settings
from tidelog.config.listener import parse_address

_VARIABLE = re.compile(r"(?P<name>[A-Z_][A-Z0-9_]*)=(?P<value>.*)", re.DOTALL)


def addresses_of_server(text: str, shell: Shell) -> set[str]:
    """`HOST:PORT` of every listener; empty for a command that is not a server."""
    words = shlex.split(text, comments=True)
    variables = dict[str, str]()
    while words and (found := _VARIABLE.fullmatch(words[0])):
        variables[found["name"]] = found["value"]
        del words[0]
    if words[:2] == ["tidelog", "serve"]:
        return _of_serve(
            build_parser("serve").parse_args(words[1:]), shell.directory, {**shell.environment, **variables}
        )
    if words[:3] == ["tidelog", "cluster", "start"]:
        args = build_parser("cluster").parse_args(words[1:])
        host, port = parse_address(args.listen)
        return {f"{host}:{port + index}" for index in range(args.nodes)}
    return set()


def _of_serve(args: argparse.Namespace, directory: Path, environment: Mapping[str, str]) -> set[str]:
    before = os.getcwd()
    os.chdir(directory)
    try:
        config = collect_settings(args, dict(environment))[0].config
    finally:
        os.chdir(before)
    return {
        f"{listener.host}:{listener.port + index}"
        for listener in config.bound_listeners
        for index in range(args.nodes or 1)
    }
