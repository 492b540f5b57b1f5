import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.embedding.clients import consume_values, end_offset, partition_counts, produce_values, topic_config

import tidelog
from tidelog import BrokerError, ConfigError, NodeStartError
from tidelog.model.errors import ErrorCode
from tidelog.node.node import Node
from tidelog.node.stages import Loaded
from tidelog.protocol.generated.partition_change_record import PartitionChangeRecord

VALUES = [b"%d" % number for number in range(100)]


def test_records_go_in_and_come_out() -> None:
    with tidelog.Broker() as broker:
        assert broker.create_topic("orders", partitions=2) == "orders"
        produce_values(broker.bootstrap_servers, "orders", VALUES)
        servers = broker.bootstrap_servers
        ends = [end_offset(servers, "orders", partition) for partition in (0, 1)]
        found = [
            value for partition in (0, 1) for value in consume_values(servers, "orders", ends[partition], partition)
        ]
        assert sorted(found) == sorted(VALUES)


def test_a_topic_has_as_many_partitions_as_the_settings_say() -> None:
    with tidelog.Broker({"num.partitions": 5}) as broker:
        broker.create_topic("many")
        broker.create_topic("two", partitions=2)
        assert partition_counts(broker.bootstrap_servers) == {"many": 5, "two": 2}


def test_temporary_data_is_removed_and_the_port_is_free_again() -> None:
    with tidelog.Broker() as broker:
        data, port = broker.data, broker.port
        assert any(data.iterdir())
        assert broker.is_running
    assert not data.exists()
    assert not broker.is_running
    with socket.create_server(("127.0.0.1", port)):
        pass
    broker.stop()
    with pytest.raises(RuntimeError, match="not running"):
        broker.create_topic("late")


def test_a_restart_keeps_port_and_data() -> None:
    with tidelog.Broker() as broker:
        broker.create_topic("kept")
        produce_values(broker.bootstrap_servers, "kept", VALUES)
        before = broker.bootstrap_servers
        broker.restart()
        assert broker.bootstrap_servers == before
        assert consume_values(before, "kept", len(VALUES)) == VALUES
        produce_values(before, "kept", [b"after"])
        assert consume_values(before, "kept", len(VALUES) + 1)[-1] == b"after"


def test_data_that_is_to_be_kept_is_kept(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with tidelog.Broker(data=data) as broker:
        broker.create_topic("kept")
        produce_values(broker.bootstrap_servers, "kept", VALUES)
    assert data.is_dir()
    with tidelog.Broker(data=str(data)) as broker:
        assert consume_values(broker.bootstrap_servers, "kept", len(VALUES)) == VALUES


def test_settings_go_by_kafkas_names() -> None:
    with tidelog.Broker({"num.partitions": 3, "auto.create.topics.enable": True, "node.id": "7"}) as broker:
        assert broker.node.config.node_id == 7
        produce_values(broker.bootstrap_servers, "made-by-itself", VALUES)
        assert partition_counts(broker.bootstrap_servers) == {"made-by-itself": 3}


def test_a_wrong_setting_starts_nothing_and_leaves_nothing() -> None:
    broker = tidelog.Broker({"num.partitons": 3})
    with pytest.raises(ConfigError, match=r"num\.partitons.*did you mean num\.partitions"):
        broker.start()
    assert not broker.is_running
    broker.stop()


def test_topics_with_settings_and_topics_that_cannot_be() -> None:
    with tidelog.Broker() as broker:
        broker.create_topic("compacted", configs={"cleanup.policy": "compact", "max.message.bytes": 1000})
        assert topic_config(broker.bootstrap_servers, "compacted", "cleanup.policy") == "compact"
        assert topic_config(broker.bootstrap_servers, "compacted", "max.message.bytes") == "1000"
        for name, configs, code in (
            ("compacted", {}, ErrorCode.TOPIC_ALREADY_EXISTS),
            ("../up", {}, ErrorCode.INVALID_TOPIC_EXCEPTION),
            ("wrong", {"retention.ms": "soon"}, ErrorCode.INVALID_CONFIG),
        ):
            with pytest.raises(BrokerError) as caught:
                broker.create_topic(name, configs=configs)
            assert caught.value.code == code


def test_two_brokers_live_side_by_side() -> None:
    with tidelog.Broker() as one, tidelog.Broker() as two:
        assert one.port != two.port
        one.create_topic("t")
        two.create_topic("t")
        produce_values(one.bootstrap_servers, "t", [b"one"])
        produce_values(two.bootstrap_servers, "t", [b"two"])
        assert consume_values(one.bootstrap_servers, "t", 1) == [b"one"]
        assert consume_values(two.bootstrap_servers, "t", 1) == [b"two"]


def test_data_in_use_is_refused_with_one_line(tmp_path: Path) -> None:
    with tidelog.Broker(data=tmp_path / "data"):
        with pytest.raises(NodeStartError) as caught:
            tidelog.Broker(data=tmp_path / "data").start()
        assert "\n" not in str(caught.value)
        assert "in use" in str(caught.value)


def test_starting_twice_is_a_mistake_of_the_caller() -> None:
    with tidelog.Broker() as broker:
        with pytest.raises(RuntimeError, match="already running"):
            broker.start()
        assert broker.is_running


def test_stop_then_start_again_begins_with_fresh_data() -> None:
    broker = tidelog.Broker()
    with broker:
        broker.create_topic("gone")
    with broker:
        assert partition_counts(broker.bootstrap_servers) == {}
        broker.create_topic("gone")


_START = """
import sys, time
import tidelog
tidelog.Broker
imported = time.perf_counter()
times = []
# How fast it can be, whatever else the machine does meanwhile.
while not times or min(times) >= 0.2 and len(times) < 20:
    started = time.perf_counter()
    with tidelog.Broker() as broker:
        broker.create_topic("t")
        times.append(time.perf_counter() - started)
heavy = {"starlette", "uvicorn", "prometheus_client", "yaml", "rich", "pydantic", "confluent_kafka"} & set(sys.modules)
print(min(times), ",".join(sorted(heavy)))
"""


def test_ready_in_well_under_200_ms_and_nothing_heavy_is_imported() -> None:
    done = subprocess.run([sys.executable, "-c", _START], capture_output=True, text=True, check=True, timeout=60)
    seconds, _, heavy = done.stdout.strip().partition(" ")
    assert heavy == ""
    assert float(seconds) < 0.2


def test_a_node_that_cannot_replay_what_was_committed_gives_up_and_leaves_no_snapshot() -> None:
    unknown = PartitionChangeRecord(partition_id=0, topic_id=b"t" * 16, leader=1)

    async def commit(node: Node) -> None:
        assert isinstance(node.stage, Loaded)
        await node.stage.cluster.quorum.propose([unknown])

    with tidelog.Broker({"metadata.log.max.record.bytes.between.snapshots": "100"}) as broker:
        broker.create_topic("before")
        with pytest.raises(BrokerError, match="topic id that is not known"):
            broker.call(lambda: commit(broker.node))
        assert "cannot be applied: record of a topic id that is not known; upgrade this node" in str(
            broker.node.given_up
        )
        with pytest.raises(NodeStartError, match="record of a topic id that is not known"):
            broker.restart()
