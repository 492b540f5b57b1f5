"""The records of `__transaction_state`, in Kafka's own formats.

A key and a value each start with two bytes: the version of their layout. Values are written as version 1 (with tagged
fields), as Kafka does from transaction version 1 on.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import NamedTuple

from tidelog.model.ids import TopicPartition
from tidelog.protocol.errors import MalformedMessage, UnsupportedVersion
from tidelog.protocol.generated.transaction_log_key import TransactionLogKey
from tidelog.protocol.generated.transaction_log_value import PartitionsSchema, TransactionLogValue
from tidelog.transactions.core.metadata import TransactionMetadata
from tidelog.transactions.core.state import BY_NUMBER, TransactionState

KEY_VERSION = 0
VALUE_VERSION = 1
_I16 = Struct(">h")
_KEY_PREFIX = _I16.pack(KEY_VERSION)
_VALUE_PREFIX = _I16.pack(VALUE_VERSION)


class TransactionRecord(NamedTuple):
    transactional_id: str
    metadata: TransactionMetadata | None
    """None is a tombstone: the id has expired."""


def encode_record(record: TransactionRecord) -> tuple[bytes, bytes | None]:
    key = _KEY_PREFIX + TransactionLogKey(transactional_id=record.transactional_id).encode(KEY_VERSION)
    metadata = record.metadata
    if metadata is None:
        return key, None
    partitions = None if metadata.state is TransactionState.EMPTY else _by_topic(metadata)
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        previous_producer_id=metadata.previous_producer_id,
        next_producer_id=metadata.next_producer_id,
        producer_epoch=metadata.producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state.number,
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=metadata.update_timestamp_ms,
        transaction_start_timestamp_ms=metadata.start_timestamp_ms,
        client_transaction_version=metadata.client_version,
    )
    return key, _VALUE_PREFIX + value.encode(VALUE_VERSION)


def _by_topic(metadata: TransactionMetadata) -> list[PartitionsSchema]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(metadata.partitions):
        by_topic.setdefault(topic, []).append(partition)
    return [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in by_topic.items()]


def decode_record(key: bytes, value: bytes | None) -> TransactionRecord | None:
    """None for a kind of record that is not one of these; ValueError when the bytes make no sense."""
    try:
        version = _I16.unpack_from(key)[0]
        if version != KEY_VERSION:
            return None
        transactional_id = TransactionLogKey.decode(key, 2, version)[0].transactional_id
        if value is None:
            return TransactionRecord(transactional_id, None)
        stored, _ = TransactionLogValue.decode(value, 2, _I16.unpack_from(value)[0])
    except (StructError, MalformedMessage, UnsupportedVersion) as error:
        raise ValueError(f"damaged transaction record: {error}") from error
    if not 0 <= stored.transaction_status < len(BY_NUMBER) or not BY_NUMBER[stored.transaction_status].is_stored:
        raise ValueError(f"a transaction record of state {stored.transaction_status}, which is none that is stored")
    metadata = TransactionMetadata(
        producer_id=stored.producer_id,
        producer_epoch=stored.producer_epoch,
        timeout_ms=stored.transaction_timeout_ms,
        state=BY_NUMBER[stored.transaction_status],
        partitions=frozenset(
            TopicPartition(entry.topic, partition)
            for entry in stored.transaction_partitions or ()
            for partition in entry.partition_ids
        ),
        start_timestamp_ms=stored.transaction_start_timestamp_ms,
        update_timestamp_ms=stored.transaction_last_update_timestamp_ms,
        previous_producer_id=stored.previous_producer_id,
        next_producer_id=stored.next_producer_id,
        client_version=stored.client_transaction_version,
    )
    return TransactionRecord(transactional_id, metadata)
