"""Protobuf schemas in a schema registry: found, compiled, registered.

A schema there is one file. What it imports is registered under subjects of their own and named as references; the
files of Protobuf itself are part of every installation. Registries answer with the text of the file or, asked for it
and able to, with its descriptor; text is compiled by protoc (grpcio-tools), in a process of its own.
"""

from __future__ import annotations

import base64
import binascii
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from tidelog.pipelines.errors import MissingRequirement, PipelineError
from tidelog.pipelines.formats.protobuf_schema import find_message, in_order_of_imports
from tidelog.pipelines.formats.registry import Reference, Registered, register, subject_version, subject_versions

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

REFERENCES_MAX = 200
COMPILE_TIMEOUT_S = 60.0
_MAIN = "tidelog_registered_schema.proto"
_WELL_KNOWN = "google/protobuf/"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownMessages:
    """The messages of every version of a subject."""

    described: bytes
    """The newest version, as a descriptor set."""
    first: str
    """The message that stands first in it."""
    writers: dict[int, dict[tuple[int, ...], str]]
    """Schema id -> where a message stands -> its full name."""


def known_messages(registry: str, subject: str) -> KnownMessages:
    versions = subject_versions(registry, subject, "PROTOBUF")
    compiled = {found.version: compile_registered(registry, subject, found) for found in versions}
    writers = {found.id: message_paths(compiled[found.version][1]) for found in versions}
    newest = max(versions, key=lambda found: found.version)
    if (0,) not in writers[newest.id]:
        raise PipelineError(f"version {newest.version} of subject {subject} at {registry} has no message")
    return KnownMessages(described=compiled[newest.version][0], first=writers[newest.id][(0,)], writers=writers)


def compile_registered(registry: str, subject: str, found: Registered) -> tuple[bytes, FileDescriptorProto]:
    """A schema as a descriptor set with all that it imports, and its own file in it."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    schemas = {_MAIN: found.schema, **_imported(registry, found.references)}
    described = {name: descriptor for name, text in schemas.items() if (descriptor := _descriptor(name, text))}
    texts = {name: text for name, text in schemas.items() if name not in described}
    if texts:
        files = _compile(texts, described, f"version {found.version} of subject {subject}")
    else:
        files = in_order_of_imports(described.values())
    [own] = [file for file in files if file.name == _MAIN]
    return FileDescriptorSet(file=files).SerializeToString(), own


def _imported(registry: str, references: Sequence[Reference]) -> dict[str, str]:
    """The schemas of references, and of theirs, by the name they are imported by."""
    found: dict[str, str] = {}
    waiting = list(references)
    while waiting:
        reference = waiting.pop()
        if reference.name in found:
            continue
        if len(found) == REFERENCES_MAX:
            raise PipelineError(f"a Protobuf schema of {registry} imports more than {REFERENCES_MAX} others")
        answer = subject_version(registry, reference.subject, reference.version, "PROTOBUF")
        found[reference.name] = answer.schema
        waiting.extend(answer.references)
    return found


def _descriptor(name: str, schema: str) -> FileDescriptorProto | None:
    """The file of a schema that came as a descriptor; None for text."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    try:
        file = FileDescriptorProto.FromString(base64.b64decode(schema, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        return None
    file.name = name
    return file


def _compile(texts: Mapping[str, str], described: Mapping[str, FileDescriptorProto], what: str) -> list[Any]:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    if find_spec("grpc_tools") is None:
        raise MissingRequirement(f"{what} is the text of a .proto file; pip install grpcio-tools to compile it")
    with tempfile.TemporaryDirectory(prefix="tidelog-protobuf-") as directory:
        for name, text in texts.items():
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts:
                raise PipelineError(f"{what} imports {name}, which is no name of a file")
            place = Path(directory) / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        compiled, given = Path(directory) / "compiled.desc", Path(directory) / "given.desc"
        command = [sys.executable, "-m", "grpc_tools.protoc", "--include_imports", f"--descriptor_set_out={compiled}"]
        command.append(f"--proto_path={directory}")
        if described:
            given.write_bytes(FileDescriptorSet(file=in_order_of_imports(described.values())).SerializeToString())
            command.append(f"--descriptor_set_in={given}")
        main = _MAIN if _MAIN in texts else sorted(texts)[0]
        done = subprocess.run([*command, main], capture_output=True, text=True, check=False, timeout=COMPILE_TIMEOUT_S)
        if done.returncode != 0:
            raise PipelineError(f"{what} does not compile: {(done.stderr.strip().splitlines() or ['no reason'])[0]}")
        files = list(FileDescriptorSet.FromString(compiled.read_bytes()).file)
    present = {file.name for file in files}
    return in_order_of_imports([*files, *(file for name, file in described.items() if name not in present)])


def message_paths(file: FileDescriptorProto) -> dict[tuple[int, ...], str]:
    """Where each message stands in a file, and its full name."""
    found: dict[tuple[int, ...], str] = {}

    def visit(messages: Any, above: tuple[int, ...], prefix: str) -> None:
        for index, message in enumerate(messages):
            name = f"{prefix}.{message.name}".lstrip(".")
            found[(*above, index)] = name
            visit(message.nested_type, (*above, index), name)

    visit(file.message_type, (), file.package)
    return found


def register_message(registry: str, subject: str, described: bytes, name: str) -> tuple[int, tuple[int, ...]]:
    """Registers the file of a message with what it imports; the schema's id, and where the message stands in it."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    message = find_message(described, name)
    references = _register_imports(registry, message.file, {})
    identity = register(registry, subject, _encoded(message.file), "PROTOBUF", references)
    paths = message_paths(FileDescriptorProto.FromString(message.file.serialized_pb))
    return identity, path_of(paths, message)


def path_of(paths: Mapping[tuple[int, ...], str], message: Descriptor) -> tuple[int, ...]:
    return next(path for path, name in paths.items() if name == message.full_name)


def _register_imports(registry: str, file: Any, done: dict[str, Reference]) -> list[Reference]:
    """Each imported file is a subject by its name, as other producers of Protobuf have it."""
    for imported in file.dependencies:
        if imported.name.startswith(_WELL_KNOWN) or imported.name in done:
            continue
        references = _register_imports(registry, imported, done)
        identity = register(registry, imported.name, _encoded(imported), "PROTOBUF", references)
        versions = subject_versions(registry, imported.name, "PROTOBUF")
        version = next(found.version for found in versions if found.id == identity)
        done[imported.name] = Reference(name=imported.name, subject=imported.name, version=version)
    return [done[imported.name] for imported in file.dependencies if imported.name in done]


def _encoded(file: Any) -> str:
    return base64.b64encode(file.serialized_pb).decode()
