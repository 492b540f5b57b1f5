"""Which sources a checkout stands for, and what its broker is started with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import checkouts
from benchmarks.checkouts import Checkout, UnknownCheckout, find_checkout


def test_a_checkout_uses_its_own_environment_or_this_one(tmp_path: Path) -> None:
    checkout = Checkout("x", tmp_path)
    assert checkout.python == Path(sys.executable)
    own = tmp_path / ".venv" / "bin" / "python"
    own.parent.mkdir(parents=True)
    own.touch()
    assert checkout.python == own


def test_the_program_of_a_checkout_runs_its_sources_compiled(tmp_path: Path) -> None:
    program = Checkout("x", tmp_path).program("start.py", variables={"A": "b"})
    assert list(program.command) == [sys.executable, "start.py"]
    found = {name: program.environment[name] for name in ("PYTHONPATH", "TIDELOG_COMPILED", "A")}
    assert found == {"PYTHONPATH": str(tmp_path / "src"), "TIDELOG_COMPILED": "1", "A": "b"}


def test_what_is_neither_a_checkout_nor_a_commit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownCheckout, match="neither a checkout of Tidelog nor a commit"):
        find_checkout(str(tmp_path))


def test_a_commit_is_unpacked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = tmp_path / "repository"
    (repository / "src" / "tidelog").mkdir(parents=True)
    (repository / "tools").mkdir()
    for name in ("src/tidelog/a.py", "tools/compile_modules.py", "pyproject.toml", "README.md"):
        (repository / name).write_text("# Nothing to compile.\n")
    identity = ("-c", "user.name=x", "-c", "user.email=x@x")
    for arguments in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-q", "--no-verify", "-m", "first"]):
        subprocess.run(["git", *arguments], cwd=repository, check=True)
    monkeypatch.setattr(checkouts, "ROOT", repository)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    first = find_checkout("HEAD").root
    assert sorted(str(path.relative_to(first)) for path in first.rglob("*") if path.is_file()) == [
        "pyproject.toml",
        "src/tidelog/a.py",
        "tools/compile_modules.py",
    ]
    (first / "kept").touch()
    assert (find_checkout("HEAD").root / "kept").exists()
