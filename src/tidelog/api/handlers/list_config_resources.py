"""ListConfigResources: which resources have settings. Version 0 knows client metrics only, and there are none here."""

from __future__ import annotations

from tidelog.api.config_resources import ResourceType
from tidelog.api.context import RequestContext
from tidelog.model.errors import ErrorCode
from tidelog.protocol.generated.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)


def handle(context: RequestContext, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    if context.version == 0:
        return ListConfigResourcesResponse()
    asked = request.resource_types or list(ResourceType)
    if any(kind not in ResourceType._value2member_map_ for kind in asked):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    image = context.services.metadata.image
    names = {
        ResourceType.GROUP: list(image.group_configs),
        ResourceType.CLIENT_METRICS: [],
        ResourceType.BROKER_LOGGER: [str(node_id) for node_id in image.brokers],
        ResourceType.BROKER: [str(node_id) for node_id in image.brokers],
        ResourceType.TOPIC: list(image.topics),
    }
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind, found in names.items()
            if kind in asked
            for name in found
        ]
    )
