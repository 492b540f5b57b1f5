"""What the v2 calls declare: parameters, bodies and answers that several of them share."""

from __future__ import annotations

from typing import Any, Final

from tidelog.gateways.http.messages import JSON, Request, Response, encode_json
from tidelog.gateways.http.proxy.errors import V2
from tidelog.gateways.http.routes import BodyRule, Content, Outcome, Schema
from tidelog.gateways.http.schemas import INTEGER, struct
from tidelog.model import limits

ERROR: Final = struct(
    {
        "error_code": {"type": "integer", "description": "The HTTP status, or a number that begins with it."},
        "message": {"type": "string"},
    }
)

TEXTS: Final = {
    400: "The request is wrong; the message says how.",
    403: "The caller may not do this.",
    404: "There is no such thing; error_code says what is missing.",
    405: "The call answers GET only, not HEAD.",
    406: "The records are not of the format that is asked for.",
    408: "The request did not arrive in time.",
    409: "What is named is in a state that does not allow it.",
    413: "The body or the record is too large.",
    415: "The body has a content type that this path does not take.",
    422: "The body is JSON, and not what this call takes; the message says why.",
    429: "A quota or a bound is used up; Retry-After says when to come back.",
    500: "The node met an unexpected error; its log says more.",
    503: "No node can answer now; send the request again later.",
    504: "The answer did not come in time. What was sent may have been written.",
}


def v2_errors(*statuses: int) -> tuple[Outcome, ...]:
    """The error answers of a v2 call, besides those that any may get."""
    return errors_as(V2, 400, 403, 408, 413, 500, 503, 504, *statuses)


def errors_as(media_type: str, *statuses: int) -> tuple[Outcome, ...]:
    content = (Content(media_type, ERROR),)
    return tuple(Outcome(status, TEXTS[status], content) for status in sorted(set(statuses)))


def v2_answer(text: str, schema: Schema, example: Any = None) -> Outcome:
    return Outcome(200, text, (Content(V2, schema, example), Content(JSON, schema, example)))


def v2_body(schema: Schema, example: Any = None, *, is_required: bool = True) -> BodyRule:
    contents = (Content(V2, schema, example), Content(JSON, schema, example))
    return BodyRule(contents, limits.HTTP_JSON_BYTES_MAX, is_required=is_required)


NOTHING: Final = Outcome(204, "Done.")


def v2_response(request: Request, value: object) -> Response:
    return Response(encode_json(value), content_type=v2_media_type(request))


def v2_media_type(request: Request) -> str:
    """v2's own, unless the client only names plain JSON."""
    accepted = request.headers.get("accept", "")
    return JSON if JSON in accepted and "vnd.kafka" not in accepted else V2


REPLICA: Final = struct({"broker": INTEGER, "leader": {"type": "boolean"}, "in_sync": {"type": "boolean"}})
