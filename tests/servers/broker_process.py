"""A broker running as a process of its own: what it costs (CPU, memory) and how it is ended.

Both Apache Kafka and Tidelog are started as one process each, so every figure is read for that process id alone, all
threads included.
"""

from __future__ import annotations

import ctypes
import random
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

_libc = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1
_CPU_TIME_OF_PROCESS = 2
"""What clock_getcpuclockid() makes of a process id on Linux: the inverted id, three bits to the left, and this kind."""
PORTS = range(20000, 32000)
"""Below the kernel's ephemeral range: a port stays free for a restart while clients come and go."""
_given_ports: set[int] = set()
"""Some are bound long after they were found free, or are free again only until a broker is back."""


class BrokerFailure(Exception):
    """The broker did not start, or ended when it should not have."""


def free_port() -> int:
    """A port of 127.0.0.1 that is free now and was not given out in this process before."""
    return free_ports(1)[0]


def free_ports(count: int) -> range:
    """So many of them in a row."""
    firsts = PORTS[: len(PORTS) - count + 1]
    for first in random.SystemRandom().sample(firsts, len(firsts)):
        ports = range(first, first + count)
        if _given_ports.isdisjoint(ports) and all(map(_is_free, ports)):
            _given_ports.update(ports)
            return ports
    raise BrokerFailure(f"no {count} free ports in a row in {PORTS}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def port_answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def end_with_parent() -> None:
    """Runs in the child before it becomes the broker: a test run that is killed leaves no broker behind."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def process_cpu_seconds(pid: int) -> float:
    """User and system time of the whole process since it started, ended threads included.

    Read from the process's own clock, which counts nanoseconds; /proc counts ticks of 10 ms.
    """
    return time.clock_gettime(~pid << 3 | _CPU_TIME_OF_PROCESS)


@dataclass(slots=True, kw_only=True)
class BrokerProcess:
    """A running broker. As a context manager it is stopped at the end, by force if need be."""

    kind: str
    """`kafka` or `tidelog`."""
    port: int
    data: Path
    """Where the partition directories are."""
    output: Path
    """What the process wrote to standard output and error."""
    process: subprocess.Popen[bytes] = field(repr=False)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self.process.pid

    def alive(self) -> bool:
        return self.process.poll() is None

    def log_text(self) -> str:
        return self.output.read_text(errors="replace") if self.output.exists() else ""

    def cpu_seconds(self) -> float:
        return process_cpu_seconds(self.pid)

    def rss_bytes(self) -> int:
        return self._status_kib("VmRSS") * 1024

    def rss_peak_bytes(self) -> int:
        return self._status_kib("VmHWM") * 1024

    def reset_rss_peak(self) -> None:
        """From here on `rss_peak_bytes` tells the peak since this moment."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def _status_kib(self, name: str) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1])
        raise BrokerFailure(f"process {self.pid} has no {name}: it has ended")

    def stop(self, timeout_s: float = 60.0) -> float:
        """SIGTERM and wait for the end; returns the seconds it took. Raises when it had to be killed."""
        started = time.monotonic()
        if self.alive():
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.kill()
                raise BrokerFailure(f"{self.kind} did not stop within {timeout_s} s") from None
        return time.monotonic() - started

    def kill(self) -> None:
        """SIGKILL: what a crash looks like."""
        self.process.kill()
        self.process.wait(30)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self.alive():
            self.stop()
