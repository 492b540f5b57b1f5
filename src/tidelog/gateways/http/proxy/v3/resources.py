"""Resources of v3: what every one has, where it is, and how routes declare it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from tidelog.gateways.http.messages import JSON, Request, Response, json_response
from tidelog.gateways.http.proxy.errors import ProxyError, respond_to_v3_fault
from tidelog.gateways.http.proxy.schemas import errors_as
from tidelog.gateways.http.routes import BodyRule, Content, Handle, Outcome, Parameter, Route, Schema
from tidelog.gateways.http.schemas import array, nullable, struct
from tidelog.model import limits

if TYPE_CHECKING:
    from tidelog.gateways.access import LogAccess

Path = tuple[tuple[str, object], ...]
"""Collections and what is meant in them, below the cluster: (("topics", "clicks"), ("partitions", 0))."""

_SINGULAR: Final = {
    "topics": "topic",
    "partitions": "partition",
    "replicas": "replica",
    "configs": "config",
    "brokers": "broker",
    "broker-configs": "broker-config",
    "consumer-groups": "consumer-group",
    "consumers": "consumer",
    "assignments": "assignment",
    "lags": "lag",
}


class Cluster:
    """The cluster of this node as one request sees it: links begin with the host that the client has asked."""

    __slots__ = ("_base", "id")

    def __init__(self, cluster_id: str, host: str) -> None:
        self.id: Final = cluster_id
        self._base = f"http://{host}/v3/clusters"

    def link(self, path: Path = (), collection: str = "") -> str:
        """To a resource, or to a collection of it."""
        parts = [self._base, quote(self.id, safe="")]
        for name, value in path:
            parts += (name, quote(str(value), safe=""))
        if collection:
            parts.append(collection)
        return "/".join(parts)

    def related(self, path: Path, collection: str = "") -> dict[str, str]:
        return {"related": self.link(path, collection)}

    def resource(self, kind: str, path: Path, fields: dict[str, Any]) -> dict[str, Any]:
        name = "".join(f"/{_SINGULAR[collection]}={value}" for collection, value in path)
        return {
            "kind": kind,
            "metadata": {"self": self.link(path), "resource_name": f"crn:///kafka={self.id}{name}"},
            "cluster_id": self.id,
            **fields,
        }

    def collection(self, kind: str, path: Path, name: str, data: list[dict[str, Any]]) -> Response:
        return json_response({"kind": kind, "metadata": {"self": self.link(path, name), "next": None}, "data": data})

    @property
    def base(self) -> str:
        """Where clusters are."""
        return self._base


def this_cluster(access: LogAccess, request: Request) -> Cluster:
    return Cluster(access.image.cluster_id, request.headers.get("host", "localhost"))


def open_cluster(access: LogAccess, request: Request, values: dict[str, Any]) -> Cluster:
    """Raises ProxyError where the path names another cluster."""
    cluster = this_cluster(access, request)
    if values["cluster_id"] != cluster.id:
        raise ProxyError(404, f"There is no cluster {values['cluster_id'][:100]} here: this one is {cluster.id}.")
    return cluster


# -- what routes declare -----------------------------------------------------------------------------------------------

CLUSTER: Final = Parameter("cluster_id", "path", {"type": "string"}, "The cluster's id.", is_required=True)
STRING: Final = {"type": "string"}
BOOLEAN: Final = {"type": "boolean"}
RELATED: Final = struct({"related": {"type": "string"}})


def resource_schema(kind: str, fields: dict[str, Any], optional: dict[str, Any] | None = None) -> Schema:
    required = {
        "kind": {"type": "string", "enum": [kind]},
        "metadata": struct({"self": STRING, "resource_name": nullable(STRING)}),
        "cluster_id": STRING,
        **fields,
    }
    return struct({**required, **(optional or {})}, tuple(required))


def collection_schema(kind: str, item: Schema) -> Schema:
    return struct(
        {
            "kind": {"type": "string", "enum": [kind]},
            "metadata": struct({"self": STRING, "next": {"type": ["string", "null"]}}),
            "data": array(item),
        }
    )


def v3_answer(text: str, schema: Schema, status: int = 200) -> Outcome:
    return Outcome(status, text, (Content(JSON, schema),))


def v3_body(schema: Schema, example: Any) -> BodyRule:
    return BodyRule((Content(JSON, schema, example),), limits.REQUEST_BYTES_MAX)


class V3Route:
    """Builds the routes below one path of a cluster."""

    __slots__ = ("_parameters", "_path", "_tag")

    def __init__(self, path: str, *parameters: Parameter, tag: str = "v3") -> None:
        self._path = f"/v3/clusters/{{cluster_id}}{path}"
        self._parameters = (CLUSTER, *parameters)
        self._tag = tag

    def __call__(
        self, method: str, handle: Handle, name: str, text: str, answer: Outcome, body: BodyRule | None = None
    ) -> Route:
        statuses = {400, 403, 404, 408, 413, 500, 503, 504} | ({422} if body is not None else set())
        if method != "GET":
            statuses.add(429)
        return Route(
            method,
            self._path,
            handle,
            name,
            text,
            self._tag,
            (answer, *errors_as(JSON, *statuses)),
            self._parameters,
            body,
            respond_to_fault=respond_to_v3_fault,
        )


def read_object(request: Request) -> dict[str, Any]:
    """The body. Raises HttpError or ProxyError for one that is no object."""
    body = request.json()
    if not isinstance(body, dict):
        raise ProxyError(422, "The body must be a JSON object.")
    return body


def field_of(body: dict[str, Any], name: str, kind: type, default: Any = None) -> Any:
    """A field, or its default where it is missing or null. Raises ProxyError for one of another type."""
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ProxyError(422, f"{name} must be {_TYPE_NAMES[kind]}.")
    if isinstance(value, int) and not -(2**31) <= value < 2**31:
        raise ProxyError(422, f"{name} must be a number of 32 bits.")
    if isinstance(value, str) and not is_text(value):
        raise ProxyError(422, f"{name} has half of a surrogate pair, which no UTF-8 has.")
    return value


def is_text(value: str) -> bool:
    """JSON can name half of a surrogate pair, which cannot be encoded."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


_TYPE_NAMES: Final = {str: "a string", int: "an integer", bool: "true or false", list: "an array", dict: "an object"}
