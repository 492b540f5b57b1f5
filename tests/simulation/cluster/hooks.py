"""Shows checkers what the quorums of the nodes do: the real shell is watched, not replaced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import TYPE_CHECKING
from unittest.mock import patch

from tests.simulation.cluster.process import current_process
from tests.simulation.observations import Applied, BecameLeader, CommitAdvanced, Wrote

from tidelog.controller.quorum_controller import QuorumController
from tidelog.metadata.framing import encode_metadata_record
from tidelog.metadata.image import MetadataImage
from tidelog.raft.core.effects import Committed, Effect, Persist, Role, RoleChanged
from tidelog.raft.core.messages import Entry, EntryKind, LogEnd
from tidelog.raft.quorum import Quorum

if TYPE_CHECKING:
    from tidelog.protocol.message import Message


@contextmanager
def quorums_watched() -> Iterator[None]:
    perform, apply, load_snapshot = Quorum._perform, QuorumController.apply, QuorumController.load_snapshot

    def watched_perform(self: Quorum, effect: Effect) -> None:
        perform(self, effect)
        _show_effect(self, effect)

    def watched_apply(self: QuorumController, records: Sequence[Message], end_offset: int, term: int) -> None:
        apply(self, records, end_offset, term)
        _show_image(self.newest_image, end_offset)

    def watched_load(self: QuorumController, records: Iterable[Message], end_offset: int, term: int) -> None:
        load_snapshot(self, records, end_offset, term)
        _show_image(self.newest_image, end_offset)

    with (
        patch.object(Quorum, "_perform", watched_perform),
        patch.object(QuorumController, "apply", watched_apply),
        patch.object(QuorumController, "load_snapshot", watched_load),
    ):
        yield


def _show_effect(quorum: Quorum, effect: Effect) -> None:
    process = current_process()
    machine, store = quorum._machine, quorum._store
    assert machine is not None, "it is started"
    match effect:
        case Persist():
            for entry in effect.entries:
                before = LogEnd(machine.log.term_before(entry.base_offset), entry.base_offset)
                written = store.read_bytes(entry.base_offset, entry.end_offset)
                same = Entry(entry.base_offset, entry.end_offset, entry.term, EntryKind.RECORDS, written)
                process.world.observe(Wrote(process.host, before, same))
        case RoleChanged(role, term, _):
            if role is Role.LEADER:
                process.world.observe(BecameLeader(process.host, term, machine.log))
        case Committed(offset):
            last = LogEnd(machine.log.term_before(offset), offset)
            process.world.observe(CommitAdvanced(process.host, machine.term, last))


def _show_image(image: MetadataImage, end_offset: int) -> None:
    """A digest of the state itself, however a node came to it."""
    process = current_process()
    digest = blake2b(digest_size=8)
    for record in sorted(encode_metadata_record(record) for record in image.records()):
        digest.update(record)
    process.world.observe(Applied(process.host, end_offset, int.from_bytes(digest.digest(), "big")))
