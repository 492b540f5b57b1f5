"""What a wrong name may have been meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` (did you mean x?)` when something close to `name` is known, else nothing."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.7)
    return f" (did you mean {near[0]}?)" if near else ""
