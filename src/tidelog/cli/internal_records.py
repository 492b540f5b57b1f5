"""What the records of internal topics say, and control records of any topic: `tidelog log dump` shows it for the bytes.

The formats are Kafka's, and so are the names of types and fields. A record is decoded as a whole or not at all: what
this version cannot read (damage, a type or layout of a version to come) is None, and stays as the bytes it is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from importlib import import_module
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Any, NamedTuple

from tidelog.cli.record_format import put_content
from tidelog.codec.varint import decode_unsigned_varint
from tidelog.coordination.partitioning import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tidelog.metadata.framing import decode_metadata_record
from tidelog.metadata.image import METADATA_TOPIC
from tidelog.model.errors import BrokerError
from tidelog.model.ids import encode_topic_id
from tidelog.protocol.generated.control_record_type_schema import ControlRecordTypeSchema
from tidelog.protocol.message import Message, Structure
from tidelog.raft.entries import LEARNERS_CONTROL_TYPE
from tidelog.records.control import ControlType
from tidelog.records.record import Record

GROUP_TYPES = {
    0: "OffsetCommit",
    1: "OffsetCommit",
    2: "GroupMetadata",
    3: "ConsumerGroupMetadata",
    4: "ConsumerGroupPartitionMetadata",
    5: "ConsumerGroupMemberMetadata",
    6: "ConsumerGroupTargetAssignmentMetadata",
    7: "ConsumerGroupTargetAssignmentMember",
    8: "ConsumerGroupCurrentMemberAssignment",
    10: "ShareGroupMemberMetadata",
    11: "ShareGroupMetadata",
    12: "ShareGroupTargetAssignmentMetadata",
    13: "ShareGroupTargetAssignmentMember",
    14: "ShareGroupCurrentMemberAssignment",
    15: "ShareGroupStatePartitionMetadata",
    16: "ConsumerGroupRegularExpression",
    17: "StreamsGroupMetadata",
    19: "StreamsGroupMemberMetadata",
    20: "StreamsGroupTargetAssignmentMetadata",
    21: "StreamsGroupTargetAssignmentMember",
    22: "StreamsGroupCurrentMemberAssignment",
    23: "StreamsGroupTopology",
}
"""By the number a key starts with. Those that only Kafka's brokers write are here too: their logs can be dumped."""
TRANSACTION_TYPES = {0: "TransactionLog"}
CONTROL_TYPES: dict[int, str] = {
    ControlType.ABORT: "EndTxnMarker",
    ControlType.COMMIT: "EndTxnMarker",
    ControlType.LEADER_CHANGE: "LeaderChangeMessage",
    ControlType.SNAPSHOT_HEADER: "SnapshotHeaderRecord",
    ControlType.SNAPSHOT_FOOTER: "SnapshotFooterRecord",
    ControlType.KRAFT_VERSION: "KRaftVersionRecord",
    ControlType.KRAFT_VOTERS: "VotersRecord",
    LEARNERS_CONTROL_TYPE: "VotersRecord",
}
_MODULES = {"KRaftVersionRecord": "kraft_version_record"}
"""Modules whose name does not follow from that of their class."""
_UUID_NAME = re.compile(r"(^|_)id$")
"""Fields of bytes that hold an identifier; a list of bytes always holds such."""
_VERSION = Struct(">h")


class DecodedRecord(NamedTuple):
    type: str
    key: Message | None
    version: int | None
    """Of the layout of the value; None without one."""
    value: Any
    """A message, or None: of a coordinator's record, that what the key names is gone."""

    def document(self) -> dict[str, Any]:
        """For programs, as the records of other topics are, with fields where those have text."""
        version = {} if self.version is None else {"version": self.version}
        return {"type": self.type, **version, "key": _describe(self.key), "value": _describe(self.value)}


Decoder = Callable[[Record], DecodedRecord | None]


def decoder_of(path: str) -> Decoder | None:
    """For a file of a log, by the topic its directory is named after; None when the records are of clients."""
    directory = os.path.basename(os.path.dirname(os.path.abspath(path)))
    return _DECODERS.get(directory.rpartition("-")[0])


def decode_control_record(record: Record) -> DecodedRecord | None:
    if record.key is None or record.value is None:
        return None
    try:
        key = ControlRecordTypeSchema.decode(record.key, _VERSION.size, _VERSION.unpack_from(record.key)[0])[0]
        name = CONTROL_TYPES.get(key.type)
        if name is None:
            return None
        version = _VERSION.unpack_from(record.value)[0]
        cls = load_message(name)
        # In most of them the version is a field of the message itself.
        start = 0 if "version" in cls.__slots__ else _VERSION.size
        value = cls.decode(record.value, start, version)[0]
    except (BrokerError, StructError):
        return None
    return DecodedRecord(name, key, version, value)


def decode_metadata_log_record(record: Record) -> DecodedRecord | None:
    if record.value is None:
        return None
    try:
        message = decode_metadata_record(record.value)
        # Behind the versions of the frame and the type, which were read.
        position = 0
        for _ in range(3):
            version, position = decode_unsigned_varint(record.value, position)
    except BrokerError:
        return None
    return DecodedRecord(type(message).__name__, None, version, message)


def decode_group_record(record: Record) -> DecodedRecord | None:
    decoded = _decode_coordinated(record, GROUP_TYPES)
    if decoded is not None and decoded.type == "GroupMetadata" and decoded.value is not None:
        # To the coordinator these are the clients' own bytes; consumers all write them in one form.
        for member in decoded.value.members if decoded.value.protocol_type == "consumer" else ():
            member.subscription = _open_consumer_protocol("ConsumerProtocolSubscription", member.subscription)
            member.assignment = _open_consumer_protocol("ConsumerProtocolAssignment", member.assignment)
    return decoded


def _open_consumer_protocol(name: str, content: bytes) -> Message | bytes:
    try:
        return load_message(name).decode(content, _VERSION.size, _VERSION.unpack_from(content)[0])[0]
    except (BrokerError, StructError):
        return content


def decode_transaction_record(record: Record) -> DecodedRecord | None:
    from tidelog.transactions.core.state import BY_NUMBER

    decoded = _decode_coordinated(record, TRANSACTION_TYPES)
    if decoded is not None and decoded.value is not None:
        number = decoded.value.transaction_status
        if 0 <= number < len(BY_NUMBER):
            decoded.value.transaction_status = BY_NUMBER[number].value
    return decoded


def _decode_coordinated(record: Record, types: dict[int, str]) -> DecodedRecord | None:
    """A record of a coordinator: its key starts with its type, its value with the version of its layout."""
    if record.key is None:
        return None
    try:
        name = types.get(_VERSION.unpack_from(record.key)[0])
        if name is None:
            return None
        key = load_message(f"{name}Key").decode(record.key, _VERSION.size, 0)[0]
        if record.value is None:
            return DecodedRecord(name, key, None, None)
        version = _VERSION.unpack_from(record.value)[0]
        value = load_message(f"{name}Value").decode(record.value, _VERSION.size, version)[0]
    except (BrokerError, StructError):
        return None
    return DecodedRecord(name, key, version, value)


_DECODERS: dict[str, Decoder] = {
    OFFSETS_TOPIC: decode_group_record,
    TRANSACTIONS_TOPIC: decode_transaction_record,
    METADATA_TOPIC: decode_metadata_log_record,
}


def module_of(name: str) -> str:
    return _MODULES.get(name) or "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


def load_message(name: str) -> type[Message]:
    """Imported when the first of its kind is met: a log has few of them."""
    cls: type[Message] = getattr(import_module(f"tidelog.protocol.generated.{module_of(name)}"), name)
    return cls


def _describe(value: Any) -> Any:
    if isinstance(value, list):
        return [_describe(each) for each in value]
    if isinstance(value, bytes):
        return encode_topic_id(value)
    if not isinstance(value, Structure):
        return value
    document: dict[str, Any] = {}
    for name in value.__slots__:
        content = getattr(value, name)
        if name in value.SECRETS:
            document[name] = f"({len(content)} bytes, not shown)"
        elif isinstance(content, bytes) and not _UUID_NAME.search(name):
            put_content(document, name, content)
        else:
            document[name] = _describe(content)
    return document
