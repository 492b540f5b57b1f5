"""AlterConfigs: the settings of a resource become exactly those given; what is not named is forgotten."""

from __future__ import annotations

from tidelog.api.config_permissions import refuse_changes
from tidelog.api.context import RequestContext
from tidelog.controller.core.configs import SET, ConfigChange, ResourceChange, ResourceOutcome
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.generated.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


async def handle(context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    resources = [
        ResourceChange(
            resource.resource_type,
            resource.resource_name,
            [ConfigChange(config.name, SET, config.value) for config in resource.configs],
            replace=True,
        )
        for resource in request.resources
    ]
    resources, outcomes = refuse_changes(context, resources)
    try:
        outcomes += await context.services.controller.alter_configs(resources, validate_only=request.validate_only)
    except BrokerError as error:
        outcomes += (ResourceOutcome(r.resource_type, r.resource_name, error) for r in resources)
    return AlterConfigsResponse(
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
