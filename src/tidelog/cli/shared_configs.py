"""The settings all brokers share, of which the resource has no name: confluent-kafka takes none without."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import Any

from tidelog.cli.errors import CommandError
from tidelog.cli.wire import connect_broker
from tidelog.model.errors import ErrorCode

BROKER_RESOURCE = 4
SET, DELETE = 0, 1
DESCRIBE_VERSION = 4
ALTER_VERSION = 1


def describe_shared(args: argparse.Namespace) -> list[Any]:
    """What is set for all brokers; whatever is not has the value of each broker."""
    from tidelog.protocol.generated.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

    resource = DescribeConfigsResource(resource_type=BROKER_RESOURCE, configuration_keys=None)
    with connect_broker(args) as broker:
        [result] = broker.call(DescribeConfigsRequest(resources=[resource]), DESCRIBE_VERSION).results
    _check(result, "settings of all brokers")
    return list(result.configs)


def alter_shared(args: argparse.Namespace, changes: Mapping[str, str], deleted: Iterable[str]) -> None:
    """Changes only what is named; all or nothing."""
    from tidelog.protocol.generated.incremental_alter_configs import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )

    configs = [AlterableConfig(name=name, config_operation=SET, value=value) for name, value in changes.items()]
    configs += [AlterableConfig(name=name, config_operation=DELETE, value=None) for name in deleted]
    resource = AlterConfigsResource(resource_type=BROKER_RESOURCE, configs=configs)
    with connect_broker(args) as broker:
        [response] = broker.call(IncrementalAlterConfigsRequest(resources=[resource]), ALTER_VERSION).responses
    _check(response, "cannot change all brokers")


def _check(answer: Any, subject: str) -> None:
    if answer.error_code:
        error = ErrorCode(answer.error_code)
        raise CommandError(f"{subject}: {answer.error_message or error.message} ({error.name})")
