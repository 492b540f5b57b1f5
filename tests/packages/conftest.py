"""The packages that `make dist` builds, built once for the tests of a file."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from tools.build_packages import build_all


class Packages(NamedTuple):
    sdist: Path
    plain_wheel: Path
    compiled_wheel: Path | None
    """None where there is no C compiler."""

    @property
    def directory(self) -> Path:
        return self.sdist.parent

    def named(self, kind: str) -> Path:
        found: Path | None = getattr(self, kind)
        if found is None:
            pytest.skip("there is no C compiler here")
        return found


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Packages:
    built = build_all(tmp_path_factory.mktemp("dist"))
    return Packages(*built) if len(built) == 3 else Packages(*built, None)
