"""Small requests that ask for much: names by the hundred thousand, and one thing again and again."""

from __future__ import annotations

import select
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.servers.broker_process import BrokerProcess
from tests.servers.group_requests import commit_request, wait_until_loaded
from tests.servers.topics import create_topic
from tests.servers.wire import Connection, ConnectionLost

from tidelog.model.errors import ErrorCode
from tidelog.model.limits import GROUP_CONFIGS_DESCRIBED_MAX, LOOKUP_BYTES_MAX
from tidelog.protocol.generated.consumer_group_describe import ConsumerGroupDescribeRequest
from tidelog.protocol.generated.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tidelog.protocol.generated.describe_groups import DescribeGroupsRequest
from tidelog.protocol.generated.describe_producers import DescribeProducersRequest, TopicRequest
from tidelog.protocol.generated.describe_transactions import DescribeTransactionsRequest
from tidelog.protocol.generated.find_coordinator import FindCoordinatorRequest
from tidelog.protocol.generated.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tidelog.protocol.message import Message

AGAIN = 20_000
"""Small enough for a request, and enough to be seen in its answer."""
PATIENCE_S = 5.0
"""Of a bystander. What is put in front of it takes seconds all in all; the machine may have other work."""
TOPIC, BROKER, GROUP = 2, 4, 32


@pytest.fixture
def opened(victim: BrokerProcess) -> Iterator[Connection]:
    with Connection(victim.port, timeout_s=60) as connection:
        create_topic(connection, "asked")
        wait_until_loaded(connection, ["asked"])
        connection.call(commit_request("asked", "asked", 1, 5), 9)
        yield connection


def repeated() -> dict[str, tuple[Message, int, str]]:
    """Request, version, and where its answer has a place for each thing that was asked for."""
    whole = OffsetFetchRequestGroup(group_id="asked", topics=None)
    config = DescribeConfigsResource(resource_type=TOPIC, resource_name="asked", configuration_keys=None)
    return {
        "groups": (DescribeGroupsRequest(groups=["asked"] * AGAIN), 5, "groups"),
        "consumer groups": (ConsumerGroupDescribeRequest(group_ids=["asked"] * AGAIN), 1, "groups"),
        "offsets": (OffsetFetchRequest(groups=[whole] * AGAIN), 9, "groups"),
        "configs": (DescribeConfigsRequest(resources=[config] * AGAIN), 4, "results"),
        "transactions": (DescribeTransactionsRequest(transactional_ids=["asked"] * AGAIN), 0, "transaction_states"),
    }


@pytest.mark.parametrize("name", repeated())
def test_what_is_asked_again_and_again_is_told_once(opened: Connection, name: str) -> None:
    request, version, place = repeated()[name]
    answer: Any = opened.call(request, version)
    assert len(getattr(answer, place)) == 1


def test_producers_of_a_partition_are_told_once(opened: Connection) -> None:
    topics = [TopicRequest(name="asked", partition_indexes=[0] * AGAIN)] * 2
    first, second = opened.call(DescribeProducersRequest(topics=topics), 0).topics
    assert (len(first.partitions), len(second.partitions)) == (1, 0)


def settings_of_groups(names: list[str]) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=GROUP, resource_name=name, configuration_keys=None) for name in names
        ]
    )


def test_settings_of_groups_that_anybody_can_name_are_told_for_a_bounded_number(opened: Connection) -> None:
    names = [f"g{number}" for number in range(GROUP_CONFIGS_DESCRIBED_MAX + 1)]
    results = opened.call(settings_of_groups(names), 4).results
    assert len(results) == GROUP_CONFIGS_DESCRIBED_MAX + 1
    assert all(result.configs for result in results[:-1])
    assert results[-1].error_code == ErrorCode.INVALID_REQUEST
    assert not results[-1].configs


def test_more_names_than_a_request_may_have_close_the_connection(opened: Connection) -> None:
    with pytest.raises(ConnectionLost):
        opened.call(FindCoordinatorRequest(coordinator_keys=["a"] * LOOKUP_BYTES_MAX), 4)


@pytest.mark.parametrize(
    ("request_of", "version"),
    [
        (lambda keys: FindCoordinatorRequest(coordinator_keys=keys), 4),
        (lambda keys: DescribeGroupsRequest(groups=keys), 5),
        (lambda keys: ConsumerGroupDescribeRequest(group_ids=keys), 1),
        (lambda keys: settings_of_groups(keys[:GROUP_CONFIGS_DESCRIBED_MAX]), 4),
    ],
    ids=["coordinators", "groups", "consumer groups", "configs"],
)
def test_others_have_their_turn_meanwhile(
    victim: BrokerProcess, opened: Connection, request_of: Any, version: int
) -> None:
    request: Message = request_of([f"{number:x}" for number in range(150_000)])
    assert request.API_KEY is not None
    # `opened` has made the offsets topic: the bystander's first call would otherwise wait for it, and count nothing.
    bystander = opened
    with Connection(victim.port, timeout_s=60) as asking:
        asking.send_frame(asking.frame(request.API_KEY, version, request.encode(version)))
        longest_s, served = 0.0, 0
        while not select.select([asking.socket], [], [], 0)[0]:
            asked_s = time.monotonic()
            bystander.call(FindCoordinatorRequest(coordinator_keys=["asked"]), 4)
            longest_s = max(longest_s, time.monotonic() - asked_s)
            served += 1
        asking.receive_frame()
    assert longest_s < PATIENCE_S
    assert served > 10, "between its parts, not only before and after"
