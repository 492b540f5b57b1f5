"""Nodes in network namespaces of their own on one bridge, whose links can be cut in either direction.

A link is cut by telling the sender a wrong hardware address for the receiver: packets leave and nobody takes them, as
with a broken switch. Connections neither close nor fail; they fall silent. Nothing outside the namespaces changes.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

_CLONE_NEWNET = 0x40000000
_SUBNET = "10.213.77"
_NOBODY = "02:00:00:00:ff:ff"


class NotPermitted(Exception):
    """This machine has no network namespaces for us; the text says why."""


class Namespaces:
    """One namespace per number in `hosts`. As a context manager they are removed at the end."""

    def __init__(self, hosts: Iterable[int]) -> None:
        self._hosts = list(hosts)
        self._prefix = f"tidelog-{os.getpid()}"
        self._hub = f"{self._prefix}-hub"

    def name(self, host: int) -> str:
        return f"{self._prefix}-{host}"

    @staticmethod
    def address(host: int) -> str:
        return f"{_SUBNET}.{host}"

    def __enter__(self) -> Namespaces:
        try:
            self._make()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._remove()

    def _make(self) -> None:
        _ip("netns", "add", self._hub)
        _batch(self._hub, ["link add bridge type bridge", "link set bridge up"])
        for host in self._hosts:
            _ip("netns", "add", self.name(host))
            link = f"link add port{host} type veth peer name eth0 netns {self.name(host)}"
            _batch(self._hub, [link, f"link set port{host} master bridge up"])
            own = ["link set lo up", f"link set eth0 address {_hardware(host)}"]
            own += [f"address add {self.address(host)}/24 dev eth0", "link set eth0 up"]
            _batch(self.name(host), own)
        self.heal()

    def _remove(self) -> None:
        for name in (*(self.name(host) for host in self._hosts), self._hub):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)

    def cut(self, sources: Iterable[int], destinations: Iterable[int]) -> None:
        """Nothing gets from the sources to the destinations any more; the way back is another matter."""
        destinations = list(destinations)
        for source in sources:
            self._direct(source, {host: _NOBODY for host in destinations if host != source})

    def isolate(self, host: int) -> None:
        """Nothing gets to the host nor from it."""
        others = [other for other in self._hosts if other != host]
        self.cut([host], others)
        self.cut(others, [host])

    def heal(self) -> None:
        for source in self._hosts:
            self._direct(source, {host: _hardware(host) for host in self._hosts if host != source})

    def _direct(self, source: int, hardware: dict[int, str]) -> None:
        lines = [
            f"neigh replace {self.address(host)} lladdr {address} dev eth0 nud permanent"
            for host, address in hardware.items()
        ]
        _batch(self.name(source), lines)

    @contextmanager
    def inside(self, host: int) -> Iterator[None]:
        """This thread, and every thread and process it starts meanwhile, is in the namespace of the host."""
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        there = os.open(f"/run/netns/{self.name(host)}", os.O_RDONLY)
        try:
            _set_namespace(there)
            yield
        finally:
            _set_namespace(before)
            os.close(there)
            os.close(before)


def _hardware(host: int) -> str:
    return f"02:00:00:00:00:{host:02x}"


def _ip(*arguments: str, text: str | None = None) -> None:
    try:
        done = subprocess.run(["ip", *arguments], input=text, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise NotPermitted("the ip command (iproute2) is missing") from None
    if done.returncode:
        raise NotPermitted(f"network namespaces cannot be made here: {done.stderr.strip()}")


def _batch(namespace: str, lines: list[str]) -> None:
    _ip("-n", namespace, "-batch", "-", text="\n".join(lines) + "\n")


def _set_namespace(descriptor: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.setns(descriptor, _CLONE_NEWNET) != 0:
        raise NotPermitted(f"a network namespace cannot be entered: {os.strerror(ctypes.get_errno())}")
