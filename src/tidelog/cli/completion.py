"""`tidelog completion`: prints the script that makes a shell complete commands, and answers it.

The scripts know nothing: they hand the line to `tidelog completion --for SHELL`, which `main` recognises before any
parser is made, and offer what it prints. Its first line says what follows: `values`, `nospace` (the word goes on after
a candidate), or nothing more with `files` and `directories`, which shells complete themselves. Whatever goes wrong is
silent: a message would end up in the middle of the line.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
import threading
from collections.abc import Callable, Sequence
from typing import NoReturn

from tidelog.cli.completion_values import BROKER_SECONDS_MAX, DIRECTORIES, FILES, kind_of, look_up
from tidelog.cli.completion_words import Candidate, Wanted, derive

SHELLS = ("bash", "zsh", "fish")
INSTALL = """Prints a script that makes a shell complete commands, options and their values,
names of topics, groups, profiles and so on. To install it:

  bash   put this line into ~/.bashrc:
           source <(tidelog completion bash)
  zsh    put this line into ~/.zshrc, below compinit:
           source <(tidelog completion zsh)
  fish   type this once:
           tidelog completion fish >~/.config/fish/completions/tidelog.fish

A new shell has it. Names are asked from the broker that the line means, for a
second at most."""

_PLAIN = re.compile(r"[^\w@%+=:,./~-]")
_QUOTES = "'\""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "completion", help="completion of commands in bash, zsh and fish", description=INSTALL
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell to complete in")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from tidelog.cli.completion_scripts import SCRIPTS

    if sys.stdout.isatty():
        print("# `tidelog completion --help` says how to install this.")
    print(SCRIPTS[args.shell], end="")
    return 0


def answer(arguments: Sequence[str], build: Callable[[str | None], argparse.ArgumentParser]) -> NoReturn:
    """Answers a script, and ends the process: a broker that was asked for too long is not waited for at the end."""
    with contextlib.suppress(Exception, SystemExit):
        sys.stdout.write("".join(f"{line}\n" for line in answer_lines(arguments, build)))
        sys.stdout.flush()
    os._exit(0)


def answer_lines(arguments: Sequence[str], build: Callable[[str | None], argparse.ArgumentParser]) -> list[str]:
    """`--for bash LINE BREAKS`, `--for zsh -- WORD...`, `--for fish -- WORD...`; the words begin after `tidelog`."""
    shell, *rest = arguments
    quote, breaks = "", ""
    if shell == "bash":
        line, breaks = rest
        (_, *words), quote = split_line(line)
    else:
        words = rest[1:]
    wanted, found = _find_in_time(words, build)
    if wanted.kind in (FILES, DIRECTORIES):
        return [wanted.kind]
    goes_on = any(candidate.text.endswith("=") for candidate in found)
    texts = [candidate._replace(text=wanted.head + candidate.text) for candidate in found]
    return ["nospace" if goes_on else "values", *_FORMATS[shell](texts, wanted.head + wanted.prefix, quote, breaks)]


def _find_in_time(
    words: Sequence[str], build: Callable[[str | None], argparse.ArgumentParser]
) -> tuple[Wanted, list[Candidate]]:
    wanted = derive(["config", *words[1:]] if words[:1] == ["configs"] else words, build, kind_of)
    found = wanted.candidates
    if wanted.kind and wanted.kind not in (FILES, DIRECTORIES):

        def ask() -> None:
            nonlocal found
            with contextlib.suppress(Exception), open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
                found = look_up(wanted)

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        asking.join(BROKER_SECONDS_MAX)
    # A name that would break the line in two cannot be offered.
    return wanted, [candidate for candidate in found if candidate.text.isprintable()]


# -- the shells --------------------------------------------------------------------------------------------------------


def split_line(line: str) -> tuple[list[str], str]:
    """The words of a line that is still being typed, without their quotes, and the quote that is open at its end."""
    words, quote, inside = [""], "", False
    index = 0
    while index < len(line):
        character = line[index]
        index += 1
        if quote:
            if character == quote:
                quote = ""
            elif character == "\\" and quote == '"' and line[index : index + 1] in ("\\", '"', "$", "`"):
                words[-1] += line[index]
                index += 1
            else:
                words[-1] += character
        elif character in _QUOTES:
            quote, inside = character, True
        elif character == "\\":
            words[-1] += line[index : index + 1]
            index, inside = index + 1, True
        elif character.isspace():
            if words[-1] or inside:
                words.append("")
            inside = False
        else:
            words[-1] += character
    return words, quote


def _for_bash(candidates: list[Candidate], typed: str, quote: str, breaks: str) -> list[str]:
    """Bash replaces what follows the last of COMP_WORDBREAKS, unless that is inside quotes, and quotes nothing."""
    if quote:
        return [candidate.text for candidate in candidates]
    kept = max((typed.rfind(character) for character in breaks if not character.isspace()), default=-1) + 1
    return [_PLAIN.sub(r"\\\g<0>", candidate.text[kept:]) for candidate in candidates]


def _for_zsh(candidates: list[Candidate], *_: str) -> list[str]:
    """As `_describe` takes them."""
    lines = []
    for text, description in candidates:
        name = text.replace("\\", "\\\\").replace(":", "\\:")
        lines.append(f"{name}:{description}" if description else name)
    return lines


def _for_fish(candidates: list[Candidate], *_: str) -> list[str]:
    return [f"{text}\t{description}" if description else text for text, description in candidates]


_FORMATS: dict[str, Callable[[list[Candidate], str, str, str], list[str]]] = {
    "bash": _for_bash,
    "zsh": _for_zsh,
    "fish": _for_fish,
}
