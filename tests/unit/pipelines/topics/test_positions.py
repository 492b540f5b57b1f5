"""Starts and ends in the connector's words."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from tidelog.pipelines.errors import PipelineError
from tidelog.pipelines.topics.positions import Position, end_options, start_options


def test_words_pass_through() -> None:
    assert start_options("earliest", ["t"], {"t": 1}) == {"startingOffsets": "earliest"}
    assert start_options("latest", ["t"], {"t": 1}) == {"startingOffsets": "latest"}
    assert end_options("latest", ["t"], {"t": 1}) == {"endingOffsets": "latest"}


def test_partitions_without_an_offset_are_read_whole() -> None:
    assert json.loads(start_options({1: 7}, ["t"], {"t": 3})["startingOffsets"]) == {"t": {"0": -2, "1": 7, "2": -2}}
    assert json.loads(end_options({1: 7}, ["t"], {"t": 3})["endingOffsets"]) == {"t": {"0": -1, "1": 7, "2": -1}}


def test_offsets_per_topic() -> None:
    options = start_options({"a": {0: 5}}, ["a", "b"], {"a": 1, "b": 1})
    assert json.loads(options["startingOffsets"]) == {"a": {"0": 5}, "b": {"0": -2}}


@pytest.mark.parametrize(
    "moment",
    [
        "1767323045000",
        "2026-01-02T03:04:05",
        "2026-01-02T04:04:05+01:00",
        datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        1767323045000,
    ],
)
def test_a_time_is_milliseconds_since_1970(moment: Position) -> None:
    assert start_options(moment, ["t"], {"t": 1})["startingTimestamp"] == "1767323045000"
    assert end_options(moment, ["t"], {"t": 1})["endingTimestamp"] == "1767323045000"


@pytest.mark.parametrize(
    ("position", "topics", "message"),
    [
        ("yesterday", ["t"], "ISO 8601"),
        (True, ["t"], "offsets per partition"),
        ({3: 0}, ["t"], "no partition 3"),
        ({0: -5}, ["t"], "negative"),
        ({0: 1}, ["t", "u"], "per topic"),
        ({"x": {0: 1}}, ["t"], "x is not among the topics"),
    ],
)
def test_a_wrong_position_is_one_line(position: Position, topics: list[str], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        start_options(position, topics, {"t": 2, "u": 2})


def test_an_end_that_reads_nothing_is_refused() -> None:
    with pytest.raises(PipelineError, match="read nothing"):
        end_options("earliest", ["t"], {"t": 1})
