"""The keys that all nodes sign the tokens of HTTP sessions with (`gateways/http/session_token.py`).

Keys are secrets: nothing that shows metadata shows them. The newest signs; every other is known still, so that the
tokens it signed hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tidelog.metadata.sub_image import SubDelta, changed_keys
from tidelog.protocol.message import Message
from tidelog.protocol.private_records import SessionKeyRecord

LEVEL: Final = 2
"""Of `tidelog.version`, from which on there may be keys."""


class SessionKeysImage:
    """Its `repr` is that of any object: it shows no key."""

    __slots__ = ("by_id", "newest")

    def __init__(self, by_id: Mapping[int, bytes] | None = None) -> None:
        self.by_id: Final[Mapping[int, bytes]] = by_id or {}
        newest_id = max(self.by_id, default=None)
        self.newest: Final = None if newest_id is None else (newest_id, self.by_id[newest_id])
        """The key that signs, behind its number."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SessionKeysImage) and self.by_id == other.by_id

    def records(self) -> Iterator[Message]:
        return (SessionKeyRecord(key_id=key_id, key=key) for key_id, key in self.by_id.items())


class SessionKeysDelta(SubDelta[SessionKeysImage]):
    __slots__ = ("_base", "_by_id", "changed")

    IMAGE = SessionKeysImage

    def __init__(self, base: SessionKeysImage) -> None:
        self._base = base
        self._by_id = base.by_id
        self.changed: set[int] = set()
        """Numbers of keys."""

    def replay_session_key(self, record: SessionKeyRecord) -> None:
        self._by_id = {**self._by_id, record.key_id: record.key}
        self.changed.add(record.key_id)

    def apply(self) -> SessionKeysImage:
        return SessionKeysImage(self._by_id) if self.changed else self._base

    @property
    def is_empty(self) -> bool:
        return not self.changed

    @classmethod
    def between(cls, before: SessionKeysImage, after: SessionKeysImage) -> SessionKeysDelta:
        delta = cls(after)
        delta.changed = changed_keys(before.by_id, after.by_id)
        return delta

    REPLAYS = {SessionKeyRecord: replay_session_key}
    LEVELS = {SessionKeyRecord: LEVEL}
