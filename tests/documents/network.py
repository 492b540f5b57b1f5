"""The network that documents are run in: a namespace of its own, so that ports are those that the reader sees.

Where this machine allows no namespaces, it is the machine's own network, as long as the ports are free there.
Addresses of other machines (10.0.0.N) are put on loopback: all of 127.0.0.0/8 is there without any set-up.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import socket
import struct
import subprocess
import sys

_OTHER_MACHINE = re.compile(r"\b10\.0\.0\.(\d+)\b")
PORTS = (9092, 9093, 9094, 9095, 9644, 9645, 9646)
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1


class NoNetwork(Exception):
    """Neither a namespace nor free ports; the text says why."""


class Network:
    """As a context manager: a network for one document after the other."""

    def __init__(self, *, namespaces: bool = True, ports: tuple[int, ...] = PORTS) -> None:
        """`ports` have to be free where no namespace is made."""
        self._namespaces = namespaces
        self._ports = ports
        self._holder: subprocess.Popen[bytes] | None = None
        self.enter: list[str] = []
        """What a command is put behind to be run in it."""

    def __enter__(self) -> Network:
        for flags in (["--net"], ["--map-root-user", "--net"]):
            if self._namespaces and self._start_holder(flags):
                return self
        taken = [port for port in self._ports if not _is_free(port)]
        if taken:
            raise NoNetwork(f"no network namespaces here, and port {taken[0]} of this machine is in use")
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._holder is not None:
            assert self._holder.stdin is not None
            self._holder.stdin.close()
            self._holder.wait()
            assert self._holder.stdout is not None
            self._holder.stdout.close()

    def _start_holder(self, flags: list[str]) -> bool:
        unshare, nsenter = shutil.which("unshare"), shutil.which("nsenter")
        if unshare is None or nsenter is None:
            return False
        holder = subprocess.Popen(
            [unshare, *flags, sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert holder.stdout is not None
        assert holder.stdin is not None
        if holder.stdout.readline() != b"ready\n":
            holder.stdin.close()
            holder.wait()
            holder.stdout.close()
            return False
        self._holder = holder
        user = ["--user", "--preserve-credentials"] if "--map-root-user" in flags else []
        self.enter = [nsenter, "--target", str(holder.pid), *user, "--net"]
        return True


def on_loopback(text: str) -> str:
    """The addresses of other machines, on this one."""
    return _OTHER_MACHINE.sub(r"127.10.0.\1", text)


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def _hold() -> None:
    """In the namespace: bring loopback up and stay until the tests close standard input."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(control, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | _IFF_UP))
    os.write(1, b"ready\n")
    os.read(0, 1)


if __name__ == "__main__":
    _hold()
