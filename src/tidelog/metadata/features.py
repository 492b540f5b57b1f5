"""Feature levels: what this version of the node can do, and what a new cluster starts with.

Clients read the finalised levels out of ApiVersions. A level is raised by a record, so that all nodes change over at
the same point of the log.
"""

METADATA_VERSION = "metadata.version"

SUPPORTED: dict[str, tuple[int, int]] = {
    METADATA_VERSION: (7, 30),
}
"""Lowest and highest level by name."""

BOOTSTRAP: dict[str, int] = {
    METADATA_VERSION: 30,
}
"""Levels of a new cluster: those of Kafka 4.3, as far as they are supported here."""
