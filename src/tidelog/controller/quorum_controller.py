"""The controller of a node: follows the metadata quorum, and decides while this node leads it.

Every node has one. It replays what the quorum commits into images and publishes them in order. `submit` calls a decide
function with the newest image, proposes what it decides as one batch, and returns the reply when a majority has it on
disk and this node's subscribers have seen it: an acknowledged change survives the loss of a minority, and is in the
image when the caller gets the reply. On a node that does not lead, `submit` raises NOT_CONTROLLER with nothing changed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from tidelog.config.broker import BrokerConfig
from tidelog.controller.core.decision import Decision
from tidelog.controller.core.features import require_allowed
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.publisher import MetadataPublisher
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.runtime.tasks import BackgroundTasks
from tidelog.telemetry.logs import get_logger

if TYPE_CHECKING:
    from tidelog.protocol.message import Message
    from tidelog.raft.quorum import Quorum

R = TypeVar("R")

logger = get_logger("tidelog.controller")


class QuorumController:
    """The quorum's state machine. `attach` and `start` before anything else; all methods belong to the event loop."""

    def __init__(self, config: BrokerConfig, *, cluster_id: str) -> None:
        """`config` as the node was started with it."""
        self.config = config
        self.metadata = MetadataPublisher(MetadataImage(cluster_id=cluster_id))
        self._quorum: Quorum | None = None
        self.turn = asyncio.Lock()
        self._tasks = BackgroundTasks()
        self._applied = self.metadata.image
        """The newest image; `metadata.image` follows when it is prepared."""
        self._unpublished: deque[tuple[MetadataImage, MetadataDelta]] = deque()
        self._publishing = BackgroundTasks()
        self._is_publishing = False
        self._is_held = True
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._decided: tuple[Message, MetadataDelta] | None = None
        """The first record of the decision under way and the image it leads to, so that it is replayed once."""
        self._leader_id = -1
        self._last_leader_id = -1
        """The last leader that is known to have been active."""
        self._is_active = False
        self._leader_changes = asyncio.Condition()
        self._on_active: list[Callable[[bool, int], None]] = []

    @property
    def image(self) -> MetadataImage:
        return self.metadata.image

    @property
    def newest_image(self) -> MetadataImage:
        """With everything committed; the subscribers of this node may not have seen all of it yet."""
        return self._applied

    @property
    def is_active(self) -> bool:
        """Whether this node is the active controller."""
        return self._is_active

    @property
    def leader_id(self) -> int:
        return self._leader_id

    @property
    def quorum(self) -> Quorum:
        assert self._quorum is not None, "attach comes first"
        return self._quorum

    # -- life --------------------------------------------------------------------------------------------------------

    def attach(self, quorum: Quorum) -> None:
        self._quorum = quorum

    def when_active_changes(self, callback: Callable[[bool, int], None]) -> None:
        """Called with whether this node is the active controller now, and with the id of the previous leader."""
        self._on_active.append(callback)

    async def start(self) -> MetadataImage:
        """Joins the quorum; DirectoryRefused when its log cannot be read. Nothing is published before `publish`."""
        await self.quorum.start()
        return self._applied

    def publish(self) -> None:
        """Starts to publish to subscribers: every image after the one they have."""
        self._is_held = False
        self._continue_publishing()

    def take_newest(self) -> MetadataImage:
        """The image to begin with, before `publish`; earlier images are not published."""
        assert self._is_held, "subscribers follow already"
        self._unpublished.clear()
        self.metadata.image = self._applied
        self._wake_waiting()
        return self._applied

    async def stop(self) -> None:
        """Completes the decision under way, hands over leadership, and closes the log."""
        async with self.turn:
            if self._quorum is not None:
                await self._quorum.stop()
        await self._publishing.finished()
        for _, waiter in self._waiting:
            waiter.cancel()

    # -- deciding ----------------------------------------------------------------------------------------------------

    async def submit(self, decide: Callable[[MetadataImage], Decision[R]]) -> R:
        """Runs one decision to its end even if the caller goes away; raises BrokerError as a client is to see it."""
        return await asyncio.shield(self._tasks.start(self._run(decide), "decision", is_awaited=True))

    async def _run(self, decide: Callable[[MetadataImage], Decision[R]]) -> R:
        async with self.turn:
            if not self._is_active:
                raise BrokerError(ErrorCode.NOT_CONTROLLER)
            decision = decide(self._applied)
            if decision.records:
                require_allowed(self._applied, decision.records)
                # Replay first: a decision that cannot be replayed must not reach the log.
                self._decided = (decision.records[0], MetadataDelta(self._applied, decision.records))
                try:
                    end_offset = await self.quorum.propose(decision.records)
                finally:
                    self._decided = None
                await self.published(end_offset)
            return decision.reply

    # -- what the quorum calls ---------------------------------------------------------------------------------------

    def apply(self, records: Sequence[Message], end_offset: int, term: int) -> None:
        if self._decided is not None and records and records[0] is self._decided[0]:
            delta = self._decided[1]
        else:
            delta = MetadataDelta(self._applied, records)
        self._follow(delta.apply(end_offset - 1, term), delta)

    def load_snapshot(self, records: Iterable[Message], end_offset: int, term: int) -> None:
        empty = MetadataImage(cluster_id=self._applied.cluster_id, controller_id=self._leader_id)
        image = MetadataDelta(empty, records).apply(end_offset - 1, term)
        self._follow(image, MetadataDelta.between(self._applied, image))

    def begin_snapshot(self) -> Callable[[], Iterable[Message]]:
        return self._applied.records

    def leader_changed(self, leader_id: int, term: int, *, is_active: bool) -> None:
        if leader_id not in (self._leader_id, -1) and len(list(self.quorum.members)) > 1:
            logger.info("controller", node=leader_id, term=term)
        self._leader_id = leader_id
        was_active, self._is_active = self._is_active, is_active
        self._applied = self._applied.with_controller(leader_id)
        self.metadata.image = self.metadata.image.with_controller(leader_id)
        if is_active != was_active:
            for callback in self._on_active:
                callback(is_active, self._last_leader_id)
        if is_active or leader_id not in (-1, self.config.node_id):
            self._last_leader_id = leader_id
        self._tasks.start(self._announce_leader(), "announcement of the controller")

    async def _announce_leader(self) -> None:
        async with self._leader_changes:
            self._leader_changes.notify_all()

    async def wait_for_leader(self, timeout_s: float) -> int:
        """The id of the leader, as soon as one is known; -1 on time-out."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s), self._leader_changes:
                while self._leader_id < 0:
                    await self._leader_changes.wait()
        return self._leader_id

    async def wait_for_other_leader(self, timeout_s: float, *, than: int | None = None) -> None:
        """Returns when another node leads than at the call (or than the one given), or on time-out."""
        before = self._leader_id if than is None else than
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s), self._leader_changes:
                while self._leader_id in (before, -1):
                    await self._leader_changes.wait()

    # -- publishing --------------------------------------------------------------------------------------------------

    def _follow(self, image: MetadataImage, delta: MetadataDelta) -> None:
        self._applied = image
        self._unpublished.append((image, delta))
        self._continue_publishing()

    def _continue_publishing(self) -> None:
        if not self._is_publishing and self._unpublished and not self._is_held:
            self._is_publishing = True
            self._publishing.start(self._publish_all(), "publication of metadata")

    async def _publish_all(self) -> None:
        try:
            while self._unpublished:
                image, delta = self._unpublished.popleft()
                try:
                    await self.metadata.prepare(image, delta)
                except Exception:
                    # Preparation is optional: subscribers repeat the work on publication and report faults.
                    logger.exception("metadata could not be prepared", offset=image.offset)
                if image.controller_id != self._leader_id:
                    image = image.with_controller(self._leader_id)
                self.metadata.publish(image, delta)
                self._wake_waiting()
        finally:
            self._is_publishing = False

    async def published(self, end_offset: int) -> None:
        """Returns when subscribers have seen everything below `end_offset`."""
        if self._is_held or self.image.next_offset >= end_offset:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((end_offset, waiter))
        await waiter

    def _wake_waiting(self) -> None:
        reached = self.image.next_offset
        for end_offset, waiter in self._waiting:
            if end_offset <= reached and not waiter.done():
                waiter.set_result(None)
        self._waiting = [(end_offset, waiter) for end_offset, waiter in self._waiting if not waiter.done()]


def new_topic_id(random_bytes: Callable[[int], bytes]) -> bytes:
    """Random; never one of the ids Kafka keeps for itself, and never with a dash in front when it is printed."""
    while True:
        topic_id = bytearray(random_bytes(16))
        topic_id[6] = topic_id[6] & 0x0F | 0x40
        topic_id[8] = topic_id[8] & 0x3F | 0x80
        if topic_id[0] >> 2 != 62:
            return bytes(topic_id)
