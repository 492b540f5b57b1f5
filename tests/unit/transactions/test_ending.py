"""Partitions and ends of transactions, in both flows."""

from __future__ import annotations

import pytest
from tests.unit.transactions.driver import ID, TIMEOUT_MS, ShardDriver, partitions

from tidelog.model.errors import ErrorCode
from tidelog.transactions.core.messages import Ended, Filters, Initialised
from tidelog.transactions.core.state import TransactionState

S = TransactionState
EPOCH_LAST = 32766


@pytest.fixture
def driver() -> ShardDriver:
    return ShardDriver()


@pytest.fixture
def producer(driver: ShardDriver) -> Initialised:
    return driver.init()


def test_the_first_partition_begins_the_transaction(driver: ShardDriver, producer: Initialised) -> None:
    driver.now_ms = 5
    assert driver.add(producer, 0) is ErrorCode.NONE
    started_ms = driver.metadata.start_timestamp_ms
    written = len(driver.log)
    assert driver.add(producer, 0) is ErrorCode.NONE
    assert len(driver.log) == written, "what is there already is not written again"
    driver.now_ms = 50
    assert driver.add(producer, 1) is ErrorCode.NONE
    assert (driver.metadata.state, driver.metadata.partitions) == (S.ONGOING, partitions(0, 1))
    assert driver.metadata.start_timestamp_ms == started_ms == driver.now.wall_ms - 45


def test_verifying(driver: ShardDriver, producer: Initialised) -> None:
    assert driver.verify(producer, 0) == [ErrorCode.TRANSACTION_ABORTABLE]
    driver.add(producer, 0)
    assert driver.verify(producer, 0, 1) == [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE]
    assert driver.verify(producer._replace(producer_epoch=9), 0) == [ErrorCode.PRODUCER_FENCED]
    assert driver.verify(producer._replace(producer_id=9), 0) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert driver.verify(producer, 0, name="nobody") == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    driver.end(producer, commit=True)
    assert driver.verify(producer, 0) == [ErrorCode.CONCURRENT_TRANSACTIONS]
    driver.complete()
    assert driver.verify(producer, 0) == [ErrorCode.TRANSACTION_ABORTABLE], "the transaction that had it is over"


@pytest.mark.parametrize("commit", [True, False])
def test_the_older_flow_keeps_the_epoch(driver: ShardDriver, producer: Initialised, commit: bool) -> None:
    assert driver.end(producer, commit=commit).error is ErrorCode.INVALID_TXN_STATE
    driver.add(producer)
    ended = driver.end(producer, commit=commit)
    assert ended == Ended(ErrorCode.NONE, 1000, 0, prepared=True)
    assert driver.shard.prepared_ids() == [ID]
    assert driver.add(producer, 1) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert driver.end(producer, commit=commit).error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert driver.end(producer, commit=not commit).error is ErrorCode.INVALID_TXN_STATE
    assert driver.complete()
    assert not driver.complete(), "once"
    assert driver.metadata.state is (S.COMPLETE_COMMIT if commit else S.COMPLETE_ABORT)
    assert driver.metadata.partitions == frozenset()
    assert driver.end(producer, commit=commit) == Ended(ErrorCode.NONE, 1000, 0)
    assert driver.end(producer, commit=not commit).error is ErrorCode.INVALID_TXN_STATE
    assert driver.add(producer, 2) is ErrorCode.NONE
    assert driver.metadata.partitions == partitions(2)
    driver.check_replay()


def test_version_2_moves_the_epoch_and_knows_a_repeated_end(driver: ShardDriver, producer: Initialised) -> None:
    driver.add(producer)
    ended = driver.end(producer, commit=True, moves_epoch=True)
    assert ended == Ended(ErrorCode.NONE, 1000, 1, prepared=True)
    repeated = driver.end(producer, commit=True, moves_epoch=True)
    assert (repeated.error, repeated.prepared) == (ErrorCode.CONCURRENT_TRANSACTIONS, False)
    assert driver.end(ended, commit=True, moves_epoch=True).error is ErrorCode.PRODUCER_FENCED
    driver.complete()
    assert driver.end(producer, commit=True, moves_epoch=True) == Ended(ErrorCode.NONE, 1000, 1)
    assert driver.end(producer, commit=False, moves_epoch=True).error is ErrorCode.INVALID_TXN_STATE
    assert driver.add(ended) is ErrorCode.NONE
    late = driver.end(producer, commit=False, moves_epoch=True)
    assert late.error is ErrorCode.PRODUCER_FENCED, "a late end does not touch the next transaction"
    assert driver.metadata.state is S.ONGOING
    driver.check_replay()


def test_version_2_aborts_without_partitions(driver: ShardDriver, producer: Initialised) -> None:
    assert driver.end(producer, commit=True, moves_epoch=True).error is ErrorCode.INVALID_TXN_STATE
    ended = driver.end(producer, commit=False, moves_epoch=True)
    assert (ended.producer_epoch, ended.prepared) == (1, True)
    driver.complete()
    again = driver.end(ended, commit=False, moves_epoch=True)
    assert (again.error, again.producer_epoch) == (ErrorCode.NONE, 2)
    driver.complete()
    assert driver.end(again, commit=True, moves_epoch=True).error is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("commit", [True, False])
def test_version_2_takes_a_new_id_when_the_epochs_run_out(driver: ShardDriver, commit: bool) -> None:
    driver.init()
    driver.set(producer_epoch=EPOCH_LAST)
    held = Initialised(ErrorCode.NONE, 1000, EPOCH_LAST)
    driver.add(held)
    ended = driver.end(held, commit=commit, moves_epoch=True)
    assert ended == Ended(ErrorCode.NONE, 1001, 0, prepared=True)
    assert (driver.metadata.producer_id, driver.metadata.producer_epoch) == (1000, EPOCH_LAST + 1)
    driver.crash()
    assert driver.complete()
    assert (driver.metadata.producer_id, driver.metadata.producer_epoch) == (1001, 0)
    assert driver.end(held, commit=commit, moves_epoch=True) == Ended(ErrorCode.NONE, 1001, 0)
    assert driver.add(ended) is ErrorCode.NONE
    driver.check_replay()


def test_the_new_id_waits_for_the_markers_of_the_old_one(driver: ShardDriver) -> None:
    driver.init()
    driver.set(producer_epoch=EPOCH_LAST)
    held = Initialised(ErrorCode.NONE, 1000, EPOCH_LAST)
    driver.add(held)
    ended = driver.end(held, commit=True, moves_epoch=True)
    assert driver.add(ended) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert driver.verify(ended, 0) == [ErrorCode.CONCURRENT_TRANSACTIONS]
    assert driver.end(ended, commit=False, moves_epoch=True).error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert driver.init(producer_id=1001, epoch=0).error is ErrorCode.CONCURRENT_TRANSACTIONS
    driver.complete()
    assert driver.add(ended) is ErrorCode.NONE


def test_a_producer_that_missed_its_new_id_is_told_by_init(driver: ShardDriver) -> None:
    driver.init()
    driver.set(producer_epoch=EPOCH_LAST)
    held = Initialised(ErrorCode.NONE, 1000, EPOCH_LAST)
    driver.add(held)
    driver.end(held, commit=True, moves_epoch=True)
    driver.complete()
    assert driver.init(producer_id=1000, epoch=EPOCH_LAST) == Initialised(ErrorCode.NONE, 1001, 0)


def test_what_is_prepared_is_seen_through_after_a_crash(driver: ShardDriver, producer: Initialised) -> None:
    driver.add(producer, 0, 3)
    driver.end(producer, commit=True)
    driver.crash()
    assert driver.shard.prepared_ids() == [ID]
    assert driver.metadata.partitions == partitions(0, 3)
    assert driver.complete()
    assert driver.metadata.state is S.COMPLETE_COMMIT


def test_completing_something_else_does_nothing(driver: ShardDriver, producer: Initialised) -> None:
    driver.add(producer)
    driver.end(producer, commit=True)
    for wrong in (("nobody", 1000, 0), (ID, 1000, 7), (ID, 7, 0)):
        assert not driver.perform(driver.shard.decide_complete(wrong, driver.now))
    assert driver.metadata.state is S.PREPARE_COMMIT


def test_a_transaction_that_takes_too_long_is_aborted_under_a_higher_epoch(
    driver: ShardDriver, producer: Initialised
) -> None:
    driver.add(producer)
    driver.now_ms += TIMEOUT_MS
    assert driver.abort_timed_out() == []
    driver.now_ms += 1
    assert driver.abort_timed_out() == [ID]
    assert driver.abort_timed_out() == []
    assert (driver.metadata.state, driver.metadata.producer_epoch) == (S.PREPARE_ABORT, 1)
    assert driver.end(producer, commit=True).error is ErrorCode.PRODUCER_FENCED
    driver.complete()
    assert driver.end(producer, commit=True).error is ErrorCode.PRODUCER_FENCED
    driver.check_replay()


def test_listing(driver: ShardDriver, producer: Initialised) -> None:
    driver.add(producer)
    driver.init("idle")
    driver.now_ms = 1000

    def names(**filters: object) -> list[str]:
        return [
            found.transactional_id for found in driver.shard.list_transactions(Filters(**filters), driver.now).reply
        ]  # type: ignore[arg-type]

    assert names() == [ID, "idle"]
    assert names(states=["Ongoing"]) == [ID]
    assert names(states=["Ongoing", "Empty"]) == [ID, "idle"]
    assert names(producer_ids=[1001]) == ["idle"]
    assert names(states=["Ongoing"], longer_than_ms=999) == [ID]
    assert names(states=["Ongoing"], longer_than_ms=1000) == []
