"""The log as a gateway reaches it: typed requests through the dispatcher, for one caller.

A method asks this node. Where only the leader can answer, it raises `LeaderElsewhere`, and the gateway chooses between
sending its client there and calling again with `at=leader`, which forwards the request to that node.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.api.context import Caller, RequestContext
from tidelog.api.forwarding import forward
from tidelog.metadata.image import NO_LEADER
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.value import Value
from tidelog.partitions.producing import ProduceRequest
from tidelog.protocol.hot_fetch_request import new_fetch
from tidelog.protocol.index import ApiKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.api.dispatcher import Dispatcher
    from tidelog.metadata.image import MetadataImage
    from tidelog.metadata.topics import PartitionState
    from tidelog.net.reply import Region
    from tidelog.partitions.fetching import FetchResponse
    from tidelog.partitions.producing import ProduceResponse
    from tidelog.protocol.generated.metadata import MetadataResponse, MetadataResponseTopic
    from tidelog.protocol.hot_fetch import FetchedPartition

ACKS_ALL: Final = -1
EARLIEST: Final = -2
"""The timestamp for which ListOffsets answers the first offset of the log."""
LATEST: Final = -1
"""The timestamp for which ListOffsets answers the end of what consumers may read."""

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1

_PRODUCE: Final = int(ApiKey.PRODUCE)
_PRODUCE_BY_NAME: Final = 12
"""The last version that names topics; newer ones have topic ids."""
_FETCH: Final = int(ApiKey.FETCH)
_FETCH_BY_NAME: Final = 12
_LIST_OFFSETS: Final = int(ApiKey.LIST_OFFSETS)
_METADATA: Final = int(ApiKey.METADATA)

ANSWER_SECONDS_SPARE: Final = 2.0
"""How much longer than the request itself a gateway waits: its own answer says that the time is over."""


class LeaderElsewhere(BrokerError):
    """Another node leads the partition; `leader` is its number, None while there is no leader."""

    def __init__(self, topic: str, index: int, leader: int | None) -> None:
        who = "it has no leader now" if leader is None else f"node {leader} leads it"
        super().__init__(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"This node does not lead {topic}-{index}: {who}.")
        self.leader: Final = leader


class Appended(NamedTuple):
    base_offset: int
    log_append_time_ms: int
    """-1 where records keep the time of their producer."""


class Read(Value):
    """What is to be read of a partition: from `offset` on, at least one batch if there is any."""

    topic: str
    index: int
    offset: int
    max_bytes: int = 1 << 20
    wait_ms: int = 0
    """How long to wait for `min_bytes`."""
    min_bytes: int = 1
    isolation: int = READ_UNCOMMITTED
    last_epoch: int = -1
    """The leader epoch of the record before `offset`: whether this log has it too is part of the answer."""


class Waiting(NamedTuple):
    """Of a fetch of several partitions, all of them together."""

    wait_ms: int = 0
    min_bytes: int = 1
    max_bytes: int = 1 << 20
    isolation: int = READ_UNCOMMITTED


class Fetched(NamedTuple):
    """What was read of a partition. The records are bytes of whole batches; the last may be cut short, and the first
    may begin before the offset that was asked for."""

    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: Sequence[tuple[int, int]]
    """Producer id and first offset of the aborted transactions in it, for a read_committed fetch."""
    region: Region | bytes | None
    diverging: tuple[int, int] | None = None
    """Set where this log does not have `last_epoch` up to the offset: the newest epoch before, and where it ends."""


class FoundOffset(NamedTuple):
    offset: int
    """-1: there is no record that new."""
    timestamp: int
    leader_epoch: int


class LogAccess:
    """What one caller may do with the log; one for all requests of a connection."""

    __slots__ = ("_dispatcher", "_loop", "caller", "client_id")

    def __init__(self, dispatcher: Dispatcher, caller: Caller, client_id: str | None = None) -> None:
        self._dispatcher = dispatcher
        self.client_id = client_id
        self._loop = asyncio.get_running_loop()
        self.caller = caller

    @property
    def image(self) -> MetadataImage:
        """The cluster as this node knows it. What is read from it was not authorised: use it to find nodes, and the
        methods below for what callers see."""
        return self._dispatcher.services.metadata.image

    @property
    def metadata_end_offset(self) -> int:
        """Every record of the metadata log below is in the image. Not all that is in the log is a record, so this may
        be behind the image's own offset by what the quorum keeps for itself."""
        controller = self._dispatcher.services.controller
        image = self.image
        if controller.quorum_controller.newest_image.offset > image.offset:
            return image.next_offset
        return max(image.next_offset, controller.quorum.applied_offset)

    @property
    def node_id(self) -> int:
        return self._dispatcher.services.node_id

    def now_ms(self) -> int:
        """The time that records get whose producer says none."""
        return self._dispatcher.services.now_ms()

    def new_member_id(self) -> str:
        """For a member of a group: no other one has it."""
        from uuid import UUID

        return str(UUID(bytes=self._dispatcher.services.groups.random_bytes(16), version=4))

    # -- any request -------------------------------------------------------------------------------------------------

    async def ask(
        self,
        api_key: int,
        request: Any,
        *,
        version: int | None = None,
        timeout_s: float | None = None,
        at: int | None = None,
    ) -> Any:
        """The response of this node, or of node `at`, to a typed request (of the class that the handler takes). Errors
        inside the response are left in it; BrokerError is raised for the request as a whole."""
        deadline_s = None if timeout_s is None else self._loop.time() + timeout_s
        try:
            if at is None or at == self.node_id:
                return await self._dispatcher.call(
                    self.caller,
                    api_key,
                    request,
                    version=version,
                    client_id=self.client_id,
                    deadline_s=deadline_s,
                )
            if version is None:
                route = self._dispatcher.find_route(api_key)
                assert route is not None, "gateways ask for APIs that are served"
                version = route.max_version
            context = RequestContext(self._dispatcher, api_key, version, self.client_id, self.caller, deadline_s)
            return await forward(context, request, at)
        except TimeoutError:
            raise BrokerError(ErrorCode.REQUEST_TIMED_OUT, "The node did not answer in time.") from None

    # -- topics ------------------------------------------------------------------------------------------------------

    async def find_topic(self, name: str, *, create: bool = False) -> MetadataResponseTopic:
        """The topic with its partitions; with `create` it is created first where the cluster allows it. Raises
        BrokerError where there is none that the caller may see."""
        from tidelog.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic

        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=create)
        response: MetadataResponse = await self.ask(_METADATA, request)
        [topic] = response.topics
        if topic.error_code and topic.error_code != ErrorCode.LEADER_NOT_AVAILABLE:
            code = ErrorCode(topic.error_code)
            is_unknown = code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise BrokerError(code, f"There is no topic {name[:300]}." if is_unknown else None)
        return topic

    async def ensure_topic(self, name: str) -> None:
        """Creates the topic where it is missing and the cluster allows it. A topic that is there costs nothing."""
        if name not in self.image.topics:
            await self.find_topic(name, create=True)

    def partition(self, topic: str, index: int) -> PartitionState | None:
        found = self.image.topics.get(topic)
        return None if found is None else found.partitions.get(index)

    def leader_elsewhere(self, topic: str, index: int) -> LeaderElsewhere:
        state = self.partition(topic, index)
        return LeaderElsewhere(topic, index, None if state is None or state.leader == NO_LEADER else state.leader)

    # -- records -----------------------------------------------------------------------------------------------------

    async def produce(
        self,
        topic: str,
        index: int,
        batch: bytes,
        *,
        acks: int = ACKS_ALL,
        timeout_ms: int = 30_000,
        at: int | None = None,
    ) -> Appended:
        """Appends one batch. Raises LeaderElsewhere, and BrokerError for what the partition refuses."""
        request = ProduceRequest(None, acks, timeout_ms, [(topic, None, [(index, batch)])])
        timeout_s = timeout_ms / 1000 + ANSWER_SECONDS_SPARE
        response: ProduceResponse = await self.ask(
            _PRODUCE, request, version=_PRODUCE_BY_NAME, timeout_s=timeout_s, at=at
        )
        result = response.topics[0][2][0]
        if result.error_code:
            raise self._error(result.error_code, topic, index, result.error_message)
        return Appended(result.base_offset, result.log_append_time_ms)

    async def fetch(self, read: Read, *, at: int | None = None) -> Fetched:
        """Any replica answers. Raises LeaderElsewhere where this node has none, BrokerError for what cannot be read."""
        waiting = Waiting(read.wait_ms, read.min_bytes, read.max_bytes, read.isolation)
        [answer] = await self.fetch_many([read], waiting, at=at)
        if isinstance(answer, BrokerError):
            raise answer
        return answer

    async def fetch_many(
        self, reads: Sequence[Read], waiting: Waiting, *, at: int | None = None
    ) -> list[Fetched | BrokerError]:
        """One request for several partitions, each named once; how long it waits and for what stands in `waiting`. In
        the order of `reads`, with the error of each that cannot be read."""
        topics: dict[str, list[tuple[int, int, int, int, int, int]]] = {}
        for read in reads:
            topics.setdefault(read.topic, []).append((read.index, -1, read.offset, read.last_epoch, -1, read.max_bytes))
        request = new_fetch(
            [(name, None, asked) for name, asked in topics.items()],
            max_wait_ms=waiting.wait_ms,
            min_bytes=waiting.min_bytes,
            max_bytes=waiting.max_bytes,
            isolation_level=waiting.isolation,
        )
        # This node answers in time by itself: a second timer for each of thousands that wait would be one too many.
        is_here = at is None or at == self.node_id
        timeout_s = None if is_here else waiting.wait_ms / 1000 + ANSWER_SECONDS_SPARE
        response: FetchResponse = await self.ask(_FETCH, request, version=_FETCH_BY_NAME, timeout_s=timeout_s, at=at)
        if response.error_code:
            raise BrokerError(ErrorCode(response.error_code))
        found = {(key, index): answer for key, partitions in response.topics for index, answer in partitions}
        answers = [(read, found[read.topic, read.index]) for read in reads]
        return [
            self._error(answer.error_code, read.topic, read.index) if answer.error_code else _fetched(answer)
            for read, answer in answers
        ]

    async def list_offset(
        self, topic: str, index: int, timestamp: int, *, isolation: int = READ_UNCOMMITTED, at: int | None = None
    ) -> FoundOffset:
        """The first offset at or after a time, or EARLIEST or LATEST. Only the leader answers."""
        from tidelog.protocol.generated.list_offsets import (
            ListOffsetsPartition,
            ListOffsetsRequest,
            ListOffsetsResponse,
            ListOffsetsTopic,
        )

        request = ListOffsetsRequest(
            isolation_level=isolation,
            topics=[
                ListOffsetsTopic(
                    name=topic, partitions=[ListOffsetsPartition(partition_index=index, timestamp=timestamp)]
                )
            ],
        )
        response: ListOffsetsResponse = await self.ask(_LIST_OFFSETS, request, at=at)
        found = response.topics[0].partitions[0]
        if found.error_code:
            raise self._error(found.error_code, topic, index)
        return FoundOffset(found.offset, found.timestamp, found.leader_epoch)

    def _error(self, code: int, topic: str, index: int, message: str | None = None) -> BrokerError:
        if code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return self.leader_elsewhere(topic, index)
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            message = f"There is no partition {index} of a topic {topic}."
        return BrokerError(ErrorCode(code), message)


def _fetched(answer: FetchedPartition) -> Fetched:
    return Fetched(
        answer.high_watermark,
        answer.last_stable_offset,
        answer.log_start_offset,
        answer.aborted_transactions or (),
        answer.region,  # type: ignore[arg-type]
        answer.diverging_epoch,
    )
