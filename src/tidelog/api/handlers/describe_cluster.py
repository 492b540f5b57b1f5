"""DescribeCluster: the cluster's id, its controller and its brokers."""

from __future__ import annotations

from tidelog.api.authorized_operations import NOT_ASKED, cluster_operations
from tidelog.api.context import RequestContext
from tidelog.model.errors import ErrorCode
from tidelog.protocol.generated.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

ENDPOINT_BROKER = 1
ENDPOINT_CONTROLLER = 2


def handle(context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    if request.endpoint_type == ENDPOINT_CONTROLLER:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type "
            "CONTROLLER",
        )
    if request.endpoint_type != ENDPOINT_BROKER:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"Unsupported endpoint type {request.endpoint_type}",
        )
    image = context.services.metadata.image
    brokers = []
    for broker in image.brokers.values():
        endpoint = broker.endpoint(context.caller.listener_name)
        if endpoint is not None and (request.include_fenced_brokers or not broker.fenced):
            brokers.append(
                DescribeClusterBroker(
                    broker_id=broker.node_id,
                    host=endpoint.host,
                    port=endpoint.port,
                    rack=broker.rack,
                    is_fenced=broker.fenced,
                )
            )
    asked = request.include_cluster_authorized_operations
    return DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        brokers=brokers,
        cluster_authorized_operations=cluster_operations(context) if asked else NOT_ASKED,
    )
