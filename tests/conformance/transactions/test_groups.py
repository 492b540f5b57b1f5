"""Offsets of groups in transactions: who may commit them, and what becomes of those that are deleted meanwhile."""

from __future__ import annotations

import pytest
from tests.conformance.groups.member import ConsumerMember, Groups
from tests.conformance.transactions.producer import WireProducer, committed_offset
from tests.servers.topics import create_topic
from tests.servers.wire import Connection

from tidelog.model.errors import ErrorCode as E
from tidelog.protocol.generated.delete_groups import DeleteGroupsRequest
from tidelog.protocol.generated.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)


@pytest.mark.parametrize("version", [3, 5])
def test_a_stale_member_epoch_is_an_illegal_generation(connection: Connection, version: int) -> None:
    groups = Groups(connection)
    topic, group = groups.topic(), groups.group()
    member = ConsumerMember(groups, group, topic)
    assert member.join().error_code == 0
    producer = WireProducer(connection).started()
    if version == 3:
        assert producer.add_offsets(group) == 0
    who = {"member_id": member.member_id, "version": version}
    assert producer.commit_offset(group, topic, 3, generation_id=member.epoch + 1, **who) == E.ILLEGAL_GENERATION
    assert producer.commit_offset(group, topic, 3, generation_id=member.epoch, **who) == 0
    assert producer.end_settled(commit=True, version=version) == 0
    producer.wait_for("CompleteCommit")
    assert committed_offset(connection, group, topic, stable=True) == (0, 3)
    assert member.leave() == 0


@pytest.mark.parametrize("has_committed", [False, True])
@pytest.mark.parametrize("way", ["group", "offset"])
def test_what_is_deleted_in_an_open_transaction_stays_deleted(
    connection: Connection, way: str, has_committed: bool
) -> None:
    groups = Groups(connection)
    topic, group = create_topic(connection), groups.group()
    if has_committed:
        assert groups.commit(group, topic, 1) == 0
    producer = WireProducer(connection).started()
    assert producer.commit_offset(group, topic, 7, version=5) == 0
    if way == "group":
        [deleted] = connection.call(DeleteGroupsRequest(groups_names=[group]), 2).results
        assert deleted.error_code == 0
    else:
        partitions = [OffsetDeleteRequestPartition(partition_index=0)]
        topics = [OffsetDeleteRequestTopic(name=topic, partitions=partitions)]
        answer = connection.call(OffsetDeleteRequest(group_id=group, topics=topics), 0)
        assert (answer.error_code, answer.topics[0].partitions[0].error_code) == (0, 0)
    assert producer.end_settled(commit=True, version=5) == 0
    producer.wait_for("CompleteCommit")
    assert committed_offset(connection, group, topic, stable=True) == (0, -1)
