"""What takes something away is asked for on a terminal; without one it needs --yes."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import pytest
from tests.cli.command import Command

from tidelog.cli.main import NOUNS, build_parser

DESTRUCTIVE = {"delete", "remove", "abort", "reset-offsets"}
"""Verbs; a command that is called so takes something away."""


def verbs(noun: str) -> dict[str, argparse.ArgumentParser]:
    """The commands below one word of the command line."""
    [nouns] = [action for action in build_parser(noun)._actions if isinstance(action, argparse._SubParsersAction)]
    below = [action for action in nouns.choices[noun]._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(below[0].choices) if below else {}


def test_every_command_that_takes_something_away_has_the_option() -> None:
    found = [
        (noun, verb, "--yes" in parser._option_string_actions)
        for noun in NOUNS
        for verb, parser in verbs(noun).items()
        if verb in DESTRUCTIVE
    ]
    assert len(found) >= 5
    assert all(has_option for _, _, has_option in found), found


@pytest.mark.parametrize("noun", ["topics", "groups"])
def test_without_a_terminal_nothing_is_deleted(tidelog: Command, new_topic: Callable[..., str], noun: str) -> None:
    topic = new_topic()
    refused = tidelog(noun, "delete", topic, fails=True)
    assert "give --yes" in refused.err
    assert topic in [each["name"] for each in tidelog("topics", "list", "--json").json]


def test_without_a_terminal_no_offsets_are_moved(
    tidelog: Command, new_topic: Callable[..., str], new_name: Callable[[], str]
) -> None:
    topic, group = new_topic(), new_name()
    asked = ("groups", "reset-offsets", group, "--topic", topic, "--to-offset", "0", "--execute")
    refused = tidelog(*asked, fails=True)
    assert "give --yes" in refused.err
    assert group not in [each["group"] for each in tidelog("groups", "list", "--json").json]
    assert tidelog(*asked, "--yes").err == f"group {group} moved\n"


def test_on_a_terminal_the_plan_is_shown_and_asked_for(
    tidelog: Command, new_topic: Callable[..., str], new_name: Callable[[], str]
) -> None:
    topic, group = new_topic(), new_name()
    asked = ("groups", "reset-offsets", group, "--topic", topic, "--to-offset", "0", "--execute")
    for answer, code in ((b"n\n", 1), (b"y\n", 0)):
        done = tidelog.answering(answer, *asked)
        assert done.code == code
        assert topic in done.out
        assert f"move the offsets of group {group} in 1 partitions? [y/N]" in done.err
