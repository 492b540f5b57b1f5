"""Every command ends its help with examples, and the parser takes each of them."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator

import pytest

from tidelog.cli.main import EXAMPLES_TITLE, NOUNS, build_parser, main
from tidelog.cli.usage_examples import EXAMPLES


def leaves(path: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """The commands that have no commands below them."""
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not below:
        yield path, parser
    for action in below:
        for name, verb in action.choices.items():
            yield from leaves(f"{path} {name}", verb)


def commands(noun: str) -> dict[str, argparse.ArgumentParser]:
    [nouns] = [action for action in build_parser(noun)._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(leaves(noun, nouns.choices[noun]))


def test_there_are_no_examples_of_commands_that_are_not() -> None:
    assert set(EXAMPLES) == {path for noun in NOUNS for path in commands(noun)}


@pytest.mark.parametrize("noun", NOUNS)
def test_every_command_has_examples_that_it_takes(noun: str) -> None:
    for path, parser in commands(noun).items():
        title, *lines = (parser.epilog or "").splitlines()
        assert title == EXAMPLES_TITLE
        assert 1 <= len(lines) <= 3
        for line in lines:
            program, *arguments = shlex.split(line)
            assert program == "tidelog"
            args = build_parser(noun).parse_args(arguments)
            assert path.split() == [args.noun, *([args.verb] if getattr(args, "verb", None) else [])]


def test_help_shows_each_example_on_a_line_of_its_own(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert main(["topics", "alter", "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.strip() for line in lines[lines.index(EXAMPLES_TITLE) + 1 :]] == [*EXAMPLES["topics alter"]]
