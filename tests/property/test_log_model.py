"""The log against a list: whatever is done to it, in whatever order, readers see exactly what the list says.

The model knows nothing of files, segments or indexes. Crashes are simulated on the files: the tail is cut or garbage
is appended, indexes and snapshots vanish; the log must then be a prefix of the model that keeps all that was flushed.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from tests.unit.storage.partition_log import COMPACT, NOW, PARTITION, compact, config, visible

from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.records.batch import decode_header, iterate_headers
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.record import iterate_records
from tidelog.runtime.system import System
from tidelog.storage.log import Log
from tidelog.storage.retention import apply_retention

KEYS = [b"a", b"b", b"c", b"a key of more than fifteen bytes"]
PRODUCERS = [1, 2]


class Entry(NamedTuple):
    """A record as the model knows it."""

    offset: int
    key: bytes
    value: bytes | None
    timestamp: int


class Sent(NamedTuple):
    """A batch of a producer: what it may send again."""

    base_sequence: int
    count: int
    base_offset: int


class LogMachine(RuleBasedStateMachine):
    """`entries` is the log as readers must see it; `end` is where it ends."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="tidelog-model-"))
        self.settings = {
            "cleanup_policy": COMPACT,
            "internal_segment_bytes": 1200,
            "index_interval_bytes": 100,
            "delete_retention_ms": 2**50,
        }
        self.now_ms = NOW
        self.entries: list[Entry] = []
        self.end = 0
        self.start = 0
        self.flushed = 0
        self.cleaned = 0
        self.ends_in_a_gap = False
        """The log was truncated to an offset whose batch may be compacted away: files cannot tell that end."""
        self.next_sequence = dict.fromkeys(PRODUCERS, 0)
        self.sent: dict[int, list[Sent]] = {producer: [] for producer in PRODUCERS}
        self.log = self._open(clean=True)

    def _open(self, *, clean: bool) -> Log:
        return Log.open(
            self.directory / "topic-0",
            PARTITION,
            config(**self.settings),
            system=System(lambda: self.now_ms),
            clean_shutdown=clean,
            recovery_point=self.flushed,
            log_start_offset=self.start,
        )

    def teardown(self) -> None:
        self.log.close(clean=False)
        shutil.rmtree(self.directory)

    # -- writing -------------------------------------------------------------------------------------------------

    @rule(
        pairs=st.lists(
            st.tuples(st.sampled_from(KEYS), st.one_of(st.none(), st.binary(max_size=150))), min_size=1, max_size=6
        ),
        codec=st.sampled_from([0, 0, 2, 4]),
        producer=st.sampled_from([None, *PRODUCERS]),
        tick=st.integers(0, 10),
    )
    def append(self, pairs: list[tuple[bytes, bytes | None]], codec: int, producer: int | None, tick: int) -> None:
        self.now_ms += tick
        fields = {}
        if producer is not None:
            sequence = self.next_sequence[producer]
            fields = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence}
            self.next_sequence[producer] = sequence + len(pairs)
            self.sent[producer].append(Sent(sequence, len(pairs), self.end))
        records = [NewRecord(key, value, self.now_ms) for key, value in pairs]
        batch = build_batch(records, compression=codec, **fields)
        result = self.log.writer.append_as_leader(batch, decode_header(batch), 0, self.now_ms)
        assert (result.base_offset, result.last_offset, result.duplicate) == (
            self.end,
            self.end + len(pairs) - 1,
            False,
        )
        self.ends_in_a_gap = False
        self.entries += (Entry(self.end + at, key, value, self.now_ms) for at, (key, value) in enumerate(pairs))
        self.end += len(pairs)

    @rule(producer=st.sampled_from(PRODUCERS), back=st.integers(1, 5))
    def send_again(self, producer: int, back: int) -> None:
        """One of the last five batches comes a second time: it is recognised and answered with its first place."""
        if back > len(self.sent[producer]):
            return
        sent = self.sent[producer][-back]
        batch = build_batch(
            [NewRecord(b"a", b"again", self.now_ms)] * sent.count,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=sent.base_sequence,
        )
        refusal = None
        try:
            result = self.log.writer.append_as_leader(batch, decode_header(batch), 0, self.now_ms)
        except BrokerError as error:
            refusal = error.code
        if refusal is not None:
            # After a restart only the last batch is sure to be remembered; others are refused, never taken twice.
            assert refusal == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            assert back > 1
            return
        assert (result.duplicate, result.base_offset) == (True, sent.base_offset)

    @rule(producer=st.sampled_from(PRODUCERS), gap=st.integers(1, 100))
    def skip_a_sequence(self, producer: int, gap: int) -> None:
        if not self.sent[producer]:
            return
        batch = build_batch(
            [NewRecord(b"a", b"x", self.now_ms)],
            producer_id=producer,
            producer_epoch=0,
            base_sequence=self.next_sequence[producer] + gap,
        )
        with pytest.raises(BrokerError) as caught:
            self.log.writer.append_as_leader(batch, decode_header(batch), 0, self.now_ms)
        assert caught.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    # -- reading -------------------------------------------------------------------------------------------------

    @rule(data=st.data(), max_bytes=st.integers(1, 3000), min_one_batch=st.booleans())
    def read(self, data: st.DataObject, max_bytes: int, min_one_batch: bool) -> None:
        offset = data.draw(st.integers(self.start, self.end))
        upper = data.draw(st.integers(offset, self.end))
        region = self.log.reader.read(offset, max_bytes, upper_offset=upper, min_one_batch=min_one_batch)
        content = region.load()
        assert len(content) == region.size
        headers = list(iterate_headers(content))
        if len(headers) > 1 or not min_one_batch:
            assert region.size <= max_bytes
        found = [
            (record.offset, record.key, record.value)
            for position, _ in headers
            for record in iterate_records(memoryview(content)[position:])
            if record.offset >= offset
        ]
        assert all(position_offset < upper for position_offset, _, _ in found)
        expected = [(entry.offset, entry.key, entry.value) for entry in self.entries if entry.offset >= offset]
        assert found == expected[: len(found)]
        whole_first = [entry for entry in expected if entry[0] < upper]
        if min_one_batch and whole_first and not found and headers:
            # Only empty batches fitted: nothing of the model lies in them.
            assert headers[-1][1].next_offset <= whole_first[0][0]

    @rule(offset=st.integers(1, 50))
    def read_outside(self, offset: int) -> None:
        for outside in (self.end + offset, self.start - offset):
            with pytest.raises(BrokerError) as caught:
                self.log.reader.read(outside, 100, upper_offset=self.end, min_one_batch=True)
            assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE

    @rule(back=st.integers(-5, 200))
    def look_up_a_time(self, back: int) -> None:
        timestamp = self.now_ms - back
        expected = next((entry for entry in self.entries if entry.timestamp >= timestamp), None)
        found = self.log.reader.offset_for_timestamp(timestamp)
        if expected is None:
            assert found is None
        else:
            assert found is not None
            assert (found.timestamp, found.offset) == (expected.timestamp, expected.offset)

    # -- rearranging ---------------------------------------------------------------------------------------------

    @rule()
    def roll(self) -> None:
        self.log.writer.roll()

    @rule()
    def flush(self) -> None:
        self.log.flusher.flush()
        self.flushed = self.log.recovery_point
        assert self.flushed == self.end

    @precondition(lambda self: self.end > self.start)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        # Never below what was compacted: a log is compacted up to its high watermark at most, and truncated above it.
        # Where that was not so, batches that only compaction removed could not be told from batches never sent.
        self.log.rearranger.truncate_to(data.draw(st.integers(max(self.start, min(self.cleaned, self.end)), self.end)))
        self._cut_to(self.log.log_end_offset)
        self.ends_in_a_gap = True
        if not self.entries:
            # As in Kafka, a log cut below its first segment begins anew where it was cut.
            assert self.start <= self.log.log_start_offset <= self.end
            self.start = self.log.log_start_offset

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        self.start = self.log.rearranger.delete_records_before(data.draw(st.integers(self.start, self.end)))
        self.entries = [entry for entry in self.entries if entry.offset >= self.start]
        apply_retention(self.log, self.end, self.now_ms)
        assert self.log.log_start_offset == self.start

    @rule(keep_bytes=st.integers(0, 4000))
    def retain(self, keep_bytes: int) -> None:
        kept = config(
            **{
                **self.settings,
                "cleanup_policy": frozenset({"delete"}),
                "retention_bytes": keep_bytes,
                "retention_ms": -1,
            }
        )
        apply_retention(self.log, self.end, self.now_ms)
        before = self.log.size_bytes
        self.log.update_config(kept)
        apply_retention(self.log, self.end, self.now_ms)
        self.log.update_config(config(**self.settings))
        assert self.log.size_bytes >= min(before, keep_bytes)
        assert self.log.log_start_offset >= self.start
        self.start = self.log.log_start_offset
        self.entries = [entry for entry in self.entries if entry.offset >= self.start]

    @rule(keys_max=st.integers(1, 5))
    def compact(self, keys_max: int) -> None:
        """Up to the reported offset, only the last record of each key is left; above it, everything is."""
        if self.log.segments[0] is self.log.active_segment:
            return
        before = self.cleaned if self.start <= self.cleaned <= self.end else self.start
        self.cleaned = compact(self.log, before, now_ms=self.now_ms, keys_max=keys_max)
        assert self.cleaned >= before
        last = {entry.key: entry.offset for entry in self.entries if entry.offset < self.cleaned}
        dirty = {entry.key for entry in self.entries if before <= entry.offset < self.cleaned}
        segment_end = self.log.active_segment.base_offset
        self.entries = [
            entry
            for entry in self.entries
            if entry.offset >= min(self.cleaned, segment_end)
            or entry.offset == last[entry.key]
            or entry.key not in dirty
        ]

    # -- stopping ------------------------------------------------------------------------------------------------

    @rule()
    def reopen_cleanly(self) -> None:
        self.log.close()
        self.flushed = self.end
        self.log = self._open(clean=True)
        assert not self.log.was_recovered

    @rule(seed=st.integers(0, 2**32), lose=st.booleans(), garbage=st.booleans(), indexes=st.booleans())
    def crash(self, seed: int, lose: bool, garbage: bool, indexes: bool) -> None:
        """The process dies. What was not flushed may be torn; files derived from the log may be gone."""
        chance = random.Random(seed)
        active = self.log.active_segment
        path = Path(active.path)
        flushed_bytes = 0
        if self.flushed > active.base_offset:
            place = active.locate(self.flushed)
            flushed_bytes = active.size if place is None else place[0]
        self.log.close(clean=False)
        if lose:
            os.truncate(path, chance.randint(flushed_bytes, path.stat().st_size))
        if garbage:
            with path.open("ab") as file:
                file.write(chance.choice([b"\x00" * chance.randint(1, 300), chance.randbytes(chance.randint(1, 300))]))
        if indexes:
            for derived in path.parent.iterdir():
                if derived.suffix in (".index", ".timeindex", ".snapshot") and chance.random() < 0.5:
                    derived.unlink()
        self.log = self._open(clean=False)
        end = self.log.log_end_offset
        assert end <= self.end
        if self.ends_in_a_gap:
            assert not [entry for entry in self.entries if end <= entry.offset < self.flushed]
        else:
            assert end >= self.flushed
            assert lose or end == self.end
        self._cut_to(end)

    def _cut_to(self, end: int) -> None:
        """The log now ends here: what was behind never happened, for producers too."""
        self.end = end
        self.start = min(self.start, end)
        self.flushed = min(self.flushed, end)
        self.cleaned = min(self.cleaned, end)
        self.entries = [entry for entry in self.entries if entry.offset < end]
        # Of a producer whose records are deleted only snapshots tell, and a crash may take those.
        known = {entry.producer_id for entry in self.log.producer_state}
        for producer, sent in self.sent.items():
            kept = [batch for batch in sent if batch.base_offset + batch.count <= end]
            if kept and kept[-1].base_offset < self.log.segments[0].base_offset and producer not in known:
                kept.clear()
            self.sent[producer] = kept
            self.next_sequence[producer] = kept[-1].base_sequence + kept[-1].count if kept else 0

    # -- what always holds ---------------------------------------------------------------------------------------

    @invariant()
    def readers_see_the_model(self) -> None:
        assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start, self.end)
        found = [(record.offset, record.key, record.value, record.timestamp) for record in visible(self.log)]
        assert found == [tuple(entry) for entry in self.entries]

    @invariant()
    def segments_follow_one_another(self) -> None:
        bases = [segment.base_offset for segment in self.log.segments]
        assert bases == sorted(set(bases))
        assert self.log.active_segment is self.log.segments[-1]


def explore(examples: int) -> None:
    run_state_machine_as_test(
        LogMachine,
        settings=settings(
            max_examples=examples, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
        ),
    )


def test_the_log_against_a_model() -> None:
    explore(60)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_log_against_a_model_for_long() -> None:
    explore(2000)
