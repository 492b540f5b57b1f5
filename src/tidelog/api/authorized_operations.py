"""Operations a client may do, as the bit fields of Metadata and its like; the bits are Kafka's operation numbers.

Without an authorizer everything is allowed that a resource knows, and the fields are constants.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from tidelog.api.authorization import authorize
from tidelog.model.access import CLUSTER, Operation, Resource, ResourceType

if TYPE_CHECKING:
    from tidelog.api.context import RequestContext

NOT_ASKED: Final = -2147483648

_OF_TOPICS: Final = (
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
_OF_GROUPS: Final = (
    Operation.READ,
    Operation.DELETE,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
_OF_THE_CLUSTER: Final = (
    Operation.CREATE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.CLUSTER_ACTION,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
    Operation.IDEMPOTENT_WRITE,
)


def _bits(operations: Iterable[Operation]) -> int:
    return sum(1 << operation for operation in operations)


TOPIC_OPERATIONS: Final = _bits(_OF_TOPICS)
GROUP_OPERATIONS: Final = _bits(_OF_GROUPS)
CLUSTER_OPERATIONS: Final = _bits(_OF_THE_CLUSTER)


def topic_operations(context: RequestContext, name: str) -> int:
    if context.services.authorizer is None:
        return TOPIC_OPERATIONS
    return _allowed(context, _OF_TOPICS, Resource(ResourceType.TOPIC, name))


def group_operations(context: RequestContext, group_id: str) -> int:
    if context.services.authorizer is None:
        return GROUP_OPERATIONS
    return _allowed(context, _OF_GROUPS, Resource(ResourceType.GROUP, group_id))


def cluster_operations(context: RequestContext) -> int:
    """None at all for a caller that may not describe the cluster."""
    if context.services.authorizer is None:
        return CLUSTER_OPERATIONS
    if not authorize(context, Operation.DESCRIBE, CLUSTER):
        return 0
    return _allowed(context, _OF_THE_CLUSTER, CLUSTER)


def _allowed(context: RequestContext, operations: Iterable[Operation], resource: Resource) -> int:
    return _bits(operation for operation in operations if authorize(context, operation, resource))
