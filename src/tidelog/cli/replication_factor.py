"""The replication factor of a topic: `tidelog topics alter NAME --replication-factor N`, and what it must not break."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from tidelog.cli.clients import no_such
from tidelog.cli.cluster_state import ClusterState, read_state
from tidelog.cli.errors import CommandError, UsageError
from tidelog.cli.reassign import carry_out, wait_until_moved
from tidelog.config.lowered import LOWERED
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition

if TYPE_CHECKING:
    from tidelog.cli.wire import BrokerConnection

TOPIC_RESOURCE = 2
CONFIG_DELETE = 1
MIN_INSYNC = "min.insync.replicas"
RESOURCES_PER_REQUEST_MAX = 500
ALLOW_FEWER = "--allow-fewer-replicas"


def plan_change(
    connection: BrokerConnection, topic: str, factor: int, *, min_insync: str | None, allow_fewer: bool
) -> dict[TopicPartition, tuple[int, ...]]:
    """The new replicas of each partition; CommandError where the cluster or the topic's settings speak against it."""
    from tidelog.controller.core.spreading import plan_factors

    if factor < 1:
        raise UsageError("--replication-factor must be at least 1")
    state = read_state(connection)
    of_topic = {p: place for p, place in state.partitions.items() if p.topic == topic}
    if not of_topic:
        raise CommandError(no_such("topic", topic))
    _check_nodes(state, topic, factor, min(len(place.replicas) for place in of_topic.values()))
    needed = int(min_insync) if min_insync is not None and min_insync.isdigit() else 0
    needed = needed or read_min_insync(connection, [topic])[topic]
    if factor < needed and not allow_fewer:
        raise CommandError(
            f"topic {topic} has {MIN_INSYNC}={needed}, and {factor} replicas would let acks=all succeed with fewer; "
            f"lower that setting too, or accept it with {ALLOW_FEWER}"
        )
    in_sync = {partition: place.isr for partition, place in of_topic.items()}
    return plan_factors(state.placement(), state.open_racks(), {topic: factor}, in_sync)


def _check_nodes(state: ClusterState, topic: str, factor: int, fewest: int) -> None:
    nodes = len(state.open_racks())
    if factor > nodes and factor > fewest:
        drained = f" ({len(state.drained)} drained)" if state.drained else ""
        raise CommandError(
            f"topic {topic} cannot have {factor} replicas: {nodes} nodes can take some{drained}; start another"
            " node first"
        )


def change(
    connection: BrokerConnection, topic: str, plan: Mapping[TopicPartition, tuple[int, ...]], *, wait: bool
) -> None:
    carry_out(connection, plan, wait=False)
    # The operator has decided: nothing that a drain took before is given back later.
    _forget_lowered(connection, topic)
    if wait:
        wait_until_moved(connection, set(plan))


def _forget_lowered(connection: BrokerConnection, topic: str) -> None:
    from tidelog.protocol.generated.incremental_alter_configs import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )

    taken_back = AlterableConfig(name=LOWERED, config_operation=CONFIG_DELETE, value=None)
    resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configs=[taken_back])
    [answer] = connection.call(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    if answer.error_code:
        raise CommandError(f"topic {topic}: {answer.error_message or ErrorCode(answer.error_code).name}")


def read_min_insync(connection: BrokerConnection, topics: Iterable[str]) -> dict[str, int]:
    """What `min.insync.replicas` is for each topic; 1 for one that has gone meanwhile."""
    from tidelog.protocol.generated.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

    names = list(topics)
    found = dict.fromkeys(names, 1)
    for first in range(0, len(names), RESOURCES_PER_REQUEST_MAX):
        asked = [
            DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=[MIN_INSYNC])
            for name in names[first : first + RESOURCES_PER_REQUEST_MAX]
        ]
        for result in connection.call(DescribeConfigsRequest(resources=asked), 4).results:
            for config in result.configs or ():
                found[result.resource_name] = int(config.value or 1)
    return found
