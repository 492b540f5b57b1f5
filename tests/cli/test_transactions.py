"""`tidelog transactions` against a real broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.cli.command import Command
from tests.conformance.transactions.producer import WireProducer, fetch, read
from tests.servers.wire import Connection


@pytest.fixture
def producer(bootstrap: str, new_name: Callable[[], str]) -> Iterator[WireProducer]:
    with Connection(int(bootstrap.rpartition(":")[2])) as connection:
        yield WireProducer(connection, new_name()).started()


@pytest.fixture
def topic(producer: WireProducer, new_topic: Callable[..., str]) -> str:
    """A topic with an open transaction of the producer."""
    name = new_topic()
    assert producer.produce(name, b"open", version=12) == 0
    return name


def test_list(tidelog: Command, producer: WireProducer, topic: str) -> None:
    name = producer.transactional_id
    listed = {row["id"]: row for row in tidelog("transactions", "list", "--json").json}
    assert listed[name] == {"id": name, "state": "Ongoing", "producer_id": producer.producer_id, "coordinator": 1}
    assert name in tidelog("transactions", "list", "--state", "Ongoing", "--state", "Empty").out
    assert name not in tidelog("transactions", "list", "--state", "Empty").out
    assert name not in tidelog("transactions", "list", "--longer-than", "1h").out
    assert name in tidelog("transactions", "list", "--pattern", f".*{name[5:]}").out
    assert name not in tidelog("transactions", "list", "--pattern", "x").out
    assert "unknown state" in tidelog("transactions", "list", "--state", "Lost", fails=True).err
    assert "--longer-than" in tidelog("transactions", "list", "--longer-than", "soon", fails=True).err
    assert "INVALID_REGULAR_EXPRESSION" in tidelog("transactions", "list", "--pattern", "(", fails=True).err


def test_describe(tidelog: Command, producer: WireProducer, topic: str) -> None:
    name = producer.transactional_id
    [described] = tidelog("transactions", "describe", name, "--json").json
    assert described["state"] == "Ongoing"
    assert described["partitions"] == [f"{topic}-0"]
    assert (described["producer_id"], described["producer_epoch"]) == (producer.producer_id, producer.epoch)
    assert 0 <= described["age_ms"] < 60_000
    assert f"{topic}-0" in tidelog("transactions", "describe", name).out
    assert "no such transactional id" in tidelog("transactions", "describe", "nobody", fails=True).err


def test_abort_by_id_fences_the_producer(tidelog: Command, producer: WireProducer, topic: str) -> None:
    name = producer.transactional_id
    assert "is aborted" in tidelog("transactions", "abort", name, "--yes").out
    assert producer.end(commit=True, version=5) != 0
    assert read(producer.connection, topic) == []
    assert fetch(producer.connection, topic, committed=True).last_stable_offset == 2
    assert "no transaction was open" in tidelog("transactions", "abort", name, "--yes").out


def test_abort_by_place(tidelog: Command, producer: WireProducer, topic: str) -> None:
    place = ("--topic", topic, "--partition", "0", "--start-offset")
    assert "open ones begin at 0" in tidelog("transactions", "abort", *place, "7", "-y", fails=True).err
    done = tidelog("transactions", "abort", *place, "0", "-y", "--json").json
    assert done == {"partition": f"{topic}-0", "start_offset": 0, "producer_id": producer.producer_id}
    assert fetch(producer.connection, topic, committed=True).last_stable_offset == 2
    assert "none is open" in tidelog("transactions", "abort", *place, "0", "-y", fails=True).err
    missing = ("--topic", "nobody-made-this", "--partition", "0", "--start-offset", "0", "-y")
    assert "does not exist" in tidelog("transactions", "abort", *missing, fails=True).err


@pytest.mark.parametrize("arguments", [(), ("--topic", "t"), ("id", "--topic", "t")])
def test_abort_of_what_is_unclear(tidelog: Command, arguments: tuple[str, ...]) -> None:
    assert "--start-offset" in tidelog("transactions", "abort", *arguments, fails=True).err
