"""The `steps:` of a pipeline file: SQL, a Python function, or deduplication."""

from __future__ import annotations

import re

from tidelog.pipelines.spec.document import Section
from tidelog.pipelines.spec.model import DeduplicateStep, PythonStep, SqlStep, Step
from tidelog.pipelines.spec.sources import read_kind, read_relation_keys
from tidelog.pipelines.spec.sql import find_references, tokenize

KINDS = ("sql", "python", "deduplicate")
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_READS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "(")


def read_step(section: Section, name: str, line: int, dead_letters: str) -> Step | None:
    relation = read_relation_keys(section, name, line, dead_letters)
    kind = read_kind(section, KINDS)
    inputs = tuple(dict.fromkeys(text.value for text in section.words("from")))
    if kind == "sql":
        sql = section.text("sql")
        if sql is None or not sql.value.strip():
            section.complain("sql", f"{section.name} needs a SELECT statement in `sql:`")
            return None
        first = next((token.upper for token in tokenize(sql.value)), "")
        if first not in _READS:
            section.complain("sql", f"{section.name} must be a SELECT (or WITH ... SELECT), not {first}")
        named = tuple(reference.name for reference in find_references(sql.value))
        return SqlStep(
            **relation, sql=sql.value.rstrip(), sql_line=sql.first_line, inputs=tuple(dict.fromkeys((*named, *inputs)))
        )
    if kind and not inputs:
        section.document.complain(section.line, f"{section.name} needs `from:` (the source or step it works on)")
    if kind == "python":
        function = section.word("python")
        if not _FUNCTION.fullmatch(function):
            section.complain("python", f"python of {section.name} must be module:function, not {function or 'nothing'}")
        return PythonStep(**relation, function=function, function_line=section.line_of("python"), inputs=inputs)
    if kind == "deduplicate":
        columns = tuple(text.value for text in section.words("deduplicate"))
        if not columns:
            section.complain("deduplicate", f"{section.name} needs the columns that make a row the same")
        if len(inputs) > 1:
            section.complain("from", f"{section.name} takes one input, not {len(inputs)}")
        return DeduplicateStep(**relation, columns=columns, inputs=inputs)
    return None
