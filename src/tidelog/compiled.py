"""Uses the compiled form of the data path where there is one that fits the sources, and plain Python everywhere else.

`tools/compile_modules.py` translates the modules named in pyproject.toml with mypyc into one library in `_compiled`
and writes beside it what it was made from. The library is used as a whole or not at all: if any of those sources has
changed since, every module is imported from its source, so an edit is never hidden by something compiled earlier.
`TIDELOG_COMPILED=0` asks for plain Python, `TIDELOG_COMPILED=1` makes it an error when that is all there is.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from importlib.util import module_from_spec, source_hash, spec_from_file_location, spec_from_loader
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

VARIABLE = "TIDELOG_COMPILED"
LIBRARY = "tidelog_data_path__mypyc"
"""mypyc's name of the library: `<group>__mypyc`."""
LOADER = "tidelog_data_path_modules"
"""The second module in the same file: it begins a compiled module by name."""
PACKAGE = os.path.dirname(os.path.abspath(__file__))
DIRECTORY = os.path.join(PACKAGE, "_compiled")


def library_path() -> str:
    """One per Python version and platform, so that several can share a checkout."""
    return os.path.join(DIRECTORY, LIBRARY + EXTENSION_SUFFIXES[0])


def manifest_path() -> str:
    return library_path() + ".sources"


def source_path(name: str) -> str:
    """Where the source of a module is; packages are named with `.__init__`."""
    return os.path.join(os.path.dirname(PACKAGE), *name.split(".")) + ".py"


def describe_source(name: str) -> str:
    """One line of the manifest after the module's role: what `is_unchanged` compares."""
    path = source_path(name)
    found = os.stat(path)
    with open(path, "rb") as file:
        return f"{found.st_size} {found.st_mtime_ns} {source_hash(file.read()).hex()} {name}"


def is_unchanged(size: int, mtime_ns: int, content_hash: str, name: str) -> bool:
    """A file of the same size and time is taken for the same, as Python does for bytecode; else its bytes count."""
    try:
        found = os.stat(source_path(name))
        if found.st_size != size:
            return False
        if found.st_mtime_ns == mtime_ns:
            return True
        with open(source_path(name), "rb") as file:
            return source_hash(file.read()).hex() == content_hash
    except OSError:
        return False


def read_manifest() -> tuple[frozenset[str], str]:
    """The modules that may be imported compiled, and if there are none, why not."""
    try:
        with open(manifest_path(), encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError:
        return frozenset(), "it was not compiled"
    names = []
    for line in lines:
        role, size, mtime_ns, content_hash, name = line.split()
        if not is_unchanged(int(size), int(mtime_ns), content_hash, name):
            return frozenset(), f"{name} has changed since it was compiled"
        if role == "compiled":
            names.append(name)
    return frozenset(names), ""


class CompiledFinder:
    """Goes before Python's own finders and answers for the compiled modules only."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names
        self._begin: Callable[[str], ModuleType] | None = None

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self.names:
            return None
        return spec_from_loader(name, self, origin=source_path(name))  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        begin = self._begin
        if begin is None:
            begin = self._begin = self._load_library()
        return begin(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Creating a compiled module has run it already. Asked where it comes from, it names the source."""
        module.__file__ = source_path(module.__name__)

    @staticmethod
    def _load_library() -> Callable[[str], ModuleType]:
        path = library_path()
        for name in (LIBRARY, LOADER):
            spec = spec_from_file_location(name, path, loader=ExtensionFileLoader(name, path))
            assert spec is not None
            assert spec.loader is not None
            sys.modules[name] = module_from_spec(spec)
            spec.loader.exec_module(sys.modules[name])
        begin: Callable[[str], ModuleType] = sys.modules[LOADER].begin
        return begin


_finder: CompiledFinder | None = None
_why_not = "it was not asked for"


def install() -> None:
    """Called once, before the first module below this package is imported."""
    global _finder, _why_not
    wish = os.environ.get(VARIABLE, "")
    if wish == "0":
        _why_not = f"{VARIABLE}=0"
        return
    names, _why_not = read_manifest()
    if names:
        _finder = CompiledFinder(names)
        sys.meta_path.insert(0, _finder)
    elif wish == "1":
        raise ImportError(f"{VARIABLE}=1, but the data path is plain Python: {_why_not}")


def disable() -> None:
    """Plain Python from here on, for tests that look inside; only before anything compiled was imported."""
    global _finder, _why_not
    if _finder is not None:
        assert LIBRARY not in sys.modules, "too late: compiled modules are in use"
        sys.meta_path.remove(_finder)
        _finder, _why_not = None, "it was turned off"


def is_compiled() -> bool:
    return _finder is not None


def describe() -> str:
    """For people: how the data path runs in this process."""
    return "compiled data path" if _finder is not None else f"plain Python data path: {_why_not}"
