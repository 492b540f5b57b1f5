"""The Dockerfile and the compose files as data, read strictly: what is not understood is refused."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tidelog.cli.main import build_parser
from tidelog.cli.serve import collect_settings
from tidelog.config.broker import BrokerConfig

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "deploy" / "docker"
INSTRUCTIONS = frozenset(
    {
        *("FROM", "WORKDIR", "COPY", "RUN", "USER", "VOLUME", "EXPOSE", "ENTRYPOINT", "CMD", "HEALTHCHECK"),
        *("ENV", "ARG", "LABEL", "STOPSIGNAL"),
    }
)
SERVICE_KEYS = frozenset(
    {
        *("build", "image", "command", "environment", "ports", "volumes"),
        *("restart", "stop_grace_period", "ulimits"),
    }
)
_PORT = re.compile(r"(?P<host>127\.0\.0\.1):(?P<outside>\d+):(?P<inside>\d+)")


@dataclass
class Stage:
    """What follows one FROM."""

    image: str
    name: str
    instructions: list[tuple[str, str]] = field(default_factory=list)

    def all(self, instruction: str) -> list[str]:
        return [text for name, text in self.instructions if name == instruction]

    def last(self, instruction: str) -> str:
        return self.all(instruction)[-1]

    def exec_form(self, instruction: str) -> list[str]:
        words: list[str] = json.loads(self.last(instruction).partition("CMD ")[2] or self.last(instruction))
        return words


def read_dockerfile() -> list[Stage]:
    text = re.sub(r"^\s*#.*\n", "", (DOCKER / "Dockerfile").read_text(), flags=re.MULTILINE)
    stages: list[Stage] = []
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        if not line.strip():
            continue
        name, _, rest = line.partition(" ")
        if name not in INSTRUCTIONS:
            raise ValueError(f"{name} is no instruction that is known here")
        if name == "FROM":
            image, *alias = shlex.split(rest)
            stages.append(Stage(image, alias[1] if alias else ""))
        else:
            stages[-1].instructions.append((name, rest.strip()))
    return stages


@dataclass(kw_only=True)
class Service:
    """One service of a compose file; `published` maps ports of this machine to those inside."""

    name: str
    arguments: list[str]
    environment: dict[str, str]
    published: dict[int, int]
    mounts: dict[str, str]
    raw: dict[str, Any]

    @property
    def config(self) -> BrokerConfig:
        """The node's settings as `tidelog serve` would read them."""
        loaded, unknown = collect_settings(build_parser("serve").parse_args(self.arguments), dict(self.environment))
        assert not unknown, f"{self.name}: no settings: {unknown}"
        return loaded.config


def read_compose(name: str) -> list[Service]:
    document = yaml.safe_load((DOCKER / name).read_text())
    unknown = {key for key in document if not key.startswith("x-")} - {"name", "services", "volumes"}
    if unknown:
        raise ValueError(f"{name}: {sorted(unknown)} are not known here")
    services = [_read_service(key, raw) for key, raw in document["services"].items()]
    named = [volume for service in services for volume in service.mounts.values()]
    if sorted(named) != sorted(document["volumes"]):
        raise ValueError(f"{name}: volumes {sorted(document['volumes'])} are declared, {sorted(named)} are used")
    return services


def _read_service(name: str, raw: dict[str, Any]) -> Service:
    if unknown := raw.keys() - SERVICE_KEYS:
        raise ValueError(f"{name}: {sorted(unknown)} are not known here")
    published: dict[int, int] = {}
    for port in raw["ports"]:
        found = _PORT.fullmatch(port)
        if found is None:
            raise ValueError(f"{name}: {port!r} is not 127.0.0.1:PORT:PORT")
        published[int(found["outside"])] = int(found["inside"])
    mounts = {inside: volume for volume, _, inside in (text.partition(":") for text in raw["volumes"])}
    environment = {key: str(value) for key, value in raw["environment"].items()}
    return Service(
        name=name,
        arguments=raw["command"],
        environment=environment,
        published=published,
        mounts=mounts,
        raw=raw,
    )
