"""Fresh environments with a package in them, as a user has them: no checkout in sight.

What they need is downloaded by pip, so the registry is the one pip is configured for, with the locked versions and
hashes, once for all runs (`.cache/packages`). uv installs from there in a fraction of a second, without a network.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.servers.tools import missing

ROOT = Path(__file__).resolve().parents[2]
RUNNING = f"3.{sys.version_info.minor}"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
FOR_TESTS = {"pytest", "iniconfig", "packaging", "pluggy", "pygments"}
"""pytest and what it depends on."""

COMMAND_SECONDS_MAX = 100


def user_environment(**extra: str) -> dict[str, str]:
    """This process's variables without those that would let the checkout in."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TIDELOG_", "PYTEST_"))}
    for name in ("PYTHONPATH", "VIRTUAL_ENV"):
        kept.pop(name, None)
    return {**kept, **extra}


def run(*command: str | Path, cwd: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=user_environment(**extra),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=COMMAND_SECONDS_MAX,
    )


def find_python(version: str) -> str | None:
    """An interpreter of this version, on PATH or kept by pyenv."""
    if version == RUNNING:
        return sys.executable
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions").glob(f"{version}.*/bin/python")
    for candidate in (shutil.which(f"python{version}"), *map(str, sorted(kept))):
        if candidate is None:
            continue
        asked = subprocess.run(
            [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
            capture_output=True,
            text=True,
            check=False,
        )
        if asked.stdout.strip() == version:
            return candidate
    return None


def locked_requirements() -> str:
    """The lines of the locks that an installation, a build from the sdist and pytest need."""
    names = set(FOR_TESTS)
    for lock in ("runtime.txt", "build.txt"):
        names |= set(re.findall(r"^([a-z0-9.-]+)==", Path(ROOT, "requirements", lock).read_text(), re.MULTILINE))
    blocks = re.split(r"^(?=[a-z0-9])", Path(ROOT, "requirements", "dev.txt").read_text(), flags=re.MULTILINE)
    return "".join(block for block in blocks if block.partition("==")[0] in names)


def download_packages(version: str) -> Path:
    """A directory of wheels for this Python."""
    requirements = locked_requirements()
    digest = hashlib.sha256(requirements.encode()).hexdigest()[:12]
    target = ROOT / ".cache" / "packages" / f"{digest}-{version}"
    if target.exists():
        return target
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    part.mkdir(parents=True)
    (part / "requirements.txt").write_text(requirements)
    download = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--dest", str(part)]
    which = ["--only-binary", ":all:", "--python-version", version]
    locked = ["--require-hashes", "-r", str(part / "requirements.txt")]
    done = subprocess.run([*download, *which, *locked], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        shutil.rmtree(part)
        missing(f"packages for Python {version}: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
    part.rename(target)
    return target


class Environment:
    """A virtual environment with one package of Tidelog and pytest, and a directory to work in."""

    def __init__(self, directory: Path, version: str, package: Path) -> None:
        self.version = version
        self.project = directory / "project"
        self.project.mkdir()
        self.python = directory / "environment" / "bin" / "python"
        self.command = self.python.with_name("tidelog")
        interpreter = find_python(version)
        assert interpreter is not None
        wheels = download_packages(version)
        self._uv("venv", "--python", interpreter, self.python.parents[1])
        self._uv(
            *("pip", "install", "--no-index", "--find-links", wheels, "--python", self.python),
            *("--refresh-package", "tidelog", package, "pytest"),
        )

    def _uv(self, *arguments: str | Path) -> None:
        uv = Path(sys.executable).with_name("uv")
        done = run(uv, *arguments, "--quiet", "--no-config", cwd=self.project, UV_LINK_MODE="hardlink")
        assert done.returncode == 0, done.stderr

    def tidelog(self, *arguments: str, stdin: str = "", **extra: str) -> str:
        """What the command prints; it has to succeed."""
        done = subprocess.run(
            [self.command, *arguments],
            cwd=self.project,
            env=user_environment(**extra),
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_SECONDS_MAX,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def installed(self) -> set[str]:
        code = "import importlib.metadata as m; print(*(d.metadata['Name'].lower() for d in m.distributions()))"
        return set(run(self.python, "-c", code, cwd=self.project).stdout.split())
