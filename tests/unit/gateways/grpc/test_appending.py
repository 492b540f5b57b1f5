from __future__ import annotations

import pytest

from tidelog.gateways.grpc.appending import encode_batch
from tidelog.records.builder import NewRecord, build_batch


@pytest.mark.parametrize(
    "records",
    [
        [NewRecord(None, b"a", 5), NewRecord(None, b"", 5)],
        [NewRecord(None, b"a", 5), NewRecord(None, b"b", 6)],
        [NewRecord(None, b"a", 5), NewRecord(b"", b"b", 5)],
        [NewRecord(None, b"a", 5), NewRecord(None, None, 5)],
        [NewRecord(None, b"a", 5), NewRecord(None, b"b", 5, (("h", None),))],
    ],
)
def test_a_batch_is_the_same_however_it_is_made(records: list[NewRecord]) -> None:
    assert encode_batch(records) == build_batch(records)
