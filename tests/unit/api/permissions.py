"""Authorizers for tests: one that denies everything and remembers what it was asked, and one with a list of grants."""

from __future__ import annotations

from tidelog.api.context import Caller
from tidelog.model.access import CLUSTER_NAME, Operation, Resource, ResourceType

Grant = tuple[Operation, ResourceType, str]


class DeniesAll:
    def __init__(self) -> None:
        self.asked: list[tuple[Operation, ResourceType]] = []

    def allows(self, caller: Caller, operation: Operation, resource: Resource) -> bool:
        self.asked.append((operation, resource.type))
        return False

    def allows_any(self, caller: Caller, operation: Operation, resource_type: ResourceType) -> bool:
        self.asked.append((operation, resource_type))
        return False


class Grants:
    """Allows exactly what it is given; no operation implies another one."""

    def __init__(self, *grants: Grant) -> None:
        self.grants = set(grants)

    def allows(self, caller: Caller, operation: Operation, resource: Resource) -> bool:
        return (operation, resource.type, resource.name) in self.grants

    def allows_any(self, caller: Caller, operation: Operation, resource_type: ResourceType) -> bool:
        return any(grant[:2] == (operation, resource_type) for grant in self.grants)


def on_topic(name: str, *operations: Operation) -> list[Grant]:
    return [(operation, ResourceType.TOPIC, name) for operation in operations]


def on_group(group_id: str, *operations: Operation) -> list[Grant]:
    return [(operation, ResourceType.GROUP, group_id) for operation in operations]


def on_cluster(*operations: Operation) -> list[Grant]:
    return [(operation, ResourceType.CLUSTER, CLUSTER_NAME) for operation in operations]


def on_transactional_id(name: str, *operations: Operation) -> list[Grant]:
    return [(operation, ResourceType.TRANSACTIONAL_ID, name) for operation in operations]
