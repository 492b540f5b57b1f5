"""One figure of the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Row(NamedTuple):
    title: str
    value: float
    unit: str
    at_most: float | None = None
    at_least: float | None = None

    @property
    def is_missed(self) -> bool:
        return (self.at_most is not None and self.value > self.at_most) or (
            self.at_least is not None and self.value < self.at_least
        )

    def show(self) -> str:
        target = "" if self.at_most is None else f"<= {self.at_most:g}"
        if self.at_least is not None:
            target = f">= {self.at_least:g}"
        verdict = ("missed" if self.is_missed else "ok") if target else ""
        return f"| {self.title} | {self.value:.2f} | {self.unit} | {target} | {verdict} |"


Round = Callable[[float], list[Row]]
"""Measures once, with a share of the load, and has the same rows each time."""
