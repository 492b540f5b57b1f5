"""What a principal may be allowed to do, and on what: Kafka's operations and types of resources, by their codes."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple


class Operation(IntEnum):
    ANY = 1
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class ResourceType(IntEnum):
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""


class Resource(NamedTuple):
    type: ResourceType
    name: str


CLUSTER: Final = Resource(ResourceType.CLUSTER, CLUSTER_NAME)


class Permission(NamedTuple):
    """What an API asks for. That on the cluster is asked before its handler is called. What is on topics, groups and
    transactional ids is asked by the handler, which knows their names and answers for each of them."""

    operation: Operation
    resource_type: ResourceType
    alternative: Operation | None = None
    """Another operation that will do instead."""

    @property
    def is_on_cluster(self) -> bool:
        return self.resource_type is ResourceType.CLUSTER


ANYBODY: Final = Permission(Operation.ANY, ResourceType.ANY)
"""Of an API that needs no permission: callers have no name yet, or it tells nothing that they do not know."""
