"""The size watch of the repository, and proof that it can fail."""

from __future__ import annotations

import ast
from pathlib import Path
from textwrap import dedent

import pytest
from tools.check_sizes import (
    BASELINE,
    FUNCTION_LINES_MAX,
    LIMITS,
    Sizes,
    compare,
    find_offenders,
    lower,
    measure,
    measure_all,
    read_baseline,
    write_baseline,
)

ROOT = Path(__file__).resolve().parent.parent
PLACE = ("methods", "src/a.py:Broker")


def test_nothing_in_the_repository_is_too_large() -> None:
    assert list(find_offenders(ROOT)) == []


def test_the_watch_sees_functions_names_and_classes(tmp_path: Path) -> None:
    package = tmp_path / "src" / "tidelog"
    package.mkdir(parents=True)
    body = "    x = 1\n"
    (package / "function.py").write_text(
        "def edge():\n" + body * (FUNCTION_LINES_MAX - 1) + "\n\nasync def over():\n" + body * FUNCTION_LINES_MAX
    )
    (package / "utils.py").write_text("")
    (package / "writes.py").write_text("def write(other):\n    other.x = 1\n")
    (tmp_path / "tests" / "helpers").mkdir(parents=True)
    (tmp_path / "tests" / "helpers" / "test_x.py").write_text("")
    (tmp_path / "tests" / "test_y.py").write_text("def test(other):\n    other.x = 1\n" + body * FUNCTION_LINES_MAX)
    generated = package / "protocol" / "generated"
    generated.mkdir(parents=True)
    (generated / "fetch.py").write_text("def over():\n" + body * 10_000)

    assert [offender.split(": ")[0] for offender in find_offenders(tmp_path)] == [
        "src/tidelog/function.py:103",
        "src/tidelog/utils.py",
        "tests/helpers/test_x.py",
        "tests/test_y.py:1",
        "src/tidelog/writes.py",
    ]
    write_baseline_of(tmp_path, {("outside-writes", "src/tidelog/writes.py"): 1})
    assert "writes" not in "".join(find_offenders(tmp_path))


def write_baseline_of(root: Path, sizes: Sizes) -> None:
    (root / BASELINE).parent.mkdir()
    write_baseline(root, sizes)
    assert read_baseline(root) == sizes


def test_of_two_merged_lines_the_smaller_number_holds(tmp_path: Path) -> None:
    write_baseline_of(tmp_path, {PLACE: 20})
    with (tmp_path / BASELINE).open("a") as file:
        file.write(f"{PLACE[0]} {PLACE[1]} 19\n{PLACE[0]} {PLACE[1]} 21\n")
    assert read_baseline(tmp_path) == {PLACE: 19}


def measured(source: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Everything in a source, as if no limit allowed anything; by measure and name."""
    for name in LIMITS:
        monkeypatch.setitem(LIMITS, name, 0)
    found = measure(ast.parse(dedent(source)), "a.py")
    return {
        f"{name} {place.removeprefix('a.py').lstrip(':')}".strip(): number for (name, place), number in found.items()
    }


def test_what_counts_of_a_class(monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
        class Log:
            __slots__ = ("start", "_end")
            LIMIT: ClassVar[int] = 3
            size: int
            def __init__(self, size, *, start=0):
                self.size, self._end = size, 0
            def append(self): self.count = 1
            @property
            def end(self): return self._end
        """
    assert measured(source, monkeypatch) == {
        "attributes Log": 4,
        "methods Log": 2,
        "parameters Log.__init__": 2,
    }


def test_what_counts_as_a_write_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
        class Reader:
            def read(self, log):
                self.log = log
                log.position = 1
                self.log.position += 1
                del log.buffer
                made = Segment(log)
                made.base = 7
                found = log.find(7)
                found.base = 8

        def new(cls):
            log = cls.__new__(cls)
            log.position = 0
            return log
        """
    assert measured(source, monkeypatch)["outside-writes"] == 4


def test_what_is_within_its_limit_is_not_in_the_list(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    parameters = ", ".join(f"p{number}" for number in range(LIMITS["parameters"]))
    (tmp_path / "src" / "a.py").write_text(f"def edge({parameters}): ...\ndef over({parameters}, more): ...\n")
    assert measure_all(tmp_path) == {("parameters", "src/a.py:over"): LIMITS["parameters"] + 1}


@pytest.mark.parametrize(
    ("sizes", "baseline", "says"),
    [
        ({}, {}, []),
        ({PLACE: 20}, {PLACE: 20}, []),
        ({PLACE: 20}, {}, ["src/a.py:Broker: 20 methods, at most 15: split it, or run `python tools/check_"]),
        ({PLACE: 21}, {PLACE: 20}, ["src/a.py:Broker: 21 methods, tools/sizes.txt allows 20: make room, or run `"]),
        (
            {PLACE: 19},
            {PLACE: 20},
            ["src/a.py:Broker has 19 methods and had 20: run `python tools/check_sizes.py"],
        ),
        ({}, {PLACE: 20}, ["src/a.py:Broker is within the limit of methods or gone: run `python tools/check_sizes.py"]),
        ({("methods", "src/b.py:Broker"): 20}, {PLACE: 20}, ["src/b.py:Broker has moved with its 20 methods: run `"]),
    ],
)
def test_the_list_only_shrinks(sizes: Sizes, baseline: Sizes, says: list[str]) -> None:
    lines = list(compare(sizes, baseline))
    assert [line.startswith(start) for line, start in zip(lines, says, strict=True)] == [True] * len(says), lines


def test_an_update_lowers_moves_and_forgets_but_never_allows_more() -> None:
    grown, new, moved, larger = (("methods", f"src/{name}.py:X{name}") for name in ("grown", "new", "moved", "larger"))
    baseline = {
        PLACE: 20,
        grown: 20,
        ("methods", "src/old.py:Xmoved"): 20,
        ("methods", "src/old.py:Xlarger"): 20,
        ("methods", "src/gone.py:Gone"): 20,
    }
    sizes = {PLACE: 18, grown: 22, new: 16, moved: 19, larger: 21}
    assert lower(sizes, baseline) == {PLACE: 18, grown: 20, moved: 19}
    assert len(list(compare(sizes, lower(sizes, baseline)))) == 3, "grown, new, and moved with growth"
