"""`tidelog config` against a real broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.cli.command import Command


def describe(tidelog: Command, topic: str) -> dict[str, dict[str, Any]]:
    document = tidelog("config", "describe", "topic", topic, "--json").json
    assert (document["kind"], document["resource"]) == ("topic", topic)
    return {config["name"]: config for config in document["configs"]}


def test_set_describe_and_unset(tidelog: Command, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    assert describe(tidelog, topic)["retention.ms"]["source"] != "DYNAMIC_TOPIC_CONFIG"
    done = tidelog("config", "set", "topic", topic, "retention.ms=12345", "cleanup.policy=compact,delete")
    assert f"topic {topic}: retention.ms = 12345\n" in done.out
    configs = describe(tidelog, topic)
    assert configs["retention.ms"] == {
        "name": "retention.ms",
        "value": "12345",
        "source": "DYNAMIC_TOPIC_CONFIG",
        "default": configs["retention.ms"]["default"],
        "read_only": False,
        "sensitive": False,
    }
    assert configs["cleanup.policy"]["default"] == "delete"
    assert (
        tidelog("config", "unset", "topic", topic, "retention.ms").out
        == f"topic {topic}: retention.ms is default again\n"
    )
    assert describe(tidelog, topic)["retention.ms"]["value"] != "12345"
    assert describe(tidelog, topic)["cleanup.policy"]["source"] == "DYNAMIC_TOPIC_CONFIG"


def test_describe_for_people(tidelog: Command, new_topic: Callable[..., str]) -> None:
    topic = new_topic(1, cleanup_policy="compact")
    out = tidelog("config", "describe", "topic", topic, "cleanup.*", "retention.bytes").out
    rows = [line.split() for line in out.splitlines()]
    assert rows[0] == ["setting", "value", "source", "default"]
    assert rows[1] == ["cleanup.policy", "compact", "topic", "delete"]
    assert [row[0] for row in rows[1:]] == ["cleanup.policy", "retention.bytes"]
    changed = tidelog("config", "describe", "topic", topic, "--changed", "--json").json["configs"]
    assert "cleanup.policy" in [config["name"] for config in changed]
    assert all(config["source"] != "DEFAULT_CONFIG" for config in changed)


def test_list_names_what_was_changed(tidelog: Command, new_topic: Callable[..., str]) -> None:
    plain, changed = new_topic(), new_topic(1, segment_bytes="1048576")
    listed = tidelog("config", "list", "topic", "--json").json
    assert [(row["name"], row["value"]) for row in listed if row["resource"] == changed] == [
        ("segment.bytes", "1048576")
    ]
    assert plain not in [row["resource"] for row in listed]


def test_brokers(tidelog: Command) -> None:
    node_id = str(_node_id(tidelog))
    document = tidelog("config", "describe", "broker", node_id, "--json").json
    configs = {config["name"]: config for config in document["configs"]}
    assert configs["num.partitions"]["value"] == "1"
    assert configs["node.id"]["value"] == node_id
    assert "there is no broker 99" in tidelog("config", "describe", "broker", "99", fails=True).err


def test_groups(tidelog: Command) -> None:
    setting = "consumer.heartbeat.interval.ms"
    done = tidelog("config", "set", "group", "readers", f"{setting}=7000")
    assert done.out == f"group readers: {setting} = 7000\n"
    out = tidelog("config", "describe", "group", "readers", setting).out
    assert out.splitlines()[1].split() == [setting, "7000", "group", "5000"]
    listed = tidelog("config", "list", "group", "--json").json
    assert [(row["resource"], row["name"], row["value"]) for row in listed] == [("readers", setting, "7000")]
    assert tidelog("config", "unset", "group", "readers", setting).out == f"group readers: {setting} is default again\n"
    refused = tidelog("config", "set", "group", "readers", f"{setting}=1", fails=True).err
    assert "must be greater than or equal to group.consumer.min.heartbeat.interval.ms" in refused


def _node_id(tidelog: Command) -> int:
    from confluent_kafka.admin import AdminClient

    return min(AdminClient({"bootstrap.servers": tidelog.bootstrap}).list_topics(timeout=10).brokers)


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["set", "topic", "TOPIC", "no.such=1"], 1, "no.such"),
        (["set", "topic", "TOPIC", "retention.ms=soon"], 1, "retention.ms"),
        (["set", "topic", "TOPIC", "retention.ms"], 2, "NAME=VALUE"),
        (["unset", "topic", "TOPIC", "a=b"], 2, "names only"),
        (["describe", "topic", "TOPIC", "no.such"], 1, "no setting is called no.such"),
        (["describe", "topic", "TOPIC-not"], 1, "does not exist"),
        (["set", "topic", "TOPIC-not", "retention.ms=1"], 1, "there is no topic"),
        (["describe", "planet", "mars"], 2, "invalid choice"),
    ],
)
def test_what_is_refused(
    tidelog: Command, new_topic: Callable[..., str], arguments: list[str], code: int, complaint: str
) -> None:
    topic = new_topic()
    refused = tidelog("config", *(argument.replace("TOPIC", topic) for argument in arguments), fails=True)
    assert refused.code == code
    assert complaint in refused.err


def test_the_older_spelling_works(tidelog: Command, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    assert tidelog("configs", "set", "topic", topic, "retention.ms=5").out == f"topic {topic}: retention.ms = 5\n"
    assert describe(tidelog, topic)["retention.ms"]["value"] == "5"
