"""Schemas in a schema registry, over its HTTP interface (Confluent's, Apicurio, Karapace and others speak it)."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidelog.pipelines.errors import PipelineError, Unreachable

ANSWER_TIMEOUT_S = 15.0
ANSWER_BYTES_MAX = 16 << 20
_MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
_OVERLOADED = (429, 500, 502, 503, 504)
"""Answers of a registry, or of what stands before it, that are about the moment and not about the question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A schema that another one imports by `name`."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """One version of a subject."""

    id: int
    version: int
    kind: str
    """AVRO, PROTOBUF or JSON."""
    schema: str
    references: tuple[Reference, ...] = ()


def subject_versions(registry: str, subject: str, kind: str) -> list[Registered]:
    """Every version of a subject, all of them schemas of one kind."""
    numbers = _ask(registry, f"/subjects/{_quoted(subject)}/versions", f"subject {subject}")
    found = [subject_version(registry, subject, int(number), kind) for number in numbers]
    if not found:
        raise PipelineError(f"subject {subject} at {registry} has no versions")
    return found


def subject_version(registry: str, subject: str, version: int | str, kind: str) -> Registered:
    """One version of a subject, or "latest". Protobuf is asked for as a descriptor; a registry may answer with text."""
    answer = _ask(registry, f"/subjects/{_quoted(subject)}/versions/{version}{_query(kind)}", f"subject {subject}")
    found = _registered(answer, identity=int(answer["id"]), version=int(answer["version"]))
    if found.kind != kind:
        name = kind.capitalize()
        raise PipelineError(f"subject {subject} at {registry} holds {found.kind} schemas, not {name}")
    return found


def schema_by_id(registry: str, identity: int, kind: str) -> Registered:
    """The schema that has an id, whatever has become of its subject; its version is not known."""
    answer = _ask(registry, f"/schemas/ids/{identity}{_query(kind)}", f"schema id {identity}")
    found = _registered(answer, identity=identity, version=0)
    if found.kind != kind:
        raise PipelineError(f"schema id {identity} at {registry} is {found.kind}, not {kind.capitalize()}")
    return found


def _query(kind: str) -> str:
    return "?format=serialized" if kind == "PROTOBUF" else ""


def _registered(answer: Any, *, identity: int, version: int) -> Registered:
    return Registered(
        id=identity,
        version=version,
        kind=str(answer.get("schemaType") or "AVRO"),
        schema=str(answer["schema"]),
        references=tuple(
            Reference(name=str(part["name"]), subject=str(part["subject"]), version=int(part["version"]))
            for part in answer.get("references") or ()
        ),
    )


def newest_version(registry: str, subject: str, kind: str) -> Registered | None:
    """The newest version of a subject; None where none is registered."""
    try:
        return subject_version(registry, subject, "latest", kind)
    except UnknownSubject:
        return None


def subject_schemas(registry: str, subject: str) -> dict[int, str]:
    """The Avro schemas of every version of a subject, by schema id."""
    return {found.id: found.schema for found in subject_versions(registry, subject, "AVRO")}


def register(registry: str, subject: str, schema: str, kind: str, references: Sequence[Reference] = ()) -> int:
    """The id of a schema, which is a version of the subject from now on; the same one whenever it is asked for."""
    body: dict[str, Any] = {"schema": schema}
    if kind != "AVRO":
        body["schemaType"] = kind
    if references:
        body["references"] = [
            {"name": part.name, "subject": part.subject, "version": part.version} for part in references
        ]
    answer = _ask(registry, f"/subjects/{_quoted(subject)}/versions", f"subject {subject}", json.dumps(body).encode())
    return int(answer["id"])


class UnknownSubject(PipelineError):
    """The registry answers, and has no such subject or schema."""


def _quoted(subject: str) -> str:
    return urllib.parse.quote(subject, safe="")


def _ask(registry: str, path: str, what: str, body: bytes | None = None) -> Any:
    url = registry.rstrip("/") + path
    if not url.startswith(("http://", "https://")):
        raise PipelineError(f"registry {registry!r}: give its URL, like http://127.0.0.1:8081")
    headers = {"Accept": f"{_MEDIA_TYPE}, application/json"}
    if body is not None:
        headers["Content-Type"] = _MEDIA_TYPE
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=ANSWER_TIMEOUT_S) as answer:
            return json.loads(answer.read(ANSWER_BYTES_MAX))
    except urllib.error.HTTPError as error:
        if error.code == 404:
            raise UnknownSubject(f"the schema registry at {registry} has no {what}") from None
        if error.code in _OVERLOADED:
            raise Unreachable(
                f"the schema registry at {registry} cannot be read", f"it answered {error.code}"
            ) from None
        if body is not None and error.code in (409, 422):
            refused = f"the schema registry at {registry} does not take the schema as a version of {what}"
            raise PipelineError(f"{refused}: {_reason(error)}") from None
        raise PipelineError(f"the schema registry at {registry} answered {error.code} to {path}") from None
    except OSError as error:
        raise Unreachable(f"the schema registry at {registry} cannot be read", str(error)) from None
    except ValueError as error:
        raise PipelineError(f"the schema registry at {registry} cannot be read: {error}") from None


def _reason(error: urllib.error.HTTPError) -> str:
    """What the registry says is wrong with a schema, in one line."""
    try:
        text = str(json.loads(error.read(ANSWER_BYTES_MAX)).get("message", ""))
    except (OSError, ValueError, AttributeError):
        text = ""
    return " ".join(text.split())[:500] or f"it answered {error.code}"
