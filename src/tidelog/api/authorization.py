"""The one question that every way into a node asks: may this caller do that?

The dispatcher asks for what is on the cluster, before the handler is called. Handlers ask for topics, groups and
transactional ids: with `require` where a denial refuses the whole request, with `denied` where each name has an answer
of its own. An open node has no authorizer: everything is allowed, and names are not even looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Protocol

from tidelog.model.access import CLUSTER, Operation, Permission, Resource, ResourceType
from tidelog.model.errors import BrokerError, ErrorCode

if TYPE_CHECKING:
    from tidelog.api.context import Caller, RequestContext


class Authorizer(Protocol):
    def allows(self, caller: Caller, operation: Operation, resource: Resource) -> bool: ...

    def allows_any(self, caller: Caller, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether there is any name, of an existing resource or not, on which the caller may do the operation."""


NONE_DENIED: Final[frozenset[str]] = frozenset()

REFUSAL_CODES: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""How a denial is answered."""


def authorize(context: RequestContext, operation: Operation, resource: Resource) -> bool:
    """Whether the caller of this request may do `operation` on `resource`."""
    authorizer = context.services.authorizer
    return authorizer is None or authorizer.allows(context.caller, operation, resource)


def authorize_on_cluster(context: RequestContext, permission: Permission) -> bool:
    """Whether the caller has a permission on the cluster, by one operation or the other."""
    alternative = permission.alternative
    return authorize(context, permission.operation, CLUSTER) or (
        alternative is not None and authorize(context, alternative, CLUSTER)
    )


def require(context: RequestContext, operation: Operation, resource_type: ResourceType, name: str) -> None:
    """Raises the refusal of the whole request unless the caller may do `operation` on the resource."""
    authorizer = context.services.authorizer
    if authorizer is not None and not authorizer.allows(context.caller, operation, Resource(resource_type, name)):
        raise BrokerError(REFUSAL_CODES[resource_type])


def denied(
    context: RequestContext, operation: Operation, resource_type: ResourceType, names: Iterable[str]
) -> frozenset[str]:
    """Those of `names` on which the caller may not do `operation`. Each name is asked for once."""
    authorizer = context.services.authorizer
    if authorizer is None:
        return NONE_DENIED
    caller = context.caller
    return frozenset(
        [
            name
            for name in dict.fromkeys(names)
            if not authorizer.allows(caller, operation, Resource(resource_type, name))
        ]
    )
