"""v2: records into a topic or a partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tidelog.gateways.http.messages import JSON, Answer, Request
from tidelog.gateways.http.proxy.appending import append, check_partition, find_topic_to_write
from tidelog.gateways.http.proxy.errors import (
    KAFKA_ERROR,
    RETRIABLE_KAFKA_ERROR,
    UNPROCESSABLE,
    ProxyError,
    respond_to_v2_fault,
)
from tidelog.gateways.http.proxy.formats import BINARY_FORMAT, BY_MEDIA_TYPE, JSON_FORMAT, Format, format_of_body
from tidelog.gateways.http.proxy.schemas import TEXTS, v2_answer, v2_errors, v2_response
from tidelog.gateways.http.routes import BodyRule, Content, Outcome, Route, Schema
from tidelog.gateways.http.schemas import ERROR, INTEGER, PARTITION, PARTITION_INDEX, TOPIC, array, nullable, struct
from tidelog.gateways.partitioner import next_turn, partition_of_key
from tidelog.model import limits
from tidelog.model.value import Value
from tidelog.records.builder import NewRecord

if TYPE_CHECKING:
    from tidelog.gateways.access import LogAccess
    from tidelog.gateways.http.proxy.appending import RecordOutcome
    from tidelog.metadata.topics import TopicImage


class SentRecord(Value):
    record: NewRecord
    partition: int | None
    """None: by the key."""


async def produce_to_topic(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
    sent = read_records_of_body(request.json(), format_of_body(request), access.now_ms())
    topic = await find_topic_to_write(access, values["topic"])
    return await _produce(access, request, topic, sent, await _choose_partitions(topic, sent))


async def produce_to_partition(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
    index = values["partition"]
    sent = read_records_of_body(request.json(), format_of_body(request), access.now_ms())
    topic = await find_topic_to_write(access, values["topic"])
    check_partition(topic, index)
    return await _produce(access, request, topic, sent, [index] * len(sent))


def read_records_of_body(body: Any, form: Format, now_ms: int) -> list[SentRecord]:
    records = body.get("records") if isinstance(body, dict) else None
    if not isinstance(records, list) or not records:
        raise ProxyError(
            UNPROCESSABLE, 'The body must be {"records": [{"key": ..., "value": ...}, ...]} with at least one record.'
        )
    return [_read_record(f"records[{number}]", each, form, now_ms) for number, each in enumerate(records)]


def _read_record(name: str, said: Any, form: Format, now_ms: int) -> SentRecord:
    if not isinstance(said, dict):
        raise ProxyError(UNPROCESSABLE, f'{name} is not an object such as {{"key": ..., "value": ...}}.')
    partition = said.get("partition")
    if partition is not None and (not isinstance(partition, int) or isinstance(partition, bool) or partition < 0):
        raise ProxyError(UNPROCESSABLE, f"{name}.partition is not the number of a partition.")
    data: dict[str, bytes | None] = {}
    for field in ("key", "value"):
        try:
            data[field] = form.decode(said.get(field))
        except ValueError as error:
            raise ProxyError(UNPROCESSABLE, f"{name}.{field} {error}.") from None
    return SentRecord(NewRecord(data["key"], data["value"], now_ms), partition)


async def _choose_partitions(topic: TopicImage, sent: list[SentRecord]) -> list[int]:
    count = len(topic.partitions)
    keyless: int | None = None
    chosen: list[int] = []
    for each in sent:
        if each.partition is not None:
            check_partition(topic, each.partition)
            chosen.append(each.partition)
        elif each.record.key is not None:
            chosen.append(await partition_of_key(each.record.key, count))
        else:
            if keyless is None:
                keyless = next_turn(count)
            chosen.append(keyless)
    return chosen


async def _produce(
    access: LogAccess, request: Request, topic: TopicImage, sent: list[SentRecord], partitions: list[int]
) -> Answer:
    by_partition: dict[int, list[NewRecord]] = {}
    for each, index in zip(sent, partitions, strict=True):
        by_partition.setdefault(index, []).append(each.record)
    outcomes = {index: iter(found) for index, found in (await append(access, topic.name, by_partition)).items()}
    return v2_response(
        request,
        {
            "offsets": [_describe(index, next(outcomes[index])) for index in partitions],
            "key_schema_id": None,
            "value_schema_id": None,
        },
    )


def _describe(index: int, outcome: RecordOutcome) -> dict[str, Any]:
    error = outcome.error
    if error is None:
        return {"partition": index, "offset": outcome.offset, "error_code": None, "error": None}
    number = RETRIABLE_KAFKA_ERROR if error.code.is_retriable else KAFKA_ERROR
    return {"partition": index, "offset": None, "error_code": number, "error": error.message}


# -- routes ------------------------------------------------------------------------------------------------------------


def _records(form: Format, *, with_partition: bool) -> Schema:
    fields: dict[str, Any] = {"key": form.schema, "value": form.schema}
    if with_partition:
        fields["partition"] = nullable(PARTITION_INDEX)
    return struct({"records": array(struct(fields, ()), minItems=1)})


def _body(*, with_partition: bool) -> BodyRule:
    examples: tuple[tuple[Format, Any], ...] = (
        (JSON_FORMAT, {"records": [{"key": "alice", "value": {"clicks": 3}}]}),
        (BINARY_FORMAT, {"records": [{"key": "YWxpY2U=", "value": "aGVsbG8="}]}),
    )
    contents = tuple(
        Content(form.media_type, _records(form, with_partition=with_partition), example) for form, example in examples
    )
    return BodyRule(contents, limits.HTTP_JSON_BYTES_MAX)


_OFFSETS: Final = struct(
    {
        "offsets": array(
            struct(
                {
                    "partition": INTEGER,
                    "offset": nullable(INTEGER),
                    "error_code": {
                        "type": ["integer", "null"],
                        "description": "50003 where sending the record again may help, 50002 for other errors.",
                    },
                    "error": {"type": ["string", "null"]},
                }
            )
        ),
        "key_schema_id": {"type": "null"},
        "value_schema_id": {"type": "null"},
    }
)
_OUTCOMES: Final = (
    v2_answer(
        "For each record where it is, or why it is not in the log.",
        _OFFSETS,
        {
            "offsets": [{"partition": 0, "offset": 42, "error_code": None, "error": None}],
            "key_schema_id": None,
            "value_schema_id": None,
        },
    ),
    *v2_errors(404, 422, 429),
)
_OTHER_TYPE: Final = Outcome(415, TEXTS[415], (Content(JSON, ERROR),))
"""Said by the door: no route takes such a body."""

ROUTES: Final = (
    Route(
        "POST",
        "/topics/{topic}",
        produce_to_topic,
        "v2ProduceToTopic",
        "Appends records, each to the partition that it names, or else by its key.",
        "v2",
        (*_OUTCOMES, _OTHER_TYPE),
        (TOPIC,),
        _body(with_partition=True),
        tuple(BY_MEDIA_TYPE),
        respond_to_fault=respond_to_v2_fault,
    ),
    Route(
        "POST",
        "/topics/{topic}/partitions/{partition}",
        produce_to_partition,
        "v2ProduceToPartition",
        "Appends records to one partition.",
        "v2",
        _OUTCOMES,
        (TOPIC, PARTITION),
        _body(with_partition=False),
        tuple(BY_MEDIA_TYPE),
        respond_to_fault=respond_to_v2_fault,
    ),
)
