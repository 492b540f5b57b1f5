"""The word count as processes that can be killed, its input while it runs, and what it must have put out."""

from __future__ import annotations

import random
import signal
import struct
import subprocess
import threading
from collections import Counter, defaultdict
from pathlib import Path

from confluent_kafka import Consumer
from tests.servers.apache_kafka import DEFINITIONS, VERSION, fetch_jars, java, resolve_jars
from tests.servers.topics import new_name, produce_batch
from tests.servers.wire import Connection, NewRecord, build_batch
from tests.waiting import wait_until

WORDS = tuple(f"word{number}" for number in range(40))
SOURCES = Path(__file__).parent
START_TIMEOUT_S = 60.0


def streams_class_path() -> str:
    """Kafka Streams beside Kafka's own jars, in a folder of its own: no other suite waits for it."""
    streams = fetch_jars(f"kafka-streams-{VERSION}", SOURCES / "pom.xml")
    # Each by its name: the compiler does not know the wildcard that the launcher does.
    return ":".join(str(jar) for place in (streams, resolve_jars()) for jar in sorted(place.glob("*.jar")))


def compile_program(directory: Path) -> str:
    """The class path of the compiled program."""
    jars = streams_class_path()
    compiler = [java(), "--module", "jdk.compiler/com.sun.tools.javac.Main"]
    command = [*compiler, "-cp", jars, "-d", str(directory), str(SOURCES / "WordCount.java")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return f"{directory}:{jars}"


class Instance:
    """One process of the application, with a state directory that outlives it."""

    def __init__(self, classes: str, bootstrap: str, application: str, topics: tuple[str, str], place: Path) -> None:
        place.mkdir(parents=True, exist_ok=True)
        self._log = place / "log"
        flags = ("-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        log_config = f"-Dlog4j2.configurationFile={DEFINITIONS / 'tools-log4j2.yaml'}"
        arguments = (bootstrap, application, str(place / "state"), *topics)
        self._command = [java(), *flags, log_config, "-cp", classes, "WordCount", *arguments]
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    def start(self) -> None:
        self._log_start = self._log.stat().st_size if self._log.exists() else 0
        with self._log.open("ab") as sink:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=sink, stderr=subprocess.STDOUT, start_new_session=True
            )

    def log_text(self) -> str:
        return self._log.read_bytes()[self._log_start :].decode(errors="replace")

    def check_alive(self) -> None:
        assert self._process is not None
        assert self._process.poll() is None, f"the application ended: {self.log_text()[-5000:]}"

    def wait_running(self) -> None:
        def is_running() -> bool:
            self.check_alive()
            return "\nRUNNING\n" in f"\n{self.log_text()}"

        wait_until(is_running, "the application runs", START_TIMEOUT_S, interval_s=0.05)

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._finish()

    def close(self) -> int:
        """As a user stops it: it leaves its group and commits; the exit status."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(45)
        return self._process.returncode

    def end(self) -> None:
        """Whatever state it is in."""
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def _finish(self) -> None:
        assert self._process is not None
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(30)


class Input(threading.Thread):
    """Lines of random words, about 100 a second, until it is told to stop; knows what was acknowledged."""

    def __init__(self, port: int, topic: str, partitions: int, seed: int) -> None:
        super().__init__(name="input")
        self.expected: Counter[str] = Counter()
        self._port = port
        self._topic = topic
        self._partitions = partitions
        self._random = random.Random(seed)
        self._stop_requested = threading.Event()
        self._failure: BaseException | None = None

    def run(self) -> None:
        try:
            with Connection(self._port) as connection:
                while not self._stop_requested.wait(0.05):
                    self._write(connection)
        except BaseException as error:
            self._failure = error

    def _write(self, connection: Connection) -> None:
        lines = [self._random.choices(WORDS, k=6) for _ in range(5)]
        batch = build_batch([NewRecord(" ".join(words).encode()) for words in lines])
        partition = self._random.randrange(self._partitions)
        answer = produce_batch(connection, self._topic, batch, partition=partition)
        assert answer.error_code == 0, answer
        for words in lines:
            self.expected.update(words)

    def finish(self) -> Counter[str]:
        self._stop_requested.set()
        self.join(30)
        assert self._failure is None, self._failure
        return self.expected


class Output:
    """What a read_committed consumer has seen: every count of every word, in order."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.counts: dict[str, list[int]] = defaultdict(list)
        self.total = 0
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": new_name("output"),
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        self._consumer.subscribe([topic])

    def wait_total(self, total: int, instances: list[Instance], timeout_s: float) -> None:
        def are_counted() -> bool:
            for instance in instances:
                instance.check_alive()
            self.poll()
            return self.total >= total

        def describe() -> str:
            logs = "".join(instance.log_text()[-3000:] for instance in instances)
            return f"{total} words, counted {self.total}\n{logs}"

        if self.total < total:
            wait_until(are_counted, describe, timeout_s)

    def poll(self, timeout_s: float = 0.2) -> None:
        for message in self._consumer.consume(1000, timeout_s):
            assert message.error() is None, message.error()
            self.counts[message.key().decode()].append(struct.unpack(">q", message.value())[0])
            self.total += 1

    def check(self, expected: Counter[str]) -> None:
        """Exactly once: each word's counts are 1, 2, 3 up to how often it was written, each once and in order."""
        assert {word: counts[-1] for word, counts in self.counts.items()} == dict(expected)
        for word, counts in self.counts.items():
            assert counts == list(range(1, expected[word] + 1)), f"{word}: {counts}"

    def close(self) -> None:
        self._consumer.close()
