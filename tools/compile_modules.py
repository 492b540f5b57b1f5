"""Compiles the modules listed in pyproject.toml (`tool.tidelog.compiled`) with mypyc into one library.

Optional: without a C compiler, or when anything goes wrong, the package stays plain Python and one line says so
(`--require` makes that a failure). Nothing is done when the library fits the sources already. What is made, and how it
is found again, is described in `src/tidelog/compiled.py`.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
sys.path.insert(0, str(SRC))

from tidelog import compiled  # noqa: E402

BUILD = ROOT / "build" / "compiled"
GROUP = "tidelog_data_path"
FLAGS = ("-O1", "-g0", "-fPIC", "-DNDEBUG", "-fno-strict-overflow", "-fvisibility=hidden", "-w")

_LOADER = """\
#include <Python.h>
{declarations}
static const struct {{ const char *name; PyObject *(*begin)(void); }} modules[] = {{
{rows}
}};

static PyObject *begin(PyObject *self, PyObject *name) {{
    for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++)
        if (PyUnicode_CompareWithASCIIString(name, modules[i].name) == 0)
            return modules[i].begin();
    return PyErr_Format(PyExc_ImportError, "no compiled module %R", name);
}}

static PyMethodDef methods[] = {{{{"begin", begin, METH_O, "Begin a compiled module by its name."}}, {{NULL}}}};
static struct PyModuleDef definition = {{PyModuleDef_HEAD_INIT, "{loader}", NULL, -1, methods}};
PyMODINIT_FUNC PyInit_{loader}(void) {{ return PyModule_Create(&definition); }}
"""


class CannotCompile(Exception):
    """The message says in one line what is missing or wrong."""


def find_compiler() -> list[str]:
    for candidate in (os.environ.get("CC", ""), sysconfig.get_config_var("CC") or "", "cc", "gcc", "clang"):
        command = shlex.split(candidate)
        if command and shutil.which(command[0]):
            break
    else:
        raise CannotCompile("there is no C compiler")
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        raise CannotCompile("Python's C headers (python3-dev) are not installed")
    return command


def all_modules() -> list[str]:
    return sorted(".".join(path.relative_to(SRC).with_suffix("").parts) for path in (SRC / "tidelog").rglob("*.py"))


def listed_modules() -> list[str]:
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["tidelog"]["compiled"]
    known = all_modules()
    modules = [name for name in known if any(fnmatchcase(name, pattern) for pattern in patterns)]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known):
            raise CannotCompile(f"no module is called {pattern}")
    return [name for name in modules if not name.endswith(".__init__")]


def translate(modules: list[str]) -> tuple[list[Path], list[str]]:
    """The C files, and every module of this package they were made from: types and constants come from others too."""
    from mypy.errors import CompileError
    from mypy.fscache import FileSystemCache
    from mypyc.build import construct_groups, get_mypy_config
    from mypyc.codegen import emitmodule
    from mypyc.common import RUNTIME_C_FILES
    from mypyc.errors import Errors
    from mypyc.options import CompilerOptions

    settings = CompilerOptions(multi_file=True, target_dir=str(BUILD), group_name=GROUP)
    cache = FileSystemCache()
    # Tracebacks name the files as they are named here. Python looks for such names below sys.path, so they are found
    # wherever the package is installed.
    paths = [os.path.join(*name.split(".")) + ".py" for name in modules]
    os.chdir(SRC)
    sources, everything, options = get_mypy_config(
        ["--config-file", str(ROOT / "pyproject.toml"), "--no-warn-unused-ignores", *paths], None, settings, cache
    )
    options.mypy_path = []
    groups = construct_groups(sources, False, True, GROUP)
    try:
        result = emitmodule.parse_and_typecheck(everything, options, settings, groups, cache)
    except CompileError as error:
        raise CannotCompile("; ".join(error.messages[:3])) from None
    if result.errors:
        raise CannotCompile(f"mypy is not content: {result.errors[0]}")
    seen = [
        state.id + ".__init__" * state.path.endswith("__init__.py") for state in result.graph.values() if state.path
    ]
    problems = Errors(options)
    translated, written, _ = emitmodule.compile_modules_to_c(result, settings, problems, groups)
    result.manager.metastore.close()
    if problems.num_errors:
        [first, *_] = [text for text in problems.new_messages() if ": error: " in text]
        raise CannotCompile(f"mypyc cannot translate it: {first}")
    for name, text in written[0]:
        (BUILD / name).write_text(text)
    files = [BUILD / name for name, _ in written[0] if name.endswith(".c")]
    extras = [dependency.path for dependency in emitmodule.collect_source_dependencies(translated)]
    files += [runtime_directory() / name for name in (*RUNTIME_C_FILES, *sorted(extras))]
    return files, sorted(name for name in seen if name.partition(".")[0] == "tidelog")


def runtime_directory() -> Path:
    import mypyc

    return Path(mypyc.__file__).parent / "lib-rt"


def write_loader(modules: list[str]) -> Path:
    names = [(name, "CPyInit_" + name.replace(".", "___")) for name in modules]
    text = _LOADER.format(
        declarations="\n".join(f"PyObject *{function}(void);" for _, function in names),
        rows="\n".join(f'    {{"{name}", {function}}},' for name, function in names),
        loader=compiled.LOADER,
    )
    path = BUILD / "loader.c"
    path.write_text(text)
    return path


def compile_all(compiler: list[str], files: list[Path], library: Path) -> None:
    """Each file on its own, as many at a time as there are processors; what has not changed is kept from last time."""
    includes = [f"-I{sysconfig.get_path('include')}", f"-I{runtime_directory()}", f"-I{BUILD}"]
    command = [*compiler, *FLAGS, *shlex.split(os.environ.get("CFLAGS", "")), *includes, "-c"]
    headers = hashlib.sha256(" ".join(command).encode())
    for header in sorted(BUILD.glob("*.h")):
        headers.update(header.read_bytes())

    def compile_one(file: Path) -> Path:
        digest = headers.copy()
        digest.update(file.read_bytes())
        target = BUILD / f"{file.stem}-{digest.hexdigest()[:16]}.o"
        if not target.exists():
            run([*command, str(file), "-o", str(target) + ".part"])
            os.replace(str(target) + ".part", target)
        return target

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        objects = list(pool.map(compile_one, sorted(files, key=lambda file: -file.stat().st_size)))
    for leftover in set(BUILD.glob("*.o")) - set(objects):
        leftover.unlink()
    part = library.with_suffix(".part")
    run([*compiler, "-shared", *map(str, objects), "-o", str(part)])
    os.replace(part, library)


def run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines() or ["?"]
        raise CannotCompile(f"{command[0]} failed: {lines[0]}")


def check(modules: list[str]) -> None:
    """A library that cannot be imported is none."""
    code = "import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]"
    environment = {**os.environ, "PYTHONPATH": str(SRC), compiled.VARIABLE: "1"}
    done = subprocess.run(
        [sys.executable, "-c", code, *modules], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise CannotCompile(f"it cannot be imported: {(done.stderr.splitlines() or ['?'])[-1]}")


def build() -> None:
    compiler = find_compiler()
    modules = listed_modules()
    library = Path(compiled.library_path())
    manifest = Path(compiled.manifest_path())
    say(f"compiling the data path ({len(modules)} modules; this takes a minute)")
    started = time.monotonic()
    for directory in (BUILD, library.parent):
        directory.mkdir(parents=True, exist_ok=True)
    manifest.unlink(missing_ok=True)
    # Taken first: a source that is edited meanwhile must not pass for what was compiled.
    described = {name: compiled.describe_source(name) for name in all_modules()}
    files, seen = translate(modules)
    compile_all(compiler, [*files, write_loader(modules)], library)
    roles = [f"{'compiled' if name in modules else 'used'} {described[name]}" for name in seen]
    manifest.write_text("\n".join(roles) + "\n")
    try:
        check(modules)
    except CannotCompile:
        manifest.unlink()
        raise
    say(f"compiled in {time.monotonic() - started:.0f} s; TIDELOG_COMPILED=0 runs plain Python instead")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--require", action="store_true", help="fail when it cannot be compiled")
    parser.add_argument("--force", action="store_true", help="compile even if nothing has changed")
    parser.add_argument("--can", action="store_true", help="only say whether this machine could (exit code 0)")
    args = parser.parse_args()
    try:
        if args.can:
            find_compiler()
        elif args.force or set(compiled.read_manifest()[0]) != set(listed_modules()):
            build()
    except CannotCompile as error:
        if args.require:
            say(f"the data path cannot be compiled: {error}")
        else:
            say(f"Tidelog runs as plain Python, which is slower and otherwise the same: {error}")
        return 1 if args.require or args.can else 0
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
