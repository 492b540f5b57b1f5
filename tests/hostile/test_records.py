"""Record sets that lie about themselves: nothing of them is stored, and opening them costs bounded memory."""

from __future__ import annotations

import gzip
import io
import threading
import time
import zlib
from collections.abc import Iterator

import cramjam
import pytest
from tests.hostile.conftest import MEBIBYTE
from tests.servers.broker_process import BrokerProcess
from tests.servers.topics import create_topic, list_offset, produce_batch, produce_request, produce_values
from tests.servers.wire import Connection, NewRecord, build_batch, encode_records, encode_varint

from tidelog.protocol.generated.produce import PartitionProduceData

pytestmark = pytest.mark.usefixtures("bystander", "bounded_memory")

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
RECORDS = [NewRecord(b"value %d" % number, b"key") for number in range(5)]


@pytest.fixture
def opened(victim: BrokerProcess) -> Iterator[Connection]:
    with Connection(victim.port, timeout_s=60) as connection:
        yield connection


@pytest.fixture(scope="module")
def compacted(victim: BrokerProcess) -> str:
    """A compacted topic: its records must have keys, so each batch is opened."""
    with Connection(victim.port) as connection:
        return create_topic(connection, "compacted", configs={"cleanup.policy": "compact"})


@pytest.fixture(scope="module")
def recompressed(victim: BrokerProcess) -> str:
    """A topic that compresses on its own: each batch in another codec is opened and built anew."""
    with Connection(victim.port) as connection:
        return create_topic(connection, "recompressed", configs={"compression.type": "zstd"})


LIES = {
    "crc": {"crc_error": 0xFFFF},
    "more records than there are": {"record_count": 6, "last_offset_delta": 5},
    "fewer records than there are": {"record_count": 4, "last_offset_delta": 3},
    "no records": {"record_count": 0},
    "a negative number of records": {"record_count": -1},
    "two thousand million records": {"record_count": 2**31 - 1, "last_offset_delta": 2**31 - 2},
    "a last offset that does not fit": {"last_offset_delta": 2**31 - 1},
    "a batch longer than the data": {"length_error": 1000},
    "a batch shorter than its records": {"length_error": -30},
    "a negative length": {"length_error": -5000},
    "the largest length": {"length_error": 2**31 - 1000},
    "an unknown codec": {"attributes": 6},
    "a codec that was not used": {"attributes": ZSTD},
}


@pytest.mark.parametrize("lie", LIES)
def test_a_batch_that_lies_is_refused_by_a_topic_that_opens_it(opened: Connection, compacted: str, lie: str) -> None:
    before = list_offset(opened, compacted, 0, -1)[2]
    answer = produce_batch(opened, compacted, build_batch(RECORDS, **LIES[lie]))
    assert answer.error_code != 0
    assert list_offset(opened, compacted, 0, -1)[2] == before


def test_a_compacted_topic_refuses_records_without_a_key(opened: Connection, compacted: str) -> None:
    before = list_offset(opened, compacted, 0, -1)[2]
    answer = produce_batch(opened, compacted, build_batch([*RECORDS, NewRecord(b"no key")]))
    assert answer.error_code == 87
    assert list_offset(opened, compacted, 0, -1)[2] == before


def test_records_that_lie_inside_an_uncompressed_batch(opened: Connection, compacted: str) -> None:
    """Sizes of keys, values and headers that point beyond the record."""
    good = encode_records(RECORDS[:1])
    for position in range(len(good)):
        for wrong in (b"\xff\xff\xff\xff\x0f", b"\xff", b"\x01"):
            payload = good[:position] + wrong + good[position + 1 :]
            produce_batch(opened, compacted, build_batch(RECORDS[:1], payload=payload))
    assert produce_batch(opened, compacted, build_batch(RECORDS)).error_code == 0


def bomb(codec: int, size: int) -> bytes:
    """A compressed record of zeros, tiny on the wire and `size` bytes when opened."""
    body_size = size + 16
    body = b"\0\0\0" + encode_varint(3) + b"key" + encode_varint(size)
    head = encode_varint(len(body) + size + 1) + body
    chunk = bytes(MEBIBYTE)
    whole = body_size // MEBIBYTE
    if codec == GZIP:
        stream = zlib.compressobj(9, zlib.DEFLATED, 31)
        parts = [stream.compress(head), *[stream.compress(chunk) for _ in range(whole)], stream.flush()]
        return b"".join(parts)
    compressor = cramjam.lz4.Compressor() if codec == LZ4 else cramjam.zstd.Compressor()
    compressor.compress(head)
    for _ in range(whole):
        compressor.compress(chunk)
    return bytes(compressor.finish())


@pytest.mark.parametrize(
    ("codec", "size"),
    [(GZIP, 500 * MEBIBYTE), (LZ4, 200 * MEBIBYTE), (ZSTD, 2000 * MEBIBYTE)],
    ids=["gzip", "lz4", "zstd"],
)
@pytest.mark.parametrize("kind", ["compacted", "recompressed"])
def test_a_decompression_bomb(
    victim: BrokerProcess, request: pytest.FixtureRequest, codec: int, size: int, kind: str
) -> None:
    """Several at once, while others are served; whether such a record is taken is the broker's business."""
    if victim.kind == "kafka":
        pytest.skip("Apache Kafka opens whatever it is given")
    topic = request.getfixturevalue(kind)
    batch = build_batch(RECORDS[:1], payload=bomb(codec, size), attributes=codec)
    assert len(batch) < 1_048_588
    failures: list[BaseException] = []

    def attack() -> None:
        try:
            with Connection(victim.port, timeout_s=100) as connection:
                produce_batch(connection, topic, batch)
        except BaseException as error:
            failures.append(error)

    attackers = [threading.Thread(target=attack) for _ in range(4)]
    started = time.monotonic()
    for attacker in attackers:
        attacker.start()
    for attacker in attackers:
        attacker.join(100)
    assert failures == []
    assert time.monotonic() - started < 60


def test_a_snappy_frame_that_claims_gigabytes(opened: Connection, compacted: str) -> None:
    """Both framings of snappy tell the size in front; none may be believed."""
    raw = b"\xff\xff\xff\xff\x0f" + b"\0" * 50
    xerial = b"\x82SNAPPY\0" + b"\0\0\0\1" * 2 + b"\x7f\xff\xff\xff" + raw
    for payload in (raw, xerial, xerial[:20], xerial[:9]):
        answer = produce_batch(opened, compacted, build_batch(RECORDS[:1], payload=payload, attributes=SNAPPY))
        assert answer.error_code != 0


def test_compressed_garbage(opened: Connection, compacted: str) -> None:
    for codec in (GZIP, SNAPPY, LZ4, ZSTD):
        for payload in (b"", b"\0" * 40, b"garbage" * 20, gzip.compress(b"")[:12]):
            answer = produce_batch(opened, compacted, build_batch(RECORDS[:1], payload=payload, attributes=codec))
            assert answer.error_code != 0, codec


def test_a_compressed_batch_that_is_cut(opened: Connection, compacted: str) -> None:
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb") as stream:
        stream.write(encode_records(RECORDS))
    payload = buffer.getvalue()
    for length in range(0, len(payload) - 1, 3):
        batch = build_batch(RECORDS, payload=payload[:length], attributes=GZIP)
        assert produce_batch(opened, compacted, batch).error_code != 0, length
    assert produce_batch(opened, compacted, build_batch(RECORDS, payload=payload, attributes=GZIP)).error_code == 0


def test_good_records_beside_bad_ones_in_one_request(opened: Connection) -> None:
    """Each partition of a request stands for itself."""
    topic = create_topic(opened, "mixed", partitions=2)
    request = produce_request(topic, build_batch(RECORDS))
    bad = build_batch(RECORDS, crc_error=1)
    request.topic_data[0].partition_data.append(PartitionProduceData(index=1, records=bad))
    answers = opened.call(request, 9).responses[0].partition_responses
    assert [answer.error_code for answer in answers] == [0, 2]
    assert produce_values(opened, topic, b"goes on", partition=1) == 0
