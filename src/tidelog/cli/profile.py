"""`tidelog profile`: addresses and client settings of clusters by name, to be typed only once."""

from __future__ import annotations

import argparse
import os
from typing import Any

from tidelog.cli.confirming import confirm
from tidelog.cli.connection import BOOTSTRAP_VARIABLE, ORDER, PROFILE_VARIABLE, Profile, connection_of
from tidelog.cli.errors import CommandError, UsageError
from tidelog.cli.output import note, print_fields, print_json, print_table
from tidelog.cli.profiles_file import (
    NAME,
    NAME_RULE,
    Profiles,
    check_bootstrap,
    profiles_path,
    read_profiles,
    refuse_unknown,
    write_profiles,
)

SECRET_WORDS = ("password", "secret", "key.pem", "jaas", "token")
HIDDEN = "(hidden)"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "profile",
        help="keep addresses and client settings of clusters by name",
        description=f"Profiles are kept in $XDG_CONFIG_HOME/tidelog/profiles.yaml (or ~/.config). {ORDER} Client "
        "settings of a profile hold only with its address, or with --profile; -X adds to them.",
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)

    add = verbs.add_parser("add", help="keep a cluster under a name")
    add.add_argument("name", metavar="NAME")
    add.add_argument("-b", "--bootstrap", required=True, metavar="HOST:PORT", help="a broker, or several with commas")
    add.add_argument(
        "-X",
        dest="client_settings",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="any setting of librdkafka, such as security.protocol=SSL; may be given again",
    )
    add.add_argument("--use", action="store_true", help="use it from now on")
    add.add_argument("--replace", action="store_true", help="even if there is one of that name")
    add.set_defaults(run=run_add)

    listing = verbs.add_parser("list", help="name all profiles, and the one that is used")
    listing.add_argument("--json", action="store_true", help="one JSON document")
    listing.set_defaults(run=run_list)

    show = verbs.add_parser("show", help="what a profile holds; passwords are hidden")
    show.add_argument("profile", nargs="?", metavar="NAME", help="(default: the one that is used)")
    show.add_argument("--json", action="store_true", help="one JSON document")
    show.set_defaults(run=run_show)

    use = verbs.add_parser("use", help="use a profile where nothing else names a broker")
    use.add_argument("profile", nargs="?", metavar="NAME")
    use.add_argument("--none", action="store_true", help="use no profile any more")
    use.set_defaults(run=run_use)

    remove = verbs.add_parser("remove", help="forget a profile")
    remove.add_argument("profile", metavar="NAME")
    remove.add_argument("-y", "--yes", action="store_true", help="do not ask")
    remove.set_defaults(run=run_remove)


def run_add(args: argparse.Namespace) -> int:
    from tidelog.cli.clients import parse_pairs

    if not NAME.fullmatch(args.name):
        raise UsageError(f"{args.name!r} is no name for a profile: {NAME_RULE}")
    try:
        check_bootstrap(args.bootstrap)
    except ValueError as error:
        raise UsageError(f"--bootstrap: {error}") from None
    client = parse_pairs(args.client_settings, "-X")
    _check_client(client)
    profiles = read_profiles()
    if args.name in profiles.by_name and not args.replace:
        raise CommandError(f"there is a profile {args.name} already; --replace changes it")
    added = {**profiles.by_name, args.name: Profile(args.name, args.bootstrap, client)}
    in_use = args.name if args.use else profiles.in_use
    path = write_profiles(Profiles(added, in_use))
    print(f"profile {args.name} is in {path}")
    if in_use == args.name:
        _note_what_wins(args.name)
    else:
        note(f"try it with --profile {args.name}; `tidelog profile use {args.name}` uses it from now on")
    return 0


def _check_client(client: dict[str, str]) -> None:
    """A setting that librdkafka does not take is found now, not when a command needs it."""
    if client:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        try:
            AdminClient({"log_level": 0, **client})
        except KafkaException as error:
            raise UsageError(f"-X: {error.args[0].str().rstrip('.')}") from None


def run_list(args: argparse.Namespace) -> int:
    profiles = read_profiles()
    try:
        used = connection_of(argparse.Namespace()).profile
    except CommandError as error:
        # The list is where a reader looks for the right name.
        used = None
        note(f"tidelog: {error}")
    if args.json:
        print_json([{**_as_document(profile), "used": name == used} for name, profile in profiles.by_name.items()])
        return 0
    if not profiles.by_name:
        note("no profiles yet; make one with `tidelog profile add NAME --bootstrap HOST:PORT`")
        return 0
    rows = [
        # With blanks a narrow terminal breaks it between two addresses.
        (name, profile.bootstrap.replace(",", ", "), len(profile.client) or None, "yes" if name == used else None)
        for name, profile in profiles.by_name.items()
    ]
    print_table(("name", "bootstrap", "settings", "used"), rows)
    if profiles.in_use in profiles.by_name:
        _note_what_wins(str(profiles.in_use))
    return 0


def run_show(args: argparse.Namespace) -> int:
    profiles = read_profiles()
    name = args.profile or connection_of(argparse.Namespace()).profile
    if name is None:
        raise CommandError("no profile is used; name one, or choose one with `tidelog profile use NAME`")
    profile = profiles.by_name.get(name) or refuse_unknown(profiles, name)
    document = _as_document(profile)
    if args.json:
        print_json(document)
        return 0
    fields = [("name", name), ("bootstrap", profile.bootstrap), *document["client"].items(), ("file", profiles_path())]
    print_fields(fields)
    return 0


def run_use(args: argparse.Namespace) -> int:
    profiles = read_profiles()
    if bool(args.profile) == args.none:
        raise UsageError("name a profile to use, or give --none to use none any more")
    if args.none:
        write_profiles(Profiles(profiles.by_name, None))
        print("no profile is used now")
        return 0
    profile = profiles.by_name.get(args.profile) or refuse_unknown(profiles, args.profile)
    write_profiles(Profiles(profiles.by_name, profile.name))
    print(f"commands use profile {profile.name} now ({profile.bootstrap})")
    _note_what_wins(profile.name)
    return 0


def run_remove(args: argparse.Namespace) -> int:
    profiles = read_profiles()
    profile = profiles.by_name.get(args.profile) or refuse_unknown(profiles, args.profile)
    is_used = profiles.in_use == profile.name
    also = " Commands use it now." if is_used else ""
    if not args.yes and not confirm(f"remove profile {profile.name} ({profile.bootstrap})?{also}"):
        raise CommandError("nothing removed")
    left = {name: other for name, other in profiles.by_name.items() if name != profile.name}
    write_profiles(Profiles(left, None if is_used else profiles.in_use))
    print(f"removed profile {profile.name}{'; no profile is used now' if is_used else ''}")
    return 0


def _as_document(profile: Profile) -> dict[str, Any]:
    """For programs and people alike: what is secret stays in the file."""
    client = {
        name: HIDDEN if any(word in name for word in SECRET_WORDS) else value for name, value in profile.client.items()
    }
    return {"name": profile.name, "bootstrap": profile.bootstrap, "client": client}


def _note_what_wins(name: str) -> None:
    """The profile in use is not used while a variable says something else."""
    if os.environ.get(BOOTSTRAP_VARIABLE):
        note(f"note: {BOOTSTRAP_VARIABLE} is set and wins over profile {name}")
    elif os.environ.get(PROFILE_VARIABLE, name) not in ("", name):
        note(f"note: {PROFILE_VARIABLE} is set to {os.environ[PROFILE_VARIABLE]} and wins over profile {name}")
