"""IncrementalAlterConfigs: single settings are set, deleted, or changed as lists; what is not named stays."""

from __future__ import annotations

from tidelog.api.broker_loggers import alter_loggers, check_logger_resource
from tidelog.api.config_permissions import refuse_changes
from tidelog.api.config_resources import ResourceType
from tidelog.api.context import RequestContext
from tidelog.api.forwarding import forward_to_controller
from tidelog.controller.core.configs import ConfigChange, ResourceChange, ResourceOutcome
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.generated.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


async def handle(context: RequestContext, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    is_local = all(resource.resource_type == ResourceType.BROKER_LOGGER for resource in request.resources)
    if is_local or context.services.controller.is_active:
        return await _alter(context, request)
    response: IncrementalAlterConfigsResponse = await forward_to_controller(context, request, _alter)
    return response


async def _alter(context: RequestContext, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    resources = [
        ResourceChange(
            resource.resource_type,
            resource.resource_name,
            [ConfigChange(config.name, config.config_operation, config.value) for config in resource.configs],
        )
        for resource in request.resources
    ]
    resources, outcomes = refuse_changes(context, resources)
    kept = [resource for resource in resources if resource.resource_type != ResourceType.BROKER_LOGGER]
    if kept:
        try:
            outcomes += await context.services.controller.alter_configs(kept, validate_only=request.validate_only)
        except BrokerError as error:
            outcomes += (ResourceOutcome(r.resource_type, r.resource_name, error) for r in kept)
    # Loggers belong to the node that is asked.
    outcomes += (
        _alter_loggers(context, resource, request.validate_only)
        for resource in resources
        if resource.resource_type == ResourceType.BROKER_LOGGER
    )
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=ErrorCode.NONE if outcome.error is None else outcome.error.code,
                error_message=None if outcome.error is None else outcome.error.message,
                resource_type=outcome.resource_type,
                resource_name=outcome.resource_name,
            )
            for outcome in outcomes
        ]
    )


def _alter_loggers(context: RequestContext, resource: ResourceChange, validate_only: bool) -> ResourceOutcome:
    try:
        check_logger_resource(resource.resource_name, context.services.config.node_id)
        alter_loggers(resource.changes, validate_only=validate_only)
    except BrokerError as error:
        return ResourceOutcome(resource.resource_type, resource.resource_name, error)
    return ResourceOutcome(resource.resource_type, resource.resource_name)
