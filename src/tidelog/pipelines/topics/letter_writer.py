"""What runs in a task that found bad records: writes them to the dead-letter topic and waits until they are
acknowledged.

Imported by Spark's Python workers; one producer per worker and target stays open between batches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

FLUSH_TIMEOUT_S = 120.0
_producers: dict[tuple[str, ...], Any] = {}


def letter_sender(topic: str, settings: Mapping[str, Any]) -> Callable[[pa.Array], pa.Array]:
    """A function over an Arrow column of letters (null: nothing to send) that says which rows stay: those without
    one."""

    def send(letters: pa.Array) -> pa.Array:
        if letters.null_count < len(letters):
            send_letters(topic, settings, [letter for letter in letters.to_pylist() if letter is not None])
        return letters.is_null()

    send.__annotations__ = {"letters": pa.Array, "return": pa.Array}
    return send


def send_letters(topic: str, settings: Mapping[str, Any], letters: list[dict[str, Any]]) -> None:
    """Raises unless every letter was acknowledged: a record that is not written here would be lost without a word."""
    producer = _producer(settings)
    failures: list[str] = []

    def delivered(error: Any, _: Any) -> None:
        if error is not None:
            failures.append(error.str())

    for letter in letters:
        headers = [(header["key"], header["value"]) for header in letter["headers"]]
        while True:
            try:
                producer.produce(topic, letter["value"], letter["key"], headers=headers, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
    waiting = producer.flush(FLUSH_TIMEOUT_S)
    if failures or waiting:
        _producers.clear()
        reason = failures[0] if failures else f"no answer in {FLUSH_TIMEOUT_S:.0f} s"
        raise RuntimeError(f"{len(failures) or waiting} dead letters could not be written to topic {topic}: {reason}")


def _producer(settings: Mapping[str, Any]) -> Any:
    from confluent_kafka import Producer

    identity = tuple(f"{name}={value}" for name, value in sorted(settings.items()))
    if identity not in _producers:
        _producers.clear()
        _producers[identity] = Producer(dict(settings))
    return _producers[identity]
