"""Records as lines of JSON: what is written can be read, sent again, and is the same."""

from __future__ import annotations

import contextlib
import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.gateways.http.ingest import LineSplitter
from tidelog.gateways.http.record_lines import (
    Encoding,
    LineFormat,
    WrongLine,
    decode_event_id,
    decode_line,
    event_id,
)
from tidelog.model import limits
from tidelog.records.record import Record

nullable_bytes = st.none() | st.binary(max_size=40)
records = st.builds(
    Record,
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**63 - 1),
    nullable_bytes,
    nullable_bytes,
    st.lists(st.tuples(st.text(max_size=5), nullable_bytes), max_size=3).map(tuple),
)


def write(record: Record, encoding: Encoding, *, is_sse: bool = False) -> bytes:
    lines = LineFormat("t%", encoding, is_sse=is_sse).write(3, iter([record]), {1: 5}, 1 << 20)
    assert len(lines) == 1
    return lines[0]


@given(records)
def test_text_can_be_sent_again(record: Record) -> None:
    line = write(record, Encoding.TEXT)
    fields = json.loads(line)
    assert line.count(b"\n") == 1
    assert (fields["topic"], fields["partition"], fields["offset"]) == ("t%", 3, record.offset)
    again = decode_line(
        json.dumps({each: fields[each] for each in ("key", "value", "headers", "timestamp")}).encode(), 0
    )
    assert again.record == (record.key, record.value, record.timestamp, record.headers)


@given(records)
def test_every_encoding_is_one_line_of_json(record: Record) -> None:
    for encoding in Encoding:
        line = write(record, encoding)
        assert json.loads(line)["offset"] == record.offset
        event = write(record, encoding, is_sse=True)
        assert event == b"id: 1:5,3:%d\ndata: %b\n" % (record.offset, line)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_json_values_are_themselves(value: object) -> None:
    written = json.dumps(value, indent=1, ensure_ascii=False).encode()
    line = write(Record(0, 0, None, written), Encoding.JSON)
    assert json.loads(line)["value"] == value


def test_writing_stops_at_its_size() -> None:
    lines = LineFormat("t", Encoding.TEXT, is_sse=False)
    rest = iter([Record(offset, 0, None, b"x" * 100) for offset in range(10)])
    read: dict[int, int] = {}
    first = lines.write(0, rest, read, 350)
    assert (len(first), read) == (2, {0: 1})
    assert len(lines.write(0, rest, read, 1 << 20)) == 8
    assert lines.write(0, rest, read, 1 << 20) == []
    assert read == {0: 9}


@given(st.dictionaries(st.integers(0, 2**31 - 1), st.integers(-1, 2**63 - 1), min_size=1, max_size=5))
def test_event_ids(read: dict[int, int]) -> None:
    assert decode_event_id(event_id(read)) == read


@pytest.mark.parametrize("said", ["0", "0:", ":1", "a:1", "0:1,", "0:-2", "0:1;1:2", "0:99999999999999999999", "١:1"])
def test_what_is_no_event_id(said: str) -> None:
    with pytest.raises(ValueError, match=r"^"):
        decode_event_id(said)


@given(st.binary(max_size=200))
def test_any_line_is_a_record_or_wrong(line: bytes) -> None:
    with contextlib.suppress(WrongLine):
        decode_line(line, 5)


@given(
    st.lists(st.binary(max_size=20).map(lambda each: each.replace(b"\n", b"")), max_size=8),
    st.lists(st.integers(0, 200), max_size=8),
)
def test_lines_do_not_depend_on_how_they_arrive(lines: list[bytes], cuts: list[int]) -> None:
    body = b"\n".join(lines)
    places = [0, *sorted(min(each, len(body)) for each in cuts), len(body)]
    splitter = LineSplitter()
    found = [line for begin, end in itertools.pairwise(places) for line in splitter.feed(body[begin:end])]
    found += splitter.end()
    stripped = [each.strip(b" \t\r") for each in lines]
    assert found == [each for each in stripped if each]


def test_the_longest_line() -> None:
    longest = b"x" * limits.HTTP_LINE_BYTES_MAX
    splitter = LineSplitter()
    assert list(splitter.feed(longest + b"\n")) == [longest]
    assert list(splitter.feed(longest)) == []
    assert list(splitter.feed(b"x")) == []
    assert list(splitter.feed(b"y" * 100)) == []
    assert list(splitter.feed(b"z\nnext\n")) == [None, b"next"]
