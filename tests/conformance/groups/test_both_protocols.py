"""A live group moves from one protocol to the other: members of both, request by request."""

from __future__ import annotations

import pytest
from tests.conformance.groups.member import ClassicMember, ConsumerMember, Groups, settle
from tests.servers.wire import Connection
from tests.waiting import wait_until

from tidelog.model.errors import ErrorCode as E


@pytest.fixture
def groups(connection: Connection) -> Groups:
    return Groups(connection)


def catch_up(member: ClassicMember, count: int) -> None:
    """Rejoins whenever the member is told to, until it reads as many partitions and may go on."""

    def is_there() -> bool:
        if member.heartbeat() == E.REBALANCE_IN_PROGRESS:
            assert member.join().error_code == 0
            if member.sync() != 0:
                return False
        return sum(map(len, member.owned.values())) == count and member.heartbeat() == 0

    wait_until(is_there, f"the classic member reads {count} partitions")


def stable_classic(groups: Groups, topic: str, partitions: int, *, assignor: str = "range") -> ClassicMember:
    member = ClassicMember(groups, groups.group(), topic, assignor=assignor)
    joined = member.join()
    assert joined.error_code == 0
    assert member.sync({topic: list(range(partitions))}) == 0
    return member


def test_a_consumer_joins_a_classic_group(groups: Groups) -> None:
    topic = groups.topic(4)
    classic = stable_classic(groups, topic, 4)
    generation = classic.generation
    assert groups.commit(classic.group, topic, 7, member=classic.member_id, epoch=generation) == 0
    consumer = ConsumerMember(groups, classic.group, topic)
    answer = consumer.join()
    assert (answer.error_code, consumer.count) == (0, 0)
    listed = groups.listed(classic.group)
    assert (listed.group_type, listed.protocol_type) == ("consumer", "consumer")
    assert {m.member_id: m.member_type for m in groups.describe(classic.group).members} == {
        classic.member_id: 0,
        consumer.member_id: 1,
    }
    # The classic member is told to rejoin; an eager one owns nothing by then.
    catch_up(classic, 2)
    settle(consumer, counts=[2])
    assert classic.generation == consumer.epoch
    assert classic.heartbeat() == 0
    stale = classic.generation + 1
    assert groups.commit(classic.group, topic, 8, member=classic.member_id, epoch=classic.generation) == 0
    assert groups.commit(classic.group, topic, 9, member=classic.member_id, epoch=stale) == E.ILLEGAL_GENERATION
    assert groups.fetch(classic.group, topic) == (0, 8)
    # The last classic member leaves: the upgrade is complete.
    assert classic.leave() == 0
    settle(consumer, counts=[4])


def test_a_cooperative_member_gives_up_only_what_it_must(groups: Groups) -> None:
    topic = groups.topic(4)
    classic = stable_classic(groups, topic, 4, assignor="cooperative-sticky")
    generation = classic.generation
    consumer = ConsumerMember(groups, classic.group, topic)
    assert consumer.join().error_code == 0
    kept: list[int] = []

    def is_to_give_up() -> bool:
        if classic.heartbeat() == E.REBALANCE_IN_PROGRESS:
            assert classic.join(reports=True).error_code == 0
            assert classic.sync() == 0
        kept[:] = classic.owned[topic]
        return len(kept) == 2

    wait_until(is_to_give_up, "the member is told what it keeps")
    assert classic.generation == generation
    # It revokes and joins again, without what it gave up.
    assert classic.heartbeat() == E.REBALANCE_IN_PROGRESS
    assert classic.join(reports=True).error_code == 0
    assert classic.generation > generation
    assert classic.sync() == 0
    assert classic.owned[topic] == kept
    settle(consumer, counts=[2])
    assert classic.heartbeat() == 0


def test_the_last_consumer_leaves_a_mixed_group(groups: Groups) -> None:
    topic = groups.topic(4)
    group = groups.group()
    consumer = ConsumerMember(groups, group, topic)
    consumer.join()
    classic = ClassicMember(groups, group, topic)
    assert classic.join().error_code == 0
    assert classic.sync() == 0
    settle(consumer, counts=[2])
    catch_up(classic, 2)
    assert groups.commit(group, topic, 7, member=consumer.member_id, epoch=consumer.epoch) == 0
    assert consumer.leave() == 0
    wait_until(lambda: groups.listed(group).group_type == "classic", "the group is a classic one")
    wait_until(lambda: classic.heartbeat() == E.REBALANCE_IN_PROGRESS, "the member is to rejoin")
    joined = classic.join()
    assert joined.error_code == 0
    assert joined.leader == classic.member_id
    assert classic.sync({topic: [0, 1, 2, 3]}) == 0
    assert classic.heartbeat() == 0
    assert groups.fetch(group, topic) == (0, 7)
    assert groups.describe(group).error_code == E.GROUP_ID_NOT_FOUND


def test_classic_members_are_checked_as_such(groups: Groups) -> None:
    topic = groups.topic(1)
    group = groups.group()
    consumer = ConsumerMember(groups, group, topic)
    consumer.join()
    classic = ClassicMember(groups, group, topic)
    classic.member_id, classic.generation = consumer.member_id, consumer.epoch
    assert classic.heartbeat() == E.UNKNOWN_MEMBER_ID
    assert classic.sync() == E.UNKNOWN_MEMBER_ID
    classic.member_id, classic.generation = "", -1
    assert classic.join().error_code == 0
    generation = classic.generation
    classic.generation = generation + 1
    assert classic.heartbeat() == E.ILLEGAL_GENERATION
    assert classic.sync() == E.ILLEGAL_GENERATION
    classic.generation = generation
    classic.assignor = "roundrobin"
    assert classic.sync() == E.INCONSISTENT_GROUP_PROTOCOL
    other = ClassicMember(groups, group, topic, assignor="sticky")
    assert other.join().error_code == E.INCONSISTENT_GROUP_PROTOCOL
    # LeaveGroup takes out members of either protocol: it is what administrators have.
    other.member_id = consumer.member_id
    assert other.leave() == 0
    # Only the classic member is left, so before long there is no consumer group any more.
    assert consumer.send().error_code in (E.UNKNOWN_MEMBER_ID, E.GROUP_ID_NOT_FOUND)


def test_a_static_member_changes_its_protocol_in_place(groups: Groups) -> None:
    topic = groups.topic(2)
    group = groups.group()
    before = ClassicMember(groups, group, topic, instance="one")
    assert before.join().error_code == 0
    assert before.sync({topic: [0, 1]}) == 0
    after = ConsumerMember(groups, group, topic, instance="one")
    answer = after.join()
    assert (answer.error_code, after.count) == (0, 2)
    assert before.heartbeat() == E.FENCED_INSTANCE_ID
    (member,) = groups.describe(group).members
    assert (member.member_id, member.member_type) == (after.member_id, 1)


def test_a_group_without_members_is_whatever_joins_it(groups: Groups) -> None:
    topic = groups.topic(1)
    group = groups.group()
    assert groups.commit(group, topic, 3) == 0
    assert groups.listed(group).group_type == "classic"
    consumer = ConsumerMember(groups, group, topic)
    answer = consumer.join()
    assert (answer.error_code, answer.member_epoch) == (0, 2)
    settle(consumer, counts=[1])
    assert groups.listed(group).group_type == "consumer"
    assert groups.fetch(group, topic) == (0, 3)
    assert consumer.leave() == 0
    classic = ClassicMember(groups, group, topic)
    assert classic.join().error_code == 0
    assert classic.sync({topic: [0]}) == 0
    assert groups.listed(group).group_type == "classic"
    assert groups.fetch(group, topic) == (0, 3)
    assert classic.leave() == 0
    assert ConsumerMember(groups, group, topic).join().error_code == 0


def test_a_classic_group_of_another_kind_takes_no_consumers(groups: Groups) -> None:
    topic = groups.topic(1)
    classic = ClassicMember(groups, groups.group(), topic)
    classic.topics = []
    from tidelog.protocol.generated.join_group import JoinGroupRequest, JoinGroupRequestProtocol

    request = JoinGroupRequest(
        group_id=classic.group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="connect",
        protocols=[JoinGroupRequestProtocol(name="default", metadata=b"x")],
    )
    request.member_id = groups.connection.call(request, 9).member_id
    assert groups.connection.call(request, 9).error_code == 0
    answer = ConsumerMember(groups, classic.group, topic).join()
    assert answer.error_code == E.GROUP_ID_NOT_FOUND
