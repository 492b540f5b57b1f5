"""Where the settings of a node come from: a YAML file, the environment, flags and `-o name=value`; the later wins.

A file has the sections of `SECTIONS`. Inside one, a key is Kafka's name of a setting of that section or that name
without the section's prefix (`retention.ms` under `storage` is `log.retention.ms`). Outside of them a key is Kafka's
whole name. Dots may be written as nesting everywhere; where the first word is a section too (`log`), the section wins.
Values are taken as the text they are written as, so YAML's own types change nothing; a sequence is a list with commas.
`log.retention.ms` is `TIDELOG_LOG_RETENTION_MS` in the environment. Every value remembers its place, and an error
is one line that opens with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tidelog.config.broker import ALIASES, BrokerConfig
from tidelog.config.setting import ConfigError, Setting, did_you_mean

SECTIONS: dict[str, tuple[str, ...]] = {
    "broker": ("broker.", "tidelog."),
    "storage": ("log.", "tidelog."),
    "cluster": ("cluster.", "controller.", "tidelog."),
    "replication": ("replica.", "tidelog."),
    "gateways": (),
    "consumer": ("group.",),
    "log": ("tidelog.log.",),
}
"""Section -> the prefixes its short names leave out, the first that fits wins."""

ENVIRONMENT_PREFIX = "TIDELOG_"
ENVIRONMENT_OF_COMMANDS = frozenset(
    {"TIDELOG_BOOTSTRAP", "TIDELOG_COMPILED", "TIDELOG_CONFIG", "TIDELOG_DEBUG", "TIDELOG_PROFILE"}
)
"""Variables of the command line, not settings of a node."""


YamlNode = Any
"""A node of PyYAML, which is imported only when there is a file to read."""


class GivenSetting(NamedTuple):
    """One value as it was given, before it is checked."""

    name: str
    text: str
    place: str
    """For people: `tidelog.yaml line 3`, `environment variable TIDELOG_NODE_ID`, `--listen`, `-o num.partitions`."""


class LoadedConfig(NamedTuple):
    config: BrokerConfig
    places: Mapping[str, str]
    """Kafka's name -> where its value came from; settings not in it have their default."""


def load_config(given: Iterable[GivenSetting]) -> LoadedConfig:
    """Judges the settings one by one, then together; ConfigError is one line that names the place."""
    texts: dict[str, str] = {}
    places: dict[str, str] = {}
    for item in given:
        name = ALIASES.get(item.name, item.name)
        setting = BrokerConfig.SETTINGS.get(name)
        if setting is None:
            raise ConfigError(f"{item.place}: unknown setting {item.name}{did_you_mean(name, BrokerConfig.SETTINGS)}")
        try:
            setting.parse(item.text)
        except ConfigError as error:
            raise ConfigError(f"{item.place}: {error}") from None
        texts[name] = item.text
        places[name] = item.place
    try:
        config = BrokerConfig.from_mapping(texts)
    except ConfigError as error:
        raise ConfigError(f"{_places_named(str(error), places)}{error}") from None
    return LoadedConfig(config, places)


def _places_named(message: str, places: Mapping[str, str]) -> str:
    words = {word.strip(",:()") for word in message.split()}
    named = list(dict.fromkeys(place for name, place in places.items() if name in words))
    return f"{', '.join(named)}: " if named else ""


# -- the file ----------------------------------------------------------------------------------------------------


def read_file(path: Path) -> list[GivenSetting]:
    """The settings of a YAML file, in its order."""
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
        document = yaml.compose(text, Loader=yaml.SafeLoader)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"{path}: cannot be read: {reason}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}{_describe_yaml_error(error)}") from None
    if document is None:
        return []
    found: dict[str, GivenSetting] = {}
    for item in _read_document(path, document):
        earlier = found.get(item.name)
        if earlier is not None:
            raise ConfigError(f"{item.place}: {item.name} is already given ({earlier.place})")
        found[item.name] = item
    return list(found.values())


def _describe_yaml_error(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "it is not YAML"
    return f" line {mark.line + 1}: {problem}" if mark is not None else f": {problem}"


def _read_document(path: Path, document: YamlNode) -> Iterator[GivenSetting]:
    for key, node, line in _entries(path, document):
        if node.id == "mapping" and key in SECTIONS:
            yield from _read_section(path, key, "", node)
        elif key in SECTIONS:
            if not _is_null(node):
                raise ConfigError(f"{path} line {line}: the section {key} must hold settings, one per line")
        elif ALIASES.get(key, key) in BrokerConfig.SETTINGS:
            yield from _read_value(path, ALIASES.get(key, key), node, line)
        elif node.id == "mapping" and any(name.startswith(f"{key}.") for name in _known_names()):
            yield from _read_nested(path, f"{key}.", node)
        else:
            known = (*SECTIONS, *BrokerConfig.SETTINGS)
            raise ConfigError(f"{path} line {line}: unknown section or setting {key}{did_you_mean(key, known)}")


def _known_names() -> tuple[str, ...]:
    return (*BrokerConfig.SETTINGS, *ALIASES)


def _read_nested(path: Path, prefix: str, mapping: YamlNode) -> Iterator[GivenSetting]:
    """Kafka's names with nesting for their dots, outside of any section."""
    for key, node, line in _entries(path, mapping):
        written = f"{prefix}{key}"
        if node.id == "mapping":
            yield from _read_nested(path, f"{written}.", node)
        elif ALIASES.get(written, written) in BrokerConfig.SETTINGS:
            yield from _read_value(path, ALIASES.get(written, written), node, line)
        else:
            near = did_you_mean(written, _known_names())
            raise ConfigError(f"{path} line {line}: unknown setting {written}{near}")


def _read_section(path: Path, section: str, prefix: str, mapping: YamlNode) -> Iterator[GivenSetting]:
    for key, node, line in _entries(path, mapping):
        written = f"{prefix}{key}"
        if node.id == "mapping":
            yield from _read_section(path, section, f"{written}.", node)
        else:
            try:
                name = resolve_key(section, written)
            except ConfigError as error:
                raise ConfigError(f"{path} line {line}: {error}") from None
            yield from _read_value(path, name, node, line)


def resolve_key(section: str, key: str) -> str:
    """Kafka's name for a key of a section."""
    names = {setting.name for setting in BrokerConfig.SETTINGS.values() if setting.section == section}
    for candidate in (ALIASES.get(key, key), *(f"{prefix}{key}" for prefix in SECTIONS[section])):
        candidate = ALIASES.get(candidate, candidate)
        if candidate in names:
            return candidate
    whole = f"{section}.{key}"
    if ALIASES.get(whole, whole) in BrokerConfig.SETTINGS:
        # `log: {retention: {ms: 1}}` is log.retention.ms with nesting for its dots, though `log` is a section too.
        return ALIASES.get(whole, whole)
    elsewhere = BrokerConfig.SETTINGS.get(ALIASES.get(key, key))
    if elsewhere is not None:
        raise ConfigError(f"{key} belongs to the section {elsewhere.section}, not {section}")
    prefixes = SECTIONS[section]
    short = {name.removeprefix(prefix) for name in names for prefix in prefixes}
    near = did_you_mean(key, names | short) or did_you_mean(whole, BrokerConfig.SETTINGS)
    raise ConfigError(f"unknown setting {key} in section {section}{near}")


def _entries(path: Path, mapping: YamlNode) -> Iterator[tuple[str, YamlNode, int]]:
    if mapping.id != "mapping":
        raise ConfigError(f"{path} line {mapping.start_mark.line + 1}: sections with settings are expected here")
    for key, value in mapping.value:
        if key.id != "scalar":
            raise ConfigError(f"{path} line {key.start_mark.line + 1}: a setting must be named by a word")
        yield key.value, value, key.start_mark.line + 1


def _read_value(path: Path, name: str, node: YamlNode, line: int) -> Iterator[GivenSetting]:
    """Nothing for an empty value: the setting keeps its default."""
    if _is_null(node):
        return
    items = node.value if node.id == "sequence" else [node]
    if any(item.id != "scalar" for item in items):
        raise ConfigError(f"{path} line {line}: {name} must be a value or a list of values")
    yield GivenSetting(name, ",".join(_scalar_text(item) for item in items), f"{path} line {line}")


def _is_null(node: YamlNode) -> bool:
    return bool(node.tag == "tag:yaml.org,2002:null")


def _scalar_text(node: YamlNode) -> str:
    if node.tag == "tag:yaml.org,2002:bool":
        return "true" if node.value.lower() in ("true", "yes", "on", "y") else "false"
    return str(node.value)


# -- environment and flags -----------------------------------------------------------------------------------------


def environment_name(setting: Setting) -> str:
    return ENVIRONMENT_PREFIX + setting.name.removeprefix("tidelog.").replace(".", "_").upper()


def read_environment(environment: Mapping[str, str]) -> tuple[list[GivenSetting], list[str]]:
    """The settings in the environment, and the variables with our prefix that are none.

    Such a variable is an error when it is nearly the name of a setting; others may come from elsewhere (Kubernetes
    adds some for a service of that name) and are only reported.
    """
    variables = sorted(name for name in environment if name.startswith(ENVIRONMENT_PREFIX))
    if not variables:
        return [], []
    known = {environment_name(setting): setting.name for setting in BrokerConfig.SETTINGS.values()}
    known |= {ENVIRONMENT_PREFIX + alias.replace(".", "_").upper(): name for alias, name in ALIASES.items()}
    given: list[GivenSetting] = []
    unknown: list[str] = []
    for variable in variables:
        if variable in known:
            place = f"environment variable {variable}"
            given.append(GivenSetting(known[variable], environment[variable], place))
        elif variable not in ENVIRONMENT_OF_COMMANDS:
            near = did_you_mean(variable, known)
            if near:
                raise ConfigError(f"environment variable {variable} is not a setting{near}")
            unknown.append(variable)
    return given, unknown


def parse_options(options: Sequence[str]) -> list[GivenSetting]:
    """What `-o name=value` gives."""
    given = []
    for option in options:
        name, equals, text = option.partition("=")
        name = name.strip()
        if not equals or not name:
            raise ConfigError(f"-o {option}: name=value is expected")
        given.append(GivenSetting(name, text, f"-o {name}"))
    return given
