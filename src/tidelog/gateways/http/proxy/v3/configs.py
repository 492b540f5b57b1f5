"""v3: settings of topics, of one broker, and of all brokers together."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tidelog.gateways.http.messages import Answer, Request, Response, json_response
from tidelog.gateways.http.proxy.errors import ProxyError
from tidelog.gateways.http.proxy.v3.clusters import BROKER
from tidelog.gateways.http.proxy.v3.resources import (
    BOOLEAN,
    STRING,
    Cluster,
    Path,
    V3Route,
    collection_schema,
    field_of,
    open_cluster,
    read_object,
    resource_schema,
    v3_answer,
    v3_body,
)
from tidelog.gateways.http.proxy.v3.topics import TOPIC
from tidelog.gateways.http.routes import Outcome, Parameter, Route
from tidelog.gateways.http.schemas import INTEGER, array, nullable, struct
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.value import Value
from tidelog.protocol.index import ApiKey

if TYPE_CHECKING:
    from tidelog.gateways.access import LogAccess
    from tidelog.protocol.generated.describe_configs import DescribeConfigsResourceResult, DescribeConfigsResponse
    from tidelog.protocol.generated.incremental_alter_configs import IncrementalAlterConfigsResponse

_TOPIC: Final = 2
_BROKER: Final = 4
_OPERATIONS: Final = {"SET": 0, "DELETE": 1, "APPEND": 2, "SUBTRACT": 3}
_SOURCES: Final = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
}
_UNKNOWN_SOURCE: Final = "UNKNOWN"
_DEFAULT_SOURCE: Final = 5
_NAME: Final = Parameter("name", "path", STRING, "The setting's name.", is_required=True)


class Subject(Value):
    """What has settings."""

    kind: str
    path: str
    """Of its collection of settings, below the cluster."""
    parameters: tuple[Parameter, ...]
    resource_type: int
    resource_name: Callable[[dict[str, Any]], str]
    place: Callable[[dict[str, Any]], tuple[Path, str]]
    """Where the settings are: the resource, and the name of its collection."""
    fields: Callable[[dict[str, Any]], dict[str, Any]]
    """What every setting says of its subject."""
    node: Callable[[dict[str, Any]], int | None]
    """The node to ask; None for any."""
    fields_schema: dict[str, Any]
    noun: str
    """For the names of operations."""


async def _describe(
    access: LogAccess, subject: Subject, values: dict[str, Any], name: str | None = None
) -> list[DescribeConfigsResourceResult]:
    from tidelog.protocol.generated.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

    resource = DescribeConfigsResource(
        resource_type=subject.resource_type,
        resource_name=subject.resource_name(values),
        configuration_keys=None if name is None else [name],
    )
    response: DescribeConfigsResponse = await access.ask(
        ApiKey.DESCRIBE_CONFIGS,
        DescribeConfigsRequest(resources=[resource], include_synonyms=True),
        at=_node_to_ask(access, subject, values),
    )
    [result] = response.results
    if result.error_code:
        raise BrokerError(ErrorCode(result.error_code), result.error_message)
    return result.configs


def _node_to_ask(access: LogAccess, subject: Subject, values: dict[str, Any]) -> int | None:
    node = subject.node(values)
    if node is not None and not access.image.is_live(node):
        raise ProxyError(404, f"There is no broker {node} that is alive.")
    return node


async def _alter(
    access: LogAccess,
    subject: Subject,
    values: dict[str, Any],
    changes: list[tuple[str, int, str | None]],
    *,
    validate_only: bool = False,
) -> Response:
    from tidelog.protocol.generated.incremental_alter_configs import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )

    resource = AlterConfigsResource(
        resource_type=subject.resource_type,
        resource_name=subject.resource_name(values),
        configs=[
            AlterableConfig(name=name, config_operation=operation, value=value) for name, operation, value in changes
        ],
    )
    response: IncrementalAlterConfigsResponse = await access.ask(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only),
        at=_node_to_ask(access, subject, values),
    )
    [result] = response.responses
    if result.error_code:
        raise BrokerError(ErrorCode(result.error_code), result.error_message)
    return Response(status=204, content_type="")


def _as_resource(
    cluster: Cluster, subject: Subject, values: dict[str, Any], config: DescribeConfigsResourceResult
) -> dict[str, Any]:
    path, collection = subject.place(values)
    return cluster.resource(
        subject.kind,
        (*path, (collection, config.name)),
        {
            **subject.fields(values),
            "name": config.name,
            "value": config.value,
            "is_default": config.config_source == _DEFAULT_SOURCE,
            "is_read_only": config.read_only,
            "is_sensitive": config.is_sensitive,
            "source": _SOURCES.get(config.config_source, _UNKNOWN_SOURCE),
            "synonyms": [
                {"name": each.name, "value": each.value, "source": _SOURCES.get(each.source, _UNKNOWN_SOURCE)}
                for each in config.synonyms
            ],
        },
    )


def _read_changes(body: dict[str, Any]) -> list[tuple[str, int, str | None]]:
    said = field_of(body, "data", list)
    if not said:
        raise ProxyError(422, 'data is missing: the body must be {"data": [{"name": ..., "value": ...}, ...]}.')
    changes = []
    for number, each in enumerate(said):
        name = field_of(each, "name", str) if isinstance(each, dict) else None
        if name is None:
            raise ProxyError(422, f'data[{number}] must be {{"name": "retention.ms", "value": "1000"}}.')
        operation = field_of(each, "operation", str, "SET")
        if operation not in _OPERATIONS:
            raise ProxyError(422, f"data[{number}].operation must be one of {', '.join(_OPERATIONS)}.")
        changes.append((name, _OPERATIONS[operation], field_of(each, "value", str)))
    return changes


# -- routes ------------------------------------------------------------------------------------------------------------

_SYNONYM: Final = struct({"name": STRING, "value": nullable(STRING), "source": STRING})
_UPDATE: Final = struct({"value": nullable(STRING)}, ())
_ALTERATION: Final = struct(
    {
        "data": array(
            struct(
                {
                    "name": STRING,
                    "value": nullable(STRING),
                    "operation": {"type": ["string", "null"], "enum": [*_OPERATIONS, None]},
                },
                ("name",),
            ),
            minItems=1,
        ),
        "validate_only": BOOLEAN,
    },
    ("data",),
)
_DONE: Final = Outcome(204, "The settings are changed.")


def _routes_of(subject: Subject) -> tuple[Route, ...]:
    async def list_configs(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
        cluster = open_cluster(access, request, values)
        path, collection = subject.place(values)
        data = [_as_resource(cluster, subject, values, each) for each in await _describe(access, subject, values)]
        return cluster.collection(f"{subject.kind}List", path, collection, data)

    async def get_config(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
        cluster = open_cluster(access, request, values)
        for config in await _describe(access, subject, values, values["name"]):
            if config.name == values["name"]:
                return json_response(_as_resource(cluster, subject, values, config))
        raise ProxyError(404, f"There is no setting {values['name'][:200]} here.")

    async def put_config(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
        open_cluster(access, request, values)
        value = field_of(read_object(request), "value", str)
        return await _alter(access, subject, values, [(values["name"], _OPERATIONS["SET"], value)])

    async def delete_config(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
        open_cluster(access, request, values)
        return await _alter(access, subject, values, [(values["name"], _OPERATIONS["DELETE"], None)])

    async def alter_configs(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
        open_cluster(access, request, values)
        body = read_object(request)
        is_dry_run = field_of(body, "validate_only", bool, False)
        return await _alter(access, subject, values, _read_changes(body), validate_only=is_dry_run)

    schema = resource_schema(
        subject.kind,
        {
            **subject.fields_schema,
            "name": STRING,
            "value": nullable(STRING),
            "is_default": BOOLEAN,
            "is_read_only": BOOLEAN,
            "is_sensitive": BOOLEAN,
            "source": STRING,
            "synonyms": array(_SYNONYM),
        },
    )
    noun, words = subject.noun, subject.noun.lower()
    at_all = V3Route(subject.path, *subject.parameters)
    at_one = V3Route(f"{subject.path}/{{name}}", *subject.parameters, _NAME)
    at_alter = V3Route(f"{subject.path}:alter", *subject.parameters)
    return (
        at_all(
            "GET",
            list_configs,
            f"v3List{noun}Configs",
            f"The settings of a {words}.",
            v3_answer("The settings.", collection_schema(f"{subject.kind}List", schema)),
        ),
        at_one("GET", get_config, f"v3Get{noun}Config", "One setting.", v3_answer("The setting.", schema)),
        at_one(
            "PUT",
            put_config,
            f"v3Put{noun}Config",
            "Sets one setting.",
            _DONE,
            v3_body(_UPDATE, {"value": "gzip"}),
        ),
        at_one("DELETE", delete_config, f"v3Delete{noun}Config", "Takes one setting back to its default.", _DONE),
        at_alter(
            "POST",
            alter_configs,
            f"v3Alter{noun}Configs",
            "Changes several settings, all of them or none.",
            _DONE,
            v3_body(_ALTERATION, {"data": [{"name": "compression.type", "value": "gzip"}]}),
        ),
    )


_SUBJECTS: Final = (
    Subject(
        kind="KafkaTopicConfig",
        path="/topics/{topic_name}/configs",
        parameters=(TOPIC,),
        resource_type=_TOPIC,
        resource_name=lambda values: str(values["topic_name"]),
        place=lambda values: ((("topics", values["topic_name"]),), "configs"),
        fields=lambda values: {"topic_name": values["topic_name"]},
        node=lambda values: None,
        fields_schema={"topic_name": STRING},
        noun="Topic",
    ),
    Subject(
        kind="KafkaClusterConfig",
        path="/broker-configs",
        parameters=(),
        resource_type=_BROKER,
        resource_name=lambda values: "",
        place=lambda values: ((), "broker-configs"),
        fields=lambda values: {"config_type": "BROKER"},
        node=lambda values: None,
        fields_schema={"config_type": {"type": "string", "enum": ["BROKER"]}},
        noun="Cluster",
    ),
    Subject(
        kind="KafkaBrokerConfig",
        path="/brokers/{broker_id}/configs",
        parameters=(BROKER,),
        resource_type=_BROKER,
        resource_name=lambda values: str(values["broker_id"]),
        place=lambda values: ((("brokers", values["broker_id"]),), "configs"),
        fields=lambda values: {"broker_id": values["broker_id"]},
        node=lambda values: int(values["broker_id"]),
        fields_schema={"broker_id": INTEGER},
        noun="Broker",
    ),
)

ROUTES: Final = tuple(route for subject in _SUBJECTS for route in _routes_of(subject))
