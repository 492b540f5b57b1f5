"""Batches as they are built."""

from __future__ import annotations

import pytest

from tidelog.records.builder import NewRecord, build_batch, build_batch_of_values


@pytest.mark.parametrize(
    "values",
    [[b"x"], [b""], [b"x" * 100] * 300, [b"a", b"bb", b"a" * 70_000, b""], [bytes(size) for size in range(200)]],
)
def test_a_batch_of_values_is_that_of_records_with_values_only(values: list[bytes]) -> None:
    assert build_batch_of_values(values, 1_000) == build_batch([NewRecord(None, value, 1_000) for value in values])
