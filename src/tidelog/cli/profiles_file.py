"""The file of profiles: `$XDG_CONFIG_HOME/tidelog/profiles.yaml`, for its owner alone, replaced in one step.

    use: prod
    profiles:
      prod:
        bootstrap: kafka-1.example.org:9092,kafka-2.example.org:9092
        client: {security.protocol: SSL}

A file that is wrong is one line that names the file and the key. Where there is no file, nothing but a look for it is
done: YAML is not imported.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from tidelog.cli.connection import Profile, profiles_file
from tidelog.cli.errors import CommandError

FILE_BYTES_MAX = 1 << 20
FILE_MODE = 0o600
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
NAME_RULE = "letters, digits, `.`, `_` and `-`, at most 100, and a letter or digit first"


class Profiles(NamedTuple):
    """What the file says."""

    by_name: Mapping[str, Profile]
    in_use: str | None
    """As it is written; there need be none of that name."""


def profiles_path() -> Path | None:
    """Where the file is or would be; None for a user without a home."""
    path = profiles_file()
    return Path(path) if path is not None else None


def find_profile(name: str | None, asked_by: str) -> Profile | None:
    """The profile of a name, or the one in use; None when none is. `asked_by` says where the name was given."""
    profiles = read_profiles()
    if name is None:
        if profiles.in_use is not None and profiles.in_use not in profiles.by_name:
            advice = "`tidelog profile use` chooses another"
            raise CommandError(f"{profiles_path()}: use: there is no profile {profiles.in_use}; {advice}")
        return profiles.by_name[profiles.in_use] if profiles.in_use else None
    return profiles.by_name.get(name) or refuse_unknown(profiles, name, f"{asked_by}: ")


def refuse_unknown(profiles: Profiles, name: str, prefix: str = "") -> NoReturn:
    import difflib

    near = difflib.get_close_matches(name, profiles.by_name, n=1)
    if near:
        advice = f"did you mean {near[0]}?"
    elif profiles.by_name:
        advice = "`tidelog profile list` names all"
    else:
        advice = "`tidelog profile add NAME --bootstrap HOST:PORT` makes one"
    raise CommandError(f"{prefix}there is no profile {name}; {advice}")


def read_profiles() -> Profiles:
    path = profiles_path()
    try:
        size_bytes = path.stat().st_size if path is not None else 0
        if path is None or not size_bytes:
            return Profiles({}, None)
        if size_bytes > FILE_BYTES_MAX:
            raise CommandError(f"{path}: is larger than {FILE_BYTES_MAX:,} bytes")
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return Profiles({}, None)
    except OSError as error:
        raise CommandError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CommandError(f"{path}: cannot be read: it is not UTF-8 text") from None
    return _Reader(path).read(text)


class _Reader:
    """Judges the file key by key."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, text: str) -> Profiles:
        import yaml

        try:
            # All values are the text they are written as: a port alone is no number here.
            document = yaml.load(text, Loader=yaml.BaseLoader)
        except RecursionError:
            raise CommandError(f"{self._path}: is nested too deeply") from None
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            reason = getattr(error, "problem", None) or getattr(error, "reason", None) or "it is not YAML"
            raise CommandError(f"{self._path}{f' line {mark.line + 1}' if mark else ''}: {reason}") from None
        top = self._mapping(document or {}, "", ("use", "profiles"))
        profiles = {
            name: self._profile(name, value)
            for name, value in self._mapping(top.get("profiles") or {}, "profiles").items()
        }
        in_use = self._text(top.get("use", ""), "use") or None
        return Profiles(profiles, in_use)

    def _profile(self, name: str, value: Any) -> Profile:
        place = f"profiles.{name}"
        if not NAME.fullmatch(name):
            self._refuse(place, f"a name has {NAME_RULE}")
        keys = self._mapping(value, place, ("bootstrap", "client"))
        if not keys.get("bootstrap"):
            self._refuse(f"{place}.bootstrap", "is missing (HOST:PORT, or several with commas)")
        bootstrap = self._text(keys["bootstrap"], f"{place}.bootstrap")
        try:
            check_bootstrap(bootstrap)
        except ValueError as error:
            self._refuse(f"{place}.bootstrap", str(error))
        client = self._mapping(keys.get("client") or {}, f"{place}.client")
        for setting, given in client.items():
            self._text(given, f"{place}.client.{setting}")
        return Profile(name, bootstrap, client)

    def _mapping(self, value: Any, place: str, known: tuple[str, ...] = ()) -> dict[str, Any]:
        if not isinstance(value, dict):
            self._refuse(place, "keys with values are expected here")
        for key in value:
            if not isinstance(key, str):
                self._refuse(place, "a key must be a word")
            if known and key not in known:
                import difflib

                near = difflib.get_close_matches(key, known, n=1)
                advice = f"did you mean {near[0]}?" if near else f"there are {' and '.join(known)}"
                self._refuse(f"{place}.{key}" if place else key, f"is not known here; {advice}")
        return value

    def _text(self, value: Any, place: str) -> str:
        if not isinstance(value, str):
            self._refuse(place, "a single value is expected here")
        return value

    def _refuse(self, place: str, what: str) -> NoReturn:
        raise CommandError(f"{self._path}: {f'{place}: ' if place else ''}{what}")


def check_bootstrap(bootstrap: str) -> None:
    """Raises ValueError unless all of it are addresses."""
    from tidelog.cli.clients import split_address
    from tidelog.cli.errors import UsageError

    for address in bootstrap.split(","):
        try:
            if any(character.isspace() for character in address.strip()):
                raise UsageError("blanks")
            split_address(address.strip())
        except UsageError:
            raise ValueError(f"an address is HOST:PORT, not {address!r}") from None


def write_profiles(profiles: Profiles) -> Path:
    """Replaces the file: readers see the old one or the new one, and only its owner sees any."""
    import yaml

    path = profiles_path()
    if path is None:
        raise CommandError("there is no home directory to keep profiles in; set XDG_CONFIG_HOME")
    document: dict[str, Any] = {"use": profiles.in_use} if profiles.in_use else {}
    document["profiles"] = {
        name: {"bootstrap": profile.bootstrap, **({"client": dict(profile.client)} if profile.client else {})}
        for name, profile in sorted(profiles.by_name.items())
    }
    text = "# Written by `tidelog profile`.\n" + yaml.safe_dump(
        document, sort_keys=False, allow_unicode=True, width=10_000
    )
    try:
        # Where the file is a link, as in a directory of dotfiles, what it points to is replaced.
        target = path.resolve()
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _replace(target, text.encode())
    except OSError as error:
        raise CommandError(f"{path}: cannot be written: {error.strerror}") from None
    return path


def _replace(target: Path, content: bytes) -> None:
    import tempfile

    # A temporary file has mode 0600 from the beginning.
    descriptor, temporary = tempfile.mkstemp(prefix=".profiles-", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, FILE_MODE)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
