"""kcat, the command line tool on librdkafka (Debian package `kcat`)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from itertools import groupby, pairwise

from tests.conformance.sample import Sample
from tests.servers.tools import require_program


def run(bootstrap: str, *arguments: str, stdin: str = "") -> str:
    command = [require_program("kcat"), "-b", bootstrap, *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def produce(bootstrap: str, topic: str, records: Iterable[Sample], codec: str = "none") -> None:
    """Headers are options of a whole run, hence one run for each group of records with the same headers."""
    for headers, group in groupby(records, key=lambda record: record.headers):
        options = [part for name, value in headers for part in ("-H", f"{name}={value}")]
        # With -Z an empty key or value is written as null.
        lines = "".join(f"{record.key or ''}\t{record.value or ''}\n" for record in group)
        run(bootstrap, "-P", "-t", topic, "-p", "0", "-z", codec, "-Z", "-K", "\t", *options, stdin=lines)


def consume(bootstrap: str, topic: str, count: int) -> list[Sample]:
    arguments = ("-C", "-t", topic, "-p", "0", "-o", "beginning", "-c", str(count), "-J", "-q")
    messages = [json.loads(line) for line in run(bootstrap, *arguments).splitlines()]
    return [Sample(message["key"], message["payload"], _headers(message)) for message in messages]


def _headers(message: dict[str, list[str]]) -> tuple[tuple[str, str], ...]:
    """kcat prints headers as one flat list: name, value, name, value."""
    return tuple(list(pairwise(message.get("headers", [])))[::2])
