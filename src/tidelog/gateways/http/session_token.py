"""`X-Tidelog-Session`: a client that sends its last token reads its own writes and never goes back in time.

A handler opens the session of its request, catches up before it reads, notes what was written or read, and answers
with the session's headers:

    session = await open_session(access, request)
    await session.catch_up(topic, index, wait_ms=...)
    session.read(topic, index, reader)      # a RecordReader; or: session.wrote(topic, index, end_offset)
    return Response(..., headers=session.headers())
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from tidelog.gateways.access import READ_COMMITTED, READ_UNCOMMITTED
from tidelog.gateways.http.messages import HttpError
from tidelog.gateways.http.routes import Parameter
from tidelog.gateways.http.seen import NO_EPOCH, BadToken, Seen, SeenPartitions, read_tokens
from tidelog.gateways.replica import Replica
from tidelog.metadata.features import TIDELOG_VERSION
from tidelog.metadata.session_keys import LEVEL, SessionKeysImage
from tidelog.model import limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.gateways.access import LogAccess
    from tidelog.gateways.http.messages import Request
    from tidelog.gateways.reading import RecordReader
    from tidelog.metadata.image import MetadataImage

HEADER: Final = "X-Tidelog-Session"
_HEADER_KEY: Final = HEADER.lower()

SESSION: Final = Parameter(
    HEADER,
    "header",
    {"type": "string"},
    "The last token that the client was given: it reads its own writes and never goes back in time. Of requests that "
    f"ran side by side the last token of each, up to {limits.HTTP_SESSION_TOKENS_MAX}, with commas between.",
)
SESSION_HEADERS: Final = ((HEADER, "What the client has seen. It is sent with the next request, to any node."),)

METADATA_SECONDS_MAX: Final = 2.0
"""How long a node takes to hear of metadata that another node had."""
KEY_SECONDS_MAX: Final = 1.0
"""How long the key takes to come when the first node with an HTTP door has just started."""
_PAUSE_SECONDS: Final = 0.01


async def open_session(access: LogAccess, request: Request) -> Session:
    """Raises HttpError for a token that no key of this cluster has signed, and where this node's metadata is older than
    what the session has seen."""
    tokens = request.headers.get(_HEADER_KEY)
    image = access.image
    if not image.part(SessionKeysImage).by_id and image.features.get(TIDELOG_VERSION, 0) >= LEVEL:
        await _until(lambda: bool(access.image.part(SessionKeysImage).by_id), KEY_SECONDS_MAX)
        image = access.image
    if tokens is None:
        return Session(access, SeenPartitions(), image)
    try:
        seen = read_tokens(tokens, image.part(SessionKeysImage).by_id)
    except BadToken as bad:
        raise HttpError(
            400, f"The {HEADER} of this request cannot be used: {bad}. Begin a new session: leave the header out."
        ) from None
    if access.metadata_end_offset <= seen.metadata_offset:
        if not await _until(lambda: access.metadata_end_offset > seen.metadata_offset, METADATA_SECONDS_MAX):
            raise HttpError(
                503,
                "This node has not heard yet of all metadata that the session has seen: ask again, or another node.",
                headers={"Retry-After": "1"},
            )
        image = access.image
    return Session(access, seen, image)


async def _until(is_so: Callable[[], bool], seconds_max: float) -> bool:
    now_s = asyncio.get_running_loop().time
    deadline_s = now_s() + seconds_max
    while not is_so():
        if now_s() >= deadline_s:
            return False
        await asyncio.sleep(_PAUSE_SECONDS)
    return True


class Session:
    """Of one request."""

    __slots__ = ("_access", "_begun_with", "_seen")

    def __init__(self, access: LogAccess, seen: SeenPartitions, image: MetadataImage) -> None:
        self._access = access
        self._seen = seen
        self._begun_with = image
        """The metadata when the request began."""

    async def catch_up(
        self, topic: str, index: int, *, wait_ms: int = 0, isolation: int = READ_UNCOMMITTED, at: int | None = None
    ) -> None:
        """Returns when this node, or node `at`, has all that the session has seen of the partition.

        Raises LeaderElsewhere where this node has no replica or one that is still behind after `wait_ms`; HttpError
        where the leader is behind, or where it has lost what was seen.
        """
        topic_id = self._topic_id(topic)
        if topic_id is None:
            return
        seen = self._seen.find(topic_id, index)
        replica = Replica(self._access, topic, index, at)
        if seen is None:
            if self._seen.is_full:
                # What was seen of it is not known any more: the leader has it, whatever it was.
                await replica.knows_all_committed(wait_ms)
            return
        stable_offset = seen.stable_offset if isolation == READ_COMMITTED else 0
        lost_from = await replica.reaches(seen.offset, seen.epoch, stable_offset, wait_ms)
        if lost_from is not None:
            self._seen.forget(topic_id, index)
            raise HttpError(
                410,
                f"Records of {topic}-{index} that this session has seen are lost: a replica that was not in sync "
                f"became leader, and the log went on from offset {lost_from}. Look at what is there now: the token of "
                "this answer takes it as it is.",
                kafka_error="OFFSET_OUT_OF_RANGE",
                headers=self.headers(),
            )

    def wrote(self, topic: str, index: int, end_offset: int) -> None:
        """Records before `end_offset` were written by this request, with acks=all; others are not part of a session."""
        image = self._access.image
        found = image.topics.get(topic)
        if found is None:
            return
        partition = found.partitions.get(index)
        epoch = NO_EPOCH if partition is None else partition.leader_epoch
        if image is not self._begun_with:
            known = self._begun_with.topics.get(topic)
            before = None if known is None else known.partitions.get(index)
            if before is not None and before.leader_epoch != epoch:
                # The leader changed meanwhile, and either may have written them.
                epoch = NO_EPOCH
        self._seen.note(found.topic_id, index, Seen(end_offset, epoch))

    def read(self, topic: str, index: int, reader: RecordReader, isolation: int = READ_UNCOMMITTED) -> None:
        """All that the reader had was taken. Nothing is noted where there was nothing."""
        topic_id = self._topic_id(topic)
        if topic_id is None or reader.leader_epoch == NO_EPOCH:
            return
        stable_offset = reader.next_offset if isolation == READ_COMMITTED else 0
        self._seen.note(topic_id, index, Seen(reader.next_offset, reader.leader_epoch, stable_offset))

    def headers(self) -> dict[str, str]:
        """None in a cluster whose nodes cannot have a key yet; the log says so when a node starts."""
        image = self._access.image
        newest = image.part(SessionKeysImage).newest
        if newest is None:
            return {}
        self._seen.note_metadata(image.offset)
        return {HEADER: self._seen.sign(*newest)}

    def _topic_id(self, topic: str) -> bytes | None:
        found = self._access.image.topics.get(topic)
        return None if found is None else found.topic_id
