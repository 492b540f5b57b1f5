"""What this member takes from others: envelopes checked, messages handed to the machine as events.

Traffic of another cluster, or for another node, is refused here; whether the sender is a member is for the machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from tidelog.protocol.errors import MalformedMessage
from tidelog.raft.codec import Envelope, decode_message, encode_message
from tidelog.raft.core.events import Event, Receive
from tidelog.raft.core.members import ANY_DIRECTORY, Member
from tidelog.raft.core.messages import (
    AppendRequest,
    RefusalResponse,
    SnapshotRequest,
    TimeoutNowRequest,
    VoteRequest,
)
from tidelog.raft.core.settings import NOBODY
from tidelog.raft.settings import QuorumSettings
from tidelog.telemetry.logs import get_logger

PENDING_REPLIES_MAX = 1024
REFUSALS_REMEMBERED_MAX = 1000

logger = get_logger("tidelog.raft")


class Peering:
    def __init__(self, settings: QuorumSettings, step: Callable[[Event], None]) -> None:
        self._settings = settings
        self._step = step
        self._pending_replies = 0
        self._refusals: dict[int, str] = {}

    def envelope_to(self, member: Member) -> Envelope:
        settings = self._settings
        return Envelope(
            settings.cluster_id, settings.node_id, settings.directory_id, member.node_id, member.directory_id
        )

    def sender_of(self, body: bytes) -> int:
        try:
            return decode_message(body)[0].source_id
        except MalformedMessage:
            return NOBODY

    async def receive(self, body: bytes) -> bytes:
        envelope, message = decode_message(body)
        if not isinstance(message, VoteRequest | AppendRequest | SnapshotRequest | TimeoutNowRequest):
            raise MalformedMessage("a response of the quorum where a request was due")
        source = Member(envelope.source_id, envelope.source_directory)
        reason = self._reason_to_refuse(envelope)
        if reason:
            self.note_refusal(source.node_id, reason)
            refusal = RefusalResponse(term=0, request_id=message.request_id, reason=reason)
            return encode_message(self.envelope_to(source), refusal)
        if self._pending_replies >= PENDING_REPLIES_MAX:
            raise ConnectionError("too many requests of the quorum wait for an answer")
        reply = asyncio.get_running_loop().create_future()
        self._pending_replies += 1
        try:
            self._step(
                Receive(
                    source_id=source.node_id,
                    source_directory=source.directory_id,
                    destination_directory=envelope.destination_directory,
                    message=message,
                    reply_to=reply,
                )
            )
            return encode_message(self.envelope_to(source), await reply)
        finally:
            self._pending_replies -= 1

    def _reason_to_refuse(self, envelope: Envelope) -> str:
        settings = self._settings
        if envelope.cluster_id != settings.cluster_id:
            return f"it belongs to cluster {envelope.cluster_id}, not to {settings.cluster_id}"
        if envelope.destination_id != settings.node_id:
            return f"it wants node {envelope.destination_id}, and this is node {settings.node_id}"
        return ""

    def answered(self, node_id: int, body: bytes) -> None:
        """A request of this node got its response."""
        try:
            envelope, message = decode_message(body)
        except MalformedMessage as error:
            self.note_refusal(node_id, f"its answer cannot be read: {error.message}")
            return
        if envelope.cluster_id != self._settings.cluster_id and isinstance(message, RefusalResponse):
            self.note_refusal(node_id, f"it refuses this node: {message.reason}")
        elif envelope.source_id != node_id or envelope.cluster_id != self._settings.cluster_id:
            answerer = f"node {envelope.source_id} of cluster {envelope.cluster_id}"
            self.note_refusal(node_id, f"{answerer} answers at its address")
        else:
            self._step(
                Receive(
                    source_id=node_id,
                    source_directory=envelope.source_directory,
                    destination_directory=ANY_DIRECTORY,
                    message=message,
                )
            )

    def note_refusal(self, node_id: int, reason: str) -> None:
        """One line per peer and reason, however often it comes."""
        if self._refusals.get(node_id) != reason and len(self._refusals) < REFUSALS_REMEMBERED_MAX:
            self._refusals[node_id] = reason
            # Number and reason come from the peer, which may say something new each time.
            logger.warning_limited("quorum traffic refused", peer=node_id, reason=reason)

    def note_founders_missing(self, node_ids: Sequence[int]) -> None:
        logger.warning_limited(
            "a new cluster is founded when all of its first voters are there with empty disks",
            limit_by=("missing",),
            missing=list(node_ids),
        )
