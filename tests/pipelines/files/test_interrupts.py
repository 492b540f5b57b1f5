"""Ctrl-C in the middle of a batch: a summary, exit code 130 within two seconds, and not a word of Java."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import waiting
from tests.pipelines.files.bench import Bench
from tests.pipelines.files.test_command import SECONDS_MAX, TIDELOG

SLOW_STEP = '''
import time
from pathlib import Path


def linger(rows):
    """Takes a minute over every record but the first."""
    def slowly(batches):
        for batch in batches:
            if batch.num_rows and batch.column("offset")[0].as_py() > 0:
                Path({mark!r}).touch()
                time.sleep(60)
            yield batch
    return rows.mapInArrow(slowly, rows.schema)
'''


@pytest.mark.parametrize("table", ["delta", "parquet"])
def test_ctrl_c_in_the_middle_of_a_batch(
    bench: Bench, write_file: Callable[[str], Path], tmp_path: Path, table: str
) -> None:
    topic, target, mark = bench.topic(partitions=1), bench.topic("target", partitions=1), tmp_path / "mark"
    path = write_file(
        f"""\
        name: interrupted
        trigger: 100ms
        spark: {{master: "local[2]"}}
        sources: {{orders: {{topic: {topic}, schema: id BIGINT}}}}
        steps: {{slow: {{from: orders, python: "slow:linger"}}}}
        sinks:
          again: {{from: slow, topic: {target}, key: key, value: value}}
          lake: {{from: slow, table: {tmp_path}/lake, format: {table}}}
        """
    )
    path.with_name("slow.py").write_text(SLOW_STEP.format(mark=str(mark)))
    bench.put(topic, {"id": 0})
    process = subprocess.Popen(
        [*TIDELOG, "pipeline", "run", str(path), "-b", bench.bootstrap],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        wait_until(lambda: bool(bench.values(target)), process)
        bench.put(topic, {"id": 1})
        wait_until(mark.exists, process)
        began = time.monotonic()
        os.killpg(process.pid, signal.SIGINT)  # As a terminal does: the JVM gets it too.
        out, err = process.communicate(timeout=SECONDS_MAX)
        took = time.monotonic() - began
    finally:
        process.kill()
        process.wait()
    said = [line for line in err.decode().splitlines() if not line.startswith(("again: ", "lake: "))]
    assert said == []
    rows = [line.split()[:2] for line in out.decode().splitlines()]
    assert rows == [["query", "state"], ["again", "stopped"], ["lake", "stopped"]]
    assert process.returncode == 130
    assert took < 3  # Two seconds, on a machine with nothing else to do.


def wait_until(is_so: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    def is_so_or_ended() -> bool:
        assert process.poll() is None, process.communicate()
        return is_so()

    waiting.wait_until(is_so_or_ended, "the pipeline's progress", SECONDS_MAX, interval_s=0.05)
