"""The size watch: no class, parameter list or name grows unseen.

What counts is coupling: attributes and methods of a class, parameters of a function, and fields of other objects that a
file writes. `tools/sizes.txt` lists today's offenders with their numbers. There may be no new ones, none may grow, and
a number that shrinks is lowered in the list (`--update`), so it cannot grow back. What must grow all the same is
accepted by hand (`--accept`), with the reason in the commit. Lines are a hint (`--hints`), but for a generous bound on
functions. Generated code is exempt. `tests/test_sizes.py` runs the same check.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

FOLDERS = ("src", "tools", "tests", "benchmarks")
MEASURED_FOLDERS = ("src", "tools", "benchmarks")
"""Fakes and drivers of tests may be as large as what they stand for."""
GENERATED = (("src", "tidelog", "protocol", "generated"), ("src", "tidelog", "gateways", "grpc", "generated"))
NAMES_REFUSED = frozenset({"utils", "util", "common", "helpers", "helper", "misc"})
FUNCTION_LINES_MAX = 100
FILE_LINES_HINT = 500
FUNCTION_LINES_HINT = 70

LIMITS = {"attributes": 12, "methods": 15, "parameters": 6, "outside-writes": 0}
"""`outside-writes` are assignments to fields of objects other than `self`, per file. A function may fill an object that
it has just made itself."""
BASELINE = Path("tools") / "sizes.txt"
UPDATE = "python tools/check_sizes.py --update"
ACCEPT = "python tools/check_sizes.py --accept"
HEADER = f"""\
# What is larger than the limits of tools/check_sizes.py allow, and how large. Numbers only go down: after a change that
# makes one smaller run `{UPDATE}`. To let one grow, or to add one, run
# `{ACCEPT}` and say why in the commit.
"""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Sizes = dict[tuple[str, str], int]
"""By measure and place; a place is `file:Class`, `file:function` or `file`."""


def find_offenders(root: Path) -> Iterator[str]:
    """One line per offender, with its place and what to do."""
    sizes: Sizes = {}
    for path in sorted(_watched_files(root)):
        shown = path.relative_to(root)
        if NAMES_REFUSED & {path.stem, *shown.parent.parts}:
            yield f"{shown}: a name that says nothing about its subject"
        text, is_measured = path.read_text(), shown.parts[0] in MEASURED_FOLDERS
        if not is_measured and text.count("\n") <= FUNCTION_LINES_MAX:
            continue
        tree = ast.parse(text, str(path))
        for name, line, length in _functions(tree):
            if length > FUNCTION_LINES_MAX:
                yield f"{shown}:{line}: {name} has {length} lines, at most {FUNCTION_LINES_MAX}: split it"
        if is_measured:
            sizes |= measure(tree, shown.as_posix())
    yield from compare(sizes, read_baseline(root))


def compare(sizes: Sizes, baseline: Sizes) -> Iterator[str]:
    """What keeps the check from passing: sizes over their limit beside those that the baseline grants."""
    moved = _moved(sizes, baseline)
    to_update = []
    for (name, place), number in sorted(sizes.items()):
        granted = baseline.get((name, place))
        if (name, place) in moved:
            to_update.append(f"{place} has moved with its {number} {name}")
        elif granted is None:
            yield (
                f"{place}: {number} {name}, at most {LIMITS[name]}: split it, or run `{ACCEPT}`, commit {BASELINE} and "
                "say why in the commit"
            )
        elif number > granted:
            yield (
                f"{place}: {number} {name}, {BASELINE} allows {granted}: make room, or run `{ACCEPT}`, commit "
                f"{BASELINE} and say why in the commit"
            )
        elif number < granted:
            to_update.append(f"{place} has {number} {name} and had {granted}")
    gone = baseline.keys() - sizes.keys() - set(moved.values())
    to_update += [f"{place} is within the limit of {name} or gone" for name, place in sorted(gone)]
    for each in to_update:
        yield f"{each}: run `{UPDATE}` and commit {BASELINE}"


def lower(sizes: Sizes, baseline: Sizes) -> Sizes:
    """The baseline with what has shrunk, moved or gone; nothing in it grows and nothing is added."""
    moved = _moved(sizes, baseline)
    lowered = {key: min(number, sizes[key]) for key, number in baseline.items() if key in sizes}
    return lowered | {key: sizes[key] for key in moved}


def _moved(sizes: Sizes, baseline: Sizes) -> dict[tuple[str, str], tuple[str, str]]:
    """Offenders that stand in another file than the baseline says, and no larger: their place now -> the one before."""
    moved: dict[tuple[str, str], tuple[str, str]] = {}
    gone = sorted(baseline.keys() - sizes.keys())
    for key in sorted(sizes.keys() - baseline.keys()):
        for before in gone:
            if before[0] == key[0] and _name(before[1]) == _name(key[1]) and sizes[key] <= baseline[before]:
                moved[key] = before
                gone.remove(before)
                break
    return moved


def _name(place: str) -> str:
    path, _, name = place.partition(":")
    return name or path.rpartition("/")[2]


# -- measures ----------------------------------------------------------------------------------------------------------


def measure(tree: ast.Module, shown: str) -> Sizes:
    """The sizes in a file that are over their limits."""
    sizes: Sizes = {}

    def note(name: str, place: str, number: int) -> None:
        if number > LIMITS[name]:
            sizes[name, place] = max(number, sizes.get((name, place), 0))

    def visit(node: ast.AST, scope: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = scope
            if isinstance(child, ast.ClassDef | Function):
                inner = f"{scope}.{child.name}" if scope else child.name
            if isinstance(child, ast.ClassDef):
                note("attributes", f"{shown}:{inner}", len(_attributes(child)))
                note("methods", f"{shown}:{inner}", len(_methods(child)))
            elif isinstance(child, Function):
                note("parameters", f"{shown}:{inner}", _parameters(child))
            visit(child, inner)

    visit(tree, "")
    note("outside-writes", shown, sum(_outside_writes(node) for node in tree.body))
    return sizes


def _attributes(node: ast.ClassDef) -> set[str]:
    """Fields by annotation, by slot and by assignment to `self`."""
    found: set[str] = set()
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            if "ClassVar" not in ast.unparse(statement.annotation):
                found.add(statement.target.id)
        elif isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__slots__":
            found.update(str(each.value) for each in ast.walk(statement.value) if isinstance(each, ast.Constant))
        elif isinstance(statement, Function):
            found.update(
                each.attr
                for each in ast.walk(statement)
                if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store) and _is_self(each.value)
            )
    return found


def _methods(node: ast.ClassDef) -> set[str]:
    return {each.name for each in node.body if isinstance(each, Function) and not each.name.startswith("__")}


def _parameters(node: Function) -> int:
    names = [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def _outside_writes(node: ast.AST, made: frozenset[str] = frozenset()) -> int:
    if isinstance(node, Function):
        made |= frozenset(_made_here(node))
    count = sum(_outside_writes(child, made) for child in ast.iter_child_nodes(node))
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del) and not _is_self(node.value):
        count += not (isinstance(node.value, ast.Name) and node.value.id in made)
    return count


def _made_here(node: Function) -> Iterator[str]:
    """Names that the function binds to an object of a class it calls."""
    for each in ast.walk(node):
        if isinstance(each, ast.Assign | ast.AnnAssign) and isinstance(each.value, ast.Call):
            called = ast.unparse(each.value.func).rpartition(".")[2]
            if called in ("cls", "__new__") or called.lstrip("_")[:1].isupper():
                targets = each.targets if isinstance(each, ast.Assign) else [each.target]
                yield from (target.id for target in targets if isinstance(target, ast.Name))


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


# -- files -------------------------------------------------------------------------------------------------------------


def read_baseline(root: Path) -> Sizes:
    path = root / BASELINE
    baseline: Sizes = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        if line and not line.startswith("#"):
            name, place, number = line.split()
            # A merge keeps the lines of both sides (.gitattributes); the smaller number is the newer one.
            baseline[name, place] = min(int(number), baseline.get((name, place), sys.maxsize))
    return baseline


def write_baseline(root: Path, baseline: Sizes) -> None:
    lines = [f"{name} {place} {number}\n" for (name, place), number in sorted(baseline.items())]
    (root / BASELINE).write_text(HEADER + "".join(lines))


def measure_all(root: Path) -> Sizes:
    sizes: Sizes = {}
    for path in _watched_files(root):
        shown = path.relative_to(root)
        if shown.parts[0] in MEASURED_FOLDERS:
            sizes |= measure(ast.parse(path.read_text(), str(path)), shown.as_posix())
    return sizes


def find_hints(root: Path) -> Iterator[str]:
    for path in sorted(_watched_files(root)):
        shown, text = path.relative_to(root), path.read_text()
        if (lines := len(text.splitlines())) > FILE_LINES_HINT:
            yield f"{shown}: {lines} lines: has it one subject?"
        for name, line, length in _functions(ast.parse(text, str(path))):
            if length > FUNCTION_LINES_HINT:
                yield f"{shown}:{line}: {name} has {length} lines"


def _watched_files(root: Path) -> Iterator[Path]:
    for folder in FOLDERS:
        for path in (root / folder).rglob("*.py"):
            parts = path.relative_to(root).parts
            if not any(parts[: len(folder)] == folder for folder in GENERATED) and "__pycache__" not in parts:
                yield path


def _functions(tree: ast.Module) -> Iterator[tuple[str, int, int]]:
    for node in ast.walk(tree):
        if isinstance(node, Function):
            assert node.end_lineno is not None
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def main(arguments: list[str]) -> int:
    root = Path(__file__).resolve().parent.parent
    if arguments == ["--update"]:
        write_baseline(root, lower(measure_all(root), read_baseline(root)))
    elif arguments == ["--accept"]:
        write_baseline(root, measure_all(root))
    elif arguments == ["--hints"]:
        print("\n".join(find_hints(root)))
        return 0
    elif arguments:
        print("usage: check_sizes.py [--update | --accept | --hints]", file=sys.stderr)
        return 2
    offenders = list(find_offenders(root))
    for offender in offenders:
        print(offender)
    return 1 if offenders else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
