"""The life of this node as a broker: register, send heartbeats, serve once unfenced, hand over before it stops."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from tidelog.controller.channel import CONTROL, HEARTBEAT, ControllerChannel
from tidelog.controller.cluster_membership import ClusterMembership
from tidelog.controller.core.brokers import OWN_FEATURES, HeartbeatReply, Registration, can_be_spared
from tidelog.controller.service import ControllerService
from tidelog.metadata.image import Endpoint
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.net.client.errors import RpcError
from tidelog.net.client.pipelined import RpcClient
from tidelog.protocol.generated.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from tidelog.protocol.generated.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)
from tidelog.runtime.tasks import BackgroundTasks
from tidelog.telemetry.logs import get_logger

logger = get_logger("tidelog.node")

RETRY_SECONDS = 0.2
STATISTICS_INTERVAL_S = 1.0
REGISTRATION_SECONDS_MAX = 2.0
"""How long a node waits for a controller before it asks the members whether it is still one of them."""
KNOWN_SECONDS_MAX = 2.0
"""How long an unfenced node waits until the other nodes have seen it."""
HAND_OVER_SECONDS_MAX = 3.0
HAND_OVER_ANSWER_SECONDS_MAX = 1.0
"""A controller that does not answer for so long may be stopping too."""
DUPLICATE_SESSIONS_MAX = 3
"""How many session timeouts a node waits until the node that had its id before is fenced."""

_FATAL = {
    ErrorCode.INCONSISTENT_CLUSTER_ID: "its data belongs to another cluster",
    ErrorCode.BROKER_ID_NOT_REGISTERED: "it was removed; to join again it needs an empty data directory",
    ErrorCode.UNSUPPORTED_VERSION: "the cluster uses features this version does not know; upgrade it",
    ErrorCode.INVALID_REGISTRATION: "its registration is invalid",
}


class RegistrationRefused(Exception):
    """The cluster refuses this node; the message is one line with the reason."""


class BrokerLifecycle:
    def __init__(
        self,
        service: ControllerService,
        channel: ControllerChannel,
        membership: ClusterMembership,
        *,
        collect_statistics: Callable[[], dict[str, Any]],
        give_up: Callable[[str], None],
        ask_members: Callable[[], Awaitable[BrokerError | None]],
        is_short_of_room: Callable[[], bool],
    ) -> None:
        """`give_up` is called with one line for the operator when the cluster has removed or replaced this node.

        `is_short_of_room`: the disk is almost full, so that other nodes should lead and be in sync without this one.
        `ask_members` asks any reachable member whether this node was removed, when no controller answers it.
        """
        self._service = service
        self._controller = service.quorum_controller
        self._config = service.quorum_controller.config
        self._channel = channel
        self._membership = membership
        self._collect_statistics = collect_statistics
        self._give_up = give_up
        self._ask_members = ask_members
        self._is_short_of_room = is_short_of_room
        self._gives_way = False
        self._incarnation_id = service.random_bytes(16)
        self._tasks = BackgroundTasks()
        self._is_ready = False
        self._unfenced = asyncio.Event()
        self._next_statistics_s = 0.0

    # -- registration ------------------------------------------------------------------------------------------------

    async def register_alone(self, endpoints: Sequence[Endpoint], directory_id: bytes) -> int:
        """Registers the only node of a cluster, which needs no other node and is unfenced at once."""
        registration = Registration(
            self._config.node_id, self._incarnation_id, tuple(endpoints), (directory_id,), rack=self._config.broker_rack
        )
        self._service.broker_epoch = await self._service.duties.register(registration, fenced=False, is_own=True)
        self._unfenced.set()
        return self._service.broker_epoch

    async def register(self, endpoints: Sequence[Endpoint], directory_id: bytes) -> int:
        """Registers with the active controller and retries until it succeeds; RegistrationRefused when it cannot.

        Returns the broker epoch when this node's own metadata shows the registration.
        """
        registration = self._new_registration(endpoints, directory_id)
        loop = asyncio.get_running_loop()
        patience_s = DUPLICATE_SESSIONS_MAX * self._config.broker_session_timeout_ms / 1000 + 2
        give_up_s = loop.time() + patience_s
        refused_with = ErrorCode.NONE
        while True:
            try:
                code, epoch = await _ask_for_registration(self._service, self._channel, registration)
            except BrokerError as error:
                logger.info("waiting for a controller", reason=error.message)
                refusal = await self._ask_members()
                if refusal is None:
                    give_up_s = loop.time() + patience_s
                # The id counts as alive until its session ends: that may be this very node before its restart.
                elif refusal.code != ErrorCode.DUPLICATE_BROKER_REGISTRATION or loop.time() > give_up_s:
                    raise RegistrationRefused(f"the cluster does not take this node in: {refusal.message}") from None
                continue
            if code == ErrorCode.NONE:
                break
            name = f"node {self._config.node_id} is not taken into the cluster: "
            if code in _FATAL:
                raise RegistrationRefused(name + _FATAL[code])
            if code == ErrorCode.DUPLICATE_BROKER_REGISTRATION and loop.time() > give_up_s:
                raise RegistrationRefused(name + "another node with this id is alive; give it another --node-id")
            if code != refused_with:
                logger.info("registration is tried again until it is taken", reason=code.message)
            refused_with = code
            await asyncio.sleep(RETRY_SECONDS)
        self._service.broker_epoch = epoch
        while not self._knows_own_registration():
            await asyncio.sleep(0.005)
        return epoch

    def _new_registration(self, endpoints: Sequence[Endpoint], directory_id: bytes) -> Registration:
        before = self._controller.newest_image.brokers.get(self._config.node_id)
        return Registration(
            node_id=self._config.node_id,
            incarnation_id=self._incarnation_id,
            endpoints=tuple(endpoints),
            directories=(directory_id,),
            cluster_id=self._controller.newest_image.cluster_id,
            rack=self._config.broker_rack,
            features=OWN_FEATURES,
            previous_epoch=-1 if before is None else before.epoch,
        )

    def _knows_own_registration(self) -> bool:
        own = self._controller.newest_image.brokers.get(self._config.node_id)
        return own is not None and own.epoch >= self._service.broker_epoch

    # -- heartbeats --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begins to send heartbeats; the node stays fenced until it is `ready`."""
        self._tasks.start(self._beat(), "heartbeats")

    async def ready(self) -> None:
        """This node can serve: returns when the controller has unfenced it and the other nodes have seen that."""
        self._is_ready = True
        await self._unfenced.wait()
        others = [broker.node_id for broker in self._controller.image.live_brokers()]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(KNOWN_SECONDS_MAX):
                await asyncio.gather(*(self._is_known_by(other) for other in others if other != self._config.node_id))

    async def _is_known_by(self, other: int) -> None:
        """Returns when the other node lists this one in its metadata, or cannot be reached."""
        from tidelog.protocol.generated.metadata import MetadataRequest, MetadataResponse

        client = self._channel.pool.client(other, CONTROL)
        while True:
            try:
                answered = await client.call(MetadataRequest(topics=[]), MetadataResponse, timeout_s=KNOWN_SECONDS_MAX)
            except RpcError:
                return
            if any(broker.node_id == self._config.node_id for broker in answered.brokers):
                return
            await asyncio.sleep(0.01)

    async def _beat(self) -> None:
        interval_s = self._config.broker_heartbeat_interval_ms / 1000
        while True:
            pause_s = interval_s
            self._look_at_disk()
            try:
                if not self._needs_no_heartbeat():
                    reply = await self._heartbeat(want_shut_down=False, timeout_s=interval_s * 2)
                    if (reply is None or reply.is_fenced) and not self._gives_way:
                        # A fenced node retries fast: it serves as soon as a heartbeat unfences it.
                        pause_s = 0.02 if self._unfenced.is_set() or self._is_ready else 0.1
                    if reply is not None and not reply.is_fenced:
                        self._unfenced.set()
                await self._maybe_exchange_statistics(interval_s)
            except BrokerError as error:
                logger.info("heartbeat failed", reason=error.message)
                pause_s = 0.05
            # A new controller has no sessions yet: send it a heartbeat at once.
            await self._controller.wait_for_other_leader(pause_s)

    def _look_at_disk(self) -> None:
        """A node that cannot write delays acks=all, so it lets itself be fenced if other replicas can lead instead."""
        gives_way = (
            self._is_short_of_room()
            and self._has_peers()
            and can_be_spared(self._controller.newest_image, self._config.node_id)
        )
        if gives_way != self._gives_way:
            self._gives_way = gives_way
            if gives_way:
                logger.warning(
                    "the disk is full: other nodes take over until there is room", path=self._config.data_directory
                )
            else:
                logger.warning("there is room on the disk again", path=self._config.data_directory)

    def _needs_no_heartbeat(self) -> bool:
        if self._gives_way:
            return False
        return (
            self._service.is_active and self._unfenced.is_set() and self._controller.image.is_live(self._config.node_id)
        )

    async def _heartbeat(self, *, want_shut_down: bool, timeout_s: float) -> HeartbeatReply | None:
        node_id, epoch = self._config.node_id, self._service.broker_epoch
        metadata_offset = self._controller.newest_image.offset
        want_fence = not self._is_ready or self._gives_way

        async def here() -> HeartbeatReply:
            return await self._service.duties.heartbeat(
                node_id, epoch, metadata_offset=metadata_offset, want_fence=want_fence, want_shut_down=want_shut_down
            )

        async def there(client: RpcClient, left_s: float) -> HeartbeatReply:
            request = BrokerHeartbeatRequest(
                broker_id=node_id,
                broker_epoch=epoch,
                current_metadata_offset=metadata_offset,
                want_fence=want_fence,
                want_shut_down=want_shut_down,
            )
            response = await client.call(request, BrokerHeartbeatResponse, timeout_s=left_s)
            if response.error_code:
                raise BrokerError(ErrorCode(response.error_code))
            return HeartbeatReply(response.is_caught_up, response.is_fenced, response.should_shut_down)

        try:
            return await self._channel.reach(here, there, timeout_s=timeout_s, purpose=HEARTBEAT)
        except BrokerError as error:
            if error.code is ErrorCode.BROKER_ID_NOT_REGISTERED:
                self._give_up(f"node {node_id} was removed from the cluster")
            elif error.code is ErrorCode.STALE_BROKER_EPOCH:
                self._give_up(f"another node with id {node_id} has taken the place of this one")
            else:
                raise
            return None

    async def _maybe_exchange_statistics(self, timeout_s: float) -> None:
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._next_statistics_s:
            self._next_statistics_s = now_s + STATISTICS_INTERVAL_S
            await self._membership.exchange_statistics(self._collect_statistics(), timeout_s)

    # -- the end -----------------------------------------------------------------------------------------------------

    async def hand_over(self) -> None:
        """Moves leaderships to other nodes before this one stops, if there are any."""
        if not self._config.controlled_shutdown_enable or not self._has_peers():
            return
        with contextlib.suppress(BrokerError, TimeoutError):
            async with asyncio.timeout(HAND_OVER_SECONDS_MAX):
                while True:
                    reply = await self._heartbeat(want_shut_down=True, timeout_s=HAND_OVER_ANSWER_SECONDS_MAX)
                    if reply is None or reply.should_shut_down:
                        return
                    await asyncio.sleep(0.02)

    def _has_peers(self) -> bool:
        return any(broker.node_id != self._config.node_id for broker in self._controller.image.live_brokers())

    async def stop(self) -> None:
        await self._tasks.close()


async def _ask_for_registration(
    service: ControllerService, channel: ControllerChannel, registration: Registration
) -> tuple[ErrorCode, int]:
    """The controller's error code and the broker epoch. BrokerError when no controller answers."""

    async def here() -> tuple[ErrorCode, int]:
        try:
            return ErrorCode.NONE, await service.duties.register(registration, is_own=True)
        except BrokerError as error:
            if error.code is ErrorCode.NOT_CONTROLLER:
                raise
            return error.code, -1

    async def there(client: RpcClient, left_s: float) -> tuple[ErrorCode, int]:
        response = await client.call(_encode(registration), BrokerRegistrationResponse, timeout_s=left_s)
        if response.error_code == ErrorCode.NOT_CONTROLLER:
            raise BrokerError(ErrorCode.NOT_CONTROLLER)
        return ErrorCode(response.error_code), response.broker_epoch

    return await channel.reach(here, there, timeout_s=REGISTRATION_SECONDS_MAX)


def _encode(registration: Registration) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        broker_id=registration.node_id,
        cluster_id=registration.cluster_id or "",
        incarnation_id=registration.incarnation_id,
        listeners=[Listener(name=each.name, host=each.host, port=each.port) for each in registration.endpoints],
        features=[
            Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, low, high in registration.features
        ],
        rack=registration.rack,
        log_dirs=list(registration.directories),
        previous_broker_epoch=registration.previous_epoch,
    )
