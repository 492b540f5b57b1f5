"""How keys and values stand in JSON bodies of v2: as the JSON that they are, or as base64 of any bytes."""

from __future__ import annotations

import binascii
import json
from base64 import b64encode
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, NoReturn

from tidelog.gateways.http.proxy.errors import FORMAT_MISMATCH, ProxyError
from tidelog.gateways.http.routes import Schema
from tidelog.gateways.http.schemas import BASE64, INTEGER, array, nullable, struct
from tidelog.model.value import Value

if TYPE_CHECKING:
    from tidelog.gateways.http.messages import Request
    from tidelog.records.record import Record


class Format(Value):
    name: str
    media_type: str
    schema: Schema
    """Of a key or a value."""
    decode: Callable[[Any], bytes | None]
    """The bytes of a value in a body. Raises ValueError, with what is wrong."""
    encode: Callable[[bytes | None], str]
    """The JSON text of a record's bytes. Raises ValueError where they are none."""


# -- JSON --------------------------------------------------------------------------------------------------------------


def decode_json_value(value: Any) -> bytes | None:
    if value is None:
        return None
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        raise ValueError("has half of a surrogate pair, which no UTF-8 has") from None
    except ValueError:
        raise ValueError("has a number that no JSON has") from None


def encode_json_value(data: bytes | None) -> str:
    """The text is passed on as it is: what a producer wrote keeps all digits."""
    if data is None:
        return "null"
    try:
        text = data.decode()
        json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise ValueError("is not JSON") from None
    return text


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


# -- binary ------------------------------------------------------------------------------------------------------------


def decode_base64_value(value: Any) -> bytes | None:
    if value is None:
        return None
    try:
        if isinstance(value, str):
            return binascii.a2b_base64(value, strict_mode=True)
    except ValueError:
        pass
    raise ValueError("is not a base64 string")


def encode_base64_value(data: bytes | None) -> str:
    return "null" if data is None else f'"{b64encode(data).decode()}"'


JSON_V2: Final = "application/vnd.kafka.json.v2+json"
BINARY_V2: Final = "application/vnd.kafka.binary.v2+json"

JSON_FORMAT: Final = Format("json", JSON_V2, {}, decode_json_value, encode_json_value)
BINARY_FORMAT: Final = Format("binary", BINARY_V2, nullable(BASE64), decode_base64_value, encode_base64_value)
FORMATS: Final = {each.name: each for each in (BINARY_FORMAT, JSON_FORMAT)}
BY_MEDIA_TYPE: Final = {each.media_type: each for each in FORMATS.values()}


def format_of_body(request: Request) -> Format:
    """As its type says. The router takes what a client accepts for a body of which that is not said."""
    found = BY_MEDIA_TYPE.get(request.media_type) or accepted_format(request)
    if found is None:
        raise ProxyError(415, f"Content-Type must be one of {', '.join(BY_MEDIA_TYPE)}.")
    return found


def accepted_format(request: Request) -> Format | None:
    """What the client names first; None where it names no format."""
    for said in request.headers.get("accept", "").split(","):
        found = BY_MEDIA_TYPE.get(said.partition(";")[0].strip().lower())
        if found is not None:
            return found
    return None


# -- records -----------------------------------------------------------------------------------------------------------


def records_schema(form: Format) -> Schema:
    return array(
        struct(
            {
                "topic": {"type": "string"},
                "key": form.schema,
                "value": form.schema,
                "partition": INTEGER,
                "offset": INTEGER,
            }
        )
    )


def encode_records(form: Format, found: Iterable[tuple[str, int, Record]]) -> bytes:
    """Records with their topics and partitions. Raises ProxyError for one that is not of the format."""
    return f"[{','.join([_encode(form, topic, index, record) for topic, index, record in found])}]".encode()


def _encode(form: Format, topic: str, index: int, record: Record) -> str:
    texts = []
    for name, data in (("key", record.key), ("value", record.value)):
        try:
            texts.append(form.encode(data))
        except ValueError as error:
            raise ProxyError(
                FORMAT_MISMATCH,
                f"The {name} of the record at offset {record.offset} of {topic}-{index} {error}: "
                f"read it as {BINARY_V2}.",
            ) from None
    key, value = texts
    return f'{{"topic":"{topic}","key":{key},"value":{value},"partition":{index},"offset":{record.offset}}}'


def size_of(record: Record) -> int:
    """As `max_bytes` counts it: key and value."""
    return len(record.key or b"") + len(record.value or b"")
