"""What lies in a partition's directory, and tidying up what a crash left there.

As Kafka does: `.deleted` files go; so do `.cleaned` ones, which compaction had not finished writing; `.swap` files were
complete, so the replacement they belong to is finished; indexes without a log file go.
"""

from __future__ import annotations

import logging
import os
from typing import NamedTuple

from tidelog.storage.files import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_of_name,
    remove_if_present,
)
from tidelog.storage.scan import SegmentScan
from tidelog.storage.segment_file import READ, SegmentFile

logger = logging.getLogger("tidelog.storage")


class DirectoryListing(NamedTuple):
    """Files by the offset in their name; sizes in bytes."""

    logs: dict[int, int]
    snapshots: dict[int, int]
    txn_indexes: dict[int, int]
    others: list[str]
    """Indexes, and names that are not plain files of a segment."""
    has_metadata: bool


def list_directory(path: str) -> DirectoryListing:
    logs: dict[int, int] = {}
    snapshots: dict[int, int] = {}
    txn_indexes: dict[int, int] = {}
    others: list[str] = []
    has_metadata = False
    with os.scandir(path) as entries:
        for entry in entries:
            name = entry.name
            offset = offset_of_name(name)
            kind = name[20:] if offset is not None else ""
            if offset is None:
                if name == "partition.metadata":
                    has_metadata = True
                elif name.endswith(".tmp"):
                    others.append(name)
            elif kind == LOG_SUFFIX:
                logs[offset] = entry.stat().st_size
            elif kind == SNAPSHOT_SUFFIX:
                snapshots[offset] = entry.stat().st_size
            else:
                if kind == TXN_INDEX_SUFFIX:
                    txn_indexes[offset] = entry.stat().st_size
                others.append(name)
    return DirectoryListing(logs, snapshots, txn_indexes, others, has_metadata)


def tidy_directory(path: str, listing: DirectoryListing) -> DirectoryListing:
    """Finish or undo what was under way; the listing that holds afterwards."""
    swaps: dict[int, list[str]] = {}
    cleaned: list[int] = []
    doomed: list[str] = []
    for name in listing.others:
        offset = offset_of_name(name)
        if offset is None or name.endswith((DELETED_SUFFIX, ".tmp")):
            doomed.append(name)
        elif name.endswith(CLEANED_SUFFIX):
            cleaned.append(offset)
            doomed.append(name)
        elif name.endswith(SWAP_SUFFIX):
            swaps.setdefault(offset, []).append(name)
        elif name[20:] in SEGMENT_SUFFIXES and offset not in listing.logs and offset not in swaps:
            # May belong to a log that is still called `.swap`: decided below.
            doomed.append(name)
    if not doomed and not swaps:
        return listing
    unfinished = min(cleaned, default=None)
    for offset, names in sorted(swaps.items()):
        log_name = f"{offset:020d}{LOG_SUFFIX}{SWAP_SUFFIX}"
        if log_name not in names or (unfinished is not None and offset >= unfinished):
            doomed += names
        else:
            doomed = [name for name in doomed if offset_of_name(name) != offset or name.endswith(DELETED_SUFFIX)]
            for name in _covered_by_swap(path, offset, log_name, listing):
                os.unlink(os.path.join(path, name))
            if offset in listing.logs:
                # The replaced segment is still there: none of its indexes may outlive it.
                for kind in SEGMENT_SUFFIXES[1:]:
                    remove_if_present(os.path.join(path, f"{offset:020d}{kind}"))
            for name in sorted(names, key=lambda name: name == log_name):
                os.replace(os.path.join(path, name), os.path.join(path, name[: -len(SWAP_SUFFIX)]))
            logger.info("finished replacing segments by %s/%s", path, log_name)
    for name in doomed:
        os.unlink(os.path.join(path, name))
    return list_directory(path)


def _covered_by_swap(path: str, offset: int, log_name: str, listing: DirectoryListing) -> list[str]:
    """Files of the segments whose offsets the swapped-in one holds; the one of its own name is overwritten instead."""
    scan = SegmentScan(SegmentFile(os.path.join(path, log_name), READ), offset)
    for _ in scan:
        pass
    bases = {base for base in listing.logs if offset < base < scan.next_offset}
    names = [f"{base:020d}{LOG_SUFFIX}" for base in bases]
    return names + [name for name in listing.others if offset_of_name(name) in bases and name[20:] in SEGMENT_SUFFIXES]
