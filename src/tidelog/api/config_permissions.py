"""Which permission settings need: those of a topic or a group one on it, all others one on the cluster."""

from __future__ import annotations

from tidelog.api.authorization import REFUSAL_CODES, authorize
from tidelog.api.config_resources import ResourceType as ConfigResourceType
from tidelog.api.context import RequestContext
from tidelog.controller.core.configs import ResourceChange, ResourceOutcome
from tidelog.model.access import CLUSTER, Operation, Resource, ResourceType
from tidelog.model.errors import BrokerError


def require_for_settings(context: RequestContext, operation: Operation, config_type: int, name: str) -> None:
    """Raises the refusal unless the caller may do `operation` with the settings of this resource."""
    resource = CLUSTER
    if config_type == ConfigResourceType.TOPIC:
        resource = Resource(ResourceType.TOPIC, name)
    elif config_type == ConfigResourceType.GROUP:
        resource = Resource(ResourceType.GROUP, name)
    if not authorize(context, operation, resource):
        raise BrokerError(REFUSAL_CODES[resource.type])


def refuse_changes(
    context: RequestContext, resources: list[ResourceChange]
) -> tuple[list[ResourceChange], list[ResourceOutcome]]:
    """The changes that the caller may make, and the refusals of the others."""
    if context.services.authorizer is None:
        return resources, []
    allowed: list[ResourceChange] = []
    refused: list[ResourceOutcome] = []
    for resource in resources:
        try:
            require_for_settings(context, Operation.ALTER_CONFIGS, resource.resource_type, resource.resource_name)
        except BrokerError as error:
            refused.append(ResourceOutcome(resource.resource_type, resource.resource_name, error))
        else:
            allowed.append(resource)
    return allowed, refused
