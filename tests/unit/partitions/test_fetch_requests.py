"""The follower's end of a fetch session."""

from __future__ import annotations

from tidelog.partitions.core.fetch_requests import EPOCH_MAX, FetchPosition, FollowerSession

A, B = (b"a" * 16, 0), (b"b" * 16, 3)


def at(offset: int) -> FetchPosition:
    return FetchPosition(offset, 0, 5, 4)


def test_the_first_request_names_everything() -> None:
    session = FollowerSession()
    assert session.plan({A: at(0), B: at(0)}) == (0, 0, {A: at(0), B: at(0)}, [])


def test_later_requests_name_what_changed_and_what_is_no_longer_wanted() -> None:
    session = FollowerSession()
    session.plan({A: at(0), B: at(0)})
    session.answered(77)
    assert session.plan({A: at(5), B: at(0)}) == (77, 1, {A: at(5)}, [])
    session.answered(77)
    assert session.plan({A: at(5)}) == (77, 2, {}, [B])
    session.answered(77)
    assert session.plan({A: at(5), B: at(0)}) == (77, 3, {B: at(0)}, [])


def test_a_new_leader_epoch_is_a_change() -> None:
    session = FollowerSession()
    session.plan({A: at(0)})
    session.answered(77)
    moved = FetchPosition(0, 0, 6, 4)
    assert session.plan({A: moved}).named == {A: moved}


def test_after_a_failure_everything_is_named_again() -> None:
    session = FollowerSession()
    session.plan({A: at(0)})
    session.answered(77)
    session.plan({A: at(5)})
    session.restart()
    assert session.plan({A: at(5)}) == (77, 0, {A: at(5)}, []), "the old session is named to be closed"
    session.answered(78)
    assert session.plan({A: at(5)}) == (78, 1, {}, [])


def test_without_a_session_every_request_is_a_full_one() -> None:
    session = FollowerSession()
    for offset in range(3):
        assert session.plan({A: at(offset)}) == (0, 0, {A: at(offset)}, [])
        session.answered(0)


def test_the_epoch_starts_over_at_one() -> None:
    session = FollowerSession()
    session.plan({A: at(0)})
    session.answered(77)
    session.epoch = EPOCH_MAX
    session.answered(77)
    assert session.plan({A: at(0)}).session_epoch == 1
