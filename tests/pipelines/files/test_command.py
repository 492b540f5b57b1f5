"""`tidelog pipeline` and the demo as processes: what they print, serve and leave."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.pipelines.files.bench import Bench

TIDELOG = [sys.executable, "-m", "tidelog.cli.main"]
SECONDS_MAX = 240.0


def tidelog(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TIDELOG, *arguments], cwd=cwd, capture_output=True, text=True, check=False, timeout=SECONDS_MAX
    )


def test_run_status_metrics_and_stop(bench: Bench, write_file: Callable[[str], Path], tmp_path: Path) -> None:
    topic, target = bench.topic(partitions=1), bench.topic("target", partitions=1)
    bench.put(topic, *({"id": number} for number in range(10)))
    path = write_file(
        f"""\
        name: watched
        trigger: 200ms
        spark: {{master: "local[1]"}}
        sources:
          orders:
            topic: {topic}
            schema: id BIGINT
            rules: [{{name: small, expect: value.id < 5, otherwise: warn}}]
        sinks: {{out: {{from: orders, topic: {target}, key: key, value: value}}}}
        """
    )
    command = [*TIDELOG, "pipeline", "run", str(path), "-b", bench.bootstrap, "--json", "--metrics-listen", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    events: list[dict[str, Any]] = []
    try:
        assert process.stdout is not None
        deadline = time.monotonic() + SECONDS_MAX
        for line in process.stdout:
            events.append(json.loads(line))
            if time.monotonic() >= deadline:
                raise TimeoutError(events)
            last = events[-1]
            if last["event"] == "progress" and last["rows_in"] >= 10 and last["lag_offsets"] == 0:
                break
        port = next(
            int(found[1]) for event in events if (found := re.match(r"metrics on port (\d+)", event.get("text", "")))
        )
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            metrics = answer.read().decode()
        # What an event told is in the status by then.
        status = json.loads(tidelog("pipeline", "status", str(path), "--json", cwd=tmp_path).stdout)
        stopped = tidelog("pipeline", "stop", str(path), cwd=tmp_path)
        rest, errors = process.communicate(timeout=SECONDS_MAX)
    finally:
        process.kill()
        process.wait()
    labels = '{pipeline="watched",query="out"}'
    for line in (
        f"rows_in_total{labels} 10.0",
        f"rows_out_total{labels} 10.0",
        f"up{labels} 1.0",
        f"lag_offsets{labels} 0.0",
    ):
        assert f"tidelog_pipeline_{line}" in metrics
    assert 'rule_violations_total{pipeline="watched",query="out",rule="small"} 5.0' in metrics
    assert (status["running"], status["queries"][0]["rows_in"]) == (True, 10)
    assert (stopped.returncode, stopped.stdout) == (0, "watched has ended\n")
    assert process.returncode == 0, errors
    assert "incubator" not in errors
    end = json.loads(rest.splitlines()[-1])
    assert (end["event"], end["ok"], end["queries"][0]["state"]) == ("end", True, "stopped")
    assert sorted(value["id"] for value in bench.values(target)) == list(range(10))
    assert "watched: not running" in tidelog("pipeline", "status", str(path), cwd=tmp_path).stdout
    assert tidelog("pipeline", "stop", str(path), cwd=tmp_path).stdout == "watched was not running\n"


def test_errors_are_one_line(bench: Bench, write_file: Callable[[str], Path], tmp_path: Path) -> None:
    path = write_file("sources: {a: {topic: t, valu: bytes}}\nsinks: {s: {from: a, console: true}}\n")
    for verb in ("validate", "plan", "run", "status", "stop"):
        done = tidelog("pipeline", verb, str(path), cwd=tmp_path)
        expected = f"tidelog: {path} line 1: unknown key valu in source a (did you mean value?)\n"
        assert (done.returncode, done.stdout, done.stderr) == (1, "", expected), verb
    done = tidelog("pipeline", "validate", str(path), "--json", cwd=tmp_path)
    assert json.loads(done.stdout)[0]["problems"][0]["line"] == 1
    path.write_text("sources: {a: {topic: gone, value: bytes}}\nsinks: {s: {from: a, console: true}}\n")
    done = tidelog("pipeline", "run", str(path), "-b", bench.bootstrap, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"tidelog: {path} line 1: source a: topic gone does not exist")
    assert done.stderr.count("\n") == 1
    assert tidelog("pipeline", "status", str(path), cwd=tmp_path).stderr.startswith("tidelog: pipeline never ran")


def test_a_java_that_is_missing_or_too_old_is_one_line(
    bench: Bench, write_file: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_file(
        f"sources: {{a: {{topic: {bench.topic()}, value: bytes}}}}\nsinks: {{s: {{from: a, console: true}}}}\n"
    )
    program = tmp_path / "jdk" / "bin" / "java"
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    expected = f"tidelog: JAVA_HOME={tmp_path}/jdk has no bin/java; Spark needs Java 17 or newer: "
    for script in ("", "#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n"):
        if script:
            program.parent.mkdir(parents=True)
            program.write_text(script)
            program.chmod(0o755)
            expected = f"tidelog: {program} is Java 11; Spark needs Java 17 or newer: "
        done = tidelog("pipeline", "run", str(path), "-b", bench.bootstrap, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(expected)
        assert done.stderr.count("\n") == 1


def test_a_jvm_that_does_not_start_is_one_line(bench: Bench, write_file: Callable[[str], Path], tmp_path: Path) -> None:
    text = f"sources: {{a: {{topic: {bench.topic()}, value: bytes}}}}\nsinks: {{s: {{from: a, console: true}}}}\n"
    path = write_file(text + "spark: {spark.driver.memory: 99999999g}\n")
    done = tidelog("pipeline", "run", str(path), "-b", bench.bootstrap, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("tidelog: Spark's JVM ended at its start: ")
    assert "JAVA_GATEWAY_EXITED" not in done.stderr, "the JVM's own words are missing"
    assert done.stderr.count("\n") == 1


@pytest.mark.usefixtures("requirements")
def test_the_whole_demo(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TIDELOG_BOOTSTRAP"}
    done = subprocess.run(
        [*TIDELOG, "demo", "--records", "5000", "--json"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_MAX,
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    pipeline = document["pipeline"]
    assert (document["ok"], pipeline["problems"]) == (True, [])
    assert sum(window["orders"] for window in pipeline["windows"]) == 6000 == pipeline["table_rows"]
    assert pipeline["dead_letters"] == 8
    assert pipeline["audit"]["same"] is True
    assert (tmp_path / ".demo" / "revenue.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / ".demo" / "index.html").read_text()
    assert "Every order is in the windows and in the table exactly once." in page
    assert "http" not in page.replace("http-equiv", ""), "the page must not need a network"
