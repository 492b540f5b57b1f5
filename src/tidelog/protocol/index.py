"""Which APIs there are, in which versions their schemas exist, and where their classes live.

The versions here are those of the schemas; which of them this node serves is decided in `tidelog.api.table`.
Classes are imported on first use: a node should not pay at start for APIs that are not called.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final, cast

from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.generated.api_keys import METADATA_RECORDS, SCHEMAS, ApiKey
from tidelog.protocol.message import Message

__all__ = [
    "ApiKey",
    "api_name",
    "field_names",
    "is_flexible",
    "is_response_header_flexible",
    "metadata_record_class",
    "request_class",
    "response_class",
    "schema_versions",
]

_NEVER: Final = 32768
_API_VERSIONS: Final = int(ApiKey.API_VERSIONS)
_FLEXIBLE_FROM: Final = {key: _NEVER if schema[4] is None else schema[4] for key, schema in SCHEMAS.items()}
_classes: dict[tuple[str, str], type[Message]] = {}


def _load(module: str, name: str) -> type[Message]:
    loaded = _classes.get((module, name))
    if loaded is None:
        loaded = cast("type[Message]", getattr(import_module(f"tidelog.protocol.generated.{module}"), name))
        _classes[module, name] = loaded
    return loaded


def _schema(api_key: int) -> tuple[str, str, int, int, int | None, bool]:
    schema = SCHEMAS.get(api_key)
    if schema is None:
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"there is no API with key {api_key}")
    return schema


def request_class(api_key: int) -> type[Message]:
    schema = _schema(api_key)
    return _load(schema[0], f"{schema[1]}Request")


def response_class(api_key: int) -> type[Message]:
    schema = _schema(api_key)
    return _load(schema[0], f"{schema[1]}Response")


def field_names(message: Any) -> tuple[str, ...]:
    """Of a message class."""
    names: tuple[str, ...] = message.__slots__
    return names


def metadata_record_class(record_type: int) -> type[Message]:
    """The class of a record of the metadata log by its type."""
    entry = METADATA_RECORDS.get(record_type)
    if entry is None:
        raise BrokerError(ErrorCode.INVALID_RECORD, f"there is no metadata record of type {record_type}")
    return _load(*entry)


def api_name(api_key: int) -> str:
    """The name as Kafka's documents write it, "CreateTopics"; a number where the key is unknown."""
    schema = SCHEMAS.get(api_key)
    return schema[1] if schema is not None else str(api_key)


def schema_versions(api_key: int) -> tuple[int, int]:
    """The first and the last stable version of the schema."""
    _, _, low, high, _, unstable = _schema(api_key)
    return low, high - 1 if unstable and high > low else high


def is_flexible(api_key: int, version: int) -> bool:
    """Whether the request (header and body) is written with compact sizes and tagged fields."""
    return version >= _FLEXIBLE_FROM.get(api_key, _NEVER)


def is_response_header_flexible(api_key: int, version: int) -> bool:
    """As `is_flexible`, but never for ApiVersions: clients read its header before they know the versions."""
    return api_key != _API_VERSIONS and version >= _FLEXIBLE_FROM.get(api_key, _NEVER)
