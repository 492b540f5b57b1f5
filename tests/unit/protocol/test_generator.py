"""The generator: what it makes of a definition, and that its drift check can fail."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.protocol.reference import BY_NAME
from tools import generate_protocol
from tools.protocol.jars import JarsUnavailable
from tools.protocol.modules import generate, prepare
from tools.protocol.schema import Versions, parse_message, snake_case

from tidelog.protocol.errors import MalformedMessage, UnsupportedField

DEFINITION = """
// A comment before everything.
{
  "apiKey": 7, "type": "request", "name": "TideRequest", "validVersions": "1-4", "flexibleVersions": "3+",
  // Old is gone; Late came with version 4.
  "fields": [
    { "name": "Old", "type": "int32", "versions": "0" },
    { "name": "Name", "type": "string", "versions": "0+", "nullableVersions": "2+" },
    { "name": "Waves", "type": "[]Wave", "versions": "0+", "fields": [
      { "name": "Height", "type": "int16", "versions": "0+" },
      { "name": "Length", "type": "int64", "versions": "2+", "default": "-1", "ignorable": true }
    ]},
    { "name": "Late", "type": "bool", "versions": "4+", "taggedVersions": "4+", "tag": 0, "default": "true" }
  ]
}
"""


def load(definition: str) -> dict[str, object]:
    message = parse_message(definition)
    assert message is not None
    prepare([message])
    names: dict[str, object] = {"__name__": "generated"}
    exec(generate([message], "0.0.0")["tide.py"], names)
    return names


def test_a_definition_becomes_a_codec() -> None:
    module = load(DEFINITION)
    request, wave = module["TideRequest"], module["Wave"]
    message = request(name="ab", waves=[wave(height=1, length=2)])  # type: ignore[operator]
    assert message.__slots__ == ("name", "waves", "late")
    assert message.encode(1).hex(" ", 1) == "00 02 61 62 00 00 00 01 00 01"
    assert message.encode(2).hex(" ", 1) == "00 02 61 62 00 00 00 01 00 01 00 00 00 00 00 00 00 02"
    assert message.encode(3).hex(" ", 1) == "03 61 62 02 00 01 00 00 00 00 00 00 00 02 00 00"
    message.late = False
    assert message.encode(4).endswith(b"\x00\x01\x00\x01\x00")
    assert request.decode(message.encode(4), 0, 4)[0] == message  # type: ignore[attr-defined]
    with pytest.raises(UnsupportedField, match="late"):
        message.encode(3)
    with pytest.raises(UnsupportedField, match="name"):
        request(name=None).encode(1)  # type: ignore[operator]
    with pytest.raises(MalformedMessage, match="name is null"):
        request.decode(b"\xff\xff\x00\x00\x00\x00", 0, 1)  # type: ignore[attr-defined]


def test_a_message_without_versions_is_left_out() -> None:
    assert parse_message(DEFINITION.replace('"1-4"', '"none"')) is None


def test_the_output_depends_on_nothing_but_the_definition() -> None:
    def once() -> dict[str, str]:
        message = parse_message(DEFINITION)
        assert message is not None
        prepare([message])
        return generate([message], "0.0.0")

    assert once() == once()
    commented = parse_message(DEFINITION.replace("came with", "was added in"))
    assert commented is not None
    prepare([commented])
    assert generate([commented], "0.0.0") == once()


@pytest.mark.parametrize(
    ("text", "low", "high"), [("3", 3, 3), ("0-2", 0, 2), ("4+", 4, 32767), ("none", 0, -1), (" 1+ ", 1, 32767)]
)
def test_versions_are_read(text: str, low: int, high: int) -> None:
    assert Versions.parse(text) == Versions(low, high)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("TopicId", "topic_id"),
        ("V3AndBelowTopics", "v3_and_below_topics"),
        ("IsKRaftController", "is_kraft_controller"),
        ("groupInstanceId", "group_instance_id"),
        ("KRaftVersionRecord", "kraft_version_record"),
    ],
)
def test_names_become_snake_case(name: str, expected: str) -> None:
    assert snake_case(name) == expected


def test_drift_is_described() -> None:
    expected = {Path("a.py"): "1\n2\n", Path("b.py"): "x\n", Path("c.py"): "same\n"}
    committed = {Path("a.py"): "1\n3\n", Path("c.py"): "same\n", Path("d.py"): "old\n"}
    assert generate_protocol.describe_drift(expected, committed) == [
        "a.py: +1 -1, first: -3",
        "b.py: missing",
        "d.py: not generated any more",
    ]
    assert generate_protocol.describe_drift(expected, expected) == []


def test_without_the_jars_the_check_passes_at_home_and_fails_in_continuous_integration(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CI", raising=False)
    assert generate_protocol.main(["--check"]) == 0
    assert "not checked: Maven" in capsys.readouterr().out
    monkeypatch.setenv("CI", "true")
    assert generate_protocol.main(["--check"]) == 1
    monkeypatch.delenv("CI")
    assert generate_protocol.main([]) == 1


def test_the_committed_code_is_what_the_generator_writes() -> None:
    try:
        expected = generate_protocol.expected_files()
    except JarsUnavailable as reason:
        pytest.skip(str(reason))
    assert generate_protocol.describe_drift(expected, generate_protocol.committed_files()) == []


def test_a_tagged_struct_is_null_by_zero_and_any_other_by_minus_one() -> None:
    tagged = BY_NAME["ConsumerGroupMemberMetadataValue"].message_class(classic_member_metadata=None)
    assert tagged.encode(0).endswith(b"\x01\x00\x01\x00")
    plain = BY_NAME["ConsumerGroupHeartbeatResponse"].message_class(assignment=None)
    assert plain.encode(0).endswith(b"\xff\x00")
