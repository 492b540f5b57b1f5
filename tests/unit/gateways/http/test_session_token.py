"""Sessions of requests: which tokens are taken, what is noted in them, and clusters that cannot have a key yet."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.metadata.images import broker, cluster, replayed

from tidelog.gateways.access import READ_COMMITTED
from tidelog.gateways.http import session_token as module
from tidelog.gateways.http.messages import Body, HttpError, Request
from tidelog.gateways.http.seen import Seen, SeenPartitions, read_token
from tidelog.gateways.http.session_token import HEADER, Session, open_session
from tidelog.metadata.features import TIDELOG_VERSION
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.topics import PartitionState
from tidelog.protocol.generated.feature_level_record import FeatureLevelRecord
from tidelog.protocol.generated.partition_change_record import PartitionChangeRecord
from tidelog.protocol.generated.partition_record import PartitionRecord
from tidelog.protocol.generated.topic_record import TopicRecord
from tidelog.protocol.message import Message
from tidelog.protocol.private_records import SessionKeyRecord

KEY = b"k" * 32
TOPIC_ID = b"i" * 16
RECORDS: list[Message] = [
    FeatureLevelRecord(name=TIDELOG_VERSION, feature_level=2),
    TopicRecord(name="t", topic_id=TOPIC_ID),
    PartitionRecord(partition_id=0, topic_id=TOPIC_ID, replicas=[1], isr=[1], leader=1, leader_epoch=5),
]


class Access:
    node_id = 1

    def __init__(self, *records: Message) -> None:
        self.image: MetadataImage = replayed(cluster(broker(1)), [*RECORDS, *records])[0]

    def replay(self, *records: Message) -> None:
        self.image = replayed(self.image, records)[0]

    @property
    def metadata_end_offset(self) -> int:
        return self.image.next_offset

    def partition(self, topic: str, index: int) -> PartitionState | None:
        found = self.image.topics.get(topic)
        return None if found is None else found.partitions.get(index)

    async def open(self, token: str | None = None) -> Session:
        headers = {} if token is None else {HEADER.lower(): token}
        request = Request("GET", "/", "", headers, Body(lambda _: None))
        return await open_session(cast(Any, self), request)


@pytest.fixture
def access() -> Access:
    return Access(SessionKeyRecord(key_id=1, key=KEY))


def read_up_to(next_offset: int, leader_epoch: int) -> Any:
    """As a reader is when its records were taken."""
    return SimpleNamespace(next_offset=next_offset, leader_epoch=leader_epoch)


def seen_in(session: Session) -> SeenPartitions:
    return read_token(session.headers()[HEADER], {1: KEY})


async def test_writes_and_reads_are_noted(access: Access) -> None:
    session = await access.open()
    session.wrote("t", 0, 43)
    assert list(seen_in(session)) == [(TOPIC_ID, 0, Seen(43, 5))]
    session = await access.open(session.headers()[HEADER])
    session.read("t", 0, read_up_to(44, 3), READ_COMMITTED)
    assert list(seen_in(session)) == [(TOPIC_ID, 0, Seen(44, 3, 44))]
    session.read("t", 0, read_up_to(50, -1))
    session.wrote("gone", 0, 7)
    assert list(seen_in(session)) == [(TOPIC_ID, 0, Seen(44, 3, 44))]
    assert seen_in(session).metadata_offset == access.image.offset


async def test_a_write_across_a_change_of_leader_has_no_certain_epoch(access: Access) -> None:
    session = await access.open()
    access.replay(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=1))
    session.wrote("t", 0, 43)
    assert list(seen_in(session)) == [(TOPIC_ID, 0, Seen(43, -1))]


async def test_a_topic_that_was_made_anew_is_another_one(access: Access) -> None:
    session = await access.open()
    session.wrote("t", 0, 43)
    other = b"j" * 16
    access.replay(
        TopicRecord(name="t", topic_id=other),
        PartitionRecord(partition_id=0, topic_id=other, replicas=[1], isr=[1], leader=1, leader_epoch=0),
    )
    session = await access.open(session.headers()[HEADER])
    # Nothing was seen of it, so no replica is asked.
    await session.catch_up("t", 0)
    await session.catch_up("no-such", 0)
    session.wrote("t", 0, 1)
    assert [entry[0] for entry in seen_in(session)] == [TOPIC_ID, other]


@pytest.mark.parametrize("token", ["", "AAAA", "nonsense!", "\xff", "A" * 5000])
async def test_a_wrong_token_is_the_clients_fault(access: Access, token: str) -> None:
    with pytest.raises(HttpError) as refused:
        await access.open(token)
    assert refused.value.status == 400
    assert "leave the header out" in refused.value.message
    assert "\n" not in refused.value.message


async def test_a_foreign_token_is_the_clients_fault(access: Access) -> None:
    for key_id, key in ((1, b"x" * 32), (2, KEY)):
        with pytest.raises(HttpError) as refused:
            await access.open(SeenPartitions().sign(key_id, key))
        assert refused.value.status == 400


async def test_a_node_whose_metadata_is_behind_waits(access: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    token = SeenPartitions(access.image.offset + 1).sign(1, KEY)
    monkeypatch.setattr(module, "METADATA_SECONDS_MAX", 0.02)
    with pytest.raises(HttpError) as refused:
        await access.open(token)
    assert refused.value.status == 503
    assert refused.value.headers == {"Retry-After": "1"}
    access.replay(FeatureLevelRecord(name="group.version", feature_level=1))
    await access.open(token)


async def test_without_the_level_nothing_fails_and_no_token_is_given() -> None:
    access = Access(FeatureLevelRecord(name=TIDELOG_VERSION, feature_level=1))
    session = await access.open()
    session.wrote("t", 0, 43)
    assert session.headers() == {}
    with pytest.raises(HttpError) as refused:
        await access.open(SeenPartitions().sign(1, KEY))
    assert refused.value.status == 400


async def test_the_first_request_waits_for_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEY_SECONDS_MAX", 0.02)
    access = Access()
    assert (await access.open()).headers() == {}
