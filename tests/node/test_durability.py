"""Flush policies, retention, compaction and damaged logs on a running node, seen through a client."""

import asyncio
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from tests.waiting import wait_until

import tidelog
from tidelog.node.stages import Loaded
from tidelog.storage.log import Log

DEADLINE_S = 60.0


def quiet(settings: dict[str, object]) -> dict[str, object]:
    return {**settings, "log_level": 0}


def produce(
    broker: tidelog.Broker, topic: str, values: list[tuple[bytes | None, bytes | None]], **settings: object
) -> None:
    failed: list[KafkaError] = []
    producer = Producer(quiet({"bootstrap.servers": broker.bootstrap_servers, "acks": "all", **settings}))
    for key, value in values:
        producer.produce(topic, value, key, on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(DEADLINE_S) == 0
    assert not failed


def read_all(broker: tidelog.Broker, topic: str) -> list[tuple[int, bytes | None, bytes | None]]:
    consumer = Consumer(
        quiet({"bootstrap.servers": broker.bootstrap_servers, "group.id": "reader", "enable.partition.eof": True})
    )
    consumer.assign([TopicPartition(topic, 0, log_of(broker, topic).log_start_offset)])
    found = []
    try:
        while True:
            message = consumer.poll(DEADLINE_S)
            assert message is not None, "no end of the partition in time"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return found
            found.append((message.offset(), message.key(), message.value()))
    finally:
        consumer.close()


def log_of(broker: tidelog.Broker, topic: str) -> Log:
    stage = broker.node.stage
    assert isinstance(stage, Loaded)
    partition = stage.table.find_partition(topic, 0)
    assert partition is not None
    return partition.log


def test_acks_all_waits_for_a_sync_that_many_share() -> None:
    with tidelog.Broker() as broker:
        broker.create_topic("synced", configs={"tidelog.flush": "ack"})
        before = broker.node.metrics.fsync.count
        produce(
            broker,
            "synced",
            [(None, b"%d" % number) for number in range(2000)],
            **{"batch.num.messages": 10, "linger.ms": 0, "max.in.flight.requests.per.connection": 5},
        )
        assert log_of(broker, "synced").recovery_point == 2000, "everything acknowledged is synced"
        batches = broker.node.metrics.topic("synced").batches_in
        assert 1 <= broker.node.metrics.fsync.count - before < batches
        assert len(read_all(broker, "synced")) == 2000


def test_flush_messages_and_flush_ms_sync_without_anyone_waiting() -> None:
    with tidelog.Broker() as broker:
        broker.create_topic("counted", configs={"flush.messages": "10"})
        broker.create_topic("timed", configs={"flush.ms": "50"})
        broker.create_topic("never")
        for topic in ("counted", "timed", "never"):
            produce(broker, topic, [(None, b"x")] * 20)
        wait_until(lambda: log_of(broker, "counted").recovery_point >= 10, "a flush after ten records")
        wait_until(lambda: log_of(broker, "timed").recovery_point == 20, "a flush after some time")
        assert log_of(broker, "never").recovery_point == 0


def test_retention_drops_old_segments_while_the_node_runs() -> None:
    config = {"log.retention.check.interval.ms": 50}
    with tidelog.Broker(config=config) as broker:
        broker.create_topic(
            "bounded", configs={"retention.bytes": 20_000, "internal.segment.bytes": 10_000, "retention.ms": -1}
        )
        for _ in range(20):
            produce(broker, "bounded", [(None, b"x" * 1000)] * 5)
        wait_until(lambda: log_of(broker, "bounded").log_start_offset > 0, "retention drops a segment")

        def is_done() -> bool:
            """Nothing may go any more: what is read below stays."""
            log = log_of(broker, "bounded")
            return log.size_bytes - log.segments[0].size < 20_000

        wait_until(is_done, "retention drops all it may")
        offsets = [offset for offset, _, _ in read_all(broker, "bounded")]
        assert offsets == list(range(offsets[0], 100))
        assert offsets[0] > 0


def test_compaction_keeps_the_last_value_of_each_key_while_the_node_runs() -> None:
    with tidelog.Broker(config={"log.cleaner.backoff.ms": 50}) as broker:
        broker.create_topic(
            "kept",
            configs={
                "cleanup.policy": "compact",
                "internal.segment.bytes": 5_000,
                "min.cleanable.dirty.ratio": 0.01,
                "delete.retention.ms": 0,
            },
        )
        for turn in range(20):
            produce(broker, "kept", [(b"key-%d" % key, b"%d" % turn * 100) for key in range(10)])
        for filler in (b"x", b"y", b"z"):
            produce(broker, "kept", [(b"key-3", None), (b"filler", filler * 4_000)])

        def is_compacted() -> bool:
            return len(read_all(broker, "kept")) < 40

        wait_until(is_compacted, "the log is compacted")
        last: dict[bytes | None, bytes | None] = {}
        for _, key, value in read_all(broker, "kept"):
            last[key] = value
        assert {key: value for key, value in last.items() if value is not None and key != b"filler"} == {
            b"key-%d" % key: b"%d" % 19 * 100 for key in range(10) if key != 3
        }


def test_a_log_damaged_in_the_middle_goes_offline_and_the_others_serve_on(tmp_path: Path) -> None:
    async def damage() -> None:
        async with tidelog.AsyncBroker(data=tmp_path) as broker:
            await broker.create_topic("damaged", configs={"internal.segment.bytes": 5_000})
            await broker.create_topic("whole")
            await asyncio.to_thread(fill, broker.bootstrap_servers)
        (tmp_path / ".kafka_cleanshutdown").unlink()
        for checkpoint in tmp_path.glob("*checkpoint"):
            checkpoint.unlink()
        first = min((tmp_path / "damaged-0").glob("*.log"))
        content = bytearray(first.read_bytes())
        content[len(content) // 2] ^= 0xFF
        first.write_bytes(content)

    def fill(bootstrap_servers: str) -> None:
        producer = Producer(quiet({"bootstrap.servers": bootstrap_servers}))
        for _ in range(20):
            for topic in ("damaged", "whole"):
                producer.produce(topic, b"x" * 1000)
            assert producer.flush(DEADLINE_S) == 0

    asyncio.run(damage())
    with tidelog.Broker(data=tmp_path) as broker:
        assert len(read_all(broker, "whole")) == 20
        assert broker.node.health()["offline_partitions"] == 1
        assert broker.node.is_ready()
        producer = Producer(quiet({"bootstrap.servers": broker.bootstrap_servers, "message.timeout.ms": 500}))
        refused: list[KafkaError] = []
        producer.produce("damaged", b"x", on_delivery=lambda error, _: refused.append(error))
        assert producer.flush(DEADLINE_S) == 0
        assert refused[0] is not None


def test_closed_segments_are_synced_before_long_so_that_a_crash_leaves_little_to_check() -> None:
    with tidelog.Broker(config={"replica.high.watermark.checkpoint.interval.ms": 50}) as broker:
        broker.create_topic("rolled", configs={"internal.segment.bytes": 5_000})
        for _ in range(10):
            produce(broker, "rolled", [(None, b"x" * 1000)])
        log = log_of(broker, "rolled")
        wait_until(lambda: log.recovery_point >= log.active_segment.base_offset > 0, "a flush of closed segments")
