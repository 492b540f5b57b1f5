"""`tidelog topics` against a real broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.cli.command import Command


def find(topics: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(topic for topic in topics if topic["name"] == name)


def test_a_topic_from_creation_to_deletion(tidelog: Command, new_name: Callable[[], str]) -> None:
    name = new_name()
    assert tidelog("topics", "create", name, "-p", "3", "-c", "retention.ms=60000").out == f"created topic {name}\n"
    assert find(tidelog("topics", "list", "--json").json, name) == {
        "name": name,
        "partitions": 3,
        "replication_factor": 1,
        "internal": False,
    }
    lines = tidelog("topics", "list").out.splitlines()
    assert lines[0].split() == ["topic", "partitions", "replication"]
    assert [name, "3", "1"] in [line.split() for line in lines]

    [described] = tidelog("topics", "describe", name, "--json").json
    assert described["configs"] == {"retention.ms": "60000"}
    assert [partition["partition"] for partition in described["partitions"]] == [0, 1, 2]
    for partition in described["partitions"]:
        assert partition["replicas"] == partition["isr"] == [partition["leader"]]
        assert (partition["earliest"], partition["latest"], partition["offsets"]) == (0, 0, 0)

    assert tidelog("topics", "delete", name, "--yes").out == f"deleted topic {name}\n"
    assert name not in [topic["name"] for topic in tidelog("topics", "list", "--json").json]


def test_describe_for_people(tidelog: Command, new_topic: Callable[..., str]) -> None:
    name = new_topic(2, cleanup_policy="compact")
    tidelog("produce", name, "--key", "k", "--value", "v", "--partition", "1")
    out = tidelog("topics", "describe", name).out
    assert "cleanup.policy=compact" in out
    assert [line.split() for line in out.splitlines()][-1][-3:] == ["0", "1", "1"]


def test_creating_twice(tidelog: Command, new_topic: Callable[..., str]) -> None:
    name = new_topic()
    refused = tidelog("topics", "create", name, fails=True)
    assert f"topic {name} exists already" in refused.err
    assert refused.code == 1
    assert tidelog("topics", "create", name, "--if-not-exists", "--json").json == {"name": name, "created": False}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["../evil"], "cannot create topic ../evil"),
        (["bad name"], "cannot create topic bad name"),
        (["x", "--partitions", "0"], "cannot create topic x"),
        (["x", "--replication-factor", "9"], "cannot create topic x"),
        (["x", "--config", "no.such.setting=1"], "no.such.setting"),
        (["x", "--config", "retention.ms=soon"], "retention.ms"),
    ],
)
def test_what_a_broker_refuses_is_one_line(tidelog: Command, arguments: list[str], complaint: str) -> None:
    refused = tidelog("topics", "create", *arguments, fails=True)
    assert refused.code == 1
    assert complaint in refused.err


def test_alter(tidelog: Command, new_topic: Callable[..., str]) -> None:
    name = new_topic(1, retention_ms="1000")
    tidelog("topics", "alter", name, "-p", "4", "-c", "segment.bytes=1048576", "--delete-config", "retention.ms")
    [described] = tidelog("topics", "describe", name, "--json").json
    assert len(described["partitions"]) == 4
    assert described["configs"] == {"segment.bytes": "1048576"}
    assert "cannot change the partitions" in tidelog("topics", "alter", name, "--partitions", "2", fails=True).err
    assert tidelog("topics", "alter", name, fails=True).code == 2


def test_alter_says_what_was_and_what_is_now(tidelog: Command, new_topic: Callable[..., str]) -> None:
    name = new_topic(1, retention_ms="1000")
    given = ("-p", "2", "-c", "segment.bytes=1048576", "--delete-config", "retention.ms")
    assert tidelog("topics", "alter", name, *given).out.splitlines() == [
        f"topic {name}: segment.bytes 1073741824 -> 1048576",
        f"topic {name}: retention.ms 1000 -> 604800000 (default)",
        f"topic {name}: partitions 1 -> 2",
    ]
    assert tidelog("topics", "alter", name, "-r", "1").out == f"topic {name}: replicas 1 -> 1\n"
    changed = tidelog("topics", "alter", name, "-p", "3", "-c", "retention.ms=5", "--json").json
    assert changed["changes"] == [
        {"name": "retention.ms", "old": "604800000", "new": "5"},
        {"name": "partitions", "old": "2", "new": "3"},
    ]


def test_topics_that_are_not_there(tidelog: Command, new_name: Callable[[], str]) -> None:
    name = new_name()
    assert f"topic {name} does not exist" in tidelog("topics", "describe", name, fails=True).err
    assert f"there is no topic {name}" in tidelog("topics", "delete", name, "--yes", fails=True).err
    assert f"there is no topic {name}" in tidelog("topics", "alter", name, "-c", "retention.ms=1", fails=True).err


def test_a_topic_is_deleted_though_another_is_not_there(tidelog: Command, new_name: Callable[[], str]) -> None:
    missing, name = new_name(), new_name()
    tidelog("topics", "create", name)
    refused = tidelog("topics", "delete", "--yes", "--json", missing, name, fails=True)
    assert refused.json == {"deleted": [name]}
    assert missing in refused.err
    assert name not in refused.err


@pytest.mark.parametrize(("answer", "deleted"), [(b"n\n", False), (b"\n", False), (b"y\n", True)])
def test_on_a_terminal_deletion_is_asked_for(
    tidelog: Command, new_name: Callable[[], str], answer: bytes, deleted: bool
) -> None:
    name = new_name()
    tidelog("topics", "create", name)
    done = tidelog.answering(answer, "topics", "delete", name)
    assert f"delete {name} with all records? [y/N]" in done.err
    assert (done.code == 0) is deleted
    present = name in [topic["name"] for topic in tidelog("topics", "list", "--json").json]
    assert present is not deleted
    if present:
        tidelog("topics", "delete", name, "--yes")
