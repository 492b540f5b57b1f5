"""JSON schemas and answers that several routes declare."""

from __future__ import annotations

from typing import Any, Final

from tidelog.gateways.http.messages import JSON
from tidelog.gateways.http.routes import Content, Outcome, Parameter
from tidelog.model import limits

INTEGER: Final = {"type": "integer"}
OFFSET: Final = {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}
PARTITION_INDEX: Final = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
TOPIC_NAME: Final = {
    "type": "string",
    "minLength": 1,
    "maxLength": limits.TOPIC_NAME_LENGTH_MAX,
    "pattern": r"^(?!\.{1,2}$)[a-zA-Z0-9._-]+$",
}
BASE64: Final = {
    "type": "string",
    "contentEncoding": "base64",
    "pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
}


def struct(properties: dict[str, Any], required: tuple[str, ...] | None = None) -> dict[str, Any]:
    """Of an object that has all these properties, unless `required` names fewer."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties if required is None else required),
    }


def array(items: Any, **bounds: int) -> dict[str, Any]:
    return {"type": "array", "items": items, **bounds}


def nullable(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "type": [schema["type"], "null"]}


ERROR: Final = struct(
    {
        "code": {"type": "integer", "description": "The HTTP status once more."},
        "message": {"type": "string"},
        "kafkaError": {"type": ["string", "null"], "description": "Kafka's name of the error, where it has one."},
    }
)

TOPIC: Final = Parameter("topic", "path", TOPIC_NAME, "The topic's name.", is_required=True)
PARTITION: Final = Parameter("partition", "path", PARTITION_INDEX, "The partition's number.", is_required=True)

_ERROR_CONTENT: Final = (Content(JSON, ERROR),)

_ERRORS: Final = {
    400: "The request is wrong; the message says how.",
    401: "The request does not say who asks.",
    403: "The caller may not do this.",
    404: "There is no such topic or partition.",
    405: "The path does not answer this method.",
    408: "The request did not arrive in time.",
    409: "The state of what is named does not allow it.",
    410: "Records that the session has seen are lost; the token of this answer begins anew.",
    413: "The body or the record is too large.",
    414: "The path is too long.",
    415: "The body has a content type that this path does not take.",
    416: "The offset is not in the log.",
    417: "An expectation that this server does not meet.",
    429: "A quota is used up; Retry-After says when to come back.",
    431: "The headers are too large.",
    500: "The node met an unexpected error; its log says more.",
    501: "A transfer encoding that this server does not have.",
    503: "No node can answer now; send the request again later.",
    504: "The answer did not come in time. What was sent may have been written.",
}


def errors(*statuses: int) -> tuple[Outcome, ...]:
    """The error answers of a route, besides those that any request may get."""
    return tuple(Outcome(status, _ERRORS[status], _ERROR_CONTENT) for status in sorted({400, 403, 500, 503, *statuses}))


ELSEWHERE: Final = Outcome(
    307, "Another node answers this: ask again there.", headers=(("Location", "The same request at that node."),)
)
