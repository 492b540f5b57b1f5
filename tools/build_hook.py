"""Building a wheel: plain Python, or with the data path compiled for this platform if TIDELOG_COMPILE_WHEEL=1.

The compiled wheel needs a C compiler; where it cannot be made the build fails instead of giving a wheel that is not
what was asked for. Its tag names the oldest glibc that has all the functions it calls, so that pip takes it wherever
it runs.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VARIABLE = "TIDELOG_COMPILE_WHEEL"
GLIBC_MINOR_MIN = 17
"""No Python of today runs on an older glibc 2, and pip knows no older tags of this form."""


class CompiledWheelHook(BuildHookInterface[Any]):
    def dependencies(self) -> list[str]:
        """What an isolated build installs: the pinned compiler, since what it makes fits one version of librt, and what
        the sources import, since it needs the types."""
        if os.environ.get(VARIABLE) != "1":
            return []
        locks = [Path(self.root, "requirements", name).read_text() for name in ("compile.txt", "runtime.txt")]
        lines = [line for lock in locks for line in lock.splitlines() if re.match(r"[a-z]", line)]
        return sorted({line.partition("\\")[0].strip() for line in lines})

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable" or os.environ.get(VARIABLE) != "1":
            return
        compiling = [sys.executable, str(Path(self.root, "tools", "compile_modules.py")), "--require"]
        if subprocess.run(compiling, check=False).returncode != 0:
            self.app.abort(f"{VARIABLE}=1, but the data path cannot be compiled")
        sys.path.insert(0, str(Path(self.root, "src")))
        from tidelog import compiled

        # Only this Python's: a checkout may hold libraries for several.
        library = Path(compiled.library_path())
        manifest = self._timeless_manifest(Path(compiled.manifest_path()))
        build_data["force_include"][str(library)] = f"tidelog/_compiled/{library.name}"
        build_data["force_include"][str(manifest)] = f"tidelog/_compiled/{manifest.name}"
        build_data["pure_python"] = False
        if platform.libc_ver(str(library))[0] == "glibc":
            build_data["tag"] = glibc_tag(library)
        else:
            build_data["infer_tag"] = True

    def _timeless_manifest(self, manifest: Path) -> Path:
        """Without the times of the sources: installed files have others, and the same sources give the same wheel."""
        lines = [line.split() for line in manifest.read_text().splitlines()]
        copy = Path(self.root, "build", manifest.name)
        copy.parent.mkdir(exist_ok=True)
        copy.write_text("".join(f"{role} {size} 0 {digest} {name}\n" for role, size, _, digest, name in lines))
        return copy


def glibc_tag(library: Path) -> str:
    """The wheel's tag: the versions of glibc's functions are named in the library."""
    named = re.findall(rb"GLIBC_2\.(\d+)", library.read_bytes())
    minor = max([GLIBC_MINOR_MIN, *map(int, named)])
    machine = sysconfig.get_platform().removeprefix("linux-").replace("-", "_").replace(".", "_")
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return f"{python}-{python}{sys.abiflags}-manylinux_2_{minor}_{machine}"
