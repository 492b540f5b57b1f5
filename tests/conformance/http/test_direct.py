"""The small and direct routes, beside a Kafka client on the same node."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import threading
import time
from itertools import count

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.conformance.http.conftest import HttpNode
from tests.servers.http import ask, exchange, get, post, post_json
from tests.servers.topics import create_topic
from tests.servers.wire import Connection

_numbers = count()


@pytest.fixture
def topic() -> str:
    return f"http-{next(_numbers)}-{time.monotonic_ns()}"


def encode(value: bytes) -> str:
    return base64.b64encode(value).decode()


def read_one(bootstrap: str, topic: str, offset: int) -> object:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, offset)])
        return consumer.poll(20)
    finally:
        consumer.close()


# -- writing -----------------------------------------------------------------------------------------------------------


def test_a_record_is_what_a_kafka_consumer_reads(http_node: HttpNode, topic: str) -> None:
    headers = {"X-Key": "customer-7", "X-Header-Trace-Id": "abc", "Content-Type": "application/octet-stream"}
    answer = post(http_node.port, f"/topics/{topic}/partitions/0", b"\x00hello\xff", headers)
    assert (answer.status, answer.json()) == (200, {"offset": 0})
    message = read_one(http_node.bootstrap, topic, 0)
    assert message.key() == b"customer-7"  # type: ignore[attr-defined]
    assert message.value() == b"\x00hello\xff"  # type: ignore[attr-defined]
    assert message.headers() == [("trace-id", b"abc")]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("acks", "offset"), [("all", 0), ("-1", 0), ("1", 0), ("0", -1)])
def test_acknowledgements(http_node: HttpNode, topic: str, acks: str, offset: int) -> None:
    assert post(http_node.port, f"/topics/{topic}/partitions/0?acks={acks}", b"x").json() == {"offset": offset}
    assert get(http_node.port, f"/topics/{topic}/partitions/0/fetch").json()["records"] == [encode(b"x")]


def test_a_batch_is_written_whole(http_node: HttpNode, topic: str) -> None:
    path = f"/topics/{topic}/partitions/0/batch"
    records = [encode(b"%d" % number) for number in range(100)]
    assert post_json(http_node.port, path, {"records": records}).json() == {"offsets": list(range(100))}
    wrong = post_json(http_node.port, path, {"records": [encode(b"fine"), "%%%"]})
    assert (wrong.status, wrong.json()["message"]) == (400, "records[1] is not a base64 string.")
    fetched = get(http_node.port, f"/topics/{topic}/partitions/0/fetch?offset=98").json()
    assert fetched == {"fromOffset": 98, "toOffset": 100, "records": records[98:]}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "The body is not JSON"),
        (b"[" * 100_000, "The body is not JSON"),
        (b"[]", "The body must be"),
        (b'{"records": []}', "The body must be"),
        (b'{"records": [1]}', "records[0] is not a base64 string."),
        (b'{"records": ["a"]}', "records[0] is not a base64 string."),
    ],
)
def test_a_batch_that_is_none(http_node: HttpNode, topic: str, body: bytes, message: str) -> None:
    answer = post(http_node.port, f"/topics/{topic}/partitions/0/batch", body)
    assert answer.status == 400
    assert answer.json()["code"] == 400
    assert message in answer.json()["message"]


def test_a_body_in_chunks_is_one_record(http_node: HttpNode, topic: str) -> None:
    head = f"POST /topics/{topic}/partitions/0 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    answer = exchange(http_node.port, head, b"5\r\nhello\r\n", b"6\r\n world\r\n0\r\n\r\n")
    assert answer.endswith(b'{"offset":0}')
    assert get(http_node.port, f"/topics/{topic}/partitions/0/fetch").json()["records"] == [encode(b"hello world")]


def test_pipelined_requests_are_answered_in_their_order(http_node: HttpNode, topic: str) -> None:
    request = f"POST /topics/{topic}/partitions/0 HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx".encode()
    answers = exchange(http_node.port, request * 50)
    offsets = [json.loads(part.partition(b"\r\n\r\n")[2])["offset"] for part in answers.split(b"HTTP/1.1 200 OK")[1:]]
    assert offsets == list(range(50))


# -- reading -----------------------------------------------------------------------------------------------------------


def test_records_come_with_everything_they_have(http_node: HttpNode, topic: str) -> None:
    post(http_node.port, f"/topics/{topic}/partitions/0", b"first", {"X-Key": "k", "X-Header-A": "1"})
    producer = Producer({"bootstrap.servers": http_node.bootstrap})
    producer.produce(topic, None, b"deleted", partition=0, timestamp=1_700_000_000_000)
    assert producer.flush(20) == 0
    first, second = get(http_node.port, f"/topics/{topic}/partitions/0/fetch?full=1").json()["records"]
    assert {**first, "timestamp": 0} == {
        "offset": 0,
        "timestamp": 0,
        "key": encode(b"k"),
        "value": encode(b"first"),
        "headers": [["a", encode(b"1")]],
    }
    assert second == {
        "offset": 1,
        "timestamp": 1_700_000_000_000,
        "key": encode(b"deleted"),
        "value": None,
        "headers": [],
    }


def test_records_inside_a_compressed_batch_are_found(http_node: HttpNode, topic: str) -> None:
    producer = Producer({"bootstrap.servers": http_node.bootstrap, "compression.type": "zstd", "linger.ms": 500})
    for number in range(10):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(20) == 0
    fetched = get(http_node.port, f"/topics/{topic}/partitions/0/fetch?offset=7&maxBytes=1").json()
    assert fetched == {"fromOffset": 7, "toOffset": 10, "records": [encode(b"7"), encode(b"8"), encode(b"9")]}


def test_aborted_records_are_left_out_on_request(http_node: HttpNode, topic: str) -> None:
    producer = Producer({"bootstrap.servers": http_node.bootstrap, "transactional.id": topic})
    producer.init_transactions()
    for value, ends in ((b"aborted", producer.abort_transaction), (b"committed", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        producer.flush(20)
        ends()
    path = f"/topics/{topic}/partitions/0/fetch"
    assert get(http_node.port, path).json()["records"] == [encode(b"aborted"), encode(b"committed")]
    # Records and markers both have offsets.
    committed = get(http_node.port, f"{path}?isolation=read_committed").json()
    assert committed == {"fromOffset": 0, "toOffset": 4, "records": [encode(b"committed")]}


def test_a_read_waits_for_the_record_it_wants(http_node: HttpNode, topic: str) -> None:
    path = f"/topics/{topic}/partitions/0"
    post(http_node.port, path, b"0")

    def write_later() -> None:
        time.sleep(0.3)
        for value in (b"1", b"2"):
            post(http_node.port, path, value)

    writer = threading.Thread(target=write_later)
    writer.start()
    started = time.monotonic()
    for query, headers in (("minOffset=2", {}), ("", {"X-Read-Min-Offset": "2"})):
        answer = get(http_node.port, f"{path}/fetch?wait=10000&{query}", headers)
        assert answer.json()["toOffset"] == 3
    writer.join()
    assert time.monotonic() - started < 8


def test_a_read_at_the_end_waits_and_is_empty(http_node: HttpNode, topic: str) -> None:
    path = f"/topics/{topic}/partitions/0"
    post(http_node.port, path, b"0")
    started = time.monotonic()
    answer = get(http_node.port, f"{path}/fetch?offset=1&wait=300")
    assert answer.json() == {"fromOffset": 1, "toOffset": 1, "records": []}
    assert 0.25 < time.monotonic() - started < 8


@pytest.mark.parametrize("query", ["offset=2", "minOffset=1", "offset=0&minOffset=7&wait=50"])
def test_what_the_leader_does_not_have_is_no_range(http_node: HttpNode, topic: str, query: str) -> None:
    post(http_node.port, f"/topics/{topic}/partitions/0", b"0")
    answer = get(http_node.port, f"/topics/{topic}/partitions/0/fetch?{query}")
    assert (answer.status, answer.json()["kafkaError"]) == (416, "OFFSET_OUT_OF_RANGE")


def test_what_was_deleted_is_refused_at_once(http_node: HttpNode, kafka_door: Connection) -> None:
    from confluent_kafka.admin import AdminClient

    topic = create_topic(kafka_door)
    for _ in range(3):
        post(http_node.port, f"/topics/{topic}/partitions/0", b"x")
    admin = AdminClient({"bootstrap.servers": http_node.bootstrap})
    [done] = admin.delete_records([TopicPartition(topic, 0, 2)]).values()
    done.result(20)
    started = time.monotonic()
    answer = get(http_node.port, f"/topics/{topic}/partitions/0/fetch?offset=1&wait=30000")
    assert (answer.status, answer.json()["message"]) == (416, f"{topic}-0 begins at offset 2: 1 was deleted.")
    assert time.monotonic() - started < 8


def test_a_partition_is_described(http_node: HttpNode, topic: str) -> None:
    post(http_node.port, f"/topics/{topic}/partitions/0", b"0")
    assert get(http_node.port, f"/cluster/topics/{topic}/partitions/0").json() == {
        "topic": topic,
        "partition": 0,
        "leader": 1,
        "epoch": 0,
        "replicas": [1],
        "inSyncReplicas": [1],
        "startOffset": 0,
        "endOffset": 1,
    }


# -- what goes wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/topics/{}/partitions/0/fetch", "/cluster/topics/{}/partitions/0", "/topics/{}/partitions/9/fetch"]
)
def test_a_read_creates_no_topic(http_node: HttpNode, kafka_door: Connection, topic: str, path: str) -> None:
    for _ in range(2):
        answer = get(http_node.port, path.format(topic))
        assert (answer.status, answer.json()["kafkaError"]) == (404, "UNKNOWN_TOPIC_OR_PARTITION")


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "kafka_error"),
    [
        ("POST", "/topics/{}/partitions/7", b"x", 404, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("POST", "/topics/a%20b/partitions/0", b"x", 400, "INVALID_TOPIC_EXCEPTION"),
        ("POST", "/topics/__consumer_offsets/partitions/0", b"x", 400, "INVALID_TOPIC_EXCEPTION"),
        ("POST", "/topics/{}/partitions/0", b"x" * 2_000_000, 413, "MESSAGE_TOO_LARGE"),
        ("POST", "/topics/{}/partitions/-1", b"x", 400, None),
        ("POST", "/topics/{}/partitions/0?acks=2", b"x", 400, None),
        ("PUT", "/topics/{}/partitions/0", b"x", 405, None),
        ("GET", "/nothing", None, 404, None),
    ],
)
def test_errors_are_one_object(
    http_node: HttpNode, topic: str, method: str, path: str, body: bytes | None, status: int, kafka_error: str | None
) -> None:
    answer = ask(http_node.port, method, path.format(topic), body)
    error = answer.json()
    assert (answer.status, error["code"], error["kafkaError"]) == (status, status, kafka_error)
    assert error["message"]


def test_the_root_says_where_to_read_on(http_node: HttpNode) -> None:
    answer = get(http_node.port, "/")
    assert answer.status == 200
    for path in answer.body.decode().split()[2:]:
        assert get(http_node.port, path).status == 200


def test_curl_follows(http_node: HttpNode, topic: str) -> None:
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("curl is missing")
    url = f"http://127.0.0.1:{http_node.port}/topics/{topic}/partitions/0"
    # A large body: curl asks first whether it is wanted.
    sent = subprocess.run(
        [curl, "-sS", "-X", "POST", url, "--data-binary", "@-", "-H", "Expect: 100-continue"],
        input=b"x" * 1_000_000,
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert json.loads(sent.stdout) == {"offset": 0}
    read = subprocess.run([curl, "-sS", f"{url}/fetch"], capture_output=True, timeout=60, check=True)
    assert json.loads(read.stdout)["records"] == [encode(b"x" * 1_000_000)]
