"""The same pipeline on a standalone cluster: one master, two workers, tasks in both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.pipelines.processes import Pipeline, run, standalone_cluster
from tests.pipelines.test_kills import check, fill


@pytest.mark.timeout(1200)
def test_exactly_once_on_two_workers(
    requirements: None, bootstrap: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    source, sink = make_topic(partitions=4), make_topic(partitions=4)
    fill(bootstrap, source, 2000)
    with standalone_cluster(tmp_path, workers=2) as (master, workers):
        pipeline = Pipeline(
            bootstrap=bootstrap,
            source=source,
            sink=sink,
            checkpoint=str(tmp_path / "checkpoint"),
            per_batch=1000,
            master=master,
        )
        run(pipeline, tmp_path / "output")
        check(bootstrap, sink, 2000)
        # Each executor fetched the package from the driver, which it does with its first task.
        for worker in workers:
            assert list(worker.glob("app-*/*/tidelog-*.zip")), f"no task ran in {worker}"
