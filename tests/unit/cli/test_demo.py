"""The demo's own bookkeeping: it must notice whatever is lost, doubled, changed or out of order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Message

from tidelog.cli.demo import MARKER, prepare_directory
from tidelog.cli.demo_orders import Tally, make_orders
from tidelog.cli.errors import CommandError


def messages(count: int = 60) -> list[Message]:
    ends = [0, 0, 0]
    made = []
    for key, value in make_orders(count):
        partition = sum(key) % 3
        made.append(Message(topic="orders", partition=partition, offset=ends[partition], key=key, value=value))
        ends[partition] += 1
    return made


def test_orders_are_the_same_every_time() -> None:
    first, second = list(make_orders(50)), list(make_orders(50))
    assert first == second
    assert [json.loads(value)["order"] for _, value in first] == list(range(50))


def test_the_same_records_in_another_mixture_of_partitions_are_equal() -> None:
    written = Tally.of(messages())
    mixed = sorted(messages(), key=lambda message: (message.partition(), message.offset()))
    assert Tally.of(mixed).differences(written, "reading") == []
    assert written.count == 60


def test_a_lost_record_is_noticed() -> None:
    read = messages()
    del read[10]
    problems = Tally.of(read).differences(Tally.of(messages()), "reading")
    assert problems[0] == "reading gave 59 of 60 orders"
    assert "reading found gaps in the offsets" in problems


def test_a_doubled_record_is_noticed() -> None:
    read = messages()
    read.insert(11, read[10])
    problems = Tally.of(read).differences(Tally.of(messages()), "reading")
    assert problems[0] == "reading gave 61 of 60 orders"
    assert any("out of order" in problem for problem in problems)


def test_a_changed_byte_is_noticed() -> None:
    read = messages()
    old = read[5]
    value = (old.value() or b"").replace(b'"quantity":', b'"quantitY":')
    read[5] = Message(topic="orders", partition=old.partition(), offset=old.offset(), key=old.key(), value=value)
    problems = Tally.of(read).differences(Tally.of(messages()), "reading")
    assert problems == [f"reading gave other bytes or offsets in partition {old.partition()}"]


def test_what_an_earlier_demo_left_is_removed(tmp_path: Path) -> None:
    data = prepare_directory(tmp_path / "demo")
    data.mkdir()
    (data / "old").touch()
    assert prepare_directory(tmp_path / "demo") == data
    assert not data.exists()
    assert (tmp_path / "demo" / MARKER).is_file()


def test_what_is_not_from_a_demo_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "precious").touch()
    with pytest.raises(CommandError, match="not from a demo"):
        prepare_directory(tmp_path)
    assert (tmp_path / "data" / "precious").exists()


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CommandError, match="cannot use"):
        prepare_directory(tmp_path / "file" / "demo")
