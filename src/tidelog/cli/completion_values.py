"""The values of options and arguments that completion can offer: their kinds, and where each kind is looked up.

An argument is known by its metavar, or by command and name where the metavar does not say enough. A test holds the
tables against all parsers: an argument that takes a value is in one of them, also in the one of those that are free.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from tidelog.cli.completion_words import Candidate, Wanted

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from tidelog.config.setting import Setting

FILES = "files"
DIRECTORIES = "directories"
BROKER_SECONDS_MAX = 1.0
"""How long a broker is asked; the user waits for the answer at the prompt."""

BY_METAVAR: dict[str, str] = {
    "DIR": DIRECTORIES,
    "FILE": FILES,
    "FILE.yaml": FILES,
    "PATH": FILES,
    "TOPIC": "topics",
    "T[:P,P]": "topics",
    "GROUP": "groups",
    "G": "groups",
    "ID": "transactional ids",
    "NODE": "nodes",
    "LEVEL": "log levels",
    "N,N,...": "nodes",
}
BY_PLACE: dict[tuple[str, str], str] = {
    **{(f"topics {verb}", name): "topics" for verb, name in (("describe", "names"), ("alter", "name"))},
    **{(f"topics {verb}", name): "topics" for verb, name in (("reassign", "name"), ("delete", "names"))},
    **{(command, "topic"): "topics" for command in ("transactions abort", "bench", "replay")},
    ("topics create", "config"): "topic settings=",
    ("topics alter", "config"): "topic settings=",
    ("topics alter", "delete_config"): "topic settings",
    ("serve", "options"): "broker settings=",
    ("cluster start", "options"): "broker settings=",
    ("config explain", "name"): "settings",
    ("config describe", "name"): "resources",
    ("config describe", "patterns"): "resource settings",
    ("config set", "name"): "resources",
    ("config set", "pairs"): "resource settings=",
    ("config unset", "name"): "resources",
    ("config unset", "names"): "resource settings",
    ("examples load", "name"): "examples",
    ("groups list", "state"): "group states",
    ("transactions list", "state"): "transaction states",
    ("consume", "offset"): "starts",
    ("archive", "start"): "starts",
    ("consume", "format"): "record formats",
}
ANYWHERE: dict[str, str] = {"profile": "profiles"}
"""Options that many commands have, by name."""

FREE = frozenset(
    {"HOST:PORT", "N", "R", "P", "S", "T", "B", "MS", "TIME", "INTERVAL", "REGEX", "URL", "F", "key", "value"}
)
"""Metavars of what only the user knows."""
FREE_PLACES = frozenset({("topics create", "name"), ("profile add", "name"), ("produce", "header")})
FREE_ANYWHERE = frozenset({"client_settings"})


def kind_of(command: str, action: argparse.Action) -> str:
    """The kind of an argument's values; empty where there is nothing to offer."""
    place = BY_PLACE.get((command, action.dest))
    if place is not None:
        return place
    return ANYWHERE.get(action.dest) or BY_METAVAR.get(str(action.metavar), "")


def look_up(wanted: Wanted) -> list[Candidate]:
    """The values of a kind that fit what is typed; those of a broker are asked for, and an error is raised if it is
    away."""
    name, separator, prefix = wanted.kind, "", wanted.prefix
    if name.endswith("="):
        setting, separator, prefix = wanted.prefix.partition("=")
        if separator:
            chosen = next((found for found in _settings(wanted) if found.name == setting), None)
            return _fitting(_values_of(chosen), prefix, f"{setting}=")
        return _fitting([(f"{found.name}=", found.doc) for found in _settings(wanted)], wanted.prefix)
    if name.endswith("settings"):
        return _fitting([(found.name, found.doc) for found in _settings(wanted)], wanted.prefix)
    if name == "nodes" and "," in wanted.prefix:
        before, _, prefix = wanted.prefix.rpartition(",")
        others = [pair for pair in _nodes(wanted) if pair[0] not in before.split(",")]
        return _fitting(others, prefix, f"{before},")
    return _fitting(LOOK_UP[name](wanted), prefix)


def _fitting(values: Iterable[str | tuple[str, str]], prefix: str, head: str = "") -> list[Candidate]:
    pairs = [(value, "") if isinstance(value, str) else value for value in values]
    return [Candidate(head + text, _first_words(doc)) for text, doc in sorted(pairs) if text.startswith(prefix)]


def _first_words(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= 80 else f"{plain[:77]}..."


# -- settings ----------------------------------------------------------------------------------------------------------


def _settings(wanted: Wanted) -> list[Setting]:
    from tidelog.config.broker import BrokerConfig
    from tidelog.config.group import GroupConfig
    from tidelog.config.topic import TopicConfig

    by_kind: dict[str, list[Mapping[str, Setting]]] = {
        "topic": [TopicConfig.SETTINGS],
        "broker": [BrokerConfig.SETTINGS],
        "group": [GroupConfig.SETTINGS],
    }
    kind = wanted.kind.split()[0]
    if kind == "resource":
        kind = wanted.given.get("kind", [""])[0]
    chosen = by_kind.get(kind, [BrokerConfig.SETTINGS, TopicConfig.SETTINGS])
    return [setting for settings in chosen for setting in settings.values() if not setting.internal]


def _values_of(setting: Setting | None) -> tuple[str, ...]:
    if setting is None:
        return ()
    return setting.choices or (("true", "false") if setting.kind == "BOOLEAN" else ())


# -- what is on this machine -------------------------------------------------------------------------------------------


def _profiles(_: Wanted) -> list[tuple[str, str]]:
    from tidelog.cli.profiles_file import read_profiles

    return [(name, profile.bootstrap) for name, profile in read_profiles().by_name.items()]


def _examples(_: Wanted) -> list[tuple[str, str]]:
    from tidelog.cli.examples import titles

    return titles()


def _group_states(_: Wanted) -> tuple[str, ...]:
    from tidelog.cli.groups import STATES

    return STATES


def _transaction_states(_: Wanted) -> tuple[str, ...]:
    from tidelog.cli.transactions import STATES

    return STATES


# -- what a broker knows -----------------------------------------------------------------------------------------------


def _connection(wanted: Wanted) -> argparse.Namespace:
    """What the line says about the broker by now, as a command would take it."""
    from tidelog.cli.connection import settle_connection

    args = argparse.Namespace(
        bootstrap=wanted.given.get("bootstrap", [None])[-1],
        profile=wanted.given.get("profile", [None])[-1],
        client_settings=wanted.given.get("client_settings", []),
    )
    settle_connection(args)
    return args


def _admin(wanted: Wanted) -> AdminClient:
    from tidelog.cli.clients import client_config, require_reachable

    args = _connection(wanted)
    # librdkafka tries an address again and again; that nothing is there is known at once.
    require_reachable(args)
    from confluent_kafka.admin import AdminClient

    return AdminClient(client_config(args))


def _topics(wanted: Wanted) -> list[str]:
    topics = _admin(wanted).list_topics(timeout=BROKER_SECONDS_MAX).topics
    given = {word for name in ("topics", "names") for word in wanted.given.get(name, ())}
    # Internal topics are there for those who begin to type their names.
    return [name for name in topics if name not in given and (wanted.prefix or not name.startswith("__"))]


def _groups(wanted: Wanted) -> list[str]:
    admin = _admin(wanted)  # Its futures end with it.
    listed = admin.list_consumer_groups(request_timeout=BROKER_SECONDS_MAX).result()
    given = wanted.given.get("groups", ())
    return [group.group_id for group in listed.valid if group.group_id not in given]


def _nodes(wanted: Wanted) -> list[tuple[str, str]]:
    brokers = _admin(wanted).list_topics(timeout=BROKER_SECONDS_MAX).brokers
    return [(str(number), f"{broker.host}:{broker.port}") for number, broker in brokers.items()]


def _transactional_ids(wanted: Wanted) -> list[tuple[str, str]]:
    from tidelog.cli.transactions import find_transactions

    given = wanted.given.get("ids", ())
    return [
        (found["id"], found["state"]) for found in find_transactions(_connection(wanted)) if found["id"] not in given
    ]


def _resources(wanted: Wanted) -> list[str] | list[tuple[str, str]]:
    match wanted.given.get("kind", [""])[0]:
        case "topic":
            return _topics(wanted)
        case "group":
            return _groups(wanted)
        case "broker":
            return [*_nodes(wanted), ("default", "what all brokers share")]
        case _:
            return []


LOOK_UP: dict[str, Callable[[Wanted], Iterable[str | tuple[str, str]]]] = {
    "topics": _topics,
    "groups": _groups,
    "nodes": _nodes,
    "transactional ids": _transactional_ids,
    "resources": _resources,
    "profiles": _profiles,
    "examples": _examples,
    "group states": _group_states,
    "transaction states": _transaction_states,
    "log levels": lambda _: ("debug", "info", "warning", "error"),
    "starts": lambda _: ("earliest", "latest"),
    "record formats": lambda _: ("json", "raw", "text"),
}
