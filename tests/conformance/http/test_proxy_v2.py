"""The calls of REST Proxy v2 on a node, beside a Kafka client on the same node."""

from __future__ import annotations

import base64
import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from tests.conformance.http.conftest import HttpNode
from tests.servers.broker_process import free_ports
from tests.servers.openapi import DocumentedDoor
from tests.servers.tidelog_node import start_tidelog
from tests.servers.topics import create_topic
from tests.servers.wire import Connection
from tests.waiting import wait_until

V2 = "application/vnd.kafka.v2+json"
JSON = "application/vnd.kafka.json.v2+json"
BINARY = "application/vnd.kafka.binary.v2+json"
_numbers = count()


@pytest.fixture(scope="module")
def door(http_node: HttpNode) -> DocumentedDoor:
    return DocumentedDoor(http_node.port)


@pytest.fixture
def topic(kafka_door: Connection) -> str:
    return create_topic(kafka_door, "proxy", partitions=2)


def new_group() -> str:
    return f"proxy-group-{next(_numbers)}-{time.monotonic_ns()}"


def produce(door: DocumentedDoor, topic: str, records: list[dict[str, Any]], media_type: str = JSON) -> list[Any]:
    answer = door.ask("POST", f"/topics/{topic}", {"records": records}, {"Content-Type": media_type})
    assert answer.status == 200, answer.body
    found = answer.json()
    assert (found["key_schema_id"], found["value_schema_id"]) == (None, None)
    assert all(each["error_code"] is None for each in found["offsets"]), found
    return [(each["partition"], each["offset"]) for each in found["offsets"]]


class RestConsumer:
    """A consumer instance, as a client of the proxy uses it."""

    def __init__(self, door: DocumentedDoor, group: str, **settings: object) -> None:
        self._door = door
        body = {"format": "json", "auto.offset.reset": "earliest", "auto.commit.enable": "false"}
        body |= {name.replace("_", "."): str(value) for name, value in settings.items()}
        answer = door.ask("POST", f"/consumers/{group}", body, {"Content-Type": V2})
        assert answer.status == 200, answer.body
        self.name = answer.json()["instance_id"]
        self.base_uri = answer.json()["base_uri"]
        self.path = f"/consumers/{group}/instances/{self.name}"
        self.format = BINARY if settings.get("format") == "binary" else JSON

    def do(self, method: str, rest: str, body: object = None, status: int = 204) -> Any:
        answer = self._door.ask(method, f"{self.path}{rest}", body, {"Content-Type": V2})
        assert answer.status == status, answer.body
        return answer.json() if answer.body else None

    def refused(self, method: str, rest: str, body: object = None) -> int:
        answer = self._door.ask(method, f"{self.path}{rest}", body, {"Content-Type": V2})
        assert answer.status == answer.json()["error_code"] // 100 or answer.status == answer.json()["error_code"]
        return int(answer.json()["error_code"])

    def subscribe(self, *topics: str) -> None:
        self.do("POST", "/subscription", {"topics": list(topics)})

    def read(self, timeout_ms: int = 5_000, **query: object) -> list[dict[str, Any]]:
        more = "".join(f"&{name}={value}" for name, value in query.items())
        answer = self._door.ask(
            "GET", f"{self.path}/records?timeout={timeout_ms}{more}", headers={"Accept": self.format}
        )
        assert answer.status == 200, answer.body
        assert answer.headers["content-type"] == self.format
        found: list[dict[str, Any]] = answer.json()
        return found

    def read_values(self, how_many: int) -> list[Any]:
        values: list[Any] = []
        wait_until(
            lambda: len(values.__iadd__([each["value"] for each in self.read(500)])) >= how_many,
            lambda: f"{how_many} records, got {len(values)}",
            20,
        )
        return sorted(values)

    def committed(self, topic: str, *indexes: int) -> dict[int, int]:
        asked = {"partitions": [{"topic": topic, "partition": index} for index in indexes]}
        found = self.do("GET", "/offsets", asked, status=200)["offsets"]
        return {each["partition"]: each["offset"] for each in found}

    def close(self) -> None:
        self.do("DELETE", "")


@pytest.fixture
def consumer(door: DocumentedDoor) -> Iterator[RestConsumer]:
    consumer = RestConsumer(door, new_group())
    yield consumer
    door.ask("DELETE", consumer.path)


# -- topics ------------------------------------------------------------------------------------------------------------


def test_topics_and_partitions(door: DocumentedDoor, topic: str) -> None:
    assert topic in door.ask("GET", "/topics").json()
    described = door.ask("GET", f"/topics/{topic}").json()
    partition = {"leader": 1, "replicas": [{"broker": 1, "leader": True, "in_sync": True}]}
    assert described["name"] == topic
    assert described["configs"]["cleanup.policy"] == "delete"
    assert described["partitions"] == [{"partition": 0, **partition}, {"partition": 1, **partition}]
    assert door.ask("GET", f"/topics/{topic}/partitions").json() == described["partitions"]
    assert door.ask("GET", f"/topics/{topic}/partitions/1").json() == described["partitions"][1]
    produce(door, topic, [{"value": 1, "partition": 1}, {"value": 2, "partition": 1}])
    offsets = door.ask("GET", f"/topics/{topic}/partitions/1/offsets").json()
    assert offsets == {"beginning_offset": 0, "end_offset": 2}
    assert door.ask("GET", "/brokers").json() == {"brokers": [1]}


def test_answers_are_of_the_type_that_the_client_names(door: DocumentedDoor) -> None:
    accepted = {"application/json": "application/json", V2: V2, "*/*": V2}
    for said, got in accepted.items():
        assert door.ask("GET", "/topics", headers={"Accept": said}).headers["content-type"] == got


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/topics/{}-missing", 40401),
        ("/topics/{}-missing/partitions", 40401),
        ("/topics/{}-missing/partitions/0/offsets", 40401),
        ("/topics/{}/partitions/2", 40402),
        ("/topics/{}/partitions/2/offsets", 40402),
        ("/topics/{}/partitions/2/records?offset=0", 40402),
        ("/topics/{}/partitions/x", 400),
        ("/topics/{}/partitions/0/records", 400),
        ("/topics/{}/partitions/0/records?offset=-1", 400),
        ("/topics/{}/partitions/0/records?offset=7", 40002),
        ("/topics/a%20b", 40002),
    ],
)
def test_errors_have_numbers(door: DocumentedDoor, topic: str, path: str, code: int) -> None:
    answer = door.ask("GET", path.format(topic))
    assert answer.json()["error_code"] == code
    assert answer.json()["message"]
    assert answer.status == (code if code < 1000 else code // 100)


# -- records -----------------------------------------------------------------------------------------------------------


def test_json_records_are_what_a_kafka_consumer_reads(door: DocumentedDoor, http_node: HttpNode, topic: str) -> None:
    records: list[dict[str, Any]] = [
        {"key": "k", "value": {"a": [1, 2.5, None, True, "é"]}, "partition": 0},
        {"value": "text", "partition": 0},
        {"key": {"id": 7}, "value": None, "partition": 0},
    ]
    assert produce(door, topic, records) == [(0, 0), (0, 1), (0, 2)]
    consumer = Consumer({"bootstrap.servers": http_node.bootstrap, "group.id": new_group()})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        messages = consumer.consume(3, timeout=20)
        assert [(message.key(), message.value()) for message in messages] == [
            (b'"k"', '{"a":[1,2.5,null,true,"é"]}'.encode()),
            (None, b'"text"'),
            (b'{"id":7}', None),
        ]
    finally:
        consumer.close()
    read = door.ask("GET", f"/topics/{topic}/partitions/0/records?offset=1", headers={"Accept": JSON}).json()
    assert read == [
        {"topic": topic, "key": None, "value": "text", "partition": 0, "offset": 1},
        {"topic": topic, "key": {"id": 7}, "value": None, "partition": 0, "offset": 2},
    ]


def test_binary_records(door: DocumentedDoor, topic: str) -> None:
    value = base64.b64encode(bytes(range(256))).decode()
    answer = door.ask(
        "POST",
        f"/topics/{topic}/partitions/1",
        {"records": [{"key": "AA==", "value": value}, {"value": ""}]},
        {"Content-Type": BINARY},
    )
    assert [(each["partition"], each["offset"]) for each in answer.json()["offsets"]] == [(1, 0), (1, 1)]
    path = f"/topics/{topic}/partitions/1/records?offset=0"
    read = door.ask("GET", path, headers={"Accept": BINARY}).json()
    assert [(each["key"], each["value"]) for each in read] == [("AA==", value), (None, "")]
    refused = door.ask("GET", path, headers={"Accept": JSON})
    assert (refused.status, refused.json()["error_code"]) == (406, 40601)


def test_keys_choose_partitions_as_kafka_clients_do(
    door: DocumentedDoor, http_node: HttpNode, kafka_door: Connection
) -> None:
    topic = create_topic(kafka_door, "keys", partitions=7)
    keys = [f"customer-{number}" for number in range(60)]
    records = [{"key": base64.b64encode(key.encode()).decode(), "value": "YQ=="} for key in keys]
    by_proxy = [partition for partition, _ in produce(door, topic, records, BINARY)]
    by_client: dict[bytes | None, int | None] = {}

    def delivered(_: object, message: Message) -> None:
        by_client[message.key()] = message.partition()

    producer = Producer({"bootstrap.servers": http_node.bootstrap, "partitioner": "murmur2_random"})
    for key in keys:
        producer.produce(topic, key=key, on_delivery=delivered)
    assert producer.flush(20) == 0
    assert by_proxy == [by_client[key.encode()] for key in keys]


def test_records_without_a_key_take_turns(door: DocumentedDoor, topic: str) -> None:
    used = {produce(door, topic, [{"value": 1}])[0][0] for _ in range(4)}
    assert used == {0, 1}


def test_a_topic_is_created_on_first_use(door: DocumentedDoor) -> None:
    assert produce(door, f"proxy-new-{time.monotonic_ns()}", [{"value": 1}]) == [(0, 0)]


def test_more_than_a_batch_takes(door: DocumentedDoor, topic: str) -> None:
    value = base64.b64encode(b"x" * 300_000).decode()
    records = [{"value": value, "partition": 0} for _ in range(10)]
    assert produce(door, topic, records, BINARY) == [(0, offset) for offset in range(10)]
    path = f"/topics/{topic}/partitions/0/records?offset=0&max_bytes=700000"
    assert len(door.ask("GET", path, headers={"Accept": BINARY}).json()) <= 2
    too_large = base64.b64encode(b"x" * 2_000_000).decode()
    answer = door.ask(
        "POST",
        f"/topics/{topic}",
        {"records": [{"value": too_large, "partition": 0}, {"value": "YQ==", "partition": 0}]},
        {"Content-Type": BINARY},
    )
    first, second = answer.json()["offsets"]
    assert (answer.status, first["offset"], first["error_code"]) == (200, None, 50002)
    assert (second["offset"], second["error_code"]) == (10, None)


def test_records_are_waited_for(door: DocumentedDoor, topic: str) -> None:
    path = f"/topics/{topic}/partitions/0/records?offset=0"
    began_s = time.monotonic()
    assert door.ask("GET", f"{path}&timeout=300", headers={"Accept": JSON}).json() == []
    assert 0.25 < time.monotonic() - began_s < 10
    later = threading.Timer(0.3, lambda: produce(door, topic, [{"value": 5, "partition": 0}]))
    later.start()
    assert [each["value"] for each in door.ask("GET", f"{path}&timeout=20000", headers={"Accept": JSON}).json()] == [5]
    later.join()


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", 400),
        (b"[]", 422),
        (b'{"records": []}', 422),
        (b'{"records": [1]}', 422),
        (b'{"records": [{"value": NaN}]}', 422),
        (b'{"records": [{"value": "\\ud800"}]}', 422),
        (b'{"records": [{"value": 1, "partition": "x"}]}', 422),
        (b'{"records": [{"value": 1, "partition": 9}]}', 40402),
    ],
)
def test_wrong_bodies_write_nothing(door: DocumentedDoor, topic: str, body: bytes, code: int) -> None:
    answer = door.ask("POST", f"/topics/{topic}", body, {"Content-Type": JSON})
    assert answer.json()["error_code"] == code
    offsets = door.ask("GET", f"/topics/{topic}/partitions/0/offsets").json()
    assert offsets["end_offset"] == 0


def test_wrong_base64_and_unknown_formats(door: DocumentedDoor, topic: str) -> None:
    answer = door.ask("POST", f"/topics/{topic}", {"records": [{"value": "?"}]}, {"Content-Type": BINARY})
    assert (answer.status, answer.json()["error_code"]) == (422, 422)
    for media_type in ("application/vnd.kafka.avro.v2+json", "text/plain"):
        assert door.ask("POST", f"/topics/{topic}", {"records": [{}]}, {"Content-Type": media_type}).status == 415
    assert door.ask("POST", f"/topics/{topic}/partitions/7", {"records": [{}]}, {"Content-Type": BINARY}).status == 404


# -- consumers ---------------------------------------------------------------------------------------------------------


def test_a_consumer_reads_commits_and_goes_on(door: DocumentedDoor, topic: str) -> None:
    group = new_group()
    produce(door, topic, [{"value": number, "partition": number % 2} for number in range(10)])
    consumer = RestConsumer(door, group, name="first")
    assert consumer.base_uri == f"http://127.0.0.1:{door.port}/consumers/{group}/instances/first"
    consumer.subscribe(topic)
    assert consumer.do("GET", "/subscription", status=200) == {"topics": [topic]}
    assert consumer.read_values(10) == list(range(10))
    assigned = consumer.do("GET", "/assignments", status=200)["partitions"]
    assert assigned == [{"topic": topic, "partition": 0}, {"topic": topic, "partition": 1}]
    assert consumer.committed(topic, 0, 1) == {}
    consumer.do("POST", "/offsets", status=200)
    assert consumer.committed(topic, 0, 1) == {0: 5, 1: 5}
    consumer.close()
    produce(door, topic, [{"value": 10, "partition": 0}])
    second = RestConsumer(door, group)
    second.subscribe(topic)
    assert second.read_values(1) == [10]
    second.close()


def test_the_offsets_of_records_are_committed(door: DocumentedDoor, consumer: RestConsumer, topic: str) -> None:
    produce(door, topic, [{"value": number, "partition": 0} for number in range(5)])
    consumer.subscribe(topic)
    assert consumer.read_values(5)
    consumer.do("POST", "/offsets", {"offsets": [{"topic": topic, "partition": 0, "offset": 2}]}, status=200)
    assert consumer.committed(topic, 0) == {0: 3}


def test_positions(door: DocumentedDoor, consumer: RestConsumer, topic: str) -> None:
    produce(door, topic, [{"value": number, "partition": 0} for number in range(5)])
    consumer.subscribe(topic)
    at_start = {"partitions": [{"topic": topic, "partition": 0}]}
    consumer.do("POST", "/positions", {"offsets": [{"topic": topic, "partition": 0, "offset": 3}]})
    assert consumer.read_values(2) == [3, 4]
    consumer.do("POST", "/positions/beginning", at_start)
    assert consumer.read_values(5) == [0, 1, 2, 3, 4]
    consumer.do("POST", "/positions/beginning", at_start)
    consumer.do("POST", "/positions/end", at_start)
    produce(door, topic, [{"value": 99, "partition": 0}])
    assert consumer.read_values(1) == [99]
    elsewhere = {"offsets": [{"topic": topic, "partition": 5, "offset": 0}]}
    assert consumer.refused("POST", "/positions", elsewhere) == 40903


def test_an_answer_has_at_most_max_bytes(door: DocumentedDoor, consumer: RestConsumer, topic: str) -> None:
    produce(door, topic, [{"value": "x" * 100, "partition": 0} for _ in range(6)])
    consumer.subscribe(topic)
    sizes = [len(consumer.read(max_bytes=250)) for _ in range(3)]
    assert sizes == [2, 2, 2]
    assert consumer.read(0) == []


def test_fetch_min_bytes_are_waited_for(door: DocumentedDoor, topic: str) -> None:
    consumer = RestConsumer(door, new_group(), **{"fetch.min.bytes": 150, "consumer.request.timeout.ms": 400})
    consumer.subscribe(topic)
    produce(door, topic, [{"value": "x" * 98, "partition": 0}])
    later = threading.Timer(0.2, lambda: produce(door, topic, [{"value": "y" * 98, "partition": 1}]))
    later.start()
    assert len(consumer.read(20_000)) == 2
    later.join()
    produce(door, topic, [{"value": "z", "partition": 0}])
    assert len(consumer.read(100)) == 1
    consumer.close()


def test_partitions_that_a_client_assigns(door: DocumentedDoor, consumer: RestConsumer, topic: str) -> None:
    produce(door, topic, [{"value": number, "partition": number % 2} for number in range(4)])
    consumer.do("POST", "/assignments", {"partitions": [{"topic": topic, "partition": 1}]})
    assert consumer.do("GET", "/assignments", status=200)["partitions"] == [{"topic": topic, "partition": 1}]
    assert consumer.do("GET", "/subscription", status=200) == {"topics": []}
    assert consumer.read_values(2) == [1, 3]
    consumer.do("POST", "/offsets", {}, status=200)
    assert consumer.committed(topic, 0, 1) == {1: 2}
    assert consumer.refused("POST", "/subscription", {"topics": [topic]}) == 40903
    assert consumer.refused("POST", "/assignments", {"partitions": [{"topic": topic, "partition": 9}]}) == 40402
    consumer.do("DELETE", "/subscription")
    assert consumer.do("GET", "/assignments", status=200) == {"partitions": []}


def test_a_pattern(door: DocumentedDoor, consumer: RestConsumer, kafka_door: Connection) -> None:
    topic = create_topic(kafka_door, "matched-by-pattern")
    produce(door, topic, [{"value": 1}])
    consumer.do("POST", "/subscription", {"topic_pattern": "matched-by-.*"})
    assert consumer.read_values(1) == [1]
    assert consumer.do("GET", "/subscription", status=200)["topics"] == [topic]
    assert consumer.refused("POST", "/subscription", {"topics": [topic]}) == 40903
    assert consumer.refused("POST", "/assignments", {"partitions": []}) == 40903


def test_a_consumer_that_commits_by_itself(door: DocumentedDoor, topic: str) -> None:
    group = new_group()
    produce(door, topic, [{"value": number, "partition": 0} for number in range(3)])
    consumer = RestConsumer(door, group, auto_commit_enable="true")
    consumer.subscribe(topic)
    assert consumer.read_values(3) == [0, 1, 2]
    consumer.close()
    observer = RestConsumer(door, group)
    assert observer.committed(topic, 0) == {0: 3}
    observer.close()


@pytest.fixture
def quick_node(tmp_path: Path) -> Iterator[HttpNode]:
    """Its groups hear from their members every 300 ms."""
    port = free_ports(1)[0]
    settings = {
        "http.listen": f"127.0.0.1:{port}",
        "group.consumer.heartbeat.interval.ms": "300",
        "group.consumer.min.heartbeat.interval.ms": "300",
    }
    with start_tidelog(tmp_path, settings=settings) as broker:
        yield HttpNode(broker, port)


def test_a_group_is_shared_with_a_kafka_consumer(quick_node: HttpNode) -> None:
    """Each reads one of two partitions; when one leaves, the other gets both and goes on where the first committed."""
    door, group = DocumentedDoor(quick_node.port), new_group()
    with Connection(quick_node.broker.port) as connection:
        topic = create_topic(connection, "shared", partitions=2)
    client = Consumer(
        {
            "bootstrap.servers": quick_node.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 200,
        }
    )
    consumer = RestConsumer(door, group)
    try:
        consumer.subscribe(topic)
        client.subscribe([topic])
        wait_until(
            lambda: (
                client.poll(0.1) is None
                and len(client.assignment()) == 1
                and len(consumer.do("GET", "/assignments", status=200)["partitions"]) == 1
            ),
            "one partition for each",
            30,
        )
        produce(door, topic, [{"value": number, "partition": number % 2} for number in range(6)])
        by_proxy = consumer.read_values(3)
        by_client = sorted(json.loads(message.value() or b"") for message in client.consume(3, timeout=20))
        assert sorted(by_proxy + by_client) == list(range(6))
        client.commit(asynchronous=False)
        client.close()
        wait_until(
            lambda: len(consumer.do("GET", "/assignments", status=200)["partitions"]) == 2, "both partitions", 30
        )
        produce(door, topic, [{"value": number, "partition": number % 2} for number in (6, 7)])
        assert consumer.read_values(2) == [6, 7]
    finally:
        consumer.close()


def test_a_wrong_format_hands_nothing_out(door: DocumentedDoor, consumer: RestConsumer, topic: str) -> None:
    produce(door, topic, [{"value": base64.b64encode(b"no json").decode(), "partition": 0}], BINARY)
    consumer.subscribe(topic)
    for _ in range(2):
        answer = door.ask("GET", f"{consumer.path}/records?timeout=5000", headers={"Accept": JSON})
        assert (answer.status, answer.json()["error_code"]) == (406, 40601)
    answer = door.ask("GET", f"{consumer.path}/records", headers={"Accept": BINARY})
    assert (answer.status, answer.json()["error_code"]) == (406, 40601)


def test_a_client_that_goes_away_takes_no_records_along(
    door: DocumentedDoor, consumer: RestConsumer, topic: str
) -> None:
    consumer.subscribe(topic)
    with socket.create_connection(("127.0.0.1", door.port)) as connection:
        connection.sendall(f"GET {consumer.path}/records?timeout=30000 HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        time.sleep(0.2)
        # Reset rather than ended: a client that only ends its side may still read.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    head = door.ask("HEAD", f"{consumer.path}/records")
    assert head.status == 405
    produce(door, topic, [{"value": 7, "partition": 0}])
    assert [each["value"] for each in consumer.read()] == [7]


def test_a_consumer_that_is_deleted_while_it_waits(door: DocumentedDoor, topic: str) -> None:
    consumer = RestConsumer(door, new_group())
    consumer.subscribe(topic)
    answers: list[int] = []
    path = f"{consumer.path}/records?timeout=30000"
    waiting = threading.Thread(target=lambda: answers.append(door.ask("GET", path, headers={"Accept": JSON}).status))
    waiting.start()
    time.sleep(0.3)
    consumer.close()
    waiting.join(10)
    assert answers == [404]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"format": "avro"}, 42204),
        ({"auto.offset.reset": "smallest"}, 42204),
        ({"auto.commit.enable": "perhaps"}, 42204),
        ({"fetch.min.bytes": "many"}, 42204),
        ({"consumer.request.timeout.ms": -1}, 42204),
        ({"name": "a/b"}, 42204),
        ([], 42204),
        (b"{", 400),
    ],
)
def test_consumers_that_cannot_be(door: DocumentedDoor, body: object, code: int) -> None:
    answer = door.ask("POST", f"/consumers/{new_group()}", body)
    assert answer.json()["error_code"] == code


def test_consumers_have_names(door: DocumentedDoor, consumer: RestConsumer) -> None:
    group = consumer.path.split("/")[2]
    answer = door.ask("POST", f"/consumers/{group}", {"name": consumer.name})
    assert (answer.status, answer.json()["error_code"]) == (409, 40902)
    for method, rest in (
        ("GET", "/records"),
        ("GET", "/subscription"),
        ("POST", "/subscription"),
        ("DELETE", "/subscription"),
        ("GET", "/assignments"),
        ("POST", "/assignments"),
        ("POST", "/positions"),
        ("POST", "/positions/beginning"),
        ("POST", "/positions/end"),
        ("GET", "/offsets"),
        ("POST", "/offsets"),
        ("DELETE", ""),
    ):
        answer = door.ask(method, f"/consumers/{group}/instances/nobody{rest}", {} if method == "POST" else None)
        assert (answer.status, answer.json()["error_code"]) == (404, 40403), (method, rest)


@pytest.mark.parametrize(
    ("rest", "body"),
    [
        ("/subscription", {}),
        ("/subscription", {"topics": [], "topic_pattern": "a"}),
        ("/subscription", {"topics": []}),
        ("/subscription", {"topics": [1]}),
        ("/assignments", {"partitions": 1}),
        ("/assignments", {"partitions": [{"topic": "a"}]}),
        ("/positions", {"offsets": [{"topic": "a", "partition": 0, "offset": -1}]}),
        ("/positions", {"offsets": [{"topic": "a", "partition": 0, "offset": 2**63}]}),
        ("/positions/end", {"partitions": [{"topic": "", "partition": 0}]}),
        ("/offsets", {"offsets": [1]}),
    ],
)
def test_wrong_bodies_of_consumers(consumer: RestConsumer, rest: str, body: object) -> None:
    assert consumer.refused("POST", rest, body) == 422


def test_a_consumer_without_partitions(consumer: RestConsumer) -> None:
    assert consumer.refused("GET", "/records") == 40903
    assert consumer.refused("POST", "/positions", {"offsets": [{"topic": "a", "partition": 0, "offset": 0}]}) == 40903
    assert consumer.do("GET", "/offsets", status=200) == {"offsets": []}
