"""How the nodes are doing (private): each tells the active controller with its heartbeats, and hears of all others.

JSON in both directions. A request of {} asks without telling anything, on any node: `tidelog cluster status` does.
"""

from __future__ import annotations

from tidelog.api.context import RequestContext
from tidelog.codec.buffers import Buffer
from tidelog.controller.core.lowered import lowered_topics
from tidelog.model.errors import BrokerError
from tidelog.net.json_body import decode_body, encode_body
from tidelog.net.reply import Buffers


def handle_frame(context: RequestContext, frame: Buffer, position: int) -> Buffers:
    body = decode_body(frame, position)
    cluster = context.services.cluster
    try:
        if "node_id" in body:
            told = context.services.controller.duties.report(
                int(body["node_id"]), int(body["epoch"]), dict(body["statistics"])
            )
        else:
            told = cluster.statistics
    except (BrokerError, ValueError, KeyError, TypeError) as error:
        return encode_body({"error": str(error)})
    image = context.services.controller.image
    answer = {
        "nodes": {str(node_id): statistics for node_id, statistics in told.items()},
        "drained": [node_id for node_id in image.brokers if image.is_cordoned(node_id)],
    }
    if "node_id" not in body:
        # Only for people: every heartbeat would look through all topics else.
        answer["lowered"] = {name: [lowered.factor, lowered.nodes] for name, lowered in lowered_topics(image)}
    return encode_body(answer)
