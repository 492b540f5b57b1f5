"""What a produced record set must fulfil before it may be appended: Kafka's checks, at the cost of a batch.

The header and the checksum are always checked. Records are opened only where a rule needs them: keys of a compacted
topic, a lower bound on timestamps, `tidelog.validate.records`, or another compression than the producer's. Each fault
raises the error that Kafka answers it with.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import TYPE_CHECKING, Final

from tidelog.codec.buffers import view_of
from tidelog.codec.compression import CompressionType, DecompressionError
from tidelog.codec.crc32c import crc32c
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import NO_TIMESTAMP
from tidelog.model.limits import DECOMPRESSED_BATCH_BYTES_MAX
from tidelog.records.batch import (
    ATTRIBUTES_POSITION,
    COMPRESSION_MASK,
    CONTROL_MASK,
    DELETE_HORIZON_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    BatchHeader,
    CorruptBatch,
    InvalidRecord,
    RejectedBatch,
    decode_header,
)
from tidelog.records.builder import assemble_batch, rewrite_header
from tidelog.records.record import RECORD_SIZE_MIN, decode_record_headers, iterate_spans, load_payload

if TYPE_CHECKING:
    from tidelog.codec.buffers import Buffer

UNBOUNDED_MS: Final = 2**63 - 1
PRODUCE_VERSION_ZSTD: Final = 7
"""The first version of Produce whose batches may be compressed with zstd."""

_LEGACY_SIZE_MIN: Final = 14
_ZSTD: Final = int(CompressionType.ZSTD)
_INT32: Final = Struct(">i")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceRules:
    """What a topic's configuration asks of produced batches; made once per configuration, not per batch."""

    max_message_bytes: int = 1_048_588
    timestamp_before_max_ms: int = UNBOUNDED_MS
    timestamp_after_max_ms: int = 3_600_000
    log_append_time: bool = False
    """The log stamps records itself, so what producers say about time is not looked at."""
    compacted: bool = False
    """Every record needs a key."""
    target_compression: int | None = None
    """The codec the topic stores; None keeps the producer's."""
    compression_level: int | None = None
    validate_records: bool = False
    """Open every batch and check each record, as Kafka does."""
    decompressed_bytes_max: int = DECOMPRESSED_BATCH_BYTES_MAX

    opens_records: bool = field(init=False)
    """Whether any of the rules needs to see the records themselves."""

    def __post_init__(self) -> None:
        bounded = self.timestamp_before_max_ms != UNBOUNDED_MS and not self.log_append_time
        object.__setattr__(self, "opens_records", self.compacted or self.validate_records or bounded)


class RecordsRejected(BrokerError):
    """Some records of the batch break a rule, so none is taken; Produce 8 and later name them to the client."""

    def __init__(self, code: ErrorCode, record_errors: list[tuple[int, str]]) -> None:
        super().__init__(code, f"{len(record_errors)} records were rejected, the first: {record_errors[0][1]}")
        self.record_errors = record_errors
        """Index in the batch and what is wrong with it."""


class TrailingBytes(InvalidRecord):
    """A good batch may be there, but more bytes follow that are no whole batch."""

    def __init__(self, batch_size: int, rest: int) -> None:
        super().__init__(f"{rest} bytes follow the batch.")
        self.batch_size = batch_size


def validate_produced(records: Buffer | None, rules: ProduceRules, *, now_ms: int, produce_version: int) -> BatchHeader:
    """The header of the one batch in `records`, which may be appended as it is."""
    if records is None or len(records) < HEADER_SIZE or records[MAGIC_POSITION] != MAGIC:
        raise _refuse_unreadable(records, produce_version)
    header = decode_header(records)
    attributes, last_delta, count = header.attributes, header.last_offset_delta, header.record_count
    size = header.batch_length + LOG_OVERHEAD
    if size != len(records):
        raise _refuse_size(records, size, produce_version)
    compression = attributes & COMPRESSION_MASK
    if compression >= _ZSTD:
        _check_compression(compression, produce_version)
    _check_size(size, rules)
    if crc32c(view_of(records, ATTRIBUTES_POSITION, size)) != header.crc:
        raise CorruptBatch("The checksum of the batch is wrong.")
    if header.base_offset != 0:
        raise RejectedBatch(f"The base offset of a produced batch must be 0, not {header.base_offset}.")
    if count <= 0 or last_delta != count - 1:
        raise RejectedBatch(f"A batch of {count} records whose last offset delta is {last_delta}.")
    if attributes & (CONTROL_MASK | DELETE_HORIZON_MASK):
        raise RejectedBatch("Clients may not write control records or delete horizons.")
    if header.producer_id >= 0:
        if header.base_sequence < 0:
            raise RejectedBatch(f"Sequence number {header.base_sequence} in a batch of producer {header.producer_id}.")
    elif attributes & TRANSACTIONAL_MASK:
        raise RejectedBatch("A transactional batch without a producer id.")
    if compression == 0 and count * RECORD_SIZE_MIN > size - HEADER_SIZE:
        raise RejectedBatch(f"{count} records do not fit into {size - HEADER_SIZE} bytes.")
    if attributes & TIMESTAMP_TYPE_MASK:
        raise BrokerError(ErrorCode.INVALID_TIMESTAMP, "Producers may not set the timestamp type to LogAppendTime.")
    base_ts, max_ts = header.base_timestamp, header.max_timestamp
    latest_ms = now_ms + rules.timestamp_after_max_ms
    if (max_ts > latest_ms or base_ts > latest_ms) and not rules.log_append_time:
        raise BrokerError(ErrorCode.INVALID_TIMESTAMP, _describe_timestamp(max(max_ts, base_ts), rules, now_ms))
    if rules.opens_records:
        _validate_records(records, header, rules, now_ms)
    return header


def prepare_produced(
    records: Buffer | None, rules: ProduceRules, *, now_ms: int, produce_version: int
) -> tuple[Buffer, BatchHeader]:
    """`validate_produced`, and the batch as the topic wants it stored: usually the very bytes that came in."""
    try:
        header = validate_produced(records, rules, now_ms=now_ms, produce_version=produce_version)
    except TrailingBytes as trailing:
        # As Kafka: the beginning of a second batch, cut short, is not looked at.
        assert records is not None
        records = memoryview(records)[: trailing.batch_size]
        header = validate_produced(records, rules, now_ms=now_ms, produce_version=produce_version)
    assert records is not None
    target = rules.target_compression
    if target is not None and target != header.attributes & COMPRESSION_MASK:
        payload = _open(records, header, rules)
        if not rules.opens_records:
            _check_count(payload, header)
        changed = header.replace(attributes=header.attributes & ~COMPRESSION_MASK | target)
        records = assemble_batch(changed, payload, level=rules.compression_level)
        header = decode_header(records)
        _check_size(header.size_in_bytes, rules)
    if header.max_timestamp < header.base_timestamp:
        # Some producers leave the largest timestamp out; Kafka computes it, and lookups by time rely on it.
        payload = _open(records, header, rules)
        deltas = [span.timestamp_delta for span in iterate_spans(payload, header.record_count)]
        return rewrite_header(records, header, max_timestamp=header.base_timestamp + max(deltas))
    return records, header


def _check_size(size: int, rules: ProduceRules) -> None:
    if size > rules.max_message_bytes:
        raise BrokerError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The batch of {size} bytes is larger than max.message.bytes ({rules.max_message_bytes}).",
        )


def _check_count(payload: bytes, header: BatchHeader) -> None:
    """A batch that this node rebuilds must hold what its header says."""
    for _ in iterate_spans(payload, header.record_count):
        pass


def _open(records: Buffer, header: BatchHeader, rules: ProduceRules) -> bytes:
    """The records, decompressed. What cannot be opened will never be: the producer must not send it again."""
    try:
        return load_payload(records, header, rules.decompressed_bytes_max)
    except DecompressionError as error:
        raise InvalidRecord(error.message) from None


def _validate_records(records: Buffer, header: BatchHeader, rules: ProduceRules, now_ms: int) -> None:
    """The checks that need every record; each offending one is named."""
    payload = _open(records, header, rules)
    oldest_ms = now_ms - rules.timestamp_before_max_ms
    latest_ms = now_ms + rules.timestamp_after_max_ms
    keyless: list[tuple[int, str]] = []
    untimely: list[tuple[int, str]] = []
    for index, span in enumerate(iterate_spans(payload, header.record_count)):
        timestamp = header.base_timestamp + span.timestamp_delta
        if rules.compacted and span.key_size < 0:
            keyless.append((index, "Compacted topic cannot accept message without key."))
        elif not rules.log_append_time and timestamp != NO_TIMESTAMP and not oldest_ms <= timestamp <= latest_ms:
            untimely.append((index, _describe_timestamp(timestamp, rules, now_ms)))
        if rules.validate_records:
            if span.offset_delta != index:
                raise InvalidRecord(f"Record {index} has offset delta {span.offset_delta}.")
            decode_record_headers(payload, span.headers_start, span.end)
    if untimely:
        raise RecordsRejected(ErrorCode.INVALID_TIMESTAMP, untimely + keyless)
    if keyless:
        raise RecordsRejected(ErrorCode.INVALID_RECORD, keyless)


def _check_compression(compression: int, produce_version: int) -> None:
    if compression > _ZSTD:
        raise InvalidRecord(f"Unknown compression type {compression}.")
    if produce_version < PRODUCE_VERSION_ZSTD:
        raise BrokerError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Produce version {produce_version} may not carry batches compressed with zstd.",
        )


def _refuse_unreadable(records: Buffer | None, produce_version: int) -> BrokerError:
    """The error for bytes that hold no batch of magic 2, distinguished as Kafka does."""
    if records is None or len(records) < LOG_OVERHEAD:
        return InvalidRecord(f"Produce version {produce_version} must carry one record batch per partition.")
    length = _INT32.unpack_from(records, 8)[0]
    if length < _LEGACY_SIZE_MIN:
        return CorruptBatch(f"Batch length {length} is less than the smallest possible ({_LEGACY_SIZE_MIN}).")
    if len(records) <= MAGIC_POSITION:
        return InvalidRecord(f"Produce version {produce_version} must carry one record batch per partition.")
    magic = records[MAGIC_POSITION]
    if magic > MAGIC:
        return CorruptBatch(f"Invalid magic {magic} in the batch.")
    if magic < MAGIC:
        return InvalidRecord(f"Produce version {produce_version} may only carry batches with magic version 2.")
    return InvalidRecord("The batch is cut short.")


def _refuse_size(records: Buffer, size: int, produce_version: int) -> BrokerError:
    """The batch does not end where the bytes end."""
    rest = len(records) - size
    if rest < 0:
        return InvalidRecord(f"The batch of {size} bytes is cut short at {len(records)}.")
    if rest >= LOG_OVERHEAD:
        length = _INT32.unpack_from(records, size + 8)[0]
        if length < _LEGACY_SIZE_MIN:
            return CorruptBatch(f"Batch length {length} is less than the smallest possible ({_LEGACY_SIZE_MIN}).")
        if length + LOG_OVERHEAD <= rest:
            return InvalidRecord(
                f"Produce version {produce_version} must carry exactly one record batch per partition."
            )
    return TrailingBytes(size, rest)


def _describe_timestamp(timestamp: int, rules: ProduceRules, now_ms: int) -> str:
    return (
        f"Timestamp {timestamp} is outside [{now_ms - rules.timestamp_before_max_ms}, "
        f"{now_ms + rules.timestamp_after_max_ms}]."
    )
