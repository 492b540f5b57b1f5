"""Requests to group coordinators that suites and benchmarks make by hand."""

from __future__ import annotations

from tests.servers.wire import Connection
from tests.waiting import wait_until

from tidelog.protocol.generated.find_coordinator import FindCoordinatorRequest
from tidelog.protocol.generated.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.protocol.generated.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

LOADED_SECONDS_MAX = 120.0


def wait_until_loaded(connection: Connection, groups: list[str]) -> None:
    """The coordinators of all these groups answer; the first search for one creates the topic of offsets."""
    wanted = FindCoordinatorRequest(coordinator_keys=groups)
    wait_until(
        lambda: all(answer.error_code == 0 for answer in connection.call(wanted, 4).coordinators),
        "there are coordinators",
        LOADED_SECONDS_MAX,
    )
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=[]) for group in groups])
    wait_until(
        lambda: all(answer.error_code == 0 for answer in connection.call(request, 9).groups),
        "the coordinators are loaded",
        LOADED_SECONDS_MAX,
    )


def commit_request(group: str, topic: str, partitions: int, offset: int) -> OffsetCommitRequest:
    """As a consumer without a group membership commits."""
    wanted = [OffsetCommitRequestPartition(partition_index=n, committed_offset=offset) for n in range(partitions)]
    return OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=wanted)])
