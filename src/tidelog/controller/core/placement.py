"""Which brokers hold which partitions.

Two ways, by the setting `tidelog.replica.placement`. In turn: racks interleaved, so that leaders spread evenly and the
replicas of a partition land in different racks where there are enough. Least loaded: each replica goes to the broker
that has the fewest, which fills nodes that joined later. Both are pure: the same input places the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from tidelog.metadata.image import BrokerImage, MetadataImage
from tidelog.model.errors import BrokerError, ErrorCode


def order_by_rack(brokers: Iterable[BrokerImage]) -> list[int]:
    """Node ids such that neighbours stand in different racks as long as possible."""
    racks: dict[str, list[int]] = {}
    for broker in sorted(brokers, key=lambda broker: broker.node_id):
        racks.setdefault(broker.rack or "", []).append(broker.node_id)
    queues = [racks[rack] for rack in sorted(racks)]
    ordered: list[int] = []
    while any(queues):
        ordered.extend(queue.pop(0) for queue in queues if queue)
    return ordered


def place_in_turn(
    brokers: Iterable[BrokerImage], partition_count: int, replication_factor: int, start: int
) -> list[tuple[int, ...]]:
    """Replicas of each partition, the preferred leader first; in as many racks as there are."""
    brokers = list(brokers)
    ordered = order_by_rack(brokers)
    racks = {broker.node_id: broker.rack for broker in brokers}
    if len(set(racks.values())) <= 1 or replication_factor <= 1:
        return place_partitions(ordered, partition_count, replication_factor, start)
    _check_factor(replication_factor, len(ordered))
    # All brokers in the order in which each partition would take them; it takes those of new racks first.
    turns = place_partitions(ordered, partition_count, len(ordered), start)
    return [_across_racks(turn, racks, replication_factor) for turn in turns]


def _across_racks(turn: Sequence[int], racks: Mapping[int, str | None], count: int) -> tuple[int, ...]:
    chosen = [turn[0]]
    left = list(turn[1:])
    while len(chosen) < count:
        uses = Counter(racks[node_id] for node_id in chosen)
        chosen.append(min(left, key=lambda node_id: uses[racks[node_id]]))
        left.remove(chosen[-1])
    return tuple(chosen)


def place_partitions(
    brokers: Sequence[int], partition_count: int, replication_factor: int, start: int
) -> list[tuple[int, ...]]:
    """The same without regard to racks. `brokers` in the order of `order_by_rack`."""
    count = len(brokers)
    _check_factor(replication_factor, count)
    placed = []
    for index in range(start, start + partition_count):
        # After each full turn the followers move on by one, so that one broker's partitions do not all follow to one.
        shift = index // count
        followers = (brokers[(index + 1 + (shift + k) % (count - 1)) % count] for k in range(replication_factor - 1))
        placed.append((brokers[index % count], *followers))
    return placed


def _check_factor(replication_factor: int, count: int) -> None:
    if replication_factor > count:
        raise BrokerError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): The target replication factor of "
            f"{replication_factor} cannot be reached because only {count} broker(s) are registered.",
        )


def place_on_least_loaded(image: MetadataImage, partition_count: int, replication_factor: int) -> list[tuple[int, ...]]:
    """Replicas of each partition, the preferred leader first: where the fewest are, in racks the partition has not."""
    racks = {broker.node_id: broker.rack for broker in image.open_brokers()}
    _check_factor(replication_factor, len(racks))
    leaders: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    for topic in image.topics.values():
        for state in topic.partitions.values():
            leaders[state.replicas[0]] += 1
            replicas.update(state.replicas)
    placed: list[tuple[int, ...]] = []
    for _ in range(partition_count):
        first = min(racks, key=lambda node_id: (leaders[node_id], replicas[node_id], node_id))
        chosen = [first]
        while len(chosen) < replication_factor:
            used = {racks[node_id] for node_id in chosen}
            left = (node_id for node_id in racks if node_id not in chosen)
            chosen.append(min(left, key=lambda node_id: (racks[node_id] in used, replicas[node_id], node_id)))
        leaders[first] += 1
        replicas.update(chosen)
        placed.append(tuple(chosen))
    return placed


def check_assignment(replicas: Sequence[int], known: Iterable[int], factor: int | None) -> None:
    """Raises INVALID_REPLICA_ASSIGNMENT for a manual assignment of one partition that cannot be."""
    if not replicas:
        raise _refuse("The manual partition assignment includes an empty replica list.")
    known = set(known)
    seen: set[int] = set()
    for node_id in sorted(replicas):
        if node_id not in known:
            raise _refuse(
                f"The manual partition assignment includes broker {node_id}, but no such broker is registered."
            )
        if node_id in seen:
            raise _refuse(f"The manual partition assignment includes the broker {node_id} more than once.")
        seen.add(node_id)
    if factor is not None and len(replicas) != factor:
        raise _refuse(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
            f"consistent with previous partitions, which have {factor} replica(s)."
        )


def check_not_cordoned(image: MetadataImage, node_ids: Iterable[int]) -> None:
    """Raises INVALID_REPLICA_ASSIGNMENT when a new replica would come to a broker that takes none."""
    for node_id in node_ids:
        if image.is_cordoned(node_id):
            raise _refuse(f"The assignment includes broker {node_id}, but all of its log directories are cordoned.")


def _refuse(reason: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
