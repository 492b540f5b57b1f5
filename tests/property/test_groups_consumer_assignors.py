"""Assignors: every partition to exactly one subscriber, evenly, and with as little moved as possible."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidelog.groups.core.consumer.assignors import ASSIGNORS, AssignedMember, assign_range, assign_uniform
from tidelog.groups.core.consumer.records import Partitions

TOPICS = [bytes([n]) * 16 for n in range(5)]
counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 20), min_size=1)
names = st.integers(0, 30).map(lambda n: f"m{n:02}")


@st.composite
def groups(draw: st.DrawFn, *, alike: bool = False) -> tuple[dict[str, AssignedMember], dict[bytes, int]]:
    topics = draw(counts)
    some = st.lists(st.sampled_from(sorted(topics)), unique=True).map(tuple)
    everything = tuple(sorted(topics))
    members = draw(st.dictionaries(names, st.just(everything) if alike else some, min_size=1, max_size=12))
    return {name: AssignedMember(chosen) for name, chosen in members.items()}, topics


def pairs(assignment: dict[str, Partitions]) -> list[tuple[bytes, int]]:
    return [(t, p) for target in assignment.values() for t, partitions in target.items() for p in partitions]


def load(target: Partitions) -> int:
    return sum(map(len, target.values()))


@given(groups(), groups(), st.sampled_from(sorted(ASSIGNORS)))
def test_every_partition_goes_to_one_subscriber(
    before: tuple[dict[str, AssignedMember], dict[bytes, int]],
    now: tuple[dict[str, AssignedMember], dict[bytes, int]],
    name: str,
) -> None:
    previous = ASSIGNORS[name](*before, {})
    members, topics = now
    assignment = ASSIGNORS[name](members, topics, previous)
    assert assignment.keys() == members.keys()
    subscribed = {topic for member in members.values() for topic in member.topics}
    assert sorted(pairs(assignment)) == sorted((t, p) for t in subscribed for p in range(topics[t]))
    for member_id, target in assignment.items():
        assert set(target) <= set(members[member_id].topics)
        assert all(partitions == tuple(sorted(partitions)) != () for partitions in target.values())


@given(groups(alike=True), groups(alike=True))
def test_uniform_is_even_and_sticky(
    before: tuple[dict[str, AssignedMember], dict[bytes, int]], now: tuple[dict[str, AssignedMember], dict[bytes, int]]
) -> None:
    previous = assign_uniform(*before, {})
    members, topics = now
    assignment = assign_uniform(members, topics, previous)
    loads = sorted(load(target) for target in assignment.values())
    assert loads[-1] - loads[0] <= 1
    least, extra = divmod(sum(topics.values()), len(members))
    kept_in_order = 0
    places = extra
    for member_id in sorted(members):
        had = {(t, p) for t, partitions in previous.get(member_id, {}).items() for p in partitions if t in topics}
        had = {(t, p) for t, p in had if p < topics[t]}
        kept = had & set(pairs({member_id: assignment[member_id]}))
        quota = least + (1 if len(had) > least and places > 0 else 0)
        places -= quota > least
        assert len(kept) >= min(len(had), quota), "what a member may keep it keeps"
        kept_in_order += len(kept)
    assert assign_uniform(members, topics, assignment) == assignment, "nothing moves when nothing changed"


@given(groups(), groups())
def test_uniform_with_different_subscriptions_cannot_be_improved_by_one_move(
    before: tuple[dict[str, AssignedMember], dict[bytes, int]], now: tuple[dict[str, AssignedMember], dict[bytes, int]]
) -> None:
    members, topics = now
    assignment = assign_uniform(members, topics, assign_uniform(*before, {}))
    for giver, target in assignment.items():
        for topic in target:
            for taker, member in members.items():
                if topic in member.topics:
                    assert load(assignment[giver]) - load(assignment[taker]) <= 1, (giver, taker)
    assert assign_uniform(members, topics, assignment) == assignment


@given(groups(alike=True))
def test_range_is_co_partitioned(group: tuple[dict[str, AssignedMember], dict[bytes, int]]) -> None:
    members, topics = group
    assignment = assign_range(members, topics, {})
    for one, count in topics.items():
        for other, same in topics.items():
            if count == same:
                assert all(target.get(one) == target.get(other) for target in assignment.values())
    for target in assignment.values():
        assert all(p == tuple(range(p[0], p[-1] + 1)) for p in target.values()), "in one piece"


def test_range_orders_static_members_by_their_instance() -> None:
    members = {"z": AssignedMember((TOPICS[0],), "a"), "b": AssignedMember((TOPICS[0],), "c")}
    assert assign_range(members, {TOPICS[0]: 2}, {}) == {"z": {TOPICS[0]: (0,)}, "b": {TOPICS[0]: (1,)}}
