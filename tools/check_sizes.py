"""The size watch: no file, function or name that grows into a place where nobody looks.

Run as `python tools/check_sizes.py` it prints every offender and fails; `tests/test_sizes.py` runs the same check.
Generated code is exempt, everything else under the folders below is not.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

FOLDERS = ("src", "tools", "tests", "benchmarks")
GENERATED = ("src", "tidelog", "protocol", "generated")
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
NAMES_REFUSED = frozenset({"utils", "util", "common", "helpers", "helper", "misc"})


def find_offenders(root: Path) -> Iterator[str]:
    """One line per offender, with its place."""
    for path in sorted(_watched_files(root)):
        shown = path.relative_to(root)
        if NAMES_REFUSED & {path.stem, *shown.parent.parts}:
            yield f"{shown}: a name that says nothing about its subject"
        text = path.read_text()
        lines = len(text.splitlines())
        if lines > FILE_LINES_MAX:
            yield f"{shown}: {lines} lines, at most {FILE_LINES_MAX}"
        for name, line, length in _functions(ast.parse(text, str(path))):
            if length > FUNCTION_LINES_MAX:
                yield f"{shown}:{line}: {name} has {length} lines, at most {FUNCTION_LINES_MAX}"


def _watched_files(root: Path) -> Iterator[Path]:
    for folder in FOLDERS:
        for path in (root / folder).rglob("*.py"):
            parts = path.relative_to(root).parts
            if parts[: len(GENERATED)] != GENERATED and "__pycache__" not in parts:
                yield path


def _functions(tree: ast.Module) -> Iterator[tuple[str, int, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def main() -> int:
    offenders = list(find_offenders(Path(__file__).resolve().parent.parent))
    for offender in offenders:
        print(offender)
    return 1 if offenders else 0


if __name__ == "__main__":
    sys.exit(main())
