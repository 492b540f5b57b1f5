"""A YAML file as sections that know their lines: each reader asks for its keys, and a key that no reader asks for is
wrong.

Problems are collected, not raised, so that one look at a file tells everything that is wrong with it. `${NAME}` and
`${NAME:-default}` in a value are taken from the environment. Values are the text they are written as.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.pipelines.spec.durations import parse_duration_ms
from tidelog.pipelines.spec.suggestions import did_you_mean

if TYPE_CHECKING:
    from tidelog.pipelines.spec.model import Pipeline

FILE_BYTES_MAX = 1024 * 1024
PROBLEMS_MAX = 100

YamlNode = Any
"""A node of PyYAML, which is imported only when there is a file to read."""

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}")
_TRUE, _FALSE = ("true", "yes", "on"), ("false", "no", "off")


class Problem(NamedTuple):
    """One thing that is wrong, where, and what to do about it."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path} line {self.line}: {self.text}" if self.line else f"{self.path}: {self.text}"


class SpecError(ValueError):
    """A pipeline file that cannot be taken; `problems` has every reason, the message the first."""

    def __init__(self, problems: Sequence[Problem], readable: Pipeline | None = None) -> None:
        """`readable`: what could be read all the same, to be judged further and never to be run."""
        self.problems = list(problems)
        self.readable = readable
        more = len(self.problems) - 1
        rest = f" (and {more} more: `tidelog pipeline validate` lists all)" if more else ""
        super().__init__(f"{self.problems[0]}{rest}")


class Text(NamedTuple):
    """A value with its line; `first_line` is where the text itself begins (below the `|` of a block)."""

    value: str
    line: int
    first_line: int


class Document:
    """One file with the problems found in it so far."""

    def __init__(self, path: Path, environment: Mapping[str, str] | None = None) -> None:
        self.path = path
        self.problems: list[Problem] = []
        self._environment = os.environ if environment is None else environment

    def complain(self, line: int, text: str) -> None:
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(Problem(str(self.path), line, text))

    def raise_problems(self, readable: Pipeline) -> None:
        if self.problems:
            raise SpecError(sorted(self.problems, key=lambda problem: problem.line), readable)

    def read(self, name: str) -> Section:
        """The whole file as a section; SpecError when it cannot be read or is no YAML mapping."""
        import yaml

        try:
            if self.path.stat().st_size > FILE_BYTES_MAX:
                raise SpecError([Problem(str(self.path), 0, f"is larger than {FILE_BYTES_MAX:,} bytes")])
            text = self.path.read_text(encoding="utf-8")
            root = yaml.compose(text, Loader=yaml.SafeLoader)
        except OSError as error:
            raise SpecError([Problem(str(self.path), 0, f"cannot be read: {error.strerror}")]) from None
        except UnicodeDecodeError:
            raise SpecError([Problem(str(self.path), 0, "cannot be read: it is not UTF-8 text")]) from None
        except RecursionError:
            raise SpecError([Problem(str(self.path), 0, "is nested too deeply")]) from None
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            reason = getattr(error, "problem", None) or getattr(error, "reason", None) or "it is not YAML"
            raise SpecError([Problem(str(self.path), mark.line + 1 if mark else 0, f"not YAML: {reason}")]) from None
        if root is None or root.id != "mapping":
            raise SpecError([Problem(str(self.path), 1, f"a {name} is a mapping with `sources:` and `sinks:`")])
        return Section(self, root, name)

    def fill_in(self, text: str, line: int) -> str:
        """`text` with its variables replaced."""

        def value_of(found: re.Match[str]) -> str:
            value = self._environment.get(found[1], found[3])
            if value is None:
                self.complain(line, f"environment variable {found[1]} is not set; set it or write ${{{found[1]}:-...}}")
                return found[0]
            return value

        return _VARIABLE.sub(value_of, text)


class Section:
    """A mapping of the file. `close()` complains about every key that was not asked for."""

    def __init__(self, document: Document, node: YamlNode, name: str) -> None:
        self.document = document
        self.name = name
        """For people: `source orders`."""
        self.line: int = node.start_mark.line + 1
        self._entries: dict[str, YamlNode] = {}
        self._lines: dict[str, int] = {}
        self._asked: set[str] = set()
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.id != "scalar":
                document.complain(line, f"a key of {name} must be a word")
            elif key.value in self._entries:
                first = self._lines[key.value]
                document.complain(line, f"{key.value} is already given on line {first}; leave one of them out")
            else:
                self._entries[key.value] = value
                self._lines[key.value] = line

    def has(self, key: str) -> bool:
        return key in self._entries

    @property
    def keys(self) -> list[str]:
        return list(self._entries)

    def line_of(self, key: str) -> int:
        return self._lines.get(key, self.line)

    def complain(self, key: str, text: str) -> None:
        self.document.complain(self.line_of(key), text)

    def ignore_all(self) -> None:
        """For a section that is wrong as a whole: its keys are not judged one by one."""
        self._asked.update(self._entries)

    def close(self) -> None:
        unknown = [key for key in self._entries if key not in self._asked]
        for key in unknown:
            known = ", ".join(sorted(self._asked))
            near = did_you_mean(key, self._asked)
            self.complain(key, f"unknown key {key} in {self.name}{near or f'; it takes {known}'}")

    # -- values ------------------------------------------------------------------------------------------------

    def _take(self, key: str) -> YamlNode | None:
        self._asked.add(key)
        node = self._entries.get(key)
        return None if node is None or node.tag == "tag:yaml.org,2002:null" else node

    def text(self, key: str) -> Text | None:
        node = self._take(key)
        if node is None:
            return None
        if node.id != "scalar":
            self.complain(key, f"{key} of {self.name} must be a text, not a {node.id}")
            return None
        return self._text_of(node)

    def _text_of(self, node: YamlNode) -> Text:
        line = node.start_mark.line + 1
        value = self.document.fill_in(str(node.value), line)
        return Text(value, line, line + 1 if node.style in ("|", ">") else line)

    def word(self, key: str, default: str = "") -> str:
        found = self.text(key)
        if found is None:
            return default
        if not found.value.strip():
            self.complain(key, f"{key} of {self.name} must not be empty")
        return found.value.strip()

    def required_word(self, key: str, what: str) -> str:
        found = self.word(key)
        if not found and not self.has(key):
            self.document.complain(self.line, f"{self.name} needs `{key}:` ({what})")
        return found

    def choice(self, key: str, choices: Collection[str], default: str) -> str:
        found = self.word(key, default)
        if found != default and found not in choices:
            near = did_you_mean(found, choices)
            self.complain(key, f"{key} of {self.name} is {found}{near}; it can be {', '.join(choices)}")
            return default
        return found

    def boolean(self, key: str, default: bool) -> bool:
        found = self.word(key)
        if not found:
            return default
        if found.lower() not in (*_TRUE, *_FALSE):
            self.complain(key, f"{key} of {self.name} must be true or false, not {found}")
            return default
        return found.lower() in _TRUE

    def integer(self, key: str, default: int, minimum: int = 0) -> int:
        found = self.word(key).replace("_", "")
        if not found:
            return default
        if not (found.isascii() and found.isdigit()) or int(found) < minimum:
            self.complain(key, f"{key} of {self.name} must be a whole number of at least {minimum}, not {found}")
            return default
        return int(found)

    def duration_ms(self, key: str, default: int) -> int:
        found = self.word(key)
        if not found:
            return default
        try:
            return parse_duration_ms(found)
        except ValueError as error:
            self.complain(key, f"{key} of {self.name}: {error}")
            return default

    def words(self, key: str) -> list[Text]:
        """A list of words, or one word (commas separate several)."""
        node = self._take(key)
        if node is None:
            return []
        if node.id == "scalar":
            whole = self._text_of(node)
            return [Text(part.strip(), whole.line, whole.line) for part in whole.value.split(",") if part.strip()]
        if node.id != "sequence" or any(item.id != "scalar" for item in node.value):
            self.complain(key, f"{key} of {self.name} must be a word or a list of words")
            return []
        return [self._text_of(item) for item in node.value]

    def pairs(self, key: str) -> dict[str, str]:
        """A mapping of words to words whose keys are not judged here; nesting is written out with dots."""
        node = self._take(key)
        if node is None:
            return {}
        if node.id != "mapping":
            self.complain(key, f"{key} of {self.name} must be a mapping of names to values")
            return {}
        return dict(self._flat_pairs(key, "", node))

    def _flat_pairs(self, key: str, prefix: str, node: YamlNode) -> Iterator[tuple[str, str]]:
        for name, value in node.value:
            if name.id == "scalar" and value.id == "scalar":
                yield f"{prefix}{name.value}", self._text_of(value).value
            elif name.id == "scalar" and value.id == "mapping":
                yield from self._flat_pairs(key, f"{prefix}{name.value}.", value)
            else:
                self.document.complain(name.start_mark.line + 1, f"{key} of {self.name} holds names and plain values")

    # -- sections inside -----------------------------------------------------------------------------------------

    def is_section(self, key: str) -> bool:
        node = self._entries.get(key)
        return node is not None and node.id == "mapping"

    def names_in(self, key: str) -> list[str]:
        """The keys of the section below `key`."""
        node = self._entries.get(key)
        if node is None or node.id != "mapping":
            return []
        return [name.value for name, _ in node.value if name.id == "scalar"]

    def section(self, key: str, name: str) -> Section | None:
        node = self._take(key)
        if node is None:
            return None
        if node.id != "mapping":
            self.complain(key, f"{key} of {self.name} must be a mapping")
            return None
        return Section(self.document, node, name)

    def named_sections(self, key: str, kind: str) -> Iterator[tuple[str, int, Section]]:
        """(name, line, section) of every entry below `key`."""
        outer = self.section(key, key)
        if outer is None:
            return
        for name, node in outer._entries.items():
            if node.id == "mapping":
                yield name, outer.line_of(name), Section(self.document, node, f"{kind} {name}")
            else:
                outer.complain(name, f"{kind} {name} must be a mapping")

    def listed_sections(self, key: str, name: str) -> Iterator[Section]:
        node = self._take(key)
        if node is None:
            return
        if node.id != "sequence" or any(item.id != "mapping" for item in node.value):
            self.complain(key, f"{key} of {self.name} must be a list, each entry with its own keys")
            return
        for item in node.value:
            yield Section(self.document, item, name)
