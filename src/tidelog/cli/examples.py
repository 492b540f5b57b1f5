"""`tidelog examples`: pipelines to start from, each with topics and tables that it can be run on.

An example is a pipeline file. What its sources read is below `data/` beside it, one file of lines per topic or table.
`load` copies the example into a directory of the reader's, so that checkpoints and tables are never written elsewhere.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.cli.clients import cluster_metadata, connect_admin, connect_producer, result_of
from tidelog.cli.connection import add_connection_arguments
from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_json, print_table

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

DIRECTORY_DEFAULT = "./tidelog-examples"
PARTITIONS = 2
DELIVERY_SECONDS_MAX = 30.0


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("examples", help="pipelines to start from, with their data")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    shown = verbs.add_parser("list", help="their names and what they show")
    shown.add_argument("--json", action="store_true", help="one JSON document")
    shown.set_defaults(run=run_list)
    load = verbs.add_parser(
        "load",
        help="copy one here and fill its topics",
        description="Copies the pipeline file to DIR/NAME, writes the tables that it reads beside it, makes its topics "
        "and fills them. What exists already, a topic or a file that was edited, is left as it is.",
    )
    load.add_argument("name", metavar="NAME")
    load.add_argument("--to", metavar="DIR", default=DIRECTORY_DEFAULT, help=f"(default {DIRECTORY_DEFAULT})")
    add_connection_arguments(load)
    load.set_defaults(run=run_load)


def run_list(args: argparse.Namespace) -> int:
    rows = titles()
    if args.json:
        print_json([{"name": name, "shows": title} for name, title in rows])
    else:
        print_table(("name", "shows"), rows)
    return 0


def run_load(args: argparse.Namespace) -> int:
    import yaml

    source = next((path for path in _pipelines() if path.stem == args.name), None)
    if source is None:
        names = ", ".join(path.stem for path in _pipelines())
        raise CommandError(f"no example {args.name}; there are {names}")
    admin = connect_admin(args)  # Fails for a missing broker before a file is written.
    pipeline = yaml.safe_load(source.read_text())
    target = Path(args.to) / args.name
    tables = [declared["table"] for declared in pipeline["sources"].values() if "table" in declared]
    try:
        for table in tables:
            _write_table(source.parent / "data", target / table)
        copied = _copy(source, target, pipeline)
    except OSError as error:
        raise CommandError(f"the example cannot be copied to {target}: {error.strerror}") from None
    _fill_topics(args, admin, [source["topic"] for source in pipeline["sources"].values() if "topic" in source])
    print(f"tidelog pipeline run {copied}")
    return 0


def directory() -> Path:
    """Where the examples are: in the package, or at the top of the repository that it runs from."""
    package = Path(__file__).parents[1]
    found = package / "examples"
    return found if found.is_dir() else package.parents[1] / "examples"


def titles() -> list[tuple[str, str]]:
    """Name and title of each."""
    return [(path.stem, _title(path)) for path in _pipelines()]


def _pipelines() -> list[Path]:
    return sorted(directory().glob("*.yaml"))


def _title(path: Path) -> str:
    """The first line of the file is a comment that says what it is for."""
    return path.read_text().partition("\n")[0].removeprefix("# ").rstrip(".")


def _copy(source: Path, target: Path, pipeline: Mapping[str, Any]) -> Path:
    modules = [step["python"].partition(":")[0] for step in pipeline["steps"].values() if "python" in step]
    target.mkdir(parents=True, exist_ok=True)
    for path in (source, *(source.with_name(f"{module}.py") for module in modules)):
        copied = target / path.name
        if not copied.exists():
            shutil.copyfile(path, copied)
        elif copied.read_bytes() != path.read_bytes():
            print(f"{copied} was edited and is left as it is")
    return target / source.name


def _write_table(data: Path, table: Path) -> None:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise CommandError("this example reads a table: pip install 'tidelog[spark]' brings what writes it") from None
    rows = [json.loads(line) for line in _lines(data, table.name)]
    table.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pyarrow.Table.from_pylist(rows), table / "part-0.parquet")
    print(f"table {table}: {len(rows)} rows")


def _fill_topics(args: argparse.Namespace, admin: AdminClient, topics: list[str]) -> None:
    from confluent_kafka.admin import NewTopic

    present = cluster_metadata(admin, args).topics
    for topic in topics:
        if topic in present:
            print(
                f"topic {topic} exists already and is left as it is; for the records of the example: "
                f"tidelog topics delete {topic}, then load again"
            )
            continue
        result_of(admin.create_topics([NewTopic(topic, PARTITIONS)])[topic], f"topic {topic}")
        lines = _lines(directory() / "data", topic)
        _produce(args, topic, lines)
        print(f"topic {topic}: {len(lines)} records")


def _produce(args: argparse.Namespace, topic: str, lines: list[str]) -> None:
    failed: list[str] = []
    producer = connect_producer(args, {})
    for number, line in enumerate(lines):
        producer.produce(
            topic,
            line.encode(),
            partition=number % PARTITIONS,
            on_delivery=lambda error, _: failed.append(str(error)) if error else None,
        )
    if producer.flush(DELIVERY_SECONDS_MAX) or failed:
        raise CommandError(f"not every record of {topic} was taken: {failed[0] if failed else 'no answer in time'}")


def _lines(data: Path, name: str) -> list[str]:
    return (data / f"{name}.jsonl").read_text().splitlines()
