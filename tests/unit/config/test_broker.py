"""Broker settings: from text, at run time, and what follows from them."""

import subprocess
import sys

import pytest

from tidelog.config.broker import BrokerConfig
from tidelog.config.listener import Listener, parse_address, parse_listener
from tidelog.config.setting import ConfigError


def refused(texts: dict[str, str], source: str = "") -> str:
    with pytest.raises(ConfigError) as error:
        BrokerConfig.from_mapping(texts, source=source)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_every_default_passes_its_own_check() -> None:
    BrokerConfig().check_together()
    for setting in BrokerConfig.SETTINGS.values():
        shown = setting.format(setting.default)
        if shown is not None:
            assert setting.parse(shown) == setting.default, setting.name


def test_every_setting_is_explained_and_has_a_section() -> None:
    sections = {"broker", "storage", "cluster", "replication", "consumer", "gateways", "log"}
    for setting in BrokerConfig.SETTINGS.values():
        assert setting.doc.rstrip().endswith("."), setting.name
        assert setting.section in sections, setting.name


def test_some_defaults_of_kafka() -> None:
    config = BrokerConfig()
    assert config.num_partitions == 1
    assert config.fetch_max_bytes == 57_671_680
    assert config.max_incremental_fetch_session_cache_slots == 1000
    assert config.offsets_topic_num_partitions == 50
    assert config.group_initial_rebalance_delay_ms == 3000
    assert config.replica_lag_time_max_ms == 30_000
    assert config.transactional_id_expiration_ms == 604_800_000
    assert config.producer_id_expiration_ms == 86_400_000


def test_unknown_names_are_refused_with_the_nearest() -> None:
    assert refused({"num.partition": "3"}, "node.yaml") == (
        "node.yaml: Unknown setting num.partition (did you mean num.partitions?)"
    )


def test_older_names_are_taken() -> None:
    config = BrokerConfig.from_mapping({"broker.id": "7", "log.dir": "/data"})
    assert config.node_id == 7
    assert config.data_directory == "/data"
    assert config.static_texts == {"node.id": "7", "log.dirs": "/data"}


@pytest.mark.parametrize(
    ("texts", "retention_ms"),
    [
        ({}, 604_800_000),
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_the_finest_unit_wins(texts: dict[str, str], retention_ms: int) -> None:
    assert BrokerConfig.from_mapping(texts).topic_defaults.retention_ms == retention_ms


def test_flush_ms_falls_back_to_the_scheduler() -> None:
    assert BrokerConfig.from_mapping({"log.flush.scheduler.interval.ms": "50"}).topic_defaults.flush_ms == 50


def test_settings_of_run_time_stand_above_those_of_the_start_and_can_be_taken_back() -> None:
    start = BrokerConfig.from_mapping({"log.retention.ms": "10", "node.id": "1"})
    changed = start.with_dynamic({"log.retention.ms": "20", "message.max.bytes": "99"}, {"log.retention.ms": "30"})
    assert changed.topic_defaults.retention_ms == 30
    assert changed.topic_defaults.max_message_bytes == 99
    assert changed.dynamic_texts == {"log.retention.ms": "30"}
    assert changed.dynamic_default_texts == {"log.retention.ms": "20", "message.max.bytes": "99"}
    assert changed.static_texts == start.static_texts
    assert changed.with_dynamic({}, {}) == start
    assert start.with_dynamic({}, {}) is start


def test_run_time_settings_that_make_no_sense_here_are_left_out() -> None:
    start = BrokerConfig()
    assert start.with_dynamic({"of.the.future": "1", "log.retention.ms": "x"}, {"node.id": "9"}) == start


def test_listeners() -> None:
    config = BrokerConfig.from_mapping(
        {
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093,INSIDE://[::1]:0",
            "advertised.listeners": "PLAINTEXT://kafka.example:443",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT",
        }
    )
    assert config.bound_listeners == (Listener("PLAINTEXT", "", 9092), Listener("INSIDE", "::1", 0))
    assert config.effective_advertised_listeners == (
        Listener("PLAINTEXT", "kafka.example", 443),
        Listener("INSIDE", "::1", 0),
    )
    assert str(config.bound_listeners[1]) == "INSIDE://[::1]:0"
    assert parse_listener("localhost:1") == Listener("PLAINTEXT", "localhost", 1)


@pytest.mark.parametrize("address", ["localhost", "localhost:", "localhost:x", ":99999", "::1:9092", "a b:1", "a/b:1"])
def test_wrong_addresses(address: str) -> None:
    with pytest.raises(ValueError, match="is not an address"):
        parse_address(address)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"listeners": "CONTROLLER://:9093"}, "at least one client listener is needed"),
        ({"listeners": "a:1,b:2"}, "each listener must have a different name"),
        ({"listeners": "SSL://a:1"}, "the security protocol SSL is not supported"),
        ({"listeners": "://a:1"}, "is not a listener"),
        ({"advertised.listeners": "OTHER://a:1"}, "no listener is named OTHER"),
        ({"admin.listen": "9644"}, "Invalid value 9644 for configuration admin.listen: '9644' is not an address"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "clients cannot connect to 0.0.0.0"),
        ({"inter.broker.listener.name": "X"}, "no listener has this name"),
        ({"log.dirs": "/a,/b"}, "one directory only"),
        ({"log.dirs": ""}, "a directory must be named"),
        ({"queued.max.request.bytes": "1000000"}, "104857600 bytes (socket.request.max.bytes) would never fit"),
        ({"group.min.session.timeout.ms": "9000000"}, "must not be larger than group.max.session.timeout.ms"),
        (
            {"group.consumer.session.timeout.ms": "10000"},
            "group.consumer.min.session.timeout.ms must not be larger than group.consumer.session.timeout.ms",
        ),
        (
            {"group.consumer.heartbeat.interval.ms": "20000"},
            "group.consumer.heartbeat.interval.ms must not be larger than group.consumer.max.heartbeat.interval.ms",
        ),
        ({"tidelog.loop": "trio"}, "String must be one of: auto, uvloop, asyncio"),
        ({"log.cleaner.min.compaction.lag.ms": "9", "log.cleaner.max.compaction.lag.ms": "8"}, "conflict"),
    ],
)
def test_wrong_settings_are_one_line(texts: dict[str, str], message: str) -> None:
    assert message in refused(texts)


def test_the_import_is_light() -> None:
    """A node starts in a fraction of a second: nothing heavy may come in with the settings."""
    heavy = {"dataclasses", "inspect", "asyncio", "pydantic", "yaml", "difflib", "importlib.metadata"}
    code = f"import sys, tidelog.config.broker; print(sorted(set(sys.modules) & {heavy!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
