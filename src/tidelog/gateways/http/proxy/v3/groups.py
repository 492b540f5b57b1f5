"""v3: consumer groups, their members, and what each member reads."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from tidelog.gateways.http.messages import Answer, Request, json_response
from tidelog.gateways.http.proxy.errors import ProxyError
from tidelog.gateways.http.proxy.v3.describing import Group, GroupMember, describe_all_groups, describe_group
from tidelog.gateways.http.proxy.v3.resources import (
    BOOLEAN,
    RELATED,
    STRING,
    Cluster,
    Path,
    V3Route,
    collection_schema,
    open_cluster,
    resource_schema,
    v3_answer,
)
from tidelog.gateways.http.routes import Parameter
from tidelog.gateways.http.schemas import INTEGER, nullable

if TYPE_CHECKING:
    from tidelog.gateways.access import LogAccess

GROUP: Final = Parameter("consumer_group_id", "path", STRING, "The group's id.", is_required=True)
_CONSUMER: Final = Parameter("consumer_id", "path", STRING, "The member's id.", is_required=True)


async def list_groups(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
    cluster = open_cluster(access, request, values)
    groups = await describe_all_groups(access)
    return cluster.collection(
        "KafkaConsumerGroupList", (), "consumer-groups", [_describe(cluster, group) for group in groups]
    )


async def get_group(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
    cluster = open_cluster(access, request, values)
    return json_response(_describe(cluster, await describe_group(access, values["consumer_group_id"])))


async def list_consumers(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
    cluster = open_cluster(access, request, values)
    group = await describe_group(access, values["consumer_group_id"])
    return cluster.collection(
        "KafkaConsumerList",
        path_of(group),
        "consumers",
        [_describe_consumer(cluster, group, member) for member in group.members],
    )


async def get_consumer(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
    cluster = open_cluster(access, request, values)
    group = await describe_group(access, values["consumer_group_id"])
    return json_response(_describe_consumer(cluster, group, _find_member(group, values["consumer_id"])))


async def list_assignments(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
    cluster = open_cluster(access, request, values)
    group = await describe_group(access, values["consumer_group_id"])
    member = _find_member(group, values["consumer_id"])
    return cluster.collection(
        "KafkaConsumerAssignmentList",
        consumer_path(group, member),
        "assignments",
        [_describe_assignment(cluster, group, member, topic, index) for topic, index in member.partitions],
    )


def _find_member(group: Group, member_id: str) -> GroupMember:
    for member in group.members:
        if member.member_id == member_id:
            return member
    raise ProxyError(404, f"Group {group.group_id} has no member {member_id[:300]}.")


def path_of(group: Group) -> Path:
    return (("consumer-groups", group.group_id),)


def consumer_path(group: Group, member: GroupMember) -> Path:
    return (*path_of(group), ("consumers", member.member_id))


def lag_path(group_id: str, topic: str, index: int) -> Path:
    return (("consumer-groups", group_id), ("lags", topic), ("partitions", index))


def state_name(state: str) -> str:
    """PreparingRebalance as PREPARING_REBALANCE."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", state).upper()


def _describe(cluster: Cluster, group: Group) -> dict[str, Any]:
    path = path_of(group)
    return cluster.resource(
        "KafkaConsumerGroup",
        path,
        {
            "consumer_group_id": group.group_id,
            "is_simple": group.is_simple,
            "partition_assignor": group.assignor,
            "state": state_name(group.state),
            "coordinator": cluster.related((("brokers", group.coordinator),)),
            "consumers": cluster.related(path, "consumers"),
            "lag_summary": cluster.related(path, "lag-summary"),
        },
    )


def _describe_consumer(cluster: Cluster, group: Group, member: GroupMember) -> dict[str, Any]:
    path = consumer_path(group, member)
    return cluster.resource(
        "KafkaConsumer",
        path,
        {
            "consumer_group_id": group.group_id,
            "consumer_id": member.member_id,
            "instance_id": member.instance_id,
            "client_id": member.client_id,
            "assignments": cluster.related(path, "assignments"),
        },
    )


def _describe_assignment(cluster: Cluster, group: Group, member: GroupMember, topic: str, index: int) -> dict[str, Any]:
    return cluster.resource(
        "KafkaConsumerAssignment",
        (*consumer_path(group, member), ("assignments", topic), ("partitions", index)),
        {
            "consumer_group_id": group.group_id,
            "consumer_id": member.member_id,
            "topic_name": topic,
            "partition_id": index,
            "partition": cluster.related((("topics", topic), ("partitions", index))),
            "lag": cluster.related(lag_path(group.group_id, topic, index)),
        },
    )


# -- routes ------------------------------------------------------------------------------------------------------------

_GROUP: Final = resource_schema(
    "KafkaConsumerGroup",
    {
        "consumer_group_id": STRING,
        "is_simple": BOOLEAN,
        "partition_assignor": STRING,
        "state": STRING,
        "coordinator": RELATED,
        "consumers": RELATED,
        "lag_summary": RELATED,
    },
)
_MEMBER: Final = resource_schema(
    "KafkaConsumer",
    {
        "consumer_group_id": STRING,
        "consumer_id": STRING,
        "instance_id": nullable(STRING),
        "client_id": STRING,
        "assignments": RELATED,
    },
)
_ASSIGNMENT: Final = resource_schema(
    "KafkaConsumerAssignment",
    {
        "consumer_group_id": STRING,
        "consumer_id": STRING,
        "topic_name": STRING,
        "partition_id": INTEGER,
        "partition": RELATED,
        "lag": RELATED,
    },
)

_at_groups: Final = V3Route("/consumer-groups")
_at_group: Final = V3Route("/consumer-groups/{consumer_group_id}", GROUP)
_at_consumers: Final = V3Route("/consumer-groups/{consumer_group_id}/consumers", GROUP)
_at_consumer: Final = V3Route("/consumer-groups/{consumer_group_id}/consumers/{consumer_id}", GROUP, _CONSUMER)
_at_assignments: Final = V3Route(
    "/consumer-groups/{consumer_group_id}/consumers/{consumer_id}/assignments", GROUP, _CONSUMER
)

ROUTES: Final = (
    _at_groups(
        "GET",
        list_groups,
        "v3ListConsumerGroups",
        "All consumer groups.",
        v3_answer("The groups.", collection_schema("KafkaConsumerGroupList", _GROUP)),
    ),
    _at_group("GET", get_group, "v3GetConsumerGroup", "One consumer group.", v3_answer("The group.", _GROUP)),
    _at_consumers(
        "GET",
        list_consumers,
        "v3ListConsumers",
        "The members of a group.",
        v3_answer("The members.", collection_schema("KafkaConsumerList", _MEMBER)),
    ),
    _at_consumer("GET", get_consumer, "v3GetConsumer", "One member.", v3_answer("The member.", _MEMBER)),
    _at_assignments(
        "GET",
        list_assignments,
        "v3ListConsumerAssignments",
        "What a member reads.",
        v3_answer("The partitions.", collection_schema("KafkaConsumerAssignmentList", _ASSIGNMENT)),
    ),
)
