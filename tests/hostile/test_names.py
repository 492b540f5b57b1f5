"""Names that would leave the data directory, through every door that takes one."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from tests.servers.broker_process import BrokerProcess
from tests.servers.topics import list_offset, produce_request
from tests.servers.wire import Connection, ConnectionLost, NewRecord, build_batch

from tidelog.protocol.generated.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic

NAMES = ("../escape", "..", ".", "/etc/escape", "a/../../escape", "a\0b", "a\nb", "", "x" * 250, "ü", "a b", "-" * 300)


@pytest.fixture
def opened(victim: BrokerProcess) -> Iterator[Connection]:
    with Connection(victim.port) as connection:
        yield connection


@pytest.fixture(autouse=True)
def nothing_appears(victim: BrokerProcess) -> Iterator[None]:
    """Neither in the data directory nor beside it."""

    def seen() -> set[str]:
        found = set()
        for place in (victim.data, victim.data.parent, victim.data.parent.parent):
            found |= {os.path.join(place, name) for name in os.listdir(place)}
        return {path for path in found if "checkpoint" not in path}

    before = seen()
    yield
    assert seen() <= before


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_creating_it_is_refused(opened: Connection, name: str) -> None:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    [result] = opened.call(CreateTopicsRequest(topics=[topic]), 7).topics
    assert result.error_code == 17
    assert result.error_message


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_asking_for_it_does_not_create_it(opened: Connection, name: str) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)
    [topic] = opened.call(request, 9).topics
    assert topic.error_code in (17, 3)
    assert topic.partitions == []


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_writing_to_it_is_refused(opened: Connection, name: str) -> None:
    answer = opened.call(produce_request(name, build_batch([NewRecord(b"x")])), 9)
    assert answer.responses[0].partition_responses[0].error_code in (3, 17)


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_reading_it_is_refused(opened: Connection, name: str) -> None:
    assert list_offset(opened, name, 0, -1)[0] in (3, 17)


def test_names_that_are_not_text(opened: Connection) -> None:
    body = b"\0\0\0\1" + b"\0\4\xff\xfe\xff\xfe" + b"\1"
    with pytest.raises(ConnectionLost):
        opened.call_raw(3, 4, body)
