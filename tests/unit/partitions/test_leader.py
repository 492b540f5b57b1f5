"""The leader's machine: the high watermark, the replicas that count for it, and the in-sync set it asks for."""

from __future__ import annotations

import pytest

from tidelog.controller.core.alter_partition import InSyncReplica, IsrOutcome
from tidelog.metadata.image import PartitionState
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.partitions.core.leader import LeaderState

LAG_MS = 30_000
EPOCHS = {1: 101, 2: 102, 3: 103}


def leader(
    in_sync: set[int],
    *,
    replicas: tuple[int, ...] = (1, 2, 3),
    high_watermark: int = 10,
    log_end_offset: int = 10,
    min_in_sync: int = 1,
    live_brokers: dict[int, int] | None = None,
) -> LeaderState:
    return LeaderState(
        node_id=1,
        leader_epoch=4,
        partition_epoch=7,
        replicas=replicas,
        in_sync=in_sync,
        high_watermark=high_watermark,
        log_end_offset=log_end_offset,
        live_brokers=EPOCHS if live_brokers is None else live_brokers,
        min_in_sync=min_in_sync,
        lag_time_max_ms=LAG_MS,
        now_ms=0,
    )


def fetch(state: LeaderState, node_id: int, offset: int, now_ms: int = 0, broker_epoch: int | None = None) -> bool:
    epoch = EPOCHS[node_id] if broker_epoch is None else broker_epoch
    return state.follower_fetched(node_id, epoch, offset, 0, state.log_end_offset, now_ms)


def agreed(in_sync: tuple[int, ...], partition_epoch: int = 8, leader_epoch: int = 4) -> IsrOutcome:
    return IsrOutcome(b"", 0, state=PartitionState(1, leader_epoch, partition_epoch, (1, 2, 3), in_sync))


def refused(code: ErrorCode) -> IsrOutcome:
    return IsrOutcome(b"", 0, BrokerError(code))


# -- the high watermark ------------------------------------------------------------------------------------------------


def test_alone_the_high_watermark_follows_the_own_log() -> None:
    state = leader({1}, replicas=(1,))
    assert state.local_end_reached(15)
    assert state.high_watermark == 15
    assert not state.local_end_reached(15)


def test_the_slowest_in_sync_replica_decides() -> None:
    state = leader({1, 2, 3})
    assert not state.local_end_reached(30)
    assert not fetch(state, 2, 20)
    assert fetch(state, 3, 12)
    assert state.high_watermark == 12
    assert fetch(state, 3, 25)
    assert state.high_watermark == 20


def test_a_new_leader_commits_nothing_before_it_has_heard_of_every_in_sync_replica() -> None:
    state = leader({1, 2, 3}, high_watermark=5, log_end_offset=10)
    assert not fetch(state, 2, 10)
    assert state.high_watermark == 5
    assert fetch(state, 3, 10)
    assert state.high_watermark == 10


def test_what_the_own_disk_has_not_synced_holds_the_high_watermark_back() -> None:
    state = leader({1, 2})
    state.appended(20)
    assert not fetch(state, 2, 20)
    assert state.local_end_reached(18)
    assert state.high_watermark == 18


def test_a_replica_that_lags_outside_of_the_in_sync_set_does_not_hold_anyone_back() -> None:
    state = leader({1, 2})
    state.local_end_reached(30)
    assert not fetch(state, 3, 11)
    assert fetch(state, 2, 30)
    assert state.high_watermark == 30


def test_the_high_watermark_never_moves_back() -> None:
    state = leader({1, 2})
    state.local_end_reached(20)
    fetch(state, 2, 20)
    assert not fetch(state, 2, 12)
    assert state.high_watermark == 20


def test_a_high_watermark_beyond_the_log_is_cut_to_it() -> None:
    assert leader({1}, high_watermark=50, log_end_offset=40).high_watermark == 40


def test_nothing_is_committed_while_too_few_are_in_sync() -> None:
    state = leader({1}, min_in_sync=2)
    assert not state.has_enough_in_sync
    assert not state.local_end_reached(20)
    fetch(state, 2, 20)
    assert state.propose_growth(2) == {1, 2}
    assert state.in_sync_answered(agreed((1, 2)), 0)
    assert state.has_enough_in_sync
    assert state.high_watermark == 20


def test_a_topic_cannot_ask_for_more_replicas_than_it_has() -> None:
    assert leader({1}, replicas=(1,), min_in_sync=3).has_enough_in_sync
    assert leader({1, 2}, min_in_sync=2).has_enough_in_sync
    assert not leader({1}, min_in_sync=2).has_enough_in_sync


def test_a_lower_limit_lets_the_high_watermark_go() -> None:
    state = leader({1}, min_in_sync=2)
    state.local_end_reached(20)
    assert state.min_in_sync_changed(1, 0)
    assert state.high_watermark == 20


# -- who counts --------------------------------------------------------------------------------------------------------


def test_a_replica_about_to_join_is_waited_for() -> None:
    state = leader({1})
    fetch(state, 2, 10)
    assert not state.local_end_reached(20)
    assert state.high_watermark == 10
    assert fetch(state, 2, 15)
    assert state.high_watermark == 15


def test_a_replica_that_stopped_on_the_way_into_the_set_is_waited_for_no_longer_than_the_lag_time() -> None:
    state = leader({1})
    fetch(state, 2, 10, now_ms=0)
    state.local_end_reached(20)
    assert not state.recount(LAG_MS)
    assert state.recount(LAG_MS + 1)
    assert state.high_watermark == 20


def test_a_fenced_replica_is_not_waited_for_and_cannot_join() -> None:
    live = {1: 101, 3: 103}
    state = leader({1}, live_brokers=live)
    fetch(state, 2, 10)
    assert state.propose_growth(2) is None
    assert state.local_end_reached(20)
    live[2] = 102
    fetch(state, 2, 20)
    assert state.propose_growth(2) == {1, 2}


def test_an_incarnation_the_controller_does_not_know_cannot_join() -> None:
    state = leader({1})
    fetch(state, 2, 10, broker_epoch=99)
    assert state.propose_growth(2) is None
    fetch(state, 2, 10, broker_epoch=102)
    assert state.propose_growth(2) == {1, 2}


def test_a_fetch_of_an_earlier_incarnation_is_refused() -> None:
    state = leader({1, 2})
    fetch(state, 2, 10, broker_epoch=102)
    with pytest.raises(BrokerError) as failure:
        fetch(state, 2, 20, broker_epoch=99)
    assert failure.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert state.followers[2].end_offset == 10


def test_who_is_not_a_replica_is_refused() -> None:
    state = leader({1, 2}, replicas=(1, 2))
    with pytest.raises(BrokerError) as failure:
        fetch(state, 3, 10)
    assert failure.value.code == ErrorCode.UNKNOWN_LEADER_EPOCH


# -- growing -----------------------------------------------------------------------------------------------------------


def test_a_replica_joins_when_it_has_reached_the_high_watermark_and_the_start_of_the_epoch() -> None:
    state = leader({1}, high_watermark=5, log_end_offset=10)
    assert state.high_watermark == 10
    fetch(state, 2, 9)
    assert state.propose_growth(2) is None
    fetch(state, 2, 10)
    assert state.propose_growth(2) == {1, 2}


def test_reaching_the_high_watermark_is_not_enough_below_the_start_of_the_epoch() -> None:
    state = leader({1, 3}, high_watermark=5, log_end_offset=10)
    fetch(state, 2, 6)
    assert state.high_watermark == 5
    assert state.propose_growth(2) is None


def test_while_a_set_is_asked_for_both_count() -> None:
    state = leader({1, 2})
    state.local_end_reached(20)
    fetch(state, 2, 20)
    fetch(state, 3, 20)
    assert state.propose_growth(3) == {1, 2, 3}
    assert state.maximal_in_sync == {1, 2, 3}
    state.local_end_reached(30)
    assert not fetch(state, 2, 30)
    assert state.high_watermark == 20
    assert fetch(state, 3, 30)


def test_one_proposal_at_a_time() -> None:
    state = leader({1})
    fetch(state, 2, 10)
    assert state.propose_growth(2) == {1, 2}
    fetch(state, 3, 10)
    assert state.propose_growth(3) is None
    assert state.propose_shrinkage(10 * LAG_MS) is None
    state.in_sync_answered(agreed((1, 2)), 0)
    assert state.propose_growth(3) == {1, 2, 3}


# -- shrinking ---------------------------------------------------------------------------------------------------------


def test_who_lags_too_long_leaves_and_holds_nobody_back_once_the_controller_agrees() -> None:
    state = leader({1, 2, 3})
    fetch(state, 2, 10, now_ms=0)
    fetch(state, 3, 10, now_ms=0)
    state.local_end_reached(20)
    fetch(state, 2, 20, now_ms=LAG_MS + 1)
    assert state.propose_shrinkage(LAG_MS) is None
    assert state.propose_shrinkage(LAG_MS + 1) == {1, 2}
    assert state.high_watermark == 10, "the controller may not have agreed"
    assert state.in_sync_answered(agreed((1, 2)), LAG_MS + 1)
    assert state.high_watermark == 20


def test_a_replica_at_the_end_of_an_idle_log_is_in_sync_however_long_ago_it_fetched() -> None:
    state = leader({1, 2})
    fetch(state, 2, 10, now_ms=0)
    assert state.propose_shrinkage(100 * LAG_MS) is None


def test_a_replica_that_never_reaches_the_end_but_keeps_pace_stays() -> None:
    state = leader({1, 2})
    for second in range(1, 100):
        state.local_end_reached(10 + 10 * second)
        fetch(state, 2, 10 + 10 * (second - 1), now_ms=1000 * second)
        assert state.propose_shrinkage(1000 * second) is None


def test_a_replica_that_falls_behind_leaves_though_it_fetches() -> None:
    state = leader({1, 2})
    for second in range(1, 40):
        state.local_end_reached(10 + 100 * second)
        fetch(state, 2, 10 + second, now_ms=1000 * second)
    assert state.propose_shrinkage(39_000) == {1}


def test_a_replica_in_sync_when_the_epoch_begins_is_given_the_lag_time() -> None:
    state = leader({1, 2}, log_end_offset=20)
    assert state.propose_shrinkage(LAG_MS) is None
    assert state.propose_shrinkage(LAG_MS + 1) == {1}


# -- what the controller says ------------------------------------------------------------------------------------------


def test_a_refused_proposal_leaves_the_set_as_it_was() -> None:
    state = leader({1})
    fetch(state, 2, 10)
    state.propose_growth(2)
    state.local_end_reached(20)
    state.in_sync_answered(refused(ErrorCode.INELIGIBLE_REPLICA), LAG_MS + 1)
    assert state.in_sync == {1}
    assert state.pending_in_sync is None
    assert state.high_watermark == 20


def test_a_superseded_proposal_counts_until_the_metadata_says_what_holds() -> None:
    state = leader({1})
    fetch(state, 2, 10)
    state.propose_growth(2)
    state.local_end_reached(20)
    assert not state.in_sync_answered(refused(ErrorCode.INVALID_UPDATE_VERSION), LAG_MS + 1)
    assert state.maximal_in_sync == {1, 2}
    assert state.in_sync_changed((1,), 9, (1, 2, 3), LAG_MS + 1)
    assert state.maximal_in_sync == {1}


def test_an_answer_of_another_epoch_is_no_answer() -> None:
    state = leader({1})
    fetch(state, 2, 10)
    state.propose_growth(2)
    state.in_sync_answered(agreed((1, 2), leader_epoch=3), 0)
    assert state.in_sync == {1}


def test_old_metadata_does_not_undo_a_newer_answer() -> None:
    state = leader({1})
    fetch(state, 2, 10)
    state.propose_growth(2)
    state.in_sync_answered(agreed((1, 2), partition_epoch=9), 0)
    state.in_sync_changed((1,), 8, (1, 2, 3), 0)
    assert state.in_sync == {1, 2}
    assert state.partition_epoch == 9


def test_replicas_come_and_go_by_the_metadata() -> None:
    state = leader({1, 2}, replicas=(1, 2))
    fetch(state, 2, 10)
    state.in_sync_changed((1, 2), 8, (1, 2, 3), 0)
    fetch(state, 3, 10)
    assert state.propose_growth(3) == {1, 2, 3}
    state.in_sync_changed((1, 3), 9, (1, 3), 0)
    assert set(state.followers) == {3}
    assert state.followers[3].end_offset == 10


def test_a_proposal_names_the_incarnations_that_were_seen() -> None:
    state = leader({1})
    fetch(state, 2, 10)
    proposed = state.propose_growth(2)
    assert proposed is not None
    assert state.with_epochs(proposed, 55) == [InSyncReplica(1, 55), InSyncReplica(2, 102)]
