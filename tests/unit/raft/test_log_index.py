"""The index of the log against a list of entries."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidelog.raft.core.log_index import UNKNOWN_TERM, LogIndex

ENTRIES = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2), st.integers(1, 100)), max_size=20)
"""Records, step of the term, bytes."""


def build(entries: list[tuple[int, int, int]]) -> tuple[LogIndex, list[tuple[int, int, int, int]]]:
    index, model = LogIndex(), []
    offset = term = 0
    for records, step, size in entries:
        term += step
        index.append(offset + records, term, size)
        model.append((offset, offset + records, term, size))
        offset += records
    return index, model


@given(ENTRIES, st.data())
def test_terms_and_ends_are_those_of_the_entries(entries: list[tuple[int, int, int]], data: st.DataObject) -> None:
    index, model = build(entries)
    if data.draw(st.booleans()):
        cut = data.draw(st.integers(0, index.end_offset))
        index.truncate_to(cut)
        model = [each for each in model if each[1] <= cut]
    start, start_term = 0, 0
    if model and data.draw(st.booleans()):
        start, start_term = data.draw(st.sampled_from([(each[1], each[2]) for each in model]))
        index.drop_before(start)
        model = [each for each in model if each[0] >= start]
    end = model[-1][1] if model else start
    assert (index.start_offset, index.end_offset) == (start, end)
    assert index.term_before(start) == start_term
    for base, entry_end, term, _ in model:
        assert all(index.term_before(offset) == term for offset in range(base + 1, entry_end + 1))
        assert index.matches(entry_end, term)
        assert not any(index.matches(offset, term) for offset in range(base + 1, entry_end))
        assert index.end_within(base, 0) == entry_end, "one entry always fits"
    assert index.term_before(end + 1) == UNKNOWN_TERM
    if start:
        assert index.term_before(start - 1) == UNKNOWN_TERM
    index.append(end + 1, index.last_term + 1, 1)
    assert index.log_end == (index.last_term, end + 1)


@given(ENTRIES, st.integers(0, 300))
def test_as_many_entries_are_taken_as_fit(entries: list[tuple[int, int, int]], bytes_max: int) -> None:
    index, model = build(entries)
    for base, first_end, _, _ in model:
        end = index.end_within(base, bytes_max)
        size = index.bytes_between(base, end)
        assert size == sum(each[3] for each in model if base <= each[0] < end)
        assert size <= bytes_max or end == first_end
        following = [each for each in model if each[0] == end]
        assert not following or size + following[0][3] > bytes_max


@given(ENTRIES, ENTRIES, ENTRIES)
def test_two_logs_are_never_thought_to_part_before_they_do(
    shared: list[tuple[int, int, int]], ours: list[tuple[int, int, int]], theirs: list[tuple[int, int, int]]
) -> None:
    """Leader and follower, as Raft lets them be: one history, then different terms."""
    ours = [
        (records, step * 2 or 2, size) if at == 0 else (records, step * 2, size)
        for at, (records, step, size) in enumerate(ours)
    ]
    theirs = [(records, step * 2 + 1 if at == 0 else step * 2, size) for at, (records, step, size) in enumerate(theirs)]
    (leader, _), (follower, _) = build(shared + ours), build(shared + theirs)
    common = sum(records for records, _, _ in shared)
    prev, tries = leader.end_offset, 0
    while not follower.matches(prev, leader.term_before(prev)):
        hint = follower.last_possible_match(prev, leader.term_before(prev))
        behind = leader.last_possible_match(hint.offset, hint.term)
        assert behind.offset < prev, "every try comes nearer"
        prev, tries = behind.offset, tries + 1
    assert prev >= common
    assert tries <= 2 * (len(ours) + len(theirs)) + 1
