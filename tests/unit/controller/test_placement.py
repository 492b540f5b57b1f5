"""Placement: even, on different brokers, in different racks, and the same every time."""

from collections import Counter

import pytest
from tests.unit.metadata.images import broker

from tidelog.controller.core.placement import order_by_rack, place_in_turn, place_partitions


@pytest.mark.parametrize(("brokers", "factor"), [(1, 1), (2, 1), (3, 2), (3, 3), (5, 3)])
def test_leaders_and_replicas_are_spread_evenly(brokers: int, factor: int) -> None:
    nodes = list(range(1, brokers + 1))
    placed = place_partitions(nodes, brokers * 12, factor, start=7)
    assert all(len(set(replicas)) == factor for replicas in placed)
    assert set(Counter(replicas[0] for replicas in placed).values()) == {12}
    assert set(Counter(node for replicas in placed for node in replicas).values()) == {12 * factor}


def test_the_followers_of_one_leader_are_not_always_the_same() -> None:
    placed = place_partitions([1, 2, 3, 4], 16, 2, start=0)
    assert {replicas[1] for replicas in placed if replicas[0] == 1} == {2, 3, 4}


def test_racks_take_turns() -> None:
    brokers = [broker(n, rack="a" if n <= 3 else "b") for n in range(1, 7)]
    order = order_by_rack(brokers)
    assert order == [1, 4, 2, 5, 3, 6]
    racks = {b.node_id: b.rack for b in brokers}
    first_turn = place_partitions(order, 6, 2, start=0)
    assert all(racks[leader] != racks[follower] for leader, follower in first_turn)


@pytest.mark.parametrize(
    ("racks", "factor"), [("ab", 2), ("aab", 2), ("aaab", 2), ("aabb", 2), ("abc", 3), ("aabbc", 3), ("aabbcc", 3)]
)
def test_replicas_stand_in_as_many_racks_as_there_are(racks: str, factor: int) -> None:
    brokers = [broker(n, rack=rack) for n, rack in enumerate(racks, 1)]
    rack_of = {b.node_id: b.rack for b in brokers}
    placed = place_in_turn(brokers, 60, factor, start=3)
    assert all(len(set(replicas)) == factor for replicas in placed)
    assert all(len({rack_of[node_id] for node_id in replicas}) == factor for replicas in placed)
    assert set(Counter(replicas[0] for replicas in placed).values()) == {60 // len(racks)}


def test_racks_that_are_too_few_are_used_evenly() -> None:
    brokers = [broker(n, rack=rack) for n, rack in enumerate("aaabbb", 1)]
    for replicas in place_in_turn(brokers, 24, 4, start=0):
        assert Counter("a" if node_id <= 3 else "b" for node_id in replicas) == {"a": 2, "b": 2}


def test_without_racks_it_is_plain_turns() -> None:
    assert place_in_turn([broker(n) for n in (1, 2, 3)], 9, 2, start=4) == place_partitions([1, 2, 3], 9, 2, start=4)


def test_the_same_input_places_the_same_way() -> None:
    assert place_partitions([1, 2, 3], 9, 2, start=4) == place_partitions([1, 2, 3], 9, 2, start=4)
