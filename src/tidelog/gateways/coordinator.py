"""The coordinator of one group, or of one transactional id, as a gateway reaches it: on whichever node it is, and while
it moves."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.api.messages import OffsetCommit
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import ZERO_TOPIC_ID, TopicPartition
from tidelog.protocol.index import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from tidelog.gateways.access import LogAccess
    from tidelog.protocol.generated.find_coordinator import FindCoordinatorResponse
    from tidelog.protocol.generated.offset_fetch import OffsetFetchResponse
    from tidelog.protocol.hot_offset_commit import TopicAnswer

PATIENCE_SECONDS: Final = 13.0
"""How long a request is sent again while the coordinator moves: longer than a node that has died is still taken for
alive (`broker.session.timeout.ms`, 9 seconds by default)."""
ANSWER_SECONDS_MAX: Final = 5.0
"""How long one attempt may take."""
PAUSE_SECONDS_MIN: Final = 0.05
PAUSE_SECONDS_MAX: Final = 1.0

COORDINATOR_MOVES: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
"""After these the coordinator is looked for again."""

_FIND_COORDINATOR: Final = int(ApiKey.FIND_COORDINATOR)
_OFFSET_COMMIT: Final = int(ApiKey.OFFSET_COMMIT)
_OFFSET_COMMIT_BY_NAME: Final = 9
"""The last version that names topics; newer ones have topic ids. So has OffsetFetch."""
_OFFSET_FETCH: Final = int(ApiKey.OFFSET_FETCH)
_OFFSET_FETCH_BY_NAME: Final = 9
GROUP: Final = 0
TRANSACTION: Final = 1
"""What the name of a coordinator's key names."""


class AsMember(NamedTuple):
    """In whose name offsets are committed and fetched."""

    member_id: str = ""
    epoch: int = -1
    """Or the generation of a classic member."""
    instance_id: str | None = None
    """Of a static member."""


NO_MEMBER: Final = AsMember()
"""A consumer that chooses its partitions itself. Its commits are refused while the group has members."""


NO_METADATA: Final[Mapping[TopicPartition, str]] = {}


class Committed(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str


class CoordinatorAccess:
    """What one caller may ask of one coordinator."""

    __slots__ = ("_access", "_key_type", "_node_id", "name")

    def __init__(self, access: LogAccess, name: str, key_type: int = GROUP) -> None:
        self._access = access
        self._key_type = key_type
        self.name: Final = name
        """Of the group, or the transactional id."""
        self._node_id: int | None = None
        """Where the coordinator was last; None when that is not known."""

    async def ask(
        self,
        api_key: int,
        request: Any,
        error_of: Callable[[Any], int],
        *,
        version: int | None = None,
        patience_s: float = PATIENCE_SECONDS,
        answer_s: float = ANSWER_SECONDS_MAX,
    ) -> Any:
        """The coordinator's response, which one attempt waits for `answer_s`. `error_of` reads the error of the whole
        request from it: while that says that the coordinator is elsewhere or not ready, the request is sent again.
        Raises BrokerError with that error when the patience is over; other errors are left in the response."""
        now_s = asyncio.get_running_loop().time
        deadline_s = now_s() + patience_s
        pause_s = PAUSE_SECONDS_MIN
        while True:
            try:
                if self._node_id is None:
                    self._node_id = await self._find()
                response = await self._access.ask(
                    api_key, request, version=version, timeout_s=answer_s, at=self._node_id
                )
                error = ErrorCode(error_of(response))
                if error not in COORDINATOR_MOVES:
                    return response
                fault = BrokerError(error)
            except BrokerError as refused:
                if refused.code not in COORDINATOR_MOVES:
                    raise
                fault = refused
            self._node_id = None
            if now_s() + pause_s >= deadline_s:
                raise fault
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_SECONDS_MAX)

    async def _find(self) -> int:
        from tidelog.protocol.generated.find_coordinator import FindCoordinatorRequest

        response: FindCoordinatorResponse = await self._access.ask(
            _FIND_COORDINATOR,
            FindCoordinatorRequest(key_type=self._key_type, coordinator_keys=[self.name]),
            timeout_s=ANSWER_SECONDS_MAX,
        )
        [found] = response.coordinators
        if found.error_code:
            raise BrokerError(ErrorCode(found.error_code), found.error_message)
        return found.node_id


class GroupAccess(CoordinatorAccess):
    """What one caller may do with one group, and its offsets."""

    __slots__ = ()

    @property
    def group_id(self) -> str:
        return self.name

    async def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        member: AsMember = NO_MEMBER,
        metadata: Mapping[TopicPartition, str] = NO_METADATA,
    ) -> None:
        """Returns when all of them are committed. Raises the first error; others may be committed then."""
        topics: dict[str, list[tuple[int, int, int, str | None]]] = {}
        for place, offset in offsets.items():
            topics.setdefault(place.topic, []).append((place.partition, offset, -1, metadata.get(place, "")))
        request = OffsetCommit(
            self.group_id,
            member.epoch,
            member.member_id,
            member.instance_id,
            -1,
            [(topic, ZERO_TOPIC_ID, partitions) for topic, partitions in topics.items()],
        )
        if not topics:
            return
        answered: list[TopicAnswer] = await self.ask(
            _OFFSET_COMMIT, request, _first_commit_error, version=_OFFSET_COMMIT_BY_NAME
        )
        for topic, _, answers in answered:
            for index, code in answers:
                if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise BrokerError(ErrorCode(code), f"There is no partition {index} of a topic {topic}.")
                if code:
                    raise BrokerError(ErrorCode(code))

    async def committed(
        self, partitions: Collection[TopicPartition] | None, member: AsMember = NO_MEMBER
    ) -> dict[TopicPartition, Committed]:
        """The committed offsets of those that have any; of all that the group has committed for None. Waits for
        transactions that have offsets of them."""
        if not self.group_id:
            raise BrokerError(ErrorCode.INVALID_GROUP_ID, "A group must be named.")
        from tidelog.protocol.generated.offset_fetch import (
            OffsetFetchRequest,
            OffsetFetchRequestGroup,
            OffsetFetchRequestTopics,
        )

        topics: list[OffsetFetchRequestTopics] | None = None
        if partitions is not None:
            indexes: dict[str, list[int]] = {}
            for topic, index in partitions:
                indexes.setdefault(topic, []).append(index)
            topics = [OffsetFetchRequestTopics(name=name, partition_indexes=each) for name, each in indexes.items()]
        is_member = bool(member.member_id)
        group = OffsetFetchRequestGroup(
            group_id=self.group_id,
            member_id=member.member_id if is_member else None,
            member_epoch=member.epoch if is_member else -1,
            topics=topics,
        )
        response: OffsetFetchResponse = await self.ask(
            _OFFSET_FETCH,
            OffsetFetchRequest(groups=[group], require_stable=True),
            lambda answer: answer.groups[0].error_code,
            version=_OFFSET_FETCH_BY_NAME,
        )
        [answer] = response.groups
        if answer.error_code:
            raise BrokerError(ErrorCode(answer.error_code))
        found: dict[TopicPartition, Committed] = {}
        for each in answer.topics:
            for at in each.partitions:
                if at.error_code:
                    raise BrokerError(ErrorCode(at.error_code))
                if at.committed_offset >= 0:
                    found[TopicPartition(each.name, at.partition_index)] = Committed(
                        at.committed_offset, at.committed_leader_epoch, at.metadata or ""
                    )
        return found


def _first_commit_error(answered: list[TopicAnswer]) -> int:
    return next((code for _, _, partitions in answered for _, code in partitions if code), 0)
