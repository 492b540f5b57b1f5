"""Mistakes in a SQL statement that can be found without Spark, and only those: what Spark takes is never refused.

sqlglot parses the statement in Spark's dialect. It does not know all that Spark takes, so its refusal alone proves
nothing. A mistake is reported when there is a second sign of it: brackets or quotes that do not match, a statement that
ends where something must follow, a word which makes the statement whole when it is spelled like a keyword, or a
statement with none of the constructs in which the two differ. docs/adr/0022 says how that was measured.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import NamedTuple

from tidelog.pipelines.spec.sql import Token, split

CORRECTIONS_TRIED_MAX = 40
MISSPELLED_MAX = 4
STATEMENT_CHARACTERS_MAX = 100_000
_PAIRS = {")": "(", "]": "["}
_KEYWORDS = (
    "SELECT", "DISTINCT", "FROM", "WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "JOIN", "LEFT", "RIGHT", "INNER",
    "OUTER", "FULL", "CROSS", "UNION", "INTERSECT", "EXCEPT", "BETWEEN", "LIKE", "CASE", "WHEN", "THEN", "ELSE",
    "WITH", "OVER", "PARTITION", "EXISTS", "NULL", "USING", "WINDOW", "INTERVAL", "LATERAL", "QUALIFY", "AND", "NOT",
    "BY", "ON", "AS", "END",
)  # fmt: skip
_DANGLING_WORDS = frozenset({"SELECT", "FROM", "WHERE", "BY", "HAVING", "JOIN", "AND", "OR", "ON", "UNION"})
_DANGLING_SIGNS = frozenset(",=<>+-/%|&.(")
_LESS_COMMON = frozenset(
    {
        "AGGREGATE", "ANY", "ARCHIVE", "CLUSTER", "COLLATE", "CUBE", "DIV", "DISTRIBUTE", "EXTEND", "FOR", "GEOGRAPHY",
        "GEOMETRY", "GROUPING", "IDENTIFIER", "IGNORE", "INTERVAL", "LATERAL", "MAP", "MATCH_RECOGNIZE", "MINUS",
        "NATURAL", "OF", "PIVOT", "QUALIFY", "RECURSIVE", "REDUCE", "RESPECT", "ROLLUP", "ROWS", "RANGE", "SETS",
        "SOME", "SORT", "SYMMETRIC", "TABLE", "TABLESAMPLE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "TIME",
        "DATE", "TRANSFORM", "UNPIVOT", "USING", "VALUES", "VARIANT", "VERSION", "WINDOW", "WITHIN", "ZONE", "UESCAPE",
        "ANTI", "SEMI", "OFFSET", "ESCAPE", "FILTER", "TRIM", "EXTRACT", "SUBSTRING", "OVERLAY", "POSITION", "DEFAULT",
        "DESCRIBE", "SHOW", "EXPLAIN", "INSERT", "SET", "BEGIN", "DECLARE", "WITH", "FIRST", "LAST", "NULLS",
    }
)  # fmt: skip
"""Words of constructs that sqlglot may not know as Spark does: a statement with one of them is not refused for good."""
_LESS_COMMON_SIGNS = frozenset("{}:?!@#$^~;\\")
_TYPES = ("DECIMAL", "DEC", "NUMERIC", "CHAR", "CHARACTER", "VARCHAR", "TIME")
_FUNCTIONS_TOO = frozenset(
    {"WINDOW", "FILTER", "TRANSFORM", "MAP", "DATE", "TIMESTAMP", "FIRST", "LAST", "ANY", "SOME"}
)
_GRAMMAR_WORDS = frozenset({*_KEYWORDS, *_LESS_COMMON, "IN", "OR", "ALL", "CAST", "TRY_CAST", *_TYPES})


class Mistake(NamedTuple):
    line: int
    """Counted from 0 within the statement."""
    text: str


class _Refusal(NamedTuple):
    line: int
    column: int
    word: str


def can_parse() -> bool:
    """Whether the parser is installed; it comes with the extra `spark`."""
    return find_spec("sqlglot") is not None


def find_mistake(sql: str) -> Mistake | None:
    """The first mistake of a statement, if it is certain that there is one."""
    # Comments inside comments are one for Spark and not for the tokenizer here.
    if len(sql) > STATEMENT_CHARACTERS_MAX or sql.count("/*") != sql.count("*/") or sql.count("/*") > 1:
        return None
    statement = _Statement(sql)
    tokens = statement.tokens
    mismatch = _find_mismatch(tokens)
    if mismatch is not None or not tokens:
        return mismatch
    refusal = None if "|>" in sql else _refuse(sql) and _refuse(statement.text({}))
    if refusal is None:
        return None
    misspelled = _find_misspelled(statement, refusal)
    if misspelled is not None:
        return misspelled
    last = tokens[-1]
    if last.upper in _DANGLING_WORDS or (last.kind == "sign" and last.text in _DANGLING_SIGNS):
        return Mistake(last.line, "SQL syntax error at end of input")
    if _is_common(tokens):
        # A function was renamed for the parser: its name there is not one of the file.
        shown = refusal.word if refusal.word != "f" else ""
        return Mistake(refusal.line, f"SQL syntax error at {shown}" if shown else "SQL syntax error")
    return None


def _find_mismatch(tokens: Sequence[Token]) -> Mistake | None:
    opened: list[Token] = []
    for token in tokens:
        if token.kind != "sign":
            continue
        if token.text in "'\"`":
            return Mistake(token.line, f"SQL syntax error: a {token.text} is not closed")
        if token.text in "([":
            opened.append(token)
        elif token.text in _PAIRS:
            if not opened or opened[-1].text != _PAIRS[token.text]:
                return Mistake(token.line, f"SQL syntax error at {token.text!r}: nothing that it closes is open")
            opened.pop()
    if opened:
        return Mistake(opened[-1].line, f"SQL syntax error: a {opened[-1].text} is not closed")
    return None


class _Statement:
    """A statement whose words can be replaced where they stand."""

    def __init__(self, sql: str) -> None:
        self._pieces = list(split(sql))
        self._places = [place for place, piece in enumerate(self._pieces) if piece.kind != "blank"]
        self.tokens = [self._pieces[place] for place in self._places]

    def text(self, replaced: Mapping[int, str]) -> str:
        """With some tokens replaced, by their number. Functions get a name that has no grammar of its own: sqlglot
        knows many by heart, with other arguments than Spark."""
        texts = [piece.text for piece in self._pieces]
        for number, token in enumerate(self.tokens):
            if number in replaced:
                texts[self._places[number]] = replaced[number]
            elif token.kind == "word" and self._is_function(number):
                texts[self._places[number]] = "f"
        return "".join(texts)

    def _is_function(self, number: int) -> bool:
        token = self.tokens[number]
        before = self.tokens[number - 1].upper if number else ""
        after = self.tokens[number + 1].text if number + 1 < len(self.tokens) else ""
        if after != "(" or (token.upper == "FILTER" and before == ")"):
            return False
        return token.upper not in _GRAMMAR_WORDS or token.upper in _FUNCTIONS_TOO


def _refuse(text: str) -> _Refusal | None:
    """Where sqlglot stops; None when it takes the statement, or fails in another way."""
    import sqlglot
    from sqlglot.errors import ParseError

    logger = logging.getLogger("sqlglot")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        sqlglot.parse(text, dialect="spark")
    except ParseError as error:
        found = error.errors[0] if error.errors else {}
        return _Refusal(int(found.get("line") or 1) - 1, int(found.get("col") or 0), str(found.get("highlight") or ""))
    except Exception:
        return None
    finally:
        logger.setLevel(level)
    return None


def _find_misspelled(statement: _Statement, refusal: _Refusal) -> Mistake | None:
    """A word that makes the whole statement parse when it is spelled like the keyword it resembles."""
    tokens = statement.tokens
    replaced: dict[int, str] = {}
    first: Mistake | None = None
    where = refusal
    for _ in range(MISSPELLED_MAX):
        for number, keyword in _corrections(tokens, where, replaced):
            left = _refuse(statement.text({**replaced, number: keyword}))
            word = tokens[number]
            mistake = first or Mistake(word.line, f"SQL syntax error at {word.text} (did you mean {keyword}?)")
            if left is None:
                return mistake
            if (left.line, left.column) > (where.line, where.column):
                replaced[number], first, where = keyword, mistake, left
                break
        else:
            return None
    return None


def _corrections(tokens: Sequence[Token], refusal: _Refusal, replaced: Mapping[int, str]) -> Iterator[tuple[int, str]]:
    """Words up to where the parser stopped, with the keyword each resembles; the nearest first."""
    near = [index for index, token in enumerate(tokens) if token.kind == "word" and token.line <= refusal.line]
    tried = 0
    for index in reversed(near):
        word = tokens[index].upper
        if word in _GRAMMAR_WORDS or len(word) < 2 or index in replaced:
            continue
        for keyword in difflib.get_close_matches(word, _KEYWORDS, n=2, cutoff=0.74):
            tried += 1
            if tried > CORRECTIONS_TRIED_MAX:
                return
            yield index, keyword


def _is_common(tokens: Sequence[Token]) -> bool:
    """Whether none of the tokens is part of a construct that the two parsers may see differently."""
    for token, after in zip(tokens, [*tokens[1:], tokens[-1]], strict=True):
        if token.kind == "word" and token.upper in _LESS_COMMON:
            return False
        if token.upper == "LIMIT" and after.kind != "number":
            return False
        shifts = token.text == after.text and token.text in "<>"
        if token.kind == "sign" and (token.text in _LESS_COMMON_SIGNS or (shifts and token is not after)):
            return False
    return True
