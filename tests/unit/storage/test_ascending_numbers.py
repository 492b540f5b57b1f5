"""Producers with ids and numbers of their own: what is above the last number is new, anything else is not."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from tests.unit.storage.log_building import append, batch_of, crash, open_log
from tests.unit.storage.partition_log import compact
from tests.unit.storage.test_producer_state import Sender, refused

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import KAFKA_PRODUCER_ID_MAX
from tidelog.storage.producer_snapshot import decode_snapshot, encode_snapshot
from tidelog.storage.producer_state import SEQUENCE_MAX, ProducerState

DAY_MS = 86_400_000
FIRST = KAFKA_PRODUCER_ID_MAX + 1
LAST = 2**63 - 1
FORGOTTEN = -1


def send(sender: Sender, number: int, *, producer_id: int = FIRST) -> int | None:
    """The first offset of the earlier append, None when this was the first."""
    earlier = sender.send(number >> 31, number & SEQUENCE_MAX, producer_id=producer_id)
    return None if earlier is None else earlier[0]


def restarted(sender: Sender) -> Sender:
    """With what a snapshot on disk has of its state."""
    after = Sender(ProducerState(DAY_MS))
    after.state.restore(decode_snapshot(encode_snapshot(sender.state.snapshot())), 2000)
    after.end = sender.end
    return after


@pytest.mark.parametrize("producer_id", [FIRST, FIRST + 7, LAST])
def test_gaps_are_allowed_and_what_is_not_above_is_a_duplicate(producer_id: int) -> None:
    sender = Sender()
    for number in (3, 4, 9, 1000):
        assert send(sender, number, producer_id=producer_id) is None
    assert [send(sender, number, producer_id=producer_id) for number in (3, 4, 9, 1000)] == [0, 1, 2, 3]
    assert send(sender, 5, producer_id=producer_id) == FORGOTTEN, "it was skipped and comes too late"
    assert send(sender, 1001, producer_id=producer_id) is None


def test_only_the_last_batches_are_answered_with_their_offset() -> None:
    sender = Sender()
    for number in range(0, 80, 10):
        send(sender, number)
    assert [send(sender, number) for number in range(0, 80, 10)] == [FORGOTTEN] * 3 + [3, 4, 5, 6, 7]


def test_a_forgotten_batch_is_as_committed_as_the_last_of_its_producer() -> None:
    sender = Sender()
    send(sender, 2**40)
    send(sender, 7, producer_id=FIRST + 1)
    earlier = sender.state.check_batch(FIRST, 0, 5, 0, transactional=False)
    assert earlier is not None
    assert (earlier.first_offset, earlier.last_offset) == (FORGOTTEN, 0)


def test_numbers_go_over_the_edge_of_a_sequence() -> None:
    sender = Sender()
    edge = 2**31
    for number in (edge - 1, edge, edge + 5, 3 * edge + 1, 2**46 - 1):
        assert send(sender, number) is None, number
    assert send(sender, 2**46 - 1) == 4
    assert [send(sender, number) for number in (0, edge - 1, edge, 2**46 - 2)] == [FORGOTTEN] * 4


def test_producers_do_not_see_each_other() -> None:
    sender = Sender()
    assert send(sender, 5) is None
    assert send(sender, 5, producer_id=FIRST + 1) is None
    assert sender.send(0, 0, producer_id=5) is None
    assert (send(sender, 5), send(sender, 5, producer_id=FIRST + 1)) == (0, 1)


def test_the_largest_id_of_kafka_has_kafkas_rules() -> None:
    sender = Sender()
    sender.send(0, 0, producer_id=KAFKA_PRODUCER_ID_MAX)
    with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        sender.send(0, 2, producer_id=KAFKA_PRODUCER_ID_MAX)


def test_batches_of_several_records_are_new_or_old_as_a_whole() -> None:
    sender = Sender()
    assert sender.send(0, 10, 10, producer_id=FIRST) is None
    assert sender.send(0, 10, 10, producer_id=FIRST) == (0, 9)
    assert sender.send(0, 12, 3, producer_id=FIRST) == (FORGOTTEN, 9)
    with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        sender.send(0, 15, 10, producer_id=FIRST)
    with refused(ErrorCode.INVALID_RECORD):
        sender.send(0, SEQUENCE_MAX, 2, producer_id=FIRST)
    assert sender.send(0, 30, 10, producer_id=FIRST) is None


def test_there_are_no_transactions() -> None:
    sender = Sender()
    for _ in range(2):
        with refused(ErrorCode.INVALID_TXN_STATE):
            sender.send(0, 1, producer_id=FIRST, transactional=True)
        with refused(ErrorCode.INVALID_TXN_STATE):
            sender.mark(0, commit=True, producer_id=FIRST)
        send(sender, 0)


def test_the_last_number_outlives_a_snapshot() -> None:
    sender = Sender()
    for number in (8, 2**45):
        send(sender, number)
    after = restarted(sender)
    assert (send(after, 2**45), send(after, 8)) == (1, FORGOTTEN)
    assert send(after, 2**45 + 1) is None


@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_sends_and_restarts(seed: int) -> None:
    """Beside a model: the largest number, and where each number was appended."""
    chance = random.Random(seed)
    sender = Sender()
    appended: dict[int, int] = {}
    for _ in range(300):
        if chance.random() < 0.05:
            sender = restarted(sender)
        last = max(appended, default=-1)
        number = max(0, last + chance.choice((-40, -1, 0, 1, 2, 50, 2**30, 2**31)))
        end = sender.end
        answer = send(sender, number)
        if number > last:
            assert answer is None
            appended[number] = end
        else:
            assert answer in (appended.get(number, FORGOTTEN), FORGOTTEN)
            assert number != last or answer == appended[last], "the last batch is always remembered"


@pytest.mark.parametrize("state", ["closed", "crashed", "no snapshots", "follower", "compacted", "retained"])
def test_the_last_number_is_known_however_the_log_came_to_be(tmp_path: Path, state: str) -> None:
    settings: dict[str, Any] = {
        "segment_bytes": 200,
        "cleanup_policy": frozenset({"compact"} if state == "compacted" else {"delete"}),
    }
    log = open_log(tmp_path / "log", **settings)
    last = (7 << 31) + 5
    for number in (3, 8, last):
        append(log, numbered(number))
    for _ in range(3):
        append(log, batch_of())
    if state == "follower":
        follower = open_log(tmp_path / "follower", **settings)
        for segment in log.segments:
            follower.writer.append_as_follower(Path(segment.path).read_bytes())
        log = follower
    else:
        if state == "compacted":
            compact(log)
        elif state == "retained":
            log.rearranger.delete_oldest(2)
            assert log.log_start_offset > 2
        crash(log) if state == "crashed" else log.close()
        if state == "no snapshots":
            for path in (tmp_path / "log").glob("*.snapshot"):
                path.unlink()
        log = open_log(tmp_path / "log", clean=state != "crashed", **settings)
    again = append(log, numbered(last))
    assert (again.duplicate, again.base_offset) == (True, 2)
    late = append(log, numbered(9))
    assert (late.duplicate, late.base_offset, late.last_offset) == (True, FORGOTTEN, 2)
    assert append(log, numbered(last + 100)).base_offset == 6


def numbered(number: int) -> bytes:
    return batch_of(producer_id=LAST, producer_epoch=number >> 31, base_sequence=number & SEQUENCE_MAX)
