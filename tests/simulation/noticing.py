"""Whether a rule broken on purpose is missed, in a bounded number of seeds, by the checker that is there for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from tests.simulation.world import Violation


def check_is_noticed(checker: type, run: Callable[[int], object], seeds: Iterable[int]) -> None:
    """`run` runs one seed with the rule broken and that checker alone."""
    tried = 0
    for seed in seeds:
        tried += 1
        try:
            run(seed)
        except AssertionError as failure:
            if isinstance(failure.__cause__, Violation) and failure.__cause__.checker is checker:
                return
    pytest.fail(f"{checker.__name__} notices nothing in {tried} seeds")
