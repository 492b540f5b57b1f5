"""The fenced blocks and the commands of a document.

The line that opens a block says what is done with it:

    ```bash                commands, run in order
    ```bash terminal       commands that keep running, each in a terminal of its own
    ```console             commands after `$ `, each followed by what it prints
    ```console fails       the same for commands that end with an error, which is what the document shows
    ```python              a program
    ```yaml                settings of a node or a pipeline, checked by `tidelog config` or `tidelog pipeline validate`
    ```yaml shop.yaml      a file (of any language) that the reader saves, and that a later command uses

GitHub and PyPI show none of the words after the language. A command that fetches libraries (`go mod tidy`,
`npm install`, `mvn package`) stands alone: it runs in the machine's network, where the document's servers are not.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SHELL_LANGUAGES = ("bash", "console")
SHELL_WORDS = {"bash": ("terminal",), "console": ("fails",)}
"""What may follow the language of a block of commands."""
_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>```+|~~~+)(?P<info>.*)$")
_INLINE = re.compile(r"(?<!`)`(?P<text>[^`\n]+)`(?!`)")
_PROMPT = "$ "


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block; `line` is that of its first line of text."""

    document: Path
    line: int
    language: str
    words: tuple[str, ...]
    text: str

    @property
    def place(self) -> str:
        return f"{self.document}:{self.line}"

    @property
    def first_line(self) -> str:
        return self.text.strip("\n").partition("\n")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What a reader types at once, and what the document says it prints (None: it does not say)."""

    place: str
    text: str
    shown: str | None = None
    in_own_terminal: bool = False
    fails: bool = False


def documents(root: Path) -> list[Path]:
    """Every Markdown file of the repository that git does not ignore, relative to `root`."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    return sorted(Path(name) for name in listed.stdout.split("\0") if name and (root / name).is_file())


def read_blocks(root: Path, document: Path) -> list[Block]:
    """`document` is relative to `root`."""
    blocks: list[Block] = []
    opened: re.Match[str] | None = None
    begin, lines = 0, list[str]()
    for number, line in enumerate((root / document).read_text().splitlines(), 1):
        found = _FENCE.match(line)
        if opened is None:
            if found is not None:
                opened, begin, lines = found, number + 1, []
        elif found is not None and not found["info"].strip() and found["fence"].startswith(opened["fence"]):
            language, *words = opened["info"].split() or [""]
            text = "\n".join(lines) + "\n"
            blocks.append(Block(document=document, line=begin, language=language, words=tuple(words), text=text))
            opened = None
        else:
            lines.append(line.removeprefix(opened["indent"]))
    if opened is not None:
        raise ValueError(f"{document}:{begin - 1}: a block that does not end")
    return blocks


def inline_code(root: Path, document: Path) -> Iterator[tuple[int, str]]:
    """Line and text of every `code` in the running text."""
    inside = False
    for number, line in enumerate((root / document).read_text().splitlines(), 1):
        if _FENCE.match(line):
            inside = not inside
        elif not inside:
            for found in _INLINE.finditer(line):
                yield number, found["text"]


def commands(block: Block) -> list[Command]:
    """The commands of a bash or console block."""
    if block.language == "console":
        return _shown_commands(block)
    return [
        Command(place=f"{block.document}:{block.line + first}", text=text, in_own_terminal="terminal" in block.words)
        for first, text in _whole_commands(block.text.splitlines())
    ]


def _shown_commands(block: Block) -> list[Command]:
    found: list[Command] = []
    lines = block.text.splitlines()
    starts = [index for index, line in enumerate(lines) if line.startswith(_PROMPT)]
    if not starts or starts[0] != 0:
        raise ValueError(f"{block.place}: a console block begins with `$ ` and a command")
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        place = f"{block.document}:{block.line + start}"
        last = next(index for index in range(start, end) if not lines[index].endswith("\\"))
        text = "\n".join(lines[start : last + 1]).removeprefix(_PROMPT)
        shown = "\n".join(lines[last + 1 : end])
        found.append(Command(place=place, text=text, shown=shown, fails="fails" in block.words))
    return found


def _whole_commands(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Lines put together until bash takes them as whole: continued lines, loops, here-documents."""
    first, collected = 0, list[str]()
    for index, line in enumerate(lines):
        if not collected:
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            first = index
        collected.append(line)
        if _is_whole("\n".join(collected)):
            yield first, "\n".join(collected)
            collected = []
    if collected:
        yield first, "\n".join(collected)


def _is_whole(text: str) -> bool:
    if text.endswith("\\"):
        return False
    if not re.search(r"<<|\b(for|while|if|case)\b|[({'\"]|\|\s*$|&&\s*$", text):
        return True
    checked = subprocess.run(["bash", "-n"], input=text + "\n", capture_output=True, text=True, check=False)
    return checked.returncode == 0 and "here-document" not in checked.stderr
