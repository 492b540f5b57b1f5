"""Builds what is released: an sdist, a wheel for every Python and platform, and a compiled wheel for those of here.

Both wheels are built from the unpacked sdist, so that what it lacks is noticed here. The files do not depend on when or
where they are built. Without a C compiler there is no compiled wheel, and one line says so.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tools.compile_modules import CannotCompile, find_compiler  # noqa: E402

from tidelog import compiled  # noqa: E402


def build_sdist(target: Path) -> Path:
    return run_hatchling(ROOT, "sdist", target)


def build_wheel(sdist: Path, target: Path, *, is_compiled: bool = False) -> Path:
    with tempfile.TemporaryDirectory() as directory:
        with tarfile.open(sdist) as archive:
            archive.extractall(directory, filter="data")
        [source] = Path(directory).iterdir()
        if is_compiled and Path(compiled.DIRECTORY).exists():
            # Taken over only if it was made from the same sources: the build compares them.
            shutil.copytree(compiled.DIRECTORY, source / "src" / "tidelog" / "_compiled")
        return run_hatchling(source, "wheel", target, is_compiled=is_compiled)


def run_hatchling(source: Path, kind: str, target: Path, *, is_compiled: bool = False) -> Path:
    environment = {**os.environ, "TIDELOG_COMPILE_WHEEL": str(int(is_compiled))}
    environment.pop("SOURCE_DATE_EPOCH", None)
    with tempfile.TemporaryDirectory() as built:
        command = [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", built]
        done = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"the {kind} cannot be built:\n{done.stdout}{done.stderr}")
        [file] = Path(built).iterdir()
        target.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(file, target))


def why_not_compiled() -> str | None:
    try:
        find_compiler()
    except CannotCompile as error:
        return str(error)
    return None


def build_all(target: Path) -> list[Path]:
    sdist = build_sdist(target)
    packages = [sdist, build_wheel(sdist, target)]
    reason = why_not_compiled()
    if reason is None:
        packages.append(build_wheel(sdist, target, is_compiled=True))
    else:
        print(f"no compiled wheel was built: {reason}", file=sys.stderr)
    return packages


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--directory", type=Path, default=ROOT / "dist", help="where to (default: dist)")
    args = parser.parse_args()
    for package in build_all(args.directory):
        print(f"{package.stat().st_size / 1e6:6.1f} MB  {os.path.relpath(package)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
