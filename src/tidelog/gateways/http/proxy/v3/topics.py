"""v3: topics are listed, created, given more partitions, and deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tidelog.gateways.http.messages import Answer, Request, Response, json_response
from tidelog.gateways.http.proxy.errors import ProxyError
from tidelog.gateways.http.proxy.v3.resources import (
    BOOLEAN,
    RELATED,
    STRING,
    Cluster,
    V3Route,
    collection_schema,
    field_of,
    open_cluster,
    read_object,
    resource_schema,
    v3_answer,
    v3_body,
)
from tidelog.gateways.http.routes import Outcome, Parameter
from tidelog.gateways.http.schemas import INTEGER, array, nullable, struct
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.index import ApiKey

if TYPE_CHECKING:
    from tidelog.gateways.access import LogAccess
    from tidelog.protocol.generated.create_partitions import CreatePartitionsResponse
    from tidelog.protocol.generated.create_topics import (
        CreatableReplicaAssignment,
        CreatableTopicConfig,
        CreateTopicsResponse,
    )
    from tidelog.protocol.generated.delete_topics import DeleteTopicsResponse
    from tidelog.protocol.generated.metadata import MetadataResponse, MetadataResponseTopic

TOPIC: Final = Parameter("topic_name", "path", STRING, "The topic's name.", is_required=True)
_DEFAULT: Final = -1
"""Partitions and replicas as the cluster's settings say."""
_TIMEOUT_MS: Final = 30_000
SHORTS: Final = range(-(2**15), 2**15)


async def list_topics(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
    cluster = open_cluster(access, request, values)
    found = sorted(await all_topics(access), key=lambda topic: topic.name or "")
    return cluster.collection("KafkaTopicList", (), "topics", [_describe(cluster, topic) for topic in found])


async def all_topics(access: LogAccess) -> list[MetadataResponseTopic]:
    from tidelog.protocol.generated.metadata import MetadataRequest

    response: MetadataResponse = await access.ask(ApiKey.METADATA, MetadataRequest(topics=None))
    return response.topics


async def get_topic(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
    cluster = open_cluster(access, request, values)
    return json_response(_describe(cluster, await access.find_topic(values["topic_name"])))


async def create_topic(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
    from tidelog.protocol.generated.create_topics import CreatableTopic, CreateTopicsRequest

    cluster = open_cluster(access, request, values)
    body = read_object(request)
    name = field_of(body, "topic_name", str)
    if name is None:
        raise ProxyError(422, "topic_name is missing: name the topic.")
    assignments = _read_assignments(field_of(body, "replicas_assignments", list, []))
    replication_factor = field_of(body, "replication_factor", int, _DEFAULT)
    if replication_factor not in SHORTS:
        raise ProxyError(422, f"replication_factor must be at most {SHORTS.stop - 1}.")
    is_dry_run = field_of(body, "validate_only", bool, False)
    topic = CreatableTopic(
        name=name,
        num_partitions=field_of(body, "partitions_count", int, _DEFAULT),
        replication_factor=replication_factor,
        assignments=assignments,
        configs=_read_configs(field_of(body, "configs", list, [])),
    )
    response: CreateTopicsResponse = await access.ask(
        ApiKey.CREATE_TOPICS,
        CreateTopicsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS, validate_only=is_dry_run),
    )
    [result] = response.topics
    _raise_for(result.error_code, result.error_message)
    path = (("topics", name),)
    described = _as_resource(cluster, name, max(0, result.replication_factor), max(0, result.num_partitions))
    if is_dry_run:
        return json_response(described)
    return json_response(described, status=201, headers={"Location": cluster.link(path)})


async def delete_topic(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
    from tidelog.protocol.generated.delete_topics import DeleteTopicsRequest, DeleteTopicState

    open_cluster(access, request, values)
    response: DeleteTopicsResponse = await access.ask(
        ApiKey.DELETE_TOPICS,
        DeleteTopicsRequest(topics=[DeleteTopicState(name=values["topic_name"])], timeout_ms=_TIMEOUT_MS),
    )
    [result] = response.responses
    _raise_for(result.error_code, result.error_message)
    return Response(status=204, content_type="")


async def add_partitions(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
    from tidelog.protocol.generated.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic

    cluster = open_cluster(access, request, values)
    name, count = values["topic_name"], field_of(read_object(request), "partitions_count", int)
    if count is None:
        raise ProxyError(422, "partitions_count is missing: say how many partitions the topic is to have.")
    response: CreatePartitionsResponse = await access.ask(
        ApiKey.CREATE_PARTITIONS,
        CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=name, count=count, assignments=None)], timeout_ms=_TIMEOUT_MS
        ),
    )
    [result] = response.results
    _raise_for(result.error_code, result.error_message)
    return json_response(_describe(cluster, await access.find_topic(name)))


def _raise_for(code: int, message: str | None) -> None:
    if code:
        raise BrokerError(ErrorCode(code), message or None)


def _read_assignments(said: list[Any]) -> list[CreatableReplicaAssignment]:
    from tidelog.protocol.generated.create_topics import CreatableReplicaAssignment

    assignments = []
    for number, each in enumerate(said):
        name = f"replicas_assignments[{number}]"
        if not isinstance(each, dict) or each.get("partition_id") is None or each.get("broker_ids") is None:
            raise ProxyError(422, f'{name} must be {{"partition_id": 0, "broker_ids": [1, 2]}}.')
        brokers = field_of(each, "broker_ids", list)
        assignments.append(
            CreatableReplicaAssignment(
                partition_index=field_of(each, "partition_id", int),
                broker_ids=[field_of({"broker_ids": broker}, "broker_ids", int, -1) for broker in brokers],
            )
        )
    return assignments


def _read_configs(said: list[Any]) -> list[CreatableTopicConfig]:
    from tidelog.protocol.generated.create_topics import CreatableTopicConfig

    configs = []
    for number, each in enumerate(said):
        name = field_of(each, "name", str) if isinstance(each, dict) else None
        if name is None:
            raise ProxyError(422, f'configs[{number}] must be {{"name": "retention.ms", "value": "1000"}}.')
        configs.append(CreatableTopicConfig(name=name, value=field_of(each, "value", str)))
    return configs


def _describe(cluster: Cluster, topic: MetadataResponseTopic) -> dict[str, Any]:
    replicas = max((len(partition.replica_nodes) for partition in topic.partitions), default=0)
    return _as_resource(cluster, topic.name or "", replicas, len(topic.partitions), is_internal=topic.is_internal)


def _as_resource(
    cluster: Cluster, name: str, replication_factor: int, partition_count: int, *, is_internal: bool = False
) -> dict[str, Any]:
    path = (("topics", name),)
    return cluster.resource(
        "KafkaTopic",
        path,
        {
            "topic_name": name,
            "is_internal": is_internal,
            "replication_factor": replication_factor,
            "partitions_count": partition_count,
            "partitions": cluster.related(path, "partitions"),
            "configs": cluster.related(path, "configs"),
            "partition_reassignments": cluster.related((*path, ("partitions", "-")), "reassignment"),
        },
    )


# -- routes ------------------------------------------------------------------------------------------------------------

_TOPIC: Final = resource_schema(
    "KafkaTopic",
    {
        "topic_name": STRING,
        "is_internal": BOOLEAN,
        "replication_factor": INTEGER,
        "partitions_count": INTEGER,
        "partitions": RELATED,
        "configs": RELATED,
        "partition_reassignments": RELATED,
    },
)
_NEW_TOPIC: Final = struct(
    {
        "topic_name": STRING,
        "partitions_count": nullable(INTEGER),
        "replication_factor": nullable(INTEGER),
        "replicas_assignments": array(struct({"partition_id": INTEGER, "broker_ids": array(INTEGER)})),
        "configs": array(struct({"name": STRING, "value": nullable(STRING)}, ("name",))),
        "validate_only": BOOLEAN,
    },
    ("topic_name",),
)
_EXAMPLE: Final = {
    "topic_name": "clicks",
    "partitions_count": 3,
    "configs": [{"name": "cleanup.policy", "value": "compact"}],
}

_at_topics: Final = V3Route("/topics")
_at_topic: Final = V3Route("/topics/{topic_name}", TOPIC)
_create: Final = _at_topics(
    "POST",
    create_topic,
    "v3CreateTopic",
    "Creates a topic, or only says whether it could be.",
    v3_answer("The topic is there.", _TOPIC, status=201),
    v3_body(_NEW_TOPIC, _EXAMPLE),
)

ROUTES: Final = (
    _at_topics(
        "GET",
        list_topics,
        "v3ListTopics",
        "All topics.",
        v3_answer("The topics.", collection_schema("KafkaTopicList", _TOPIC)),
    ),
    _create.replace(outcomes=(v3_answer("The topic could be created as it is asked for.", _TOPIC), *_create.outcomes)),
    _at_topic("GET", get_topic, "v3GetTopic", "One topic.", v3_answer("The topic.", _TOPIC)),
    _at_topic("DELETE", delete_topic, "v3DeleteTopic", "Deletes a topic.", Outcome(204, "The topic is deleted.")),
    _at_topic(
        "PATCH",
        add_partitions,
        "v3AddPartitions",
        "Gives a topic more partitions.",
        v3_answer("The topic as it is now.", _TOPIC),
        v3_body(struct({"partitions_count": INTEGER}), {"partitions_count": 6}),
    ),
)
