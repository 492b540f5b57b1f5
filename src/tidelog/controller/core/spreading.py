"""Plans that an operator carries out as reassignments: a node emptied, replicas evened out, added or taken away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set

from tidelog.model.ids import TopicPartition

Placement = Mapping[TopicPartition, tuple[int, ...]]
"""The replicas of every partition, the preferred leader first."""


def plan_drain(
    placement: Placement, racks: Mapping[int, str | None], drained: int
) -> dict[TopicPartition, tuple[int, ...]]:
    """New replicas for every partition the node holds. `racks` are the nodes that may take them.

    Where no other node is left the partition keeps fewer replicas; its last one cannot go and is not in the plan.
    """
    load = _replica_load(placement, racks)
    planned: dict[TopicPartition, tuple[int, ...]] = {}
    for partition, replicas in placement.items():
        if drained not in replicas:
            continue
        kept = [node_id for node_id in replicas if node_id != drained]
        taker = _least_loaded(load, racks, kept, exclude={*replicas, drained})
        if taker is not None:
            load[taker] += 1
            planned[partition] = tuple(taker if node_id == drained else node_id for node_id in replicas)
        elif kept:
            planned[partition] = tuple(kept)
    return planned


def plan_factors(
    placement: Placement, racks: Mapping[int, str | None], factors: Mapping[str, int], in_sync: Placement
) -> dict[TopicPartition, tuple[int, ...]]:
    """New replicas for the partitions of topics that shall have another number of them.

    Where there are not enough nodes (`racks` are those that may take replicas) a partition gets as many as there are.
    Replicas go first from nodes that take none, then from where they are not in sync, then from the most loaded.
    """
    load = _replica_load(placement, racks)
    planned: dict[TopicPartition, tuple[int, ...]] = {}
    for partition, replicas in placement.items():
        factor = factors.get(partition.topic, len(replicas))
        after = list(replicas)
        while len(after) > factor:
            synced = in_sync.get(partition, ())
            loser = min(after, key=lambda n: (n in racks, n in synced, n == replicas[0], -load[n], n))
            after.remove(loser)
            load[loser] -= 1
        while len(after) < factor:
            taker = _least_loaded(load, racks, after, exclude=after)
            if taker is None:
                break
            after.append(taker)
            load[taker] += 1
        if tuple(after) != replicas:
            planned[partition] = tuple(after)
    return planned


def plan_restore(
    placement: Placement, racks: Mapping[int, str | None], factors: Mapping[str, int]
) -> dict[TopicPartition, tuple[int, ...]]:
    """Gives partitions back what drains took, as far as there are nodes; takes nothing from any."""
    short = {p: replicas for p, replicas in placement.items() if len(replicas) < factors.get(p.topic, 0)}
    planned = plan_factors(placement, racks, factors, {})
    return {partition: replicas for partition, replicas in planned.items() if partition in short}


def plan_rebalance(
    placement: Placement, racks: Mapping[int, str | None], known: Set[int], factors: Mapping[str, int]
) -> dict[TopicPartition, tuple[int, ...]]:
    """Replicas of nodes that are not `known` any more (removed by force) are made elsewhere, drained topics get back
    what they had, and then all is evened out. A partition that has replicas on such nodes only stays as it is."""
    planned = {p: replicas for p, replicas in placement.items() if not known.isdisjoint(replicas)}
    for gone in sorted({node_id for replicas in placement.values() for node_id in replicas} - known):
        planned |= plan_drain(planned, racks, gone)
    planned |= plan_restore(planned, racks, factors)
    planned |= plan_balance({p: replicas for p, replicas in planned.items() if known >= set(replicas)}, racks)
    return {partition: replicas for partition, replicas in planned.items() if replicas != placement[partition]}


def plan_balance(placement: Placement, racks: Mapping[int, str | None]) -> dict[TopicPartition, tuple[int, ...]]:
    """Moves as few replicas as it takes until no node has two more than another, then spreads preferred leaders."""
    if not racks:
        return {}
    planned = dict(placement)
    load = _replica_load(placement, racks)
    for partition, replicas in placement.items():
        for node_id in replicas:
            if node_id not in racks or load[node_id] <= min(load[other] for other in racks) + 1:
                continue
            now = planned[partition]
            kept = [other for other in now if other != node_id]
            taker = _least_loaded(load, racks, kept, exclude=now)
            if taker is not None and load[taker] + 1 < load[node_id]:
                planned[partition] = tuple(taker if other == node_id else other for other in now)
                load[node_id] -= 1
                load[taker] += 1
    _spread_leaders(planned, racks)
    return {partition: replicas for partition, replicas in planned.items() if replicas != placement[partition]}


def _spread_leaders(planned: dict[TopicPartition, tuple[int, ...]], racks: Mapping[int, str | None]) -> None:
    """Changes only the order of replicas, so that nothing is copied."""
    leads = Counter(dict.fromkeys(racks, 0))
    leads.update(replicas[0] for replicas in planned.values())
    for partition, replicas in planned.items():
        first = replicas[0]
        best = min((node_id for node_id in replicas if node_id in racks), key=lambda n: (leads[n], n), default=first)
        if leads[best] + 1 < leads[first]:
            planned[partition] = (best, *(node_id for node_id in replicas if node_id != best))
            leads[first] -= 1
            leads[best] += 1


def _replica_load(placement: Placement, nodes: Iterable[int]) -> Counter[int]:
    load = Counter(dict.fromkeys(nodes, 0))
    for replicas in placement.values():
        load.update(replicas)
    return load


def _least_loaded(
    load: Counter[int], racks: Mapping[int, str | None], kept: Iterable[int], exclude: Iterable[int]
) -> int | None:
    used = {racks.get(node_id) for node_id in kept} - {None}
    barred = set(exclude)
    left = [node_id for node_id in racks if node_id not in barred]
    return min(left, key=lambda node_id: (racks[node_id] in used, load[node_id], node_id), default=None)
