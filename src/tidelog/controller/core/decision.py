"""The outcome of a decision: the records that carry it out, and the reply once they are committed."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from tidelog.protocol.message import Message

R = TypeVar("R")

RECORDS_PER_DECISION_MAX = 10_000
"""All records of a decision go into one batch, so that a crash leaves all of them or none; this bounds the batch."""


class Decision(NamedTuple, Generic[R]):
    records: list[Message]
    reply: R
