"""What the documents show and the tests of documents do not run. Everything else is run; keep this list small.

A command is found by the pattern that it matches from its first letter on, a block by its first line. What is not in
the documents any more has to leave this list.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.documents.blocks import Block, Command

COMMANDS: dict[str, str] = {
    r"make (install|dev)\b": "installation: what runs these tests was installed so",
    r"make (test|test-long|lint)\b": "these tests are part of it, and so is lint; the long ones take hours",
    r"sudo (useradd|python3|/opt/tidelog/|install|tee|systemctl|journalctl)\b": (
        "changes the machine; tests/deploy holds the unit against systemd and the command line"
    ),
    r"\.venv/bin/python -m benchmarks": "takes minutes; tests/unit/benchmarks proves what it makes of the values",
    r"docker compose\b": "tests/deploy/test_docker.py does it where there is a Docker daemon",
    r"make demo\b": "installation, then `tidelog demo`: tests/pipelines/files/test_command.py runs that",
}
"""Pattern -> why."""

BLOCKS: dict[tuple[str, str], str] = {
    ("docs/architecture.md", "   Kafka clients                      scrapers"): "a drawing",
}
"""Document and beginning of the first line -> why."""


def why_not_run(command: Command) -> str | None:
    return next((why for pattern, why in COMMANDS.items() if re.match(pattern, command.text)), None)


def why_not_read(block: Block) -> str | None:
    return next(
        (
            why
            for (document, first), why in BLOCKS.items()
            if block.document == Path(document) and block.text.lstrip("\n").startswith(first)
        ),
        None,
    )
