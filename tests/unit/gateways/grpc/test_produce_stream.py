from __future__ import annotations

from tidelog.gateways.batching import RECORD_OVERHEAD_BYTES, size_of
from tidelog.gateways.grpc.mq.produce_stream import batches_of
from tidelog.model.limits import GRPC_STREAM_BATCH_BYTES_MAX
from tidelog.records.builder import NewRecord


def record(size: int) -> NewRecord:
    return NewRecord(None, b"x" * (size - RECORD_OVERHEAD_BYTES))


def test_the_size_of_a_record_has_all_of_it() -> None:
    whole = NewRecord(b"key", b"value", 1, (("name", b"content"), ("null", None)))
    assert size_of(whole) == RECORD_OVERHEAD_BYTES + 3 + 5 + (4 + 7 + 2) + (4 + 2)
    assert size_of(NewRecord(None, None)) == RECORD_OVERHEAD_BYTES


def test_batches_end_at_the_limit() -> None:
    half = record(GRPC_STREAM_BATCH_BYTES_MAX // 2)
    large = record(GRPC_STREAM_BATCH_BYTES_MAX * 2)
    assert [len(batch) for batch in batches_of([half] * 5)] == [2, 2, 1]
    assert [len(batch) for batch in batches_of([large, half, half, large])] == [1, 2, 1]
    assert [len(batch) for batch in batches_of([half])] == [1]
