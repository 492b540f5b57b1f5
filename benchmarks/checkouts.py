"""Source trees whose brokers are compared: this checkout, another directory, or a commit of this repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.servers.tidelog_node import Program, serve_environment

ROOT = Path(__file__).resolve().parents[1]
COMPILED_FROM = ("src", "tools", "pyproject.toml")
"""What is unpacked of a commit: all that running and compiling it takes."""
SERVE = "import sys; from tidelog.cli.main import main; sys.exit(main())"
"""What the installed command does, for a source tree that is not installed."""


class UnknownCheckout(Exception):
    """The message names what was asked for and why it cannot be used."""


class Checkout(NamedTuple):
    name: str
    """As it was asked for."""
    root: Path

    @property
    def python(self) -> Path:
        """Of its own environment, or of this one if it has none."""
        own = self.root / ".venv" / "bin" / "python"
        return own if own.exists() else Path(sys.executable)

    def program(self, *start: str, variables: Mapping[str, str] | None = None) -> Program:
        """Its `tidelog`, which refuses to run as plain Python; `start`: what its Python runs instead."""
        environment = serve_environment() | {"PYTHONPATH": str(self.root / "src"), "TIDELOG_COMPILED": "1"}
        return Program((str(self.python), *(start or ("-c", SERVE))), environment | dict(variables or {}))

    def compile(self) -> None:
        """Its data path, unless that is done already."""
        command = [str(self.python), str(self.root / "tools" / "compile_modules.py"), "--require"]
        environment = serve_environment() | {"PYTHONPATH": str(self.root / "src")}
        environment.pop("TIDELOG_COMPILED", None)
        if subprocess.run(command, env=environment, check=False).returncode:
            raise UnknownCheckout(f"{self.name} cannot be compiled; `make dev compiled` installs what that takes")


def find_checkout(name: str) -> Checkout:
    """By its directory, or by the name of a commit of this repository; its data path is compiled."""
    directory = Path(name).expanduser().resolve()
    root = directory if (directory / "src" / "tidelog").is_dir() else _unpack(name)
    checkout = Checkout(name, root)
    checkout.compile()
    return checkout


def _unpack(revision: str) -> Path:
    """The sources of a commit, kept for the next time: compiling them takes a minute."""
    asked = ["git", "rev-parse", "--quiet", "--verify", f"{revision}^{{commit}}"]
    found = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    if found.returncode:
        raise UnknownCheckout(f"{revision} is neither a checkout of Tidelog nor a commit of this one")
    commit = found.stdout.strip()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidelog" / "checkouts"
    target = cache / commit
    if target.exists():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as directory:
        archive = Path(directory) / "source.tar"
        subprocess.run(["git", "archive", "--output", str(archive), commit, *COMPILED_FROM], cwd=ROOT, check=True)
        with tarfile.open(archive) as opened:
            opened.extractall(Path(directory) / "source", filter="data")
        # In one step, so that a run that is interrupted leaves nothing that looks complete.
        shutil.move(Path(directory) / "source", target)
    return target
