"""What completion offers for a line, and how each shell gets it. The shells themselves are in tests/cli."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import pytest

from tidelog.cli import completion_values
from tidelog.cli.completion import answer_lines, split_line
from tidelog.cli.completion_values import kind_of
from tidelog.cli.completion_words import Wanted, derive
from tidelog.cli.main import NOUNS, build_parser


def complete(line: str) -> Wanted:
    return derive(split_line(line)[0][1:], build_parser, kind_of)


def texts(line: str) -> list[str]:
    return [candidate.text for candidate in complete(line).candidates]


def test_commands_and_verbs() -> None:
    assert texts("tidelog ") == list(NOUNS)
    assert texts("tidelog to") == ["topics"]
    assert texts("tidelog topics de") == ["describe", "delete"]
    assert texts("tidelog nothing ") == []
    assert texts("tidelog topics nothing --") == []
    descriptions = {candidate.text: candidate.description for candidate in complete("tidelog ").candidates}
    assert descriptions["serve"] == "run a node"


def test_options_in_their_long_spelling() -> None:
    assert texts("tidelog topics create --par") == ["--partitions"]
    assert texts("tidelog topics create --") == [
        *("--help", "--partitions", "--replication-factor", "--config", "--if-not-exists", "--json"),
        *("--bootstrap", "--profile"),
    ]
    assert "-X" in texts("tidelog topics create -")
    assert texts("tidelog topics create -p") == ["-p"]
    assert texts("tidelog --v") == ["--version"]


@pytest.mark.parametrize("used", ["--partitions 3", "-p 3", "-p3", "--partitions=3", "--part 3"])
def test_what_was_given_is_not_offered_again(used: str) -> None:
    assert "--partitions" not in texts(f"tidelog topics create {used} --")
    assert complete(f"tidelog topics create {used} -").given["partitions"] == ["3"]


def test_what_may_be_given_again_is_offered_again() -> None:
    assert texts("tidelog topics create -c retention.ms=1 --conf") == ["--config"]


def test_options_that_exclude_each_other() -> None:
    assert "--value" in texts("tidelog produce t --")
    assert "--file" not in texts("tidelog produce t --value x --")


def test_short_options_may_stand_together() -> None:
    assert "--yes" not in texts("tidelog topics delete -yb host:1 --")
    assert complete("tidelog topics delete -yb host:1 t").given["bootstrap"] == ["host:1"]


def test_choices() -> None:
    assert texts("tidelog bench --acks ") == ["0", "1", "all"]
    assert texts("tidelog bench --acks=a") == ["all"]
    assert complete("tidelog bench --acks=a").head == "--acks="
    assert texts("tidelog completion ") == ["bash", "zsh", "fish"]
    assert texts("tidelog config list t") == ["topic"]


@pytest.mark.parametrize(
    ("line", "kind", "prefix"),
    [
        ("tidelog topics describe or", "topics", "or"),
        ("tidelog topics create ", "", ""),
        ("tidelog produce ", "topics", ""),
        ("tidelog produce orders --file dat", "files", "dat"),
        ("tidelog produce orders --file=dat", "files", "dat"),
        ("tidelog log verify ", "directories", ""),
        ("tidelog serve --data ", "directories", ""),
        ("tidelog groups delete -b host:1 ", "groups", ""),
        ("tidelog groups list --state ", "group states", ""),
        ("tidelog cluster drain ", "nodes", ""),
        ("tidelog config set topic orders re", "resource settings=", "re"),
        ("tidelog config describe topic ", "resources", ""),
        ("tidelog transactions describe one two ", "transactional ids", ""),
        ("tidelog topics list --profile pr", "profiles", "pr"),
        ("tidelog examples load ", "examples", ""),
        ("tidelog pipeline run ", "files", ""),
        ("tidelog topics delete -- --", "topics", "--"),
        ("tidelog topics list --bootstrap ", "", ""),
        ("tidelog topics alter t -p -", "", "-"),
    ],
)
def test_values_are_looked_up_by_kind(line: str, kind: str, prefix: str) -> None:
    wanted = complete(line)
    assert (wanted.kind, wanted.prefix) == (kind, prefix)


def test_where_nothing_else_is_known_the_options_are_offered() -> None:
    assert "--partitions" in texts("tidelog topics create ")
    assert "--json" in texts("tidelog topics list ")
    assert texts("tidelog topics create --partitions ") == []


def leaves(path: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.Action]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, verb in action.choices.items():
                yield from leaves(f"{path} {name}".strip(), verb)
        elif path and action.nargs != 0 and action.choices is None:
            yield path, action


@pytest.mark.parametrize("noun", NOUNS)
def test_every_argument_is_in_a_table(noun: str) -> None:
    """One that is not is offered nothing: it is put into a table of kinds, or of those that only the user knows."""
    for command, action in leaves("", build_parser(noun)):
        free = (
            str(action.metavar or action.dest) in completion_values.FREE
            or (command, action.dest) in completion_values.FREE_PLACES
            or action.dest in completion_values.FREE_ANYWHERE
        )
        assert bool(kind_of(command, action)) or free, f"{command}: {action.dest} {action.metavar}"


def test_no_table_names_what_is_not_there() -> None:
    there = {(command, action.dest) for noun in NOUNS for command, action in leaves("", build_parser(noun))}
    assert set(completion_values.BY_PLACE) <= there
    assert there >= completion_values.FREE_PLACES
    looked_up = {*completion_values.BY_PLACE.values(), *completion_values.BY_METAVAR.values()}
    for kind in looked_up - {completion_values.FILES, completion_values.DIRECTORIES}:
        assert kind in completion_values.LOOK_UP or kind.rstrip("=").endswith("settings")


# -- lines and shells --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "words", "quote"),
    [
        ("tidelog ", ["tidelog", ""], ""),
        ("  tidelog  to", ["tidelog", "to"], ""),
        ("tidelog 'a b' \"c'\" d\\ e ", ["tidelog", "a b", "c'", "d e", ""], ""),
        ("tidelog 'my gr", ["tidelog", "my gr"], "'"),
        ('tidelog "a\\"b', ["tidelog", 'a"b'], '"'),
        ("tidelog '' x", ["tidelog", "", "x"], ""),
        ("tidelog x\\", ["tidelog", "x"], ""),
    ],
)
def test_lines_that_are_still_being_typed(line: str, words: list[str], quote: str) -> None:
    assert split_line(line) == (words, quote)


BREAKS = " \t\n\"'><=;|&(:"


def lines(shell: str, *arguments: str) -> list[str]:
    return answer_lines([shell, *arguments], build_parser)


def test_bash_replaces_what_follows_a_break() -> None:
    assert lines("bash", "tidelog bench --acks=a", BREAKS) == ["values", "all"]
    assert lines("bash", "tidelog bench --acks=a", " ") == ["values", "--acks=all"]
    assert lines("bash", "tidelog serve -o log.retention.min", BREAKS) == ["nospace", "log.retention.minutes="]
    assert lines("bash", "tidelog topics create t -c cleanup.policy=c", BREAKS) == ["values", "compact"]
    assert lines("bash", "tidelog topics create t -c preallocate=", BREAKS) == ["values", "false", "true"]
    assert lines("bash", "tidelog log dump x", BREAKS) == ["files"]


def test_words_with_blanks_are_escaped_for_bash_unless_they_are_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(completion_values.LOOK_UP, "groups", lambda _: ["my group", "bad\ngroup"])
    assert lines("bash", "tidelog groups members my", BREAKS) == ["values", "my\\ group"]
    assert lines("bash", "tidelog groups members 'my g", BREAKS) == ["values", "my group"]
    assert lines("zsh", "--", "groups", "members", "") == ["values", "my group"]


def test_zsh_and_fish_show_descriptions(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lines("zsh", "--", "topics", "li") == ["values", "list:name all topics"]
    assert lines("fish", "--", "topics", "li") == ["values", "list\tname all topics"]
    monkeypatch.setitem(completion_values.LOOK_UP, "groups", lambda _: ["a:b"])
    assert lines("zsh", "--", "groups", "members", "") == ["values", "a\\:b"]


def test_a_value_that_cannot_be_asked_is_silent(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(_: Wanted) -> list[str]:
        raise OSError("connection refused")

    monkeypatch.setitem(completion_values.LOOK_UP, "topics", fail)
    assert lines("bash", "tidelog consume ", BREAKS) == ["values"]
    assert capfd.readouterr() == ("", "")


def test_the_older_spelling_of_config() -> None:
    assert "describe" in lines("bash", "tidelog configs ", BREAKS)


def test_lists_of_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion_values, "_nodes", lambda _: [("1", "a:1"), ("2", "b:1"), ("3", "c:1")])
    assert lines("fish", "--", "topics", "reassign", "t", "--replicas", "1,3,") == ["values", "1,3,2\tb:1"]
