"""The consumer protocol request by request: what Apache Kafka answers, Tidelog answers."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conformance.groups.member import REBALANCE_MS, ConsumerMember, Groups, settle
from tests.servers.topics import new_name
from tests.servers.wire import Connection
from tests.waiting import wait_until

from tidelog.model.errors import ErrorCode as E
from tidelog.protocol.generated.consumer_group_heartbeat import ConsumerGroupHeartbeatRequestTopicPartitions
from tidelog.protocol.generated.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tidelog.protocol.generated.delete_groups import DeleteGroupsRequest
from tidelog.protocol.generated.describe_groups import DescribeGroupsRequest
from tidelog.protocol.generated.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

CLASSIC_TYPE, CONSUMER_TYPE = 0, 1
FIRST_EPOCH = 2
"""Of a group that nobody was in before; 1 is for members that wait for the group's first assignment."""


@pytest.fixture
def groups(connection: Connection) -> Groups:
    return Groups(connection)


def test_one_member_gets_everything_at_once(groups: Groups) -> None:
    topic = groups.topic(4)
    member = ConsumerMember(groups, groups.group(), topic)
    answer = member.join()
    assert (answer.error_code, answer.member_epoch, answer.heartbeat_interval_ms) == (0, FIRST_EPOCH, 5000)
    # A coordinator may hear of a topic that was just created a little later.
    settle(member, counts=[4])
    assert member.owned == {groups.topic_ids[topic]: [0, 1, 2, 3]}
    quiet = member.send()
    assert (quiet.error_code, quiet.member_epoch, quiet.assignment) == (0, member.epoch, None)


def test_a_full_request_is_told_its_assignment_again(groups: Groups) -> None:
    topic = groups.topic(2)
    member = ConsumerMember(groups, groups.group(), topic)
    member.join()
    settle(member, counts=[2])
    answer = member.beat(rebalance_timeout_ms=REBALANCE_MS, subscribed_topic_names=[topic])
    assert (answer.error_code, answer.member_epoch) == (0, member.epoch)
    assert answer.assignment is not None


def test_a_partition_moves_when_its_owner_has_let_go(groups: Groups) -> None:
    topic = groups.topic(4)
    group = groups.group()
    first, second = ConsumerMember(groups, group, topic), ConsumerMember(groups, group, topic)
    first.join()
    settle(first, counts=[4])
    epoch = first.epoch
    answer = second.join()
    assert (answer.error_code, second.count) == (0, 0)
    told = []

    def is_told() -> bool:
        told.append(first.send())
        return told[-1].assignment is not None

    wait_until(is_told, "the first member is to give up partitions")
    asked = told[-1]
    assert (asked.error_code, asked.member_epoch) == (0, epoch)
    assert sum(len(t.partitions) for t in asked.assignment.topic_partitions) == 2
    still = first.send(topic_partitions=None)
    assert (still.member_epoch, still.assignment) == (epoch, None)
    second.beat()
    assert second.count == 0, "nobody gets what another one still owns"
    first.learn(asked)
    done = first.beat()
    assert (done.error_code, done.member_epoch, done.assignment) == (0, epoch + 1, None)
    second.beat()
    assert (first.count, second.count) == (2, 2)
    assert not {p for t in first.owned.values() for p in t} & {p for t in second.owned.values() for p in t}
    assert groups.describe(group).group_state == "Stable"


def test_who_leaves_gives_to_who_stays(groups: Groups) -> None:
    topic = groups.topic(3)
    group = groups.group()
    first, second = ConsumerMember(groups, group, topic), ConsumerMember(groups, group, topic)
    first.join()
    second.join()
    settle(first, second, counts=[1, 2])
    answer = second.send(member_epoch=-1)
    assert (answer.error_code, answer.member_epoch, answer.member_id) == (0, -1, second.member_id)
    settle(first, counts=[3])
    assert second.send().error_code == E.UNKNOWN_MEMBER_ID
    assert first.leave() == 0
    described = groups.describe(group)
    assert (described.error_code, described.group_state, described.members) == (0, "Empty", [])
    assert groups.listed(group).group_state == "Empty"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"rebalance_timeout_ms": -1}, E.INVALID_REQUEST),
        ({"topic_partitions": None}, E.INVALID_REQUEST),
        ({"topic_partitions": [ConsumerGroupHeartbeatRequestTopicPartitions(partitions=[1])]}, E.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, E.INVALID_REQUEST),
        ({"subscribed_topic_names": []}, E.NONE),
        ({"subscribed_topic_regex": ""}, E.NONE),
        ({"subscribed_topic_regex": "("}, E.INVALID_REGULAR_EXPRESSION),
        ({"subscribed_topic_regex": "(?<=a)b"}, E.INVALID_REGULAR_EXPRESSION),
        ({"server_assignor": "sticky"}, E.UNSUPPORTED_ASSIGNOR),
        ({"member_id": ""}, E.INVALID_REQUEST),
        ({"instance_id": ""}, E.INVALID_REQUEST),
        ({"rack_id": ""}, E.INVALID_REQUEST),
        ({"group_id": ""}, E.INVALID_REQUEST),
        ({"member_epoch": -3}, E.INVALID_REQUEST),
        ({"member_epoch": -2}, E.INVALID_REQUEST),
        ({"member_epoch": -1}, E.GROUP_ID_NOT_FOUND),
        ({"member_epoch": 1}, E.GROUP_ID_NOT_FOUND),
        ({"rack_id": "a", "server_assignor": "range"}, E.NONE),
    ],
)
def test_what_is_wrong_with_a_first_request(groups: Groups, fields: dict[str, Any], expected: E) -> None:
    member = ConsumerMember(groups, groups.group(), groups.topic())
    request = {"rebalance_timeout_ms": REBALANCE_MS, "topic_partitions": [], "subscribed_topic_names": member.topics}
    if "subscribed_topic_regex" in fields:
        request["subscribed_topic_names"] = None
    answer = member.send(**{**request, **fields})
    assert E(answer.error_code) is expected
    assert (answer.error_message is not None) is (expected is not E.NONE)


def test_a_member_without_an_id_is_given_one_in_the_first_version(groups: Groups) -> None:
    member = ConsumerMember(groups, groups.group(), groups.topic())
    member.member_id = ""
    answer = member.join(version=0)
    assert answer.error_code == 0
    assert answer.member_id


def test_epochs_that_are_not_the_members(groups: Groups) -> None:
    topic = groups.topic(2)
    group = groups.group()
    first, second = ConsumerMember(groups, group, topic), ConsumerMember(groups, group, topic)
    first.join()
    settle(first, counts=[2])
    before = first.epoch
    second.join()
    settle(first, second, counts=[1, 1])
    epoch = first.epoch
    assert epoch == before + 1
    assert first.send(member_epoch=epoch + 1).error_code == E.FENCED_MEMBER_EPOCH
    # The previous epoch without a word about partitions, and then as if the last answer had been lost.
    assert first.send(member_epoch=epoch - 1).error_code == E.FENCED_MEMBER_EPOCH
    lost = first.beat(member_epoch=epoch - 1)
    assert (lost.error_code, lost.member_epoch) == (0, epoch)
    stranger = ConsumerMember(groups, group, topic)
    stranger.epoch = 1
    assert stranger.send().error_code == E.UNKNOWN_MEMBER_ID
    assert stranger.leave() == E.UNKNOWN_MEMBER_ID


def test_a_fenced_member_begins_again_under_its_id(groups: Groups) -> None:
    topic = groups.topic(2)
    group = groups.group()
    first, second = ConsumerMember(groups, group, topic), ConsumerMember(groups, group, topic)
    first.join()
    second.join()
    settle(first, second, counts=[1, 1])
    owned, epoch = first.owned, first.epoch
    answer = first.join()
    assert (answer.error_code, answer.member_epoch) == (0, epoch)
    assert first.owned == owned


def test_static_member_keeps_its_partitions_over_a_restart(groups: Groups) -> None:
    topic = groups.topic(4)
    group = groups.group()
    first = ConsumerMember(groups, group, topic, instance="one")
    second = ConsumerMember(groups, group, topic, instance="two")
    first.join()
    second.join()
    settle(first, second, counts=[2, 2])
    owned, epoch = first.owned, first.epoch
    usurper = ConsumerMember(groups, group, topic, instance="one")
    assert usurper.join().error_code == E.UNRELEASED_INSTANCE_ID
    assert first.leave(-2) == 0
    assert {m.instance_id: m.member_epoch for m in groups.describe(group).members} == {"one": -2, "two": epoch}
    back = ConsumerMember(groups, group, topic, instance="one")
    answer = back.join()
    assert (answer.error_code, answer.member_epoch) == (0, epoch)
    assert back.owned == owned
    assert second.beat().member_epoch == epoch
    assert first.send(member_epoch=epoch).error_code == E.FENCED_INSTANCE_ID
    assert first.leave(-1) == E.FENCED_INSTANCE_ID
    stranger = ConsumerMember(groups, group, topic, instance="three")
    stranger.epoch = 1
    assert stranger.send().error_code == E.UNKNOWN_MEMBER_ID
    assert back.leave(-1) == 0
    settle(second, counts=[4])


def test_static_member_that_comes_back_with_the_same_id(groups: Groups) -> None:
    topic = groups.topic(2)
    member = ConsumerMember(groups, groups.group(), topic, instance="one")
    member.join()
    settle(member, counts=[2])
    epoch = member.epoch
    assert member.leave(-2) == 0
    answer = member.join()
    assert (answer.error_code, answer.member_epoch, member.count) == (0, epoch, 2)


def test_topics_that_come_later(groups: Groups) -> None:
    topic = groups.topic(1)
    member = ConsumerMember(groups, groups.group(), topic)
    member.join()
    settle(member, counts=[1])
    epoch = member.epoch
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=topic, count=3, assignments=None)], timeout_ms=10_000
    )
    assert groups.connection.call(request, 3).results[0].error_code == 0

    def has_all() -> bool:
        member.beat()
        return member.count == 3

    wait_until(has_all, "the member reads the new partitions")
    assert member.epoch == epoch + 1
    other = groups.topic(2)
    assert member.beat(subscribed_topic_names=[topic, other]).error_code == 0
    settle(member, counts=[5])
    assert member.epoch >= epoch + 2
    assert member.beat(subscribed_topic_names=[other]).error_code == 0
    settle(member, counts=[2])


def test_a_pattern_finds_topics_old_and_new(groups: Groups) -> None:
    prefix = new_name("pattern")
    groups.topic(2, f"{prefix}-a")
    groups.topic(2, f"{prefix}b")
    group = groups.group()
    member = ConsumerMember(groups, group, subscribed_topic_regex=f"{prefix}-.*")
    assert member.join().error_code == 0

    def has(count: int) -> bool:
        member.beat()
        return member.count == count

    wait_until(lambda: has(2), "the member reads what matches")
    described = groups.describe(group).members[0]
    assert (described.subscribed_topic_regex, described.subscribed_topic_names) == (f"{prefix}-.*", [])
    groups.topic(3, f"{prefix}-c")
    wait_until(lambda: has(5), "the member reads the new topic")
    # The whole name has to match.
    assert member.beat(subscribed_topic_regex=prefix, subscribed_topic_names=[]).error_code == 0
    wait_until(lambda: has(0), "nothing matches any more")


def test_the_assignor_that_most_ask_for(groups: Groups) -> None:
    one, two = groups.topic(3), groups.topic(3)
    group = groups.group()
    first = ConsumerMember(groups, group, one, two, server_assignor="range")
    second = ConsumerMember(groups, group, one, two, server_assignor="range")
    first.join()
    second.join()
    settle(first, second, counts=[2, 4])
    assert groups.describe(group).assignor_name == "range"
    for member in (first, second):
        # Co-partitioned: the same partitions of both topics.
        assert len({tuple(partitions) for partitions in member.owned.values()}) == 1


def test_offsets_are_committed_at_the_members_epoch(groups: Groups) -> None:
    topic = groups.topic(1)
    group = groups.group()
    member = ConsumerMember(groups, group, topic)
    member.join()
    settle(member, counts=[1])
    member_id, epoch = member.member_id, member.epoch
    assert groups.commit(group, topic, 5, member=member_id, epoch=epoch) == 0
    assert groups.fetch(group, topic, member=member_id, epoch=epoch) == (0, 5)
    assert groups.fetch(group, topic) == (0, 5)
    assert groups.commit(group, topic, 9, member=member_id, epoch=epoch + 1) == E.STALE_MEMBER_EPOCH
    assert groups.commit(group, topic, 9, member="nobody", epoch=1) == E.UNKNOWN_MEMBER_ID
    assert groups.commit(group, topic, 9) == E.UNKNOWN_MEMBER_ID
    assert groups.commit(group, topic, 9, member=member_id, epoch=epoch, version=8) == E.UNSUPPORTED_VERSION
    assert groups.fetch(group, topic, member=member_id, epoch=epoch + 1)[0] == E.STALE_MEMBER_EPOCH
    assert groups.fetch(group, topic, member="nobody", epoch=1)[0] == E.UNKNOWN_MEMBER_ID
    assert groups.fetch(group, topic) == (0, 5)
    assert member.leave() == 0
    assert groups.commit(group, topic, 7) == 0
    assert groups.fetch(group, topic) == (0, 7)


def test_an_older_epoch_may_commit_what_was_owned_all_along(groups: Groups) -> None:
    topic = groups.topic(1)
    group = groups.group()
    first, second = ConsumerMember(groups, group, topic), ConsumerMember(groups, group, topic)
    first.join()
    settle(first, counts=[1])
    since = first.epoch
    second.join()
    wait_until(lambda: first.beat().member_epoch > since, "the owner is at the next epoch")
    settle(first, second, counts=[0, 1])
    owner, other = first, second
    assert owner.count == 1
    assert groups.commit(group, topic, 3, member=owner.member_id, epoch=since) == 0
    assert groups.commit(group, topic, 4, member=owner.member_id, epoch=since - 1) == E.STALE_MEMBER_EPOCH
    assert groups.commit(group, topic, 4, member=other.member_id, epoch=since) == E.STALE_MEMBER_EPOCH
    assert groups.fetch(group, topic) == (0, 3)


def test_administration(groups: Groups) -> None:
    topic = groups.topic(1)
    group = groups.group()
    member = ConsumerMember(groups, group, topic)
    member.join()
    settle(member, counts=[1])
    assert groups.commit(group, topic, 5, member=member.member_id, epoch=member.epoch) == 0
    listed = groups.listed(group)
    assert (listed.group_type, listed.protocol_type, listed.group_state) == ("consumer", "consumer", "Stable")
    described = groups.describe(group)
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == (
        "Stable",
        member.epoch,
        member.epoch,
    )
    assert described.assignor_name == "uniform"
    (told,) = described.members
    assert (told.member_id, told.member_epoch, told.member_type) == (member.member_id, member.epoch, CONSUMER_TYPE)
    assert (told.subscribed_topic_names, told.subscribed_topic_regex) == ([topic], "")
    assert told.assignment == told.target_assignment
    assert told.assignment.topic_partitions[0].topic_name == topic
    classic = groups.connection.call(DescribeGroupsRequest(groups=[group]), 6).groups[0]
    assert (classic.error_code, classic.group_state) == (E.GROUP_ID_NOT_FOUND, "Dead")
    assert groups.describe(new_name("none")).error_code == E.GROUP_ID_NOT_FOUND
    delete = DeleteGroupsRequest(groups_names=[group])
    assert groups.connection.call(delete, 2).results[0].error_code == E.NON_EMPTY_GROUP
    forget = OffsetDeleteRequest(
        group_id=group,
        topics=[OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=0)])],
    )
    answer = groups.connection.call(forget, 0)
    assert answer.topics[0].partitions[0].error_code == E.GROUP_SUBSCRIBED_TO_TOPIC
    assert member.leave() == 0
    assert groups.connection.call(delete, 2).results[0].error_code == 0
    assert groups.listed(group) is None
    assert groups.fetch(group, topic) == (0, -1)
