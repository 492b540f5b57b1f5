"""The members of the quorum: voters, which elect and commit, and learners, which only follow.

A member is its node id together with the id of its data directory: a node that comes with the same id and another disk
has forgotten how it voted, so it is another member. A directory id of zeros stands for any (the first voters, when they
are named in the configuration of nodes that have no disk yet).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidelog.model.value import Value

ANY_DIRECTORY = bytes(16)


class Member(Value):
    """A node of the quorum and where its listener is."""

    node_id: int
    directory_id: bytes = ANY_DIRECTORY
    """Exactly 16 bytes."""
    host: str = ""
    port: int = 0

    def is_same_node(self, node_id: int, directory_id: bytes) -> bool:
        return self.node_id == node_id and (
            self.directory_id == directory_id or ANY_DIRECTORY in (self.directory_id, directory_id)
        )

    def is_heard_from(self, directory_id: bytes) -> bool:
        """Whether a message from this directory is the member's own: a member whose directory is known must name it."""
        return self.directory_id in (directory_id, ANY_DIRECTORY)


class MemberSet(Value):
    """One configuration of the quorum. A node id occurs once, as a voter or as a learner."""

    voters: tuple[Member, ...] = ()
    learners: tuple[Member, ...] = ()

    def __iter__(self) -> Iterator[Member]:
        yield from self.voters
        yield from self.learners

    def __bool__(self) -> bool:
        return bool(self.voters)

    def find(self, node_id: int) -> Member | None:
        return next((member for member in self if member.node_id == node_id), None)

    def is_voter(self, node_id: int) -> bool:
        return any(member.node_id == node_id for member in self.voters)

    def is_learner(self, node_id: int) -> bool:
        return any(member.node_id == node_id for member in self.learners)

    @property
    def voter_ids(self) -> tuple[int, ...]:
        return tuple(member.node_id for member in self.voters)

    @property
    def majority(self) -> int:
        """How many voters decide."""
        return len(self.voters) // 2 + 1

    def is_majority(self, node_ids: Iterable[int]) -> bool:
        present = set(node_ids)
        return sum(member.node_id in present for member in self.voters) >= self.majority

    def with_voter(self, member: Member) -> MemberSet:
        """The set with this voter; a learner of the id is promoted, a voter of the id replaced."""
        return MemberSet(_put(self.voters, member), _drop(self.learners, member.node_id))

    def with_learner(self, member: Member) -> MemberSet:
        return MemberSet(_drop(self.voters, member.node_id), _put(self.learners, member))

    def without(self, node_id: int) -> MemberSet:
        return MemberSet(_drop(self.voters, node_id), _drop(self.learners, node_id))


NO_MEMBERS = MemberSet()
"""Of a node that has not been taken in anywhere yet."""


def _put(members: tuple[Member, ...], member: Member) -> tuple[Member, ...]:
    return tuple(sorted((*_drop(members, member.node_id), member), key=lambda each: each.node_id))


def _drop(members: tuple[Member, ...], node_id: int) -> tuple[Member, ...]:
    return tuple(member for member in members if member.node_id != node_id)
