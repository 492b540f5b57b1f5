from pathlib import Path

import pytest

from tidelog.config.broker import BrokerConfig
from tidelog.config.setting import ConfigError
from tidelog.node.config_file import (
    SECTIONS,
    GivenSetting,
    environment_name,
    load_config,
    parse_options,
    read_environment,
    read_file,
    resolve_key,
)

EXAMPLE = """
broker:
  node.id: 7
  listeners: [PLAINTEXT://127.0.0.1:0, INTERNAL://127.0.0.1:0]
  listener.security.protocol.map: PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT
  auto.create.topics.enable: off
  rack: "001"
storage:
  dirs: /var/lib/tidelog
  retention:
    ms: 1_000
  log.segment.bytes: 1048576
  flush: ack
cluster:
replication:
  min.insync.replicas: 1
  lag.time.max.ms: 5000
consumer:
  initial.rebalance.delay.ms: 0
log:
  format: json
  level:
num.partitions: 3
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "tidelog.yaml"
    path.write_text(text)
    return path


def refusal(given: list[GivenSetting]) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(given)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def file_refusal(tmp_path: Path, text: str) -> str:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_config(read_file(path))
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(path))
    return message.removeprefix(str(path)).strip()


def test_a_file_with_every_section(tmp_path: Path) -> None:
    text = EXAMPLE.replace("1_000", "1000")
    path = write(tmp_path, text)
    config, places = load_config(read_file(path))
    assert config.node_id == 7
    assert [listener.name for listener in config.bound_listeners] == ["PLAINTEXT", "INTERNAL"]
    assert config.auto_create_topics_enable is False
    assert config.broker_rack == "001"
    assert config.data_directory == "/var/lib/tidelog"
    assert config.log_retention_ms == 1000
    assert config.log_segment_bytes == 1048576
    assert config.tidelog_flush == "ack"
    assert config.replica_lag_time_max_ms == 5000
    assert config.group_initial_rebalance_delay_ms == 0
    assert config.tidelog_log_format == "json"
    assert config.tidelog_log_level == BrokerConfig().tidelog_log_level
    assert config.num_partitions == 3
    assert places["log.retention.ms"] == f"{path} line 11"
    assert "tidelog.log.level" not in places


def test_dots_may_be_nesting_everywhere(tmp_path: Path) -> None:
    text = """
log:
  format: json
  retention: {ms: 7}
  segment.bytes: 1048576
num: {partitions: 3}
auto:
  create.topics: {enable: false}
broker.id: 5
tidelog: {log: {level: debug}}
"""
    config = load_config(read_file(write(tmp_path, text))).config
    assert (config.tidelog_log_format, config.tidelog_log_level) == ("json", "debug")
    assert (config.log_retention_ms, config.log_segment_bytes) == (7, 1048576)
    assert (config.num_partitions, config.auto_create_topics_enable, config.node_id) == (3, False, 5)


def test_values_are_text_and_not_what_yaml_makes_of_them(tmp_path: Path) -> None:
    # YAML reads 1_000 as a thousand and 0x10 as sixteen; Kafka's users would not.
    assert file_refusal(tmp_path, EXAMPLE).startswith("line 11: Invalid value 1_000 for configuration log.retention.ms")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "broker:\n  node.id: seven\n",
            "line 2: Invalid value seven for configuration node.id: Not a number of type INT",
        ),
        ("broker:\n  node.idd: 7\n", "line 2: unknown setting node.idd in section broker (did you mean node.id?)"),
        ("broker:\n  log.segment.bytes: 7\n", "line 2: log.segment.bytes belongs to the section storage, not broker"),
        ("storge:\n  x: 7\n", "line 1: unknown section or setting storge (did you mean storage?)"),
        (
            "log:\n  retention:\n    mss: 1\n",
            "line 3: unknown setting retention.mss in section log (did you mean log.retention.ms?)",
        ),
        ("num:\n  partition: 1\n", "line 2: unknown setting num.partition (did you mean num.partitions?)"),
        ("listeners: {a: b}\n", "line 1: listeners must be a value or a list of values"),
        (
            "log.retention.ms: 1\nlog: {retention: {ms: 2}}\n",
            "line 2: log.retention.ms is already given ({path} line 1)",
        ),
        ("broker: 7\n", "line 1: the section broker must hold settings, one per line"),
        ("- broker\n", "line 1: sections with settings are expected here"),
        ("broker:\n  ? [a]\n  : 1\n", "line 2: a setting must be named by a word"),
        ("broker:\n  listeners: [[a]]\n", "line 2: listeners must be a value or a list of values"),
        ("broker:\n  rack: a\n  rack: b\n", "line 3: broker.rack is already given ({path} line 2)"),
        ("broker:\n  rack: a\n  broker.rack: b\n", "line 3: broker.rack is already given ({path} line 2)"),
        ("broker:\n\track: a\n", "line 2: found character '\\t' that cannot start any token"),
        ("broker: {rack: a\n", "line 2: expected ',' or '}}', but got '<stream end>'"),
        ("broker:\n  listeners: 1.2.3.4\n", "line 2: Invalid value 1.2.3.4 for configuration listeners: "),
    ],
)
def test_a_wrong_file_is_one_line_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    assert file_refusal(tmp_path, text).startswith(message.format(path=tmp_path / "tidelog.yaml"))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert load_config(read_file(write(tmp_path, ""))).places == {}
    with pytest.raises(ConfigError, match=r"nothing\.yaml: cannot be read: No such file or directory"):
        read_file(tmp_path / "nothing.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"binary\.yaml: cannot be read: it is not UTF-8 text"):
        read_file(tmp_path / "binary.yaml")
    (tmp_path / "control.yaml").write_bytes(b"a: \x00")
    with pytest.raises(ConfigError, match=r"control\.yaml: special characters are not allowed"):
        read_file(tmp_path / "control.yaml")


def test_every_setting_can_be_written_in_its_section() -> None:
    for setting in BrokerConfig.SETTINGS.values():
        assert setting.section in SECTIONS
        assert resolve_key(setting.section, setting.name) == setting.name


def test_no_short_name_hides_another_setting() -> None:
    for section, prefixes in SECTIONS.items():
        for setting in BrokerConfig.SETTINGS.values():
            for prefix in prefixes:
                if setting.section == section and setting.name.startswith(prefix):
                    short = setting.name.removeprefix(prefix)
                    resolved = resolve_key(section, short)
                    assert resolved == setting.name or resolved == short, f"{short} in {section}"


def test_environment() -> None:
    environment = {"TIDELOG_LOG_RETENTION_MS": "5", "TIDELOG_FLUSH": "ack", "TIDELOG_BROKER_ID": "4", "PATH": "/bin"}
    given, unknown = read_environment(environment)
    config, places = load_config(given)
    assert (config.log_retention_ms, config.tidelog_flush, config.node_id) == (5, "ack", 4)
    assert places["log.retention.ms"] == "environment variable TIDELOG_LOG_RETENTION_MS"
    assert unknown == []


def test_environment_names_are_unique() -> None:
    names = [environment_name(setting) for setting in BrokerConfig.SETTINGS.values()]
    assert len(set(names)) == len(names)


def test_a_mistyped_variable_is_refused_a_foreign_one_reported() -> None:
    with pytest.raises(
        ConfigError, match=r"TIDELOG_LOG_RETENTON_MS is not a setting \(did you mean TIDELOG_LOG_RETENTION_MS\?\)"
    ):
        read_environment({"TIDELOG_LOG_RETENTON_MS": "5"})
    assert read_environment({"TIDELOG_SERVICE_HOST": "10.0.0.1", "TIDELOG_CONFIG": "x"}) == (
        [],
        ["TIDELOG_SERVICE_HOST"],
    )


def test_a_wrong_variable_names_itself() -> None:
    given, _ = read_environment({"TIDELOG_NUM_PARTITIONS": "0"})
    assert refusal(given).startswith("environment variable TIDELOG_NUM_PARTITIONS: Invalid value 0 for")


def test_the_last_one_wins_and_keeps_its_place() -> None:
    given = [GivenSetting("num.partitions", "2", "file"), *parse_options(["num.partitions=3", "num.partitions=4"])]
    config, places = load_config(given)
    assert config.num_partitions == 4
    assert places == {"num.partitions": "-o num.partitions"}


def test_options() -> None:
    assert parse_options(["a.b=c=d", "empty="]) == [
        GivenSetting("a.b", "c=d", "-o a.b"),
        GivenSetting("empty", "", "-o empty"),
    ]
    for wrong in ("num.partitions", "=3", ""):
        with pytest.raises(ConfigError, match="name=value is expected"):
            parse_options([wrong])
    assert refusal(parse_options(["num.partitons=3"])) == (
        "-o num.partitons: unknown setting num.partitons (did you mean num.partitions?)"
    )


def test_settings_that_contradict_each_other_name_their_places() -> None:
    message = refusal(parse_options(["listeners=127.0.0.1:0", "advertised.listeners=OTHER://h:1"]))
    assert message.startswith(
        "-o advertised.listeners: Invalid value OTHER://h:1 for configuration advertised.listeners"
    )
