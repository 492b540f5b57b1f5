"""`audit`: does a table hold what the log holds? Figures per partition, then the records that differ.

Both sides are reduced to the same figures by Spark: number of rows, first and last offset, and a checksum that does not
depend on order (the sum of a 64-bit hash over offset, key, value, timestamp and headers). Records older than the start
of the log are in the table only: retention took them from the log, which is what archives are for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from tidelog.pipelines.tables.table_files import check_columns, refuse_missing, table_format
from tidelog.pipelines.topics.broker import client_settings, partition_counts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = ("partition", "offset", "key", "value", "headers", "timestamp")
"""What a table must have to be compared; where it has `topic` as well, only rows of the topic are."""
CHECKSUM_OF_NOTHING = f"{0:016x}"
DIFFERENCES_MAX = 20
"""How many records an audit lists; its figures count all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """What one side has of a partition, within the offsets that are compared."""

    rows: int = 0
    offsets: int = 0
    """Distinct offsets: fewer than rows means duplicates."""
    first: int = -1
    last: int = -1
    checksum: str = CHECKSUM_OF_NOTHING
    """16 hexadecimal digits."""

    @property
    def duplicates(self) -> int:
        return self.rows - self.offsets

    @property
    def gaps(self) -> int:
        """Offsets between the first and the last that are not there (compaction and transaction markers leave some)."""
        return self.last - self.first + 1 - self.offsets if self.rows else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAudit:
    partition: int
    log_start: int
    log: Side
    table: Side
    older: int = 0
    """Rows of the table from before the start of the log."""
    behind: int = 0
    """Records of the log after the last one in the table."""

    @property
    def is_same(self) -> bool:
        return self.log == self.table

    @property
    def verdict(self) -> str:
        if self.is_same:
            return "same" if not self.behind else f"{self.behind:,} behind"
        return "DIFFERENT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One record that is not the same on both sides."""

    partition: int
    offset: int
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    topic: str
    path: str
    format: str
    partitions: list[PartitionAudit] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)

    @property
    def is_same(self) -> bool:
        """Whether the table has all the log has, and nothing else."""
        return all(partition.is_same and not partition.behind for partition in self.partitions)

    def as_document(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "path": self.path,
            "format": self.format,
            "same": self.is_same,
            "partitions": [
                {**asdict(partition), "verdict": partition.verdict, "gaps": partition.log.gaps}
                for partition in self.partitions
            ],
            "differences": [asdict(difference) for difference in self.differences],
        }


def check_audit(topic: str, path: str, *, bootstrap: str, client: Mapping[str, str] | None = None) -> None:
    """PipelineError for what can be found without Spark."""
    check_columns(path, COLUMNS)
    partition_counts(bootstrap, [topic], client)


def audit(
    spark: SparkSession,
    topic: str,
    path: str,
    *,
    bootstrap: str,
    client: Mapping[str, str] | None = None,
    progress: Callable[[str], None] = lambda _text: None,
) -> Audit:
    """Compares the committed records of a topic, as they are now, with the rows of a table.

    `progress` gets what is done next.
    """
    from pyspark.sql import functions

    from tidelog.pipelines.tables.table_sink import read_table
    from tidelog.pipelines.topics.topic_source import read_topic

    options = {f"kafka.{name}": value for name, value in (client or {}).items()}
    records = read_topic(
        spark,
        topic,
        bootstrap=bootstrap,
        value="bytes",
        key="bytes",
        options={"kafka.isolation.level": "read_committed", **options},
    )
    found_format = table_format(spark, path)
    rows = read_table(spark, path, format=found_format)
    refuse_missing(path, COLUMNS, rows.columns)
    if "topic" in rows.columns:
        rows = rows.where(functions.col("topic") == topic)
    log = _hashed(records)
    table = _hashed(rows)
    progress("reading the table")
    starts = log_starts(bootstrap, topic, client or {})
    bounds = _bounds(table)
    progress("comparing the log with the table")
    partitions = _compare(log, table, starts, bounds)
    differing = [partition.partition for partition in partitions if not partition.is_same]
    if differing:
        progress("looking for the records that differ")
    differences = _list_differences(log, table, differing, starts, bounds) if differing else []
    return Audit(topic=topic, path=path, format=found_format, partitions=partitions, differences=differences)


def _hashed(frame: DataFrame) -> DataFrame:
    """partition, offset and the hash of everything in a record."""
    from pyspark.sql import functions

    headers = functions.coalesce(functions.to_json("headers"), functions.lit("[]"))
    hashed = functions.xxhash64("offset", "key", "value", functions.unix_millis("timestamp"), headers)
    # A null hashes like nothing at all: whether key and value are there is part of the record.
    present = functions.concat(
        functions.col("key").isNull().cast("string"), functions.col("value").isNull().cast("string")
    )
    return frame.select("partition", "offset", functions.xxhash64(hashed, present).alias("hash"))


def _bounds(table: DataFrame) -> dict[int, int]:
    """The last offset of each partition in the table."""
    return {row[0]: row[1] for row in table.groupBy("partition").agg({"offset": "max"}).collect()}


def _compare(
    log: DataFrame, table: DataFrame, starts: Mapping[int, int], bounds: Mapping[int, int]
) -> list[PartitionAudit]:
    from pyspark.sql import functions

    kept = table.where(_from(starts))
    reached = log.where(_until(bounds))
    behind = {row[0]: row[1] for row in log.where(~_until(bounds)).groupBy("partition").count().collect()}
    older = {row[0]: row[1] for row in table.where(~_from(starts)).groupBy("partition").count().collect()}
    sides = []
    for frame in (reached, kept):
        figures = frame.groupBy("partition").agg(
            functions.count("*"),
            functions.countDistinct("offset"),
            functions.min("offset"),
            functions.max("offset"),
            functions.sum(functions.col("hash").cast("decimal(38,0)")).cast("string"),
        )
        sides.append(
            {
                row[0]: Side(rows=row[1], offsets=row[2], first=row[3], last=row[4], checksum=_hex(row[5]))
                for row in figures.collect()
            }
        )
    log_sides, table_sides = sides
    return [
        PartitionAudit(
            partition=number,
            log_start=starts.get(number, 0),
            log=log_sides.get(number, Side()),
            table=table_sides.get(number, Side()),
            older=older.get(number, 0),
            behind=behind.get(number, 0),
        )
        for number in sorted({*starts, *bounds})
    ]


def _hex(total: str) -> str:
    """A sum of 64-bit numbers, as text, modulo 2^64."""
    return f"{int(total) % 2**64:016x}"


def _from(starts: Mapping[int, int]) -> Any:
    """Rows that the log still has to have."""
    return _at_partition(starts, lambda offset, start: offset >= start, default=True)


def _until(bounds: Mapping[int, int]) -> Any:
    """Records that the table already has to have."""
    return _at_partition(bounds, lambda offset, last: offset <= last, default=False)


def _at_partition(limits: Mapping[int, int], holds: Any, *, default: bool) -> Any:
    from pyspark.sql import functions

    condition = functions.lit(default)
    for partition, limit in limits.items():
        here = functions.col("partition") == partition
        condition = functions.when(here, holds(functions.col("offset"), limit)).otherwise(condition)
    return condition


def _list_differences(
    log: DataFrame, table: DataFrame, partitions: list[int], starts: Mapping[int, int], bounds: Mapping[int, int]
) -> list[Difference]:
    from pyspark.sql import functions

    places = ["partition", "offset"]
    ours = functions.col("partition").isin(partitions)
    left = log.where(ours & _until(bounds)).groupBy(*places).agg(functions.first("hash").alias("log_hash"))
    right = (
        table.where(ours & _from(starts))
        .groupBy(*places)
        .agg(functions.first("hash").alias("table_hash"), functions.count("*").alias("copies"))
    )
    joined = left.join(right, places, "full_outer").where(
        "log_hash IS NULL OR table_hash IS NULL OR log_hash <> table_hash OR copies > 1"
    )
    return [
        Difference(partition=row["partition"], offset=row["offset"], what=_describe(row))
        for row in joined.orderBy(*places).limit(DIFFERENCES_MAX).collect()
    ]


def _describe(row: Any) -> str:
    if row["table_hash"] is None:
        return "missing in the table"
    if row["log_hash"] is None:
        return "in the table, not in the log"
    if row["copies"] > 1:
        return f"{row['copies']} times in the table"
    return "other content"


def log_starts(bootstrap: str, topic: str, client: Mapping[str, str]) -> dict[int, int]:
    """The first offset of every partition of a topic."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient, OffsetSpec

    count = partition_counts(bootstrap, [topic], client)[topic]
    admin = AdminClient(client_settings(bootstrap, client))
    asked = {TopicPartition(topic, number): OffsetSpec.earliest() for number in range(count)}
    return {
        partition.partition: future.result(timeout=30).offset for partition, future in admin.list_offsets(asked).items()
    }
