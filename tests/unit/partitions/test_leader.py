"""The high watermark follows the slowest in-sync replica and never moves back."""

from tidelog.partitions.core.leader import LeaderState


def leader(in_sync: set[int], replica_count: int = 3, high_watermark: int = 10) -> LeaderState:
    return LeaderState(
        node_id=1,
        leader_epoch=4,
        in_sync=frozenset(in_sync),
        replica_count=replica_count,
        high_watermark=high_watermark,
    )


def test_alone_the_high_watermark_follows_the_own_log() -> None:
    state = leader({1}, replica_count=1)
    assert state.replica_reached(1, 15)
    assert state.high_watermark == 15
    assert not state.replica_reached(1, 15)


def test_the_slowest_in_sync_replica_decides() -> None:
    state = leader({1, 2, 3})
    assert not state.replica_reached(1, 30)
    assert not state.replica_reached(2, 20)
    assert state.replica_reached(3, 12)
    assert state.high_watermark == 12
    assert state.replica_reached(3, 25)
    assert state.high_watermark == 20


def test_a_replica_out_of_sync_does_not_hold_anyone_back() -> None:
    state = leader({1, 2})
    state.replica_reached(1, 30)
    assert not state.replica_reached(3, 11)
    assert state.replica_reached(2, 30)
    assert state.high_watermark == 30


def test_the_high_watermark_never_moves_back() -> None:
    state = leader({1}, replica_count=1, high_watermark=10)
    assert not state.replica_reached(1, 7)
    assert state.high_watermark == 10


def test_a_topic_cannot_ask_for_more_replicas_than_it_has() -> None:
    assert leader({1}, replica_count=1).has_enough_in_sync(3)
    assert leader({1, 2}, replica_count=3).has_enough_in_sync(2)
    assert not leader({1}, replica_count=3).has_enough_in_sync(2)
