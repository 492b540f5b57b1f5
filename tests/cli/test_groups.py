"""`tidelog groups` against a real broker."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.cli.command import Command, Topics


@pytest.fixture
def group(
    tidelog: Command, topics: Topics, new_topic: Callable[..., str], new_name: Callable[[], str]
) -> tuple[str, str]:
    """A topic of two partitions with ten records each, and a group that has committed all of it."""
    topic, name = new_topic(2), new_name()
    for partition in range(2):
        topics.fill(topic, partition, [b"%d" % number for number in range(10)])
    tidelog("groups", "reset-offsets", name, "--topic", topic, "--to-latest", "--execute", "--yes")
    return topic, name


def partitions(tidelog: Command, name: str) -> list[tuple[int, int, int]]:
    [described] = tidelog("groups", "describe", name, "--json").json
    return [(row["partition"], row["committed"], row["lag"]) for row in described["partitions"]]


def test_list(tidelog: Command, group: tuple[str, str]) -> None:
    listed = {row["group"]: row for row in tidelog("groups", "list", "--json").json}
    assert listed[group[1]]["state"] == "empty"
    assert group[1] in tidelog("groups", "list").out
    assert group[1] not in tidelog("groups", "list", "--state", "stable").out
    assert group[1] in tidelog("groups", "list", "--state", "empty").out


def test_lag(tidelog: Command, group: tuple[str, str]) -> None:
    topic, name = group
    assert partitions(tidelog, name) == [(0, 10, 0), (1, 10, 0)]
    tidelog("produce", topic, "-p", "1", "-v", "x")
    assert partitions(tidelog, name) == [(0, 10, 0), (1, 10, 1)]
    out = tidelog("groups", "describe", name).out
    assert [line.split() for line in out.splitlines()][-1] == [topic, "1", "10", "11", "1", "-", "-"]
    assert name in [row["group"] for row in tidelog("groups", "describe", "--all", "--json").json]


def test_offsets_of_a_topic_that_is_gone(tidelog: Command, topics: Topics, new_name: Callable[[], str]) -> None:
    topic, name = new_name(), new_name()
    topics.create(topic)
    tidelog("groups", "reset-offsets", name, "--topic", topic, "--to-latest", "--execute", "--yes")
    topics.delete([topic])
    # Kafka removes the offsets with the topic in its own time: whatever is left must not be in the way.
    listed = tidelog("groups", "describe", "--all", "--json").json
    for row in [row for group in listed if group["group"] == name for row in group["partitions"]]:
        assert (row["committed"], row["end"], row["lag"]) == (0, None, None)


def test_members_of_a_running_group(tidelog: Command, group: tuple[str, str]) -> None:
    topic, name = group
    process = tidelog.start("consume", topic, "--group", name, "--follow")
    try:
        assert b"assigned 0, 1" in process.stderr.readline()
        [member] = tidelog("groups", "members", name, "--json").json
        assert member["client"] == "tidelog-cli"
        assert member["partitions"] == [{"topic": topic, "partition": 0}, {"topic": topic, "partition": 1}]
        assert f"{topic}: 0,1" in tidelog("groups", "members", name).out
        [described] = tidelog("groups", "describe", name, "--json").json
        assert (described["state"], described["members"]) == ("stable", 1)
        busy = tidelog("groups", "reset-offsets", name, "--all-topics", "--to-earliest", "--execute", fails=True)
        assert "has 1 members; stop them first" in busy.err
        assert "cannot delete group" in tidelog("groups", "delete", name, "--yes", fails=True).err
    finally:
        process.terminate()
        process.communicate(timeout=30)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--to-earliest"], [0, 0]),
        (["--to-latest"], [10, 10]),
        (["--to-offset", "3"], [3, 3]),
        (["--to-offset", "99"], [10, 10]),
        (["--shift-by", "-4"], [6, 6]),
        (["--to-time", "1h"], [0, 0]),
        (["--to-time", "2100-01-01"], [10, 10]),
        (["--to-current"], [10, 10]),
    ],
)
def test_offsets_move_only_when_told_to(
    tidelog: Command, group: tuple[str, str], arguments: list[str], expected: list[int]
) -> None:
    _, name = group
    dry = tidelog("groups", "reset-offsets", name, "--all-topics", *arguments)
    assert "nothing was changed" in dry.err
    assert partitions(tidelog, name) == [(0, 10, 0), (1, 10, 0)]
    done = tidelog("groups", "reset-offsets", name, "--all-topics", *arguments, "--execute", "--yes", "--json").json
    assert [row["new"] for row in done["partitions"]] == expected
    assert partitions(tidelog, name) == [(number, new, 10 - new) for number, new in enumerate(expected)]


def test_some_partitions_of_a_topic(tidelog: Command, group: tuple[str, str]) -> None:
    topic, name = group
    tidelog("groups", "reset-offsets", name, "--topic", f"{topic}:1", "--to-offset", "4", "--execute", "--yes")
    assert partitions(tidelog, name) == [(0, 10, 0), (1, 4, 6)]
    again = tidelog("consume", topic, "--group", name, "-q", "--format", r"%p:%o\n").out.splitlines()
    assert again == [f"1:{offset}" for offset in range(4, 10)]


def test_a_group_can_be_prepared_before_it_exists(
    tidelog: Command, group: tuple[str, str], new_name: Callable[[], str]
) -> None:
    topic, name = group[0], new_name()
    tidelog("groups", "reset-offsets", name, "--topic", topic, "--to-offset", "8", "--execute", "--yes")
    assert partitions(tidelog, name) == [(0, 8, 2), (1, 8, 2)]


def test_delete(tidelog: Command, group: tuple[str, str]) -> None:
    _, name = group
    assert tidelog("groups", "delete", name, "--yes").out == f"deleted group {name}\n"
    assert name not in [row["group"] for row in tidelog("groups", "list", "--json").json]
    assert f"there is no group {name}" in tidelog("groups", "delete", name, "--yes", fails=True).err


def test_groups_that_are_not_there(tidelog: Command, new_name: Callable[[], str]) -> None:
    name = new_name()
    assert name in tidelog("groups", "describe", name, fails=True).err
    assert name in tidelog("groups", "members", name, fails=True).err
    assert tidelog("groups", "describe", fails=True).code == 2
