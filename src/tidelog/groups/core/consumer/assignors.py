"""Server-side assignors: which member reads which partitions, from subscriptions and the assignment before.

Both give every partition of a subscribed topic to exactly one of its subscribers. They depend on nothing but their
arguments, so the same group gets the same assignment on whatever node it is decided.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from tidelog.groups.core.consumer.records import Partitions


class AssignedMember:
    __slots__ = ("instance_id", "topics")

    def __init__(self, topics: Collection[bytes], instance_id: str | None = None) -> None:
        self.topics = topics
        """Ids of the topics it reads; all of them exist."""
        self.instance_id = instance_id


Members = dict[str, AssignedMember]
Assignment = dict[str, Partitions]
Assign = Callable[[Members, dict[bytes, int], dict[str, Partitions]], Assignment]
"""(members, partitions of each topic by its id, what each member had) to what each member gets."""


def assign_range(members: Members, counts: dict[bytes, int], _previous: dict[str, Partitions]) -> Assignment:
    """Each topic in contiguous ranges over its subscribers, which have the same order for every topic.

    Topics with the same subscribers and as many partitions are therefore co-partitioned: the member that reads
    partition 3 of one reads partition 3 of the others, which joins need. Static members come first, and so keep their
    place over a restart, whichever other members come and go.
    """

    def place(member_id: str) -> tuple[bool, str, str]:
        instance_id = members[member_id].instance_id
        return instance_id is None, instance_id or "", member_id

    order = sorted(members, key=place)
    assignment: dict[str, dict[bytes, tuple[int, ...]]] = {member_id: {} for member_id in members}
    readers: dict[bytes, list[str]] = {}
    for member_id in order:
        for topic_id in members[member_id].topics:
            readers.setdefault(topic_id, []).append(member_id)
    for topic_id, count in counts.items():
        subscribers = readers.get(topic_id)
        if not subscribers:
            continue
        base, extra = divmod(count, len(subscribers))
        start = 0
        for at, member_id in enumerate(subscribers):
            size = base + (at < extra)
            if size == 0:
                break
            assignment[member_id][topic_id] = tuple(range(start, start + size))
            start += size
    return dict(assignment)


_Held = dict[str, list[tuple[bytes, int]]]


def assign_uniform(members: Members, counts: dict[bytes, int], previous: dict[str, Partitions]) -> Assignment:
    """Spreads partitions evenly, and of those lets each member keep as many as possible."""
    if not members:
        return {}
    first = next(iter(members.values())).topics
    wanted = set(first)
    if all(member.topics is first or set(member.topics) == wanted for member in members.values()):
        held = _balance_alike(members, {t: n for t, n in counts.items() if t in wanted}, previous)
    else:
        held = _balance_different(members, counts, previous)
    return {member_id: _by_topic(partitions) for member_id, partitions in held.items()}


def _by_topic(partitions: list[tuple[bytes, int]]) -> Partitions:
    by_topic: dict[bytes, list[int]] = {}
    for topic_id, partition in partitions:
        by_topic.setdefault(topic_id, []).append(partition)
    return {topic_id: tuple(sorted(by_topic[topic_id])) for topic_id in sorted(by_topic)}


def _balance_alike(members: Members, counts: dict[bytes, int], previous: dict[str, Partitions]) -> _Held:
    """All members subscribe to the same topics: all get the same number, or one more."""
    base, extra = divmod(sum(counts.values()), len(members))
    held: _Held = {}
    taken: set[tuple[bytes, int]] = set()
    for member_id in sorted(members):
        kept = _still_there(previous.get(member_id, {}), counts, taken)
        # Members that have one partition more than the others keep it, while the quota lasts.
        quota = base
        if len(kept) > base and extra > 0:
            quota += 1
            extra -= 1
        del kept[quota:]
        taken.update(kept)
        held[member_id] = kept
    free = iter([(t, p) for t, count in counts.items() for p in range(count) if (t, p) not in taken])
    short = sorted(held, key=lambda member_id: (len(held[member_id]), member_id))
    for member_id in short:
        kept = held[member_id]
        while len(kept) < base:
            kept.append(next(free))
    for member_id in short:
        if extra == 0:
            break
        if len(held[member_id]) == base:
            held[member_id].append(next(free))
            extra -= 1
    return held


def _still_there(
    had: Partitions, counts: dict[bytes, int], taken: Collection[tuple[bytes, int]]
) -> list[tuple[bytes, int]]:
    return [
        (topic_id, partition)
        for topic_id, partitions in had.items()
        if topic_id in counts
        for partition in partitions
        if partition < counts[topic_id] and (topic_id, partition) not in taken
    ]


def _balance_different(members: Members, counts: dict[bytes, int], previous: dict[str, Partitions]) -> _Held:
    """Subscriptions differ: free partitions go to the member with the fewest, then single partitions move while that
    helps.

    Every move makes the sum of the squares of the loads smaller, so it ends; no topic then has two subscribers of
    whom one could give the other a partition and still not have fewer.
    """
    held: _Held = {}
    taken: set[tuple[bytes, int]] = set()
    readers: dict[bytes, list[str]] = {topic_id: [] for topic_id in counts}
    for member_id in sorted(members):
        topics = members[member_id].topics
        mine = {topic_id: counts[topic_id] for topic_id in topics if topic_id in counts}
        for topic_id in mine:
            readers[topic_id].append(member_id)
        held[member_id] = _still_there(previous.get(member_id, {}), mine, taken)
        taken.update(held[member_id])
    by_choice = sorted((topic_id for topic_id in counts if readers[topic_id]), key=lambda t: (len(readers[t]), t))
    for topic_id in by_choice:
        for partition in range(counts[topic_id]):
            if (topic_id, partition) not in taken:
                least = min(readers[topic_id], key=lambda member_id: len(held[member_id]))
                held[least].append((topic_id, partition))
    while sum(_level(topic_id, readers[topic_id], held) for topic_id in by_choice):
        pass
    return held


def _level(topic_id: bytes, subscribers: list[str], held: _Held) -> bool:
    """Moves partitions of one topic from members with many to members with few; whether any was moved."""
    moved = False
    while True:
        least = min(subscribers, key=lambda member_id: len(held[member_id]))
        givers = [
            member_id
            for member_id in subscribers
            if len(held[member_id]) > len(held[least]) + 1 and any(t == topic_id for t, _ in held[member_id])
        ]
        if not givers:
            return moved
        giver = max(givers, key=lambda member_id: len(held[member_id]))
        at = max(at for at, (topic, _) in enumerate(held[giver]) if topic == topic_id)
        held[least].append(held[giver].pop(at))
        moved = True


ASSIGNORS: dict[str, Assign] = {"uniform": assign_uniform, "range": assign_range}
"""By the name under which members ask for them."""
