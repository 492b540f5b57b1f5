"""v3: the cluster and its brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tidelog.gateways.http.messages import JSON, Answer, Request, json_response
from tidelog.gateways.http.proxy.errors import ProxyError, respond_to_v3_fault
from tidelog.gateways.http.proxy.schemas import errors_as
from tidelog.gateways.http.proxy.v3.resources import (
    RELATED,
    STRING,
    Cluster,
    V3Route,
    collection_schema,
    open_cluster,
    resource_schema,
    this_cluster,
    v3_answer,
)
from tidelog.gateways.http.routes import Parameter, Route
from tidelog.gateways.http.schemas import INTEGER, PARTITION_INDEX, nullable
from tidelog.protocol.index import ApiKey

if TYPE_CHECKING:
    from tidelog.gateways.access import LogAccess
    from tidelog.protocol.generated.describe_cluster import DescribeClusterBroker, DescribeClusterResponse

BROKER: Final = Parameter("broker_id", "path", PARTITION_INDEX, "The node's number.", is_required=True)


async def list_clusters(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
    cluster = this_cluster(access, request)
    described = await _describe(access)
    return json_response(
        {
            "kind": "KafkaClusterList",
            "metadata": {"self": cluster.base, "next": None},
            "data": [_describe_cluster(cluster, described)],
        }
    )


async def get_cluster(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
    cluster = open_cluster(access, request, values)
    return json_response(_describe_cluster(cluster, await _describe(access)))


async def list_brokers(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
    cluster = open_cluster(access, request, values)
    brokers = sorted((await _describe(access)).brokers, key=lambda broker: broker.broker_id)
    return cluster.collection(
        "KafkaBrokerList", (), "brokers", [_describe_broker(cluster, broker) for broker in brokers]
    )


async def get_broker(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
    cluster = open_cluster(access, request, values)
    for broker in (await _describe(access)).brokers:
        if broker.broker_id == values["broker_id"]:
            return json_response(_describe_broker(cluster, broker))
    raise ProxyError(404, f"There is no broker {values['broker_id']} that is alive.")


async def _describe(access: LogAccess) -> DescribeClusterResponse:
    from tidelog.protocol.generated.describe_cluster import DescribeClusterRequest

    response: DescribeClusterResponse = await access.ask(ApiKey.DESCRIBE_CLUSTER, DescribeClusterRequest())
    return response


def _describe_cluster(cluster: Cluster, described: DescribeClusterResponse) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "acls": cluster.related((), "acls"),
        "brokers": cluster.related((), "brokers"),
        "broker_configs": cluster.related((), "broker-configs"),
        "consumer_groups": cluster.related((), "consumer-groups"),
        "topics": cluster.related((), "topics"),
        "partition_reassignments": cluster.related((("topics", "-"), ("partitions", "-")), "reassignment"),
    }
    if described.controller_id >= 0:
        fields["controller"] = cluster.related((("brokers", described.controller_id),))
    return cluster.resource("KafkaCluster", (), fields)


def _describe_broker(cluster: Cluster, broker: DescribeClusterBroker) -> dict[str, Any]:
    path = (("brokers", broker.broker_id),)
    return cluster.resource(
        "KafkaBroker",
        path,
        {
            "broker_id": broker.broker_id,
            "host": broker.host,
            "port": broker.port,
            "rack": broker.rack,
            "configs": cluster.related(path, "configs"),
            "partition_replicas": cluster.related(path, "partition-replicas"),
        },
    )


# -- routes ------------------------------------------------------------------------------------------------------------

_CLUSTER: Final = resource_schema(
    "KafkaCluster",
    dict.fromkeys(
        ("acls", "brokers", "broker_configs", "consumer_groups", "topics", "partition_reassignments"), RELATED
    ),
    {"controller": RELATED},
)
_BROKER: Final = resource_schema(
    "KafkaBroker",
    {
        "broker_id": INTEGER,
        "host": nullable(STRING),
        "port": nullable(INTEGER),
        "rack": nullable(STRING),
        "configs": RELATED,
        "partition_replicas": RELATED,
    },
)

_at_cluster: Final = V3Route("")
_at_brokers: Final = V3Route("/brokers")
_at_broker: Final = V3Route("/brokers/{broker_id}", BROKER)

ROUTES: Final = (
    Route(
        "GET",
        "/v3/clusters",
        list_clusters,
        "v3ListClusters",
        "The cluster of this node: the only one it knows.",
        "v3",
        (
            v3_answer("One cluster.", collection_schema("KafkaClusterList", _CLUSTER)),
            *errors_as(JSON, 400, 403, 408, 413, 500, 503, 504),
        ),
        respond_to_fault=respond_to_v3_fault,
    ),
    _at_cluster("GET", get_cluster, "v3GetCluster", "The cluster.", v3_answer("The cluster.", _CLUSTER)),
    _at_brokers(
        "GET",
        list_brokers,
        "v3ListBrokers",
        "The brokers that are alive.",
        v3_answer("The brokers.", collection_schema("KafkaBrokerList", _BROKER)),
    ),
    _at_broker("GET", get_broker, "v3GetBroker", "One broker.", v3_answer("The broker.", _BROKER)),
)
