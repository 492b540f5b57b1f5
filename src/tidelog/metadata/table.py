"""The table of sub-images, in the order of their records in a snapshot. A new sub-image is one line here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidelog.metadata.brokers import BrokersDelta
from tidelog.metadata.configs import ConfigsDelta
from tidelog.metadata.features import FeaturesDelta
from tidelog.metadata.producer_ids import ProducerIdsDelta
from tidelog.metadata.session_keys import SessionKeysDelta
from tidelog.metadata.sub_image import SubDelta
from tidelog.metadata.topics import TopicsDelta
from tidelog.protocol.message import Message

SUB_DELTAS: tuple[type[SubDelta[Any]], ...] = (
    FeaturesDelta,  # First: their levels say which of the other records may follow.
    BrokersDelta,
    TopicsDelta,
    ConfigsDelta,
    ProducerIdsDelta,
    SessionKeysDelta,
)

IGNORED = frozenset({"NoOpRecord", "BeginTransactionRecord", "EndTransactionRecord", "RegisterControllerRecord"})
"""Records that change no image. By name, so that their classes are not loaded for nothing."""

Route = tuple[tuple[type[SubDelta[Any]], Callable[[Any, Any], None]], ...]


def routes_of(sub_deltas: tuple[type[SubDelta[Any]], ...]) -> dict[type[Message], Route]:
    """For each class of record, the sub-deltas that replay it and their methods for it."""
    routes: dict[type[Message], Route] = {}
    for kind in sub_deltas:
        for record, replay in kind.REPLAYS.items():
            routes[record] = (*routes.get(record, ()), (kind, replay))
    return routes


ROUTES = routes_of(SUB_DELTAS)


def levels_of(sub_deltas: tuple[type[SubDelta[Any]], ...]) -> dict[type[Message], int]:
    return {record: level for kind in sub_deltas for record, level in kind.LEVELS.items()}


LEVELS = levels_of(SUB_DELTAS)
"""The level of `tidelog.version` that a record needs; records that are not named need none."""
