"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources."""

import logging
from pathlib import Path

import pytest
from tests.unit.api.controller_requests import Asker, answered

from tidelog.controller.core.topics import NewTopic
from tidelog.model.errors import ErrorCode
from tidelog.protocol.generated import alter_configs, incremental_alter_configs
from tidelog.protocol.generated.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResult,
)
from tidelog.protocol.generated.list_config_resources import ListConfigResourcesRequest

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE = 0, 1


async def describe(
    asker: Asker, kind: int, name: str, keys: list[str] | None = None, version: int = 4
) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True, include_documentation=version >= 3)
    response = await asker.ask(request, version)
    result: DescribeConfigsResult = response.results[0]
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


async def change(
    asker: Asker, kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False
) -> tuple[int, str | None]:
    configs = [
        incremental_alter_configs.AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    resource = incremental_alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    response = await asker.ask(
        incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    )
    return response.responses[0].error_code, response.responses[0].error_message


@pytest.mark.parametrize("version", range(1, 5))
def test_a_setting_with_where_it_came_from(tmp_path: Path, version: int) -> None:
    async def use(asker: Asker) -> None:
        await asker.controller.create_topics([NewTopic("t", configs=(("cleanup.policy", "delete, compact"),))])
        await change(asker, BROKER, "1", ("log.retention.ms", SET, "60000"))
        await change(asker, BROKER, "", ("log.retention.ms", SET, "70000"))
        result = await describe(asker, TOPIC, "t", ["retention.ms", "cleanup.policy", "bogus"], version)
        assert result.error_code == 0
        found = {config.name: config for config in result.configs}
        assert set(found) == {"retention.ms", "cleanup.policy"}
        retention = found["retention.ms"]
        assert (retention.value, retention.config_source, retention.read_only) == ("60000", 2, False)
        assert [(s.name, s.value, s.source) for s in retention.synonyms] == [
            ("log.retention.ms", "60000", 2),
            ("log.retention.ms", "70000", 3),
            ("log.retention.hours", "100", 4),
            ("log.retention.hours", "168", 5),
        ]
        policy = found["cleanup.policy"]
        assert (policy.value, policy.config_source) == ("delete,compact", 1)
        assert [(s.name, s.source) for s in policy.synonyms] == [("cleanup.policy", 1), ("log.cleanup.policy", 5)]
        if version >= 3:
            assert (retention.config_type, policy.config_type) == (5, 7)
            assert retention.documentation == "How long records are kept; -1 for ever."

    answered(tmp_path, use, log_retention_hours=100)


def test_all_settings_of_a_topic_and_of_the_broker(tmp_path: Path) -> None:
    async def use(asker: Asker) -> None:
        await asker.controller.create_topics([NewTopic("t")])
        names = {config.name for config in (await describe(asker, TOPIC, "t")).configs}
        assert {"retention.ms", "tidelog.flush"} <= names
        assert "internal.segment.bytes" not in names
        assert {c.name for c in (await describe(asker, TOPIC, "t", [])).configs} == names
        broker = {config.name: config for config in (await describe(asker, BROKER, "1")).configs}
        assert (broker["node.id"].value, broker["node.id"].config_source, broker["node.id"].read_only) == ("1", 4, True)
        assert (broker["log.segment.bytes"].read_only, broker["log.segment.bytes"].config_type) == (False, 3)
        assert broker["log.retention.ms"].value is None
        assert (await describe(asker, BROKER, "")).configs == []

    answered(tmp_path, use, node_id=1)


@pytest.mark.parametrize(
    ("kind", "name", "code", "message"),
    [
        (TOPIC, "x", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.message),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: the empty string is not allowed"),
        (
            BROKER,
            "9",
            ErrorCode.INVALID_REQUEST,
            "Unexpected broker id, expected 1 or empty string, but received 9",
        ),
        (BROKER, "x", ErrorCode.INVALID_REQUEST, "Broker id must be an integer, but it is: x"),
        (LOGGER, "", ErrorCode.INVALID_REQUEST, "Broker id must not be empty"),
        (99, "x", ErrorCode.INVALID_REQUEST, "Unknown resource type 99"),
    ],
)
def test_resources_that_are_not_there(tmp_path: Path, kind: int, name: str, code: ErrorCode, message: str) -> None:
    async def use(asker: Asker) -> None:
        result = await describe(asker, kind, name)
        assert (result.error_code, result.error_message, result.configs) == (code, message, [])

    answered(tmp_path, use)


@pytest.mark.parametrize("version", range(3))
def test_alter_configs_forgets_what_it_does_not_name(tmp_path: Path, version: int) -> None:
    async def use(asker: Asker) -> None:
        await asker.controller.create_topics([NewTopic("t", configs=(("retention.ms", "5"),))])

        def request(name: str, value: str, *, validate_only: bool = False) -> alter_configs.AlterConfigsRequest:
            config = alter_configs.AlterableConfig(name=name, value=value)
            resource = alter_configs.AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=[config])
            return alter_configs.AlterConfigsRequest(resources=[resource], validate_only=validate_only)

        response = await asker.ask(request("segment.ms", "7", validate_only=True), version)
        assert response.responses[0].error_code == 0
        assert asker.controller.image.topics["t"].config == {"retention.ms": "5"}
        await asker.ask(request("segment.ms", "7"), version)
        assert asker.controller.image.topics["t"].config == {"segment.ms": "7"}
        response = await asker.ask(request("foo", "7"), version)
        assert response.responses[0].error_code == ErrorCode.INVALID_CONFIG
        assert response.responses[0].error_message == "Unknown topic config name: foo"

    answered(tmp_path, use)


def test_incremental_changes(tmp_path: Path) -> None:
    async def use(asker: Asker) -> None:
        await asker.controller.create_topics([NewTopic("t", configs=(("retention.ms", "5"),))])
        assert await change(asker, TOPIC, "t", ("segment.ms", SET, "7"), validate_only=True) == (0, None)
        assert asker.controller.image.topics["t"].config == {"retention.ms": "5"}
        assert await change(asker, TOPIC, "t", ("segment.ms", SET, "7"), ("retention.ms", DELETE, None)) == (0, None)
        assert asker.controller.image.topics["t"].config == {"segment.ms": "7"}
        assert await change(asker, TOPIC, "x", ("segment.ms", SET, "7")) == (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "The topic 'x' does not exist.",
        )

    answered(tmp_path, use)


def test_loggers_are_listed_and_set(tmp_path: Path) -> None:
    async def use(asker: Asker) -> None:
        name = "tidelog.controller"
        logger = logging.getLogger(name)
        before = logger.level
        try:
            assert await change(asker, LOGGER, "1", (name, SET, "ERROR")) == (0, None)
            result = await describe(asker, LOGGER, "1", [name])
            assert [(c.value, c.config_source) for c in result.configs] == [("ERROR", 6)]
            assert await change(asker, LOGGER, "1", (name, SET, "DEBUG"), validate_only=True) == (0, None)
            assert logger.level == logging.ERROR
            assert await change(asker, LOGGER, "1", (name, DELETE, None)) == (0, None)
            assert logger.level == logging.NOTSET
            assert await change(asker, LOGGER, "1", ("tidelog.x.y", SET, "INFO")) == (
                ErrorCode.INVALID_CONFIG,
                "Logger tidelog.x.y does not exist!",
            )
            assert (await change(asker, LOGGER, "1", (name, SET, "LOUD")))[0] == ErrorCode.INVALID_CONFIG
            assert (await change(asker, LOGGER, "9", (name, SET, "INFO")))[0] == ErrorCode.INVALID_REQUEST
        finally:
            logger.setLevel(before)

    answered(tmp_path, use)


def test_resources_are_listed_by_type(tmp_path: Path) -> None:
    async def use(asker: Asker) -> None:
        await asker.controller.create_topics([NewTopic("a"), NewTopic("b")])

        async def listed(version: int, *types: int) -> list[tuple[int, str]]:
            response = await asker.ask(ListConfigResourcesRequest(resource_types=list(types)), version)
            assert response.error_code == 0
            return [(r.resource_type, r.resource_name) for r in response.config_resources]

        assert await listed(0) == []
        assert await listed(1, TOPIC) == [(TOPIC, "a"), (TOPIC, "b")]
        assert await listed(1) == [(LOGGER, "1"), (BROKER, "1"), (TOPIC, "a"), (TOPIC, "b")]
        assert await listed(1, GROUP, CLIENT_METRICS) == []
        response = await asker.ask(ListConfigResourcesRequest(resource_types=[99]), 1)
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION

    answered(tmp_path, use)


def test_settings_of_a_group(tmp_path: Path) -> None:
    async def use(asker: Asker) -> None:
        name = "consumer.session.timeout.ms"
        before = (await describe(asker, GROUP, "g", [name])).configs[0]
        assert (before.value, before.config_source, before.read_only) == ("45000", 5, False)
        assert await change(asker, GROUP, "g", (name, SET, "50000")) == (0, None)
        after = (await describe(asker, GROUP, "g", [name])).configs[0]
        assert (after.value, after.config_source) == ("50000", 8)
        assert [(s.name, s.value, s.source) for s in after.synonyms] == [
            (name, "50000", 8),
            (f"group.{name}", "45000", 5),
        ]
        answer = await asker.ask(ListConfigResourcesRequest(resource_types=[GROUP]), 1)
        assert [(found.resource_name, found.resource_type) for found in answer.config_resources] == [("g", GROUP)]
        nameless = await describe(asker, GROUP, "")
        assert (nameless.error_code, nameless.error_message) == (
            ErrorCode.INVALID_REQUEST,
            "Group name must not be empty",
        )

    answered(tmp_path, use)
