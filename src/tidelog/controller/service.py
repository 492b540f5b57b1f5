"""The calls of handlers and of the rest of the node to the controller.

Most calls decide and therefore succeed only where the controller is active; clients' requests are forwarded there
before they come this far. Calls for the node itself (`ensure_topics`, `allocate_producer_ids`) reach it from any node.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from tidelog.config.broker import BrokerConfig
from tidelog.controller.channel import ANSWER_SECONDS_MAX, ControllerChannel
from tidelog.controller.core.alter_partition import IsrChange, IsrOutcome, decide_alter_partitions
from tidelog.controller.core.brokers import decide_unregister_broker, require_broker
from tidelog.controller.core.configs import ResourceChange, ResourceOutcome, decide_alter_configs
from tidelog.controller.core.decision import Decision
from tidelog.controller.core.elections import ElectionOutcome, decide_elect_leaders
from tidelog.controller.core.features import FeatureUpdate, decide_update_features
from tidelog.controller.core.internal_topics import internal_topic
from tidelog.controller.core.producer_ids import ProducerIdBlock, decide_producer_id_block
from tidelog.controller.core.reassignments import Reassignment, ReassignmentOutcome, decide_reassign
from tidelog.controller.core.topics import (
    NewPartitions,
    NewTopic,
    TopicOutcome,
    decide_create_partitions,
    decide_create_topics,
    decide_delete_topics,
)
from tidelog.controller.duties import BrokerDuties
from tidelog.controller.quorum_controller import QuorumController, new_topic_id
from tidelog.metadata.image import MetadataImage, TopicImage
from tidelog.metadata.publisher import MetadataPublisher
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.protocol.generated.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from tidelog.runtime.system import SYSTEM

if TYPE_CHECKING:
    from tidelog.net.client.pipelined import RpcClient
    from tidelog.raft.quorum import Quorum

R = TypeVar("R")


class ControllerService:
    def __init__(
        self,
        controller: QuorumController,
        duties: BrokerDuties,
        channel: ControllerChannel,
        random_bytes: Callable[[int], bytes] = SYSTEM.random_bytes,
    ) -> None:
        """`random_bytes`: for ids that nothing else has."""
        self._controller = controller
        self.random_bytes = random_bytes
        self._config: BrokerConfig = controller.config
        self.duties = duties
        self._channel = channel
        self.broker_epoch = -1
        """Of this node, once it is registered."""

    @property
    def quorum_controller(self) -> QuorumController:
        return self._controller

    @property
    def quorum(self) -> Quorum:
        return self._controller.quorum

    @property
    def metadata(self) -> MetadataPublisher:
        return self._controller.metadata

    @property
    def image(self) -> MetadataImage:
        return self._controller.image

    @property
    def is_active(self) -> bool:
        return self._controller.is_active

    def published(self, end_offset: int) -> Coroutine[Any, Any, None]:
        """Returns when this node's image holds everything below `end_offset`."""
        return self._controller.published(end_offset)

    def submit(self, decide: Callable[[MetadataImage], Decision[R]]) -> Coroutine[Any, Any, R]:
        return self._controller.submit(decide)

    # -- where the controller is active ------------------------------------------------------------------------------

    def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> Coroutine[Any, Any, list[TopicOutcome]]:
        return self.submit(
            lambda image: decide_create_topics(
                image,
                image.broker_config(self._config),
                [self._as_internal(topic, image) for topic in topics],
                new_topic_id=partial(new_topic_id, self.random_bytes),
                validate_only=validate_only,
            )
        )

    def _as_internal(self, topic: NewTopic, image: MetadataImage) -> NewTopic:
        """Internal topics get the same settings whichever request creates them."""
        return (internal_topic(topic.name, self._config, image) or topic) if topic == NewTopic(topic.name) else topic

    def create_partitions(
        self, requests: Sequence[NewPartitions], *, validate_only: bool = False
    ) -> Coroutine[Any, Any, list[TopicOutcome]]:
        return self.submit(
            lambda image: decide_create_partitions(
                image, image.broker_config(self._config), requests, validate_only=validate_only
            )
        )

    def delete_topics(self, topics: Sequence[tuple[str | None, bytes]]) -> Coroutine[Any, Any, list[TopicOutcome]]:
        return self.submit(lambda image: decide_delete_topics(image, topics))

    def alter_configs(
        self, resources: Sequence[ResourceChange], *, validate_only: bool = False
    ) -> Coroutine[Any, Any, list[ResourceOutcome]]:
        return self.submit(
            lambda image: decide_alter_configs(image, self._config, resources, validate_only=validate_only)
        )

    def elect_leaders(
        self, election_type: int, partitions: Sequence[TopicPartition] | None
    ) -> Coroutine[Any, Any, list[ElectionOutcome]]:
        return self.submit(lambda image: decide_elect_leaders(image, election_type, partitions))

    def alter_partitions(
        self, node_id: int, broker_epoch: int, changes: Sequence[IsrChange]
    ) -> Coroutine[Any, Any, list[IsrOutcome]]:
        return self.submit(lambda image: decide_alter_partitions(image, node_id, broker_epoch, changes))

    def reassign(
        self, reassignments: Sequence[Reassignment], *, allow_factor_change: bool
    ) -> Coroutine[Any, Any, list[ReassignmentOutcome]]:
        return self.submit(
            lambda image: decide_reassign(image, self._config, reassignments, allow_factor_change=allow_factor_change)
        )

    def update_features(self, updates: Sequence[FeatureUpdate], *, validate_only: bool) -> Coroutine[Any, Any, None]:
        return self.submit(lambda image: decide_update_features(image, updates, validate_only=validate_only))

    def unregister_broker(self, node_id: int) -> Coroutine[Any, Any, None]:
        return self.submit(lambda image: decide_unregister_broker(image, self._config, node_id))

    def next_producer_ids(self, node_id: int, broker_epoch: int) -> Coroutine[Any, Any, ProducerIdBlock]:
        def decide(image: MetadataImage) -> Decision[ProducerIdBlock]:
            require_broker(image, node_id, broker_epoch)
            return decide_producer_id_block(image, node_id)

        return self.submit(decide)

    # -- from any node -----------------------------------------------------------------------------------------------

    async def allocate_producer_ids(self) -> ProducerIdBlock:
        if self.is_active:
            return await self.next_producer_ids(self._config.node_id, self.broker_epoch)
        request = AllocateProducerIdsRequest(broker_id=self._config.node_id, broker_epoch=self.broker_epoch)

        async def here() -> ProducerIdBlock:
            return await self.next_producer_ids(request.broker_id, request.broker_epoch)

        async def there(client: RpcClient, left_s: float) -> ProducerIdBlock:
            response = await client.call(request, AllocateProducerIdsResponse, timeout_s=left_s)
            if response.error_code:
                raise BrokerError(ErrorCode(response.error_code))
            return ProducerIdBlock(response.producer_id_start, response.producer_id_len)

        return await self._channel.reach(here, there)

    async def ensure_topics(self, names: Sequence[str]) -> dict[str, BrokerError]:
        """Creates missing topics with the broker's defaults; returns the errors by name."""
        missing = [name for name in names if name not in self.image.topics]
        if not missing:
            return {}
        if self.is_active:
            errors = await self._create_here(missing)
        else:
            errors = await self._channel.reach(
                lambda: self._create_here(missing), partial(self._create_elsewhere, missing)
            )
            await self._appear([name for name in missing if name not in errors])
        return {name: error for name, error in errors.items() if name not in self.image.topics}

    async def _create_here(self, names: Sequence[str]) -> dict[str, BrokerError]:
        outcomes = await self.create_topics([NewTopic(name) for name in names])
        return {
            outcome.name: outcome.error
            for outcome in outcomes
            if outcome.name is not None
            and outcome.error is not None
            and outcome.error.code is not ErrorCode.TOPIC_ALREADY_EXISTS
        }

    async def _create_elsewhere(self, names: Sequence[str], client: RpcClient, left_s: float) -> dict[str, BrokerError]:
        from tidelog.protocol.generated.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse

        request = CreateTopicsRequest(
            topics=[CreatableTopic(name=name, num_partitions=-1, replication_factor=-1) for name in names],
            timeout_ms=int(ANSWER_SECONDS_MAX * 1000),
        )
        response = await client.call(request, CreateTopicsResponse, timeout_s=left_s)
        if any(topic.error_code == ErrorCode.NOT_CONTROLLER for topic in response.topics):
            raise BrokerError(ErrorCode.NOT_CONTROLLER)
        return {
            topic.name: BrokerError(ErrorCode(topic.error_code), topic.error_message or "")
            for topic in response.topics
            if topic.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        }

    async def _appear(self, names: Sequence[str]) -> None:
        """Waits until topics that the controller created are in the image of this node."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                while any(name not in self.image.topics for name in names):
                    await self.published(self.image.next_offset + 1)

    async def ensure_topic(self, name: str) -> TopicImage:
        """The topic, created when it is not there; BrokerError when it cannot be."""
        errors = await self.ensure_topics([name])
        topic = self.image.topics.get(name)
        if topic is None:
            raise errors.get(name) or BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic
