import json
from pathlib import Path

import pytest

from tidelog.cli.main import main
from tidelog.config.broker import BrokerConfig
from tidelog.config.topic import TopicConfig


@pytest.fixture(autouse=True)
def _no_settings_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in [name for name in os.environ if name.startswith("TIDELOG_")]:
        monkeypatch.delenv(name)


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["config", "explain", *arguments]) == 0
    return capsys.readouterr().out


def test_every_setting_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    listed = json.loads(output(capsys, "--json"))
    public = [s for c in (BrokerConfig, TopicConfig) for s in c.SETTINGS.values() if not s.internal]
    assert [item["name"] for item in listed] == [setting.name for setting in public]
    for item in listed:
        assert item["doc"].strip().endswith(".")
        assert item["section"]
        assert item["source"] == "default"
        assert item["value"] == item["default"], item["name"]
    text = output(capsys)
    for setting in public:
        assert f"  {setting.name} " in text


def test_part_of_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    names = [item["name"] for item in json.loads(output(capsys, "retention", "--json"))]
    assert {"log.retention.hours", "offsets.retention.minutes", "retention.ms"} <= set(names)
    assert all("retention" in name for name in names)


def test_values_stand_within_80_columns(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert [line for line in output(capsys).splitlines() if len(line) > 80] == []


def test_values_of_a_file_stand_within_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    listeners = "INSIDE://10.10.10.10:9092,OUTSIDE://kafka-1.example.org:9093"
    protocols = "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT"
    Path("c.yaml").write_text(
        f"broker:\n  listeners: {listeners}\n  listener.security.protocol.map: {protocols}\n"
        "storage:\n  log.retention.bytes: 50000000000\n"
    )
    lines = output(capsys, "--file", "c.yaml").splitlines()
    assert [line for line in lines if len(line) > 80] == []
    at = lines.index(f"      {listeners}")
    assert lines[at - 1].split() == ["listeners", "list"]
    assert lines[at + 1].strip() == "(default PLAINTEXT://127.0.0.1:9092)  <- c.yaml line 2"


def test_one_setting(capsys: pytest.CaptureFixture[str]) -> None:
    text = output(capsys, "num.partitions")
    assert text.startswith("num.partitions\n")
    assert "default   1\n" in text
    assert "TIDELOG_NUM_PARTITIONS" in text
    assert "<-" not in text


def test_patterns_sections_and_older_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert "log.retention.bytes" in output(capsys, "*retention*")
    assert "num.partitions" not in output(capsys, "storage")
    assert output(capsys, "broker.id").startswith("node.id\n")


def test_a_file_and_the_environment_give_values_their_place(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "tidelog.yaml"
    file.write_text("storage:\n  retention.ms: 77\nbroker:\n  num.partitions: 2\n")
    monkeypatch.setenv("TIDELOG_NUM_PARTITIONS", "4")
    listed = {item["name"]: item for item in json.loads(output(capsys, "--json", "--file", str(file)))}
    assert (listed["log.retention.ms"]["value"], listed["log.retention.ms"]["source"]) == ("77", f"{file} line 2")
    assert (listed["retention.ms"]["value"], listed["retention.ms"]["source"]) == ("77", f"{file} line 2")
    assert listed["num.partitions"]["value"] == "4"
    assert listed["num.partitions"]["source"] == "environment variable TIDELOG_NUM_PARTITIONS"
    monkeypatch.setenv("TIDELOG_CONFIG", str(file))
    assert f"(default (none))  <- {file} line 2" in output(capsys, "*.retention.ms")


def test_errors_are_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["config", "num.partitons"]) == 1
    assert capsys.readouterr().err == "tidelog: unknown setting num.partitons (did you mean num.partitions?)\n"
    file = tmp_path / "tidelog.yaml"
    file.write_text("broker:\n  num.partitions: none\n")
    assert main(["config", "explain", "--file", str(file)]) == 1
    assert capsys.readouterr().err == (
        f"tidelog: {file} line 2: Invalid value none for configuration num.partitions: Not a number of type INT\n"
    )
