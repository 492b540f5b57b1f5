"""Kafka's own classes read every message in every version and write the same bytes back."""

from __future__ import annotations

import io
import os
import random
import shutil
import struct
import subprocess
import zipfile
from pathlib import Path

import pytest
from tests.unit.protocol.reference import SCHEMAS
from tools.generate_protocol import KAFKA_VERSION
from tools.protocol.jars import JarsUnavailable, jar_paths

EXAMPLES = 8

pytestmark = pytest.mark.java


def find_jars() -> list[Path]:
    try:
        jars = jar_paths(KAFKA_VERSION)
    except JarsUnavailable as reason:
        jars = []
        missing = str(reason)
    else:
        missing = "" if shutil.which("java") else "Java is not installed"
    if missing:
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return jars


def class_names(jars: list[Path]) -> dict[str, str]:
    """The Java class of each message: requests and responses end in Data there."""
    found: dict[str, str] = {}
    for jar in jars:
        with zipfile.ZipFile(jar) as archive:
            for entry in archive.namelist():
                if entry.endswith(".class") and "$" not in entry and "/clients/" not in entry:
                    found.setdefault(Path(entry).stem, entry.removesuffix(".class").replace("/", "."))
    return {schema.name: found.get(f"{schema.name}Data") or found[schema.name] for schema in SCHEMAS}


def test_kafka_reads_every_message_and_writes_the_same() -> None:
    jars = find_jars()
    names = class_names(jars)
    chance = random.Random(43)
    cases = []
    for schema in SCHEMAS:
        for version in schema.versions:
            for _ in range(EXAMPLES):
                message = schema.build(schema.random_values(chance, version))
                cases.append((names[schema.name], version, message.encode(version)))
    lines = [struct.pack(">i", len(cases))]
    for name, version, data in cases:
        lines.append(struct.pack(">H", len(name)) + name.encode() + struct.pack(">hi", version, len(data)) + data)
    source = Path(__file__).with_name("RoundTrip.java")
    command = ["java", "-cp", os.pathsep.join(map(str, jars)), str(source)]
    result = subprocess.run(command, input=b"".join(lines), capture_output=True, check=False, timeout=110)
    assert result.returncode == 0, result.stderr.decode()
    answers = io.BytesIO(result.stdout)
    for name, version, data in cases:
        failed, size = struct.unpack(">?i", answers.read(5))
        answer = answers.read(size)
        assert not failed, (name, version, data, answer.decode())
        assert answer == data, (name, version)
    assert not answers.read()
