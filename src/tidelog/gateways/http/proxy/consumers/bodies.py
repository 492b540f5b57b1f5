"""Bodies of requests to consumer instances: topics, partitions, and offsets of partitions."""

from __future__ import annotations

from typing import Any, Final

from tidelog.gateways.http.messages import Request
from tidelog.gateways.http.proxy.errors import UNPROCESSABLE, ProxyError
from tidelog.gateways.http.schemas import INTEGER, OFFSET, PARTITION_INDEX, array, struct
from tidelog.gateways.membership import Subscription
from tidelog.model import limits
from tidelog.model.ids import TopicPartition

_OFFSET_MAX: Final = 2**63 - 2
"""The offset behind it can still be committed."""
_INDEX_MAX: Final = 2**31 - 1

_PARTITION: Final = struct({"topic": {"type": "string"}, "partition": PARTITION_INDEX})
_OFFSET: Final = struct(
    {
        "topic": {"type": "string"},
        "partition": PARTITION_INDEX,
        "offset": {**OFFSET, "maximum": _OFFSET_MAX},
        "metadata": {"type": ["string", "null"]},
    },
    ("topic", "partition", "offset"),
)
PARTITIONS: Final = struct({"partitions": array(_PARTITION)})
OFFSETS: Final = struct({"offsets": array(_OFFSET)})
SUBSCRIPTION: Final = struct(
    {
        "topics": {"type": ["array", "null"], "items": {"type": "string"}},
        "topic_pattern": {"type": ["string", "null"], "description": "A regular expression (RE2)."},
    },
    (),
)
PARTITIONS_EXAMPLE: Final = {"partitions": [{"topic": "clicks", "partition": 0}]}
OFFSETS_EXAMPLE: Final = {"offsets": [{"topic": "clicks", "partition": 0, "offset": 41}]}
TOPICS: Final = struct({"topics": array({"type": "string"})})
COMMITTED: Final = struct(
    {
        "offsets": array(
            struct(
                {
                    "topic": {"type": "string"},
                    "partition": INTEGER,
                    "offset": INTEGER,
                    "metadata": {"type": "string"},
                }
            )
        )
    }
)


def read_subscription(request: Request) -> Subscription:
    body = request.json()
    topics, pattern = (body.get("topics"), body.get("topic_pattern")) if isinstance(body, dict) else (None, None)
    if (topics is None) == (pattern is None):
        raise _wrong('The body must be {"topics": [...]} or {"topic_pattern": "..."}, one of both.')
    if pattern is not None:
        if not isinstance(pattern, str) or not pattern or not _is_text(pattern):
            raise _wrong("topic_pattern must be a regular expression.")
        return Subscription(pattern=pattern)
    if not isinstance(topics, list) or not all(isinstance(each, str) and each and _is_text(each) for each in topics):
        raise _wrong("topics must be an array of names.")
    if not topics:
        raise _wrong("topics is empty: delete the subscription to end it.")
    _check_count(topics)
    return Subscription(topics=tuple(dict.fromkeys(topics)))


def read_partitions(request: Request) -> list[TopicPartition]:
    """Each once, in their order."""
    return list(dict.fromkeys(_partition(name, each) for name, each in _entries(request.json(), "partitions")))


def read_offsets(body: Any) -> dict[TopicPartition, int]:
    offsets: dict[TopicPartition, int] = {}
    for name, each in _entries(body, "offsets"):
        partition = _partition(name, each)
        offsets[partition] = _number(each, f"{name}.offset", "offset", _OFFSET_MAX)
    return offsets


def _entries(body: Any, name: str) -> list[tuple[str, dict[str, Any]]]:
    entries = body.get(name) if isinstance(body, dict) else None
    if not isinstance(entries, list):
        raise _wrong(f'The body must be {{"{name}": [{{"topic": ..., "partition": ...}}, ...]}}.')
    _check_count(entries)
    for number, each in enumerate(entries):
        if not isinstance(each, dict):
            raise _wrong(f"{name}[{number}] must be an object with topic and partition.")
    return [(f"{name}[{number}]", each) for number, each in enumerate(entries)]


def _partition(name: str, said: dict[str, Any]) -> TopicPartition:
    topic = said.get("topic")
    if not isinstance(topic, str) or not topic or not _is_text(topic):
        raise _wrong(f"{name}.topic must be the name of a topic.")
    return TopicPartition(topic, _number(said, f"{name}.partition", "partition", _INDEX_MAX))


def _number(said: dict[str, Any], name: str, key: str, maximum: int) -> int:
    number = said.get(key)
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= maximum:
        raise _wrong(f"{name} must be an integer between 0 and {maximum}.")
    return number


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_count(entries: list[Any]) -> None:
    if len(entries) > limits.HTTP_CONSUMER_PARTITIONS_MAX:
        raise _wrong(f"A request names at most {limits.HTTP_CONSUMER_PARTITIONS_MAX} of them.")


def _wrong(message: str) -> ProxyError:
    return ProxyError(UNPROCESSABLE, message)
