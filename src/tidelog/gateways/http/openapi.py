"""The OpenAPI 3.1 document of the door, and a page for people, both from the routes themselves."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING, Any, Final

from tidelog.gateways.http.messages import JSON, TEXT, Answer, Request, Response, encode_json
from tidelog.gateways.http.routes import Content, Outcome, Parameter, Route
from tidelog.gateways.http.schemas import ERROR
from tidelog.version import __version__

if TYPE_CHECKING:
    from tidelog.gateways.access import LogAccess

HTML: Final = "text/html; charset=utf-8"
_REFERENCE: Final = {"$ref": "#/components/schemas/Error"}


def describe(routes: Iterable[Route]) -> dict[str, Any]:
    """The document. Routes that differ in the content type of their bodies only are one operation in it."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        operations = paths.setdefault(route.path, {})
        known = operations.get(route.method.lower())
        operation = _operation(route)
        operations[route.method.lower()] = operation if known is None else _merge(known, operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tidelog over HTTP",
            "version": __version__,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {"schemas": {"Error": ERROR}},
    }


def _operation(route: Route) -> dict[str, Any]:
    described: dict[str, Any] = {"operationId": route.name, "summary": route.text, "tags": [route.tag]}
    if route.parameters:
        described["parameters"] = [_parameter(each) for each in route.parameters]
    if route.body is not None:
        described["requestBody"] = {
            "required": route.body.is_required,
            "content": {each.media_type: _content(each) for each in route.body.content},
        }
    described["responses"] = {str(each.status): _outcome(each) for each in route.outcomes}
    described["responses"]["default"] = {
        "description": "For any request: it is not HTTP/1.1, it is too large or too slow, or its method is wrong.",
        "content": {JSON: {"schema": _REFERENCE}},
    }
    return described


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.is_required,
        "description": parameter.text,
        "schema": parameter.schema,
    }


def _content(content: Content) -> dict[str, Any]:
    schema = _REFERENCE if content.schema is ERROR else content.schema
    return {"schema": schema} if content.example is None else {"schema": schema, "example": content.example}


def _outcome(outcome: Outcome) -> dict[str, Any]:
    described: dict[str, Any] = {"description": outcome.text}
    if outcome.content:
        described["content"] = {each.media_type: _content(each) for each in outcome.content}
    if outcome.headers:
        described["headers"] = {
            name: {"description": text, "schema": {"type": "string"}} for name, text in outcome.headers
        }
    return described


def _merge(known: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """One operation that takes and gives what either does."""
    names = {(each["name"], each["in"]) for each in known.get("parameters", ())}
    parameters = [
        *known.get("parameters", ()),
        *(each for each in other.get("parameters", ()) if (each["name"], each["in"]) not in names),
    ]
    merged = {
        **known,
        "summary": f"{known['summary']} {other['summary']}",
        "parameters": parameters,
        "responses": dict(known["responses"]),
    }
    for status, response in other["responses"].items():
        before = merged["responses"].get(status)
        if before is None:
            merged["responses"][status] = response
            continue
        content = {**before.get("content", {})}
        for media_type, described in response.get("content", {}).items():
            first = content.get(media_type)
            if first is not None and first["schema"] != described["schema"]:
                described = {"schema": {"anyOf": [first["schema"], described["schema"]]}}
            content[media_type] = described
        merged["responses"][status] = {**before, "content": content} if content else before
    bodies = [each["requestBody"] for each in (known, other) if "requestBody" in each]
    if bodies:
        merged["requestBody"] = {
            "required": all(each["required"] for each in bodies) and len(bodies) == 2,
            "content": {name: each for body in bodies for name, each in body["content"].items()},
        }
    return merged


# -- the page ----------------------------------------------------------------------------------------------------------

_STYLE: Final = """
:root{color-scheme:light dark;--line:#8884;--soft:#8881;--accent:#0b6bcb}
@media (prefers-color-scheme:dark){:root{--accent:#6db3ff}}
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:0 auto;padding:1rem}
h1{font-size:1.6rem}h2{font-size:1.15rem;margin-top:2.2rem}
details{border:1px solid var(--line);border-radius:.4rem;margin:.5rem 0}
summary{padding:.5rem .8rem;cursor:pointer;overflow-wrap:anywhere}
summary b{color:var(--accent);display:inline-block;min-width:4.2rem}
summary span{display:block;opacity:.8}
details>div{padding:0 .8rem .8rem;overflow-x:auto}
table{border-collapse:collapse;width:100%}th,td{text-align:left;vertical-align:top;padding:.25rem .8rem .25rem 0}
tr{border-top:1px solid var(--line)}
code,pre{font:.9em ui-monospace,monospace}pre{background:var(--soft);padding:.6rem;overflow-x:auto}
"""


def render_page(routes: Iterable[Route]) -> str:
    """Every route with its parameters and answers; nothing is loaded from anywhere."""
    by_tag: dict[str, list[Route]] = {}
    for route in routes:
        by_tag.setdefault(route.tag, []).append(route)
    sections = "".join(
        f"<h2>{escape(tag.capitalize())}</h2>{''.join(map(_render_route, those))}" for tag, those in by_tag.items()
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Tidelog over HTTP</title><style>{_STYLE}</style></head><body><main>"
        f"<h1>Tidelog {escape(__version__)} over HTTP</h1>"
        '<p>The same as an OpenAPI 3.1 document: <a href="/openapi.json">/openapi.json</a>.</p>'
        f"{sections}</main></body></html>"
    )


def _render_route(route: Route) -> str:
    parts = []
    if route.parameters:
        rows = "".join(
            f"<tr><td><code>{escape(each.name)}</code></td><td>{each.place}</td>"
            f"<td>{escape(_type_of(each))}</td><td>{escape(each.text)}</td></tr>"
            for each in route.parameters
        )
        parts.append(f"<table><tr><th>Parameter</th><th>In</th><th>Type</th><th></th></tr>{rows}</table>")
    if route.body is not None:
        parts.extend(_render_content("Body", each) for each in route.body.content)
    rows = "".join(
        f"<tr><td><code>{each.status}</code></td><td>{escape(each.text)}</td></tr>" for each in route.outcomes
    )
    parts.append(f"<table><tr><th>Answer</th><th></th></tr>{rows}</table>")
    parts.extend(
        _render_content("Example", content)
        for outcome in route.outcomes
        for content in outcome.content
        if content.example is not None
    )
    return (
        f"<details><summary><b>{route.method}</b> <code>{escape(route.path)}</code>"
        f"<span>{escape(route.text)}</span></summary><div>{''.join(parts)}</div></details>"
    )


def _render_content(title: str, content: Content) -> str:
    example = "" if content.example is None else f"<pre>{escape(encode_json(content.example).decode())}</pre>"
    return f"<p>{title}: <code>{escape(content.media_type)}</code></p>{example}"


def _type_of(parameter: Parameter) -> str:
    schema = parameter.schema
    words = [str(schema["type"])]
    if "enum" in schema:
        words.append(" | ".join(schema["enum"]))
    if parameter.is_required:
        words.append("required")
    elif "default" in schema:
        words.append(f"default {encode_json(schema['default']).decode()}")
    return ", ".join(words)


def document_routes(described: Iterable[Route]) -> tuple[Route, ...]:
    """The routes that tell of the others, and of themselves."""
    routes: list[Route] = list(described)

    async def show_document(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
        return Response(encode_json(describe(routes)))

    async def show_page(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
        headers = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
        return Response(render_page(routes).encode(), content_type=HTML, headers=headers)

    async def show_index(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
        return Response(f"tidelog {__version__}\n\n/docs\n/openapi.json\n".encode(), content_type=TEXT)

    own = (
        Route(
            "GET",
            "/",
            show_index,
            "showIndex",
            "Where to read on.",
            "documents",
            (Outcome(200, "The paths.", (Content(TEXT, {"type": "string"}),)),),
        ),
        Route(
            "GET",
            "/openapi.json",
            show_document,
            "showOpenApi",
            "This API as an OpenAPI 3.1 document.",
            "documents",
            (Outcome(200, "The document.", (Content(JSON, {"type": "object"}),)),),
        ),
        Route(
            "GET",
            "/docs",
            show_page,
            "showDocs",
            "This API as a page.",
            "documents",
            (Outcome(200, "The page.", (Content(HTML, {"type": "string"}),)),),
        ),
    )
    routes.extend(own)
    return own
