"""Requests that only the leader of a partition answers, sent on to it when that is another node.

None of these services can send its client elsewhere (but `api.Kafka.Produce`, which does that itself), so the node that
was asked stands in for the leader. A leadership that is changing hands is waited for, not longer than some seconds.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar

from tidelog.gateways.access import LeaderElsewhere
from tidelog.model.errors import BrokerError, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tidelog.gateways.access import LogAccess

T = TypeVar("T")

PAUSES_S: Final = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 3.2, 3.2)
"""Between attempts while nobody leads, or the node that leads does not know it yet. Together they are longer than a
node that has died is still taken for alive (`broker.session.timeout.ms`, 9 seconds by default)."""

_CHANGING: Final = frozenset({ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION})


async def at_leader(access: LogAccess, ask: Callable[[int | None], Awaitable[T]], *, repeats: bool = True) -> T:
    """The answer of `ask(at)` from this node, or from the one that it names as the leader. With `repeats` it is asked
    again when a node gives no answer: not for appends, which that node may have made."""
    at: int | None = None
    pauses = iter(PAUSES_S)
    while True:
        try:
            return await ask(at)
        except LeaderElsewhere as elsewhere:
            error: BrokerError = elsewhere
            if elsewhere.leader is not None and elsewhere.leader not in (at, access.node_id):
                at = elsewhere.leader
                continue
            at = None
        except BrokerError as refused:
            if not (refused.code in _CHANGING or (at is not None and _may_pass(refused.code, repeats))):
                raise
            error, at = refused, None
        pause_s = next(pauses, None)
        if pause_s is None:
            raise error
        await asyncio.sleep(pause_s)


def _may_pass(code: ErrorCode, repeats: bool) -> bool:
    """What another node has said that this one takes for the leader: it may not know the topic yet."""
    return code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or (repeats and code == ErrorCode.REQUEST_TIMED_OUT)
