"""What people get wrong, against a real broker: one line that says what is wrong, and never a success."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.cli.command import Command


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("topics", "alter", "nobody-made-this", "-p", "3"), "there is no topic nobody-made-this;"),
        (("topics", "alter", "nobody-made-this", "-r", "1"), "there is no topic nobody-made-this;"),
        (("topics", "alter", "nobody-made-this", "-c", "retention.ms=1"), "there is no topic nobody-made-this;"),
        (("topics", "alter", "nobody-made-this", "--delete-config", "retention.ms"), "there is no topic nobody-made"),
        (("topics", "delete", "nobody-made-this", "--yes"), "tidelog: there is no topic nobody-made-this; `tidelog t"),
        (("groups", "delete", "nobody-made-this", "--yes"), "tidelog: there is no group nobody-made-this; `tidelog g"),
        (("config", "set", "topic", "nobody-made-this", "retention.ms=1"), "there is no topic nobody-made-this;"),
        (("config", "unset", "topic", "nobody-made-this", "retention.ms"), "there is no topic nobody-made-this;"),
        (("config", "set", "broker", "99", "log.retention.ms=1"), "there is no broker 99;"),
        (("config", "unset", "broker", "99", "log.retention.ms"), "there is no broker 99;"),
        (("topics", "list", "--colour"), "unrecognized arguments: --colour (see `tidelog topics list --help`)"),
        (("topics", "reassign", "nobody-made-this", "--replicas", "1"), "topic nobody-made-this does not exist"),
        (("groups", "list", "--state", "asleep"), "states are empty, "),
        (("transactions", "list", "--state", "asleep"), "states are Empty, Ongoing, "),
        (("transactions", "list", "--pattern", "("), "--pattern: '(' is no regular expression"),
        (("transactions", "abort", "nobody-has-this"), "nobody-has-this: there is no such transactional id"),
        (("transactions", "describe", "nobody-has-this"), "nobody-has-this: there is no such transactional id"),
        (("produce", "t", "-v", "x", "--timeout", "0"), "--timeout must be positive"),
        (("produce", "t", "-v", "x", "--timestamp", "noon"), "--timestamp: 'noon' is no time"),
        (("produce", "t\udcff", "-v", "x"), "is not UTF-8"),
        (("consume", "t", "--group", ""), "--group needs a name"),
        (("consume", "t", "--protocol", "consumer"), "give --group too"),
    ],
)
def test_one_line_says_what_is_wrong(tidelog: Command, arguments: tuple[str, ...], words: str) -> None:
    assert words in tidelog(*arguments, fails=True).err


def test_a_setting_that_does_not_exist_is_not_taken_back(tidelog: Command, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    for arguments in (
        ("config", "unset", "topic", topic, "retention.mss"),
        ("config", "unset", "broker", "default", "retention.mss"),
        ("topics", "alter", topic, "--delete-config", "retention.mss"),
    ):
        assert "is called retention.mss" in tidelog(*arguments, fails=True).err


def test_settings_of_all_brokers(tidelog: Command) -> None:
    place = ("broker", "default")
    name = "log.segment.delete.delay.ms"
    assert "nothing is set for all brokers" in tidelog("config", "describe", *place).err
    assert tidelog("config", "set", *place, f"{name}=61000").out == f"broker default: {name} = 61000\n"
    try:
        [found] = tidelog("config", "describe", *place, "--json").json["configs"]
        assert (found["name"], found["value"]) == (name, "61000")
        listed = tidelog("config", "list", "broker", "--json").json
        assert {(each["name"], each["source"]) for each in listed} == {(name, "DYNAMIC_DEFAULT_BROKER_CONFIG")}
        assert "Unknown broker config name" in tidelog("config", "set", *place, "nope=1", fails=True).err
    finally:
        tidelog("config", "unset", *place, name)
    assert tidelog("config", "describe", *place, "--json").json["configs"] == []


def test_a_default_is_in_the_unit_of_its_setting(tidelog: Command, new_topic: Callable[..., str]) -> None:
    """Brokers tell it as log.retention.hours=168."""
    topic = new_topic(retention_ms="5000")
    configs = tidelog("config", "describe", "topic", topic, "retention.ms", "--json").json["configs"]
    assert [(each["value"], each["default"]) for each in configs] == [("5000", "604800000")]


def test_topics_that_may_be_missing(tidelog: Command, topics: object, new_name: Callable[[], str]) -> None:
    name = new_name()
    tidelog("topics", "create", name)
    assert name in [topic["name"] for topic in tidelog("topics", "describe", "--json").json]
    missing = new_name()
    assert tidelog("topics", "delete", missing, name, "--if-exists", "--yes", "--json").json == {"deleted": [name]}
    assert tidelog("topics", "delete", missing, "--if-exists", "--json").json == {"deleted": []}
    assert missing in tidelog("topics", "delete", missing, fails=True).err


def test_a_reset_beyond_the_end_says_so(
    tidelog: Command, new_topic: Callable[..., str], new_name: Callable[[], str]
) -> None:
    topic, group = new_topic(), new_name()
    asked = ("groups", "reset-offsets", group, "--topic", topic, "--execute", "--yes")
    assert "offset 99 is not everywhere" in tidelog(*asked, "--to-offset", "99").err
    done = tidelog(*asked, "--to-offset", "0").err
    assert done == f"group {group} moved\n"


def test_what_is_no_text_is_written_as_it_is(tidelog: Command, new_topic: Callable[..., str]) -> None:
    """Arguments are bytes to the system; Python hands them on as surrogates."""
    topic = new_topic()
    tidelog("produce", topic, "--key", "\udcff", "--value", "a\udc80", "--timestamp", "2024-01-01T00:00:00Z")
    [record] = tidelog("consume", topic, "--json").json_lines
    assert (record["key"], record["key_encoding"]) == ("/w==", "base64")
    assert (record["value"], record["timestamp"]) == ("YYA=", 1_704_067_200_000)
