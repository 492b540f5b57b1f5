"""Records of the metadata log that Kafka does not have. Their types are far above Kafka's, which count up from 0."""

from __future__ import annotations

from struct import Struct as Format
from struct import error as struct_error
from typing import TYPE_CHECKING, ClassVar

from tidelog.protocol.errors import MalformedMessage, UnsupportedVersion
from tidelog.protocol.message import Message
from tidelog.protocol.wire import append_compact_bytes, decode_long_size, skip_tags

if TYPE_CHECKING:
    from tidelog.protocol.wire import Buffer

SESSION_KEY_RECORD_TYPE = 30_000

_KEY_ID = Format(">i")


class SessionKeyRecord(Message):
    """A key that all nodes sign the tokens of HTTP sessions with."""

    API_KEY = SESSION_KEY_RECORD_TYPE
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0
    SECRETS: ClassVar[frozenset[str]] = frozenset({"key"})

    __slots__ = ("key", "key_id")

    def __init__(self, *, key_id: int = 0, key: bytes = b"") -> None:
        self.key_id = key_id
        self.key = key

    @classmethod
    def decode(cls, buf: Buffer, pos: int, version: int) -> tuple[SessionKeyRecord, int]:
        if version != 0:
            raise UnsupportedVersion("SessionKeyRecord", version)
        limit = len(buf)
        try:
            (key_id,) = _KEY_ID.unpack_from(buf, pos)
            size, pos = decode_long_size(buf, pos + _KEY_ID.size)
            if size == 0 or size - 1 > limit - pos:
                raise MalformedMessage("SessionKeyRecord version 0: its key ends beyond its bytes")
            key = bytes(buf[pos : pos + size - 1])
            pos += size
            if buf[pos - 1]:
                pos = skip_tags(buf, pos, limit)
        except (IndexError, struct_error) as error:
            raise MalformedMessage(f"SessionKeyRecord version 0: {error}") from None
        return cls(key_id=key_id, key=key), pos

    def encode_into(self, out: bytearray, version: int) -> None:
        if version != 0:
            raise UnsupportedVersion("SessionKeyRecord", version)
        out += _KEY_ID.pack(self.key_id)
        append_compact_bytes(out, self.key)
        out.append(0)
