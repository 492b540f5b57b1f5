"""What the quorum refuses, each with the error code a client is answered."""

from __future__ import annotations

from tidelog.model.errors import BrokerError, ErrorCode


class NotLeader(BrokerError):
    """This node does not lead the quorum: nothing was written. `leader_id` does, as far as known (-1: none)."""

    def __init__(self, leader_id: int, message: str = "") -> None:
        where = f"node {leader_id} is" if leader_id >= 0 else "none is known"
        super().__init__(ErrorCode.NOT_CONTROLLER, message or f"This node is not the active controller; {where}.")
        self.leader_id = leader_id


class LeadershipLost(NotLeader):
    """The leadership ended before the records were committed: whether they will be is not known here."""

    def __init__(self, leader_id: int) -> None:
        super().__init__(leader_id, "Leadership ended before the change was committed; it may still come to be.")


class QuorumBusy(BrokerError):
    """More is waiting to be committed than the quorum takes; nothing was written. Try again."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.REQUEST_TIMED_OUT, message)


class MembershipRefused(BrokerError):
    """A change of the members that cannot be made (now)."""
