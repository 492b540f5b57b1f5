"""Which broker a command talks to: every level of the order, and what client settings come along."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest

from tidelog.cli import connection
from tidelog.cli.connection import BOOTSTRAP_DEFAULT, Connection, FileVariables, Profile, choose_connection
from tidelog.cli.errors import CommandError
from tidelog.cli.pipeline import load_connected

PROFILES = {
    "prod": Profile("prod", "prod:1", {"security.protocol": "SSL"}),
    "test": Profile("test", "test:1", {}),
}


def choose(
    bootstrap: str | None = None,
    profile: str | None = None,
    file_bootstrap: str = "",
    in_use: str | None = None,
    **environment: str,
) -> Connection:
    def find_profile(name: str | None, asked_by: str) -> Profile | None:
        if name is None:
            return PROFILES[in_use] if in_use else None
        if name not in PROFILES:
            raise CommandError(f"{asked_by}: there is no profile {name}")
        return PROFILES[name]

    return choose_connection(
        bootstrap=bootstrap,
        profile=profile,
        file_bootstrap=file_bootstrap,
        environment=environment,
        find_profile=find_profile,
    )


EVERYTHING = {
    "bootstrap": "flag:1",
    "profile": "prod",
    "file_bootstrap": "file:1",
    "TIDELOG_BOOTSTRAP": "variable:1",
    "TIDELOG_PROFILE": "prod",
    "in_use": "test",
}
IN_ORDER = ["flag:1", "prod:1", "file:1", "variable:1", "prod:1", "test:1", BOOTSTRAP_DEFAULT]


def test_the_first_that_is_given_wins() -> None:
    given = dict(EVERYTHING)
    for name, expected in zip([*EVERYTHING, None], IN_ORDER, strict=True):
        assert choose(**given).bootstrap == expected
        if name is not None:
            del given[name]
    assert choose() == Connection(BOOTSTRAP_DEFAULT, {}, None, is_default=True)


def test_empty_variables_are_none() -> None:
    assert choose(TIDELOG_BOOTSTRAP="", TIDELOG_PROFILE="", in_use="test").profile == "test"


def test_settings_of_a_profile_come_with_its_address_or_when_it_is_named() -> None:
    ssl = {"security.protocol": "SSL"}
    assert choose(profile="prod") == Connection("prod:1", ssl, "prod")
    assert choose(TIDELOG_PROFILE="prod") == Connection("prod:1", ssl, "prod")
    assert choose(bootstrap="other:1", profile="prod") == Connection("other:1", ssl, None)
    for given in ({"bootstrap": "other:1"}, {"file_bootstrap": "other:1"}, {"TIDELOG_BOOTSTRAP": "other:1"}):
        assert choose(**given, TIDELOG_PROFILE="prod", in_use="prod") == Connection("other:1", {}, None)


def test_who_asked_for_a_profile_that_is_not_there_is_named() -> None:
    with pytest.raises(CommandError, match=r"^--profile: there is no profile gone"):
        choose(profile="gone", TIDELOG_PROFILE="prod")
    with pytest.raises(CommandError, match=r"^TIDELOG_PROFILE: there is no profile gone"):
        choose(TIDELOG_PROFILE="gone", in_use="test")
    # What is not used is not looked for.
    assert choose(bootstrap="other:1", TIDELOG_PROFILE="gone").bootstrap == "other:1"


@pytest.fixture
def prod_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (connection.BOOTSTRAP_VARIABLE, connection.PROFILE_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(connection, "_find_profile", lambda name, _asked_by: PROFILES[name or "prod"])


@pytest.mark.usefixtures("prod_in_use")
def test_settings_of_the_command_line_come_after_those_of_the_profile() -> None:
    parser = argparse.ArgumentParser()
    connection.add_connection_arguments(parser)
    args = parser.parse_args(["-X", "security.protocol=PLAINTEXT"])
    args.prepare(args)
    assert (args.bootstrap, args.profile) == ("prod:1", "prod")
    assert args.client_settings == ["security.protocol=SSL", "security.protocol=PLAINTEXT"]


@pytest.mark.usefixtures("prod_in_use")
def test_a_pipeline_file_sees_the_address_of_a_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = FileVariables(argparse.Namespace())
    monkeypatch.setenv("ELSEWHERE", "here")
    assert variables.get("ELSEWHERE") == "here"
    assert variables.given is None
    assert variables.get("TIDELOG_BOOTSTRAP") == "prod:1"
    assert variables.given == Connection("prod:1", {"security.protocol": "SSL"}, "prod")


@pytest.mark.usefixtures("prod_in_use")
@pytest.mark.parametrize(
    ("first_line", "flag", "expected"),
    [
        ("", None, ("prod:1", "prod", {"security.protocol": "SSL"})),
        ("bootstrap: ${TIDELOG_BOOTSTRAP}", None, ("prod:1", "prod", {"security.protocol": "SSL"})),
        ("client: {security.protocol: SASL_SSL}", None, ("prod:1", "prod", {"security.protocol": "SASL_SSL"})),
        ("bootstrap: its:1", None, ("its:1", None, {})),
        ("bootstrap: its:1", "test", ("test:1", "test", {})),
    ],
)
def test_a_pipeline_gets_the_settings_of_a_profile_with_its_address(
    tmp_path: Path, first_line: str, flag: str | None, expected: tuple[str, str | None, dict[str, str]]
) -> None:
    path = tmp_path / "shop.yaml"
    path.write_text(
        f"{first_line}\nsources: {{a: {{topic: t, value: text}}}}\nsinks: {{s: {{from: a, console: true}}}}\n"
    )
    args = argparse.Namespace(file=path, bootstrap=None, profile=flag)
    pipeline = load_connected(args)
    assert (args.bootstrap, args.profile, pipeline.client) == expected


def test_a_pipeline_file_has_its_own_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (connection.BOOTSTRAP_VARIABLE, connection.PROFILE_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(connection, "_find_profile", lambda _name, _asked_by: None)
    assert FileVariables(argparse.Namespace()).get("TIDELOG_BOOTSTRAP", "its:1") == "its:1"


def test_without_a_file_nothing_but_a_look_for_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (connection.BOOTSTRAP_VARIABLE, connection.PROFILE_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nowhere")
    monkeypatch.setitem(sys.modules, "tidelog.cli.profiles_file", None)
    assert connection.connection_of(argparse.Namespace()).is_default
