"""Which brokers hold which partitions.

Brokers are taken in turn, racks interleaved, so that leaders spread evenly and the replicas of a partition land in
different racks where there are enough. The start of the turn is an argument: the same input places the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidelog.metadata.image import BrokerImage
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


def place_partitions(
    brokers: Sequence[int], partition_count: int, replication_factor: int, start: int
) -> list[tuple[int, ...]]:
    """Replicas of each partition, the preferred leader first. `brokers` in the order of `order_by_rack`."""
    count = len(brokers)
    if replication_factor > count:
        raise BrokerError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): The target replication factor of "
            f"{replication_factor} cannot be reached because only {count} broker(s) are registered.",
        )
    placed = []
    for index in range(start, start + partition_count):
        # After each full turn the followers move on by one, so that one broker's partitions do not all follow to one.
        shift = index // count
        followers = (brokers[(index + 1 + (shift + k) % (count - 1)) % count] for k in range(replication_factor - 1))
        placed.append((brokers[index % count], *followers))
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


def _refuse(reason: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
