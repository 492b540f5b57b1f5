"""A reader who does what a document says: saves its files, types its commands, opens terminals, compares what is shown.

The reader sits in a copy of the repository with the `.venv` that runs the tests, and ends what holds an address before
something else is started on it. An install command of a client's library runs where there is a network.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from itertools import count
from pathlib import Path

from tests.documents.addresses import addresses_of_server
from tests.documents.blocks import SHELL_LANGUAGES, Block, Command, commands, read_blocks
from tests.documents.network import Network, on_loopback
from tests.documents.not_run import why_not_read, why_not_run
from tests.documents.shared_jvm import SharedJvm
from tests.documents.terminals import COMMAND_SECONDS_MAX, CommandFailed, Shell, Terminal

FOREIGN_PROGRAMS = (
    "kcat",
    "go",
    "mvn",
    "java",
    "javac",
    "node",
    "npm",
    "systemd-analyze",
    "promtool",
    "openssl",
    "curl",
)
"""Programs that a machine may lack; a document's other commands are run all the same."""
_FOREIGN_PROGRAM = re.compile(rf"(?:^|[|;&({{]\s*)({'|'.join(FOREIGN_PROGRAMS)})\b", re.MULTILINE)
_FUNCTION = re.compile(r"(?P<name>[\w.-]+)\(\) *\{")
BUILD_SECONDS_MAX = 240.0
"""`go run` compiles the libraries first, where that was not done before."""
_FROM_THE_NETWORK = re.compile(r"(go (mod|get)|npm (install|ci)|mvn(?! .*(-o|--offline)))\b")
_SPARK = re.compile(r"tidelog (pipeline (run|plan)|archive|replay|audit|compact)\b|tidelog\.pipelines|pyspark")
_MARKS = (".created", ".runtime-installed", ".compile-tools-installed", ".dev-installed", ".spark-installed")
_READY = re.compile(r"\bready\b|\brunning\b", re.IGNORECASE)
_NUMBER = re.compile(r"\\?-?\d(?:[\d,:]|\\\.|\\-)*")


class Reader:
    def __init__(self, root: Path, network: Network, jvm: SharedJvm) -> None:
        """`root` is the repository; the copy is in the directory of the JVM, which has to be empty."""
        directory = self._directory = jvm.directory
        self._network = network
        self._jvm = jvm
        self._terminals: list[tuple[Terminal, set[str]]] = []
        self._numbers = count(1)
        self._logs = directory.with_name(f"{directory.name}-terminals")
        self._logs.mkdir(exist_ok=True)
        self._config = directory.with_name(f"{directory.name}-config")
        self.left_out: list[str] = []
        """Commands whose program this machine lacks."""
        self._without_libraries: dict[Path, str] = {}
        self._functions_left_out: dict[str, str] = {}
        _copy_repository(root, directory)
        self._root = root
        self._shell = Shell(directory, _environment(root, self._config), network.enter)

    def follow(self, document: Path) -> None:
        """Does everything that `document` says; raises CommandFailed with the place of what did not work."""
        blocks = [block for block in read_blocks(self._root, document) if why_not_read(block) is None]
        for block in blocks:
            if block.words and block.language not in SHELL_LANGUAGES:
                self._save(block)
            elif block.language == "python":
                self._run_program(block)
            elif block.language == "yaml":
                self._check_settings(block)
            else:
                for command in commands(block):
                    self._run(command)
        for terminal, _ in self._terminals:
            terminal.interrupt()
        self._terminals.clear()

    def close(self) -> None:
        for terminal, _ in self._terminals:
            terminal.kill()
        self._shell.close()
        self._jvm.stop_what_is_left()
        shutil.rmtree(self._config, ignore_errors=True)
        for path in self._directory.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()

    def untracked_files(self) -> list[str]:
        """What git would show as new in the copy, leaving out the files that a document says to save."""
        listed = subprocess.run(
            ["git", "status", "--porcelain", "--untracked-files=all"],
            cwd=self._directory,
            capture_output=True,
            text=True,
            check=True,
        )
        return [line[3:] for line in listed.stdout.splitlines() if line.startswith("??")]

    def _save(self, block: Block) -> None:
        target = self._shell.directory / block.words[0]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(on_loopback(block.text))

    def _run_program(self, block: Block) -> None:
        name = f".program-{next(self._numbers)}.py"
        program = self._shell.directory / name
        program.write_text(on_loopback(block.text))
        self._run(Command(place=block.place, text=f"python {name}"), uses_spark=bool(_SPARK.search(block.text)))
        program.unlink()

    def _check_settings(self, block: Block) -> None:
        """A pipeline or the settings of a node; other YAML is a file that a command uses."""
        name = f"settings-{next(self._numbers)}.yaml"
        settings = self._shell.directory / name
        settings.write_text(on_loopback(block.text))
        check = "pipeline validate" if re.search(r"^(sources|sinks):", block.text, re.MULTILINE) else "config --file"
        self._run(Command(place=block.place, text=f"tidelog {check} {name}"))
        settings.unlink()

    def _run(self, command: Command, *, uses_spark: bool = False) -> None:
        if why_not_run(command) is not None:
            return
        if lacking := self._what_is_lacking(command.text):
            self.left_out.append(f"{lacking} ({command.place})")
            return
        text = on_loopback(command.text)
        try:
            if uses_spark or _SPARK.search(text):
                self._use_spark()
            addresses = addresses_of_server(text, self._shell)
            if addresses or command.in_own_terminal:
                self._start_server(text, addresses)
            elif _FROM_THE_NETWORK.match(text):
                self._run_outside(text)
            else:
                self._run_to_its_end(text, command)
        except CommandFailed as error:
            raise CommandFailed(f"{command.place}: {error}{self._what_servers_say()}") from None

    def _what_is_lacking(self, text: str) -> str | None:
        """The missing program that the command needs, or that would have fetched the libraries of this directory."""
        used: list[str] = _FOREIGN_PROGRAM.findall(text)
        lacking = next((program for program in used if shutil.which(program) is None), None)
        if lacking is None and used:
            lacking = self._without_libraries.get(self._shell.directory)
        if lacking is None:
            return next((why for name, why in self._functions_left_out.items() if name in text.split()), None)
        if _FROM_THE_NETWORK.match(text):
            self._without_libraries[self._shell.directory] = lacking
        if function := _FUNCTION.match(text):
            self._functions_left_out[function["name"]] = lacking
        return lacking

    def _use_spark(self) -> None:
        for name, value in self._jvm.variables().items():
            self._shell.run(f"export {name}={value}")
        self._jvm.stop_what_is_left()

    def _start_server(self, text: str, addresses: set[str]) -> None:
        for other in [pair for pair in self._terminals if pair[1] & addresses]:
            self._terminals.remove(other)
            other[0].interrupt()
        log = self._logs / f"{next(self._numbers)}.log"
        shell = self._shell
        terminal = Terminal(text, shell.directory, shell.environment, self._network.enter, log)
        self._terminals.append((terminal, addresses))
        terminal.wait_until(lambda printed: bool(_READY.search(printed)))

    def _run_outside(self, text: str) -> None:
        """Libraries come from registries: these commands run in the machine's own network."""
        done = subprocess.run(
            ["bash", "-c", text],
            cwd=self._shell.directory,
            env=self._shell.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_SECONDS_MAX,
        )
        if done.returncode:
            raise CommandFailed(f"`{text}` ended with code {done.returncode}:\n{done.stdout}{done.stderr}")

    def _run_to_its_end(self, text: str, command: Command) -> None:
        printed, code = self._shell.run(text, BUILD_SECONDS_MAX if text.startswith("go ") else COMMAND_SECONDS_MAX)
        if bool(code) != command.fails:
            raise CommandFailed(f"`{text}` ended with code {code}; it printed:\n{printed}")
        if command.shown is not None and not matches(command.shown, printed):
            raise CommandFailed(f"`{text}` printed\n{printed}\nand the document shows\n{command.shown}")

    def _what_servers_say(self) -> str:
        said = [f"\n`{terminal.text}` printed:\n{terminal.printed[-2000:]}" for terminal, _ in self._terminals]
        return "".join(said)


def matches(shown: str, printed: str) -> bool:
    """Numbers may differ, and so may white space; `...` stands for anything."""
    pattern = re.escape(" ".join(shown.split()))
    pattern = pattern.replace(r"\.\.\.", "\0").replace(r"\ ", " ")
    pattern = _NUMBER.sub(lambda _: r"-?\\d[\\d,.:\\-]*".replace("\\\\", "\\"), pattern)
    pattern = pattern.replace("\0", ".*")
    return re.fullmatch(pattern, " ".join(printed.split()), re.DOTALL) is not None


def _copy_repository(root: Path, directory: Path) -> None:
    """The files that git knows, as a clone has them, and the environment that is installed already."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        check=True,
    )
    for name in listed.stdout.decode().split("\0"):
        source = root / name
        if name and source.is_file():
            target = directory / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    _link_environment(root / ".venv", directory / ".venv")
    for command in (["init", "--quiet"], ["add", "--all"]):
        subprocess.run(["git", *command], cwd=directory, check=True, capture_output=True)


def _link_environment(installed: Path, target: Path) -> None:
    """The marks that tell make what is installed are the copy's own and new: it installs nothing through the links."""
    target.mkdir()
    for path in installed.iterdir():
        if not path.name.endswith("-installed") and path.name != ".created":
            os.symlink(path, target / path.name)
    for name in _MARKS:
        (target / name).touch()


def _environment(root: Path, config: Path) -> Mapping[str, str]:
    """That of a reader who has activated the environment: nothing of the tests' own settings, a `config` of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TIDELOG_", "PYTEST_"))}
    kept.pop("PYTHONPATH", None)
    # Go keeps in ~/.config where it fetches modules from.
    home = Path(kept.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return {
        "GOENV": str(home / "go" / "env"),
        **kept,
        "XDG_CONFIG_HOME": str(config),
        # pip may find that everything is there, but not change the environment that runs the tests.
        "PIP_NO_INDEX": "1",
        "PATH": f"{root / '.venv' / 'bin'}{os.pathsep}{kept.get('PATH', '')}",
    }
