"""What happens to disks, and which nodes are there in the end."""

from __future__ import annotations

from typing import NamedTuple


class DiskFilled(NamedTuple):
    """From now on, and for a while, the disk of the node takes hardly anything."""

    node_id: int


class PeaceCame(NamedTuple):
    """Faults are over, disks have room, and everyone had all the time that is needed."""

    whole: frozenset[int]
    """Nodes that are alive and in sync wherever they have a replica."""
