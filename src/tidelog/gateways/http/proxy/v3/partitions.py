"""v3: partitions and their replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tidelog.gateways.http.messages import Answer, Request, json_response
from tidelog.gateways.http.proxy.errors import ProxyError
from tidelog.gateways.http.proxy.topics import find_partition
from tidelog.gateways.http.proxy.v3.clusters import BROKER
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
from tidelog.gateways.http.proxy.v3.topics import TOPIC, all_topics
from tidelog.gateways.http.routes import Parameter
from tidelog.gateways.http.schemas import INTEGER, PARTITION_INDEX

if TYPE_CHECKING:
    from tidelog.gateways.access import LogAccess
    from tidelog.protocol.generated.metadata import MetadataResponsePartition

PARTITION: Final = Parameter("partition_id", "path", PARTITION_INDEX, "The partition's number.", is_required=True)


async def list_partitions(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
    cluster = open_cluster(access, request, values)
    name = values["topic_name"]
    partitions = sorted((await access.find_topic(name)).partitions, key=lambda partition: partition.partition_index)
    return cluster.collection(
        "KafkaPartitionList",
        (("topics", name),),
        "partitions",
        [_describe(cluster, name, partition) for partition in partitions],
    )


async def get_partition(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
    cluster = open_cluster(access, request, values)
    name = values["topic_name"]
    return json_response(_describe(cluster, name, await find_partition(access, name, values["partition_id"])))


async def list_replicas(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
    cluster = open_cluster(access, request, values)
    name, index = values["topic_name"], values["partition_id"]
    partition = await find_partition(access, name, index)
    return cluster.collection(
        "KafkaReplicaList",
        _path(name, index),
        "replicas",
        [_describe_replica(cluster, name, partition, node) for node in partition.replica_nodes],
    )


async def get_replica(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
    cluster = open_cluster(access, request, values)
    name, index, node = values["topic_name"], values["partition_id"], values["broker_id"]
    partition = await find_partition(access, name, index)
    if node not in partition.replica_nodes:
        raise ProxyError(404, f"Broker {node} has no replica of {name}-{index}.")
    return json_response(_describe_replica(cluster, name, partition, node))


async def list_replicas_of_broker(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
    cluster = open_cluster(access, request, values)
    node = values["broker_id"]
    if node not in access.image.brokers:
        raise ProxyError(404, f"There is no broker {node}.")
    data = [
        _describe_replica(cluster, topic.name or "", partition, node)
        for topic in sorted(await all_topics(access), key=lambda topic: topic.name or "")
        for partition in topic.partitions
        if node in partition.replica_nodes
    ]
    return cluster.collection("KafkaReplicaList", (("brokers", node),), "partition-replicas", data)


def _path(name: str, index: int) -> Path:
    return (("topics", name), ("partitions", index))


def _describe(cluster: Cluster, name: str, partition: MetadataResponsePartition) -> dict[str, Any]:
    path = _path(name, partition.partition_index)
    fields: dict[str, Any] = {
        "topic_name": name,
        "partition_id": partition.partition_index,
        "replicas": cluster.related(path, "replicas"),
        "reassignment": cluster.related(path, "reassignment"),
    }
    if partition.leader_id >= 0:
        fields["leader"] = cluster.related((*path, ("replicas", partition.leader_id)))
    return cluster.resource("KafkaPartition", path, fields)


def _describe_replica(cluster: Cluster, name: str, partition: MetadataResponsePartition, node: int) -> dict[str, Any]:
    return cluster.resource(
        "KafkaReplica",
        (*_path(name, partition.partition_index), ("replicas", node)),
        {
            "topic_name": name,
            "partition_id": partition.partition_index,
            "broker_id": node,
            "is_leader": node == partition.leader_id,
            "is_in_sync": node in partition.isr_nodes,
            "broker": cluster.related((("brokers", node),)),
        },
    )


# -- routes ------------------------------------------------------------------------------------------------------------

_PARTITION: Final = resource_schema(
    "KafkaPartition",
    {"topic_name": STRING, "partition_id": INTEGER, "replicas": RELATED, "reassignment": RELATED},
    {"leader": RELATED},
)
_REPLICA: Final = resource_schema(
    "KafkaReplica",
    {
        "topic_name": STRING,
        "partition_id": INTEGER,
        "broker_id": INTEGER,
        "is_leader": BOOLEAN,
        "is_in_sync": BOOLEAN,
        "broker": RELATED,
    },
)

_PARTITIONS_PATH: Final = "/topics/{topic_name}/partitions"
_PARTITION_PATH: Final = f"{_PARTITIONS_PATH}/{{partition_id}}"
_at_partitions: Final = V3Route(_PARTITIONS_PATH, TOPIC)
_at_partition: Final = V3Route(_PARTITION_PATH, TOPIC, PARTITION)
_at_replicas: Final = V3Route(f"{_PARTITION_PATH}/replicas", TOPIC, PARTITION)
_at_replica: Final = V3Route(f"{_PARTITION_PATH}/replicas/{{broker_id}}", TOPIC, PARTITION, BROKER)
_at_broker: Final = V3Route("/brokers/{broker_id}/partition-replicas", BROKER)
_REPLICAS: Final = v3_answer("The replicas.", collection_schema("KafkaReplicaList", _REPLICA))

ROUTES: Final = (
    _at_partitions(
        "GET",
        list_partitions,
        "v3ListPartitions",
        "The partitions of a topic.",
        v3_answer("The partitions.", collection_schema("KafkaPartitionList", _PARTITION)),
    ),
    _at_partition("GET", get_partition, "v3GetPartition", "One partition.", v3_answer("The partition.", _PARTITION)),
    _at_replicas("GET", list_replicas, "v3ListReplicas", "The replicas of a partition.", _REPLICAS),
    _at_replica("GET", get_replica, "v3GetReplica", "One replica.", v3_answer("The replica.", _REPLICA)),
    _at_broker("GET", list_replicas_of_broker, "v3ListReplicasOfBroker", "The replicas that a broker has.", _REPLICAS),
)
