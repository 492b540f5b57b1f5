"""`tidelog.v1.Log` on a real node: every call, and wrong input to each."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from queue import Queue

import pytest
from tests.conformance.grpc.stubs import Client, refused
from tests.waiting import wait_until

from tidelog.gateways.grpc.generated import tidelog_pb2 as v1


def records(*values: bytes) -> list[v1.Record]:
    return [v1.Record(value=value) for value in values]


def read_values(client: Client, topic: str, partition: int = 0, **fields: object) -> list[bytes]:
    answer = client.log.Fetch(v1.FetchRequest(topic=topic, partition=partition, **fields))
    return [record.value for record in answer.records]


def test_records_come_back_as_they_were(client: Client, topic: str) -> None:
    sent = [
        v1.Record(key=b"k", value=b"v", timestamp=1_700_000_000_000, headers=[v1.Header(name="a", value=b"\xff")]),
        v1.Record(value=b"", headers=[v1.Header(name="a"), v1.Header(name="a", value=b"")]),
        v1.Record(key=b""),
    ]
    produced = client.log.Produce(v1.ProduceRequest(number=7, topic=topic, partition=1, records=sent))
    assert produced.number == 7
    [appended] = produced.appended
    assert (appended.partition, appended.base_offset, appended.log_append_time, list(appended.records)) == (
        1,
        0,
        -1,
        [],
    )
    read = client.log.Fetch(v1.FetchRequest(topic=topic, partition=1))
    assert (read.topic, read.partition, read.next_offset, read.high_watermark) == (topic, 1, 3, 3)
    assert read.log_start_offset == 0
    first, second, third = read.records
    assert first == v1.Record(offset=0, **{field.name: value for field, value in sent[0].ListFields()})
    assert second.value == b""
    assert not second.HasField("key")
    assert [(each.name, each.HasField("value"), each.value) for each in second.headers] == [
        ("a", False, b""),
        ("a", True, b""),
    ]
    assert (third.HasField("key"), third.HasField("value")) == (True, False)
    assert third.timestamp > first.timestamp


def test_records_go_to_the_partitions_of_their_keys(client: Client, topic: str) -> None:
    sent = [v1.Record(key=b"%d" % n, value=b"%d" % n) for n in range(20)]
    produced = client.log.Produce(v1.ProduceRequest(topic=topic, records=sent))
    assert sorted(each.partition for each in produced.appended) == [0, 1]
    assert sorted(place for each in produced.appended for place in each.records) == list(range(20))
    for each in produced.appended:
        assert read_values(client, topic, each.partition) == [b"%d" % place for place in each.records]


def test_a_stream_answers_every_message(client: Client, topic: str) -> None:
    waiting: Queue[v1.ProduceRequest | None] = Queue()
    answers = client.log.ProduceStream(iter(waiting.get, None))
    for number, partition in ((1, 0), (2, 9), (3, 0)):
        waiting.put(v1.ProduceRequest(number=number, topic=topic, partition=partition, records=records(b"v", b"w")))
        answer = next(answers)
        assert answer.number == number
        if partition == 9:
            assert (answer.error.name, answer.error.code) == ("UNKNOWN_TOPIC_OR_PARTITION", 3)
        else:
            assert answer.appended[0].base_offset == number - 1
    waiting.put(None)
    assert list(answers) == []


def test_fetch_waits_for_a_record(client: Client, topic: str) -> None:
    waiting = client.log.Fetch.future(v1.FetchRequest(topic=topic, wait_ms=10_000))
    client.log.Produce(v1.ProduceRequest(topic=topic, partition=0, records=records(b"v")))
    assert [record.value for record in waiting.result(5).records] == [b"v"]
    assert read_values(client, topic, offset=1, wait_ms=1) == []


def test_subscribe_reads_several_partitions(client: Client, topic: str) -> None:
    for partition in (0, 1):
        client.log.Produce(v1.ProduceRequest(topic=topic, partition=partition, records=records(*[b"v"] * 25)))
    starts = [v1.Start(topic=topic, partition=partition, offset=-2) for partition in (0, 1)]
    stream = client.log.Subscribe(v1.SubscribeRequest(partitions=starts, max_records=10))
    found = {0: 0, 1: 0}
    for message in islice(stream, 6):
        assert len(message.records) <= 10
        assert message.records[0].offset == found[message.partition]
        found[message.partition] = message.next_offset
    assert found == {0: 25, 1: 25}
    stream.cancel()


def test_offsets_by_time(client: Client, topic: str) -> None:
    client.log.Produce(
        v1.ProduceRequest(
            topic=topic, partition=0, records=[v1.Record(value=b"v", timestamp=1000 * n) for n in range(1, 5)]
        )
    )
    asked = v1.ListOffsetRequest(topic=topic, partition=0)
    found = []
    for timestamp in (-2, -1, 2500, 9000):
        asked.timestamp = timestamp
        answer = client.log.ListOffset(asked)
        found.append((answer.offset, answer.timestamp))
    assert found == [(0, -1), (4, -1), (2, 3000), (-1, -1)]


def test_offsets_of_a_group(client: Client, topic: str, name: str) -> None:
    position = v1.Position(topic=topic, partition=1, offset=7, metadata="note")
    client.log.CommitOffsets(v1.CommitOffsetsRequest(group_id=name, offsets=[position]))
    assert list(client.log.FetchOffsets(v1.FetchOffsetsRequest(group_id=name)).offsets) == [position]
    asked = v1.FetchOffsetsRequest(group_id=name, partitions=[v1.Position(topic=topic, partition=0)])
    assert [each.offset for each in client.log.FetchOffsets(asked).offsets] == [-1]


class Transaction:
    def __init__(self, client: Client, name: str) -> None:
        self.client, self.name = client, name
        made = client.log.InitProducer(v1.InitProducerRequest(transactional_id=name))
        self.producer = {"producer_id": made.producer_id, "producer_epoch": made.producer_epoch}

    def produce(self, topic: str, partition: int, sequence: int, *values: bytes) -> v1.ProduceResponse:
        state = v1.ProducerState(**self.producer, sequence=sequence, transactional_id=self.name)
        return self.client.log.Produce(
            v1.ProduceRequest(topic=topic, partition=partition, records=records(*values), producer=state)
        )

    def commit_offset(self, group: str, position: v1.Position) -> None:
        self.client.log.CommitOffsetsInTransaction(
            v1.CommitOffsetsInTransactionRequest(
                transactional_id=self.name, **self.producer, group_id=group, offsets=[position]
            )
        )

    def end(self, commit: bool) -> None:
        ended = self.client.log.EndTransaction(
            v1.EndTransactionRequest(transactional_id=self.name, **self.producer, commit=commit)
        )
        self.producer = {"producer_id": ended.producer_id, "producer_epoch": ended.producer_epoch}


def test_a_transaction_is_seen_whole_or_not_at_all(client: Client, topic: str, name: str) -> None:
    transaction = Transaction(client, name)
    transaction.produce(topic, 0, 0, b"aborted")
    transaction.end(False)
    transaction.produce(topic, 0, 0, b"committed")
    transaction.produce(topic, 1, 0, b"too")
    transaction.commit_offset(f"{name}-group", v1.Position(topic=topic, partition=0, offset=3))
    assert read_values(client, topic) == []
    assert read_values(client, topic, isolation=v1.READ_UNCOMMITTED) == [b"aborted", b"committed"]
    transaction.end(True)
    wait_until(lambda: read_values(client, topic) == [b"committed"], "the committed record")
    wait_until(lambda: read_values(client, topic, 1) == [b"too"], "the other one")
    offsets = client.log.FetchOffsets(v1.FetchOffsetsRequest(group_id=f"{name}-group")).offsets
    assert [each.offset for each in offsets] == [3]
    starts = [v1.Start(topic=topic, partition=0, offset=-2)]
    stream = client.log.Subscribe(v1.SubscribeRequest(partitions=starts))
    assert [record.value for record in next(stream).records] == [b"committed"]
    stream.cancel()


def test_an_earlier_producer_is_fenced(client: Client, topic: str, name: str) -> None:
    earlier = Transaction(client, name)
    earlier.produce(topic, 0, 0, b"v")
    Transaction(client, name)
    with_old_epoch = v1.EndTransactionRequest(transactional_id=name, **earlier.producer, commit=True)
    assert refused(client.log.EndTransaction, with_old_epoch)[0] == "FAILED_PRECONDITION"


def test_a_batch_that_is_sent_again_is_appended_once(client: Client, topic: str) -> None:
    made = client.log.InitProducer(v1.InitProducerRequest())
    state = v1.ProducerState(producer_id=made.producer_id, producer_epoch=made.producer_epoch)
    sent = v1.ProduceRequest(topic=topic, partition=0, records=records(b"a", b"b"), producer=state)
    assert client.log.Produce(sent).appended[0].base_offset == client.log.Produce(sent).appended[0].base_offset == 0
    sent.producer.sequence = 2
    assert client.log.Produce(sent).appended[0].base_offset == 2
    sent.producer.sequence = 9
    assert refused(client.log.Produce, sent) == ("FAILED_PRECONDITION", "OUT_OF_ORDER_SEQUENCE_NUMBER")


def test_topics_and_their_configuration(client: Client, name: str) -> None:
    created = client.log.CreateTopic(v1.CreateTopicRequest(topic=name, partitions=2, config={"retention.ms": "5000"}))
    assert (created.partitions, created.replication_factor) == (2, 1)
    client.log.CreatePartitions(v1.CreatePartitionsRequest(topic=name, partitions=3))
    [topic] = client.log.DescribeTopics(v1.DescribeTopicsRequest(topics=[name])).topics
    assert [each.partition for each in topic.partitions] == [0, 1, 2]
    assert topic.partitions[0].leader == topic.partitions[0].in_sync[0]
    assert name in [each.topic for each in client.log.DescribeTopics(v1.DescribeTopicsRequest()).topics]
    change = v1.AlterTopicConfigRequest(topic=name, set={"cleanup.policy": "compact"}, remove=["retention.ms"])
    client.log.AlterTopicConfig(change)
    entries = client.log.DescribeTopicConfig(v1.DescribeTopicConfigRequest(topic=name)).entries
    assert {each.name: each.value for each in entries if each.is_set} == {"cleanup.policy": "compact"}
    client.log.DeleteTopic(v1.DeleteTopicRequest(topic=name))
    assert refused(client.log.DescribeTopics, v1.DescribeTopicsRequest(topics=[name]))[0] == "NOT_FOUND"


def test_groups_are_listed_described_and_deleted(client: Client, topic: str, name: str) -> None:
    stream = client.log.Subscribe(v1.SubscribeRequest(group_id=name, topics=[topic], start_offset=-2))
    client.log.Produce(v1.ProduceRequest(topic=topic, partition=0, records=records(b"v")))
    assert [record.value for record in next(stream).records] == [b"v"]
    listed = {each.group_id: each for each in client.log.ListGroups(v1.ListGroupsRequest()).groups}
    assert (listed[name].state, listed[name].type) == ("Stable", "classic")
    group = client.log.DescribeGroup(v1.DescribeGroupRequest(group_id=name))
    [member] = group.members
    assert [(each.topic, each.partition) for each in member.assignment] == [(topic, 0), (topic, 1)]
    assert refused(client.log.DeleteGroup, v1.DeleteGroupRequest(group_id=name))[1] == "NON_EMPTY_GROUP"
    stream.cancel()
    wait_until(
        lambda: not client.log.DescribeGroup(v1.DescribeGroupRequest(group_id=name)).members, "the member has left"
    )
    client.log.DeleteGroup(v1.DeleteGroupRequest(group_id=name))
    assert refused(client.log.DescribeGroup, v1.DescribeGroupRequest(group_id=name))[0] == "NOT_FOUND"


ONE = records(b"v")
BEYOND = v1.ProducerState(producer_id=1, producer_epoch=2**20)


@pytest.mark.parametrize(
    ("method", "request_", "expected"),
    [
        ("Produce", v1.ProduceRequest(topic="mine"), "INVALID_ARGUMENT"),
        ("Produce", v1.ProduceRequest(records=ONE), "INVALID_ARGUMENT"),
        ("Produce", v1.ProduceRequest(topic="mine", partition=-1, records=ONE), "INVALID_ARGUMENT"),
        ("Produce", v1.ProduceRequest(topic="mine", partition=9, records=ONE), "NOT_FOUND"),
        ("Produce", v1.ProduceRequest(topic="mine", records=ONE, timeout_ms=-1), "INVALID_ARGUMENT"),
        ("Produce", v1.ProduceRequest(topic="mine", records=ONE, producer=v1.ProducerState()), "INVALID_ARGUMENT"),
        ("Produce", v1.ProduceRequest(topic="mine", partition=0, records=ONE, producer=BEYOND), "INVALID_ARGUMENT"),
        ("Fetch", v1.FetchRequest(topic="mine", max_bytes=-1), "INVALID_ARGUMENT"),
        ("Fetch", v1.FetchRequest(topic="mine", wait_ms=10**6), "INVALID_ARGUMENT"),
        ("Fetch", v1.FetchRequest(topic="mine", offset=99), "OUT_OF_RANGE"),
        ("Fetch", v1.FetchRequest(topic="not-there"), "NOT_FOUND"),
        ("Subscribe", v1.SubscribeRequest(), "INVALID_ARGUMENT"),
        ("Subscribe", v1.SubscribeRequest(topics=["mine"]), "INVALID_ARGUMENT"),
        ("Subscribe", v1.SubscribeRequest(group_id="g"), "INVALID_ARGUMENT"),
        ("Subscribe", v1.SubscribeRequest(group_id="g", topics=["mine"], start_offset=-3), "INVALID_ARGUMENT"),
        ("Subscribe", v1.SubscribeRequest(partitions=[v1.Start(topic="mine")], max_records=-1), "INVALID_ARGUMENT"),
        ("Subscribe", v1.SubscribeRequest(partitions=[v1.Start(topic="mine", offset=-3)]), "INVALID_ARGUMENT"),
        ("ListOffset", v1.ListOffsetRequest(topic="mine", timestamp=-3), "INVALID_ARGUMENT"),
        ("ListOffset", v1.ListOffsetRequest(topic="not-there"), "NOT_FOUND"),
        ("CommitOffsets", v1.CommitOffsetsRequest(group_id="g"), "INVALID_ARGUMENT"),
        ("CommitOffsets", v1.CommitOffsetsRequest(offsets=[v1.Position(topic="mine")]), "INVALID_ARGUMENT"),
        ("FetchOffsets", v1.FetchOffsetsRequest(), "INVALID_ARGUMENT"),
        ("InitProducer", v1.InitProducerRequest(transaction_timeout_ms=-1), "INVALID_ARGUMENT"),
        (
            "InitProducer",
            v1.InitProducerRequest(transactional_id="t", transaction_timeout_ms=2**31 - 1),
            "INVALID_ARGUMENT",
        ),
        ("CommitOffsetsInTransaction", v1.CommitOffsetsInTransactionRequest(), "INVALID_ARGUMENT"),
        ("EndTransaction", v1.EndTransactionRequest(), "INVALID_ARGUMENT"),
        ("EndTransaction", v1.EndTransactionRequest(transactional_id="not-there"), "FAILED_PRECONDITION"),
        ("CreateTopic", v1.CreateTopicRequest(topic="a/b"), "INVALID_ARGUMENT"),
        ("CreateTopic", v1.CreateTopicRequest(topic="n", config={"no.such": "1"}), "INVALID_ARGUMENT"),
        ("DeleteTopic", v1.DeleteTopicRequest(topic="not-there"), "NOT_FOUND"),
        ("CreatePartitions", v1.CreatePartitionsRequest(topic="mine", partitions=1), "INVALID_ARGUMENT"),
        ("CreatePartitions", v1.CreatePartitionsRequest(topic="not-there", partitions=9), "NOT_FOUND"),
        ("DescribeTopics", v1.DescribeTopicsRequest(topics=["not-there"]), "NOT_FOUND"),
        ("DescribeTopicConfig", v1.DescribeTopicConfigRequest(topic="not-there"), "NOT_FOUND"),
        ("AlterTopicConfig", v1.AlterTopicConfigRequest(topic="mine"), "INVALID_ARGUMENT"),
        ("AlterTopicConfig", v1.AlterTopicConfigRequest(topic="mine", set={"retention.ms": "x"}), "INVALID_ARGUMENT"),
        ("DescribeGroup", v1.DescribeGroupRequest(group_id="not-there"), "NOT_FOUND"),
        ("DeleteGroup", v1.DeleteGroupRequest(group_id="not-there"), "NOT_FOUND"),
    ],
)
def test_wrong_input(client: Client, method: str, request_: object, expected: str) -> None:
    client.log.Produce(v1.ProduceRequest(topic="mine", partition=0, records=ONE))
    call = getattr(client.log, method)
    assert refused(call, request_)[0] == expected


def test_a_stream_of_nothing_ends(client: Client) -> None:
    empty: Iterator[v1.ProduceRequest] = iter(())
    assert list(client.log.ProduceStream(empty)) == []
