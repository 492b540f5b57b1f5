"""How far a node has come. Each stage is made once, from the one before, and never changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.model.value import Value

if TYPE_CHECKING:
    from tidelog.node.cluster import Cluster
    from tidelog.node.site import Site
    from tidelog.partitions.table import PartitionTable


class NotPlaced(Value):
    """Nothing is open that others could know of."""


class Placed(Value):
    """The data directory is locked, the addresses are taken, the parts of the cluster are made."""

    site: Site
    cluster: Cluster


class Loaded(Value):
    """The node is registered, and its partitions are open. Clients can be served from here on."""

    site: Site
    cluster: Cluster
    table: PartitionTable


Stage = NotPlaced | Placed | Loaded
