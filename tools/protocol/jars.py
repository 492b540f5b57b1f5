"""Gets the published jars that hold Kafka's message definitions, through Maven, and reads the definitions."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path

from tools.protocol.schema import Message, parse_message

ARTIFACTS = {
    "kafka-clients": "common/message/",
    "kafka-metadata": "common/metadata/",
    "kafka-group-coordinator": "common/message/",
    "kafka-transaction-coordinator": "common/message/",
    "kafka-storage": "message/ProducerSnapshot",
    "kafka-raft": "common/message/",
}
"""Which definitions are read from which jar; those of tiered storage are not."""

_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tidelog</groupId><artifactId>message-definitions</artifactId><version>1</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
_DEPENDENCY = """\
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>{artifact}</artifactId><version>{version}</version>
      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>
    </dependency>"""


class JarsUnavailable(Exception):
    """The jars are not in the cache and cannot be fetched here."""


def jar_paths(version: str) -> list[Path]:
    """The jars in the cache of this machine, fetched when one is missing."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidelog" / f"kafka-{version}"
    paths = [cache / f"{artifact}-{version}.jar" for artifact in ARTIFACTS]
    if not all(path.is_file() for path in paths):
        _fetch(version, cache)
    return paths


def _fetch(version: str, cache: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise JarsUnavailable("Maven (mvn) is not installed, and the Kafka jars are not in the cache")
    cache.mkdir(parents=True, exist_ok=True)
    dependencies = "\n".join(_DEPENDENCY.format(artifact=artifact, version=version) for artifact in ARTIFACTS)
    with tempfile.TemporaryDirectory() as directory:
        pom = Path(directory) / "pom.xml"
        pom.write_text(_POM.format(dependencies=dependencies))
        command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={cache}"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise JarsUnavailable(f"Maven could not fetch the Kafka jars:\n{result.stdout}{result.stderr}".rstrip())


def read_messages(version: str) -> list[Message]:
    """Every message of which a version is left, except the two headers, which are written by hand."""
    messages = []
    for path, prefix in zip(jar_paths(version), ARTIFACTS.values(), strict=True):
        with zipfile.ZipFile(path) as jar:
            names = sorted(n for n in jar.namelist() if n.startswith(prefix) and n.endswith(".json"))
            if not names:
                raise JarsUnavailable(f"{path.name} holds no message definitions below {prefix}")
            messages += [parse_message(jar.read(name).decode()) for name in names]
    return [message for message in messages if message is not None and message.kind != "header"]
