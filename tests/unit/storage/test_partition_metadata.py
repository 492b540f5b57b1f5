"""`partition.metadata` as Kafka writes it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.storage.log_building import open_log

from tidelog.model.ids import encode_topic_id
from tidelog.storage.partition_metadata import read_partition_metadata, write_partition_metadata

TOPIC_ID = bytes(range(16))


def test_the_file_is_kafkas(tmp_path: Path) -> None:
    write_partition_metadata(str(tmp_path), TOPIC_ID)
    assert (tmp_path / "partition.metadata").read_text() == f"version: 0\ntopic_id: {encode_topic_id(TOPIC_ID)}"
    assert read_partition_metadata(str(tmp_path)) == TOPIC_ID


@pytest.mark.parametrize("content", [None, b"", b"\x00" * 43, b"version: 0\n", b"version: 0\ntopic_id: short"])
def test_an_unreadable_file_says_nothing(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "partition.metadata").write_bytes(content)
    assert read_partition_metadata(str(tmp_path)) is None


def test_a_new_log_writes_it_and_an_old_one_keeps_it(tmp_path: Path) -> None:
    open_log(tmp_path / "log", topic_id=TOPIC_ID).close()
    assert read_partition_metadata(str(tmp_path / "log")) == TOPIC_ID
    open_log(tmp_path / "log", topic_id=bytes(16)).close()
    assert read_partition_metadata(str(tmp_path / "log")) == TOPIC_ID
