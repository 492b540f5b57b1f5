"""The follower's machine: what is committed here, and where to cut a log that parts from the leader's."""

from __future__ import annotations

import pytest

from tidelog.partitions.core.follower import FollowerState, truncation_offset


def follower(high_watermark: int = 10) -> FollowerState:
    return FollowerState(leader_id=2, leader_epoch=5, partition_epoch=9, high_watermark=high_watermark)


def test_the_high_watermark_comes_from_the_leader_but_never_passes_the_own_log() -> None:
    state = follower()
    assert state.leader_answered(50, log_end_offset=30)
    assert state.high_watermark == 30
    assert state.leader_answered(50, log_end_offset=60)
    assert state.high_watermark == 50


def test_a_new_leader_that_knows_less_does_not_take_anything_back() -> None:
    state = follower(high_watermark=40)
    assert not state.leader_answered(20, log_end_offset=60)
    assert state.high_watermark == 40


def test_a_log_cut_below_the_high_watermark_takes_it_along() -> None:
    state = follower(high_watermark=40)
    state.truncated(35)
    assert state.high_watermark == 35
    state.truncated(50)
    assert state.high_watermark == 35


@pytest.mark.parametrize(
    ("leader", "own", "log_end", "expected"),
    [
        ((4, 80), (4, 100), 100, 80),
        ((4, 80), (4, 60), 100, 60),
        ((4, 120), (4, 100), 100, 100),
        ((3, 50), (2, 40), 100, 40),
        ((3, 50), (-1, -1), 100, 50),
        ((-1, 30), (2, 40), 100, 30),
        ((-1, -1), (2, 40), 100, 100),
    ],
    ids=[
        "the leader's epoch ended first",
        "the own epoch ended first",
        "the leader has more of the epoch",
        "the leader's epoch is not in this log",
        "this log knows no epochs",
        "the leader knows no epochs",
        "the leader cannot tell",
    ],
)
def test_where_to_cut(leader: tuple[int, int], own: tuple[int, int], log_end: int, expected: int) -> None:
    assert (
        truncation_offset(
            leader_epoch=leader[0],
            leader_end_offset=leader[1],
            own_epoch=own[0],
            own_end_offset=own[1],
            log_end_offset=log_end,
        )
        == expected
    )
