"""DescribeConfigs: topics, consumer groups, this broker, the defaults of all brokers, and this broker's loggers."""

from __future__ import annotations

from tidelog.api.broker_loggers import check_logger_resource, logger_levels
from tidelog.api.config_permissions import require_for_settings
from tidelog.api.config_resources import (
    ConfigEntry,
    ConfigSource,
    ResourceType,
    describe_broker,
    describe_broker_defaults,
    describe_group,
    describe_topic,
)
from tidelog.api.context import RequestContext
from tidelog.controller.core.names import check_topic_name
from tidelog.model.access import Operation
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.limits import GROUP_CONFIGS_DESCRIBED_MAX
from tidelog.protocol.generated.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from tidelog.runtime.pauses import with_pauses

RESOURCES_PER_TURN = 10
"""Each has some forty settings, all of which are put together: a tenth of a millisecond and more."""


async def handle(context: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    is_guarded = context.services.authorizer is not None
    results = []
    groups = 0
    answered: set[tuple[int, str, frozenset[str]]] = set()
    async for resource in with_pauses(request.resources, RESOURCES_PER_TURN):
        # A few bytes ask for thousands: a resource that is named again is not described again.
        asked = resource.resource_type, resource.resource_name, frozenset(resource.configuration_keys or ())
        if asked in answered:
            continue
        answered.add(asked)
        groups += resource.resource_type == ResourceType.GROUP
        result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
        try:
            if is_guarded:
                require_for_settings(
                    context, Operation.DESCRIBE_CONFIGS, resource.resource_type, resource.resource_name
                )
            if resource.resource_type == ResourceType.GROUP and groups > GROUP_CONFIGS_DESCRIBED_MAX:
                raise BrokerError(ErrorCode.INVALID_REQUEST, "Too many groups are asked for in one request")
            result.configs = [
                _result(entry, request.include_synonyms, request.include_documentation)
                for entry in _describe(context, resource)
            ]
        except BrokerError as error:
            result.error_code = error.code
            result.error_message = error.message
        results.append(result)
    return DescribeConfigsResponse(results=results)


def _describe(context: RequestContext, resource: DescribeConfigsResource) -> list[ConfigEntry]:
    services = context.services
    image, config = services.metadata.image, services.config
    # No keys at all means every key: older clients send an empty list for it.
    names = resource.configuration_keys or None
    name = resource.resource_name
    if resource.resource_type == ResourceType.TOPIC:
        check_topic_name(name)
        topic = image.topics.get(name)
        if topic is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return describe_topic(image, config, topic.config, names)
    if resource.resource_type == ResourceType.BROKER:
        if not name:
            return describe_broker_defaults(image, names)
        _check_broker(name, config.node_id)
        return describe_broker(image, config, names)
    if resource.resource_type == ResourceType.GROUP:
        if not name:
            raise BrokerError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        return describe_group(image, config, name, names)
    if resource.resource_type == ResourceType.BROKER_LOGGER:
        check_logger_resource(name, config.node_id)
        return [
            ConfigEntry(logger, level, ConfigSource.DYNAMIC_BROKER_LOGGER, False, False, [], 0, "")
            for logger, level in logger_levels().items()
            if names is None or logger in names
        ]
    raise BrokerError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.resource_type}")


def _check_broker(name: str, node_id: int) -> None:
    if not name.isascii() or not name.removeprefix("-").isdigit():
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if int(name) != node_id:
        raise BrokerError(
            ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {node_id} or empty string, but received {name}"
        )


def _result(entry: ConfigEntry, with_synonyms: bool, with_documentation: bool) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.is_read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[DescribeConfigsSynonym(name=s.name, value=s.value, source=s.source) for s in entry.synonyms]
        if with_synonyms
        else [],
        config_type=entry.type_number,
        documentation=entry.documentation if with_documentation else None,
    )
