"""Tokens of HTTP sessions on real nodes: their key through upgrades and restarts, leaders without doors, full ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests.cli.command import Command
from tests.node.test_http import create, door_of, path_of
from tests.servers.http import HttpAnswer, get, post
from tests.waiting import wait_until

from tidelog.gateways.http.seen import Seen, SeenPartitions, read_token
from tidelog.metadata.features import BOOTSTRAP, TIDELOG_VERSION
from tidelog.metadata.session_keys import SessionKeysImage
from tidelog.testing.broker import Broker
from tidelog.testing.embedded_cluster import EmbeddedCluster

HEADER = "X-Tidelog-Session"


def token_of(answer: HttpAnswer) -> str:
    assert answer.status == 200, answer
    return answer.headers[HEADER.lower()]


def keys_of(broker: Broker) -> SessionKeysImage:
    return broker.node.metadata.part(SessionKeysImage)


def signed(broker: Broker, seen: SeenPartitions) -> dict[str, str]:
    """The header with a token that says what a test wants."""
    newest = keys_of(broker).newest
    assert newest is not None
    return {HEADER: seen.sign(*newest)}


def seen_of(broker: Broker, topic: str, seen: Seen, *, metadata_offset: int = -1) -> SeenPartitions:
    found = SeenPartitions(metadata_offset)
    found.note(broker.node.metadata.topics[topic].topic_id, 0, seen)
    return found


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(3, {"http.listen": "127.0.0.1:0"}) as running:
        yield running


def test_before_the_upgrade_there_are_no_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BOOTSTRAP, TIDELOG_VERSION, 1)
    with Broker({"http.listen": "127.0.0.1:0"}, data=tmp_path) as broker:
        port = door_of(broker)
        published = post(port, "/topics/t/partitions/0", b"x")
        assert published.json() == {"offset": 0}
        assert HEADER.lower() not in published.headers
        assert HEADER.lower() not in get(port, "/topics/t/partitions/0/fetch").headers
        foreign = {HEADER: SeenPartitions().sign(1, b"k" * 32)}
        assert get(port, "/topics/t/partitions/0/fetch", foreign).status == 400

        Command(broker.bootstrap_servers)("cluster", "upgrade")
        wait_until(lambda: keys_of(broker).newest is not None, "the key")
        token = token_of(get(port, "/topics/t/partitions/0/fetch"))
        key = keys_of(broker).by_id[1]
        broker.restart()
        port = door_of(broker)
        assert keys_of(broker).by_id == {1: key}
        assert token_of(get(port, "/topics/t/partitions/0/fetch", {HEADER: token}))
    dumped = Command("")("log", "dump", str(tmp_path / "__cluster_metadata-0"), "--records").out
    assert "type=SessionKeyRecord" in dumped
    assert key.hex() not in dumped


def test_without_a_door_there_is_no_key(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker:
        broker.create_topic("t")
        assert keys_of(broker).newest is None


def test_all_nodes_take_a_token(cluster: EmbeddedCluster) -> None:
    create(cluster.brokers, "all", [2, 3])
    first, leader, follower = map(door_of, cluster.brokers)
    token = token_of(post(leader, "/topics/all/partitions/0", b"x"))
    path = "/topics/all/partitions/0/fetch?wait=2000"
    for port in (leader, follower):
        assert get(port, path, {HEADER: token}).json()["toOffset"] == 1
    assert path_of(get(first, path, {HEADER: token}), leader) == path
    keys = [keys_of(broker).by_id for broker in cluster.brokers]
    assert keys[0] == keys[1] == keys[2]


def test_a_follower_that_is_behind_sends_to_the_leader(cluster: EmbeddedCluster) -> None:
    create(cluster.brokers, "behind", [2, 3])
    _, leader, follower = map(door_of, cluster.brokers)
    token_of(post(leader, "/topics/behind/partitions/0", b"x"))
    ahead = signed(cluster.brokers[0], seen_of(cluster.brokers[0], "behind", Seen(5, 0)))
    path = "/topics/behind/partitions/0/fetch?wait=100"
    assert path_of(get(follower, path, ahead), leader) == path
    # No unclean election: what was seen was never there. Only a lost disk explains that, and it is said.
    refused = get(leader, path, ahead)
    assert (refused.status, refused.json()["kafkaError"]) == (410, "OFFSET_OUT_OF_RANGE")
    assert get(leader, path, {HEADER: refused.headers[HEADER.lower()]}).json()["toOffset"] == 1


def test_a_full_token_reads_from_leaders(cluster: EmbeddedCluster) -> None:
    create(cluster.brokers, "full", [2, 3])
    _, leader, follower = map(door_of, cluster.brokers)
    token_of(post(leader, "/topics/full/partitions/0", b"x"))
    full = signed(cluster.brokers[0], SeenPartitions(is_full=True))
    path = "/topics/full/partitions/0/fetch"
    assert path_of(get(follower, path, full), leader) == path
    again = token_of(get(leader, path, full))
    assert read_token(again, keys_of(cluster.brokers[0]).by_id).is_full
    # What is in a token is read from any replica, though the token is full.
    assert get(follower, f"{path}?wait=2000", {HEADER: again}).json()["toOffset"] == 1


def test_a_node_without_the_metadata_of_the_session_says_so(cluster: EmbeddedCluster) -> None:
    broker = cluster.brokers[0]
    newer = signed(broker, SeenPartitions(broker.node.metadata.offset + 1000))
    for answer in (
        post(door_of(broker), "/topics/newer/partitions/0", b"x", newer),
        get(door_of(broker), "/topics/newer/partitions/0/fetch", newer),
    ):
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")


def test_readers_of_committed_records_do_not_see_them_go_again(cluster: EmbeddedCluster) -> None:
    create(cluster.brokers, "committed", [2, 3])
    _, leader, follower = map(door_of, cluster.brokers)
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "sessions", "log_level": 0}
    )
    producer.init_transactions(30)
    path = "/topics/committed/partitions/0/fetch?isolation=read_committed"
    for number in range(3):
        producer.begin_transaction()
        producer.produce("committed", b"%d" % number)
        producer.flush(30)
        # Own writes that others' open transactions keep from such readers are not waited for.
        token = token_of(post(leader, "/topics/committed/partitions/0", b"own"))
        assert token_of(get(leader, path, {HEADER: token}))
        producer.commit_transaction(30)
        wait_until(lambda: len(get(leader, path).json()["records"]) == 2 * number + 2, "the transaction")  # noqa: B023
        answer = get(leader, path, {HEADER: token})
        token, end = token_of(answer), answer.json()["toOffset"]
        for _ in range(5):
            answer = get(follower, f"{path}&wait=3000", {HEADER: token})
            token = token_of(answer)
            assert answer.json()["toOffset"] >= end


def test_a_leader_without_a_door_is_asked_for_the_client() -> None:
    with (
        Broker({"node.id": 1}) as without,
        Broker(
            {
                "node.id": 2,
                "controller.quorum.bootstrap.servers": without.bootstrap_servers,
                "http.listen": "127.0.0.1:0",
            }
        ) as with_door,
    ):
        create([without, with_door], "forwarded", [1])
        port = door_of(with_door)
        token = token_of(post(port, "/topics/forwarded/partitions/0", b"x"))
        path = "/topics/forwarded/partitions/0/fetch"
        assert get(port, path, {HEADER: token}).json()["toOffset"] == 1
        assert [seen for _, _, seen in read_token(token, keys_of(without).by_id)] == [Seen(1, 0)]
        # The leader has not heard of such an epoch yet: it is asked for a while.
        newer = signed(with_door, seen_of(with_door, "forwarded", Seen(5, 9)))
        refused = get(port, path, newer)
        assert (refused.status, refused.json()["kafkaError"]) == (503, "OFFSET_NOT_AVAILABLE")
        lost = signed(with_door, seen_of(with_door, "forwarded", Seen(5, 0)))
        assert get(port, path, lost).status == 410
