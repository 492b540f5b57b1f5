"""What every replica of a partition knows, whichever part it plays: the leader epoch it is in and what is committed."""

from __future__ import annotations


class ReplicaState:
    """The base of `LeaderState` and `FollowerState`: a partition has one or the other."""

    __slots__ = ("high_watermark", "leader_epoch", "leader_id", "partition_epoch")

    def __init__(self, *, leader_id: int, leader_epoch: int, partition_epoch: int, high_watermark: int) -> None:
        self.leader_id = leader_id
        """Node id of the leader; -1 while there is none."""
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        """Of the last change of the partition this replica has heard of; an older one is not news."""
        self.high_watermark = high_watermark
        """Everything below is committed. Never moves back, except with a log that is cut below it."""
