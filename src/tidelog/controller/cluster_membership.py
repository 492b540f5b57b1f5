"""Nodes join and leave the cluster at run time, and exchange their statistics through the controller."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tidelog.controller.channel import ControllerChannel
from tidelog.controller.service import ControllerService
from tidelog.metadata.image import MetadataImage
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.net.json_body import decode_body, encode_body
from tidelog.protocol.private_apis import JOIN_API_KEY, STATISTICS_API_KEY
from tidelog.raft.core.members import ANY_DIRECTORY, Member
from tidelog.telemetry.logs import get_logger

if TYPE_CHECKING:
    from tidelog.net.client.pipelined import RpcClient

logger = get_logger("tidelog.controller")

JOIN_SECONDS_MAX = 20.0

Body = dict[str, Any]


class ClusterMembership:
    def __init__(
        self,
        service: ControllerService,
        channel: ControllerChannel,
        *,
        note_address: Callable[[int, tuple[str, int]], None] = lambda _node_id, _address: None,
    ) -> None:
        """`note_address` is called with the address of a member that returns, which may be a new one."""
        self._service = service
        self._controller = service.quorum_controller
        self._channel = channel
        self._note_address = note_address
        self._heard: dict[int, Body] = {}
        self._allotted = 0
        self._joining: dict[bytes, int] = {}
        """Ids of nodes that are joining now, by the id of their data directory."""

    def check_cluster_id(self, given: str | None) -> None:
        cluster_id = self._controller.image.cluster_id
        if given is not None and given != cluster_id:
            raise BrokerError(
                ErrorCode.INCONSISTENT_CLUSTER_ID, f"This is cluster {cluster_id}, the request is for cluster {given}."
            )

    # -- statistics --------------------------------------------------------------------------------------------------

    @property
    def statistics(self) -> dict[int, Body]:
        """The last statistics of every node that this node knows."""
        return self._service.duties.statistics if self._service.is_active else self._heard

    async def exchange_statistics(self, own: Body, timeout_s: float) -> None:
        """Sends the statistics of this node to the controller and receives those of all nodes."""
        node_id, epoch = self._controller.config.node_id, self._service.broker_epoch
        body: Body = {"node_id": node_id, "epoch": epoch, "statistics": own}

        async def here() -> Body:
            return {"nodes": self._service.duties.report(node_id, epoch, own)}

        async def there(client: RpcClient, left_s: float) -> Body:
            return await _call_json(client, STATISTICS_API_KEY, body, left_s)

        answered = await self._channel.reach(here, there, timeout_s=timeout_s)
        self._heard = {int(other): statistics for other, statistics in answered.get("nodes", {}).items()}

    # -- joining -----------------------------------------------------------------------------------------------------

    async def take_in(self, body: Body) -> Body:
        """Answers a node that wants to join, through the controller: its id, the cluster id and the members."""

        async def here() -> Body:
            return await self._take_in(body)

        async def there(client: RpcClient, left_s: float) -> Body:
            answered = await _call_json(client, JOIN_API_KEY, body, left_s)
            if answered.get("code") == ErrorCode.NOT_CONTROLLER:
                raise BrokerError(ErrorCode.NOT_CONTROLLER)
            return answered

        return await self._channel.reach(here, there, timeout_s=JOIN_SECONDS_MAX)

    async def _take_in(self, body: Body) -> Body:
        if not self._service.is_active:
            raise BrokerError(ErrorCode.NOT_CONTROLLER)
        try:
            directory_id = bytes.fromhex(body["directory_id"])
            host, port = str(body["host"]), int(body["port"])
            wanted_id = body.get("node_id")
            node_id = -1 if wanted_id is None else int(wanted_id)
            is_new = bool(body["is_new"])
            if len(directory_id) != len(ANY_DIRECTORY) or directory_id == ANY_DIRECTORY:
                raise ValueError("a data directory has an id of 16 bytes")
        except (KeyError, ValueError, TypeError) as error:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"The request to join cannot be read: {error}") from None
        self.check_cluster_id(body.get("cluster_id"))
        image = self._controller.newest_image
        quorum = self._controller.quorum
        if node_id < 0:
            node_id = self._number_of(directory_id)
        member = None if node_id < 0 else quorum.members.find(node_id)
        if member is None or not member.is_same_node(node_id, directory_id):
            if node_id >= 0:
                self._check_vacant(image, node_id, directory_id, is_known=member is not None, is_new=is_new)
            else:
                node_id = self._allot(image)
            self._joining[directory_id] = node_id
            try:
                if member is not None:
                    # The same id with another disk: the node has lost the votes and log entries it had acknowledged.
                    await quorum.commands.remove_member(node_id)
                await quorum.commands.add_learner(Member(node_id, directory_id, host, port))
            finally:
                self._joining.pop(directory_id, None)
            logger.info("node joins", node=node_id, address=f"{host}:{port}")
        else:
            self._note_address(node_id, (host, port))
        return {"cluster_id": image.cluster_id, "node_id": node_id, "members": self._describe_members(image)}

    def _check_vacant(
        self, image: MetadataImage, node_id: int, directory_id: bytes, *, is_known: bool, is_new: bool
    ) -> None:
        """`is_known`: there is a member of that number with another directory."""
        broker = image.brokers.get(node_id)
        if broker is not None and (not broker.fenced or node_id == self._controller.config.node_id):
            where = f" at {broker.endpoints[0].host}:{broker.endpoints[0].port}" if broker.endpoints else ""
            raise BrokerError(
                ErrorCode.DUPLICATE_BROKER_REGISTRATION, f"another node with id {node_id} is alive{where}"
            )
        is_other = is_known or (broker is not None and directory_id not in broker.directories)
        if not is_new and (is_other or broker is None):
            # The node has data, but its id is unknown here or belongs to another node: it was a member and was removed.
            taken = ", and another node has its number" if is_other else ""
            raise BrokerError(
                ErrorCode.BROKER_ID_NOT_REGISTERED,
                f"node {node_id} was removed from the cluster{taken}; to join again it needs an empty data directory",
            )

    def _number_of(self, directory_id: bytes) -> int:
        """The id of a node that was admitted already and did not get the answer; -1 for a new node."""
        for member in self._controller.quorum.members:
            if member.directory_id == directory_id:
                return member.node_id
        return self._joining.get(directory_id, -1)

    def _allot(self, image: MetadataImage) -> int:
        """An id that no node has or had. Two nodes that join at the same time get different ids."""
        known = (*image.brokers, *(member.node_id for member in self._controller.quorum.members), self._allotted)
        self._allotted = max(known) + 1
        return self._allotted

    def _describe_members(self, image: MetadataImage) -> list[Body]:
        described = []
        listener = self._controller.config.inter_node_listener_name
        for member in self._controller.quorum.members:
            broker = image.brokers.get(member.node_id)
            endpoint = None if broker is None else broker.endpoint(listener)
            host, port = (member.host, member.port) if endpoint is None else (endpoint.host, endpoint.port)
            described.append({"node_id": member.node_id, "host": host, "port": port})
        return described

    # -- leaving -----------------------------------------------------------------------------------------------------

    async def unregister(self, node_id: int) -> None:
        """Removes a node from the cluster and from its quorum.

        These are two steps. If the leader changes in between, the next call completes the removal.
        """
        quorum = self._controller.quorum
        try:
            await self._service.unregister_broker(node_id)
        except BrokerError as error:
            if error.code != ErrorCode.BROKER_ID_NOT_REGISTERED or quorum.members.find(node_id) is None:
                raise
        if quorum.members.find(node_id) is not None:
            await quorum.commands.remove_member(node_id)


async def ask_for_place(client: RpcClient, body: Body, timeout_s: float) -> Body:
    """The answer of a member to a node that wants to join, or that checks whether it is still a member."""
    return await _call_json(client, JOIN_API_KEY, body, timeout_s)


async def _call_json(client: RpcClient, api_key: int, body: Body, timeout_s: float) -> Body:
    encoded = encode_body(body)
    assert isinstance(encoded, bytes)
    frame, position = await client.call_encoded(api_key, 0, encoded, timeout_s=timeout_s)
    return decode_body(frame, position)
