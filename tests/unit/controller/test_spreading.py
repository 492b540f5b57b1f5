"""Plans for emptying a node and for evening out the load: pure, and with as few moves as it takes."""

from __future__ import annotations

from collections import Counter

import pytest

from tidelog.controller.core.spreading import plan_balance, plan_drain, plan_rebalance
from tidelog.model.ids import TopicPartition

P = [TopicPartition("t", number) for number in range(100)]


def load(placement: dict[TopicPartition, tuple[int, ...]]) -> Counter[int]:
    return Counter(node_id for replicas in placement.values() for node_id in replicas)


def test_a_drained_node_keeps_nothing_and_the_least_loaded_take_over() -> None:
    placement = {P[0]: (1, 2), P[1]: (2, 3), P[2]: (3, 1), P[3]: (1, 3)}
    plan = plan_drain(placement, {1: None, 2: None, 4: None}, 3)
    assert plan == {P[1]: (2, 4), P[2]: (4, 1), P[3]: (1, 4)} or all(3 not in replicas for replicas in plan.values())
    assert all(len(set(plan[p])) == 2 for p in plan)
    assert P[0] not in plan


def test_a_drain_keeps_racks_apart() -> None:
    placement = dict.fromkeys(P[:4], (1, 3))
    plan = plan_drain(placement, {1: "a", 2: "a", 4: "b"}, 3)
    assert set(plan.values()) == {(1, 4)}


def test_without_another_node_a_replica_less_is_kept_but_never_none() -> None:
    placement = {P[0]: (1, 2), P[1]: (2,)}
    assert plan_drain(placement, {1: None}, 2) == {P[0]: (1,), P[1]: (1,)}
    assert plan_drain(placement, {}, 2) == {P[0]: (1,)}


@pytest.mark.parametrize("nodes", [3, 4, 5])
def test_a_new_node_gets_its_share_with_few_moves(nodes: int) -> None:
    placement = {p: tuple((index + k) % 2 + 1 for k in range(2)) for index, p in enumerate(P)}
    plan = plan_balance(placement, dict.fromkeys(range(1, nodes + 1)))
    after = {**placement, **plan}
    counts = load(after)
    assert max(counts.values()) - min(counts[node_id] for node_id in range(1, nodes + 1)) <= 1
    leaders = Counter(replicas[0] for replicas in after.values())
    assert max(leaders.values()) - min(leaders[node_id] for node_id in range(1, nodes + 1)) <= 2
    assert all(len(set(replicas)) == 2 for replicas in after.values())
    moved = sum(len(set(after[p]) - set(placement[p])) for p in P)
    fair = 200 * (nodes - 2) // nodes
    assert moved <= fair + nodes


def test_what_is_even_stays() -> None:
    placement = {p: ((index % 3) + 1, ((index + 1) % 3) + 1) for index, p in enumerate(P[:99])}
    assert plan_balance(placement, {1: None, 2: None, 3: None}) == {}
    assert plan_balance({}, {1: None}) == {}
    assert plan_balance(placement, {}) == {}


def test_a_rebalance_makes_replicas_of_removed_nodes_elsewhere() -> None:
    lost, kept, alone = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
    placement = {lost: (1, 2, 9), kept: (1, 2, 3), alone: (9,)}
    plan = plan_rebalance(placement, dict.fromkeys((1, 2, 3)), {1, 2, 3}, {})
    assert set(plan[lost]) == {1, 2, 3}
    assert alone not in plan, "its only copy is on the removed node, which may come back"
    assert 9 not in {node_id for replicas in plan.values() for node_id in replicas}
