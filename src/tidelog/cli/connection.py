"""Which broker a command talks to, and with which client settings: the one place that knows the order.

Flags win over the pipeline file, the file over the environment, the environment over what was chosen once with
`tidelog profile use`; on each of these levels an address wins over the name of a profile. Client settings belong to an
address: those of a profile hold only together with its address, or where --profile asks for them.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

BOOTSTRAP_VARIABLE = "TIDELOG_BOOTSTRAP"
PROFILE_VARIABLE = "TIDELOG_PROFILE"
BOOTSTRAP_DEFAULT = "127.0.0.1:9092"

ORDER = (
    f"The broker of a command is the first of these: --bootstrap, --profile, `bootstrap:` of a pipeline file, "
    f"{BOOTSTRAP_VARIABLE}, {PROFILE_VARIABLE}, the profile of `tidelog profile use`, {BOOTSTRAP_DEFAULT}."
)


class Profile(NamedTuple):
    """A cluster by name: where it is, and what clients need to talk to it."""

    name: str
    bootstrap: str
    client: Mapping[str, str]


class Connection(NamedTuple):
    """What a command connects with."""

    bootstrap: str
    client: Mapping[str, str]
    """Settings of the profile, in librdkafka's words; -X adds to them and wins."""
    profile: str | None
    """The profile that the address is from."""
    is_default: bool = False
    """Whether nothing says where the broker is."""


def choose_connection(
    *,
    bootstrap: str | None,
    profile: str | None,
    file_bootstrap: str,
    environment: Mapping[str, str],
    find_profile: Callable[[str | None, str], Profile | None],
) -> Connection:
    """The order of ORDER. `find_profile(name, asked_by)` is called at most once; without a name it gives the one in
    use, or None when none is."""
    if bootstrap or profile:
        found = find_profile(profile, "--profile") if profile else None
        client = found.client if found else {}
        if found and not bootstrap:
            return Connection(found.bootstrap, client, found.name)
        return Connection(bootstrap or BOOTSTRAP_DEFAULT, client, None)
    address = file_bootstrap or environment.get(BOOTSTRAP_VARIABLE)
    if address:
        return Connection(address, {}, None)
    found = find_profile(environment.get(PROFILE_VARIABLE) or None, PROFILE_VARIABLE)
    if found:
        return Connection(found.bootstrap, found.client, found.name)
    return Connection(BOOTSTRAP_DEFAULT, {}, None, is_default=True)


def connection_of(args: argparse.Namespace, file_bootstrap: str = "") -> Connection:
    """What the arguments, the environment and the profiles say."""
    return choose_connection(
        bootstrap=getattr(args, "bootstrap", None),
        profile=getattr(args, "profile", None),
        file_bootstrap=file_bootstrap,
        environment=os.environ,
        find_profile=_find_profile,
    )


def _find_profile(name: str | None, asked_by: str) -> Profile | None:
    path = profiles_file()
    if name is None and (path is None or not os.path.exists(path)):
        # Most users have none: they pay for one look at the disk.
        return None
    from tidelog.cli.profiles_file import find_profile

    return find_profile(name, asked_by)


def profiles_file() -> str | None:
    """Where profiles are kept (profiles_file.py reads them); None for a user without a home."""
    configured = os.environ.get("XDG_CONFIG_HOME", "")
    # The XDG specification has relative paths ignored.
    directory = configured if configured.startswith("/") else os.path.expanduser("~/.config")
    return f"{directory}/tidelog/profiles.yaml" if directory.startswith("/") else None


def settle_connection(args: argparse.Namespace) -> None:
    """Puts the connection into the arguments, before the command runs.

    From then on `profile` is the one that the address is from, and `client_settings` has those of the profile first.
    """
    chosen = connection_of(args)
    args.bootstrap, args.profile = chosen.bootstrap, chosen.profile
    args.client_settings = [*(f"{name}={value}" for name, value in chosen.client.items()), *args.client_settings]


def add_connection_arguments(parser: argparse.ArgumentParser) -> None:
    """`--bootstrap`, `--profile` and `-X`, the same for every command that talks to a broker."""
    add_address_arguments(parser)
    parser.add_argument(
        "-X",
        dest="client_settings",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="any setting of librdkafka, such as security.protocol=SSL",
    )
    parser.set_defaults(prepare=settle_connection)


def add_address_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-b",
        "--bootstrap",
        metavar="HOST:PORT",
        help=f"a broker to start from, or several with commas (default {BOOTSTRAP_VARIABLE}, a profile, or "
        f"{BOOTSTRAP_DEFAULT})",
    )
    parser.add_argument(
        "--profile", metavar="NAME", help="address and client settings of this profile (see `tidelog profile --help`)"
    )


class FileVariables(Mapping[str, str]):
    """The environment that a pipeline file sees: TIDELOG_BOOTSTRAP is there too when a flag or a profile says it.

    Profiles are looked up only when a file names the variable.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self.given: Connection | None = None
        """What the file got when it asked."""

    def __getitem__(self, name: str) -> str:
        if name == BOOTSTRAP_VARIABLE:
            chosen = connection_of(self._args)
            if chosen.is_default:
                raise KeyError(name)
            self.given = chosen
            return chosen.bootstrap
        return os.environ[name]

    def __iter__(self) -> Iterator[str]:
        return iter(os.environ)

    def __len__(self) -> int:
        return len(os.environ)
