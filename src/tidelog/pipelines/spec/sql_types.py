"""Types that a schema or a CAST names and that Spark does not have: found by their names, without Spark.

What the walk over the tokens does not follow it leaves to Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidelog.pipelines.spec.sql import Token, tokenize
from tidelog.pipelines.spec.sql_syntax import Mistake
from tidelog.pipelines.spec.suggestions import did_you_mean

_SIMPLE = frozenset(
    {
        "BOOLEAN", "TINYINT", "BYTE", "SMALLINT", "SHORT", "INT", "INTEGER", "BIGINT", "LONG", "FLOAT", "REAL",
        "DOUBLE", "DECIMAL", "DEC", "NUMERIC", "STRING", "CHAR", "CHARACTER", "VARCHAR", "BINARY", "DATE", "TIME",
        "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "INTERVAL", "VOID", "VARIANT", "GEOMETRY", "GEOGRAPHY",
    }
)  # fmt: skip
_NESTED = frozenset({"ARRAY", "MAP", "STRUCT"})
_CASTS = ("CAST", "TRY_CAST")


class _Unknown(Exception):
    """A type that is none."""

    def __init__(self, token: Token) -> None:
        self.token = token


class _Lost(Exception):
    """Something the walk does not know."""


def find_unknown_type(schema: str) -> Mistake | None:
    """The first column of a DDL schema (`id BIGINT, items ARRAY<STRING>`) whose type Spark does not have."""
    tokens = tokenize(schema)
    if not tokens or tokens[0].text in "{[":
        return None
    # The whole schema may be written as one type.
    is_type = tokens[0].upper in _NESTED and len(tokens) > 1 and tokens[1].text == "<"
    return _told(lambda: _skip_type(tokens, 0) if is_type else _skip_fields(tokens, 0, end=""))


def find_unknown_cast(sql: str) -> Mistake | None:
    """The first CAST of a statement to a type that Spark does not have."""
    tokens = tokenize(sql)
    for start in _cast_types(tokens):
        mistake = _told(lambda start=start: _skip_type(tokens, start))
        if mistake is not None:
            return mistake
    return None


def _told(walk: object) -> Mistake | None:
    assert callable(walk)
    try:
        walk()
    except _Unknown as unknown:
        name = unknown.token.text
        near = did_you_mean(name.upper(), sorted({*_SIMPLE, *_NESTED}))
        return Mistake(unknown.token.line, f"unknown type {name}{near}")
    except (_Lost, IndexError):
        return None
    return None


def _cast_types(tokens: Sequence[Token]) -> Iterator[int]:
    """Where the type of each CAST begins."""
    for index, token in enumerate(tokens[:-2]):
        if token.upper in _CASTS and tokens[index + 1].text == "(":
            depth = 0
            for place in range(index + 1, len(tokens)):
                depth += {"(": 1, ")": -1}.get(tokens[place].text, 0) if tokens[place].kind == "sign" else 0
                if depth == 0:
                    break
                if depth == 1 and tokens[place].upper == "AS" and tokens[place].kind == "word":
                    yield place + 1
                    break


def _skip_fields(tokens: Sequence[Token], index: int, *, end: str) -> int:
    """Past `name type, name type ...` up to `end`."""
    while index < len(tokens) and tokens[index].text != end:
        if tokens[index].kind not in ("word", "quoted"):
            raise _Lost
        index += 1
        if tokens[index].text == ":":
            index += 1
        index = _skip_rest(tokens, _skip_type(tokens, index))
        if index < len(tokens) and tokens[index].text == ",":
            index += 1
    return index


def _skip_type(tokens: Sequence[Token], index: int) -> int:
    token = tokens[index]
    if token.kind != "word":
        raise _Lost
    following = tokens[index + 1].text if index + 1 < len(tokens) else ""
    if token.upper in _NESTED:
        if following != "<":
            raise _Lost
        if token.upper == "STRUCT":
            index = _skip_fields(tokens, index + 2, end=">")
        else:
            index = _skip_rest(tokens, _skip_type(tokens, index + 2))
            while tokens[index].text == ",":
                index = _skip_rest(tokens, _skip_type(tokens, index + 1))
        if tokens[index].text != ">":
            raise _Lost
        return index + 1
    if token.upper not in _SIMPLE:
        raise _Unknown(token)
    return index + 1


def _skip_rest(tokens: Sequence[Token], index: int) -> int:
    """Past what may follow a type: its size, NOT NULL, a comment."""
    depth = 0
    while index < len(tokens):
        text = tokens[index].text if tokens[index].kind == "sign" else ""
        if depth == 0 and text in (",", ">"):
            break
        depth += {"(": 1, ")": -1}.get(text, 0)
        index += 1
    return index
