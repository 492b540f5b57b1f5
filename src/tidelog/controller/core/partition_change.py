"""The next state of one partition, as a record: the one place where leaders are chosen and reassignments completed.

What always holds afterwards: the leader is in the in-sync set and may lead, or it is -1; the in-sync set is never
empty; the leader epoch grows when the leader changes and when a replica leaves the partition.

A replica is in sync on one disk. A node that comes back with another one has none of what it had: it does not lead for
being the last in sync, unless there is no other replica, so that no other copy is truncated to its empty one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidelog.metadata.image import NO_LEADER, MetadataImage, PartitionState
from tidelog.model.ids import ZERO_TOPIC_ID
from tidelog.protocol.generated.partition_change_record import PartitionChangeRecord

CanLead = Callable[[int], bool]

RECOVERED = 0
RECOVERING = 1


class PartitionChange:
    """Say what shall change, then ask for the `record`; None when nothing does."""

    def __init__(
        self,
        image: MetadataImage,
        topic_id: bytes,
        index: int,
        state: PartitionState,
        *,
        can_lead: CanLead | None = None,
        prefer_first: bool = False,
        unclean: bool = False,
    ) -> None:
        """`can_lead`, if the image does not show yet which nodes can. `prefer_first` gives the leadership to the first
        replica when it is in sync; `unclean` to a replica that is not in sync when no other is left."""
        self._image = image
        self._topic_id = topic_id
        self._index = index
        self._before = state
        self._is_able = can_lead or image.is_active
        self._prefer_first = prefer_first
        self._unclean = unclean
        self.isr: Sequence[int] = state.isr
        """Empty means unchanged: only the replica that was in sync last can lead without loss."""
        self.replicas: Sequence[int] = state.replicas
        self.adding: Sequence[int] = state.adding_replicas
        self.removing: Sequence[int] = state.removing_replicas
        self.recovery_state = state.leader_recovery_state

    def record(self) -> PartitionChangeRecord | None:
        before = self._before
        self._maybe_complete_reassignment()
        isr = tuple(self.isr) or before.isr
        leader, elected_isr = self._elect(isr)
        if elected_isr is not None:
            isr, self.recovery_state = elected_isr, RECOVERING
        record = PartitionChangeRecord(partition_id=self._index, topic_id=self._topic_id)
        unchanged = PartitionChangeRecord(partition_id=self._index, topic_id=self._topic_id)
        if isr != before.isr:
            record.isr = list(isr)
        if tuple(self.replicas) != before.replicas:
            record.replicas = list(self.replicas)
        if tuple(self.adding) != before.adding_replicas:
            record.adding_replicas = list(self.adding)
        if tuple(self.removing) != before.removing_replicas:
            record.removing_replicas = list(self.removing)
        if self.recovery_state != before.leader_recovery_state:
            record.leader_recovery_state = self.recovery_state
        # A replica that leaves must not be able to fetch, or to lead, in the epoch it still knows.
        if leader != before.leader or not set(before.replicas) <= set(self.replicas):
            record.leader = leader
        if record == unchanged:
            return None
        directories = self._directories(isr if elected_isr is None else (), leader)
        if directories != list(before.directories):
            record.directories = directories
        return record

    def _directories(self, stays_in_sync: Sequence[int], leader: int) -> list[bytes]:
        """Where each replica is: those that stay in sync, where they were; all others where their node is now."""
        before = dict(zip(self._before.replicas, self._before.directories, strict=False))
        kept = {node_id for node_id in stays_in_sync if node_id in self._before.isr and node_id != leader}
        return [
            before.get(node_id, ZERO_TOPIC_ID) if node_id in kept else directory_of(self._image, node_id)
            for node_id in self.replicas
        ]

    def _can_lead(self, node_id: int) -> bool:
        return self._is_able(node_id) and (len(self.replicas) == 1 or self._has_its_disk(node_id))

    def _has_its_disk(self, node_id: int) -> bool:
        """Whether the node came with the disk this replica was put on; yes where that is not known."""
        before = dict(zip(self._before.replicas, self._before.directories, strict=False))
        known = before.get(node_id, ZERO_TOPIC_ID)
        return known == ZERO_TOPIC_ID or directory_of(self._image, node_id) in (known, ZERO_TOPIC_ID)

    def _elect(self, isr: tuple[int, ...]) -> tuple[int, tuple[int, ...] | None]:
        """The leader, and the in-sync set it starts with where it was not in sync itself."""
        candidates = [node_id for node_id in self.replicas if node_id in isr and self._can_lead(node_id)]
        if self._prefer_first and self.replicas[0] in candidates:
            return self.replicas[0], None
        if self._before.leader in candidates:
            return self._before.leader, None
        if candidates:
            return candidates[0], None
        if self._unclean:
            able = [node_id for node_id in self.replicas if self._is_able(node_id)]
            # Something is better than the nothing of a new disk.
            for node_id in sorted(able, key=lambda node_id: not self._has_its_disk(node_id)):
                return node_id, (node_id,)
        return NO_LEADER, None

    def _maybe_complete_reassignment(self) -> None:
        """Once every new replica is in sync, the old ones go."""
        if not self.adding and not self.removing:
            return
        isr = [node_id for node_id in self.isr if node_id not in self.removing]
        if not isr or not set(self.adding) <= set(isr):
            return
        if not any(self._can_lead(node_id) for node_id in isr):
            return
        self.isr = isr
        self.replicas = [node_id for node_id in self.replicas if node_id not in self.removing]
        self.adding = self.removing = ()


def directory_of(image: MetadataImage, node_id: int) -> bytes:
    broker = image.brokers.get(node_id)
    return broker.directories[0] if broker is not None and broker.directories else ZERO_TOPIC_ID
