"""The format of a metadata record in the value of a log record: frame version, type, version, then the message.

All three numbers are unsigned varints, as Kafka writes them, so that Kafka's own tools can read this node's metadata.
Each record type is imported when its first record is read: a node needs a few of the two dozen.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from tidelog.codec.varint import decode_unsigned_varint, encode_unsigned_varint
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.private_records import SESSION_KEY_RECORD_TYPE

if TYPE_CHECKING:
    from tidelog.protocol.message import Message

FRAME_VERSION = 1

_NAMES = {
    0: "RegisterBrokerRecord",
    1: "UnregisterBrokerRecord",
    2: "TopicRecord",
    3: "PartitionRecord",
    4: "ConfigRecord",
    5: "PartitionChangeRecord",
    6: "AccessControlEntryRecord",
    7: "FenceBrokerRecord",
    8: "UnfenceBrokerRecord",
    9: "RemoveTopicRecord",
    10: "DelegationTokenRecord",
    11: "UserScramCredentialRecord",
    12: "FeatureLevelRecord",
    14: "ClientQuotaRecord",
    15: "ProducerIdsRecord",
    16: "RemoveAccessControlEntryRecord",
    17: "BrokerRegistrationChangeRecord",
    20: "NoOpRecord",
    21: "ZkMigrationStateRecord",
    22: "RemoveUserScramCredentialRecord",
    23: "BeginTransactionRecord",
    24: "EndTransactionRecord",
    25: "AbortTransactionRecord",
    26: "RemoveDelegationTokenRecord",
    27: "RegisterControllerRecord",
    28: "ClearElrRecord",
    SESSION_KEY_RECORD_TYPE: "SessionKeyRecord",
}

_PRIVATE = frozenset({"SessionKeyRecord"})
"""Records that Kafka does not have; their classes are not generated."""

_VERSIONS = {3: 1, 5: 1}
"""The version a type is written in where it is not the newest: eligible leader replicas are not kept here."""

_classes: dict[int, type[Message]] = {}
_prefixes: dict[type[Message], tuple[bytes, int]] = {}


class UnreadableMetadata(BrokerError):
    """Bytes in the metadata log that are not a record known to this version."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)


def encode_metadata_record(record: Message) -> bytes:
    known = _prefixes.get(type(record))
    if known is None:
        key = record.API_KEY
        assert key is not None, f"{type(record).__name__} is not a metadata record"
        version = _VERSIONS.get(key, record.MAX_VERSION)
        prefix = b"".join(encode_unsigned_varint(number) for number in (FRAME_VERSION, key, version))
        known = _prefixes[type(record)] = (prefix, version)
    out = bytearray(known[0])
    record.encode_into(out, known[1])
    return bytes(out)


def decode_metadata_record(value: bytes) -> Message:
    # Every number that occurs fits one byte; longer varints take the slow way.
    if len(value) >= 3 and value[0] == FRAME_VERSION and value[1] < 128 and value[2] < 128:
        key, version, position = value[1], value[2], 3
    else:
        frame_version, position = decode_unsigned_varint(value, 0)
        if frame_version != FRAME_VERSION:
            raise UnreadableMetadata(f"metadata record with frame version {frame_version}; {FRAME_VERSION} is known")
        key, position = decode_unsigned_varint(value, position)
        version, position = decode_unsigned_varint(value, position)
    cls = _classes.get(key) or _load_class(key)
    if not cls.MIN_VERSION <= version <= cls.MAX_VERSION:
        raise UnreadableMetadata(f"metadata record {cls.__name__} in version {version}; {cls.MAX_VERSION} is known")
    return cls.decode(value, position, version)[0]


def _load_class(key: int) -> type[Message]:
    name = _NAMES.get(key)
    if name is None:
        raise UnreadableMetadata(f"metadata record of unknown type {key}")
    if name in _PRIVATE:
        module = "private_records"
    else:
        module = "generated." + "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")
    cls: type[Message] = getattr(import_module(f"tidelog.protocol.{module}"), name)
    _classes[key] = cls
    return cls
