"""Two checkouts measured in turns: the ratio of each pair of values that follow each other, and the medians of these.

What a machine does meanwhile changes over minutes, and both values of a pair have the same of it: ratios of pairs lie
closer together than values do.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple

from benchmarks.figures import FIGURES, Figure, Samples
from benchmarks.report import format_value


class Quantity(Enum):
    """What can be summed up over cases, in the order of the table."""

    CPU = "CPU"
    THROUGHPUT = "throughput"
    TIME = "time"
    MEMORY = "memory"


def quantity(figure: Figure) -> Quantity:
    name = figure.key.partition(".")[2]
    if "cpu" in name:
        return Quantity.CPU
    if "rate" in name or name == "growth":
        return Quantity.THROUGHPUT
    return Quantity.MEMORY if name.endswith("_mib") else Quantity.TIME


class Pair(NamedTuple):
    this: float
    other: float

    @property
    def ratio(self) -> float:
        return self.this / self.other


class PairedFigure(NamedTuple):
    figure: Figure
    pairs: Sequence[Pair]
    """One per round; never empty."""


def pair_up(samples: Samples, this: str, other: str) -> list[PairedFigure]:
    """Of all figures that were measured; what was 0 has no ratio and is left out."""
    paired = []
    for figure in FIGURES:
        values = (samples[name].get(figure.key, ()) for name in (this, other))
        pairs = [pair for pair in map(Pair, *values) if pair.other]
        if pairs:
            paired.append(PairedFigure(figure, pairs))
    return paired


def summarise_quantities(paired: Iterable[PairedFigure]) -> dict[Quantity, list[float]]:
    """The ratios of all pairs of all cases."""
    ratios: dict[Quantity, list[float]] = {}
    for figure, pairs in paired:
        ratios.setdefault(quantity(figure), []).extend(pair.ratio for pair in pairs)
    return {each: ratios[each] for each in Quantity if each in ratios}


def table(paired: Sequence[PairedFigure], this: str, other: str) -> str:
    lines = [f"| figure | {this} | {other} | ratio | lowest to highest |", "|---|---:|---:|---:|---:|"]
    for figure, pairs in paired:
        medians = " | ".join(format_value(statistics.median(values)) for values in zip(*pairs, strict=True))
        lines.append(f"| {figure.title} ({figure.unit}) | {medians} | {_describe([pair.ratio for pair in pairs])} |")
    for each, ratios in summarise_quantities(paired).items():
        lines.append(f"| **all: {each.value}** | | | {_describe(ratios)} |")
    return "\n".join(lines)


def _describe(ratios: Sequence[float]) -> str:
    return f"{statistics.median(ratios):.3f} | {min(ratios):.2f} to {max(ratios):.2f}"
