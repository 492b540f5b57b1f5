"""Whether the function that a Python step names is there, seen without running any code of the module."""

from __future__ import annotations

import ast
import importlib.machinery
import sys
from collections.abc import Iterator
from pathlib import Path

_SOURCE_BYTES_MAX = 8 << 20


def find_missing(function: str, directory: Path) -> str:
    """What is wrong with `module:function`; empty when it is there, or when only running it would show."""
    module, _, name = function.partition(":")
    try:
        found = _locate(module, str(directory.absolute()))
    except (ImportError, ValueError, AttributeError):
        return ""
    if isinstance(found, str):
        return f"No module named {found!r}; it is looked for beside the file, then where Python finds modules"
    if found is None or found.suffix != ".py" or found.stat().st_size > _SOURCE_BYTES_MAX:
        return ""
    try:
        tree = ast.parse(found.read_bytes(), str(found))
    except SyntaxError as error:
        return f"{found} line {error.lineno}: {error.msg}"
    except ValueError:
        return ""
    names = set(_defined(tree.body))
    if name in names or "*" in names or "__getattr__" in names:
        return ""
    return f"module {module} has no function {name}"


def _locate(module: str, directory: str) -> Path | str | None:
    """The file of a module, the name that is missing as text, or None for one that has no file of its own."""
    if module in sys.modules or module.partition(".")[0] in sys.builtin_module_names:
        return None
    places: list[str] | None = [directory, *(place or "." for place in sys.path)]
    parts = module.split(".")
    spec = None
    for number, part in enumerate(parts):
        if places is None:
            # A module of others may make modules below it when it is run, as `os` makes `os.path`.
            is_own = spec is not None and spec.origin is not None and str(Path(spec.origin).parent) == directory
            return ".".join(parts[: number + 1]) if is_own else None
        full = ".".join(parts[: number + 1])
        spec = importlib.machinery.PathFinder.find_spec(part if number == 0 else full, places)
        if spec is None:
            # Something other than files may provide it, as editable installs do.
            others = [finder for finder in sys.meta_path if finder is not importlib.machinery.PathFinder]
            if any(_finds(finder, full, places if number else None) for finder in others):
                return None
            return full
        places = list(spec.submodule_search_locations) if spec.submodule_search_locations is not None else None
    return Path(spec.origin) if spec is not None and spec.origin and spec.has_location else None


def _finds(finder: object, name: str, places: list[str] | None) -> bool:
    find = getattr(finder, "find_spec", None)
    return find is not None and find(name, places) is not None


def _defined(body: list[ast.stmt]) -> Iterator[str]:
    """The names that running a body gives a value, as far as they can be seen; `*` where more may be."""
    for statement in body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                for alias in names:
                    yield (alias.asname or alias.name).partition(".")[0]
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                yield from (node.id for node in ast.walk(statement) if isinstance(node, ast.Name))
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                continue
            case ast.Expr():
                # A call may put anything into the module (`globals().update(...)`).
                yield from ("*",) if "globals" in ast.dump(statement) else ()
            case _:
                for block in ("body", "orelse", "finalbody"):
                    yield from _defined(getattr(statement, block, []))
                for handler in getattr(statement, "handlers", []):
                    yield from _defined(handler.body)
                yield from (node.id for node in ast.walk(statement) if isinstance(node, ast.Name))
