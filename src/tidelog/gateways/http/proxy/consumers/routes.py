"""v2's routes of consumer instances."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.gateways.http.proxy.consumers import bodies
from tidelog.gateways.http.proxy.consumers.calls import ConsumerCalls
from tidelog.gateways.http.proxy.consumers.settings import TIMEOUT_MS_MAX
from tidelog.gateways.http.proxy.errors import respond_to_v2_fault
from tidelog.gateways.http.proxy.formats import FORMATS
from tidelog.gateways.http.proxy.records import MAX_BYTES, records_outcome
from tidelog.gateways.http.proxy.schemas import NOTHING, v2_answer, v2_body, v2_errors
from tidelog.gateways.http.routes import BodyRule, Handle, Outcome, Parameter, Route
from tidelog.gateways.http.schemas import INTEGER, array, struct

if TYPE_CHECKING:
    from tidelog.gateways.http.proxy.consumers.instances import ConsumerInstances

_GROUP: Final = Parameter("group", "path", {"type": "string"}, "The group's id.", is_required=True)
_INSTANCE: Final = Parameter("instance", "path", {"type": "string"}, "The consumer's name.", is_required=True)
_PATH: Final = "/consumers/{group}/instances/{instance}"
_TIMEOUT: Final = Parameter(
    "timeout",
    "query",
    {"type": "integer", "minimum": 0, "maximum": TIMEOUT_MS_MAX},
    "How long to wait for records, in milliseconds; else as the consumer was created.",
)
_TEXT: Final = {"type": ["string", "null"]}
_SETTINGS: Final = struct(
    {
        "name": _TEXT,
        "format": {"type": ["string", "null"], "enum": [*FORMATS, None]},
        "auto.offset.reset": {"type": ["string", "null"], "enum": ["earliest", "latest", "none", None]},
        "auto.commit.enable": {"type": ["string", "boolean", "null"]},
        "fetch.min.bytes": {"type": ["string", "integer", "null"]},
        "consumer.request.timeout.ms": {"type": ["string", "integer", "null"]},
    },
    (),
)
_CREATED: Final = struct(
    {
        "instance_id": {"type": "string"},
        "base_uri": {"type": "string", "description": "Where the consumer is: requests to it go there."},
    }
)
_PARTITIONS_ANSWER: Final = struct({"partitions": array(struct({"topic": {"type": "string"}, "partition": INTEGER}))})


class _At:
    """Builds the routes at one path of a consumer."""

    __slots__ = ("_path",)

    def __init__(self, rest: str) -> None:
        self._path = f"{_PATH}{rest}"

    def __call__(
        self, method: str, handle: Handle, name: str, text: str, answer: Outcome, body: BodyRule | None = None
    ) -> Route:
        return Route(
            method,
            self._path,
            handle,
            name,
            text,
            "v2 consumers",
            (answer, *v2_errors(404, 409, 422)),
            (_GROUP, _INSTANCE),
            body,
            respond_to_fault=respond_to_v2_fault,
        )


def new_routes(instances: ConsumerInstances) -> tuple[Route, ...]:
    calls = ConsumerCalls(instances)
    partitions = v2_body(bodies.PARTITIONS, bodies.PARTITIONS_EXAMPLE)
    offsets = v2_body(bodies.OFFSETS, bodies.OFFSETS_EXAMPLE)
    return (
        *_life(calls),
        _At("/subscription")(
            "POST",
            calls.subscribe,
            "v2Subscribe",
            "Subscribes the consumer to topics: its group assigns it partitions of them.",
            NOTHING,
            v2_body(bodies.SUBSCRIPTION, {"topics": ["clicks"]}),
        ),
        _At("/subscription")(
            "GET",
            calls.get_subscription,
            "v2GetSubscription",
            "The topics that the consumer is subscribed to.",
            v2_answer("The topics.", bodies.TOPICS, {"topics": ["clicks"]}),
        ),
        _At("/subscription")("DELETE", calls.unsubscribe, "v2Unsubscribe", "Ends the subscription.", NOTHING),
        _At("/assignments")(
            "POST",
            calls.assign,
            "v2Assign",
            "Gives the consumer partitions that its client has chosen.",
            NOTHING,
            partitions,
        ),
        _At("/assignments")(
            "GET",
            calls.get_assignment,
            "v2GetAssignments",
            "The partitions that the consumer has.",
            v2_answer("The partitions.", _PARTITIONS_ANSWER, bodies.PARTITIONS_EXAMPLE),
        ),
        _At("/positions")("POST", calls.seek, "v2Seek", "Says which records come next.", NOTHING, offsets),
        _At("/positions/beginning")(
            "POST",
            calls.seek_to_beginning,
            "v2SeekToBeginning",
            "Reads from the first records on.",
            NOTHING,
            partitions,
        ),
        _At("/positions/end")(
            "POST",
            calls.seek_to_end,
            "v2SeekToEnd",
            "Reads what is written from now on.",
            NOTHING,
            partitions,
        ),
        _At("/offsets")(
            "POST",
            calls.commit,
            "v2Commit",
            "Commits the offsets of processed records; without a body, of all that the consumer has handed out.",
            v2_answer("The offsets are committed.", array({}), []),
            v2_body(bodies.OFFSETS, bodies.OFFSETS_EXAMPLE, is_required=False),
        ),
        _At("/offsets")(
            "GET",
            calls.get_committed,
            "v2GetCommitted",
            "The committed offsets of partitions; without a body, of those that the consumer has.",
            v2_answer("The offsets, where there are any.", bodies.COMMITTED),
            v2_body(bodies.PARTITIONS, bodies.PARTITIONS_EXAMPLE, is_required=False),
        ),
        _records(calls),
    )


def _life(calls: ConsumerCalls) -> tuple[Route, ...]:
    return (
        Route(
            "POST",
            "/consumers/{group}",
            calls.create,
            "v2CreateConsumer",
            "Creates a consumer in a group. It ends when it is deleted, or not used for five minutes.",
            "v2 consumers",
            (v2_answer("The consumer is there.", _CREATED), *v2_errors(409, 422, 429)),
            (_GROUP,),
            v2_body(_SETTINGS, {"format": "json", "auto.offset.reset": "earliest"}, is_required=False),
            respond_to_fault=respond_to_v2_fault,
        ),
        _At("")("DELETE", calls.delete, "v2DeleteConsumer", "Ends a consumer: it leaves its group.", NOTHING),
    )


def _records(calls: ConsumerCalls) -> Route:
    return Route(
        "GET",
        f"{_PATH}/records",
        calls.read,
        "v2Read",
        "Records that the consumer has not handed out yet.",
        "v2 consumers",
        (records_outcome("Records, none if none came in time."), *v2_errors(404, 405, 406, 409)),
        (_GROUP, _INSTANCE, _TIMEOUT, MAX_BYTES),
        ends_with_client=True,
        respond_to_fault=respond_to_v2_fault,
    )
