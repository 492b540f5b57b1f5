"""The names that `tidelog.pipelines` offers are what they are, whatever was imported before."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tidelog.pipelines


@pytest.mark.parametrize("name", tidelog.pipelines.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert callable(getattr(tidelog.pipelines, name))


def test_a_package_never_hides_a_public_name() -> None:
    """`tidelog.pipelines.session` is the function, also after the module that defines it was imported."""
    code = "import tidelog.pipelines.spark.session; from tidelog.pipelines import session; assert callable(session)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
