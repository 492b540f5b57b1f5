"""What people and machines get wrong: one clear line each, nothing lost, a retry where it can help."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from tests.pipelines.files.bench import Bench, nothing

from tidelog.pipelines.errors import PipelineError
from tidelog.testing.broker import Broker

WriteFile = Callable[[str], Path]

CONSOLE = """\
sources:
  orders:
    topic: {topic}
    schema: id BIGINT, amount DOUBLE
    {extra}
steps:
  good:
    sql: |
      SELECT value.id,
             value.amount
      FROM orders
sinks:
  eyes: {{from: good, console: true, rows: 1000}}
"""


def refused(bench: Bench, path: Path) -> str:
    """What is said about a pipeline that is not even started."""
    with pytest.raises(PipelineError) as caught:
        bench.run(path)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{path} ")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("value.amount", "value.amout", "line 10: step good: unknown field amout; there is id, amount"),
        ("value.amount", "price", "line 10: step good: unknown column price; there is"),
        ("FROM orders", "FROM orders WHERE value.id >", "line 11: step good: SQL syntax error at end of input"),
        ("value.amount", "nonsense(1)", "line 10: step good: unknown function nonsense"),
        ("id BIGINT, amount", "id BIGNUMBER, amount", "line 4: source orders: "),
        ("sql: |\n", "watermark: {column: at, delay: 1s}\n    sql: |\n", "line 8: step good: unknown column at;"),
        ("sql: |\n", "rules: [{expect: amout > 1}]\n    sql: |\n", "line 8: step good: unknown column amout; there is"),
        ("    sql: |\n      SELECT value.id,\n             value.amount\n      FROM orders\n",
         "    from: orders\n    python: no_such_module:f\n", "line 7: step good: No module named 'no_such_module'"),
    ],
)  # fmt: skip
def test_mistakes_in_the_file_have_their_line(
    bench: Bench, write_file: WriteFile, old: str, new: str, expected: str
) -> None:
    text = CONSOLE.format(topic=bench.topic(), extra="")
    assert old in text
    assert refused(bench, write_file(text.replace(old, new, 1))).startswith(expected)


@pytest.mark.parametrize(
    ("sink", "expected"),
    [
        ("topic: {topic}, key: number", "line 17: key of sink out: unknown column number; there is id, amount"),
        ("topic: {topic}, timestamp: at", "line 17: timestamp of sink out: unknown column at; there is id, amount"),
        ("table: ./t, partition-by: [day]", "line 17: partition-by of sink out: unknown column day; there is id, "),
        (
            "table: ./t, format: delta, write: upsert, key: id, delete-when: gone",
            "line 20: delete-when of sink out: unknown column gone; there is id, amount",
        ),
    ],
)
def test_columns_that_a_sink_names_are_looked_for_before_any_query_starts(
    bench: Bench, write_file: WriteFile, sink: str, expected: str
) -> None:
    topic = bench.topic()
    bench.put(topic, {"id": 1, "amount": 1.0})
    keys = sink.format(topic=bench.topic()).replace(", ", "\n    ")
    text = CONSOLE.format(topic=topic, extra="") + f"  out:\n    from: good\n    {keys}\n"
    assert refused(bench, write_file(text)).startswith(expected)
    assert bench.rows == [], "the other sink had begun"


def test_a_wrong_schema_of_keys_has_its_line(bench: Bench, write_file: WriteFile) -> None:
    text = CONSOLE.format(topic=bench.topic(), extra="key: json\n    key-schema: id BIGNUMBER")
    assert refused(bench, write_file(text)).startswith("line 6: source orders: key json schema 'id BIGNUMBER': ")


def test_a_missing_topic_is_named(bench: Bench, write_file: WriteFile) -> None:
    assert refused(bench, write_file(CONSOLE.format(topic="never-made", extra=""))).startswith(
        "line 2: source orders: topic never-made does not exist"
    )
    text = CONSOLE.format(topic=bench.topic(), extra="") + "  out: {from: good, topic: never-made-either}\n"
    assert refused(bench, write_file(text)).startswith("line 14: sink out: topic never-made-either does not exist")


def test_a_broker_that_is_not_there_is_named(bench: Bench, write_file: WriteFile) -> None:
    path = write_file(CONSOLE.format(topic="t", extra=""))
    run = bench.make_run(path)
    run._bootstrap = "127.0.0.1:1"
    with pytest.raises(PipelineError, match=r"line 2: source orders: no broker answers at 127\.0\.0\.1:1"):
        run.run()


def test_a_poison_record_and_a_broken_rule_stop_their_query_only(bench: Bench, write_file: WriteFile) -> None:
    topic, letters = bench.topic(partitions=1), bench.topic("letters", partitions=1)
    bench.put(topic, {"id": 1, "amount": 1.0}, b"{broken", {"id": 2, "amount": "a text"}, {"id": 3, "amount": 900.0})
    path = write_file(
        f"""\
        sources:
          strict: {{topic: {topic}, schema: "id BIGINT, amount DOUBLE", on-invalid: stop}}
          lenient:
            topic: {topic}
            schema: id BIGINT, amount DOUBLE
            dead-letters: {letters}
        steps:
          checked:
            sql: SELECT value.* FROM lenient
            rules:
              - name: small
                expect: amount < 100
        sinks:
          poisoned: {{from: strict, console: true}}
          ruled: {{from: checked, console: true}}
          fine: {{from: lenient, console: true}}
        """
    )
    poisoned, ruled, fine = bench.run(path)
    assert (poisoned.state, poisoned.restarts) == ("failed", 0)
    assert f"bad record in topic {topic}, partition 0, offset 1: value: not JSON" in poisoned.error
    assert ruled.state == "failed"
    assert ruled.error.startswith(f"{path} line 12: rule small (amount < 100) is not met by ")
    assert '"amount":900.0' in ruled.error
    assert (fine.state, fine.rows_in, fine.rows_out) == ("done", 4, 2)
    assert len(bench.lines) == 2, bench.lines
    # A field of another type is no less poison than broken JSON; each is sent once, with its reason and its place.
    sent = [dict(record.headers()) for record in bench.records(letters)]
    assert sorted(headers["tidelog.dead-letter.offset"] for headers in sent) == [b"1", b"2"]


def test_a_row_that_a_statement_fails_for_stops_the_query_by_the_line(bench: Bench, write_file: WriteFile) -> None:
    topic, target = bench.topic(partitions=1), bench.topic(partitions=1)
    bench.put(topic, {"id": 1, "amount": 1.0}, {"id": 0, "amount": 1.0})
    text = CONSOLE.format(topic=topic, extra="").replace("value.amount\n", "value.amount / value.id AS amount\n")
    path = write_file(text + f"  out: {{from: good, topic: {target}}}\n")
    for status in bench.run(path):
        assert (status.state, status.restarts) == ("failed", 0)
        assert status.error.startswith(f"{path} line 10: step good: Division by zero. Use `try_divide`")
    assert bench.records(target) == []


@pytest.mark.long
def test_a_target_that_is_deleted_under_a_running_query_is_named(bench: Bench, write_file: WriteFile) -> None:
    topic, target = bench.topic(partitions=1), bench.topic("target", partitions=2)
    bench.put(topic, {"id": 1, "amount": 1.0})
    text = CONSOLE.format(topic=topic, extra="").replace("eyes: {from: good, console: true, rows: 1000}", "")
    text += f"  out: {{from: good, topic: {target}}}\ntrigger: 100ms\nrestart: {{attempts: 3, delay: 10ms}}\n"
    admin = AdminClient({"bootstrap.servers": bench.bootstrap})

    def delete() -> None:
        admin.delete_topics([target])[target].result()
        bench.put(topic, {"id": 2, "amount": 1.0})

    path = write_file(text)
    run = bench.run_until(
        path,
        (lambda statuses: statuses[0].rows_in == 1, delete),
        (lambda statuses: statuses[0].state == "failed", nothing),
    )
    assert run.statuses[0].error.startswith(f"{path} line 14: sink out: topic {target} ")


def test_a_truncated_topic_stops_the_query_unless_allowed(bench: Bench, write_file: WriteFile) -> None:
    topic = bench.topic(partitions=1)
    text = CONSOLE.format(topic=topic, extra="")
    bench.put(topic, *({"id": number, "amount": 1.0} for number in range(10)))
    path = write_file(text)
    assert bench.run(path)[0].state == "done"
    bench.put(topic, *({"id": number, "amount": 1.0} for number in range(10, 20)))
    admin = AdminClient({"bootstrap.servers": bench.bootstrap})
    admin.delete_records([TopicPartition(topic, 0, 15)])[TopicPartition(topic, 0)].result()
    (status,) = bench.run(path)
    assert (status.state, status.restarts) == ("failed", 0)
    assert f"{path} line 13: sink eyes: " in status.error
    assert topic in status.error
    assert "`on-data-loss: continue` in the source goes on with what is left" in status.error
    bench.rows.clear()
    (status,) = bench.run(write_file(CONSOLE.format(topic=topic, extra="on-data-loss: continue")))
    assert status.state == "done"
    assert sorted(row[0] for row in bench.rows) == [15, 16, 17, 18, 19]


def test_a_topic_that_is_deleted_under_a_running_query_stops_it(
    bench: Bench, write_file: WriteFile, tmp_path: Path
) -> None:
    topic = bench.topic(partitions=1)
    bench.put(topic, *({"id": number, "amount": 1.0} for number in range(10)))
    text = CONSOLE.format(topic=topic, extra="") + "trigger: 100ms\nrestart: {attempts: 2, delay: 10ms}\n"
    admin = AdminClient({"bootstrap.servers": bench.bootstrap})

    def delete() -> None:
        admin.delete_topics([topic])[topic].result()

    run = bench.run_until(
        write_file(text),
        (lambda statuses: statuses[0].rows_in == 10, delete),
        (lambda statuses: statuses[0].state == "failed", nothing),
    )
    assert run.statuses[0].error.startswith(f"{tmp_path}/pipeline.yaml line 13: sink eyes: ")
    assert topic in run.statuses[0].error
    assert "the query stands still so that it is not overlooked" in run.statuses[0].error


def test_a_topic_that_is_truncated_under_a_running_query_stops_it(bench: Bench, write_file: WriteFile) -> None:
    topic = bench.topic(partitions=1)
    bench.put(topic, *({"id": number, "amount": 1.0} for number in range(10)))
    text = CONSOLE.format(topic=topic, extra="records-per-batch: 10") + "trigger: 3s\nrestart: {attempts: 0}\n"
    admin = AdminClient({"bootstrap.servers": bench.bootstrap})

    def truncate() -> None:
        """Between two batches: what comes is gone before it was read."""
        bench.put(topic, *({"id": number, "amount": 1.0} for number in range(10, 60)))
        admin.delete_records([TopicPartition(topic, 0, 55)])[TopicPartition(topic, 0)].result()

    run = bench.run_until(
        write_file(text),
        (lambda statuses: statuses[0].rows_in == 10, truncate),
        (lambda statuses: statuses[0].state == "failed", nothing),
    )
    assert f"{topic}-0" in run.statuses[0].error
    assert "`on-data-loss: continue` in the source goes on with what is left" in run.statuses[0].error


def test_a_changed_pipeline_is_refused_before_data_is_touched(bench: Bench, write_file: WriteFile) -> None:
    topic = bench.topic(partitions=1)
    bench.put(topic, {"id": 1, "amount": 5.0})
    text = CONSOLE.format(topic=topic, extra="").replace("eyes: {from: good,", "eyes: {from: total, mode: update,")
    text = text.replace("sinks:\n", "  total:\n    sql: SELECT sum(amount) AS total FROM good\nsinks:\n")
    assert bench.run(write_file(text))[0].state == "done"
    bench.rows.clear()
    refusal = refused(bench, write_file(text.replace("sum(amount)", "max(amount)")))
    assert refusal.startswith("line 12: sink eyes cannot go on from its checkpoint: step total keeps state")
    assert bench.rows == []
    # A filter keeps no state: the same checkpoint goes on.
    bench.put(topic, {"id": 2, "amount": 7.0}, {"id": 3, "amount": -1.0})
    assert bench.run(write_file(text.replace("FROM orders", "FROM orders WHERE value.amount > 0")))[0].state == "done"
    assert [row[0] for row in bench.rows] == [12.0]


def test_a_schema_that_changed_is_refused_by_the_table_and_named(bench: Bench, write_file: WriteFile) -> None:
    topic = bench.topic(partitions=1)
    text = CONSOLE.format(topic=topic, extra="").replace("eyes: {from: good, console: true, rows: 1000}", "{sink}")
    text = text.replace("{sink}", "lake: {from: good, table: ./lake}")
    bench.put(topic, {"id": 1, "amount": 5.0})
    assert bench.run(write_file(text))[0].state == "done", bench.lines
    bench.put(topic, {"id": 2, "amount": "five"})
    path = write_file(text.replace("amount DOUBLE", "amount STRING"))
    (status,) = bench.run(path)
    assert (status.state, status.restarts) == ("failed", 0)
    assert status.error.startswith(f"{path} line 13: sink lake: column amount of ")
    assert "is double, not string; cast it, give it another name, or write another table" in status.error
    # Nothing was touched: with the cast the same checkpoint goes on, and the record is there.
    cast = text.replace("amount DOUBLE", "amount STRING").replace(
        "value.amount", "length(value.amount) + 0.5D AS amount"
    )
    assert bench.run(write_file(cast))[0].state == "done", bench.lines
    rows = bench.spark.read.parquet(str(path.parent / "lake")).select("id", "amount").collect()
    assert sorted(tuple(row) for row in rows) == [(1, 5.0), (2, 4.5)]


def test_dead_letters_outlive_the_sink_that_sent_them(bench: Bench, write_file: WriteFile, tmp_path: Path) -> None:
    topic, letters = bench.topic(partitions=1), f"letters-{bench.topic()}"
    bench.put(topic, {"id": 1, "amount": 1.0})
    text = CONSOLE.format(topic=topic, extra="").replace("eyes: ", "first: ")
    text = text.replace(
        "sql: |\n", f"dead-letters: {letters}\n    rules: [{{expect: id < 5, otherwise: drop}}]\n    sql: |\n"
    )
    both = text + "  second: {from: good, console: true, rows: 1000}\n"
    one = both.replace("  first: {from: good, console: true, rows: 1000}\n", "")
    assert [status.state for status in bench.run(write_file(both))] == ["done", "done"], bench.lines
    assert letters in AdminClient({"bootstrap.servers": bench.bootstrap}).list_topics(timeout=30).topics
    bench.put(topic, {"id": 7, "amount": 1.0})
    assert [status.state for status in bench.run(write_file(both))] == ["done", "done"], bench.lines
    # As if the first sink had not come so far.
    commit = tmp_path / ".tidelog" / "checkpoints" / "pipeline" / "first" / "commits" / "1"
    commit.rename(tmp_path / "commit")
    refusal = f"sink first, which sent the dead letters of orders, is gone .* in topic {topic} as sink second"
    with pytest.raises(PipelineError, match=refusal):
        bench.run(write_file(one))
    (tmp_path / "commit").rename(commit)
    bench.put(topic, {"id": 8, "amount": 1.0})
    assert bench.run(write_file(one))[0].state == "done", bench.lines
    assert [value["id"] for value in bench.values(letters)] == [7, 8]


def test_a_broker_that_is_away_is_waited_for(bench: Bench, write_file: WriteFile, tmp_path: Path) -> None:
    with Broker(data=tmp_path / "data") as broker:
        away = Bench(bench.spark, broker, tmp_path)
        topic = away.topic(partitions=1)
        away.put(topic, {"id": 1, "amount": 1.0})
        impatient = "options: {kafka.default.api.timeout.ms: 2000, kafka.request.timeout.ms: 1000}"
        text = CONSOLE.format(topic=topic, extra=impatient)
        text += "trigger: 100ms\nrestart: {attempts: 0, delay: 100ms, delay-max: 500ms}\n"

        def come_back() -> None:
            broker.start()
            away.put(topic, {"id": 2, "amount": 2.0})

        away.run_until(
            write_file(text),
            (lambda statuses: statuses[0].rows_in == 1, broker.stop),
            # Away for longer than an attempt or two: what a query asks before it starts again finds nobody either.
            (lambda statuses: statuses[0].restarts >= 3, come_back),
            (lambda statuses: statuses[0].rows_in == 2, nothing),
        )
        assert sorted(row[0] for row in away.rows) == [1, 2]
        # So impatient a client may have been disappointed before that, on a busy machine.
        assert any(f"no broker answers at {broker.bootstrap_servers}" in line for line in away.lines), away.lines


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a small file system can only be mounted by root")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_full_disk_is_told_and_the_query_goes_on_when_there_is_room(
    bench: Bench, write_file: WriteFile, small_disk: Path
) -> None:
    topic = bench.topic(partitions=1)
    bench.put(topic, *(os.urandom(4096) for _ in range(100)))
    path = write_file(
        f"""\
        trigger: 100ms
        restart: {{attempts: 1000, delay: 100ms, delay-max: 500ms}}
        sources: {{records: {{topic: {topic}, value: bytes}}}}
        sinks: {{table: {{from: records, table: {small_disk}/table}}}}
        """
    )
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(1_800_000))
    run = bench.run_until(
        path,
        (lambda statuses: "a disk is full" in statuses[0].error, ballast.unlink),
        (lambda statuses: statuses[0].rows_in >= 100 and statuses[0].state == "running", nothing),
    )
    assert run.statuses[0].restarts > 0
    assert bench.spark.read.parquet(f"{small_disk}/table").selectExpr("count(*)", "count(DISTINCT offset)").first() == (
        100,
        100,
    )
