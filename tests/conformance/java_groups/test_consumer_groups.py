"""Kafka's tools for groups: `kafka-consumer-groups`, `kafka-groups`, and the printed topic of offsets."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from tests.conformance.groups.member import ClassicMember, ConsumerMember, Groups, settle
from tests.servers.broker_process import BrokerProcess
from tests.servers.java_tools import JavaTools, ToolResult
from tests.servers.topics import list_offset, produce_values
from tests.servers.wire import Connection
from tests.waiting import wait_until

pytestmark = pytest.mark.java

Tool = Callable[..., ToolResult]


@pytest.fixture
def tool(java_tools: JavaTools, broker: BrokerProcess) -> Tool:
    def run(*arguments: str, name: str = "consumer-groups") -> ToolResult:
        return java_tools.run(name, "--bootstrap-server", broker.bootstrap, *arguments)

    return run


@pytest.fixture
def groups(connection: Connection) -> Groups:
    return Groups(connection)


def rows(output: str) -> list[dict[str, str]]:
    """Of a table with a header; no column of these holds spaces."""
    lines = [line.split() for line in output.splitlines() if line.strip()]
    [start, *_] = [number for number, line in enumerate(lines) if line[0] == "GROUP"]
    header = " ".join(lines[start]).replace("COORDINATOR (ID)", "COORDINATOR ID").split()
    return [dict(zip(header, line, strict=False)) for line in lines[start + 1 :]]


def written_topic(groups: Groups, records: int, partitions: int = 1) -> str:
    """With so many records in partition 0."""
    topic = groups.topic(partitions)
    # Brokers name the leader of a new partition before it can be written.
    wait_until(lambda: list_offset(groups.connection, topic, 0, -1)[0] == 0, "the topic can be written")
    produce_values(groups.connection, topic, *[b"x"] * records)
    return topic


def abandoned(groups: Groups, *, records: int = 10, offset: int = 4) -> tuple[str, str]:
    """A group without members that has committed an offset of a topic with so many records."""
    topic, group = written_topic(groups, records), groups.group()
    assert groups.commit(group, topic, offset) == 0
    return group, topic


def test_an_active_classic_group(tool: Tool, groups: Groups) -> None:
    topic, group = written_topic(groups, 9, partitions=2), groups.group()
    member = ClassicMember(groups, group, topic)
    assert member.join().error_code == 0
    assert member.sync({topic: [0, 1]}) == 0
    assert groups.commit(group, topic, 4, member=member.member_id, epoch=member.generation) == 0
    first, second = rows(tool("--describe", "--group", group).check())
    expected = {"TOPIC": topic, "PARTITION": "0", "CURRENT-OFFSET": "4", "LOG-END-OFFSET": "9", "LAG": "5"}
    assert expected.items() <= first.items()
    assert (first["CONSUMER-ID"], first["HOST"], first["CLIENT-ID"]) == (member.member_id, "/127.0.0.1", "wire")
    assert (second["CURRENT-OFFSET"], second["LOG-END-OFFSET"], second["LAG"]) == ("-", "0", "-")
    [described] = rows(tool("--describe", "--members", "--verbose", "--group", group).check())
    assert (described["CONSUMER-ID"], described["#PARTITIONS"]) == (member.member_id, "2")
    assert f"{topic}:0,1" in described.values() or f"{topic}(0,1)" in described.values(), described
    [state] = rows(tool("--describe", "--state", "--group", group).check())
    assert {"range", "Stable", "1"} <= set(state.values())
    refused = tool("--delete", "--group", group)
    assert "GroupNotEmptyException" in refused.stdout + refused.stderr, refused
    refused = tool("--reset-offsets", "--to-earliest", "--group", group, "--topic", topic, "--execute")
    assert "current state is Stable" in refused.stdout + refused.stderr, refused
    assert member.leave() == 0


def test_an_active_group_of_the_consumer_protocol(tool: Tool, groups: Groups) -> None:
    topic, group = written_topic(groups, 3, partitions=2), groups.group()
    members = [ConsumerMember(groups, group, topic) for _ in range(2)]
    for member in members:
        assert member.join().error_code == 0
    settle(*members, counts=[1, 1])
    owner = next(member for member in members if member.owned == {groups.topic_ids[topic]: [0]})
    assert groups.commit(group, topic, 3, member=owner.member_id, epoch=owner.epoch) == 0
    [first] = [row for row in rows(tool("--describe", "--group", group).check()) if row["PARTITION"] == "0"]
    assert (first["CURRENT-OFFSET"], first["LAG"], first["CONSUMER-ID"]) == ("3", "0", owner.member_id)
    described = rows(tool("--describe", "--members", "--verbose", "--group", group).check())
    assert {row["CONSUMER-ID"] for row in described} == {member.member_id for member in members}
    assert {row["#PARTITIONS"] for row in described} == {"1"}
    assert {row["CURRENT-EPOCH"] for row in described} == {str(owner.epoch)}
    [state] = rows(tool("--describe", "--state", "--verbose", "--group", group).check())
    assert {"uniform", "Stable", "2", str(owner.epoch)} <= set(state.values()), state
    listed = tool("--list", "--type", "consumer", "--state", "stable").check()
    assert re.search(rf"^{group}\s+Consumer\s+Stable", listed, re.MULTILINE), listed
    assert group not in tool("--list", "--type", "classic").check()
    known = tool("--list", name="groups").check()
    assert re.search(rf"^{group}\s+Consumer\s+consumer", known, re.MULTILINE), known
    for member in members:
        assert member.leave() == 0


def test_offsets_are_reset(tool: Tool, groups: Groups) -> None:
    group, topic = abandoned(groups)

    def reset(*arguments: str) -> int:
        """The new offset as the tool prints it."""
        output = tool("--reset-offsets", "--group", group, "--topic", topic, *arguments).check()
        [row] = rows(output)
        return int(row["NEW-OFFSET"])

    assert reset("--to-earliest", "--dry-run") == 0
    assert groups.fetch(group, topic) == (0, 4), "nothing was changed"
    assert reset("--shift-by", "3", "--execute") == 7
    assert groups.fetch(group, topic) == (0, 7)
    assert reset("--to-offset", "100", "--execute") == 10, "no further than the end"
    assert reset("--to-datetime", "2020-01-01T00:00:00.000", "--execute") == 0
    assert reset("--to-latest", "--execute") == 10
    assert groups.fetch(group, topic) == (0, 10)


def test_offsets_and_groups_are_deleted(tool: Tool, groups: Groups) -> None:
    group, topic = abandoned(groups)
    other = groups.topic()
    assert groups.commit(group, other, 1) == 0
    deleted = tool("--delete-offsets", "--group", group, "--topic", topic).check()
    assert re.search(rf"^{topic}\s+0\s+Successful", deleted, re.MULTILINE), deleted
    assert groups.fetch(group, topic) == (0, -1)
    assert groups.fetch(group, other) == (0, 1)
    listed = tool("--list", "--state").check()
    assert re.search(rf"^{group}\s+Empty", listed, re.MULTILINE), listed
    assert "was successful" in tool("--delete", "--group", group).check()
    assert group not in tool("--list").check().split()
    missing = tool("--describe", "--group", group)
    assert f"GroupIdNotFoundException: Group {group} not found." in missing.stdout, missing
    refused = tool("--delete", "--group", group)
    assert "GroupIdNotFoundException" in refused.stdout + refused.stderr, refused


def test_kafka_prints_the_offsets_topic(java_tools: JavaTools, broker: BrokerProcess, groups: Groups) -> None:
    group, topic = abandoned(groups, offset=7)
    classic, consumer = groups.group(), groups.group()
    member = ClassicMember(groups, classic, topic)
    assert member.join().error_code == 0
    assert member.sync({topic: [0]}) == 0
    modern = ConsumerMember(groups, consumer, topic)
    assert modern.join().error_code == 0
    files = [str(path) for path in sorted(broker.data.glob("__consumer_offsets-*/*.log")) if path.stat().st_size]
    dumped = java_tools.run("dump-log", "--offsets-decoder", "--files", ",".join(files)).check()
    assert "isvalid: false" not in dumped
    lines = dumped.splitlines()
    [commit] = [line for line in lines if group in line and '"offset":7' in line]
    assert f'"topic":"{topic}"' in commit
    assert any(classic in line and f'"leader":"{member.member_id}"' in line for line in lines)
    kinds = {found for line in lines if consumer in line for found in re.findall(r'key: \{"type":"(\d+)"', line)}
    # Group and member of KIP-848, their target and current assignment, by the numbers of Kafka's record types.
    assert {"3", "5", "6", "7", "8"} <= kinds, kinds
    assert member.leave() == 0
    assert modern.leave() == 0
