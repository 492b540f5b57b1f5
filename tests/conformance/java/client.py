"""Java's kafka-clients through Kafka's console producer and consumer."""

from __future__ import annotations

from collections.abc import Iterable

from tests.conformance.sample import Sample
from tests.servers.java_tools import JavaTools

NULL = "<null>"
PRODUCER_PROPERTIES = ("parse.key=true", "parse.headers=true", f"null.marker={NULL}")
CONSUMER_PROPERTIES = ("print.key=true", "print.headers=true", f"null.literal={NULL}", "print.value=true")


def _formatted(name: str, properties: Iterable[str]) -> list[str]:
    return [part for setting in properties for part in (name, setting)]


def _line(record: Sample) -> str:
    headers = ",".join(f"{name}:{value}" for name, value in record.headers)
    return f"{headers or NULL}\t{record.key or NULL}\t{record.value or NULL}\n"


def produce(tools: JavaTools, bootstrap: str, topic: str, records: Iterable[Sample], codec: str = "none") -> None:
    tools.run(
        "console-producer",
        "--bootstrap-server",
        bootstrap,
        "--topic",
        topic,
        "--compression-codec",
        codec,
        *_formatted("--reader-property", PRODUCER_PROPERTIES),
        stdin="".join(map(_line, records)),
    ).check()


def consume(tools: JavaTools, bootstrap: str, topic: str, count: int) -> list[Sample]:
    output = tools.run(
        "console-consumer",
        "--bootstrap-server",
        bootstrap,
        "--topic",
        topic,
        "--partition",
        "0",
        "--offset",
        "earliest",
        "--max-messages",
        str(count),
        "--timeout-ms",
        "30000",
        *_formatted("--formatter-property", CONSUMER_PROPERTIES),
    ).check()
    return [_parsed(line) for line in output.splitlines()]


def _parsed(line: str) -> Sample:
    headers, key, value = line.split("\t")
    pairs = () if headers == "NO_HEADERS" else tuple(tuple(pair.split(":")) for pair in headers.split(","))
    return Sample(None if key == NULL else key, None if value == NULL else value, pairs)  # type: ignore[arg-type]
