"""A snapshot as Kafka writes it: batches between a header and a footer, so that a file cut short is seen as such.

Named `<end offset>-<epoch>.checkpoint`: it stands for every record below the end offset.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.framing import UnreadableMetadata, decode_metadata_record, encode_metadata_record
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.image_records import image_records
from tidelog.metadata.replay import ImageBuilder
from tidelog.model.errors import BrokerError
from tidelog.protocol.generated.snapshot_footer_record import SnapshotFooterRecord
from tidelog.protocol.generated.snapshot_header_record import SnapshotHeaderRecord
from tidelog.records.batch import decode_header, iterate_headers, verify_crc
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.control import ControlType, decode_control_type, encode_control_key
from tidelog.records.record import iterate_records

RECORDS_PER_BATCH = 1000
SNAPSHOT_SUFFIX = ".checkpoint"


class SnapshotId(NamedTuple):
    end_offset: int
    """Of the log: the snapshot holds everything below."""
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.end_offset:020d}-{self.epoch:010d}{SNAPSHOT_SUFFIX}"


def parse_snapshot_name(name: str) -> SnapshotId | None:
    stem = name.removesuffix(SNAPSHOT_SUFFIX)
    offset, dash, epoch = stem.partition("-")
    if stem == name or not dash or len(offset) != 20 or len(epoch) != 10:
        return None
    return SnapshotId(int(offset), int(epoch)) if (offset + epoch).isascii() and (offset + epoch).isdigit() else None


def encode_snapshot(image: MetadataImage, now_ms: int) -> bytes:
    def control(kind: ControlType, value: bytes, offset: int) -> bytes:
        record = NewRecord(encode_control_key(kind), value, now_ms)
        return build_batch([record], base_offset=offset, control=True, partition_leader_epoch=image.epoch)

    header = SnapshotHeaderRecord(last_contained_log_timestamp=now_ms).encode(0)
    batches = [control(ControlType.SNAPSHOT_HEADER, header, 0)]
    offset = 1
    values = (NewRecord(None, encode_metadata_record(record), now_ms) for record in image_records(image))
    while chunk := list(islice(values, RECORDS_PER_BATCH)):
        batches.append(build_batch(chunk, base_offset=offset, partition_leader_epoch=image.epoch))
        offset += len(chunk)
    batches.append(control(ControlType.SNAPSHOT_FOOTER, SnapshotFooterRecord().encode(0), offset))
    return b"".join(batches)


def decode_snapshot(data: bytes, snapshot: SnapshotId, base: MetadataImage) -> tuple[MetadataImage, MetadataDelta]:
    """The image of a snapshot. `base` is an empty image of this cluster. Raises UnreadableMetadata if damaged."""
    builder = ImageBuilder(base)
    kinds: list[int] = []
    try:
        for position, header in iterate_headers(data):
            if not verify_crc(data, position, header):
                raise UnreadableMetadata(f"bad checksum at byte {position}")
            batch = data[position : position + header.size_in_bytes]
            if header.is_control:
                kinds += (decode_control_type(record.key) for record in iterate_records(batch))
            else:
                for record in iterate_records(batch):
                    builder.replay(decode_metadata_record(record.value or b""))
    except BrokerError as error:
        raise UnreadableMetadata(error.message) from error
    if not kinds or kinds[0] != ControlType.SNAPSHOT_HEADER or kinds[-1] != ControlType.SNAPSHOT_FOOTER:
        raise UnreadableMetadata("it has no end")
    return builder.finish(snapshot.end_offset - 1, snapshot.epoch)


def build_metadata_batch(values: Iterable[bytes], now_ms: int) -> bytes:
    """The records of one decision as one batch."""
    return build_batch(NewRecord(None, value, now_ms) for value in values)


def decode_metadata_batch(batch: bytes) -> Iterator[bytes]:
    """The values of the records in a batch of the metadata log; nothing for a control batch."""
    if not decode_header(batch).is_control:
        for record in iterate_records(batch):
            yield record.value or b""
