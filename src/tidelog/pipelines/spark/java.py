"""The Java that Spark will use: found as Spark finds it (JAVA_HOME, then PATH) and checked before a JVM is started."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tidelog.pipelines.errors import MissingRequirement

VERSION_MIN = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_ANSWER_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java that runs Spark."""

    executable: Path
    version: int
    """The feature release: 17, 21, ..."""


def find_java() -> Java:
    """The Java that Spark would start. Raises MissingRequirement with one line when there is none that fits."""
    executable = _locate()
    try:
        answer = subprocess.run(
            [executable, "-version"], capture_output=True, text=True, check=False, timeout=_ANSWER_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MissingRequirement(f"{executable} cannot be run ({error}); {_advice()}") from None
    return Java(executable=executable, version=check_version(executable, answer.stderr + answer.stdout))


def check_version(executable: Path, text: str) -> int:
    """The feature release that `java -version` printed, if Spark runs on it."""
    found = _VERSION.search(text)
    if found is None:
        first = text.strip().partition("\n")[0] or "nothing"
        raise MissingRequirement(f"{executable} -version answered {first!r}, not a version; {_advice()}")
    version = int(found.group(1))
    if version < VERSION_MIN:
        raise MissingRequirement(f"{executable} is Java {version}; {_advice()}")
    return version


def _locate() -> Path:
    home = os.environ.get("JAVA_HOME")
    if home:
        executable = Path(home) / "bin" / "java"
        if not executable.is_file():
            raise MissingRequirement(f"JAVA_HOME={home} has no bin/java; {_advice()}")
        return executable
    found = shutil.which("java")
    if found is None:
        raise MissingRequirement(f"java is not on PATH and JAVA_HOME is not set; {_advice()}")
    return Path(found)


def _advice() -> str:
    return f"Spark needs Java {VERSION_MIN} or newer: install it, or set JAVA_HOME to one"
