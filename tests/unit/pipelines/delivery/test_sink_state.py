"""What an exactly-once sink pins, and which changes its checkpoint can follow."""

from __future__ import annotations

import json

import pytest

from tidelog.pipelines.delivery.sink_state import KeyEncoding, SinkState, follow, new_state, parse_state
from tidelog.pipelines.errors import PipelineError


def grown(state: SinkState, *, partitions: int, next_fresh: int, lanes: int = 4) -> SinkState:
    return follow(state, topic="t", partitioner="murmur2", partitions=partitions, lanes=lanes, next_fresh=next_fresh)


def test_a_begun_batch_keeps_the_layout_it_was_begun_with() -> None:
    state = grown(new_state("t", "murmur2", 2, 4), partitions=8, next_fresh=6)
    assert (state.layout(5).partitions, state.layout(5).lanes) == (2, 2)
    assert (state.layout(6).partitions, state.layout(6).lanes) == (8, 4)


def test_lanes_of_the_source_count_from_the_next_new_batch() -> None:
    state = new_state("t", "murmur2", 2, 4)
    followed = follow(state, topic="t", partitioner="murmur2", partitions=2, lanes=4, by_source=True, next_fresh=3)
    assert [followed.layout(batch).by_source for batch in (2, 3)] == [False, True]
    assert parse_state(json.loads(json.dumps(followed.to_json())), "here") == followed


def test_nothing_changes_while_nothing_changed() -> None:
    state = new_state("t", "murmur2", 2, 4)
    assert grown(state, partitions=2, next_fresh=9) is state


def test_a_layout_that_no_batch_was_begun_with_is_forgotten() -> None:
    state = grown(new_state("t", "murmur2", 2, 4), partitions=4, next_fresh=3)
    state = grown(state, partitions=6, next_fresh=3)
    assert [layout.partitions for layout in state.layouts] == [2, 6]


def test_a_first_run_that_began_nothing_starts_over() -> None:
    state = grown(new_state("t", "murmur2", 2, 4), partitions=4, next_fresh=0)
    assert [(layout.from_batch, layout.partitions) for layout in state.layouts] == [(0, 4)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"topic": "u"}, "writes topic t, not u"),
        ({"partitioner": "crc32"}, "partitioner murmur2, not crc32"),
        ({"partitions": 1}, "made again"),
        ({"key": KeyEncoding(format="registry-avro", schema="7")}, r"keys as json, not registry-avro \(schema id 7\)"),
    ],
)
def test_a_change_it_cannot_follow_is_refused(change: dict[str, object], message: str) -> None:
    wanted = {"topic": "t", "partitioner": "murmur2", "partitions": 2, "lanes": 4, "next_fresh": 5, **change}
    with pytest.raises(PipelineError, match=message):
        follow(new_state("t", "murmur2", 2, 4), **wanted)  # type: ignore[arg-type]


def test_state_survives_its_file() -> None:
    state = grown(new_state("t", "murmur2", 2, 4), partitions=8, next_fresh=6)
    assert parse_state(json.loads(json.dumps(state.to_json())), "file") == state


def test_a_state_that_does_not_speak_of_keys_has_plain_ones() -> None:
    state = new_state("t", "murmur2", 2, 4)
    content = state.to_json()
    del content["key"]
    assert parse_state(content, "file") == state
    framed = new_state("t", "murmur2", 2, 4, key=KeyEncoding(format="registry-protobuf", schema="3", message="m"))
    assert parse_state(json.loads(json.dumps(framed.to_json())), "file") == framed
    assert str(framed.key) == "registry-protobuf (schema id 3, m)"


@pytest.mark.parametrize("content", [{}, {"version": 2}, {"version": 1}, {"version": 1, "layouts": []}])
def test_a_damaged_file_is_one_line(content: dict[str, object]) -> None:
    with pytest.raises(PipelineError, match="file"):
        parse_state(content, "file")
