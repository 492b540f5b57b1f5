"""What a follower knows: its leader, what is committed, and how far back it must go when logs part. Pure.

A follower keeps nothing its leader does not have. Each fetch names the epoch of the follower's last batch; a leader
that finds that epoch ending earlier in its own log answers with the end of it instead of records, and the follower
cuts its log there. That repeats, an epoch further back each time, until both logs agree: no record below the point of
agreement is touched, so nothing committed is ever cut.
"""

from __future__ import annotations

from tidelog.partitions.core.replica import ReplicaState

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class FollowerState(ReplicaState):
    __slots__ = ("is_in_sync",)

    def __init__(
        self,
        *,
        leader_id: int,
        leader_epoch: int,
        partition_epoch: int,
        high_watermark: int,
        is_in_sync: bool = False,
    ) -> None:
        super().__init__(
            leader_id=leader_id,
            leader_epoch=leader_epoch,
            partition_epoch=partition_epoch,
            high_watermark=high_watermark,
        )
        self.is_in_sync = is_in_sync
        """Whether the controller counts this replica as in sync."""

    def leader_answered(self, leader_high_watermark: int, log_end_offset: int) -> bool:
        """The leader has answered with its high watermark; returns whether that moved this one. Only what is here can
        be committed here. The watermark of a new leader may lag behind: what was committed once stays committed."""
        committed = min(leader_high_watermark, log_end_offset)
        if committed <= self.high_watermark:
            return False
        self.high_watermark = committed
        return True

    def truncated(self, log_end_offset: int) -> None:
        self.high_watermark = min(self.high_watermark, log_end_offset)


def truncation_offset(
    *,
    leader_epoch: int,
    leader_end_offset: int,
    own_epoch: int,
    own_end_offset: int,
    log_end_offset: int,
) -> int:
    """Where to cut after the leader said that its log parts from this one.

    `leader_epoch` is the largest epoch of the leader that is not above the one asked for, `leader_end_offset` its end;
    `own_epoch` and `own_end_offset` are what this log has for that same epoch (undefined: -1). An epoch the leader has
    never seen is cut as a whole; the next fetch asks about the one before it.
    """
    if leader_end_offset == UNDEFINED_OFFSET:
        return log_end_offset
    if leader_epoch == UNDEFINED_EPOCH or own_epoch == UNDEFINED_EPOCH:
        return min(leader_end_offset, log_end_offset)
    if own_epoch == leader_epoch:
        return min(leader_end_offset, own_end_offset, log_end_offset)
    return min(own_end_offset, log_end_offset)
