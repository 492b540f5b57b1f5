"""What a topic remembers when a drain took replicas from it: how many it had, and which nodes were drained.

It is kept as a setting of the topic (`tidelog.lowered.by.drain`), as text like `3:2,5`. So it is metadata, outlives
restarts and controllers, and goes when the topic goes. Only the controller sets it; any client may take it back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

LOWERED = "tidelog.lowered.by.drain"

_FORM = re.compile(r"([1-9][0-9]{0,4}):([0-9]{1,10}(?:,[0-9]{1,10})*)", re.ASCII)


class Lowered(NamedTuple):
    factor: int
    """The replicas each partition shall have again."""
    nodes: tuple[int, ...]
    """The nodes whose drain took replicas away, in ascending order."""

    def text(self) -> str:
        return f"{self.factor}:{','.join(map(str, self.nodes))}"


def parse_lowered(text: str) -> Lowered | None:
    """None for text that says nothing of the kind."""
    found = _FORM.fullmatch(text)
    return None if found is None else Lowered(int(found[1]), tuple(sorted({int(node) for node in found[2].split(",")})))


def lowered_of(overrides: Mapping[str, str]) -> Lowered | None:
    """From what was set on a topic."""
    return parse_lowered(overrides.get(LOWERED, ""))


def check_lowered(text: str) -> str | None:
    return None if not text or parse_lowered(text) else "must be the replicas and the drained nodes, such as 3:2,5"
