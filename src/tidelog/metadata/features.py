"""Feature levels: what this version of the node can do, and what a new cluster starts with.

Clients read the finalised levels out of ApiVersions. A level is raised by a record, so that all nodes change over at
the same point of the log.
"""

METADATA_VERSION = "metadata.version"
GROUP_VERSION = "group.version"
"""From 1 on there are groups of the consumer protocol."""
TRANSACTION_VERSION = "transaction.version"
"""Level 2: producers that can do so get a new epoch with every transaction (KIP-890)."""

SUPPORTED: dict[str, tuple[int, int]] = {
    METADATA_VERSION: (7, 30),
    GROUP_VERSION: (0, 1),
    TRANSACTION_VERSION: (0, 2),
}
"""Lowest and highest level by name."""

BOOTSTRAP: dict[str, int] = {
    METADATA_VERSION: 30,
    GROUP_VERSION: 1,
    TRANSACTION_VERSION: 2,
}
"""Levels of a new cluster: those of Kafka 4.3, as far as they are supported here."""
