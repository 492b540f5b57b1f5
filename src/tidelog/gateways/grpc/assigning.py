"""Who gets which partitions, when a member of this door leads its group: Kafka's assignors `range` and `roundrobin`.

The clients of a group agree on one of the two that all of them know; a leader from Kafka's clients uses its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.gateways.grpc.consumer_protocol import ROUND_ROBIN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidelog.gateways.grpc.consumer_protocol import Assignment


def assign(
    protocol: str, members: Mapping[str, Sequence[str]], partition_counts: Mapping[str, int]
) -> dict[str, Assignment]:
    """Partitions by member. `members` has the topics that each wants; a topic without a count gets to nobody."""
    if protocol == ROUND_ROBIN:
        return _in_turn(members, partition_counts)
    return _in_ranges(members, partition_counts)


def _in_ranges(members: Mapping[str, Sequence[str]], partition_counts: Mapping[str, int]) -> dict[str, Assignment]:
    assigned: dict[str, Assignment] = {member: {} for member in members}
    for topic, count in partition_counts.items():
        takers = sorted(member for member, topics in members.items() if topic in topics)
        first = 0
        for place, member in enumerate(takers):
            share = count // len(takers) + (place < count % len(takers))
            if share:
                assigned[member][topic] = list(range(first, first + share))
            first += share
    return assigned


def _in_turn(members: Mapping[str, Sequence[str]], partition_counts: Mapping[str, int]) -> dict[str, Assignment]:
    assigned: dict[str, Assignment] = {member: {} for member in members}
    order = sorted(members)
    turn = 0
    for topic in sorted(partition_counts):
        if not any(topic in members[member] for member in order):
            continue
        for partition in range(partition_counts[topic]):
            while topic not in members[order[turn % len(order)]]:
                turn += 1
            assigned[order[turn % len(order)]].setdefault(topic, []).append(partition)
            turn += 1
    return assigned
