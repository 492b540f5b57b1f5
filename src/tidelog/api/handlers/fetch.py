"""Fetch: asks what the caller may read, then has the partitions read it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.api.authorization import authorize
from tidelog.api.context import RequestContext
from tidelog.model.access import CLUSTER, Operation, Resource, ResourceType
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.net.later import Later
from tidelog.partitions.fetching import Fetcher, FetchResponse

if TYPE_CHECKING:
    from tidelog.partitions.fetch_session import TopicKey
    from tidelog.protocol.hot_fetch import FetchRequest


def handle(context: RequestContext, request: FetchRequest) -> FetchResponse | Later[FetchResponse]:
    services, caller = context.services, context.caller
    allows: Callable[[TopicKey], bool] | None = None
    if request.replica_id >= 0:
        # What a replica fetches counts as being on its disk.
        if not authorize(context, Operation.CLUSTER_ACTION, CLUSTER):
            raise BrokerError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    elif services.authorizer is not None:
        allows = _reads(context)
    fetcher = Fetcher(context.version, caller.peer_host, caller.listener_name, allows)
    return services.fetching.fetch(fetcher, request)


def _reads(context: RequestContext) -> Callable[[TopicKey], bool]:
    """Whether the caller may read a topic. One that does not exist is refused as such."""

    def allows(key: TopicKey) -> bool:
        image = context.services.metadata.image
        topic = image.topics.get(key) if isinstance(key, str) else image.topics_by_id.get(key)
        name = key if isinstance(key, str) else None if topic is None else topic.name
        return name is None or authorize(context, Operation.READ, Resource(ResourceType.TOPIC, name))

    return allows
