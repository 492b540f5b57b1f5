"""What the active controller does by itself: watches the brokers, moves partitions away from lost ones and back,
balances leaders, and fills the quorum up with voters. Idle on every other node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from tidelog.config.broker import BrokerConfig
from tidelog.controller.core.brokers import (
    HeartbeatReply,
    Registration,
    decide_fence_broker,
    decide_heartbeat,
    decide_lead_again,
    decide_leave_partitions,
    decide_register_broker,
    require_broker,
)
from tidelog.controller.core.decision import Decision
from tidelog.controller.core.elections import decide_balance_leaders
from tidelog.controller.core.reassignments import decide_complete_reassignments
from tidelog.controller.core.sessions import BrokerSessions
from tidelog.controller.core.voters import next_voter
from tidelog.controller.quorum_controller import QuorumController
from tidelog.metadata.image import MetadataImage
from tidelog.model.errors import BrokerError
from tidelog.raft.core.members import Member
from tidelog.runtime.tasks import BackgroundTasks
from tidelog.telemetry.logs import get_logger

logger = get_logger("tidelog.controller")

LOST_CONNECTION_GRACE_MS = 250
"""Added to one heartbeat interval: how long a node whose connection broke has to send a heartbeat."""

GONE_GRACE_MS = 100
"""How long a node has to send a heartbeat when nothing listens at its address: most likely its process ended."""

FORMER_CONTROLLER_GRACE_MS = 400
"""How long the previous controller has to send a heartbeat: it was silent for an election already."""

WATCH_INTERVAL_S = 1.0
"""How often the controller checks its duties when nothing wakes it."""

RETRY_S = 0.1

VOTER_SECONDS_MAX = 10.0

IsGone = Callable[[int], Awaitable[bool]]
"""Whether nothing listens at the node's address any more; False while that is uncertain."""


async def _never_gone(node_id: int) -> bool:
    return False


class BrokerDuties:
    def __init__(
        self, controller: QuorumController, *, monotonic_s: Callable[[], float], is_gone: IsGone = _never_gone
    ) -> None:
        config = controller.config
        self._controller = controller
        self._config = config
        self._monotonic_s = monotonic_s
        self._is_gone = is_gone
        self.looking: set[int] = set()
        """Nodes that are being probed."""
        self.sessions = BrokerSessions(config.broker_session_timeout_ms)
        self.statistics: dict[int, dict[str, Any]] = {}
        """The last statistics of every registered node."""
        self._tasks = BackgroundTasks()
        self._promoting: asyncio.Task[None] | None = None
        self.wake = asyncio.Event()
        self._is_unsettled = False
        self._next_balance_s = 0.0
        controller.when_active_changes(self._active_changed)

    def _now_ms(self) -> float:
        return self._monotonic_s() * 1000

    def _active_changed(self, is_active: bool, leader_before: int) -> None:
        if not is_active:
            self.stop()
            return
        now_ms = self._now_ms()
        image = self._controller.newest_image
        own_id = self._config.node_id
        watched = [broker.node_id for broker in image.live_brokers() if broker.node_id != own_id]
        self.sessions.begin(watched, now_ms)
        # The previous controller was silent for an election already: its session is shorter than the others'.
        self.sessions.suspect(leader_before, now_ms, FORMER_CONTROLLER_GRACE_MS)
        # No controller saw the connections break of nodes that died during the election: check all of them.
        for node_id in watched:
            self._look_for(node_id)
        self._is_unsettled = True
        self._next_balance_s = self._monotonic_s() + self._config.leader_imbalance_check_interval_seconds
        self._tasks.start(self._watch(), "controller's watch")

    def stop(self) -> None:
        self._tasks.cancel()
        self._promoting = None
        self.looking.clear()
        self.sessions.begin((), 0)

    # -- registration and heartbeats ----------------------------------------------------------------------------------

    async def register(self, registration: Registration, *, fenced: bool = True, is_own: bool = False) -> int:
        """The broker epoch. `is_own`: this node registers itself; without that, another node uses this node's id."""
        node_id = registration.node_id
        now_ms = self._now_ms()
        is_alive = not is_own and (node_id == self._config.node_id or self.sessions.is_alive(node_id, now_ms))
        epoch = await self._controller.submit(
            lambda image: decide_register_broker(image, self._config, registration, fenced=fenced, has_session=is_alive)
        )
        if not is_own:
            self.sessions.heard_from(node_id, now_ms)
        self._unsettle()
        return epoch

    async def heartbeat(
        self, node_id: int, epoch: int, *, metadata_offset: int, want_fence: bool, want_shut_down: bool
    ) -> HeartbeatReply:
        controller = self._controller
        broker = controller.newest_image.brokers.get(node_id)
        if controller.is_active and broker is not None and broker.epoch == epoch:
            if node_id != self._config.node_id:
                self.sessions.heard_from(node_id, self._now_ms())
            if not broker.fenced and not want_fence and not want_shut_down:
                return HeartbeatReply(metadata_offset >= epoch, False, False)

        def decide(image: MetadataImage) -> Any:
            return decide_heartbeat(
                image,
                self._config,
                node_id,
                epoch,
                metadata_offset=metadata_offset,
                want_fence=want_fence,
                want_shut_down=want_shut_down,
            )

        reply: HeartbeatReply = await controller.submit(decide)
        if reply.should_shut_down:
            self.sessions.forget(node_id)
        self._unsettle()
        return reply

    def connection_lost(self, node_id: int) -> None:
        """The connection of the node's heartbeats broke, which happens at once when a process dies."""
        if self._controller.is_active:
            self.sessions.suspect(node_id, self._now_ms(), self._grace_ms)
            self._look_for(node_id)
            self.wake.set()

    def _look_for(self, node_id: int) -> None:
        """A node whose process ended is fenced sooner than one that is only silent."""
        if node_id not in self.looking:
            self.looking.add(node_id)
            self._tasks.start(self._look(node_id), "probe of a lost node")

    async def _look(self, node_id: int) -> None:
        began_ms = self._now_ms()
        try:
            is_gone = await self._is_gone(node_id)
        finally:
            self.looking.discard(node_id)
        if is_gone:
            self.sessions.suspect(node_id, self._now_ms(), GONE_GRACE_MS, since_ms=began_ms)
            self.wake.set()

    @property
    def _grace_ms(self) -> int:
        return self._config.broker_heartbeat_interval_ms + LOST_CONNECTION_GRACE_MS

    def report(self, node_id: int, epoch: int, statistics: dict[str, Any]) -> dict[int, dict[str, Any]]:
        """Stores the statistics of a node and returns those of all nodes."""
        require_broker(self._controller.newest_image, node_id, epoch)
        self.statistics[node_id] = statistics
        known = self._controller.newest_image.brokers
        self.statistics = {other: reported for other, reported in self.statistics.items() if other in known}
        return self.statistics

    # -- watching ------------------------------------------------------------------------------------------------------

    def _unsettle(self) -> None:
        self._is_unsettled = True
        self.wake.set()

    async def _watch(self) -> None:
        while True:
            try:
                await self._fence_silent()
                if self._is_unsettled:
                    self._is_unsettled = False
                    await self._settle()
                await self._maybe_balance()
                self._maybe_add_voter()
            except BrokerError as error:
                # The leadership is lost or the quorum is slow. The next controller finds this work by itself.
                logger.info("controller's work is put off", reason=error.message)
                await self._put_off()
            except Exception:
                # A fault in one duty must not end the others: without them, partitions keep leaders that are gone.
                logger.exception("controller's work failed")
                await self._put_off()
            await self._sleep()

    async def _put_off(self) -> None:
        """Retries unfinished work after a pause."""
        self._is_unsettled = True
        await asyncio.sleep(RETRY_S)

    async def _sleep(self) -> None:
        wait_s = WATCH_INTERVAL_S
        deadline_ms = self.sessions.deadline_ms()
        if deadline_ms is not None:
            wait_s = min(wait_s, max(0.0, (deadline_ms - self._now_ms()) / 1000))
        try:
            async with asyncio.timeout(wait_s):
                await self.wake.wait()
        except TimeoutError:
            pass
        self.wake.clear()

    async def _fence_silent(self) -> None:
        for node_id in self.sessions.silent(self._now_ms()):
            broker = self._controller.newest_image.brokers.get(node_id)
            if broker is not None and not broker.fenced:
                await self._controller.submit(partial(self._decide_fence, node_id))
                self._is_unsettled = True
            if not self.sessions.is_alive(node_id, self._now_ms()):
                self.sessions.forget(node_id)

    def _decide_fence(self, node_id: int, image: MetadataImage) -> Decision[None]:
        """Checks the session again: a heartbeat may have come while this decision waited for its turn."""
        if self.sessions.is_alive(node_id, self._now_ms()):
            return Decision([], None)
        logger.warning("node is silent and gets no more work", node=node_id)
        return decide_fence_broker(image, self._config, node_id)

    async def _settle(self) -> None:
        """Completes what decisions about brokers left over because of their size; usually nothing."""
        for decide in (decide_leave_partitions, decide_lead_again):
            while await self._controller.submit(partial(_with_config, decide, self._config)):
                pass
        await self._controller.submit(decide_complete_reassignments)

    async def _maybe_balance(self) -> None:
        if not self._config.auto_leader_rebalance_enable or self._monotonic_s() < self._next_balance_s:
            return
        self._next_balance_s = self._monotonic_s() + self._config.leader_imbalance_check_interval_seconds
        moved = await self._controller.submit(decide_balance_leaders)
        if moved:
            logger.info("leaders balanced", partitions=moved)

    def _maybe_add_voter(self) -> None:
        """Runs beside the watch: a learner that does not catch up must not delay the fencing of lost nodes."""
        if self._promoting is not None and not self._promoting.done():
            return
        quorum = self._controller.quorum
        found = next_voter(quorum.status(), self._controller.newest_image, self._config.tidelog_quorum_voters_max)
        if found is not None:
            self._promoting = self._tasks.start(self._add_voter(found), "promotion of a voter")

    async def _add_voter(self, member: Member) -> None:
        try:
            await self._controller.quorum.commands.add_voter(member, timeout_s=VOTER_SECONDS_MAX)
        except BrokerError as error:
            logger.info("node is not a voter yet", node=member.node_id, reason=error.message)
            return
        logger.info("node became a voter", node=member.node_id)
        self.wake.set()


def _with_config(
    decide: Callable[[MetadataImage, BrokerConfig], Decision[bool]], config: BrokerConfig, image: MetadataImage
) -> Decision[bool]:
    return decide(image, config)
