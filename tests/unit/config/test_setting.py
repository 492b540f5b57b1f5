"""Settings as a table: names, parsing in Kafka's words, and what an instance keeps."""

import pytest

from tidelog.config.setting import ConfigError, Settings, boolean, double, int32, int64, optional_int64, text, word_list


class Sample(Settings, section="sample"):
    retention_ms: int = int64(default=5, minimum=-1, doc="How long.")
    count: int = int32(default=1, minimum=1, maximum=3, doc="How many.")
    ratio: float = double(default=0.5, minimum=0, maximum=1, doc="Which part.")
    is_on: bool = boolean(default=False, doc="Whether.", name="on")
    colour: str = text(default="red", choices=("red", "blue"), doc="Which colour.")
    words: tuple[str, ...] = word_list(default=(), doc="Which words.")
    limit_bytes: int | None = optional_int64(doc="How much, if at all.")
    secret: str = text(default="", doc="Hidden.", choices=("",), sensitive=True)


def test_names_sections_and_units_come_from_the_declaration() -> None:
    assert list(Sample.SETTINGS) == [
        "retention.ms", "count", "ratio", "on", "colour", "words", "limit.bytes", "secret",
    ]  # fmt: skip
    assert {setting.section for setting in Sample.SETTINGS.values()} == {"sample"}
    assert Sample.SETTINGS["retention.ms"].unit == "milliseconds"
    assert Sample.SETTINGS["limit.bytes"].unit == "bytes"
    assert Sample.SETTINGS["count"].unit == ""
    assert Sample.SETTINGS["count"].valid_values == "1 to 3"


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("retention.ms", "-1", -1),
        ("retention.ms", " 77 ", 77),
        ("retention.ms", "9223372036854775807", 2**63 - 1),
        ("ratio", "1", 1.0),
        ("on", "TRUE", True),
        ("on", "false", False),
        ("words", "a, b ,,c", ("a", "b", "c")),
        ("words", "", ()),
        ("limit.bytes", "8", 8),
    ],
)
def test_parse_takes_what_kafka_takes(name: str, given: str, value: object) -> None:
    assert Sample.SETTINGS[name].parse(given) == value


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("retention.ms", "x", "Invalid value x for configuration retention.ms: Not a number of type LONG"),
        ("retention.ms", "", "Invalid value  for configuration retention.ms: Not a number of type LONG"),
        ("retention.ms", "1_000", "Invalid value 1_000 for configuration retention.ms: Not a number of type LONG"),
        ("retention.ms", "٣", "Invalid value ٣ for configuration retention.ms: Not a number of type LONG"),
        ("retention.ms", "-2", "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
        ("count", "2147483648", "Invalid value 2147483648 for configuration count: Not a number of type INT"),
        ("count", "4", "Invalid value 4 for configuration count: Value must be no more than 3"),
        ("ratio", "2", "Invalid value 2.0 for configuration ratio: Value must be no more than 1"),
        ("ratio", "nan", "Invalid value nan for configuration ratio: Value must be no more than 1"),
        ("on", "yes", "Invalid value yes for configuration on: Expected value to be either true or false"),
        ("colour", "green", "Invalid value green for configuration colour: String must be one of: red, blue"),
        ("secret", "abc", "Invalid value [hidden] for configuration secret: String must be one of: "),
    ],
)
def test_parse_refuses_in_kafkas_words(name: str, given: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        Sample.SETTINGS[name].parse(given)
    assert str(error.value) == message


@pytest.mark.parametrize("name", Sample.SETTINGS)
def test_a_formatted_default_is_parsed_back(name: str) -> None:
    setting = Sample.SETTINGS[name]
    formatted = setting.format(setting.default)
    assert setting.default is None if formatted is None else setting.parse(formatted) == setting.default


def test_instances_do_not_change_and_compare_by_value() -> None:
    config = Sample(count=2)
    assert config.count == 2
    assert config.ratio == 0.5
    assert config == Sample(count=2) != Sample()
    assert repr(config) == "Sample(count=2)"
    assert config.replaced(colour="blue") == Sample(count=2, colour="blue")
    with pytest.raises(AttributeError):
        config.count = 3  # type: ignore[misc]
    with pytest.raises(TypeError, match="bogus"):
        Sample(bogus=1)  # type: ignore[call-arg]


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(
        ConfigError, match=r"^Unknown topic config name: retentoin\.ms \(did you mean retention\.ms\?\)$"
    ):
        Sample.parse_values({"retentoin.ms": "5"}, what="topic config")
    with pytest.raises(ConfigError, match=r"^Unknown configuration name: zebra$"):
        Sample.parse_values({"zebra": "5"})
