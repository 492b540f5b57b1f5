"""The disk of one node runs full under acks=all load: others take over, nothing is lost, with room it comes back."""

from __future__ import annotations

import errno
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.faults.cluster.conftest import SETTINGS
from tests.faults.cluster.load import Load, create_topic, is_whole, spread_leaders, wait_for
from tests.faults.cluster.promise import Promise
from tests.faults.cluster.test_failover import led_by
from tests.servers.local_cluster import run_local_cluster

from tidelog.cli.local_cluster import LocalCluster

VICTIM = 2
SIZE_MIB = 48


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """The data directory of one node to be, on a file system of its own."""
    place = tmp_path / f"node-{VICTIM}"
    place.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MIB}m", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine does not allow mounts")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.fixture
def cluster(small_disk: Path) -> Iterator[LocalCluster]:
    with run_local_cluster(small_disk.parent, SETTINGS) as running:
        yield running


def fill(path: Path) -> None:
    """Not a byte is left after this."""
    with path.open("wb", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while file.write(bytes(size)):
                    pass
            except OSError as error:
                assert error.errno == errno.ENOSPC  # noqa: PT017


def test_a_node_without_room_gives_way_and_comes_back(cluster: LocalCluster, small_disk: Path) -> None:
    topic = create_topic(cluster.bootstrap)
    load = Load(cluster.bootstrap, topic)
    load.start()
    load.wait_for_writes([0, 1, 2], 0.0)
    ballast = small_disk / "ballast"
    promise, is_kept = Promise(), False
    while not is_kept:
        assert led_by(spread_leaders(cluster.bootstrap, topic), topic, VICTIM)
        fill(ballast)
        full_s = time.monotonic()
        wait_for(
            cluster.bootstrap,
            lambda now: VICTIM not in now.live_racks() and not led_by(now, topic, VICTIM) and not now.leaderless,
            "its partitions have other leaders",
        )
        moved_s = time.monotonic() - full_s
        took_s = moved_s + load.wait_for_writes([0, 1, 2], full_s + moved_s)
        print(f"disk full: others lead after {moved_s:.2f} s, writes go on after {took_s:.2f} s")
        is_kept = promise.is_kept(took_s)
        ballast.unlink()
        wait_for(cluster.bootstrap, is_whole, "a whole cluster once there is room")
    load.stop()
    load.check(cluster.bootstrap)
