"""The file of profiles: written whole and for its owner alone, and judged key by key."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tidelog.cli import profiles_file
from tidelog.cli.connection import Profile
from tidelog.cli.errors import CommandError
from tidelog.cli.profiles_file import Profiles, find_profile, read_profiles, write_profiles

PROD = Profile("prod", "a:1,b:2", {"security.protocol": "SSL", "sasl.password": "yes: #1"})


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "tidelog" / "profiles.yaml"


def test_what_is_written_is_read(path: Path) -> None:
    written = Profiles({"prod": PROD, "007": Profile("007", "c", {})}, "007")
    assert write_profiles(written) == path
    assert read_profiles() == written
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) & 0o077 == 0
    assert list(path.parent.iterdir()) == [path]


def test_a_file_that_others_could_read_is_closed_by_the_next_change(path: Path) -> None:
    path.parent.mkdir()
    path.touch(0o644)
    write_profiles(Profiles({"prod": PROD}, None))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_is_followed(path: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.yaml"
    real.touch()
    path.parent.mkdir()
    path.symlink_to(real)
    write_profiles(Profiles({"prod": PROD}, None))
    assert path.is_symlink()
    assert read_profiles().by_name == {"prod": PROD}


def test_a_write_that_fails_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_profiles(Profiles({"prod": PROD}, None))

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(profiles_file.os, "replace", fail)
    with pytest.raises(CommandError, match="cannot be written: No space left on device"):
        write_profiles(Profiles({}, None))
    assert read_profiles().by_name == {"prod": PROD}
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- prod\n", ": keys with values are expected here"),
        ("profile: {}\n", ": profile: is not known here; did you mean profiles?"),
        ("profiles: [a]\n", ": profiles: keys with values are expected here"),
        ("profiles: {'a b': {bootstrap: x}}\n", ": profiles.a b: a name has letters, "),
        ("profiles: {a: {}}\n", ": profiles.a.bootstrap: is missing (HOST:PORT"),
        ("profiles: {a: }\n", ": profiles.a: keys with values are expected here"),
        ("profiles: {a: {bootstrap: [x]}}\n", ": profiles.a.bootstrap: a single value is expected here"),
        ("profiles: {a: {bootstrap: 'x:y'}}\n", ": profiles.a.bootstrap: an address is HOST:PORT, not 'x:y'"),
        ("profiles: {a: {bootstrap: 'x:1,,y:1'}}\n", ": profiles.a.bootstrap: an address is HOST:PORT, not ''"),
        ("profiles: {a: {bootstrap: 'x y:1'}}\n", ": profiles.a.bootstrap: an address is HOST:PORT, not 'x y:1'"),
        (
            "profiles: {a: {bootstrap: x, clients: {}}}\n",
            ": profiles.a.clients: is not known here; did you mean c",
        ),
        (
            "profiles: {a: {bootstrap: x, client: {b: [c]}}}\n",
            ": profiles.a.client.b: a single value is expected here",
        ),
        ("use: [a]\n", ": use: a single value is expected here"),
        ("profiles:\n  a: {\n", " line 3: "),
        ("profiles: " + "[" * 100_000, ": "),
    ],
)
def test_what_is_wrong_is_one_line_with_its_place(path: Path, text: str, problem: str) -> None:
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(CommandError) as raised:
        read_profiles()
    assert str(raised.value).startswith(f"{path}{problem}")
    assert "\n" not in str(raised.value)


def test_files_that_cannot_be_read(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(CommandError, match=r"profiles\.yaml: cannot be read: "):
        read_profiles()
    path.rmdir()
    path.write_bytes(b"profiles: {\xff: {}}")
    with pytest.raises(CommandError, match=r"profiles\.yaml: cannot be read: it is not UTF-8"):
        read_profiles()


def test_an_empty_file_has_no_profiles(path: Path) -> None:
    path.parent.mkdir()
    for text in ("", "# nothing\n", "profiles:\n"):
        path.write_text(text)
        assert read_profiles() == Profiles({}, None)
        assert find_profile(None, "") is None


def test_a_profile_by_name_and_the_one_in_use(path: Path) -> None:
    write_profiles(Profiles({"prod": PROD}, "prod"))
    assert find_profile("prod", "--profile") == find_profile(None, "") == PROD
    with pytest.raises(CommandError, match=r"^--profile: there is no profile prd; did you mean prod\?$"):
        find_profile("prd", "--profile")
    write_profiles(Profiles({"prod": PROD}, "gone"))
    with pytest.raises(CommandError, match=r"profiles\.yaml: use: there is no profile gone; `tidelog profile use`"):
        find_profile(None, "")
    assert find_profile("prod", "--profile") == PROD
    path.unlink()
    with pytest.raises(CommandError, match="`tidelog profile add NAME --bootstrap HOST:PORT` makes one"):
        find_profile("prod", "--profile")


def test_a_relative_directory_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", "here")
    assert profiles_file.profiles_path() == tmp_path / ".config" / "tidelog" / "profiles.yaml"
