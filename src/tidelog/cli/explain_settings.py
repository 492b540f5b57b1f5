"""`tidelog config explain`: explains every setting, and shows what holds and where it comes from."""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import shutil
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

from tidelog.cli.errors import CommandError
from tidelog.config.broker import ALIASES, BrokerConfig
from tidelog.config.setting import ConfigError, Setting, did_you_mean
from tidelog.config.topic import TopicConfig
from tidelog.config.without_effect import WITHOUT_EFFECT
from tidelog.node.config_file import LoadedConfig, environment_name, load_config, read_environment, read_file

TOPIC_SECTION = "topic"
WIDTH_MAX = 120
NAME_WIDTH_MAX = 40
"""A few names are longer; the columns of all others need not move for them."""


class Explained(NamedTuple):
    """One setting as it is shown."""

    setting: Setting
    section: str
    value: str | None
    """None when no value is in force: none was given and there is no default."""
    place: str
    """Empty when the value is the default."""


def add_explain_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "explain",
        help="what settings mean, and what a file would set; asks no broker",
        description="Explains every setting with its type, default and meaning. With a file, shows the value that "
        "holds and where it comes from; the TIDELOG_* variables of the environment count too.",
    )
    parser.add_argument(
        "name",
        nargs="?",
        metavar="NAME",
        help="a setting or part of its name, a section, or a pattern such as 'log.*.ms'",
    )
    parser.add_argument("--file", metavar="FILE", help="YAML file with settings (or TIDELOG_CONFIG)")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    try:
        loaded = _load(args.file or os.environ.get("TIDELOG_CONFIG"))
    except ConfigError as error:
        raise CommandError(str(error)) from None
    chosen = _choose(args.name, _explain_all(loaded))
    if args.json:
        print(json.dumps([_as_json(item) for item in chosen], indent=2))
    elif len(chosen) == 1:
        print(_describe(chosen[0]))
    else:
        _print_sections(chosen, detailed=args.name is not None)
    return 0


def _load(file: str | None) -> LoadedConfig:
    given = read_file(Path(file)) if file else []
    from_environment, _ = read_environment(os.environ)
    return load_config([*given, *from_environment])


def _explain_all(loaded: LoadedConfig) -> list[Explained]:
    config = loaded.config
    explained = [
        Explained(setting, setting.section, config.value_text(name), loaded.places.get(name, ""))
        for name, setting in BrokerConfig.SETTINGS.items()
        if not setting.internal
    ]
    for name, setting in TopicConfig.SETTINGS.items():
        if not setting.internal:
            place = next((loaded.places[synonym] for synonym in setting.synonyms if synonym in loaded.places), "")
            explained.append(Explained(setting, TOPIC_SECTION, config.topic_defaults.value_text(name), place))
    return explained


def _choose(name: str | None, explained: list[Explained]) -> list[Explained]:
    if name is None:
        return explained
    name = ALIASES.get(name, name)
    chosen = [item for item in explained if item.setting.name == name]
    if not chosen:
        chosen = [item for item in explained if item.section == name or fnmatch.fnmatchcase(item.setting.name, name)]
    if not chosen:
        # Part of a name, as it is remembered.
        chosen = [item for item in explained if name.lower() in item.setting.name]
    if not chosen:
        known = [item.setting.name for item in explained]
        raise CommandError(f"unknown setting {name}{did_you_mean(name, known)}")
    return chosen


def _print_sections(explained: list[Explained], *, detailed: bool) -> None:
    width = min(shutil.get_terminal_size((100, 24)).columns, WIDTH_MAX)
    section = ""
    name_width = 0
    for item in explained:
        if item.section != section:
            if section:
                print()
            section = item.section
            longest = max(len(other.setting.name) for other in explained if other.section == section)
            name_width = min(longest, NAME_WIDTH_MAX)
            print(section + ("  (set per topic; defaults from the broker)" if section == TOPIC_SECTION else ""))
        default = _text(item.setting, item.setting.default)
        given = f"  (default {default})  <- {item.place}" if item.place else ""
        indent = " " * 6
        line = f"  {item.setting.name:<{name_width}}  {item.setting.kind.lower():<7}  {_shown(item)}"
        if len(line) > width:
            line = f"  {item.setting.name:<{name_width}}  {item.setting.kind.lower()}\n{indent}{_shown(item)}"
        if given and len(line.rpartition("\n")[2]) + len(given) > width:
            given = f"\n{indent}{given.strip()}"
        print(line + given)
        text = _doc(item.setting) if detailed else _first_sentence(_doc(item.setting))
        print(textwrap.fill(text, width, initial_indent=indent, subsequent_indent=indent))


def _describe(item: Explained) -> str:
    setting = item.setting
    rows = [
        ("section", item.section),
        ("type", setting.kind.lower() + (f", {setting.unit}" if setting.unit else "")),
        ("valid", setting.valid_values),
        ("default", _text(setting, setting.default)),
        ("value", f"{_shown(item)}  <- {item.place}" if item.place else ""),
        ("changes", "while the node runs" if setting.dynamic or item.section == TOPIC_SECTION else "at start only"),
        ("from", ", ".join(setting.synonyms)),
        ("variable", environment_name(setting) if item.section != TOPIC_SECTION else ""),
    ]
    width = min(shutil.get_terminal_size((100, 24)).columns, WIDTH_MAX)
    lines = [setting.name, textwrap.fill(_doc(setting), width, initial_indent="  ", subsequent_indent="  "), ""]
    lines += [f"  {label:<9} {text}" for label, text in rows if text]
    return "\n".join(lines)


def _as_json(item: Explained) -> dict[str, Any]:
    setting = item.setting
    return {
        "name": setting.name,
        "section": item.section,
        "type": setting.kind.lower(),
        "default": None if setting.sensitive else setting.format(setting.default),
        "value": None if setting.sensitive else item.value,
        "source": item.place or "default",
        "valid": setting.valid_values or None,
        "dynamic": setting.dynamic or item.section == TOPIC_SECTION,
        "environment": environment_name(setting) if item.section != TOPIC_SECTION else None,
        "broker_settings": list(setting.synonyms),
        "doc": setting.doc,
        "has_effect": setting.name not in WITHOUT_EFFECT,
    }


def _shown(item: Explained) -> str:
    if item.setting.sensitive:
        return "[hidden]"
    return item.value if item.value else "(none)"


def _text(setting: Setting, value: object) -> str:
    return setting.format(value) or "(none)"


def _doc(setting: Setting) -> str:
    return f"(no effect) {setting.doc}" if setting.name in WITHOUT_EFFECT else setting.doc


def _first_sentence(doc: str) -> str:
    return doc.partition(". ")[0].rstrip(".") + "."
