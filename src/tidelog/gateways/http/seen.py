"""What an HTTP session has seen, and the token that carries it from request to request. Pure.

For each partition the session has an offset: everything below it was read, or written with acks=all, by this client.
With it goes the leader epoch that wrote the record before that offset. A log that has the epoch up to the offset has
all that the session has seen; in any other log the epoch ends earlier, or is not there.

A token is base64url of: form (1 byte), key number, flags, metadata offset, then topic by topic the id (16 bytes), a
count, and per partition its number, offset, epoch + 1 and read_committed offset; then the HMAC-SHA256 of all this.
Numbers are unsigned varints. Anyone can read it, and only nodes can make one.
"""

from __future__ import annotations

import binascii
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.codec.varint import MalformedVarint, decode_unsigned_varlong, encode_unsigned_varlong
from tidelog.model import limits

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FORM: Final = 1
_FORM_BYTE: Final = bytes((FORM,))
_NOT_FULL: Final = b"\x00"
_FULL: Final = b"\x01"
NO_EPOCH: Final = -1
_IS_FULL: Final = 1
_TOPIC_ID_BYTES: Final = 16
_SIGNATURE_BYTES: Final = 32
_FIXED_BYTES_MAX: Final = 24
"""Form, key number, flags, metadata offset and the number of topics, however large they are."""
_TOPICS_BYTES_MAX: Final = limits.HTTP_SESSION_TOKEN_BYTES_MAX * 3 // 4 - _SIGNATURE_BYTES - _FIXED_BYTES_MAX


class BadToken(Exception):
    """The message says what is wrong with it, without its content."""


class Seen(NamedTuple):
    """Of one partition."""

    offset: int
    """Everything below was read or written."""
    epoch: int = NO_EPOCH
    """The leader epoch of the record before the offset; NO_EPOCH where it is not known."""
    stable_offset: int = 0
    """Everything below was read by a read_committed reader. 0 <= stable_offset <= offset."""

    def joined(self, other: Seen) -> Seen:
        """Of two things that were seen, both."""
        newer = other if other.offset > self.offset else self
        return Seen(newer.offset, newer.epoch, max(self.stable_offset, other.stable_offset))


class SeenPartitions:
    """All that one session has seen. The partitions that were used last are kept when there is no room for all."""

    __slots__ = ("_topics", "is_full", "metadata_offset")

    def __init__(self, metadata_offset: int = -1, *, is_full: bool = False) -> None:
        self._topics: dict[bytes, dict[int, Seen]] = {}
        """By topic id, and then by partition; what was used last comes last."""
        self.metadata_offset = metadata_offset
        """The newest record of the metadata that a node had when it answered."""
        self.is_full = is_full
        """Something was left out for lack of room."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SeenPartitions):
            return NotImplemented
        return list(self) == list(other) and (self.metadata_offset, self.is_full) == (
            other.metadata_offset,
            other.is_full,
        )

    def __iter__(self) -> Iterator[tuple[bytes, int, Seen]]:
        for topic_id, partitions in self._topics.items():
            for index, seen in partitions.items():
                yield topic_id, index, seen

    def find(self, topic_id: bytes, index: int) -> Seen | None:
        partitions = self._topics.get(topic_id)
        return None if partitions is None else partitions.get(index)

    def note(self, topic_id: bytes, index: int, seen: Seen) -> None:
        partitions = self._topics.pop(topic_id, None) or {}
        before = partitions.pop(index, None)
        partitions[index] = seen if before is None else before.joined(seen)
        self._topics[topic_id] = partitions

    def forget(self, topic_id: bytes, index: int) -> None:
        partitions = self._topics.get(topic_id)
        if partitions is not None:
            partitions.pop(index, None)
            if not partitions:
                del self._topics[topic_id]

    def note_metadata(self, offset: int) -> None:
        self.metadata_offset = max(self.metadata_offset, offset)

    def join(self, other: SeenPartitions) -> None:
        """What another token of the session has seen as well."""
        self.note_metadata(other.metadata_offset)
        self.is_full |= other.is_full
        for entry in other:
            self.note(*entry)

    # -- tokens --------------------------------------------------------------------------------------------------------

    def sign(self, key_id: int, key: bytes) -> str:
        """The token; what has no room in it is forgotten."""
        topics = self._encode_topics()
        if len(topics) > _TOPICS_BYTES_MAX:
            self._forget_oldest()
            topics = self._encode_topics()
        signing = _keyed_hash(key).copy()
        body = (
            _FORM_BYTE
            + encode_unsigned_varlong(key_id)
            + (_FULL if self.is_full else _NOT_FULL)
            + encode_unsigned_varlong(self.metadata_offset + 1)
            + encode_unsigned_varlong(len(self._topics))
            + topics
        )
        signing.update(body)
        return urlsafe_b64encode(body + signing.digest()).rstrip(b"=").decode("ascii")

    def _encode_topics(self) -> bytes:
        encoded = []
        for topic_id, partitions in self._topics.items():
            encoded += [topic_id, encode_unsigned_varlong(len(partitions))]
            for index, seen in partitions.items():
                encoded.append(_encode_seen(index, seen))
        return b"".join(encoded)

    def _forget_oldest(self) -> None:
        """Keeps what was used last, as far as there is room."""
        self.is_full = True
        left_bytes = _TOPICS_BYTES_MAX
        kept: dict[bytes, dict[int, Seen]] = {}
        for topic_id, partitions in reversed(self._topics.items()):
            # The count takes two bytes at most: there is no room for more partitions.
            left_bytes -= _TOPIC_ID_BYTES + 2
            kept_partitions: dict[int, Seen] = {}
            for index, seen in reversed(partitions.items()):
                left_bytes -= len(_encode_seen(index, seen))
                if left_bytes < 0:
                    break
                kept_partitions[index] = seen
            if kept_partitions:
                kept[topic_id] = dict(reversed(kept_partitions.items()))
            if left_bytes < 0:
                break
        self._topics = dict(reversed(kept.items()))


def _encode_seen(index: int, seen: Seen) -> bytes:
    return (
        encode_unsigned_varlong(index)
        + encode_unsigned_varlong(seen.offset)
        + encode_unsigned_varlong(seen.epoch + 1)
        + encode_unsigned_varlong(seen.stable_offset)
    )


@lru_cache(maxsize=16)
def _keyed_hash(key: bytes) -> hmac.HMAC:
    """To be copied: it has taken in the key, which is half of the work."""
    return hmac.new(key, digestmod="sha256")


def read_tokens(tokens: str, keys: Mapping[int, bytes]) -> SeenPartitions:
    """What one or several tokens say, with commas between. Raises BadToken."""
    first, *others = tokens.split(",", limits.HTTP_SESSION_TOKENS_MAX)
    if len(others) >= limits.HTTP_SESSION_TOKENS_MAX:
        raise BadToken(f"it has more than {limits.HTTP_SESSION_TOKENS_MAX} tokens")
    seen = read_token(first.strip(), keys)
    for other in others:
        seen.join(read_token(other.strip(), keys))
    return seen


def read_token(token: str, keys: Mapping[int, bytes]) -> SeenPartitions:
    """What the token says, if one of the keys has signed it. Raises BadToken; never anything else."""
    if len(token) > limits.HTTP_SESSION_TOKEN_BYTES_MAX:
        raise BadToken("it is too long")
    try:
        raw = urlsafe_b64decode(token + "=" * (-len(token) % 4))
        # The decoder skips what is not base64: two spellings of one token would be one token.
        if urlsafe_b64encode(raw).rstrip(b"=").decode("ascii") != token:
            raise BadToken("it is not base64url")
    except (ValueError, binascii.Error):
        raise BadToken("it is not base64url") from None
    body, signature = raw[:-_SIGNATURE_BYTES], raw[-_SIGNATURE_BYTES:]
    try:
        if not body or body[0] != FORM:
            raise BadToken("it has another form")
        key_id, position = decode_unsigned_varlong(body, 1)
        key = keys.get(key_id)
        if key is None:
            raise BadToken("it was signed with a key that this cluster does not have")
        signing = _keyed_hash(key).copy()
        signing.update(body)
        if not hmac.compare_digest(signing.digest(), signature):
            raise BadToken("its signature is wrong")
        return _read_body(body, position)
    except (MalformedVarint, IndexError):
        raise BadToken("it is cut short") from None


def _read_body(body: bytes, position: int) -> SeenPartitions:
    flags, position = decode_unsigned_varlong(body, position)
    metadata_end, position = decode_unsigned_varlong(body, position)
    topic_count, position = decode_unsigned_varlong(body, position)
    found = SeenPartitions(metadata_end - 1, is_full=bool(flags & _IS_FULL))
    # Every round takes bytes of a body that is bounded, or ends with an error.
    for _ in range(topic_count):
        topic_id = body[position : position + _TOPIC_ID_BYTES]
        count, position = decode_unsigned_varlong(body, position + _TOPIC_ID_BYTES)
        for _ in range(count):
            index, position = decode_unsigned_varlong(body, position)
            offset, position = decode_unsigned_varlong(body, position)
            epoch_after, position = decode_unsigned_varlong(body, position)
            stable_offset, position = decode_unsigned_varlong(body, position)
            found.note(topic_id, index, Seen(offset, epoch_after - 1, min(stable_offset, offset)))
    return found
