"""What `make dist` puts into the packages, and which of them pip takes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_string
from pathlib import Path

import pytest
from tests.packages.conftest import Packages
from tests.packages.environments import ROOT
from tools.build_hook import glibc_tag
from tools.build_packages import build_all

import tidelog

INFO = f"tidelog-{tidelog.__version__}.dist-info"


def files_of(package: Path) -> dict[str, bytes]:
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as wheel:
            return {name: wheel.read(name) for name in wheel.namelist()}
    with tarfile.open(package) as archive:
        members = [member for member in archive.getmembers() if member.isfile()]
        found = {member.name.partition("/")[2]: archive.extractfile(member) for member in members}
        return {name: file.read() for name, file in found.items() if file is not None}


def files_of_examples() -> set[str]:
    """Those that git knows: what an example has written when it was tried belongs to no package."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "."],
        cwd=ROOT / "examples",
        capture_output=True,
        text=True,
        check=True,
    )
    return set(listed.stdout.split())


def test_the_sdist_has_what_builds_the_package_and_nothing_else(packages: Packages) -> None:
    names = set(files_of(packages.sdist))
    sources = {path.relative_to(ROOT).as_posix() for path in (ROOT / "src").rglob("*.py")} | {"src/tidelog/py.typed"}
    assert sources <= names
    assert {name for name in names if not name.startswith("src/tidelog/")} == {
        *(f"examples/{name}" for name in files_of_examples()),
        *("pyproject.toml", "PKG-INFO", "README.md", "LICENSE", "CHANGELOG.md", ".gitignore"),
        *("tools/build_hook.py", "tools/compile_modules.py"),
        *("requirements/compile.txt", "requirements/runtime.txt"),
    }
    assert [name for name in names if name.endswith((".pyc", ".so", ".sources"))] == []
    assert packages.sdist.stat().st_size < 3_000_000


def test_the_plain_wheel_is_described_for_its_readers(packages: Packages) -> None:
    files = files_of(packages.plain_wheel)
    assert packages.plain_wheel.name == f"tidelog-{tidelog.__version__}-py3-none-any.whl"
    assert "tidelog/py.typed" in files
    assert {name.removeprefix("tidelog/examples/") for name in files if "/examples/" in name} == files_of_examples()
    assert files[f"{INFO}/licenses/LICENSE"] == (ROOT / "LICENSE").read_bytes()
    metadata = message_from_string(files[f"{INFO}/METADATA"].decode())
    assert metadata["Version"] == tidelog.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload().startswith("# Tidelog")
    assert {"admin", "spark"} <= set(metadata.get_all("Provides-Extra", []))
    points = files[f"{INFO}/entry_points.txt"].decode()
    assert "tidelog = tidelog.cli.script:main" in points
    assert "tidelog = tidelog.testing.plugin" in points


def test_the_compiled_wheel_is_the_plain_one_and_a_library(packages: Packages) -> None:
    wheel = packages.named("compiled_wheel")
    plain, compiled = files_of(packages.plain_wheel), files_of(wheel)
    added = set(compiled) - set(plain)
    assert len(added) == 2
    assert all(name.startswith("tidelog/_compiled/") for name in added)
    changed = {name for name in plain if plain[name] != compiled[name]}
    assert changed == {f"{INFO}/RECORD", f"{INFO}/WHEEL"}
    assert b"Root-Is-Purelib: false" in compiled[f"{INFO}/WHEEL"]
    for name in added:
        assert str(ROOT).encode() not in compiled[name], "a path of the machine that built it"


def test_building_again_gives_the_same_files(packages: Packages, tmp_path: Path) -> None:
    # The time of a file is not part of it.
    for name in ("src/tidelog/py.typed", "LICENSE"):
        os.utime(ROOT / name)
    # Nor is what a pipeline leaves behind that was run where it stands.
    left = ROOT / "examples" / ".tidelog" / "checkpoints"
    left.mkdir(parents=True, exist_ok=True)
    (left / "offsets").touch()
    try:
        again = build_all(tmp_path)
    finally:
        (left / "offsets").unlink()
    assert sorted(package.name for package in again) == sorted(path.name for path in packages.directory.iterdir())
    for package in again:
        assert package.read_bytes() == (packages.directory / package.name).read_bytes(), package.name


@pytest.mark.parametrize("arguments", [[], ["--python-version", "3.99", "--only-binary", ":all:"]])
def test_pip_takes_the_compiled_wheel_where_it_fits(packages: Packages, tmp_path: Path, arguments: list[str]) -> None:
    packages.named("compiled_wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps", "--no-index"]
    command = [*pip, "--find-links", str(packages.directory), "--dest", str(tmp_path), *arguments, "tidelog"]
    environment = {name: value for name, value in os.environ.items() if name != "PIP_FIND_LINKS"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    [taken] = [path.name for path in tmp_path.iterdir()]
    assert taken == (packages.plain_wheel if arguments else packages.named("compiled_wheel")).name


def test_without_a_c_compiler_one_line_says_so(tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": str(tmp_path / "nothing"), "CC": ""}
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "build_packages.py"), "--directory", str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == "no compiled wheel was built: there is no C compiler\n"
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".gz", ".whl"]


def test_the_tag_names_the_glibc_that_a_library_needs(tmp_path: Path) -> None:
    library = tmp_path / "library.so"
    library.write_bytes(b"\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.9\0")
    assert re.fullmatch(r"cp3\d+-cp3\d+t?-manylinux_2_34_\w+", glibc_tag(library))
    library.write_bytes(b"\0GLIBC_2.2.5\0")
    assert "-manylinux_2_17_" in glibc_tag(library)
