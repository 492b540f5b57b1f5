"""The transition table, exhaustively: what it lists can be done, what it does not list cannot."""

from __future__ import annotations

from itertools import product

import pytest
from tests.unit.groups.driver import SESSION_MS, ShardDriver

from tidelog.groups.core.classic_group import ClassicGroup
from tidelog.groups.core.messages import OffsetToCommit
from tidelog.groups.core.state import TRANSITIONS, ClassicGroupState

S = ClassicGroupState


def test_every_state_is_in_the_table_and_dead_is_final() -> None:
    assert set(TRANSITIONS) == set(S)
    assert TRANSITIONS[S.DEAD] == frozenset()
    assert all(S.DEAD in targets for state, targets in TRANSITIONS.items() if state is not S.DEAD)


@pytest.mark.parametrize(("source", "target"), list(product(S, S)), ids=lambda state: state.value)
def test_only_listed_transitions_are_possible(source: S, target: S) -> None:
    group = ClassicGroup("g")
    group.state = source
    if target in TRANSITIONS[source]:
        group.become(target, 5)
        assert (group.state, group.previous_state, group.state_timestamp_ms) == (target, source, 5)
    else:
        with pytest.raises(AssertionError):
            group.become(target, 5)
        assert group.state is source


def walk(path: str) -> tuple[ShardDriver, list[S]]:
    """The states a group goes through in one of the stories that take it along every arrow of the table."""
    driver = ShardDriver()
    seen = [S.EMPTY]

    def note() -> None:
        group = driver.shard.groups.get("g")
        state = group.state if group is not None else S.DEAD
        if state is not seen[-1]:
            seen.append(state)

    driver.commit(OffsetToCommit("t", 0, 1))
    note()
    if path == "deleted":
        driver.perform(driver.shard.decide_delete_groups(["g"], driver.now))
        note()
        return driver, seen
    member, _ = driver.join_known()
    note()
    if path == "leave while joining":
        driver.leave(member)
        note()
    driver.advance(2)
    note()
    if path == "leave while joining":
        return driver, seen
    if path == "change while completing":
        driver.send_join()
        driver.send_join(member, protocols=[("range", b"new")])
        note()
        return driver, seen
    driver.send_sync(member, 1, {member: b"all"})
    note()
    if path == "expire":
        driver.send_join()
        driver.advance(SESSION_MS)
        note()
    return driver, seen


@pytest.mark.parametrize(
    ("path", "states"),
    [
        ("deleted", [S.EMPTY, S.DEAD]),
        ("leave while joining", [S.EMPTY, S.PREPARING_REBALANCE, S.EMPTY]),
        (
            "change while completing",
            [S.EMPTY, S.PREPARING_REBALANCE, S.COMPLETING_REBALANCE, S.PREPARING_REBALANCE],
        ),
        ("sync", [S.EMPTY, S.PREPARING_REBALANCE, S.COMPLETING_REBALANCE, S.STABLE]),
        (
            "expire",
            [S.EMPTY, S.PREPARING_REBALANCE, S.COMPLETING_REBALANCE, S.STABLE, S.EMPTY],
        ),
    ],
)
def test_stories(path: str, states: list[S]) -> None:
    assert walk(path)[1] == states


def test_unloading_ends_every_group_wherever_it_stands() -> None:
    for path in ("sync", "change while completing", "leave while joining"):
        driver, _ = walk(path)
        group = driver.shard.groups["g"]
        driver.perform(driver.shard.decide_unloaded())
        assert group.state is S.DEAD
