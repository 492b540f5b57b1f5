"""How the nodes are doing (private): each tells the active controller with its heartbeats, and hears of all others.

JSON in both directions. A request of {} asks without telling anything, on any node: `tidelog cluster status` does.
"""

from __future__ import annotations

from typing import Any

from tidelog.api.authorization import authorize
from tidelog.api.context import RequestContext
from tidelog.controller.core.lowered import lowered_topics
from tidelog.model.access import CLUSTER, Operation
from tidelog.model.errors import BrokerError, ErrorCode


def handle(context: RequestContext, request: dict[str, Any]) -> dict[str, Any]:
    cluster = context.services.cluster
    try:
        if "node_id" in request:
            if not authorize(context, Operation.CLUSTER_ACTION, CLUSTER):
                raise BrokerError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            known = context.services.controller.duties.report(
                int(request["node_id"]), int(request["epoch"]), dict(request["statistics"])
            )
        else:
            known = cluster.statistics
    except (BrokerError, ValueError, KeyError, TypeError) as error:
        return {"error": str(error)}
    image = context.services.controller.image
    answer: dict[str, Any] = {
        "nodes": {str(node_id): statistics for node_id, statistics in known.items()},
        "drained": [node_id for node_id in image.brokers if image.is_cordoned(node_id)],
    }
    if "node_id" not in request:
        answer["has_controller"] = context.services.controller.quorum_controller.leader_id >= 0
        # Only for people: every heartbeat would look through all topics else.
        answer["lowered"] = {name: [lowered.factor, lowered.nodes] for name, lowered in lowered_topics(image)}
    return answer
