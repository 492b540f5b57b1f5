"""What a classic group is told when its log does not take what it would have to write."""

from __future__ import annotations

from tests.conformance.groups.member import ClassicMember, Groups
from tests.servers.wire import Connection

from tidelog.model.errors import ErrorCode as E


def test_an_assignment_larger_than_a_batch_is_refused_and_the_group_begins_again(connection: Connection) -> None:
    groups = Groups(connection)
    topic = groups.topic()
    member = ClassicMember(groups, groups.group(), topic)
    assert member.join().error_code == 0
    assert member.sync({topic: [0]}, user_data=bytes(1_200_000)) == E.UNKNOWN_SERVER_ERROR
    assert groups.listed(member.group).group_state == "PreparingRebalance"
    assert member.heartbeat() == E.REBALANCE_IN_PROGRESS
    generation = member.generation
    assert member.join().error_code == 0
    assert member.generation == generation + 1
    assert member.sync({topic: [0]}, user_data=bytes(500_000)) == 0
    assert member.heartbeat() == 0
    assert member.leave() == 0
