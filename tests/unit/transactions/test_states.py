"""The table of states: complete, as Kafka numbers and names them, and kept to by every request in every state."""

from __future__ import annotations

import itertools

import pytest
from tests.unit.transactions.driver import ID, TIMEOUT_MS, ShardDriver, partitions

from tidelog.protocol.generated.transaction_log_value import TransactionLogValue
from tidelog.transactions.core.metadata import TransactionMetadata
from tidelog.transactions.core.records import TransactionRecord, decode_record, encode_record
from tidelog.transactions.core.state import BY_NUMBER, TRANSITIONS, TransactionState

S = TransactionState


def test_numbers_and_names_are_kafkas() -> None:
    assert [(state.number, state.value) for state in BY_NUMBER] == [
        (0, "Empty"),
        (1, "Ongoing"),
        (2, "PrepareCommit"),
        (3, "PrepareAbort"),
        (4, "CompleteCommit"),
        (5, "CompleteAbort"),
        (6, "Dead"),
        (7, "PrepareEpochFence"),
    ]


def test_every_state_is_in_the_table_and_reached_from_empty() -> None:
    assert set(TRANSITIONS) == set(S)
    reached, frontier = {S.EMPTY}, [S.EMPTY]
    while frontier:
        for following in TRANSITIONS[frontier.pop()]:
            if following not in reached:
                reached.add(following)
                frontier.append(following)
    assert reached == set(S)


def test_a_decided_outcome_has_one_way_out() -> None:
    assert TRANSITIONS[S.PREPARE_COMMIT] == {S.COMPLETE_COMMIT}
    assert TRANSITIONS[S.PREPARE_ABORT] == {S.COMPLETE_ABORT}
    assert TRANSITIONS[S.DEAD] == frozenset()


@pytest.mark.parametrize(("before", "after"), list(itertools.product(S, S)))
def test_transitions_outside_the_table_are_refused(before: TransactionState, after: TransactionState) -> None:
    metadata = TransactionMetadata(1, 0, 1, before, frozenset(), -1, 0)
    if after in TRANSITIONS[before]:
        assert metadata.transition(after, 5).state is after
    else:
        with pytest.raises(AssertionError):
            metadata.transition(after, 5)


STORED = [state for state in S if state not in (S.DEAD, S.PREPARE_EPOCH_FENCE)]


@pytest.mark.parametrize("state", STORED)
def test_every_request_in_every_state_keeps_to_the_table(state: TransactionState) -> None:
    for request in range(9):
        driver = ShardDriver(id_expiration_ms=10)
        producer = driver.init()
        held = partitions(0) if state in (S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT) else frozenset()
        driver.set(state=state, partitions=held, start_timestamp_ms=driver.now.wall_ms)
        driver.now_ms += TIMEOUT_MS + 1
        if request < 4:
            driver.end(producer, commit=request % 2 == 0, moves_epoch=request >= 2)
        elif request == 4:
            driver.init()
        elif request == 5:
            driver.add(producer, 1)
        elif request == 6:
            driver.abort_timed_out()
        elif request == 7:
            driver.expire_ids()
        else:
            driver.complete()
        after = driver.shard.transactions[ID].state if ID in driver.shard.transactions else S.DEAD
        fenced = TRANSITIONS[S.PREPARE_EPOCH_FENCE] if S.PREPARE_EPOCH_FENCE in TRANSITIONS[state] else frozenset()
        assert after in {state} | TRANSITIONS[state] | fenced
        driver.check_replay()


@pytest.mark.parametrize("state", STORED)
def test_the_log_has_kafkas_format(state: TransactionState) -> None:
    driver = ShardDriver()
    driver.init()
    driver.set(state=state, partitions=frozenset() if state is S.EMPTY else partitions(0, 2))
    key, value = driver.log[-1]
    assert key == b"\x00\x00\x00\x06orders"
    assert value is not None
    assert value[:2] == b"\x00\x01"
    decoded, end = TransactionLogValue.decode(value, 2, 1)
    assert end == len(value)
    assert decoded.transaction_status == state.number
    if state is S.EMPTY:
        assert decoded.transaction_partitions is None
    else:
        assert [(p.topic, p.partition_ids) for p in decoded.transaction_partitions or ()] == [("t", [0, 2])]


def test_records_that_make_no_sense() -> None:
    driver = ShardDriver()
    driver.init()
    key, value = driver.log[-1]
    assert value is not None
    decode = driver.shard.decode_record
    assert decode(b"\x00\x07" + key[2:], value) is None, "another kind of record"
    for bad_key, bad_value in (
        (b"", value),
        (b"\x00\x00\x00\x40x", value),
        (key, b""),
        (key, b"\x00\x63" + value[2:]),
        (key, value[:10]),
    ):
        with pytest.raises(ValueError):
            decode(bad_key, bad_value)
    assert encode_record(decode(key, None)) == (key, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("state", [S.DEAD, S.PREPARE_EPOCH_FENCE])
def test_states_that_are_never_stored_are_not_believed(state: TransactionState) -> None:
    driver = ShardDriver()
    driver.init()
    key, value = encode_record(TransactionRecord(ID, driver.metadata._replace(state=state)))
    with pytest.raises(ValueError, match="none that is stored"):
        decode_record(key, value)
