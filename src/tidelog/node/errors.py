"""Why a node did not start, in one line that says what to do."""

from __future__ import annotations


class NodeStartError(Exception):
    """The message is complete: it is printed as it is."""


REMOVED = "removed from the cluster"
"""What the controller says to a node that was removed, in every one of its answers."""
