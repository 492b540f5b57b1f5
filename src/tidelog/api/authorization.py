"""The one question that every way into a node asks: may this caller do that?

An open node has no authoriser, and everything is allowed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tidelog.model.access import Operation, Resource

if TYPE_CHECKING:
    from tidelog.api.context import Caller, RequestContext


class Authorizer(Protocol):
    def allows(self, caller: Caller, operation: Operation, resource: Resource) -> bool: ...


def authorize(context: RequestContext, operation: Operation, resource: Resource) -> bool:
    """Whether the caller of this request may do `operation` on `resource`."""
    authorizer = context.services.authorizer
    return authorizer is None or authorizer.allows(context.caller, operation, resource)
