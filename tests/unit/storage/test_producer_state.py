"""Idempotence and transactions: the table of what is accepted, answered again or refused, and with which error."""

from __future__ import annotations

import pytest

from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.records.control import EndTransactionMarker
from tidelog.storage.producer_state import (
    SEQUENCE_MAX,
    ProducerState,
    decrement_sequence,
    increment_sequence,
)

DAY_MS = 86_400_000
PRODUCER = 7


class Sender:
    """Appends to a state as a leader does, with offsets that go on."""

    def __init__(self, state: ProducerState | None = None) -> None:
        self.state = state or ProducerState(DAY_MS)
        self.end = 0

    def send(
        self,
        epoch: int,
        sequence: int,
        count: int = 1,
        *,
        producer_id: int = PRODUCER,
        transactional: bool = False,
        at_ms: int = 1000,
    ) -> tuple[int, int] | None:
        """First and last offset of the earlier append when the batch is a duplicate."""
        earlier = self.state.check_batch(producer_id, epoch, sequence, count - 1, transactional=transactional)
        if earlier is not None:
            return earlier.first_offset, earlier.last_offset
        first = self.end
        self.end += count
        self.state.record_batch(producer_id, epoch, sequence, first, self.end - 1, at_ms, transactional=transactional)
        return None

    def mark(self, epoch: int, *, commit: bool, producer_id: int = PRODUCER, coordinator_epoch: int = 0) -> object:
        marker = EndTransactionMarker(producer_id, epoch, commit, coordinator_epoch, 1000, 0)
        self.state.check_marker(marker)
        self.end += 1
        return self.state.record_marker(marker, self.end - 1)


def refused(code: ErrorCode) -> pytest.RaisesExc[BrokerError]:
    return pytest.raises(BrokerError, check=lambda error: error.code == code)


@pytest.mark.parametrize("sequence", [0, 5, SEQUENCE_MAX])
def test_a_producer_nobody_remembers_may_begin_anywhere(sequence: int) -> None:
    sender = Sender()
    assert sender.send(0, sequence) is None
    assert sender.send(0, increment_sequence(sequence, 1)) is None


@pytest.mark.parametrize(
    ("epoch", "sequence", "code"),
    [
        pytest.param(3, 10, None, id="next"),
        pytest.param(3, 11, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, id="gap"),
        pytest.param(3, 9, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, id="overlap that is no whole batch"),
        pytest.param(3, 0, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, id="from zero in the same epoch"),
        pytest.param(2, 10, ErrorCode.INVALID_PRODUCER_EPOCH, id="older epoch"),
        pytest.param(2, 0, ErrorCode.INVALID_PRODUCER_EPOCH, id="older epoch from zero"),
        pytest.param(4, 0, None, id="newer epoch from zero"),
        pytest.param(4, 10, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, id="newer epoch not from zero"),
        pytest.param(9, 0, None, id="epochs may be skipped"),
    ],
)
def test_after_sequences_0_to_9_in_epoch_3(epoch: int, sequence: int, code: ErrorCode | None) -> None:
    sender = Sender()
    sender.send(3, 0, 10)
    if code is None:
        assert sender.send(epoch, sequence) is None
        return
    before = sender.state.snapshot()
    with refused(code):
        sender.send(epoch, sequence)
    assert sender.state.snapshot() == before


def test_the_last_five_batches_are_recognised_and_answered_with_their_offsets() -> None:
    sender = Sender()
    for number in range(6):
        sender.send(0, number * 10, 10)
    for number in range(1, 6):
        assert sender.send(0, number * 10, 10) == (number * 10, number * 10 + 9)
    with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        sender.send(0, 0, 10)
    assert sender.send(0, 60, 10) is None


def test_a_duplicate_must_match_both_ends() -> None:
    sender = Sender()
    sender.send(0, 0, 10)
    for sequence, count in ((0, 9), (1, 9), (0, 11)):
        with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
            sender.send(0, sequence, count)


def test_duplicates_of_an_older_epoch_are_not_recognised() -> None:
    sender = Sender()
    sender.send(0, 0, 10)
    sender.send(1, 0, 5)
    with refused(ErrorCode.INVALID_PRODUCER_EPOCH):
        sender.send(0, 0, 10)
    with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        sender.send(1, 0, 10)


def test_sequences_wrap_around() -> None:
    sender = Sender()
    sender.send(0, SEQUENCE_MAX - 4, 5)
    assert sender.send(0, 0, 3) is None
    assert sender.send(0, 3, 3) is None
    other = Sender()
    other.send(0, SEQUENCE_MAX - 4, 10)
    assert other.send(0, SEQUENCE_MAX - 4, 10) == (0, 9), "a batch over the edge is recognised"
    assert other.send(0, 5) is None
    with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        other.send(0, 0, 2)


@pytest.mark.parametrize(
    ("sequence", "increment", "expected"),
    [
        (0, 0, 0),
        (5, 3, 8),
        (SEQUENCE_MAX, 1, 0),
        (SEQUENCE_MAX - 1, 3, 1),
        (SEQUENCE_MAX, SEQUENCE_MAX, SEQUENCE_MAX - 1),
    ],
)
def test_sequence_arithmetic(sequence: int, increment: int, expected: int) -> None:
    assert increment_sequence(sequence, increment) == expected
    assert decrement_sequence(expected, increment) == sequence


def test_the_last_sequence_may_be_the_largest() -> None:
    sender = Sender()
    sender.send(0, SEQUENCE_MAX)
    assert sender.send(0, SEQUENCE_MAX) == (0, 0)
    with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        sender.send(0, 1)
    assert sender.send(0, 0) is None


def test_batches_the_broker_writes_for_a_producer_have_no_sequence() -> None:
    sender = Sender()
    assert sender.send(0, -1, 2, transactional=True) is None
    assert sender.send(0, -1, 2, transactional=True) is None, "the same again is not a duplicate"
    with refused(ErrorCode.INVALID_PRODUCER_EPOCH):
        sender.send(-1, -1, transactional=True)


def test_producers_do_not_disturb_each_other() -> None:
    sender = Sender()
    sender.send(0, 0, 3, producer_id=1)
    sender.send(5, 100, 3, producer_id=2)
    assert sender.send(0, 3, producer_id=1) is None
    assert sender.send(5, 103, producer_id=2) is None


def test_a_plain_batch_inside_a_transaction_is_refused() -> None:
    sender = Sender()
    sender.send(0, 0, transactional=True)
    with refused(ErrorCode.INVALID_TXN_STATE):
        sender.send(0, 1)
    assert sender.send(0, 1, transactional=True) is None
    sender.mark(0, commit=True)
    assert sender.send(0, 2) is None


def test_markers_of_old_epochs_and_old_coordinators_are_refused() -> None:
    sender = Sender()
    sender.send(2, 0, transactional=True)
    with refused(ErrorCode.INVALID_PRODUCER_EPOCH):
        sender.mark(1, commit=False)
    sender.mark(2, commit=True, coordinator_epoch=5)
    with refused(ErrorCode.TRANSACTION_COORDINATOR_FENCED):
        sender.mark(2, commit=True, coordinator_epoch=4)
    sender.mark(2, commit=True, coordinator_epoch=5)


@pytest.mark.parametrize("epoch", [2, 3])
def test_an_end_with_an_epoch_of_its_own_must_be_above_the_open_transaction(epoch: int) -> None:
    sender = Sender()
    sender.state.check_end_epoch(PRODUCER, epoch)
    sender.send(3, 0, transactional=True)
    with refused(ErrorCode.INVALID_PRODUCER_EPOCH):
        sender.state.check_end_epoch(PRODUCER, epoch)
    sender.state.check_end_epoch(PRODUCER, 4)
    sender.mark(4, commit=True)
    # The same marker once more: its answer was lost, and there is nothing left that it could end.
    sender.state.check_end_epoch(PRODUCER, 4)


def test_a_marker_that_raises_the_epoch_begins_sequences_anew() -> None:
    sender = Sender()
    sender.send(0, 0, 4, transactional=True)
    sender.mark(1, commit=False)
    with refused(ErrorCode.INVALID_PRODUCER_EPOCH):
        sender.send(0, 4, transactional=True)
    with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        sender.send(1, 4, transactional=True)
    assert sender.send(1, 0, transactional=True) is None


def test_a_marker_of_the_same_epoch_keeps_sequences() -> None:
    sender = Sender()
    sender.send(0, 0, 4, transactional=True)
    sender.mark(0, commit=True)
    with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        sender.send(0, 5, transactional=True)
    assert sender.send(0, 4, transactional=True) is None


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("commit", [False, True])
def test_a_sequence_of_a_transaction_that_has_ended_is_not_used_again(commit: bool, restarts: bool) -> None:
    sender = Sender()
    sender.send(0, 0, transactional=True)
    sender.send(0, 1, 2, transactional=True)
    assert sender.send(0, 1, 2, transactional=True) == (1, 2), "sent again in its own transaction"
    sender.mark(0, commit=commit)
    if restarts:
        sender = _restarted(sender)
    for sequence, count in ((1, 2), (0, 1), (1, 1), (2, 5)):
        with refused(ErrorCode.UNKNOWN_PRODUCER_ID):
            sender.send(0, sequence, count, transactional=True)
    with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        sender.send(0, 4, transactional=True)
    assert sender.send(0, 3, transactional=True) is None
    for sequence, count in ((1, 2), (0, 1)):
        with pytest.raises(BrokerError):
            sender.send(0, sequence, count, transactional=True)
    if restarts:
        sender = _restarted(sender)
    assert sender.send(0, 3, transactional=True) == (4, 4), "the transaction that is open takes its retries"


def test_a_retry_within_the_first_transaction_is_recognised_after_a_restart() -> None:
    sender = Sender()
    sender.send(0, 0, 4, transactional=True)
    assert _restarted(sender).send(0, 0, 4, transactional=True) == (0, 3)


def _restarted(sender: Sender) -> Sender:
    """From a snapshot, which has one batch of each producer and no markers."""
    restored = ProducerState(DAY_MS)
    restored.restore(sender.state.snapshot(), now_ms=2000)
    again = Sender(restored)
    again.end = sender.end
    return again


def test_a_marker_without_data_completes_nothing() -> None:
    sender = Sender()
    assert sender.mark(0, commit=False) is None
    assert sender.state.first_unstable_offset(0) is None
    entry = sender.state.get(PRODUCER)
    assert entry is not None
    assert entry.epoch == 0


def test_the_first_unstable_offset_follows_transactions_and_the_high_watermark() -> None:
    sender = Sender()
    state = sender.state
    sender.send(0, 0, producer_id=1, transactional=True)  # offset 0
    sender.send(0, 0, producer_id=2, transactional=True)  # offset 1
    assert state.first_unstable_offset(2) == 0
    sender.mark(0, commit=True, producer_id=1)  # offset 2
    assert state.first_open_offset == 1
    assert state.first_unstable_offset(2) == 0, "the marker itself is not below the high watermark"
    assert state.first_unstable_offset(3) == 1
    sender.mark(0, commit=False, producer_id=2)  # offset 3
    assert state.first_unstable_offset(3) == 1
    assert state.first_unstable_offset(4) is None


def test_what_the_index_says_of_an_abort() -> None:
    sender = Sender()
    sender.send(0, 0, producer_id=1, transactional=True)
    sender.send(0, 0, producer_id=2, transactional=True)
    completed = sender.mark(0, commit=False, producer_id=1)
    assert sender.state.aborted(completed) == (1, 0, 2, 1)  # type: ignore[arg-type]
    completed = sender.mark(0, commit=False, producer_id=2)
    assert sender.state.aborted(completed) == (2, 1, 3, 4)  # type: ignore[arg-type]
    sender.send(0, 1, producer_id=1, transactional=True)
    completed = sender.mark(0, commit=True, producer_id=1)
    assert sender.state.aborted(completed) is None  # type: ignore[arg-type]


def test_silent_producers_are_forgotten_unless_a_transaction_is_open() -> None:
    sender = Sender()
    sender.send(0, 0, producer_id=1, at_ms=1000)
    sender.send(0, 0, producer_id=2, at_ms=1000, transactional=True)
    sender.send(0, 0, producer_id=3, at_ms=1001)
    assert sender.state.remove_expired(1000 + DAY_MS - 1) == 0
    assert sender.state.remove_expired(1000 + DAY_MS) == 1
    assert [entry.producer_id for entry in sender.state] == [2, 3]
    assert sender.send(0, 77, producer_id=1) is None


def test_a_snapshot_keeps_what_the_next_checks_need() -> None:
    sender = Sender()
    sender.send(3, 0, 5, at_ms=5000)
    sender.send(3, 5, 5, at_ms=6000)
    sender.send(0, 0, 2, producer_id=8, transactional=True, at_ms=6000)
    sender.mark(0, commit=True, producer_id=9, coordinator_epoch=4)
    restored = ProducerState(DAY_MS)
    restored.restore(sender.state.snapshot(), now_ms=7000)
    assert restored.snapshot() == sender.state.snapshot()
    assert restored.first_open_offset == 10
    again = Sender(restored)
    again.end = sender.end
    assert again.send(3, 5, 5) == (5, 9), "the last batch is still recognised"
    with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        again.send(3, 0, 5)
    assert again.send(3, 10) is None
    with refused(ErrorCode.INVALID_TXN_STATE):
        again.send(0, 2, producer_id=8)
    with refused(ErrorCode.TRANSACTION_COORDINATOR_FENCED):
        again.mark(0, commit=True, producer_id=9, coordinator_epoch=3)


def test_restoring_leaves_out_who_expired() -> None:
    sender = Sender()
    sender.send(0, 0, producer_id=1, at_ms=1000)
    sender.send(0, 0, producer_id=2, at_ms=1000, transactional=True)
    restored = ProducerState(DAY_MS)
    restored.restore(sender.state.snapshot(), now_ms=1000 + DAY_MS)
    assert [entry.producer_id for entry in restored] == [2]


def test_open_transactions_are_in_order_after_restoring() -> None:
    sender = Sender()
    sender.send(0, 0, producer_id=9, transactional=True)
    sender.send(0, 0, producer_id=1, transactional=True)
    entries = sender.state.snapshot()[::-1]
    restored = ProducerState(DAY_MS)
    restored.restore(entries, now_ms=1000)
    assert restored.first_open_offset == 0


def test_producers_as_described() -> None:
    sender = Sender()

    def described() -> tuple[int, int, int, int, int | None]:
        [entry] = sender.state
        return (
            entry.epoch,
            entry.last_sequence,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.txn_first_offset,
        )

    sender.send(2, 0, 5, at_ms=1234, transactional=True)
    assert described() == (2, 4, 1234, -1, 0)
    sender.mark(3, commit=True, coordinator_epoch=6)
    assert described() == (3, -1, 1000, 6, None)
