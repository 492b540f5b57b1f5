"""Sessions on a real cluster whose nodes lag, hang and die: no read misses an own write, and none goes back in time.

Each client asks nodes in random order, with nothing but the token it was given last, and keeps its own record of what
it must see.
"""

from __future__ import annotations

import base64
import http.client
import json
import random
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.waiting import wait_until

from tidelog.client import Patience, RequestFailed, Session
from tidelog.client.nodes import parse_address
from tidelog.testing import Cluster
from tidelog.testing.cluster_node import ClusterNode

PARTITIONS = 2
ANSWER_SECONDS_MAX = 1.5
REDIRECTS_MAX = 5
SETTINGS = {
    "http.listen": "127.0.0.1:0",
    "broker.session.timeout.ms": "1500",
    "replica.lag.time.max.ms": "1500",
    "replica.fetch.wait.max.ms": "100",
}


class NoAnswer(Exception):
    """A node is away, hangs, or says that it cannot answer now."""


class Answer:
    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.document: Any = json.loads(body) if body else None


def ask_once(address: str, method: str, path: str, body: bytes | None, token: str | None) -> Answer:
    host, port = parse_address(address)
    connection = http.client.HTTPConnection(host, port, timeout=ANSWER_SECONDS_MAX)
    try:
        connection.request(method, path, body, {} if token is None else {"X-Tidelog-Session": token})
        response = connection.getresponse()
        return Answer(response.status, {name.lower(): text for name, text in response.getheaders()}, response.read())
    except (OSError, http.client.HTTPException) as error:
        raise NoAnswer(repr(error)) from None
    finally:
        connection.close()


class Client:
    """A session without a library: what any HTTP client can do."""

    def __init__(self, addresses: list[str], topic: str, seed: int) -> None:
        self._addresses = addresses
        self._topic = topic
        self.random = random.Random(seed)
        self.token: str | None = None
        self.own: dict[tuple[int, int], bytes] = {}
        """Acknowledged writes by partition and offset."""
        self.read_end = [0] * PARTITIONS
        """The largest offset that an answer has reached."""
        self.redirects = 0
        self.tokens_largest = 0

    def _ask(self, method: str, path: str, body: bytes | None = None) -> Answer:
        address = self.random.choice(self._addresses)
        for _ in range(REDIRECTS_MAX):
            answer = ask_once(address, method, path, body, self.token)
            if answer.status != 307:
                break
            self.redirects += 1
            address, _, rest = answer.headers["location"].removeprefix("http://").partition("/")
            path = f"/{rest}"
        if answer.status in (307, 503, 504):
            raise NoAnswer(f"{answer.status} {answer.document}")
        assert answer.status == 200, (answer.status, answer.document, method, path)
        self.token = answer.headers["x-tidelog-session"]
        self.tokens_largest = max(self.tokens_largest, len(self.token))
        return answer

    def publish(self, value: bytes) -> None:
        partition = self.random.randrange(PARTITIONS)
        answer = self._ask("POST", f"/topics/{self._topic}/partitions/{partition}?timeout=1000", value)
        self.own[partition, answer.document["offset"]] = value

    def read(self) -> None:
        """From anywhere up to the end of what it has seen. All records fit one answer."""
        partition = self.random.randrange(PARTITIONS)
        own_end = max((offset + 1 for index, offset in self.own if index == partition), default=0)
        needed = max(own_end, self.read_end[partition])
        start = self.random.choice([needed, max(0, needed - 1), self.random.randint(0, needed)])
        wait_ms = self.random.choice([0, 0, 100])
        path = f"/topics/{self._topic}/partitions/{partition}/fetch?offset={start}&maxBytes=10000000&wait={wait_ms}"
        found = self._ask("GET", path).document
        end = found["toOffset"]
        assert end >= needed, f"{partition}: read to {end}, and has seen {needed}"
        assert len(found["records"]) == end - start
        for offset, record in enumerate(found["records"], start):
            expected = self.own.get((partition, offset))
            assert expected is None or base64.b64decode(record) == expected, f"own write at {partition}:{offset}"
        self.read_end[partition] = end


class Load:
    """Clients in threads of their own, until the end of the `with`."""

    def __init__(self, cluster: Cluster, topic: str, *, clients: int = 6, seed: int = 1) -> None:
        self.addresses = [node.http_address for node in cluster.nodes]
        self.clients = [Client(self.addresses, topic, seed * 100 + number) for number in range(clients)]
        self.reads = 0
        self.writes = 0
        self.unanswered = 0
        self._faults: list[BaseException] = []
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(client,)) for client in self.clients]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        if self._faults:
            raise self._faults[0]

    def _run(self, client: Client) -> None:
        number = 0
        try:
            while not self._stopping.is_set():
                try:
                    if client.random.random() < 0.3:
                        number += 1
                        client.publish(b"%d of %d" % (number, id(client)))
                        self.writes += 1
                    else:
                        client.read()
                        self.reads += 1
                except NoAnswer:
                    self.unanswered += 1
                    time.sleep(0.02)
        except BaseException as fault:
            self._faults.append(fault)

    def goes_on(self, seconds: float = 0.0) -> None:
        """Returns when there was progress, after so many seconds at least."""
        reads, writes, end_s = self.reads, self.writes, time.monotonic() + seconds

        def has_gone_on() -> bool:
            if self._faults:
                raise self._faults[0]
            return self.reads > reads + 20 and self.writes > writes + 5 and time.monotonic() >= end_s

        wait_until(has_gone_on, "reads and writes that are answered", 30)


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    with Cluster(nodes=3, settings=SETTINGS) as cluster:
        yield cluster


@pytest.fixture
def cluster(running: Cluster) -> Cluster:
    running.restore()
    return running


def some_follower(cluster: Cluster, topic: str) -> ClusterNode:
    return next(node for node in cluster.followers_of(topic, 0) if node is not cluster.controller)


def test_every_node_answers_in_a_session(cluster: Cluster) -> None:
    topic = cluster.create_topic("calm", PARTITIONS)
    with Load(cluster, topic) as load:
        load.goes_on(1.0)
    assert load.unanswered == 0
    assert max(client.tokens_largest for client in load.clients) < 200


def test_followers_that_lag(cluster: Cluster) -> None:
    """Cut off from the leader, a follower answers over HTTP what it has: it must send readers to the leader."""
    topic = cluster.create_topic("lagging", PARTITIONS)
    follower = some_follower(cluster, topic)
    leaders = {cluster.leader_of(topic, partition).node_id: None for partition in range(PARTITIONS)}
    with Load(cluster, topic) as load:
        load.goes_on()
        for node_id in leaders:
            if node_id != follower.node_id:
                cluster.cut(follower, cluster.node(node_id))
        # Writes wait until it is out of the in-sync set, and go on without it.
        load.goes_on(2.5)
        cluster.heal()
        load.goes_on(0.5)
    assert sum(client.redirects for client in load.clients) > 0


def test_a_node_that_hangs_and_comes_back_with_an_old_state(cluster: Cluster) -> None:
    topic = cluster.create_topic("hanging", PARTITIONS)
    follower = some_follower(cluster, topic)
    with Load(cluster, topic) as load:
        load.goes_on()
        follower.pause()
        load.goes_on(2.5)
        follower.resume()
        load.goes_on(1.0)


def test_leaders_that_die(cluster: Cluster) -> None:
    topic = cluster.create_topic("dying", PARTITIONS)
    with Load(cluster, topic) as load:
        load.goes_on()
        leader = cluster.leader_of(topic, 0)
        leader.kill()
        load.goes_on(1.0)
        leader.start()
        load.addresses[leader.node_id - 1] = leader.http_address
        cluster.wait_until_in_sync(topic)
        cluster.leader_of(topic, 0).kill()
        load.goes_on(0.5)


def test_a_topic_that_was_made_anew_is_another_one(cluster: Cluster) -> None:
    topic = cluster.create_topic("anew", PARTITIONS)
    client = Client([node.http_address for node in cluster.nodes], topic, 1)
    for number in range(5):
        client.publish(b"%d" % number)
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.delete_topics([topic])[topic].result(10)
    wait_until(lambda: topic not in admin.list_topics(timeout=10).topics, "the end of the topic")
    cluster.create_topic(topic, PARTITIONS)
    client.own.clear()
    client.read_end = [0] * PARTITIONS
    client.publish(b"new")
    for _ in range(20):
        client.read()


def test_what_an_unclean_election_has_lost_is_said_once(cluster: Cluster) -> None:
    configs = {"unclean.leader.election.enable": "true", "min.insync.replicas": 1}
    topic = cluster.create_topic("lost", 1, replicas=2, configs=configs)
    leader, [follower] = cluster.leader_of(topic), cluster.followers_of(topic)
    other = next(node for node in cluster.nodes if node not in (leader, follower))
    session = Session([other.http_address], patience=Patience(timeout_s=15))
    session.publish(topic, 0, b"kept")
    follower.kill()
    assert session.publish(topic, 0, b"to be lost").offset == 1
    stale = session.token
    leader.kill()
    follower.start()
    wait_until(lambda: cluster.leader_of(topic) is follower, "an unclean election")

    with pytest.raises(RequestFailed, match=r"t this session has seen are lost.*from offset 1") as lost:
        session.fetch(topic, 0, 0)
    assert lost.value.status == 410
    # From now on the session takes the log as it is.
    assert [record.value for record in session.fetch(topic, 0, 0).records] == [b"kept"]
    assert session.publish(topic, 0, b"again").offset == 1
    assert [record.value for record in session.fetch(topic, 0, 0).records] == [b"kept", b"again"]
    with Session([other.http_address], token=stale) as late, pytest.raises(RequestFailed) as lost:
        late.fetch(topic, 0, 0)
    assert lost.value.status == 410
    session.close()


def test_the_library_reads_its_own_writes_through_a_failover(cluster: Cluster) -> None:
    topic = cluster.create_topic("library", 1)
    patience = Patience(timeout_s=20, attempt_s=1)
    with Session([node.http_address for node in cluster.nodes], patience=patience) as session:
        written: dict[int, bytes] = {}
        unknown: list[bool] = []
        for number in range(60):
            if number == 20:
                cluster.leader_of(topic).kill()
            value = b"%d" % number
            try:
                written[session.publish(topic, 0, value).offset] = value
            except RequestFailed as failed:
                unknown.append(failed.may_be_written)
            last = max(written)
            found = session.fetch(topic, 0, last)
            assert found.records[0].value == written[last]
    assert len(written) + len(unknown) == 60
    assert len(unknown) <= 5
    assert all(unknown)
