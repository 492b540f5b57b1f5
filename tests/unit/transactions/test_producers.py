"""InitProducerId: which id and epoch a producer gets, and which producers that fences."""

from __future__ import annotations

import pytest
from tests.unit.transactions.driver import ID, TIMEOUT_MS, ShardDriver

from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.transactions.core.messages import Initialised
from tidelog.transactions.core.state import TransactionState

S = TransactionState
EPOCH_LAST = 32766


@pytest.fixture
def driver() -> ShardDriver:
    return ShardDriver()


def test_a_new_id_starts_at_epoch_0_and_every_start_moves_it(driver: ShardDriver) -> None:
    first = driver.init()
    assert first == Initialised(ErrorCode.NONE, 1000, 0)
    assert driver.init() == Initialised(ErrorCode.NONE, 1000, 1)
    assert driver.init("other") == Initialised(ErrorCode.NONE, 1001, 0)
    assert driver.add(first) is ErrorCode.PRODUCER_FENCED
    driver.check_replay()


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_timeouts_out_of_range(driver: ShardDriver, timeout_ms: int) -> None:
    assert driver.init(timeout_ms=timeout_ms).error is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert driver.log == []


def test_an_ongoing_transaction_is_aborted_under_a_higher_epoch_first(driver: ShardDriver) -> None:
    first = driver.init()
    driver.add(first, 0, 1)
    reply = driver.init()
    assert (reply.error, reply.prepared) == (ErrorCode.CONCURRENT_TRANSACTIONS, True)
    assert (driver.metadata.state, driver.metadata.producer_epoch) == (S.PREPARE_ABORT, 1)
    assert driver.init() == Initialised(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert driver.end(first, commit=True).error is ErrorCode.PRODUCER_FENCED
    assert driver.end(first, commit=True, moves_epoch=True).error is not ErrorCode.NONE
    assert driver.complete()
    assert driver.init() == Initialised(ErrorCode.NONE, 1000, 2)
    driver.check_replay()


def test_going_on_after_an_error_keeps_the_id(driver: ShardDriver) -> None:
    first = driver.init()
    assert driver.init(producer_id=1000, epoch=0) == Initialised(ErrorCode.NONE, 1000, 1)
    assert driver.init(producer_id=1000, epoch=0) == Initialised(ErrorCode.NONE, 1000, 1), "a repeated request"
    assert driver.init(producer_id=1000, epoch=7).error is ErrorCode.PRODUCER_FENCED
    assert driver.init(producer_id=999, epoch=0).error is ErrorCode.PRODUCER_FENCED
    assert driver.init() == Initialised(ErrorCode.NONE, 1000, 2)
    assert driver.init(producer_id=1000, epoch=1).error is ErrorCode.PRODUCER_FENCED, "another has started since"
    assert driver.add(first) is ErrorCode.PRODUCER_FENCED


def test_going_on_while_a_transaction_is_open_gives_the_epoch_that_aborted_it(driver: ShardDriver) -> None:
    held = driver.init()
    driver.add(held)
    assert driver.init(producer_id=1000, epoch=0).prepared
    driver.complete()
    assert driver.init(producer_id=1000, epoch=0) == Initialised(ErrorCode.NONE, 1000, 1)
    driver.check_replay()


def test_a_producer_that_timed_out_may_go_on_unless_another_has_started(driver: ShardDriver) -> None:
    for starts_another, expected in ((False, ErrorCode.NONE), (True, ErrorCode.PRODUCER_FENCED)):
        held = driver.init()
        driver.add(held)
        driver.now_ms += TIMEOUT_MS + 1
        driver.abort_timed_out()
        driver.complete()
        if starts_another:
            driver.init()
        assert driver.init(producer_id=held.producer_id, epoch=held.producer_epoch).error is expected


def test_a_forgotten_id_is_given_to_whoever_still_names_the_old_producer(driver: ShardDriver) -> None:
    assert driver.init(producer_id=5, epoch=3) == Initialised(ErrorCode.NONE, 1000, 0)


def test_when_the_epochs_run_out_there_is_a_new_producer_id(driver: ShardDriver) -> None:
    driver.init()
    driver.set(producer_epoch=EPOCH_LAST)
    assert driver.init() == Initialised(ErrorCode.NONE, 1001, 0)
    assert driver.metadata.previous_producer_id == 1000
    # A repeated request of the producer that used up its last epoch.
    driver.set(producer_epoch=EPOCH_LAST)
    rotated = driver.init(producer_id=1001, epoch=EPOCH_LAST)
    assert rotated == Initialised(ErrorCode.NONE, 1002, 0)
    assert driver.init(producer_id=1001, epoch=EPOCH_LAST) == rotated
    assert driver.init(producer_id=1001, epoch=3).error is ErrorCode.PRODUCER_FENCED
    driver.check_replay()


def test_the_last_epoch_is_left_for_fencing(driver: ShardDriver) -> None:
    driver.init()
    driver.set(producer_epoch=EPOCH_LAST)
    held = Initialised(ErrorCode.NONE, 1000, EPOCH_LAST)
    driver.add(held)
    assert driver.init().prepared
    assert driver.metadata.producer_epoch == EPOCH_LAST + 1
    driver.complete()
    assert driver.init() == Initialised(ErrorCode.NONE, 1001, 0)


def test_the_last_epoch_is_nobodys(driver: ShardDriver) -> None:
    driver.init()
    driver.set(producer_epoch=EPOCH_LAST)
    held = Initialised(ErrorCode.NONE, 1000, EPOCH_LAST)
    driver.add(held)
    driver.init(producer_id=1000, epoch=EPOCH_LAST)
    driver.complete()
    guessed = held._replace(producer_epoch=EPOCH_LAST + 1)
    for producer in (held, guessed):
        assert driver.add(producer) is ErrorCode.PRODUCER_FENCED
        assert driver.verify(producer, 0) == [ErrorCode.PRODUCER_FENCED]
        assert driver.end(producer, commit=False, moves_epoch=True).error is ErrorCode.PRODUCER_FENCED
    rotated = driver.init(producer_id=1000, epoch=EPOCH_LAST)
    assert rotated == Initialised(ErrorCode.NONE, 1001, 0)
    assert driver.init(producer_id=1000, epoch=EPOCH_LAST) == rotated, "a repeated request"
    driver.check_replay()


def test_a_transaction_found_in_the_last_epoch_times_out_like_others(driver: ShardDriver) -> None:
    driver.init()
    driver.add(Initialised(ErrorCode.NONE, 1000, 0))
    driver.set(producer_epoch=EPOCH_LAST + 1)
    driver.now_ms += TIMEOUT_MS + 1
    assert driver.abort_timed_out() == [ID]
    driver.complete()
    assert driver.init() == Initialised(ErrorCode.NONE, 1001, 0)


def test_nothing_changes_when_the_log_refuses(driver: ShardDriver) -> None:
    first = driver.init()
    driver.add(first)
    before = dict(driver.shard.transactions)
    driver.refuses = True
    for ask in (driver.init, lambda: driver.add(first, 5), lambda: driver.end(first, commit=True)):
        with pytest.raises(BrokerError):
            ask()
    assert driver.shard.transactions == before


def test_ids_that_are_not_used_are_forgotten(driver: ShardDriver) -> None:
    driver.init()
    busy = driver.init("busy")
    driver.add(busy, name="busy")
    driver.now_ms += driver.settings.id_expiration_ms
    assert driver.expire_ids() == [ID]
    assert set(driver.shard.transactions) == {"busy"}, "an open transaction does not expire"
    driver.check_replay()
    assert driver.init(ID) == Initialised(ErrorCode.NONE, 1002, 0)


def test_a_look_at_many_ids_ends_where_the_batch_is_full(driver: ShardDriver) -> None:
    names = [f"{number}-".ljust(30_000, "x") for number in range(100)]
    for name in names:
        driver.init(name)
    driver.now_ms += driver.settings.id_expiration_ms
    unknown = ["never heard of", *names, "nor of this"]
    swept = driver.perform(driver.shard.decide_expire_ids(unknown, driver.now))
    assert 0 < len(swept.ended) < len(names)
    assert swept.looked_at == 1 + len(swept.ended)
    assert swept.ended == names[: len(swept.ended)]
    rest = driver.perform(driver.shard.decide_expire_ids(unknown[swept.looked_at :], driver.now))
    assert swept.ended + rest.ended == names[: len(swept.ended) + len(rest.ended)]
    driver.check_replay()
