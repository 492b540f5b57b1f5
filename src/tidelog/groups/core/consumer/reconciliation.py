"""How a member comes from what it owns to what it should own, one heartbeat after the other.

First it revokes what it should no longer own, at its old epoch; then it goes to the target's epoch
and gets what no other member owns. A partition therefore never has two owners, whatever is lost or late in between.
"""

from __future__ import annotations

from tidelog.groups.core.consumer.records import NO_READERS, CurrentAssignment, OwnedPartitions, Owners, Partitions
from tidelog.groups.core.consumer.state import NEXT, STABLE, UNREVOKED_PARTITIONS


def reconcile(
    member_id: str,
    current: CurrentAssignment,
    target: Partitions,
    target_epoch: int,
    *,
    subscribed: set[bytes],
    owners: Owners,
    reported: Partitions | None,
) -> CurrentAssignment:
    """The member's next step, or `current` itself when there is none.

    `reported` is what the member says it owns; None if it does not say, and then it may own all it ever had.
    """
    if (current.state is STABLE and current.epoch == target_epoch) or (
        current.state is UNREVOKED_PARTITIONS and _owns_any(reported, current.revoking)
    ):
        return _give_up_unsubscribed(current, subscribed, reported)
    return _step(member_id, current, target, target_epoch, subscribed, owners, reported)


def _step(
    member_id: str,
    current: CurrentAssignment,
    target: Partitions,
    target_epoch: int,
    subscribed: set[bytes],
    owners: Owners,
    reported: Partitions | None,
) -> CurrentAssignment:
    owned: dict[bytes, dict[int, int]] = {}
    revoking: dict[bytes, dict[int, int]] = {}
    for topic_id, partitions in current.owned.items():
        wanted = target.get(topic_id, ()) if topic_id in subscribed else ()
        kept = {partition: epoch for partition, epoch in partitions.items() if partition in wanted}
        if kept:
            owned[topic_id] = kept
        if len(kept) < len(partitions):
            revoking[topic_id] = {p: epoch for p, epoch in partitions.items() if p not in kept}
    if revoking and _owns_any(reported, revoking):
        return CurrentAssignment(current.epoch, current.epoch, NEXT[True, False], owned, revoking)
    is_waiting = False
    for topic_id, wanted in target.items():
        if topic_id not in subscribed:
            continue
        had = owned.get(topic_id)
        readers = owners.get(topic_id, NO_READERS)
        kept = {} if had is None else dict(had)
        for partition in wanted:
            if partition in kept:
                continue
            if not readers or readers.get(partition, member_id) == member_id:
                kept[partition] = target_epoch
            else:
                is_waiting = True
        if kept:
            # What is wanted is in order, and so is what is new of it.
            owned[topic_id] = kept if had is None else dict(sorted(kept.items()))
    return CurrentAssignment(target_epoch, current.epoch, NEXT[False, is_waiting], owned)


def _give_up_unsubscribed(
    current: CurrentAssignment, subscribed: set[bytes], reported: Partitions | None
) -> CurrentAssignment:
    """A member may change its mind about topics while it is giving up others, or before there is a new target."""
    dropped = [topic_id for topic_id in current.owned if topic_id not in subscribed]
    if not dropped:
        return current
    revoking = {topic_id: dict(partitions) for topic_id, partitions in current.revoking.items()}
    for topic_id in dropped:
        revoking.setdefault(topic_id, {}).update(current.owned[topic_id])
    owned = {topic_id: partitions for topic_id, partitions in current.owned.items() if topic_id in subscribed}
    if not _owns_any(reported, revoking):
        return CurrentAssignment(current.epoch, current.epoch, current.state, owned, current.revoking)
    return CurrentAssignment(current.epoch, current.epoch, UNREVOKED_PARTITIONS, owned, revoking)


def _owns_any(reported: Partitions | None, partitions: OwnedPartitions) -> bool:
    if reported is None:
        return True
    return any(
        partition in partitions[topic_id]
        for topic_id, owned in reported.items()
        if topic_id in partitions
        for partition in owned
    )


def owns_only(reported: Partitions | None, partitions: OwnedPartitions) -> bool:
    """Whether a member says that it owns nothing but these."""
    return reported is not None and all(
        partition in partitions.get(topic_id, ()) for topic_id, owned in reported.items() for partition in owned
    )
