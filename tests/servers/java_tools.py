"""Kafka's own command line tools, run one after another inside a single JVM.

Starting a JVM costs about a second of CPU; a test suite calls dozens of tools. Where the Java on the machine cannot
compile the runner (a bare runtime without the compiler), every tool gets a JVM of its own instead.
"""

from __future__ import annotations

import contextlib
import struct
import subprocess
import threading
from typing import NamedTuple, Self

from tests.servers.apache_kafka import DEFINITIONS, class_path, java, tool_command

TOOLS = {
    "topics": "org.apache.kafka.tools.TopicCommand",
    "configs": "kafka.admin.ConfigCommand",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "groups": "org.apache.kafka.tools.GroupsCommand",
    "verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "cluster": "org.apache.kafka.tools.ClusterTool",
    "end-to-end-latency": "org.apache.kafka.tools.EndToEndLatency",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
    "client-compatibility": "org.apache.kafka.tools.ClientCompatibilityTest",
}
"""Names as those of Kafka's scripts (`kafka-topics.sh` and so on)."""

TIMEOUT_S = 60.0


class ToolResult(NamedTuple):
    status: int
    stdout: str
    stderr: str

    def check(self) -> str:
        """Standard output of a tool that must have succeeded."""
        if self.status != 0:
            raise AssertionError(f"exit status {self.status}\n{self.stdout}\n{self.stderr}")
        return self.stdout


class JavaTools:
    """One JVM that runs tools on request; restarted when a tool did not end in time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._can_share_jvm = True

    def run(self, tool: str, *arguments: str, stdin: str = "", timeout_s: float = TIMEOUT_S) -> ToolResult:
        class_name = TOOLS.get(tool, tool)
        if self._can_share_jvm:
            with contextlib.suppress(BrokenPipeError, EOFError):
                return self._run_shared(class_name, arguments, stdin, timeout_s)
            self._can_share_jvm = False
        done = subprocess.run(
            tool_command(class_name, *arguments),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        return ToolResult(done.returncode, done.stdout, done.stderr)

    def _run_shared(self, class_name: str, arguments: tuple[str, ...], stdin: str, timeout_s: float) -> ToolResult:
        process = self._process or self._start()
        expired = threading.Event()

        def give_up() -> None:
            expired.set()
            process.kill()

        timer = threading.Timer(timeout_s, give_up)
        timer.start()
        try:
            return self._exchange(process, (class_name, stdin, *arguments))
        except (BrokenPipeError, EOFError):
            self.close()
            if expired.is_set():
                raise TimeoutError(f"{class_name} {' '.join(arguments)} did not end within {timeout_s} s") from None
            raise
        finally:
            timer.cancel()

    def _start(self) -> subprocess.Popen[bytes]:
        command = [
            java(),
            "-Xmx384M",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            f"-Dlog4j2.configurationFile={DEFINITIONS / 'tools-log4j2.yaml'}",
            "-cp",
            class_path(),
            str(DEFINITIONS / "ToolRunner.java"),
        ]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        return self._process

    @staticmethod
    def _exchange(process: subprocess.Popen[bytes], texts: tuple[str, ...]) -> ToolResult:
        assert process.stdin is not None
        assert process.stdout is not None
        encoded = [text.encode() for text in texts]
        frame = struct.pack(">i", len(encoded)) + b"".join(struct.pack(">i", len(text)) + text for text in encoded)
        process.stdin.write(frame)
        process.stdin.flush()
        stream = process.stdout

        def read_exactly(size: int) -> bytes:
            data = stream.read(size)
            if len(data) != size:
                raise EOFError
            return data

        def read_int() -> int:
            value: int = struct.unpack(">i", read_exactly(4))[0]
            return value

        status = read_int()
        stdout = read_exactly(read_int()).decode(errors="replace")
        stderr = read_exactly(read_int()).decode(errors="replace")
        return ToolResult(status, stdout, stderr)

    def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        process.kill()
        process.wait(30)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
