"""Which route a request gets, and what its handler may rely on."""

from __future__ import annotations

from typing import Any

import pytest

from tidelog.gateways.http.door import all_routes
from tidelog.gateways.http.messages import Body, HttpError, Request, Response
from tidelog.gateways.http.openapi import describe, render_page
from tidelog.gateways.http.proxy.consumers.instances import ConsumerInstances
from tidelog.gateways.http.routes import BodyRule, Content, Outcome, Parameter, Route, Router, read_parameters

ROUTES = all_routes(ConsumerInstances())
DONE = (Outcome(200, "Done."),)


async def answer(*_: object) -> Response:
    return Response()


def new_route(method: str, path: str, name: str, **more: Any) -> Route:
    return Route(method, path, answer, name, f"Answers {name}.", "tests", DONE, **more)


ROUTER = Router(
    [
        new_route("GET", "/topics", "list"),
        new_route("GET", "/topics/{topic}", "get"),
        new_route("POST", "/topics/{topic}", "post"),
        new_route("POST", "/topics/{topic}", "postJson", media_types=("application/vnd.kafka.json.v2+json",)),
        new_route("PUT", "/topics/{topic}", "put", media_types=("application/json",)),
        new_route("GET", "/topics/{topic}/partitions/{partition}", "partition"),
        new_route("GET", "/topics/all", "all"),
    ]
)


def request_of(method: str, target: str, headers: dict[str, str] | None = None) -> Request:
    path, _, query = target.partition("?")
    return Request(method, path, query, headers or {}, Body(lambda _: None))


@pytest.mark.parametrize(
    ("content_type", "accept", "name"),
    [
        ("", "*/*, application/vnd.kafka.json.v2+json", "postJson"),
        ("", "", "post"),
        ("application/octet-stream", "application/vnd.kafka.json.v2+json", "post"),
    ],
)
def test_what_a_client_accepts_counts_where_its_body_has_no_type(content_type: str, accept: str, name: str) -> None:
    request = request_of("POST", "/topics/a", {"content-type": content_type, "accept": accept})
    assert ROUTER.find(request).name == name


def test_a_path_that_is_no_utf_8_is_an_error_in_the_form_of_its_route() -> None:
    request = request_of("GET", "/topics/%FF")
    with pytest.raises(HttpError, match="not UTF-8"):
        ROUTER.find(request)
    assert request.route is not None
    assert request.route.name == "get"


@pytest.mark.parametrize(
    ("method", "target", "content_type", "name", "values"),
    [
        ("GET", "/topics", "", "list", ()),
        ("GET", "/topics/a", "", "get", ("a",)),
        ("HEAD", "/topics/a", "", "get", ("a",)),
        ("GET", "/topics/all", "", "all", ()),
        ("GET", "/topics/a%20b%2Fc", "", "get", ("a b/c",)),
        ("GET", "/topics/a/partitions/7?x=1", "", "partition", ("a", "7")),
        ("POST", "/topics/a", "text/plain", "post", ("a",)),
        ("POST", "/topics/a", "application/vnd.kafka.json.v2+json; charset=utf-8", "postJson", ("a",)),
        ("PUT", "/topics/a", "application/json", "put", ("a",)),
    ],
)
def test_routes_are_found(method: str, target: str, content_type: str, name: str, values: tuple[str, ...]) -> None:
    request = request_of(method, target, {"content-type": content_type})
    assert ROUTER.find(request).name == name
    assert request.path_values == values


@pytest.mark.parametrize(
    ("method", "target", "status", "message"),
    [
        ("GET", "/nothing", 404, "There is nothing at /nothing."),
        ("GET", "/topics/a/b", 404, "There is nothing at /topics/a/b."),
        ("GET", "/topics/a/partitions", 404, "There is nothing at /topics/a/partitions."),
        ("GET", "*", 404, "There is nothing at *."),
        ("DELETE", "/topics/a", 405, "/topics/a answers GET, POST, PUT, not DELETE."),
        ("PUT", "/topics/a", 415, "Content-Type must be one of application/json."),
        ("GET", "/topics/%ff", 400, "The path is not UTF-8."),
    ],
)
def test_what_has_no_route(method: str, target: str, status: int, message: str) -> None:
    with pytest.raises(HttpError) as caught:
        ROUTER.find(request_of(method, target))
    assert (caught.value.status, caught.value.message) == (status, message)


PARAMETERS = (
    Parameter("id", "path", {"type": "integer", "minimum": 0, "maximum": 9}, "A digit.", is_required=True),
    Parameter("wait", "query", {"type": "integer", "minimum": 0, "maximum": 100, "default": 5}, "Milliseconds."),
    Parameter("full", "query", {"type": "boolean", "default": False}, "All of it."),
    Parameter("acks", "query", {"type": "string", "enum": ["all", "1"], "default": "all"}, "How many."),
    Parameter("X-Key", "header", {"type": "string"}, "A key."),
    Parameter("must", "query", {"type": "string"}, "It has to be there.", is_required=True),
)
ROUTE = new_route("GET", "/x/{id}", "x", parameters=PARAMETERS)


def test_parameters_have_their_types_and_defaults() -> None:
    request = request_of("GET", "/x/3?must=a%20b&full=1", {"x-key": "k"})
    request.take_route(ROUTE, ("3",))
    assert read_parameters(ROUTE, request) == {
        "id": 3,
        "wait": 5,
        "full": True,
        "acks": "all",
        "X-Key": "k",
        "must": "a b",
    }


@pytest.mark.parametrize(
    ("value", "query", "message"),
    [
        ("x", "must=1", "id must be an integer, not 'x'."),
        ("10", "must=1", "id must be between 0 and 9, not 10."),
        ("1", "must=1&wait=1_0", "wait must be an integer, not '1_0'."),
        ("1", "must=1&wait=-1", "wait must be between 0 and 100, not -1."),
        ("1", "must=1&wait=" + "9" * 30, f"wait must be an integer, not {'9' * 30!r}."),
        ("1", "must=1&wait=%D9%A3", "wait must be an integer, not '٣'."),
        ("1", "must=1&full=maybe", "full must be 0 or 1, not 'maybe'."),
        ("1", "must=1&acks=2", "acks must be one of all, 1, not '2'."),
        ("1", "", "must is missing: It has to be there."),
        (
            "1",
            "must=%ff",
            "The query cannot be read: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte.",
        ),
    ],
)
def test_wrong_parameters_are_named(value: str, query: str, message: str) -> None:
    request = request_of("GET", f"/x/{value}?{query}")
    request.take_route(ROUTE, (value,))
    with pytest.raises(HttpError) as caught:
        read_parameters(ROUTE, request)
    assert (caught.value.status, caught.value.message) == (400, message)


# -- what the routes say of themselves ---------------------------------------------------------------------------------


def test_every_route_of_the_door_has_a_name_of_its_own_and_declares_its_path() -> None:
    names = [route.name for route in ROUTES]
    assert len(set(names)) == len(names)
    for route in ROUTES:
        in_path = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
        assert in_path == [each.name for each in route.parameters if each.place == "path"], route.path


def test_the_document_has_every_route() -> None:
    document = describe(ROUTES)
    assert document["openapi"] == "3.1.0"
    for route in ROUTES:
        operation = document["paths"][route.path][route.method.lower()]
        statuses = {str(outcome.status) for outcome in route.outcomes}
        assert statuses <= set(operation["responses"])


def test_routes_that_share_a_path_are_one_operation_of_the_document() -> None:
    def body(media_type: str) -> BodyRule:
        return BodyRule((Content(media_type, {"type": "string"}),), 10)

    document = describe(
        [
            new_route("POST", "/a", "one", body=body("text/plain")),
            new_route("POST", "/a", "two", body=body("text/csv"), media_types=("text/csv",)),
        ]
    )
    operation = document["paths"]["/a"]["post"]
    assert operation["operationId"] == "one"
    assert set(operation["requestBody"]["content"]) == {"text/plain", "text/csv"}


def test_the_page_shows_every_route_and_loads_nothing() -> None:
    page = render_page(ROUTES)
    for route in ROUTES:
        assert route.path in page
    assert "src=" not in page
    assert "http" not in page.replace("HTTP", "").lower() or "://" not in page
