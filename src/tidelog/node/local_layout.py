"""Where the nodes of a local cluster keep their data: `node-N` below one directory, and `cluster.json` beside them.

The directory may have been that of a single node before: its files are then moved to `node-N`, each by a rename, and
`meta.properties` last, so that a move that was cut short is seen and ended by the next start of any kind.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tidelog.config.broker import BrokerConfig
from tidelog.storage.files import read_whole, remove_if_present, sync_directory, write_whole
from tidelog.storage.log_directory_identity import (
    LOCK_FILE,
    LOST_AND_FOUND,
    META_FILE,
    DirectoryIdentity,
    DirectoryLock,
    DirectoryRefused,
    foreign_directories,
    read_identity,
)

PLAN_FILE = "cluster.json"
ADOPTED = "adopted"
"""What a single node's files are moved to first: no partition can have this name, as `node-1` can."""

REMOVED_PREFIX = "removed-"
METADATA_DIRECTORY = "__cluster_metadata-0"

_NODE_DIRECTORY = re.compile(r"node-([0-9]{1,9})")


class Plan(NamedTuple):
    """What a local cluster was founded with; kept because a start that was killed must be repeated, not varied."""

    cluster_id: str
    """Empty when the nodes' own directories tell it."""
    founders: tuple[int, ...]
    """The first voters of the metadata quorum."""
    ports: dict[int, int]
    is_formed: bool
    """Whether all nodes were ready once: from then on nodes that have metadata know the others by it."""


def node_directory(data: Path, node_id: int) -> Path:
    return data / f"node-{node_id}"


def read_plan(data: Path) -> Plan | None:
    path = data / PLAN_FILE
    try:
        content = read_whole(str(path))
        if content is None:
            return None
        document = json.loads(content)
        ports = document["ports"]
        if isinstance(ports, list):
            # Earlier versions numbered the nodes from 1 and noted nothing else.
            return Plan("", (), {number: int(port) for number, port in enumerate(ports, 1)}, is_formed=True)
        founders = tuple(int(node_id) for node_id in document["founders"])
        known = {int(node_id): int(port) for node_id, port in ports.items()}
        return Plan(str(document["cluster_id"]), founders, known, bool(document["is_formed"]))
    except NotADirectoryError:
        return None
    except OSError as error:
        raise DirectoryRefused(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DirectoryRefused(f"{path} is damaged: remove it; the next start makes it again") from None


def write_plan(data: Path, plan: Plan) -> None:
    """Survives a crash of the machine."""
    write_whole(str(data / PLAN_FILE), json.dumps(plan._asdict()).encode(), sync=True)


def remove_unused(data: Path, made: list[Path]) -> None:
    """Takes back a plan of which no node has begun, and the directories made for it (`made`, the deepest first)."""
    with suppress(OSError):
        if made and os.listdir(data) == [PLAN_FILE]:
            os.unlink(data / PLAN_FILE)
            for path in made:
                path.rmdir()


def list_members(data: Path) -> dict[int, DirectoryIdentity]:
    """The nodes that have data here, by number; DirectoryRefused when they are not of one cluster."""
    found: dict[int, DirectoryIdentity] = {}
    try:
        names = os.listdir(data)
    except (FileNotFoundError, NotADirectoryError):
        return found
    for name in names:
        matched = _NODE_DIRECTORY.fullmatch(name)
        identity = read_identity(str(data / name)) if matched else None
        if matched is None or identity is None:
            continue
        if identity.node_id != int(matched[1]):
            raise DirectoryRefused(
                f"{data / name} holds the data of node {identity.node_id}: rename it to that node's name"
            )
        found[identity.node_id] = identity
    for node_id in sorted(found):
        first = found[min(found)]
        if found[node_id].cluster_id != first.cluster_id:
            raise DirectoryRefused(
                f"{data} holds two clusters: node {first.node_id} belongs to {first.cluster_id}, node {node_id} to "
                f"{found[node_id].cluster_id}; move the nodes of one of them to another directory"
            )
    return dict(sorted(found.items()))


def has_metadata(directory: Path) -> bool:
    """Whether the node has written or received anything of its cluster's metadata."""
    try:
        with os.scandir(directory / METADATA_DIRECTORY) as entries:
            return any(each.name.endswith((".log", ".checkpoint")) and each.stat().st_size > 0 for each in entries)
    except OSError:
        return False


def find_single(data: Path) -> DirectoryIdentity | None:
    """The node whose data lies in the directory itself, or is on its way from there to a directory of its own."""
    single = read_identity(str(data)) or read_identity(str(data / ADOPTED))
    if single is not None and (members := list_members(data)):
        names = ", ".join(f"node-{node_id}" for node_id in members)
        raise DirectoryRefused(
            f"{data} holds the data of a single node and that of a cluster ({names}): move {names} and {PLAN_FILE} to "
            "a directory of their own"
        )
    return single


def check_usable(data: Path) -> None:
    """Refuses a directory with files that are not Tidelog's."""
    if not data.is_dir() or (data / PLAN_FILE).exists() or find_single(data) is not None:
        return
    names = foreign_directories(str(data))
    foreign = [name for name in names if not _NODE_DIRECTORY.fullmatch(name.removeprefix(REMOVED_PREFIX))]
    if foreign:
        raise DirectoryRefused(
            f"{data} is no data directory of Tidelog: it holds {foreign[0]}/ and has no {META_FILE}; name an empty one"
        )


def adopt_single(data: Path, node_id: int) -> None:
    """Gives the single node here a directory of its own, among those of a cluster. `cluster.json` was written before.

    May be cut short at any point and called again. The lock keeps a node that is still running from losing its files.
    """
    lock = DirectoryLock(str(data))
    try:
        adopted = data / ADOPTED
        adopted.mkdir(exist_ok=True)
        kept = {LOCK_FILE, PLAN_FILE, f"{PLAN_FILE}.tmp", ADOPTED, META_FILE, LOST_AND_FOUND}
        names = [name for name in os.listdir(data) if name not in kept]
        # Without this file the directory is that of no node: it goes last.
        for name in [*names, META_FILE] if (data / META_FILE).exists() else []:
            os.rename(data / name, adopted / name)
        sync_directory(str(adopted))
        os.rename(adopted, node_directory(data, node_id))
        sync_directory(str(data))
        remove_if_present(str(data / LOCK_FILE))
    except OSError as error:
        raise DirectoryRefused(f"the data in {data} cannot be moved: {error}") from None
    finally:
        lock.release()


def set_aside(data: Path, node_id: int) -> Path:
    """The data of a node that was removed: kept, and out of the way of another node with its number."""
    for number in range(1, 1000):
        target = data / f"{REMOVED_PREFIX}node-{node_id}{'' if number == 1 else f'.{number}'}"
        if not target.exists():
            os.rename(node_directory(data, node_id), target)
            sync_directory(str(data))
            return target
    raise DirectoryRefused(f"{data} holds too many directories of removed nodes: delete some")


def find_own_directory(config: BrokerConfig) -> BrokerConfig:
    """The settings of one node that is started alone, with the data directory it has in a local cluster of one.

    DirectoryRefused for a cluster of several: the node would start empty, or without the others.
    """
    data = Path(config.data_directory)
    if read_plan(data) is None:
        return config
    single = find_single(data)
    if single is not None:
        adopt_single(data, single.node_id)
    members = list_members(data)
    if len(members) > 1:
        raise DirectoryRefused(
            f"{data} holds a cluster of {len(members)} nodes ({', '.join(map(str, members))}): start it with "
            f"--nodes {len(members)}, or one of them with --data {node_directory(data, min(members))}"
        )
    if not members:
        # A cluster was to be founded here, and no node came so far as to begin.
        remove_if_present(str(data / PLAN_FILE))
        return config
    [node_id] = members
    texts = {"node.id": str(node_id), **config.static_texts, "log.dirs": str(node_directory(data, node_id))}
    return BrokerConfig.from_mapping(texts)
