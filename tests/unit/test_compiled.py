"""The compiled data path is used only where it fits its sources, and the sources avoid what mypyc gets wrong."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tools.compile_modules import listed_modules

from tidelog import compiled


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package `tidelog` of two modules that claims to be compiled."""
    directory = tmp_path / "tidelog"
    monkeypatch.setattr(compiled, "PACKAGE", str(directory))
    monkeypatch.setattr(compiled, "DIRECTORY", str(directory / "_compiled"))
    (directory / "_compiled").mkdir(parents=True)
    (directory / "fast.py").write_text("LIMIT = 1\n")
    (directory / "used.py").write_text("LIMIT = 1\n")
    roles = (("compiled", "tidelog.fast"), ("used", "tidelog.used"))
    lines = [f"{role} {compiled.describe_source(name)}" for role, name in roles]
    Path(compiled.manifest_path()).write_text("\n".join(lines) + "\n")
    return directory


def test_unchanged_sources_are_used_compiled(package: Path) -> None:
    assert compiled.read_manifest() == ({"tidelog.fast"}, "")


def test_another_time_with_the_same_content_changes_nothing(package: Path) -> None:
    os.utime(package / "fast.py", ns=(1, 1))
    assert compiled.read_manifest()[0] == {"tidelog.fast"}


@pytest.mark.parametrize("name", ["fast", "used"])
@pytest.mark.parametrize("content", ["LIMIT = 2\n", "LIMIT = 10\n", None])
def test_a_changed_source_turns_all_of_it_off(package: Path, name: str, content: str | None) -> None:
    path = package / f"{name}.py"
    path.unlink()
    if content is not None:
        path.write_text(content)
        os.utime(path, ns=(1, 1))
    assert compiled.read_manifest() == (frozenset(), f"tidelog.{name} has changed since it was compiled")


def test_nothing_compiled(package: Path) -> None:
    Path(compiled.manifest_path()).unlink()
    assert compiled.read_manifest() == (frozenset(), "it was not compiled")


def run_python(source: Path, code: str, wish: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(source), compiled.VARIABLE: wish}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)


SHOW = "import tidelog.codec.varint as m, tidelog.compiled as c; print(c.is_compiled(), type(m.encode_varint).__name__)"


def test_an_edit_is_never_hidden_by_what_was_compiled(tmp_path: Path) -> None:
    if not Path(compiled.library_path()).exists() or not compiled.read_manifest()[0]:
        pytest.skip("the data path is not compiled here")
    shutil.copytree(compiled.PACKAGE, tmp_path / "tidelog", ignore=shutil.ignore_patterns("__pycache__"))
    assert run_python(tmp_path, SHOW, "1").stdout == "True builtin_function_or_method\n"
    assert run_python(tmp_path, SHOW, "0").stdout == "False function\n"
    with (tmp_path / "tidelog" / "records" / "batch.py").open("a") as file:
        file.write("\n# edited\n")
    assert run_python(tmp_path, SHOW, "").stdout == "False function\n"
    refused = run_python(tmp_path, SHOW, "1")
    assert "tidelog.records.batch has changed since it was compiled" in refused.stderr


def test_no_loop_changes_the_name_its_range_was_made_from() -> None:
    """mypyc reads the bound again in every turn, where Python has read it once."""
    offenders = []
    for name in listed_modules():
        for node in ast.walk(ast.parse(Path(compiled.source_path(name)).read_text())):
            if isinstance(node, ast.For) and isinstance(node.iter, ast.Call) and ast.unparse(node.iter.func) == "range":
                bounds = {argument.id for argument in node.iter.args if isinstance(argument, ast.Name)}
                inside = [inner for statement in node.body for inner in ast.walk(statement)]
                changed = {i.id for i in inside if isinstance(i, ast.Name) and isinstance(i.ctx, ast.Store)}
                if bounds & changed:
                    offenders.append(f"{name}:{node.lineno}")
    assert offenders == []


def test_the_name_of_a_caught_exception_has_one_type_in_its_function() -> None:
    """mypyc gives it the type it had first, and raises TypeError in the handler of the second."""
    offenders = []
    for name in listed_modules():
        for function in ast.walk(ast.parse(Path(compiled.source_path(name)).read_text())):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            inside = [inner for statement in function.body for inner in ast.walk(statement)]
            caught = {(i.name, ast.unparse(i.type)) for i in inside if isinstance(i, ast.ExceptHandler) and i.type}
            names = [caught_name for caught_name, _ in caught if caught_name is not None]
            stored = {i.id for i in inside if isinstance(i, ast.Name) and isinstance(i.ctx, ast.Store)}
            offenders += [
                f"{name}.{function.name}: {each}" for each in names if names.count(each) > 1 or each in stored
            ]
    assert offenders == []
