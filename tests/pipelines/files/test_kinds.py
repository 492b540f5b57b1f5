"""Sources, sinks and triggers that the examples leave out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
from tests.pipelines.files.bench import Bench, nothing
from tests.pipelines.messages import ORDER, described, message_class, order_file, write_descriptor
from tests.pipelines.schema_registries import register, small_registry

WriteFile = Callable[[str], Path]


def test_a_table_into_a_topic_is_one_pass_each_time(bench: Bench, write_file: WriteFile, tmp_path: Path) -> None:
    target = bench.topic("target", partitions=1)
    table = str(tmp_path / "tables" / "prices")
    bench.spark.createDataFrame([("anchor", 5.0), ("buoy", 7.5)], "item STRING, price DOUBLE").write.parquet(table)
    path = write_file(
        f"""\
        sources: {{prices: {{table: ./tables/prices}}}}
        steps: {{dear: {{sql: SELECT * FROM prices WHERE price > 1}}}}
        sinks: {{out: {{from: dear, topic: {target}, key: item}}}}
        """
    )
    (status,) = bench.run(path)
    assert (status.state, status.rows_in) == ("done", 2), bench.lines
    assert bench.run(path)[0].state == "done"
    assert sorted(value["item"] for value in bench.values(target)) == ["anchor", "anchor", "buoy", "buoy"]


def test_files_in_and_files_out(bench: Bench, write_file: WriteFile, tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    landing.mkdir()
    (landing / "one.json").write_text(json.dumps({"id": 1}) + "\n")
    path = write_file(
        """\
        sources: {landed: {files: landing/*.json, schema: id BIGINT}}
        sinks: {kept: {from: landed, files: kept, format: parquet}}
        """
    )
    assert bench.run(path)[0].state == "done", bench.lines
    (landing / "two.json").write_text(json.dumps({"id": 2}) + "\n")
    (status,) = bench.run(path)
    assert (status.rows_in, status.rows_out) == (1, 1), "the first file was read again"
    assert sorted(row[0] for row in bench.spark.read.parquet(str(tmp_path / "kept")).collect()) == [1, 2]


def test_an_upsert_into_delta(bench: Bench, write_file: WriteFile, tmp_path: Path) -> None:
    topic = bench.topic(partitions=1)
    bench.put(topic, {"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 1, "name": "c"})
    path = write_file(
        f"""\
        sources: {{people: {{topic: {topic}, schema: "id BIGINT, name STRING, gone BOOLEAN"}}}}
        steps: {{flat: {{sql: "SELECT value.*, offset FROM people"}}}}
        sinks:
          table:
            from: flat
            table: ./people
            format: delta
            write: upsert
            key: id
            order-by: offset
            delete-when: gone
            exclude: [gone, offset]
        """
    )
    assert bench.run(path)[0].state == "done", bench.lines
    bench.put(topic, {"id": 2, "gone": True}, {"id": 3, "name": "d"})
    assert bench.run(path)[0].state == "done", bench.lines
    rows = bench.spark.read.format("delta").load(str(tmp_path / "people")).orderBy("id").collect()
    assert [row.asDict() for row in rows] == [{"id": 1, "name": "c"}, {"id": 3, "name": "d"}]


def test_a_continuous_query_at_least_once(bench: Bench, write_file: WriteFile) -> None:
    topic, target = bench.topic(partitions=1), bench.topic("target", partitions=1)
    bench.put(topic, *({"id": number} for number in range(5)))
    path = write_file(
        f"""\
        trigger: {{continuous: 200ms}}
        sources: {{records: {{topic: {topic}, value: bytes, key: bytes}}}}
        sinks: {{out: {{from: records, topic: {target}, delivery: at-least-once}}}}
        """
    )
    bench.run_until(path, (lambda _: len(bench.records(target)) >= 5, nothing))
    assert {value["id"] for value in bench.values(target)} == set(range(5))


def test_a_schema_that_grows(bench: Bench, write_file: WriteFile, tmp_path: Path) -> None:
    from tidelog.pipelines.tables.table_sink import read_table

    topic = bench.topic(partitions=1)
    text = f"""\
        sources: {{{{people: {{{{topic: {topic}, schema: "{{schema}}"}}}}}}}}
        steps: {{{{flat: {{{{sql: "SELECT value.* FROM people"}}}}}}}}
        sinks: {{{{table: {{{{from: flat, table: ./people}}}}}}}}
        """
    bench.put(topic, {"id": 1, "name": "a"})
    assert bench.run(write_file(text.format(schema="id BIGINT")))[0].state == "done", bench.lines
    bench.put(topic, {"id": 2, "name": "b"})
    assert bench.run(write_file(text.format(schema="id BIGINT, name STRING")))[0].state == "done", bench.lines
    rows = read_table(bench.spark, str(tmp_path / "people")).orderBy("id").collect()
    assert [row.asDict() for row in rows] == [{"id": 1, "name": None}, {"id": 2, "name": "b"}]


def test_a_stream_that_only_selects_is_written_by_the_tasks_that_read_it(
    bench: Bench, write_file: WriteFile, tmp_path: Path
) -> None:
    """Rows, dropped rows and broken rules are counted on the way, once each; what is dropped leaves as its record."""
    topic, target = bench.topic(partitions=3), bench.topic("target", partitions=2)
    letters, late = f"{topic}.dead-letters", bench.topic("late", partitions=1)
    bench.put(topic, *({"id": number, "unknown": [number]} for number in range(40)), b"{broken")
    text = f"""\
        restart: {{attempts: 5, delay: 10ms}}
        sources:
          numbers:
            topic: {topic}
            schema: id BIGINT
            rules:
              - {{name: early, expect: value.id < 30, otherwise: warn}}
              - {{name: even, expect: value.id % 2 = 0, otherwise: drop}}
        steps:
          flat:
            sql: SELECT value.id FROM numbers WHERE value.id > 3
            dead-letters: {late}
            rules: [{{name: late, expect: id < 38, otherwise: drop}}]
        sinks: {{out: {{from: flat, topic: {target}, key: id}}}}
        """
    (status,) = bench.run(write_file(text))
    assert status.state == "done", bench.lines
    assert sorted(value["id"] for value in bench.values(target, 2)) == list(range(4, 38, 2))
    assert (status.rows_in, status.rows_out) == (41, 17)
    assert status.rule_violations == {"early": 10, "even": 20, "late": 1}
    assert (status.bad_records, status.dead_letters) == (1, {letters: 21, late: 1})
    sent = {record.value() for record in bench.records(letters)}
    assert sent == {b"{broken", *(b'{"id": %d, "unknown": [%d]}' % (n, n) for n in range(1, 40, 2))}
    assert [record.value() for record in bench.records(late)] == [b'{"id": 38, "unknown": [38]}']
    checkpoint = tmp_path / ".tidelog" / "checkpoints" / "pipeline" / "out"
    (layout,) = json.loads((checkpoint / "tidelog" / "topic-sink.json").read_text())["layouts"]
    assert layout["by_source"]
    # As if the driver had ended before the checkpoint was told: the batch cannot be laid out otherwise, ever.
    (checkpoint / "commits" / "0").unlink()
    (checkpoint / "commits" / ".0.crc").unlink()
    (status,) = bench.run(write_file(text.replace("WHERE value.id > 3", "DISTRIBUTE BY value.id")))
    assert (status.state, status.restarts) == ("failed", 0)
    assert f"sink out: batch 0 into topic {target} was planned in the tasks that read its source" in status.error


def test_upserts_of_one_session_do_not_meet(bench: Bench, write_file: WriteFile, tmp_path: Path) -> None:
    """Each sink is a pass in a thread of its own, on the same session."""
    for name in ("a", "b"):
        bench.spark.createDataFrame([(1, name)], "id BIGINT, origin STRING").write.parquet(str(tmp_path / "in" / name))
    path = write_file(
        """\
        sources: {a: {table: ./in/a}, b: {table: ./in/b}}
        sinks:
          to_a: {from: a, table: ./out/a, format: delta, write: upsert, key: id}
          to_b: {from: b, table: ./out/b, format: delta, write: upsert, key: id}
        """
    )
    assert [status.state for status in bench.run(path)] == ["done", "done"], bench.lines
    for name in ("a", "b"):
        rows = bench.spark.read.format("delta").load(str(tmp_path / "out" / name)).collect()
        assert [tuple(row) for row in rows] == [(1, name)]


def test_passes_over_a_table_into_files_and_to_the_console(bench: Bench, write_file: WriteFile, tmp_path: Path) -> None:
    """A pass adds its rows once, also when it was interrupted; rules are about all rows, not the few that are shown."""
    letters = bench.topic("letters", partitions=1)
    bench.spark.range(50).coalesce(1).write.parquet(str(tmp_path / "numbers"))
    path = write_file(
        f"""\
        sources:
          numbers:
            table: ./numbers
            dead-letters: {letters}
            rules: [{{expect: id < 45, otherwise: drop}}]
        sinks:
          eyes: {{from: numbers, console: true, rows: 3}}
          kept: {{from: numbers, files: ./kept, format: json, options: {{compression: gzip}}}}
        """
    )
    eyes, kept = bench.run(path)
    assert (eyes.state, eyes.rows_in, kept.state) == ("done", 45, "done"), bench.lines
    assert len(bench.rows) == 3
    assert sorted(value["id"] for value in bench.values(letters)) == list(range(45, 50))
    # As if the run had ended when the files were there, and the pass not counted yet.
    (tmp_path / ".tidelog" / "checkpoints" / "pipeline" / "kept" / "passes.json").unlink()
    for passes in (1, 2):
        assert bench.run(path)[1].state == "done", bench.lines
        rows = bench.spark.read.json(str(tmp_path / "kept")).collect()
        assert sorted(row.id for row in rows) == sorted(list(range(45)) * passes)


def test_a_topic_in_avro_and_one_in_protobuf(bench: Bench, write_file: WriteFile, tmp_path: Path) -> None:
    """From a file: JSON in, Protobuf with keys in Avro out and in again, then Avro with the ids of its schemas."""
    write_descriptor(tmp_path / "orders.desc", order_file())
    source, middle, target = bench.topic(partitions=1), bench.topic("middle", partitions=1), bench.topic(partitions=1)
    bench.put(source, {"id": 1, "state": "PAID"}, {"id": 2, "state": "NEW"})
    with small_registry() as registry:
        text = f"""\
        sources:
          orders: {{topic: {source}, schema: "id BIGINT, state STRING"}}
          messages:
            topic: {middle}
            value: protobuf
            schema: orders.desc
            message: {ORDER}
            key: avro
            key-schema: string
        steps:
          flat: {{sql: "SELECT key, value.* FROM orders"}}
          paid: {{sql: "SELECT key, value.id FROM messages WHERE value.state = 'PAID'"}}
        sinks:
          proto:
            from: flat
            topic: {middle}
            format: protobuf
            schema: orders.desc
            message: {ORDER}
            key-format: avro
            key-schema: string
          avro:
            from: paid
            topic: {target}
            format: registry-avro
            key-format: registry-avro
            registry: "{registry}"
        """
        for _ in range(2):
            assert [status.state for status in bench.run(write_file(text))] == ["done", "done"], bench.lines
        identity = register(registry, f"{target}-value", "{}") - 1
        # Columns that the message has not are told with the line of their sink, before a record is written.
        wrong = write_file(text.replace("value.* FROM orders", "value.id AS number FROM orders"))
        proto, _ = bench.run(wrong)
        assert proto.state == "failed"
        assert proto.error.startswith(f"{wrong} line 14: sink proto: the Protobuf message {ORDER} has no field number;")
    kind = message_class(described(order_file()), ORDER)
    written = [(record.key(), kind.FromString(record.value()).id) for record in bench.records(middle)]
    assert written == [(b"\x021", 1), (b"\x022", 2)]
    # A nullable long is a union in Avro: its first branch, then 1 as a zigzag.
    [record] = bench.records(target)
    assert record.value() == b"\x00" + identity.to_bytes(4, "big") + b"\x00\x02"
    assert record.key() == b"\x00" + (identity - 1).to_bytes(4, "big") + b"\x021"
