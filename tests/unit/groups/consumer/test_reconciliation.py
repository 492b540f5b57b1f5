"""How members move towards their target: the table, exhaustively, and the records in Kafka's formats."""

from __future__ import annotations

import itertools

import pytest

from tidelog.groups.core.consumer.reconciliation import reconcile
from tidelog.groups.core.consumer.records import (
    ClassicMember,
    ConsumerGroupRecord,
    CurrentAssignment,
    CurrentRecord,
    GroupEpoch,
    GroupEpochRecord,
    PatternRecord,
    ResolvedPattern,
    Subscription,
    SubscriptionRecord,
    TargetEpoch,
    TargetEpochRecord,
    TargetRecord,
)
from tidelog.groups.core.consumer.state import NEXT, TRANSITIONS, MemberState
from tidelog.groups.core.records import decode_record, encode_record
from tidelog.protocol.generated.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)

T, U = b"t" * 16, b"u" * 16
S = MemberState


@pytest.mark.parametrize("state", list(MemberState))
@pytest.mark.parametrize("has_target", [True, False], ids=["new target", "same target"])
def test_every_way_out_of_every_state(state: MemberState, has_target: bool) -> None:
    """Every combination of what a member owns, gives up, is meant to get, others own, and what it reports."""
    reached: dict[bool, set[MemberState]] = {False: set(), True: set()}
    choices = itertools.product(
        [(), (0,), (0, 1)], [(), (2,)], [(), (0,), (1, 3), (0, 2)], [(), (3,), (1, 3)], [None, (), (0,), (0, 1, 2)]
    )
    for owned, revoking, target, taken, reported in choices:
        if bool(revoking) != (state is S.UNREVOKED_PARTITIONS) or set(taken) & {*owned, *revoking}:
            continue
        if not has_target and not set(owned) <= set(target) - set(revoking):
            # Of the target it is at it owns no more than that says, and gives nothing of it up.
            continue
        if not has_target and state is S.STABLE and owned != target:
            continue
        current = CurrentAssignment(
            5,
            4,
            state,
            {T: dict.fromkeys(owned, 5)} if owned else {},
            {T: dict.fromkeys(revoking, 5)} if revoking else {},
        )
        readers = dict.fromkeys((*owned, *revoking), "me") | dict.fromkeys(taken, "other")
        moved = reconcile(
            "me",
            current,
            {T: target} if target else {},
            6 if has_target else 5,
            subscribed={T},
            owners={T: readers} if readers else {},
            reported=None if reported is None else {T: reported},
        )
        still_owns = reported is None or bool(set(reported) & set(revoking))
        reached[still_owns].add(moved.state)
        mine = set(moved.owned.get(T, {}))
        assert not mine & set(taken), "nobody takes what another owns"
        if moved is current:
            waits_for_target = state is S.STABLE and not has_target
            waits_for_itself = state is S.UNREVOKED_PARTITIONS and (reported is None or set(reported) & set(revoking))
            assert waits_for_target or waits_for_itself or moved == current
            continue
        assert mine <= set(target)
        left = set(owned) - set(target)
        keeps_reading = bool(left) and (reported is None or bool(left & set(reported)))
        waits = bool(set(target) - mine)
        assert moved.state is NEXT[keeps_reading, waits and not keeps_reading]
        assert moved.epoch == (5 if keeps_reading else 6 if has_target else 5)
        assert set(moved.revoking.get(T, {})) == (left if keeps_reading else set())
    anywhere = {S.STABLE, S.UNREVOKED_PARTITIONS, S.UNRELEASED_PARTITIONS}
    assert reached[False] | reached[True] == TRANSITIONS[state, has_target]
    if state is S.UNREVOKED_PARTITIONS:
        assert reached[True] == {S.UNREVOKED_PARTITIONS}, "it goes on once it has given up, and no sooner"
        assert reached[False] == (anywhere if has_target else {S.STABLE, S.UNRELEASED_PARTITIONS})
    elif has_target:
        assert TRANSITIONS[state, has_target] == anywhere
    else:
        assert TRANSITIONS[state, has_target] == {S.STABLE, state}


def test_the_epoch_of_a_partition_is_that_of_its_assignment() -> None:
    current = CurrentAssignment(5, 4, S.STABLE, {T: {0: 3}})
    moved = reconcile("me", current, {T: (0, 1)}, 6, subscribed={T}, owners={T: {0: "me"}}, reported={T: (0,)})
    assert moved == CurrentAssignment(6, 5, S.STABLE, {T: {0: 3, 1: 6}})


def test_topics_that_are_no_longer_wanted_are_given_up_too() -> None:
    current = CurrentAssignment(5, 4, S.UNREVOKED_PARTITIONS, {T: {0: 5}, U: {0: 5}}, {U: {1: 5}})
    owners = {T: {0: "me"}, U: {0: "me", 1: "me"}}
    moved = reconcile("me", current, {T: (0,)}, 7, subscribed={T}, owners=owners, reported={T: (0,), U: (0, 1)})
    assert moved == CurrentAssignment(5, 5, S.UNREVOKED_PARTITIONS, {T: {0: 5}}, {U: {1: 5, 0: 5}})
    moved = reconcile("me", moved, {T: (0,)}, 7, subscribed={T}, owners=owners, reported={T: (0,)})
    assert moved == CurrentAssignment(7, 5, S.STABLE, {T: {0: 5}})


RECORDS: list[ConsumerGroupRecord] = [
    GroupEpochRecord("g", GroupEpoch(3, -(2**63))),
    SubscriptionRecord("g", "m", Subscription()),
    SubscriptionRecord(
        "g",
        "m",
        Subscription(
            "i", "r", "c", "/h", ("a", "b"), "x.*", 5, "range", ClassicMember(9, (("range", b"\1"), ("s", b"")))
        ),
    ),
    TargetEpochRecord("g", TargetEpoch(3, 1_700_000_000_000)),
    TargetRecord("g", "m", {T: (0, 2), U: (1,)}),
    CurrentRecord("g", "m", CurrentAssignment(5, 4, S.UNREVOKED_PARTITIONS, {T: {0: 3, 2: 5}}, {U: {1: 4}})),
    PatternRecord("g", "x.*", ResolvedPattern(("xa", "xb"), 7, 8)),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_records_come_back(record: ConsumerGroupRecord) -> None:
    key, value = encode_record(record)
    assert decode_record(key, value) == record
    assert decode_record(key, None) == type(record)(*record.fields()[:-1], None)
    for end in range(len(value or b"")):
        with pytest.raises(ValueError):
            decode_record(key, (value or b"")[:end])


def test_assignments_of_older_kafkas_have_no_epochs_of_their_own() -> None:
    key, _ = encode_record(CurrentRecord("g", "m", None))
    body = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=5, assigned_partitions=[TopicPartitions(topic_id=T, partitions=[1, 0])], state=77
    )
    expected = CurrentAssignment(5, 0, S.UNRELEASED_PARTITIONS, {T: {0: 5, 1: 5}})
    assert decode_record(key, b"\0\0" + body.encode(0)) == CurrentRecord("g", "m", expected)
