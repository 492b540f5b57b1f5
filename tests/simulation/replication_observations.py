"""What happens in a simulated cluster of brokers, as far as checkers care."""

from __future__ import annotations

from typing import NamedTuple


class Acknowledged(NamedTuple):
    """A producer with acks=all got its acknowledgement."""

    partition: int
    offset: int
    value: bytes


class Committed(NamedTuple):
    """A node's high watermark has passed a record."""

    node_id: int
    partition: int
    offset: int
    value: bytes


class ReaderTold(NamedTuple):
    """A leader gave a consumer its high watermark."""

    partition: int
    leader_epoch: int
    high_watermark: int


class LogSeen(NamedTuple):
    """All of one replica's log."""

    node_id: int
    partition: int
    leader_epoch: int
    records: list[tuple[int, int, bytes]]
    """Offset, leader epoch and value."""


class Settled(NamedTuple):
    """Faults are over, everyone has caught up: the log the cluster ended with."""

    partition: int
    values: dict[int, bytes]
