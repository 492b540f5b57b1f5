"""A real Apache Kafka 4.3.1: jars resolved once by Maven, storage formatted, one combined broker and controller.

Settings are Kafka's stock ones (tests/servers/kafka/server.properties) and the JVM flags those of Kafka's own start
scripts with their 1 GiB heap. The jars are kept under `$XDG_CACHE_HOME/tidelog` (default `~/.cache/tidelog`).
"""

from __future__ import annotations

import base64
import fcntl
import os
import shutil
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template

from tests.servers.broker_process import BrokerFailure, BrokerProcess, end_with_parent, free_port, port_answers
from tests.waiting import wait_until

VERSION = "4.3.1"
DEFINITIONS = Path(__file__).parent / "kafka"
JVM_FLAGS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
HEAP_FLAGS = ("-Xmx1G", "-Xms1G")
START_TIMEOUT_S = 90.0


class MissingTool(Exception):
    """Java or Maven is not on this machine, or the jars cannot be had."""


def java() -> str:
    found = shutil.which("java")
    if found is None:
        raise MissingTool("java: not found on PATH (Java 17 or newer is needed)")
    return found


def resolve_jars() -> Path:
    """The directory with Kafka's jars."""
    return fetch_jars(f"kafka-{VERSION}", DEFINITIONS / "pom.xml")


def fetch_jars(name: str, pom: Path) -> Path:
    """The directory with the jars that a pom asks for; the first call on a machine fetches them with Maven."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    directory = cache / "tidelog" / name
    complete = directory / ".complete"
    if complete.exists():
        return directory
    maven = shutil.which("mvn")
    if maven is None:
        raise MissingTool("mvn: not found on PATH (Maven fetches Apache Kafka's jars)")
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists():
            goal = ("dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={directory}")
            command = [maven, "-q", "-B", "-f", str(pom), *goal]
            result = subprocess.run(command, capture_output=True, text=True, check=False)
            if result.returncode != 0:
                raise MissingTool(f"Maven could not fetch {name}: {result.stdout[-2000:]}")
            complete.touch()
    return directory


def class_path() -> str:
    return f"{resolve_jars()}/*"


def tool_command(class_name: str, *arguments: str, heap: str = "256M") -> list[str]:
    """The command line of one of Kafka's own tools, as its wrapper scripts would run it."""
    log_config = f"-Dlog4j2.configurationFile={DEFINITIONS / 'tools-log4j2.yaml'}"
    return [java(), f"-Xmx{heap}", *JVM_FLAGS, log_config, "-cp", class_path(), class_name, *arguments]


def write_settings(directory: Path, port: int, settings: Mapping[str, str]) -> Path:
    template = Template((DEFINITIONS / "server.properties").read_text())
    text = template.substitute(PORT=port, CONTROLLER_PORT=free_port(), DATA=directory / "data")
    path = directory / "server.properties"
    # A later line of a properties file replaces an earlier one of the same name.
    path.write_text(text + "".join(f"{name}={value}\n" for name, value in settings.items()))
    return path


def _format(directory: Path, settings_path: Path) -> None:
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    # The storage tool takes an id with a leading dash for an option.
    cluster_id = "A" + cluster_id[1:]
    arguments = ("format", "--standalone", "-t", cluster_id, "-c", str(settings_path))
    result = subprocess.run(
        tool_command("kafka.tools.StorageTool", *arguments), capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        raise BrokerFailure(f"formatting {directory} failed: {result.stdout}{result.stderr}")


def prepare_kafka(directory: Path, *, port: int | None = None, settings: Mapping[str, str] | None = None) -> int:
    """Write the settings and format the storage, once per directory; returns the port."""
    directory.mkdir(parents=True, exist_ok=True)
    settings_path = directory / "server.properties"
    if settings_path.exists():
        text = settings_path.read_text()
        return int(text.partition("listeners=PLAINTEXT://127.0.0.1:")[2].partition(",")[0])
    chosen = port if port is not None else free_port()
    (directory / "logs").mkdir(exist_ok=True)
    _format(directory, write_settings(directory, chosen, settings or {}))
    return chosen


def spawn_kafka(directory: Path, port: int, *, heap_flags: Sequence[str] = HEAP_FLAGS) -> BrokerProcess:
    """Start the process on a prepared directory without waiting for anything."""
    logs = directory / "logs"
    command = [
        java(),
        *heap_flags,
        *JVM_FLAGS,
        f"-Xlog:gc*:file={logs / 'gc.log'}:time,tags:filecount=10,filesize=100M",
        f"-Dkafka.logs.dir={logs}",
        f"-Dlog4j2.configurationFile={DEFINITIONS / 'broker-log4j2.yaml'}",
        "-cp",
        class_path(),
        "kafka.Kafka",
        str(directory / "server.properties"),
    ]
    output = logs / "output"
    with output.open("ab") as sink:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=end_with_parent,
        )
    return BrokerProcess(kind="kafka", port=port, data=directory / "data", output=output, process=process)


def start_kafka(
    directory: Path, *, port: int | None = None, settings: Mapping[str, str] | None = None
) -> BrokerProcess:
    """Format when needed, start, and return when the port answers."""
    broker = spawn_kafka(directory, prepare_kafka(directory, port=port, settings=settings))
    try:
        wait_until(lambda: not broker.alive() or port_answers(broker.port), "Kafka's port answers", START_TIMEOUT_S)
    except TimeoutError:
        broker.kill()
        raise
    if not broker.alive():
        raise BrokerFailure(f"Kafka ended at start: {broker.log_text()[-2000:]}")
    return broker
