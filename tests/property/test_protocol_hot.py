"""The hand-tuned produce and fetch paths against the generated ones: the same bytes out, the same verdict on bytes."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.hot_readers import mutate, verdict
from tests.property.test_protocol_messages import values
from tests.unit.protocol.reference import BY_NAME

from tidelog.codec.buffers import COPIED_BYTES_MAX
from tidelog.protocol.errors import UnencodableValue, UnsupportedVersion
from tidelog.protocol.generated import fetch, produce
from tidelog.protocol.hot_fetch import decode_fetch, encode_fetch_response
from tidelog.protocol.hot_produce import PartitionResult, decode_produce, encode_appended, encode_produce_response

PRODUCE_VERSIONS = range(3, 14)
FETCH_VERSIONS = range(4, 19)

int16 = st.integers(-(2**15), 2**15 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
names = st.text(max_size=150)
uuids = st.binary(min_size=16, max_size=16)
sizes = st.sampled_from([0, 1, 60, 125, 126, 127, 128, 129, 16382, 16383, 16384, 70_000, 2_100_000])
endpoints = st.lists(st.tuples(int32, names, int32, st.none() | names), max_size=3)
pairs32 = st.just((-1, -1)) | st.tuples(int32, int32)


def flat_produce(frame: bytes, version: int) -> Any:
    """What the generated codec reads, in the shape of the hand-tuned one."""
    request = produce.ProduceRequest.decode(frame, 0, version)[0]
    by_id = version >= 13
    return (
        request.transactional_id,
        request.acks,
        request.timeout_ms,
        [
            (
                None if by_id else topic.name,
                topic.topic_id if by_id else None,
                [(each.index, each.records) for each in topic.partition_data],
            )
            for topic in request.topic_data
        ],
    )


def flat_fetch(frame: bytes, version: int) -> Any:
    request = fetch.FetchRequest.decode(frame, 0, version)[0]
    by_id = version >= 13
    is_new = version >= 15
    return {
        "replica_id": request.replica_state.replica_id if is_new else request.replica_id,
        "replica_epoch": request.replica_state.replica_epoch if is_new else -1,
        "cluster_id": request.cluster_id,
        "max_wait_ms": request.max_wait_ms,
        "min_bytes": request.min_bytes,
        "max_bytes": request.max_bytes,
        "isolation_level": request.isolation_level,
        "session_id": request.session_id,
        "session_epoch": request.session_epoch,
        "rack_id": request.rack_id,
        "topics": [
            (
                None if by_id else topic.topic,
                topic.topic_id if by_id else None,
                [
                    (
                        each.partition,
                        each.current_leader_epoch,
                        each.fetch_offset,
                        each.last_fetched_epoch,
                        each.log_start_offset,
                        each.partition_max_bytes,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
        "forgotten": [
            (None if by_id else topic.topic, topic.topic_id if by_id else None, topic.partitions)
            for topic in request.forgotten_topics_data
        ],
    }


def hot_fetch(frame: bytes, version: int) -> Any:
    request = decode_fetch(frame, 0, version)
    return {name: getattr(request, name) for name in dir(request) if not name.startswith("_")}


def hot_produce(frame: bytes, version: int) -> Any:
    return decode_produce(frame, 0, version)


READERS = {"ProduceRequest": (hot_produce, flat_produce), "FetchRequest": (hot_fetch, flat_fetch)}


@st.composite
def frames(draw: st.DrawFn) -> tuple[str, int, bytes]:
    name = draw(st.sampled_from(sorted(READERS)))
    schema = BY_NAME[name]
    version = draw(st.sampled_from(schema.versions))
    return name, version, schema.encode(draw(values(schema, version, name)), version)


@settings(max_examples=300, deadline=None)
@given(frames())
def test_protocol_hot_requests_read_as_generated(case: tuple[str, int, bytes]) -> None:
    name, version, frame = case
    hot, generated = READERS[name]
    expected = generated(frame, version)
    assert hot(frame, version) == expected
    assert hot(bytearray(frame), version) == expected
    assert hot(memoryview(frame), version) == expected


@settings(max_examples=300, deadline=None)
@given(frames(), st.randoms(use_true_random=False))
def test_protocol_hot_requests_refuse_what_generated_refuses(
    case: tuple[str, int, bytes], chance: random.Random
) -> None:
    name, version, frame = case
    hot, generated = READERS[name]
    for _ in range(12):
        mutant = mutate(frame, chance)
        assert verdict(hot, mutant, version) == verdict(generated, mutant, version)


@pytest.mark.parametrize(("name", "versions"), [("ProduceRequest", PRODUCE_VERSIONS), ("FetchRequest", FETCH_VERSIONS)])
def test_protocol_hot_requests_read_as_generated_in_every_version(name: str, versions: range) -> None:
    schema = BY_NAME[name]
    hot, generated = READERS[name]
    assert schema.versions == versions
    chance = random.Random(name)
    for version in versions:
        for _ in range(40):
            frame = schema.encode(schema.random_values(chance, version), version)
            assert hot(frame, version) == generated(frame, version)
            for cut in chance.sample(range(len(frame)), min(20, len(frame))):
                assert verdict(hot, frame[:cut], version) == verdict(generated, frame[:cut], version) == "malformed"
            unknown_tag = frame[:-1] + b"\x01\x63\x02ab" if version >= schema.flexible_from else frame
            assert verdict(hot, unknown_tag, version) == verdict(generated, unknown_tag, version)


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 16382, 16383, 16384, 2_097_150, 2_097_151, 2_097_152])
def test_protocol_hot_produce_reads_records_of_every_size(size: int) -> None:
    for version in PRODUCE_VERSIONS:
        partition = produce.PartitionProduceData(index=1, records=bytes(size))
        request = produce.ProduceRequest(topic_data=[produce.TopicProduceData(partition_data=[partition])])
        frame = request.encode(version)
        records = decode_produce(frame, 0, version)[3][0][2][0][1]
        assert records is not None
        assert len(records) == size
        if size > COPIED_BYTES_MAX:
            assert isinstance(records, memoryview)
            assert records.obj is frame


@pytest.mark.parametrize("version", range(9, 14))
def test_protocol_hot_produce_of_one_batch_reads_as_generated_whatever_byte_is_wrong(version: int) -> None:
    """Such requests have a way of their own, and every other request must find its way out of it."""
    topic = produce.TopicProduceData(
        name="orders" if version < 13 else "",
        topic_id=bytes(range(16)) if version >= 13 else bytes(16),
        partition_data=[produce.PartitionProduceData(index=3, records=bytes(130))],
    )
    frame = produce.ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[topic]).encode(version)
    hot, generated = READERS["ProduceRequest"]
    assert hot(frame, version) == generated(frame, version)
    outside = [at for at in range(len(frame)) if not 45 <= at < len(frame) - 8]
    mutants = [frame[:at] + bytes((value,)) + frame[at + 1 :] for at in outside for value in range(256)]
    mutants += [frame[:cut] for cut in range(len(frame))] + [frame + b"\0", frame[:-1] + b"\x01\x63\x02ab"]
    for mutant in mutants:
        expected = verdict(generated, mutant, version)
        assert verdict(hot, mutant, version) == expected
        if expected != "malformed":
            assert hot(mutant, version) == generated(mutant, version)


def test_protocol_hot_paths_know_their_versions() -> None:
    for version in (2, 14):
        with pytest.raises(UnsupportedVersion):
            decode_produce(b"", 0, version)
        with pytest.raises(UnsupportedVersion):
            encode_produce_response(version, [])
    for version in (3, 19):
        with pytest.raises(UnsupportedVersion):
            decode_fetch(b"", 0, version)
        with pytest.raises(UnsupportedVersion):
            encode_fetch_response(version, 0, 0, 0, [])


partition_results = st.builds(
    PartitionResult,
    int32,
    int16,
    int64,
    int64,
    int64,
    st.none() | names,
    st.lists(st.tuples(int32, st.none() | names), max_size=3),
    st.none() | pairs32,
)


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(PRODUCE_VERSIONS),
    st.lists(st.tuples(names, uuids, st.lists(partition_results, max_size=4)), max_size=3),
    int32,
    endpoints,
)
def test_protocol_hot_produce_responses_are_as_generated(
    version: int, topics: list[Any], throttle_time_ms: int, node_endpoints: list[Any]
) -> None:
    response = produce.ProduceResponse(throttle_time_ms=throttle_time_ms)
    for name, topic_id, results in topics:
        topic = produce.TopicProduceResponse(name=name, topic_id=topic_id)
        for result in results:
            partition = produce.PartitionProduceResponse(
                index=result.index,
                error_code=result.error_code,
                base_offset=result.base_offset,
                log_append_time_ms=result.log_append_time_ms,
                log_start_offset=result.log_start_offset,
                error_message=result.error_message,
                record_errors=[
                    produce.BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
                    for index, message in result.record_errors
                ],
            )
            if result.current_leader is not None and version >= 10:
                leader_id, leader_epoch = result.current_leader
                partition.current_leader = produce.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
            topic.partition_responses.append(partition)
        response.responses.append(topic)
    if version >= 10:
        response.node_endpoints = [
            produce.NodeEndpoint(node_id=node_id, host=host, port=port, rack=rack)
            for node_id, host, port, rack in node_endpoints
        ]
    assert encode_produce_response(version, topics, throttle_time_ms, node_endpoints) == response.encode(version)


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(PRODUCE_VERSIONS),
    st.lists(
        st.tuples(
            names | st.text(min_size=100, max_size=140),
            uuids,
            st.lists(st.builds(PartitionResult, int32, st.just(0), int64, int64, int64), max_size=2),
        ),
        max_size=2,
    ),
)
def test_what_was_appended_is_answered_with_the_same_bytes(version: int, answer: list[Any]) -> None:
    assert encode_appended(version, answer) == encode_produce_response(version, answer)


class Region:
    """Records that are not bytes: only their size is asked for."""

    def __init__(self, size: int) -> None:
        self.size = size


class Answer:
    def __init__(
        self, error_code: int, offsets: tuple[int, int, int], aborted: Any, diverging: Any, region: Any
    ) -> None:
        self.error_code = error_code
        self.high_watermark, self.last_stable_offset, self.log_start_offset = offsets
        self.aborted_transactions = aborted
        self.diverging_epoch = diverging
        self.region = region


regions = (
    st.none() | st.builds(bytes, sizes) | st.builds(lambda n: memoryview(bytes(n)), sizes) | st.builds(Region, sizes)
)
aborted_transactions = st.none() | st.lists(st.tuples(int64, int64), max_size=3) | st.just([(1, 2)] * 200)
answers = st.builds(
    Answer,
    int16,
    st.tuples(int64, int64, int64),
    aborted_transactions,
    st.none() | st.just((-1, -1)) | st.tuples(int32, int64),
    regions,
)


def generated_fetch_response(
    version: int, head: tuple[int, int, int], topics: Any, leaders: Any, preferred: Any, node_endpoints: Any
) -> bytes:
    throttle_time_ms, error_code, session_id = head
    response = fetch.FetchResponse(throttle_time_ms=throttle_time_ms, error_code=error_code)
    response.session_id = session_id if version >= 7 else 0
    for key, partitions in topics:
        topic = fetch.FetchableTopicResponse(**({"topic_id": key} if version >= 13 else {"topic": key}))
        for index, answer in partitions:
            size = 0 if answer.region is None else getattr(answer.region, "size", None)
            data = fetch.PartitionData(
                partition_index=index,
                error_code=answer.error_code,
                high_watermark=answer.high_watermark,
                last_stable_offset=answer.last_stable_offset,
                log_start_offset=answer.log_start_offset,
                aborted_transactions=None,
                records=bytes(len(answer.region) if size is None else size),
            )
            if answer.aborted_transactions is not None:
                data.aborted_transactions = [
                    fetch.AbortedTransaction(producer_id=producer_id, first_offset=first_offset)
                    for producer_id, first_offset in answer.aborted_transactions
                ]
            if version >= 11:
                data.preferred_read_replica = preferred.get((key, index), -1)
            if version >= 12 and answer.diverging_epoch is not None:
                epoch, end_offset = answer.diverging_epoch
                data.diverging_epoch = fetch.EpochEndOffset(epoch=epoch, end_offset=end_offset)
            if version >= 12 and (key, index) in leaders:
                leader_id, leader_epoch = leaders[key, index]
                data.current_leader = fetch.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
            topic.partitions.append(data)
        response.responses.append(topic)
    if version >= 16:
        response.node_endpoints = [
            fetch.NodeEndpoint(node_id=node_id, host=host, port=port, rack=rack)
            for node_id, host, port, rack in node_endpoints
        ]
    return response.encode(version)


def joined(parts: list[Any]) -> bytes:
    return b"".join(bytes(part.size) if isinstance(part, Region) else part for part in parts)


@settings(max_examples=200, deadline=None)
@given(st.data(), st.sampled_from(FETCH_VERSIONS), st.tuples(int32, int16, int32), endpoints)
def test_protocol_hot_fetch_responses_are_as_generated(
    data: st.DataObject, version: int, head: tuple[int, int, int], node_endpoints: list[Any]
) -> None:
    keys: st.SearchStrategy[Any] = uuids if version >= 13 else names
    topics = data.draw(st.lists(st.tuples(keys, st.lists(st.tuples(int32, answers), max_size=4)), max_size=3))
    places = [(key, index) for key, partitions in topics for index, _ in partitions]
    some = st.sampled_from(places) if places else st.nothing()
    leaders = data.draw(st.dictionaries(some, pairs32)) if places else {}
    preferred = data.draw(st.dictionaries(some, int32)) if places else {}
    parts = encode_fetch_response(
        version,
        *head,
        topics,
        current_leaders=leaders or None,
        preferred_read_replicas=preferred or None,
        node_endpoints=node_endpoints,
    )
    assert joined(parts) == generated_fetch_response(version, head, topics, leaders, preferred, node_endpoints)


def test_protocol_hot_fetch_response_holds_the_very_regions_it_was_given() -> None:
    region = Region(5)
    view = memoryview(b"12345")
    answers = [(0, Answer(0, (1, 1, 0), None, None, region)), (1, Answer(0, (1, 1, 0), None, None, view))]
    for version in FETCH_VERSIONS:
        parts = encode_fetch_response(version, 0, 0, 0, [(bytes(16) if version >= 13 else "t", answers)])
        assert parts[1] is region
        assert parts[3] is view


def test_protocol_hot_responses_refuse_what_does_not_fit() -> None:
    for version in PRODUCE_VERSIONS:
        with pytest.raises(UnencodableValue):
            encode_produce_response(version, [("t", bytes(16), [PartitionResult(2**31, 0)])])
    for version in (8, 9):
        with pytest.raises(UnencodableValue):
            encode_produce_response(version, [("t", bytes(16), [PartitionResult(0, 1, error_message="x" * 32768)])])
    for version in (4, 13):
        with pytest.raises(UnencodableValue):
            encode_fetch_response(version, 2**31, 0, 0, [])


def test_protocol_hot_requests_read_sizes_written_longer_than_need_be() -> None:
    # 0x80 0x00 is zero in two bytes: null as 0x00 is, and never a step back.
    frame = b"\x80\x00" + b"\xff\xff" + b"\0\0\0\1" + b"\x81\x00" + b"\x80\x00"
    assert hot_produce(frame, 9) == flat_produce(frame, 9) == (None, -1, 1, [])
    frame = fetch.FetchRequest().encode(15)
    longer = frame[:21] + b"\x81\x00" + b"\x81\x00" + b"\x81\x00" + b"\x80\x00"
    assert frame[21:] == b"\x01\x01\x01\x00"
    assert hot_fetch(longer, 15) == flat_fetch(longer, 15) == flat_fetch(frame, 15)
