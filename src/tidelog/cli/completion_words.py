"""What may come next on a command line: read off the parsers themselves, so that it is never out of date.

`derive` takes the words of a line and gives what the last of them may become: commands, options and choices right
away, and for everything else the kind of the value (`completion_values.py` knows which there are). Pure but for the
import of the one module whose parser is asked.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

DESCRIPTION_CHARACTERS_MAX = 100

KindOf = Callable[[str, argparse.Action], str]
"""Command and argument -> the kind of its values, empty where there is nothing to offer."""


class Candidate(NamedTuple):
    """Something that the word may become."""

    text: str
    description: str = ""


@dataclass(kw_only=True)
class Wanted:
    """What may stand where the cursor is."""

    prefix: str = ""
    """What is typed of it already."""
    head: str = ""
    """What stands before it in the same word: `--format=`."""
    candidates: list[Candidate] = field(default_factory=list)
    kind: str = ""
    """Of the values that have to be looked up; empty when the candidates are all."""
    given: dict[str, list[str]] = field(default_factory=dict)
    """What the line says by now: name of the argument -> its values."""


def derive(words: Sequence[str], build: Callable[[str | None], argparse.ArgumentParser], kind_of: KindOf) -> Wanted:
    """What the last of `words` may become; they begin after `tidelog`. `build` gives the parser with a noun in full."""
    *before, current = words or [""]
    noun = next((word for word in before if not word.startswith("-")), None)
    walk = _Walk(build(noun), kind_of)
    for word in before:
        if not walk.take(word):
            return Wanted(prefix=current)
    return walk.wanted(current)


class _Walk:
    """Goes through the words as argparse would, as far as it takes to know what comes next."""

    def __init__(self, parser: argparse.ArgumentParser, kind_of: KindOf) -> None:
        self._kind_of = kind_of
        self._path: list[str] = []
        self._given: dict[str, list[str]] = {}
        self._used: list[argparse.Action] = []
        self._enter(parser)

    def _enter(self, parser: argparse.ArgumentParser) -> None:
        self._parser = parser
        self._positionals = [action for action in parser._actions if not action.option_strings]
        self._pending: argparse.Action | None = None
        """The option that waits for its value."""
        self._options_ended = False

    def take(self, word: str) -> bool:
        """Goes past a word; False where the line makes no sense any more."""
        if self._pending is not None:
            self._give(self._pending, word)
            self._pending = None
        elif word == "--" and not self._options_ended:
            self._options_ended = True
        elif word.startswith("-") and len(word) > 1 and not self._options_ended:
            return self._take_option(word)
        else:
            return self._take_positional(word)
        return True

    def _take_option(self, word: str) -> bool:
        *flags, word = self._apart(word)
        self._used += flags
        option, value = self._find_option(word)
        if option is None:
            return False
        self._used.append(option)
        if option.nargs != 0:
            if value is None:
                self._pending = option
            else:
                self._give(option, value)
        return True

    def _apart(self, word: str) -> list[Any]:
        """The short options without a value that begin a word (`-yb host`), and the rest of it as a word."""
        flags: list[Any] = []
        while len(word) > 2 and not word.startswith("--"):
            option = self._parser._option_string_actions.get(word[:2])
            if option is None or option.nargs != 0:
                break
            flags.append(option)
            word = f"-{word[2:]}"
        return [*flags, word]

    def _take_positional(self, word: str) -> bool:
        if not self._positionals:
            return False
        action = self._positionals[0]
        if isinstance(action, argparse._SubParsersAction):
            if word not in action.choices:
                return False
            self._path.append(word)
            self._enter(action.choices[word])
            return True
        self._give(action, word)
        if action.nargs not in ("*", "+"):
            self._positionals.pop(0)
        return True

    def _give(self, action: argparse.Action, value: str) -> None:
        self._given.setdefault(action.dest, []).append(value)

    def _find_option(self, word: str) -> tuple[argparse.Action | None, str | None]:
        """The option of a word and the value in the same word, if there is one."""
        known = self._parser._option_string_actions
        if word in known:
            return known[word], None
        name, equals, value = word.partition("=")
        given = value if equals else None
        if not word.startswith("--"):
            return known.get(word[:2]), word[2:]
        if name in known:
            return known[name], given
        near = {id(action): action for option, action in known.items() if option.startswith(name)}
        return (near.popitem()[1] if len(near) == 1 else None), given

    # -- the word at the cursor ------------------------------------------------------------------------------------

    def wanted(self, current: str) -> Wanted:
        wanted = Wanted(prefix=current, given=self._given)
        if self._pending is not None:
            self._offer_values(wanted, self._pending)
        elif current.startswith("-") and not self._options_ended:
            name, equals, value = current.partition("=")
            option = self._find_option(name)[0] if equals and name.startswith("--") else None
            if option is not None and option.nargs != 0:
                wanted.head, wanted.prefix = f"{name}=", value
                self._offer_values(wanted, option)
            else:
                wanted.candidates = [found for found in self._options(current) if found.text.startswith(current)]
        elif self._positionals:
            self._offer_values(wanted, self._positionals[0])
        if not current and not wanted.candidates and not wanted.kind and self._pending is None:
            # Nothing is known about the word: then at least what else there is.
            wanted.candidates = list(self._options("--"))
        return wanted

    def _offer_values(self, wanted: Wanted, action: argparse.Action) -> None:
        candidates: list[Candidate] = []
        if isinstance(action, argparse._SubParsersAction):
            candidates = [Candidate(choice.dest, _describe(choice.help)) for choice in action._choices_actions]
        elif action.choices is not None:
            candidates = [Candidate(str(choice)) for choice in action.choices]
        else:
            wanted.kind = self._kind_of(" ".join(self._path), action)
        wanted.candidates = [found for found in candidates if found.text.startswith(wanted.prefix)]

    def _options(self, current: str) -> Iterator[Candidate]:
        """The long spelling of each option that may still be given, the short one where it is typed or the only one."""
        refused = {id(action) for action in self._used if not _may_repeat(action)}
        for group in self._parser._mutually_exclusive_groups:
            if any(action in self._used for action in group._group_actions):
                refused |= {id(action) for action in group._group_actions}
        for action in self._parser._actions:
            if not action.option_strings or id(action) in refused or action.help == argparse.SUPPRESS:
                continue
            long = [option for option in action.option_strings if option.startswith("--")]
            for option in action.option_strings if current in action.option_strings else long or action.option_strings:
                yield Candidate(option, _describe(action.help))


def _may_repeat(action: argparse.Action) -> bool:
    return isinstance(action, argparse._AppendAction | argparse._CountAction)


def _describe(text: str | None) -> str:
    plain = " ".join((text or "").replace("%%", "%").split())
    return plain if len(plain) <= DESCRIPTION_CHARACTERS_MAX else f"{plain[: DESCRIPTION_CHARACTERS_MAX - 3]}..."
