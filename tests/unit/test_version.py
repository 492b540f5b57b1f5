"""The version stands in one place, and the changelog agrees with it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tidelog.version import __version__

ROOT = Path(__file__).resolve().parents[2]


def find_fault(changelog: str, version: str) -> str | None:
    """What is wrong with the newest section for a package of this version; None if they agree."""
    section = re.search(r"^## (.*)$", changelog, re.MULTILINE)
    if section is None:
        return "there is no section"
    heading = re.fullmatch(r"\[(\d+\.\d+\.\d+)\] - (unreleased|\d{4}-\d{2}-\d{2})", section[1])
    if heading is None:
        return f"the newest section is not `[x.y.z] - date` or `[x.y.z] - unreleased`: {section[1]}"
    if heading[1] != version:
        return f"the newest section is {heading[1]}, the package is {version}"
    return None


def test_the_newest_section_of_the_changelog_is_this_version() -> None:
    assert find_fault((ROOT / "CHANGELOG.md").read_text(), __version__) is None


@pytest.mark.parametrize(
    ("newest", "is_right"),
    [
        ("[1.2.3] - unreleased", True),
        ("[1.2.3] - 2026-11-18", True),
        ("[1.2.4] - unreleased", False),
        ("[1.2.3]", False),
        ("[1.2.3] - soon", False),
        ("Unreleased", False),
    ],
)
def test_what_does_not_agree_is_found(newest: str, is_right: bool) -> None:
    assert (find_fault(f"# Changelog\n\n## {newest}\n\n## [1.2.2] - 2026-01-01\n", "1.2.3") is None) is is_right
    assert find_fault("# Changelog\n", "1.2.3") == "there is no section"


def test_no_other_file_states_the_version() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert settings["project"]["dynamic"] == ["version"]
    assert settings["tool"]["hatch"]["version"]["path"] == "src/tidelog/version.py"
    stated = [
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / "src").rglob("*.py"))
        if re.search(r"""^__version__\s*[:=]|^VERSION = ["']\d""", path.read_text(), re.MULTILINE)
    ]
    assert stated == ["src/tidelog/version.py"]
