"""The table of counts: a row per request, a column per checkout, and ratios to the first of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.instructions.counting import Count


def table(checkouts: Sequence[tuple[str, Mapping[str, Count]]]) -> str:
    """Of the names of the checkouts and their counts by request."""
    names = [name for name, _ in checkouts]
    (_, first), *others = checkouts
    heads = ["instructions per request", *names, *(f"{name} / {names[0]}" for name in names[1:])]
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]
    for request, count in first.items():
        counts = [f"{counts[request].per_request:,.0f}" for _, counts in checkouts]
        ratios = [f"{counts[request].per_request / count.per_request:.3f}" for _, counts in others]
        lines.append("| " + " | ".join([request, *counts, *ratios]) + " |")
    return "\n".join(lines)
