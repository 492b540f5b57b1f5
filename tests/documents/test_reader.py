"""The reader itself: networks with and without a namespace, what counts as shown, what a failure says."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.documents.network import Network, NoNetwork, on_loopback
from tests.documents.reader import Reader, matches
from tests.documents.shared_jvm import SharedJvm
from tests.documents.terminals import CommandFailed
from tests.servers.broker_process import free_port

ROOT = Path(__file__).parents[2]

PAGE = """
```bash
tidelog serve --data ./data/node --listen 127.0.0.1:{port}
```

```bash
export TIDELOG_BOOTSTRAP=127.0.0.1:{port}
tidelog topics create orders
```

```console
$ tidelog topics list
topic   partitions  replication
orders  {shown}  1
```
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """One with nothing in it but a page, and the environment that runs the tests."""
    root = tmp_path / "repository"
    root.mkdir()
    (root / ".venv").symlink_to(ROOT / ".venv")
    (root / ".gitignore").write_text(".venv\n/data/\n")
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    return root


@pytest.fixture
def network_of_the_machine() -> Iterator[tuple[Network, int]]:
    port = free_port()
    with Network(namespaces=False, ports=(port,)) as network:
        yield network, port


def follow(repository: Path, network: Network, text: str) -> None:
    (repository / "page.md").write_text(text)
    copy = repository.with_name("copy")
    copy.mkdir()
    reader = Reader(repository, network, SharedJvm(network.enter, copy))
    try:
        reader.follow(Path("page.md"))
        assert reader.untracked_files() == []
    finally:
        reader.close()
    assert list(copy.iterdir()) == []


def test_without_namespaces_the_network_of_the_machine_will_do(
    repository: Path, network_of_the_machine: tuple[Network, int]
) -> None:
    network, port = network_of_the_machine
    assert network.enter == []
    follow(repository, network, PAGE.format(port=port, shown=1))


def test_something_else_than_shown_is_told_with_its_place(
    repository: Path, network_of_the_machine: tuple[Network, int]
) -> None:
    network, port = network_of_the_machine
    with pytest.raises(CommandFailed, match=r"^page.md:12: `tidelog topics list` printed"):
        follow(repository, network, PAGE.format(port=port, shown="many"))


def test_a_command_that_fails_is_told_with_its_place(repository: Path) -> None:
    with Network(namespaces=False, ports=()) as network, pytest.raises(CommandFailed, match=r"^page.md:3: .*code 3"):
        follow(repository, network, "```bash\ntrue\n(exit 3)\n```\n")


def test_a_command_that_is_to_fail_fails(repository: Path) -> None:
    text = "```console fails\n$ ls /absent\nls: ...No such file...\n$ echo well\nwell\n```\n"
    with Network(namespaces=False, ports=()) as network, pytest.raises(CommandFailed, match=r"^page.md:4: .*code 0"):
        follow(repository, network, text)


def test_what_needs_a_program_that_is_not_here_is_left_out(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.documents.reader.shutil.which", lambda name: None if name == "mvn" else f"/bin/{name}")
    text = """
```bash
mkdir tools && cd tools
mvn package
```

```bash
tool() { java -version; }
echo something | tool
echo something | mvn validate
cd ..
false
```
"""
    with Network(namespaces=False, ports=()) as network, pytest.raises(CommandFailed, match=r"`false`") as raised:
        follow(repository, network, text)
    assert raised.value.args[0].startswith("page.md:12: ")


def test_settings_and_pipelines_are_checked(repository: Path) -> None:
    good = "```yaml\nstorage:\n  log.retention.ms: 60000\n```\n"
    bad = "```yaml\nsources:\n  orders: {topik: orders}\nsinks:\n  shown: {from: orders, console: true}\n```\n"
    with (
        Network(namespaces=False, ports=()) as network,
        pytest.raises(CommandFailed, match=r"(?s)^page.md:7: .*orders needs one of"),
    ):
        follow(repository, network, f"{good}\n{bad}")


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(NoNetwork, match=f"port {port} "), Network(namespaces=False, ports=(port,)):
            pass


def test_other_machines_are_on_loopback() -> None:
    assert on_loopback("--join 10.0.0.1:9092,10.0.0.12:9092") == "--join 127.10.0.1:9092,127.10.0.12:9092"
    assert on_loopback("110.0.0.1 and 10.0.1.1") == "110.0.0.1 and 10.0.1.1"


def test_numbers_and_dots_stand_for_others() -> None:
    assert matches("3 records, 1.25 s", "10,000   records, 0.5 s\n")
    assert matches('{"id": 1, ...}', '{"id": 7, "amount": 2}')
    assert not matches("3 records", "3 records lost")
    assert not matches("orders", "order")
