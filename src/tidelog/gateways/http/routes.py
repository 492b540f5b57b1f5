"""Routes: which method and path is answered by which handler, and what the handler may rely on.

A route says everything that the OpenAPI document says (`openapi.py`): its parameters with their types and bounds, its
body, its answers. What a client sends is checked against that before the handler is called.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from tidelog.gateways.http.messages import Answer, HttpError, Request, Response
from tidelog.model.value import Value

if TYPE_CHECKING:
    from tidelog.gateways.access import LogAccess
    from tidelog.model.errors import BrokerError

Handle = Callable[["LogAccess", Request, dict[str, Any]], Awaitable[Answer]]
"""Takes the parameters by name, each of the type that its route declares."""

Schema = Mapping[str, Any]
"""Of JSON Schema, as OpenAPI 3.1 has it."""


class Parameter(Value):
    name: str
    place: str
    """path, query or header."""
    schema: Schema
    """With `type` integer, boolean or string; `minimum`, `maximum`, `enum` and `default` are honoured here."""
    text: str
    is_required: bool = False


class Content(Value):
    """A body, of a request or of an answer."""

    media_type: str
    schema: Schema
    example: Any = None


class Outcome(Value):
    """An answer that a route may give."""

    status: int
    text: str
    content: tuple[Content, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    """Names, each with what it says."""


class BodyRule(Value):
    """What comes with a request."""

    content: tuple[Content, ...]
    bytes_max: int
    is_streamed: bool = False
    """The handler is called before the body has arrived, and reads it as it comes."""
    is_required: bool = True


class Route(Value):
    method: str
    path: str
    """With names in braces."""
    handle: Handle
    name: str
    """A word that identifies it: the operation id of the OpenAPI document."""
    text: str
    tag: str
    outcomes: tuple[Outcome, ...]
    parameters: tuple[Parameter, ...] = ()
    body: BodyRule | None = None
    media_types: tuple[str, ...] = ()
    """Of bodies (of the answers wanted, where there is none) for which the route is taken rather than the one with the
    same path that names none."""
    ends_with_client: bool = False
    """Whether the handler ends when the client has closed its side: what it would still take from the log, such as a
    record for a member of a group, would reach nobody."""
    respond_to_fault: Callable[[HttpError | BrokerError], Response] | None = None
    """For routes whose errors have a form of their own."""


class Router:
    """Finds routes by method and path."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes: Final = tuple(routes)
        self._root = _Place()
        for route in self.routes:
            place = self._root
            for segment in route.path.split("/")[1:]:
                place = place.step(segment)
            place.routes.setdefault(route.method, []).append(route)

    def find(self, request: Request) -> Route:
        """Notes the route and the values of its path in the request. Raises HttpError where there is none."""
        values: list[str] = []
        place: _Place | None = self._root
        for segment in request.path.split("/")[1:]:
            assert place is not None
            known = place.named.get(segment)
            if known is None and place.any is not None:
                values.append(segment)
                known = place.any
            place = known
            if place is None:
                break
        if place is None or not place.routes:
            raise HttpError(404, f"There is nothing at {request.path[:200]}.")
        candidates = place.routes.get("GET" if request.method == "HEAD" else request.method)
        if candidates is None:
            allowed = sorted(place.routes)
            raise HttpError(
                405,
                f"{request.path[:200]} answers {', '.join(allowed)}, not {request.method}.",
                headers={"Allow": ", ".join(allowed)},
            )
        route = _choose(candidates, request)
        request.take_route(route, ())
        # The route says how errors look, so that of a segment comes last.
        request.take_route(route, tuple([_decode_segment(segment) for segment in values]))
        return route

    def methods_of(self, path: str) -> list[str]:
        """Those that a path answers; for a browser that asks before it sends."""
        place: _Place | None = self._root
        for segment in path.split("/")[1:]:
            place = None if place is None else place.named.get(segment) or place.any
        return [] if place is None else sorted(place.routes)


class _Place:
    """A node of the tree of paths."""

    __slots__ = ("any", "named", "routes")

    def __init__(self) -> None:
        self.named: dict[str, _Place] = {}
        self.any: _Place | None = None
        self.routes: dict[str, list[Route]] = {}

    def step(self, segment: str) -> _Place:
        if not segment.startswith("{"):
            return self.named.setdefault(segment, _Place())
        if self.any is None:
            self.any = _Place()
        return self.any


def _choose(candidates: list[Route], request: Request) -> Route:
    """By the content type of the body, or by what the client accepts."""
    if len(candidates) == 1 and not candidates[0].media_types:
        return candidates[0]
    for said in [request.media_type] if request.media_type else _accepted(request):
        for route in candidates:
            if said in route.media_types:
                return route
    for route in candidates:
        if not route.media_types:
            return route
    known = sorted({media_type for route in candidates for media_type in route.media_types})
    raise HttpError(415, f"Content-Type must be one of {', '.join(known)}.")


def _accepted(request: Request) -> list[str]:
    return [each.partition(";")[0].strip().lower() for each in request.headers.get("accept", "").split(",")]


def _decode_segment(segment: str) -> str:
    if "%" not in segment:
        return segment
    try:
        return unquote(segment, errors="strict")
    except UnicodeDecodeError:
        raise HttpError(400, "The path is not UTF-8.") from None


def read_parameters(route: Route, request: Request) -> dict[str, Any]:
    """The parameters of the route by name. Raises HttpError for one that is missing or wrong."""
    values: dict[str, Any] = {}
    path_values = iter(request.path_values)
    for parameter in route.parameters:
        said: str | None
        if parameter.place == "path":
            said = next(path_values)
        elif parameter.place == "query":
            said = request.query.get(parameter.name) if request.query_string else None
        else:
            said = request.headers.get(parameter.name.lower())
        if said is None:
            if parameter.is_required:
                raise HttpError(400, f"{parameter.name} is missing: {parameter.text}")
            values[parameter.name] = parameter.schema.get("default")
        else:
            values[parameter.name] = _read_value(parameter, said)
    return values


def _read_value(parameter: Parameter, said: str) -> Any:
    schema, name = parameter.schema, parameter.name
    kind = schema["type"]
    if kind == "integer":
        # int() takes more than digits: underscores, spaces, digits of other scripts.
        digits = said[1:] if said.startswith("-") else said
        if not (digits.isascii() and digits.isdigit()) or len(digits) > 20:
            raise HttpError(400, f"{name} must be an integer, not {said[:40]!r}.")
        number = int(said)
        low, high = schema.get("minimum"), schema.get("maximum")
        if (low is not None and number < low) or (high is not None and number > high):
            raise HttpError(400, f"{name} must be between {low} and {high}, not {number}.")
        return number
    if kind == "boolean":
        if said not in BOOLEANS:
            raise HttpError(400, f"{name} must be 0 or 1, not {said[:40]!r}.")
        return BOOLEANS[said]
    choices = schema.get("enum")
    if choices is not None and said not in choices:
        raise HttpError(400, f"{name} must be one of {', '.join(choices)}, not {said[:40]!r}.")
    return said


BOOLEANS: Final = {"1": True, "true": True, "0": False, "false": False}
