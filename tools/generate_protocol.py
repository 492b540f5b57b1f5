"""Generates src/tidelog/protocol/generated from Kafka's published message definitions.

`python tools/generate_protocol.py` writes; with `--check` it compares what is committed with what it would write and
fails when they differ. The definitions come out of Kafka's jars, which Maven fetches into a cache once.
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from tools.protocol.jars import JarsUnavailable, read_messages  # noqa: E402
from tools.protocol.modules import emit_schemas, generate, prepare  # noqa: E402

KAFKA_VERSION = "4.3.1"
GENERATED = Path("src/tidelog/protocol/generated")
SCHEMAS = Path("tests/unit/protocol/schemas.json")


def expected_files() -> dict[Path, str]:
    messages = read_messages(KAFKA_VERSION)
    prepare(messages)
    files = {GENERATED / name: text for name, text in generate(messages, KAFKA_VERSION).items()}
    files[SCHEMAS] = emit_schemas(messages)
    return files


def committed_files() -> dict[Path, str]:
    paths = [*(ROOT / GENERATED).glob("*.py"), ROOT / SCHEMAS]
    return {path.relative_to(ROOT): path.read_text() for path in paths if path.is_file()}


def describe_drift(expected: dict[Path, str], committed: dict[Path, str]) -> list[str]:
    """One line per file that differs, with the first line that does."""
    drift = []
    for path in sorted(expected.keys() | committed.keys()):
        if path not in committed:
            drift.append(f"{path}: missing")
        elif path not in expected:
            drift.append(f"{path}: not generated any more")
        elif expected[path] != committed[path]:
            difference = difflib.unified_diff(committed[path].split("\n"), expected[path].split("\n"), lineterm="", n=0)
            changed = [line for line in difference if line[:1] in "+-" and line[:3] not in ("+++", "---")]
            added = sum(line[0] == "+" for line in changed)
            drift.append(f"{path}: +{added} -{len(changed) - added}, first: {changed[0][:100]}")
    return drift


def write_files(expected: dict[Path, str], committed: dict[Path, str]) -> int:
    changed = 0
    for path in committed.keys() - expected.keys():
        (ROOT / path).unlink()
    for path, text in expected.items():
        if committed.get(path) != text:
            (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / path).write_text(text)
            changed += 1
    return changed


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when the committed code differs")
    options = parser.parse_args(arguments)
    try:
        expected = expected_files()
    except JarsUnavailable as reason:
        if options.check and not os.environ.get("CI"):
            print(f"protocol code not checked: {reason}")
            return 0
        print(reason, file=sys.stderr)
        return 1
    committed = committed_files()
    if not options.check:
        print(f"{write_files(expected, committed)} of {len(expected)} files written")
        return 0
    drift = describe_drift(expected, committed)
    if drift:
        print("the committed protocol code is not what tools/generate_protocol.py writes:", file=sys.stderr)
        print("\n".join(f"  {line}" for line in drift), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
