"""Schemas from a schema registry over its HTTP interface (Confluent's, Karapace and others speak it)."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from tidelog.pipelines.errors import PipelineError, Unreachable

ANSWER_TIMEOUT_S = 15.0
ANSWER_BYTES_MAX = 16 << 20
_OVERLOADED = (429, 500, 502, 503, 504)
"""Answers of a registry, or of what stands before it, that are about the moment and not about the question."""


def subject_schemas(registry: str, subject: str) -> dict[int, str]:
    """The Avro schemas of every version of a subject, by schema id."""
    name = urllib.parse.quote(subject, safe="")
    found: dict[int, str] = {}
    for version in _get(registry, f"/subjects/{name}/versions", subject):
        answer = _get(registry, f"/subjects/{name}/versions/{int(version)}", subject)
        kind = answer.get("schemaType", "AVRO")
        if kind != "AVRO":
            raise PipelineError(f"subject {subject} at {registry} holds {kind} schemas; registry-avro reads Avro")
        found[int(answer["id"])] = str(answer["schema"])
    if not found:
        raise PipelineError(f"subject {subject} at {registry} has no versions")
    return found


def _get(registry: str, path: str, subject: str) -> Any:
    url = registry.rstrip("/") + path
    if not url.startswith(("http://", "https://")):
        raise PipelineError(f"registry {registry!r}: give its URL, like http://127.0.0.1:8081")
    try:
        with urllib.request.urlopen(url, timeout=ANSWER_TIMEOUT_S) as answer:
            return json.loads(answer.read(ANSWER_BYTES_MAX))
    except urllib.error.HTTPError as error:
        if error.code == 404:
            raise PipelineError(f"the schema registry at {registry} has no subject {subject}") from None
        if error.code in _OVERLOADED:
            raise Unreachable(
                f"the schema registry at {registry} cannot be read", f"it answered {error.code}"
            ) from None
        raise PipelineError(f"the schema registry at {registry} answered {error.code} to {path}") from None
    except OSError as error:
        raise Unreachable(f"the schema registry at {registry} cannot be read", str(error)) from None
    except ValueError as error:
        raise PipelineError(f"the schema registry at {registry} cannot be read: {error}") from None
