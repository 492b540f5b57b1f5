"""To which node a data directory belongs: the lock that keeps a second process out, and `meta.properties`.

Both locks are taken because they keep out different things: `flock` another node in this very process, the POSIX lock
Kafka itself, which takes the same one on the same file.
"""

from __future__ import annotations

import base64
import errno
import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from tidelog.runtime.disk import DISK, Disk
from tidelog.runtime.system import SYSTEM, System
from tidelog.storage.files import read_whole, write_whole

LOCK_FILE = ".lock"
META_FILE = "meta.properties"
META_VERSION = 1
LOST_AND_FOUND = "lost+found"
"""What file systems put into their top directory."""


class DirectoryRefused(Exception):
    """The data directory cannot be used; the message is one line that says why."""


class DirectoryIdentity(NamedTuple):
    cluster_id: str
    node_id: int
    directory_id: str


def new_kafka_uuid(random_bytes: Callable[[int], bytes] = os.urandom) -> str:
    """Random, in the 22 characters Kafka prints; never with a leading dash, which command lines take for an option."""
    while True:
        text = base64.urlsafe_b64encode(random_bytes(16)).decode().rstrip("=")
        if not text.startswith("-"):
            return text


class DirectoryLock:
    """Held until `release`, or until the process is gone however it ended."""

    def __init__(self, directory: str, disk: Disk = DISK) -> None:
        path = os.path.join(directory, LOCK_FILE)
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise DirectoryRefused(f"the data directory {directory} cannot be written: {error.strerror}") from None
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _is_same_file(self._fd, path):
                # Its holder took the file away just now, and the directory perhaps with it.
                raise OSError(errno.EAGAIN, "the lock is being removed")
        except OSError as error:
            holder = os.pread(self._fd, 20, 0).decode("ascii", "replace").strip()
            os.close(self._fd)
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise DirectoryRefused(f"the data directory {directory} cannot be locked: {error.strerror}") from None
            owner = f"process {holder}" if holder.isdigit() else "another process"
            raise DirectoryRefused(f"the data directory {directory} is in use by {owner}") from None
        with suppress(OSError):
            # The lock holds without the name of its holder, and what makes room on a full disk is only now to come.
            os.ftruncate(self._fd, 0)
            disk.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _is_same_file(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


def parse_properties(text: str) -> dict[str, str]:
    """The plain form Kafka writes: `key=value` lines and comments."""
    properties = {}
    for line in text.splitlines():
        line = line.strip()
        if line and line[0] not in "#!":
            key, _, value = line.partition("=")
            properties[key.strip()] = value.strip()
    return properties


def read_identity(directory: str) -> DirectoryIdentity | None:
    """What `meta.properties` says; None for a directory that was not used yet."""
    path = os.path.join(directory, META_FILE)
    try:
        content = read_whole(path)
    except NotADirectoryError:
        return None
    except OSError as error:
        raise DirectoryRefused(f"{path} cannot be read: {error.strerror}") from None
    if content is None:
        return None
    try:
        properties = parse_properties(content.decode())
        if properties.get("version") != str(META_VERSION):
            raise DirectoryRefused(f"{path} has version {properties.get('version')}, not {META_VERSION}")
        return DirectoryIdentity(
            properties["cluster.id"], int(properties["node.id"]), properties.get("directory.id") or new_kafka_uuid()
        )
    except (KeyError, ValueError) as error:
        raise DirectoryRefused(f"{path} is damaged: {error}") from None


def foreign_directories(directory: str) -> list[str]:
    """What keeps an unclaimed directory from being used: directories, which a start would take for partitions.

    Plain files stay where they are and harm nothing, as with Kafka.
    """
    with os.scandir(directory) as entries:
        found = [each.name for each in entries if each.is_dir() and not each.name.startswith(".")]
    return sorted(set(found) - {LOST_AND_FOUND})


def claim_identity(
    directory: str,
    node_id: int,
    cluster_id: str | None,
    directory_id: str | None = None,
    system: System = SYSTEM,
) -> DirectoryIdentity:
    """Read the identity of the directory, or write it into a new one. Without a cluster id, any (or a new one) is
    taken."""
    found = read_identity(directory)
    if found is None:
        if foreign := foreign_directories(directory):
            raise DirectoryRefused(
                f"{directory} is no data directory of Tidelog: it holds {foreign[0]}/ and has no {META_FILE}; name an "
                "empty one"
            )
        found = DirectoryIdentity(
            cluster_id or new_kafka_uuid(system.random_bytes),
            node_id,
            directory_id or new_kafka_uuid(system.random_bytes),
        )
        lines = (
            "#",
            f"cluster.id={found.cluster_id}",
            f"directory.id={found.directory_id}",
            f"node.id={found.node_id}",
            f"version={META_VERSION}",
        )
        content = ("\n".join(lines) + "\n").encode()
        write_whole(os.path.join(directory, META_FILE), content, sync=True, disk=system.disk)
        return found
    if found.node_id != node_id:
        raise DirectoryRefused(f"the data directory {directory} belongs to node {found.node_id}, not to node {node_id}")
    if cluster_id is not None and found.cluster_id != cluster_id:
        raise DirectoryRefused(
            f"the data directory {directory} belongs to cluster {found.cluster_id}, not to cluster {cluster_id}"
        )
    return found
