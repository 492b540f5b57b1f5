"""Building a wheel: plain Python, or with the data path compiled for this platform if TIDELOG_COMPILE_WHEEL=1.

The compiled wheel needs a C compiler and requirements/compile.txt; where they are missing the build fails instead of
giving a wheel that is not what was asked for.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VARIABLE = "TIDELOG_COMPILE_WHEEL"


class CompiledWheelHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable" or os.environ.get(VARIABLE) != "1":
            return
        subprocess.run([sys.executable, str(Path(self.root, "tools", "compile_modules.py")), "--require"], check=True)
        build_data["artifacts"].append("src/tidelog/_compiled/*")
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
