"""No block and no command of a document is forgotten: each has a way to be run, or stands in the list of exceptions."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest
from tests.documents.blocks import SHELL_LANGUAGES, SHELL_WORDS, Block, commands, documents, inline_code, read_blocks
from tests.documents.not_run import BLOCKS, COMMANDS, why_not_read, why_not_run

from tidelog.cli.main import NOUNS, build_parser

ROOT = Path(__file__).parents[2]
CHANGES_THE_MACHINE = re.compile(r"(sudo|systemctl|docker|podman|apt|apt-get|dnf|brew|useradd|kubectl|helm)\b")
READ_BY_MAVEN = re.compile(r"pom\.xml$|src/")
"""Files that no command names."""
_PLACEHOLDER = re.compile(r"^[A-Z][A-Z_.]*$|\.\.\.|^\[")


def all_blocks() -> list[Block]:
    return [
        block for document in documents(ROOT) for block in read_blocks(ROOT, document) if why_not_read(block) is None
    ]


def fault(block: Block, later: list[Block]) -> str | None:
    """Why a block cannot be run."""
    if not block.language:
        return "a block without a language"
    if block.language in SHELL_LANGUAGES:
        unknown = [word for word in block.words if word not in SHELL_WORDS[block.language]]
        return f"{unknown[0]} says nothing about how to run it" if unknown else _changes_the_machine(block)
    if not block.words:
        can_be_run = block.language in ("python", "yaml")
        return None if can_be_run else f"{block.language} needs the name of the file to save it as"
    name = block.words[0]
    texts = [command.text for other in later if other.language in SHELL_LANGUAGES for command in commands(other)]
    used = any(name in text or _is_read_unasked(name, text) for text in texts)
    return None if used else f"{name} is saved and no later command uses it"


def _is_read_unasked(name: str, command: str) -> bool:
    return (command.startswith("mvn ") and READ_BY_MAVEN.match(name) is not None) or (
        command.startswith("pytest ") and name == "conftest.py"
    )


def _changes_the_machine(block: Block) -> str | None:
    changes = (command for command in commands(block) if CHANGES_THE_MACHINE.match(command.text))
    found = next((command for command in changes if why_not_run(command) is None), None)
    return f"`{found.text}` changes the machine: it belongs into not_run.py" if found else None


@pytest.mark.parametrize("document", documents(ROOT), ids=str)
def test_every_block_can_be_run(document: Path) -> None:
    blocks = [block for block in read_blocks(ROOT, document) if why_not_read(block) is None]
    faults = {block.place: fault(block, blocks[index + 1 :]) for index, block in enumerate(blocks)}
    assert not {place: why for place, why in faults.items() if why}


def test_what_is_not_run_exists() -> None:
    """An exception that nothing needs any more is taken out of the list."""
    texts = [command.text for block in all_blocks() if block.language in SHELL_LANGUAGES for command in commands(block)]
    for pattern in COMMANDS:
        assert any(re.match(pattern, text) for text in texts), f"nothing is like {pattern}"
    for document, first in BLOCKS:
        assert any(block.text.lstrip("\n").startswith(first) for block in read_blocks(ROOT, Path(document))), first


@pytest.mark.parametrize("document", documents(ROOT), ids=str)
def test_commands_in_the_text_are_real(document: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for line, text in inline_code(ROOT, document):
        words = text.split()
        if words[0] == "make" and len(words) > 1:
            assert words[1] in targets, f"{document}:{line}: no target {words[1]}"
        if words[0] == "tidelog" and len(words) > 1:
            problem = unknown_word(text)
            assert problem is None, f"{document}:{line}: {problem}"


def unknown_word(text: str) -> str | None:
    """The verb or the option that `tidelog` does not have; arguments may be placeholders."""
    words = shlex.split(text)[1:]
    noun = words[0]
    if noun.startswith("-") or _PLACEHOLDER.search(noun):
        return None
    if noun not in NOUNS:
        return f"no command {noun}"
    helps = _help(noun)
    verb = next((word for word in words[1:] if not word.startswith("-")), None)
    verbs = re.search(r"^  VERB$|VERB \.\.\.", helps, re.MULTILINE)
    if verbs and verb is not None and not _PLACEHOLDER.search(verb):
        helps = _help(noun, verb)
        if not helps:
            return f"no {noun} {verb}"
    missing = [word.partition("=")[0] for word in words if word.startswith("-")]
    absent = [word for word in missing if not re.search(rf"(?<![\w-]){re.escape(word)}\b", helps)]
    return f"{noun} has no {absent[0]}" if absent else None


def _help(*words: str) -> str:
    printed = io.StringIO()
    with (
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.suppress(SystemExit),
    ):
        build_parser(words[0]).parse_args([*words, "--help"])
    return printed.getvalue()


# -- the checks themselves ---------------------------------------------------------------------------------------------


def _faults(tmp_path: Path, text: str) -> list[str]:
    (tmp_path / "page.md").write_text(text)
    blocks = read_blocks(tmp_path, Path("page.md"))
    return [why for index, block in enumerate(blocks) if (why := fault(block, blocks[index + 1 :]))]


def test_a_block_without_a_way_to_run_it_is_found(tmp_path: Path) -> None:
    assert _faults(tmp_path, "```\nls\n```\n") == ["a block without a language"]
    assert _faults(tmp_path, "```go\na\n```\n") == ["go needs the name of the file to save it as"]
    assert _faults(tmp_path, "```bash\nsudo ls\n```\n") == ["`sudo ls` changes the machine: it belongs into not_run.py"]
    assert _faults(tmp_path, "```yaml a.yaml\na: 1\n```\n") == ["a.yaml is saved and no later command uses it"]
    assert _faults(tmp_path, "```yaml a.yaml\na: 1\n```\n```bash\ncat a.yaml\n```\n") == []
    assert _faults(tmp_path, "```xml pom.xml\n```\n```java src/A.java\n```\n```bash\nmvn package\n```\n") == []
    assert _faults(tmp_path, "```console fails\n$ false\n```\n") == []
    assert _faults(tmp_path, "```bash fails\nfalse\n```\n") == ["fails says nothing about how to run it"]
    assert _faults(tmp_path, "```bash quickly\nls\n```\n") == ["quickly says nothing about how to run it"]


def test_commands_that_do_not_exist_are_found() -> None:
    assert unknown_word("tidelog topics create T --partitions 3") is None
    assert unknown_word("tidelog topics crate T") == "no topics crate"
    assert unknown_word("tidelog topik list") == "no command topik"
    assert unknown_word("tidelog serve --port 1") == "serve has no --port"
    assert unknown_word("tidelog archive TOPIC... --to PATH") is None


def test_commands_of_a_block_are_put_together(tmp_path: Path) -> None:
    text = "```bash\n# first\nls \\\n  -l\n\nfor a in 1 2; do\n  echo $a\ndone\ncat <<END\nx\nEND\npwd   # where\n```\n"
    (tmp_path / "page.md").write_text(text)
    [block] = read_blocks(tmp_path, Path("page.md"))
    found = [(command.place, command.text) for command in commands(block)]
    assert found == [
        ("page.md:3", "ls \\\n  -l"),
        ("page.md:6", "for a in 1 2; do\n  echo $a\ndone"),
        ("page.md:9", "cat <<END\nx\nEND"),
        ("page.md:12", "pwd   # where"),
    ]


def test_what_a_command_prints_begins_after_its_last_line(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("```console fails\n$ ls \\\n    -l x\nno x\n$ false\n```\n")
    [block] = read_blocks(tmp_path, Path("page.md"))
    found = [(command.text, command.shown, command.fails) for command in commands(block)]
    assert found == [("ls \\\n    -l x", "no x", True), ("false", "", True)]
