"""The names in a PromQL expression, and whether brackets and strings close. No more of the language is understood."""

from __future__ import annotations

import re
from typing import NamedTuple

_TOKEN = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<number>\d[\w.]*)
      | (?P<word>[A-Za-z_:$][\w:]*)
      | (?P<operator>=~|!~|!=|==|<=|>=|[-+*/%^<>=,])
      | (?P<open>[({\[])
      | (?P<close>[)}\]])
      | (?P<space>\s+)""",
    re.VERBOSE,
)
_CLOSED_BY = {"(": ")", "{": "}", "[": "]"}
_GROUPING = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
_WORDS = _GROUPING | {"and", "or", "unless", "bool", "offset"}
FUNCTIONS = frozenset(
    {
        *("sum", "max", "min", "avg", "count", "topk", "bottomk", "quantile"),
        *("rate", "irate", "increase", "deriv", "delta", "changes", "predict_linear", "histogram_quantile"),
        *("max_over_time", "min_over_time", "avg_over_time", "absent", "clamp_min", "clamp_max", "time"),
    }
)
"""Those that may be used here; a misspelt one is no metric's name either."""


class MalformedQuery(ValueError):
    """The expression is none; the text says where."""


class Names(NamedTuple):
    """What an expression needs: metrics with the labels they are selected by, and labels that are grouped by."""

    selected: list[tuple[str, frozenset[str]]]
    grouped: frozenset[str]


def find_names(expression: str) -> Names:
    tokens = _tokens(expression)
    selected: list[tuple[str, frozenset[str]]] = []
    grouped: set[str] = set()
    at = 0
    while at < len(tokens):
        kind, text = tokens[at]
        following = tokens[at + 1][1] if at + 1 < len(tokens) else ""
        at += 1
        if kind != "word" or text.startswith("$"):
            continue
        if text in _GROUPING and following == "(":
            end = _end_of(tokens, at)
            grouped |= {word for kind, word in tokens[at:end] if kind == "word"}
            at = end
        elif text in _WORDS:
            continue
        elif following == "(":
            if text not in FUNCTIONS:
                raise MalformedQuery(f"{text} is no function that is known here: {expression}")
        elif text in FUNCTIONS and following in ("by", "without"):
            continue
        else:
            labels = frozenset[str]()
            if following == "{":
                end = _end_of(tokens, at)
                labels, at = _labels(tokens[at + 1 : end - 1], expression), end
            selected.append((text, labels))
    if not selected:
        raise MalformedQuery(f"no metric is named: {expression}")
    return Names(selected, frozenset(grouped))


def _tokens(expression: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    opened: list[str] = []
    at = 0
    while at < len(expression):
        found = _TOKEN.match(expression, at)
        if found is None:
            raise MalformedQuery(f"{expression[at : at + 20]!r} cannot be read: {expression}")
        kind, text, at = str(found.lastgroup), found[0], found.end()
        if kind == "open":
            opened.append(text)
        elif kind == "close" and (not opened or _CLOSED_BY[opened.pop()] != text):
            raise MalformedQuery(f"{text} closes nothing: {expression}")
        if kind != "space":
            tokens.append((kind, text))
    if opened:
        raise MalformedQuery(f"{opened[-1]} is not closed: {expression}")
    if not tokens or tokens[-1][0] == "operator":
        raise MalformedQuery(f"it ends too early: {expression}")
    return tokens


def _end_of(tokens: list[tuple[str, str]], at: int) -> int:
    """Behind the bracket that closes the one at `at`."""
    depth = 0
    for index in range(at, len(tokens)):
        depth += {"open": 1, "close": -1}.get(tokens[index][0], 0)
        if depth == 0:
            return index + 1
    raise AssertionError("brackets are known to close")


def _labels(tokens: list[tuple[str, str]], expression: str) -> frozenset[str]:
    """Of `name="value", name=~"value"`."""
    matchers = [tokens[start : start + 3] for start in range(0, len(tokens), 4)]
    commas = [text for _, text in tokens[3::4]]
    for matcher in matchers:
        if [kind for kind, _ in matcher] != ["word", "operator", "string"]:
            raise MalformedQuery(f"a label with its value is expected: {expression}")
    if any(text != "," for text in commas):
        raise MalformedQuery(f"labels are apart by commas: {expression}")
    return frozenset(matcher[0][1] for matcher in matchers)
