"""Just enough SQL to judge a pipeline file without Spark: which relations a statement reads, whether it keeps state.

It is a tokenizer and a walk over the tokens, not a parser: what it does not know it leaves to Spark, which reports
it when the pipeline is planned.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_TOKEN = re.compile(
    r"""
    (?P<blank>\s+|--[^\n]*|/\*.*?\*/)
  | (?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
  | (?P<quoted>`(?:[^`]|``)*`)
  | (?P<word>[^\W\d]\w*)
  | (?P<number>\d[\w.]*)
  | (?P<sign>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_ENDS_OF_FROM = frozenset(
    {
        "SELECT",
        "WHERE",
        "GROUP",
        "ORDER",
        "SORT",
        "CLUSTER",
        "DISTRIBUTE",
        "HAVING",
        "LIMIT",
        "UNION",
        "INTERSECT",
        "EXCEPT",
        "MINUS",
        "WINDOW",
        "LATERAL",
        "QUALIFY",
        "OFFSET",
        "PIVOT",
        "UNPIVOT",
        "TABLESAMPLE",
    }
)
_FUNCTIONS_WITH_FROM = frozenset({"EXTRACT", "SUBSTRING", "SUBSTR", "TRIM", "OVERLAY", "POSITION"})
_AGGREGATES = frozenset(
    {
        "COUNT",
        "SUM",
        "AVG",
        "MEAN",
        "MIN",
        "MAX",
        "COLLECT_LIST",
        "COLLECT_SET",
        "FIRST",
        "LAST",
        "ANY_VALUE",
        "APPROX_COUNT_DISTINCT",
        "PERCENTILE",
        "PERCENTILE_APPROX",
        "STDDEV",
        "VARIANCE",
        "MAX_BY",
        "MIN_BY",
        "BOOL_AND",
        "BOOL_OR",
        "COUNT_IF",
        "ARRAY_AGG",
        "LISTAGG",
        "STRING_AGG",
        "MEDIAN",
        "MODE",
    }
)

_SET_OPERATIONS = frozenset({"UNION", "INTERSECT", "EXCEPT", "MINUS"})
"""These operations leave doubled rows out, unless ALL follows."""
_JOINS_OF_STREAMS = frozenset({"JOIN", "EXISTS", "IN", "INTERSECT", "EXCEPT", "MINUS", "WITH"})
"""With two streams these remember rows of one for the other, or may; behind WITH the order of the streams is hidden."""


class Token(NamedTuple):
    kind: str
    text: str
    line: int
    """Counted from 0 within the statement."""

    @property
    def upper(self) -> str:
        return self.text.upper() if self.kind == "word" else self.text

    @property
    def identifier(self) -> str:
        return self.text[1:-1].replace("``", "`") if self.kind == "quoted" else self.text


class Reference(NamedTuple):
    """A relation that a statement reads."""

    name: str
    line: int


def tokenize(sql: str) -> list[Token]:
    return [token for token in split(sql) if token.kind != "blank"]


def split(sql: str) -> Iterator[Token]:
    """All of the statement: the tokens, and what is between them as tokens of the kind `blank`."""
    line = 0
    for found in _TOKEN.finditer(sql):
        yield Token(found.lastgroup or "sign", found[0], line)
        line += found[0].count("\n")


def normalize(sql: str) -> str:
    """The statement without what changes nothing: comments, blanks, the case of words, a last semicolon."""
    words = [token.text.lower() if token.kind == "word" else token.text for token in tokenize(sql)]
    return " ".join(words).removesuffix(" ;")


def find_references(sql: str) -> list[Reference]:
    """The relations named by one word after FROM and JOIN; `catalog.table` and what WITH defines are not ours."""
    tokens = tokenize(sql)
    local = _common_table_expressions(tokens)
    found: dict[str, Reference] = {}
    for index in _relation_starts(tokens):
        reference = _read_relation(tokens, index)
        if reference is not None and reference.name.lower() not in local:
            found.setdefault(reference.name, reference)
    return list(found.values())


def _common_table_expressions(tokens: Sequence[Token]) -> set[str]:
    if not any(token.upper == "WITH" for token in tokens):
        return set()
    names = set()
    for before, name, *after in zip(tokens, tokens[1:], tokens[2:], tokens[3:], strict=False):
        starts = before.upper in ("WITH", "RECURSIVE", ",")
        if starts and name.kind in ("word", "quoted") and (after[0].upper == "AS" or after[0].text == "("):
            names.add(name.identifier.lower())
    return names


def _relation_starts(tokens: Sequence[Token]) -> list[int]:
    """Where the name of a relation, or a parenthesis in its place, is expected."""
    starts = []
    in_from = [False]
    openers = [""]
    for index, token in enumerate(tokens):
        previous = tokens[index - 1].upper if index else ""
        if token.text == "(" and token.kind == "sign":
            in_from.append(False)
            openers.append(previous)
        elif token.text == ")" and token.kind == "sign" and len(in_from) > 1:
            in_from.pop()
            openers.pop()
        elif token.upper == "FROM" and token.kind == "word":
            if previous != "DISTINCT" and openers[-1] not in _FUNCTIONS_WITH_FROM:
                in_from[-1] = True
                starts.append(index + 1)
        elif token.upper == "JOIN" and token.kind == "word":
            in_from[-1] = True
            starts.append(index + 1)
        elif token.upper in _ENDS_OF_FROM:
            in_from[-1] = False
        elif token.text == "," and token.kind == "sign" and in_from[-1]:
            starts.append(index + 1)
    return starts


def _read_relation(tokens: Sequence[Token], index: int) -> Reference | None:
    if index < len(tokens) and tokens[index].upper == "LATERAL":
        index += 1
    if index >= len(tokens) or tokens[index].kind not in ("word", "quoted"):
        return None
    after = tokens[index + 1].text if index + 1 < len(tokens) else ""
    if tokens[index].upper in ("SELECT", "VALUES", "TABLE") or after in (".", "("):
        return None
    return Reference(tokens[index].identifier, tokens[index].line)


def is_stateful(sql: str, *, streams: int) -> bool:
    """Whether a statement over `streams` streaming inputs remembers rows between batches."""
    tokens = tokenize(sql)
    if streams > 1 and any(tokens[index - 1].text == "," for index in _relation_starts(tokens)):
        return True
    for index, token in enumerate(tokens):
        if token.kind != "word":
            continue
        following = tokens[index + 1].upper if index + 1 < len(tokens) else ""
        if token.upper in _SET_OPERATIONS and following != "ALL":
            return True
        if streams > 1 and token.upper in _JOINS_OF_STREAMS:
            return True
        if token.upper == "GROUP" and following == "BY":
            return True
        if token.upper == "DISTINCT" and following != "FROM":
            return True
        if token.upper in _AGGREGATES and following == "(":
            return True
    return False
