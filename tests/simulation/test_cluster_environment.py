"""A simulated node asks nothing of the real machine: no default stands where its environment was to be handed."""

from __future__ import annotations

import gc
import os
import traceback
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import pytest
from tests.simulation.cluster.profile import as_drawn, full_disks
from tests.simulation.cluster.run import run_cluster_seed

from tidelog.net.network import NETWORK, Network
from tidelog.runtime.clock import monotonic_ms
from tidelog.runtime.disk import DISK, Disk
from tidelog.runtime.system import SYSTEM, System

asked: list[str] = []
"""What was asked of the real machine, and by which line."""


def refuse(name: str) -> Callable[..., Any]:
    def call(*_: object, **__: object) -> Any:
        asked.append(f"{name}: {traceback.extract_stack(limit=3)[0]}")
        raise AssertionError(f"{name} of the real machine")

    return call


def refusing(kind: Any) -> Any:
    return kind(**{name: refuse(name) for name in kind._fields})


NO_DISK = refusing(Disk)
REPLACED = (
    (DISK, NO_DISK),
    (SYSTEM, refusing(System).replace(disk=NO_DISK)),
    (NETWORK, refusing(Network)),
    (os.urandom, refuse("urandom")),
    (monotonic_ms, refuse("monotonic_ms")),
)
"""Defaults of parameters: a call that leaves them out gets the real machine."""


def replace(value: object) -> Any:
    return next((new for old, new in REPLACED if value is old), value)


@pytest.fixture
def without_defaults() -> Iterator[int]:
    """How many functions have one of them."""
    changed: list[tuple[FunctionType, Any, Any]] = []
    asked.clear()
    for function in [each for each in gc.get_objects() if isinstance(each, FunctionType)]:
        if not (function.__module__ or "").startswith("tidelog."):
            continue
        defaults, named = function.__defaults__ or (), function.__kwdefaults__ or {}
        if any(replace(value) is not value for value in (*defaults, *named.values())):
            changed.append((function, function.__defaults__, function.__kwdefaults__))
            function.__defaults__ = tuple(map(replace, defaults)) or None
            function.__kwdefaults__ = {name: replace(value) for name, value in named.items()} or None
    yield len(changed)
    for function, defaults, named in changed:
        function.__defaults__, function.__kwdefaults__ = defaults, named


@pytest.mark.plain
@pytest.mark.parametrize(("seed", "adjust"), [(2, as_drawn), (3, full_disks)])
def test_a_simulated_node_asks_nothing_of_the_real_machine(without_defaults: int, seed: int, adjust: Any) -> None:
    assert without_defaults > 20
    run_cluster_seed(seed, adjust=adjust, duration_ms=2500.0)
    assert not asked


@pytest.mark.plain
def test_a_default_that_is_used_is_noticed(without_defaults: int) -> None:
    from tidelog.storage.log_directory_identity import new_kafka_uuid

    with pytest.raises(AssertionError, match="urandom of the real machine"):
        new_kafka_uuid()
    assert "urandom" in asked[0]
