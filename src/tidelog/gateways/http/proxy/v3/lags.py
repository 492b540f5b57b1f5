"""v3: how far a group is behind the ends of the partitions for which it has committed offsets."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.gateways.access import LATEST, LeaderElsewhere
from tidelog.gateways.http.messages import Answer, Request, json_response
from tidelog.gateways.http.proxy.errors import ProxyError
from tidelog.gateways.http.proxy.v3.describing import Group, describe_group
from tidelog.gateways.http.proxy.v3.groups import GROUP, consumer_path, lag_path, path_of
from tidelog.gateways.http.proxy.v3.partitions import PARTITION
from tidelog.gateways.http.proxy.v3.resources import (
    RELATED,
    STRING,
    Cluster,
    V3Route,
    collection_schema,
    open_cluster,
    resource_schema,
    v3_answer,
)
from tidelog.gateways.http.proxy.v3.topics import TOPIC
from tidelog.gateways.http.schemas import INTEGER, nullable
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.index import ApiKey

if TYPE_CHECKING:
    from tidelog.gateways.access import LogAccess
    from tidelog.protocol.generated.list_offsets import ListOffsetsResponse
    from tidelog.protocol.generated.offset_fetch import OffsetFetchResponse

_OFFSET_FETCH_BY_NAME: Final = 9
"""The last version that names topics; newer ones have topic ids."""

Partition = tuple[str, int]


class Lag(NamedTuple):
    topic: str
    partition: int
    current_offset: int
    end_offset: int

    @property
    def lag(self) -> int:
        return max(0, self.end_offset - self.current_offset)


async def list_lags(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
    cluster = open_cluster(access, request, values)
    group = await describe_group(access, values["consumer_group_id"])
    lags = await _lags_of(access, group)
    return cluster.collection(
        "KafkaConsumerLagList", path_of(group), "lags", [_describe(cluster, group, lag) for lag in lags]
    )


async def get_lag(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
    cluster = open_cluster(access, request, values)
    group = await describe_group(access, values["consumer_group_id"])
    topic, index = values["topic_name"], values["partition_id"]
    for lag in await _lags_of(access, group, (topic, index)):
        return json_response(_describe(cluster, group, lag))
    raise ProxyError(404, f"Group {group.group_id} has committed no offset of {topic[:300]}-{index}.")


async def summarize_lag(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
    cluster = open_cluster(access, request, values)
    group = await describe_group(access, values["consumer_group_id"])
    lags = await _lags_of(access, group)
    if not lags:
        raise ProxyError(404, f"Group {group.group_id} has committed no offsets.")
    largest = max(lags, key=lambda lag: lag.lag)
    reader = group.reader_of(largest.topic, largest.partition)
    path = path_of(group)
    return json_response(
        {
            "kind": "KafkaConsumerGroupLagSummary",
            "metadata": {
                "self": cluster.link(path, "lag-summary"),
                "resource_name": f"crn:///kafka={cluster.id}/consumer-group={group.group_id}/lag-summary",
            },
            "cluster_id": cluster.id,
            "consumer_group_id": group.group_id,
            "max_lag_consumer_id": reader.member_id if reader else "",
            "max_lag_instance_id": reader.instance_id if reader else None,
            "max_lag_client_id": reader.client_id if reader else "",
            "max_lag_topic_name": largest.topic,
            "max_lag_partition_id": largest.partition,
            "max_lag": largest.lag,
            "total_lag": sum(lag.lag for lag in lags),
            "max_lag_consumer": cluster.related(consumer_path(group, reader) if reader else path),
            "max_lag_partition": cluster.related((("topics", largest.topic), ("partitions", largest.partition))),
        }
    )


# -- asking ------------------------------------------------------------------------------------------------------------


async def _lags_of(access: LogAccess, group: Group, only: Partition | None = None) -> list[Lag]:
    """By topic and partition. Topics that are deleted have no end to be behind of."""
    committed = await _committed_offsets(access, group, only)
    by_leader: dict[int, list[Partition]] = {}
    for topic, index in sorted(committed):
        if access.partition(topic, index) is None:
            continue
        elsewhere = access.leader_elsewhere(topic, index)
        if elsewhere.leader is None:
            raise elsewhere
        by_leader.setdefault(elsewhere.leader, []).append((topic, index))
    found = await asyncio.gather(*(_ends_of(access, leader, asked) for leader, asked in by_leader.items()))
    ends = {partition: end for ends_at_leader in found for partition, end in ends_at_leader.items()}
    return [Lag(topic, index, committed[topic, index], ends[topic, index]) for topic, index in sorted(ends)]


async def _committed_offsets(access: LogAccess, group: Group, only: Partition | None) -> dict[Partition, int]:
    from tidelog.protocol.generated.offset_fetch import (
        OffsetFetchRequest,
        OffsetFetchRequestGroup,
        OffsetFetchRequestTopics,
    )

    topics = None if only is None else [OffsetFetchRequestTopics(name=only[0], partition_indexes=[only[1]])]
    response: OffsetFetchResponse = await access.ask(
        ApiKey.OFFSET_FETCH,
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group.group_id, topics=topics)]),
        version=_OFFSET_FETCH_BY_NAME,
        at=group.coordinator,
    )
    [answer] = response.groups
    if answer.error_code:
        raise BrokerError(ErrorCode(answer.error_code))
    return {
        (topic.name, partition.partition_index): partition.committed_offset
        for topic in answer.topics
        for partition in topic.partitions
        if partition.committed_offset >= 0 and not partition.error_code
    }


async def _ends_of(access: LogAccess, leader: int, asked: list[Partition]) -> dict[Partition, int]:
    from tidelog.protocol.generated.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

    by_topic: dict[str, list[int]] = {}
    for topic, index in asked:
        by_topic.setdefault(topic, []).append(index)
    request = ListOffsetsRequest(
        topics=[
            ListOffsetsTopic(
                name=topic,
                partitions=[ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in indexes],
            )
            for topic, indexes in by_topic.items()
        ]
    )
    response: ListOffsetsResponse = await access.ask(ApiKey.LIST_OFFSETS, request, at=leader)
    ends = {}
    for answer in response.topics:
        for found in answer.partitions:
            if found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                raise LeaderElsewhere(answer.name, found.partition_index, None)
            if found.error_code:
                raise BrokerError(ErrorCode(found.error_code))
            ends[answer.name, found.partition_index] = found.offset
    return ends


def _describe(cluster: Cluster, group: Group, lag: Lag) -> dict[str, Any]:
    reader = group.reader_of(lag.topic, lag.partition)
    return cluster.resource(
        "KafkaConsumerLag",
        lag_path(group.group_id, lag.topic, lag.partition),
        {
            "consumer_group_id": group.group_id,
            "topic_name": lag.topic,
            "partition_id": lag.partition,
            "consumer_id": reader.member_id if reader else "",
            "instance_id": reader.instance_id if reader else None,
            "client_id": reader.client_id if reader else "",
            "current_offset": lag.current_offset,
            "log_end_offset": lag.end_offset,
            "lag": lag.lag,
        },
    )


# -- routes ------------------------------------------------------------------------------------------------------------

_LAG: Final = resource_schema(
    "KafkaConsumerLag",
    {
        "consumer_group_id": STRING,
        "topic_name": STRING,
        "partition_id": INTEGER,
        "consumer_id": STRING,
        "instance_id": nullable(STRING),
        "client_id": STRING,
        "current_offset": INTEGER,
        "log_end_offset": INTEGER,
        "lag": INTEGER,
    },
)
_SUMMARY: Final = resource_schema(
    "KafkaConsumerGroupLagSummary",
    {
        "consumer_group_id": STRING,
        "max_lag_consumer_id": STRING,
        "max_lag_instance_id": nullable(STRING),
        "max_lag_client_id": STRING,
        "max_lag_topic_name": STRING,
        "max_lag_partition_id": INTEGER,
        "max_lag": INTEGER,
        "total_lag": INTEGER,
        "max_lag_consumer": RELATED,
        "max_lag_partition": RELATED,
    },
)

_at_lags: Final = V3Route("/consumer-groups/{consumer_group_id}/lags", GROUP)
_at_lag: Final = V3Route(
    "/consumer-groups/{consumer_group_id}/lags/{topic_name}/partitions/{partition_id}", GROUP, TOPIC, PARTITION
)
_at_summary: Final = V3Route("/consumer-groups/{consumer_group_id}/lag-summary", GROUP)

ROUTES: Final = (
    _at_lags(
        "GET",
        list_lags,
        "v3ListConsumerLags",
        "The lag of a group for each partition of which it has committed an offset.",
        v3_answer("The lags.", collection_schema("KafkaConsumerLagList", _LAG)),
    ),
    _at_lag("GET", get_lag, "v3GetConsumerLag", "The lag for one partition.", v3_answer("The lag.", _LAG)),
    _at_summary(
        "GET",
        summarize_lag,
        "v3GetConsumerGroupLagSummary",
        "The largest lag of a group, and the sum of all.",
        v3_answer("The lag.", _SUMMARY),
    ),
)
