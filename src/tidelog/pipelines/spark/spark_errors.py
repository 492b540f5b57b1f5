"""What Spark throws, as one line in words that need no knowledge of Spark."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_LINE_CHARACTERS_MAX = 500


def explain_analysis(error: Exception) -> str:
    """One line for an error of Spark's analysis, in words that need no knowledge of Spark."""
    condition = str(ask(error, "getCondition") or ask(error, "getErrorClass") or "")
    parameters = ask(error, "getMessageParameters") or {}
    name = str(parameters.get("objectName", "")).replace("`", "")
    if condition.startswith("UNRESOLVED_COLUMN"):
        proposal = str(parameters.get("proposal", "")).replace("`", "")
        return f"unknown column {name}{f'; there is {proposal}' if proposal else ''}"
    if condition.startswith("FIELD_NOT_FOUND"):
        field, fields = parameters.get("fieldName", ""), parameters.get("fields", "")
        return f"unknown field {field}; there is {fields}".replace("`", "")
    if condition == "PARSE_SYNTAX_ERROR":
        return f"SQL syntax error at {parameters.get('error', '')}"
    if condition.startswith("UNRESOLVED_ROUTINE"):
        return f"unknown function {parameters.get('routineName', '')}".replace("`", "")
    if condition.startswith("TABLE_OR_VIEW_NOT_FOUND"):
        return f"unknown table {parameters.get('relationName', '')}".replace("`", "")
    if condition == "PATH_NOT_FOUND":
        return f"{parameters.get('path', '')} does not exist"
    return first_line(error)


def first_line(error: BaseException | str) -> str:
    """The first line that says something, without Spark's decoration."""
    text = error if isinstance(error, str) else str(error)
    for line in text.splitlines():
        cleaned = re.sub(r"^(?:[\w.$]+(?:Exception|Error): )+", "", line.strip())
        cleaned = re.sub(r"(^|: )\[[A-Z_]+(?:\.[A-Z_]+)*\] ", r"\1", cleaned)
        cleaned = re.sub(r"\s*SQLSTATE: \w+.*$", "", cleaned)
        if cleaned:
            return cleaned[:_LINE_CHARACTERS_MAX].rstrip(";. ")
    return "no details" if isinstance(error, str) else type(error).__name__


def ask(error: Any, name: str) -> Any:
    """What a method of one of Spark's errors gives; None when it has no such method, or that fails."""
    method: Callable[[], Any] | None = getattr(error, name, None)
    if method is None:
        return None
    try:
        return method()
    except Exception:
        return None
